"""Words of a shell script: quotes, expansions, and the parsed script they belong to.

A `ShellScript` keeps what distinguishes code from data. Syntax that is unknown, or that versions of
the shell read differently, is an error, never text.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from msgspec import Struct, field

from joey.core.text import compile_regex

EXPANSION_PLACEHOLDER = "\0"


class ExpansionKind(Enum):
    PARAMETER = "the value of a variable"
    ARRAY_ELEMENT = "an element of an array"
    NUMBER = "the result of arithmetic, or a length"
    COMMAND = "the output of commands"
    OTHER = "anything else"


class Expansion(Struct, frozen=True):
    kind: ExpansionKind
    raw: str
    is_quoted: bool
    parameter_name: str = ""


class Word(Struct, frozen=True):
    raw: str
    text: str
    """Without quotes; `EXPANSION_PLACEHOLDER` stands for each expansion."""
    expansions: tuple[Expansion, ...] = ()
    has_pattern: bool = False
    """A pattern, braces or a tilde outside quotes."""

    @property
    def is_literal(self) -> bool:
        return not self.expansions and not self.has_pattern


class SimpleCommand(Struct, frozen=True):
    words: tuple[Word, ...]
    assigned_variables: tuple[str, ...]
    """Variables that are set before its words."""
    here_inputs: list[Word]
    """Its here-documents and here-strings. Those of a group of commands are a command of their own,
    without words."""


class IndirectOrTransformedParameter(Struct, frozen=True):
    """A parameter expansion that does more than return a value."""

    raw: str
    is_indirect: bool
    transformation: str = ""  # `P` in `${x@P}`


class ShellScript(Struct):
    commands: list[SimpleCommand] = field(default_factory=list)
    conditions: list[tuple[Word, ...]] = field(default_factory=list)
    """The words between `[[` and `]]`."""
    arithmetic_expressions: list[Word] = field(default_factory=list)
    """Expressions, subscripts and offsets."""
    indirect_or_transformed_parameters: list[IndirectOrTransformedParameter] = field(
        default_factory=list
    )
    process_substitutions: list[str] = field(default_factory=list)
    assignments: dict[str, list[Word | None]] = field(default_factory=dict)
    """By variable, each value that it is given; None for one that the script does not spell out."""
    function_names: list[str] = field(default_factory=list)

    def add_assignment(self, name: str, value: Word | None) -> None:
        self.assignments.setdefault(name, []).append(value)


_MAX_NESTING = 40
VARIABLE_NAME_PATTERN = "[A-Za-z_][A-Za-z0-9_]*"
_PLAIN_TEXT_RE = compile_regex(r"[^ \t\n;&|()<>'\"\\$`*?\[{~]+")
_ARRAY_ASSIGNMENT_RE = compile_regex(rf"({VARIABLE_NAME_PATTERN})\+?=")
_PARAMETER_RE = compile_regex(
    rf"(?P<length>[#](?=(?:{VARIABLE_NAME_PATTERN}|\d+|[@*#?$!-])[}}\[]))?(?P<indirect>!(?![}}:]))?"
    rf"(?P<name>{VARIABLE_NAME_PATTERN}|\d+|[@*#?$!-])"
)
_SIMPLE_PARAMETER_RE = compile_regex(rf"{VARIABLE_NAME_PATTERN}|[0-9@*#?$!-]")
_PARAMETER_OPERATOR_RE = compile_regex(r":?[-=?+]|##?|%%?|/[/#%]?|\^\^?|,,?")
_TRANSFORMATION_RE = compile_regex(r"@([A-Za-z])(?=\})")
_NAME_LISTING_RE = compile_regex(r"[@*](?=\})")
_SINGLE_QUOTES_RE = compile_regex("'[^']*'")
_ANSI_C_QUOTE_RE = compile_regex(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL)
_BACKTICKS_RE = compile_regex(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)
_BACKTICK_ESCAPE_RE = compile_regex(r"\\([$`\\])")
_BLANKS_AND_COMMENT_RE = compile_regex(r"(?:[ \t]|\\\n)*(?:#[^\n]*)?")


class UnsupportedSyntaxError(Exception):
    """The script has syntax that this parser does not know."""


class _WordBuilder:
    def __init__(self) -> None:
        self.text_parts: list[str] = []
        self.expansions: list[Expansion] = []
        self.has_pattern = False

    def add_expansion(self, kind: ExpansionKind, raw: str, quoted: bool, name: str = "") -> None:
        self.text_parts.append(EXPANSION_PLACEHOLDER)
        self.expansions.append(Expansion(kind, raw, quoted, name))

    def build(self, raw: str) -> Word:
        return Word(raw, "".join(self.text_parts), tuple(self.expansions), self.has_pattern)


class WordParser(ABC):
    """Reads the words of a text; the subclass reads the commands in expansions."""

    def __init__(self, text: str, script: ShellScript, depth: int) -> None:
        self._text = text
        self._script = script
        self._depth = depth
        self._position = 0

    @abstractmethod
    def parse_commands(self, until: str = "") -> None:
        """Read commands up to the end of the text, or to `until`."""

    @abstractmethod
    def _skip_blanks_and_newlines(self) -> None:
        """Skip blanks, comments and line breaks."""

    def parse_here_document(self) -> Word:
        """Parse the whole text as the body of a here-document."""
        built = _WordBuilder()
        while char := self._peek():
            if char == "\\":
                built.text_parts.append(self._text[self._position : self._position + 2])
                self._position += 2
            elif char in "$`":
                self._parse_expansion(built, quoted=True)
            else:
                built.text_parts.append(char)
                self._position += 1
        return built.build(self._text)

    def _parse_word(self, *, may_be_empty: bool = False) -> Word:
        start, built = self._position, _WordBuilder()
        while char := self._peek():
            if run := self._take(_PLAIN_TEXT_RE):
                built.text_parts.append(run[0])
            elif char in "<>" and self._peek(1) == "(":
                self._parse_process_substitution(built)
            elif char == "(" and _ARRAY_ASSIGNMENT_RE.fullmatch(self._text, start, self._position):
                self._parse_array()
                built.add_expansion(
                    ExpansionKind.OTHER, self._text[start : self._position], quoted=True
                )
            elif char in " \t\n;&|()<>":
                break
            else:
                self._parse_special_character(char, built, start)
        if self._position == start and not may_be_empty:
            raise UnsupportedSyntaxError
        return built.build(self._text[start : self._position])

    def _parse_array(self) -> None:
        self._expect("(")
        while True:
            self._skip_blanks_and_newlines()
            if self._take_text(")"):
                return
            if is_element := self._take_text("["):
                self._parse_arithmetic("]")
                self._expect("+=", "=")
            self._parse_word(may_be_empty=is_element)

    def _parse_special_character(self, char: str, built: _WordBuilder, start: int) -> None:
        """Parse one special character of a word."""
        match char:
            case "'":
                if (found := self._take(_SINGLE_QUOTES_RE)) is None:
                    raise UnsupportedSyntaxError
                built.text_parts.append(found[0][1:-1])
            case '"':
                self._parse_double_quotes(built)
            case "\\":
                built.text_parts.append(self._peek(1).replace("\n", ""))
                self._position += 2
            case "$" | "`":
                self._parse_expansion(built, quoted=False)
            case _:
                is_home = char == "~" and (self._position == start or self._peek(-1) in "=:")
                is_braces = char == "{" and self._peek(1) != "}"
                built.has_pattern |= char in "*?[" or is_home or is_braces
                built.text_parts.append(char)
                self._position += 1

    def _parse_double_quotes(self, built: _WordBuilder) -> None:
        self._position += 1
        while not self._take_text('"'):
            char = self._peek()
            if not char:
                raise UnsupportedSyntaxError
            if char in "$`":
                self._parse_expansion(built, quoted=True)
            elif char == "\\" and self._peek(1) in '$`"\\\n':
                built.text_parts.append(self._peek(1).replace("\n", ""))
                self._position += 2
            else:
                built.text_parts.append(char)
                self._position += 1

    def _parse_process_substitution(self, built: _WordBuilder) -> None:
        start = self._position
        self._position += 2
        self.parse_commands(")")
        raw = self._text[start : self._position]
        self._script.process_substitutions.append(raw)
        built.add_expansion(ExpansionKind.OTHER, raw, quoted=True)

    def _parse_expansion(self, built: _WordBuilder, quoted: bool) -> None:
        """Parse the expansion after `$` or a backtick."""
        start = self._position
        with self._enter_nesting():
            kind, name = self._parse_expansion_kind(built, quoted)
        if kind is not None:
            built.add_expansion(kind, self._text[start : self._position], quoted, name)

    def _parse_expansion_kind(
        self, built: _WordBuilder, quoted: bool
    ) -> tuple[ExpansionKind | None, str]:
        """Parse an expansion; return its kind and parameter, or None for text."""
        if self._peek() == "`":
            self._parse_backticks(quoted)
            return ExpansionKind.COMMAND, ""
        for opening, closing in (("$((", "))"), ("$[", "]")):
            if self._take_text(opening):
                self._parse_arithmetic(closing)
                return ExpansionKind.NUMBER, ""
        if self._take_text("$("):
            self.parse_commands(")")
            return ExpansionKind.COMMAND, ""
        if self._peek(1) == "{":
            return self._parse_parameter(quoted)
        if self._peek(1) == "'" and not quoted:
            if self._take(_ANSI_C_QUOTE_RE) is None:
                raise UnsupportedSyntaxError
            return ExpansionKind.OTHER, ""
        self._position += 1
        if self._peek() == '"' and not quoted:
            self._parse_double_quotes(_WordBuilder())
            return ExpansionKind.OTHER, ""
        if found := self._take(_SIMPLE_PARAMETER_RE):
            return ExpansionKind.PARAMETER, found[0]
        built.text_parts.append("$")
        return None, ""

    def _parse_backticks(self, quoted: bool) -> None:
        if (found := self._take(_BACKTICKS_RE)) is None:
            raise UnsupportedSyntaxError
        inner = _BACKTICK_ESCAPE_RE.sub(r"\1", found[1])
        if quoted:
            inner = inner.replace('\\"', '"')
        type(self)(inner, self._script, self._depth).parse_commands()

    def _parse_parameter(self, quoted: bool) -> tuple[ExpansionKind, str]:
        start = self._position
        self._position += 2
        if (found := self._take(_PARAMETER_RE)) is None:
            raise UnsupportedSyntaxError
        name, kind = found["name"], ExpansionKind.PARAMETER
        if self._take_text("["):
            kind = ExpansionKind.ARRAY_ELEMENT
            is_list = self._take_text("@]") or self._take_text("*]")
            # also `a["@"]`
            is_list = is_list or self._parse_arithmetic("]").text in ("@", "*")
            lists = is_list and self._peek() == "}"
        else:
            lists = _NAME_LISTING_RE.match(self._text, self._position) is not None
            self._position += 1 if found["indirect"] and lists else 0
        indirect = bool(found["indirect"]) and not lists
        changed = self._take(_TRANSFORMATION_RE)
        if changed is not None or self._peek() != "}":
            kind = ExpansionKind.OTHER
        if changed is None and self._peek() != "}":
            self._parse_modification(name, quoted)
        self._expect("}")
        raw = self._text[start : self._position]
        if indirect or changed is not None:
            self._script.indirect_or_transformed_parameters.append(
                IndirectOrTransformedParameter(raw, indirect, changed[1] if changed else "")
            )
        if found["length"]:
            return ExpansionKind.NUMBER, ""
        return (ExpansionKind.OTHER if found["indirect"] else kind), name

    def _parse_modification(self, name: str, quoted: bool) -> None:
        """Parse a parameter's modification (a default, a substring or a replacement) up to the
        closing brace."""
        operator = self._take(_PARAMETER_OPERATOR_RE)
        if operator is None:
            self._expect(":")
            self._parse_arithmetic("}")
            self._position -= 1
            return
        operand = self._parse_operand(quoted)
        if operator[0] in ("=", ":="):
            self._script.add_assignment(name, operand)

    def _parse_operand(self, quoted: bool) -> Word:
        start, built = self._position, _WordBuilder()
        while (char := self._peek()) != "}":
            if not char or (char == "'" and quoted):
                raise UnsupportedSyntaxError  # shells differ on where such an operand ends
            if char in "<>" and self._peek(1) == "(" and not quoted:
                self._parse_process_substitution(built)
            elif char in "$`":
                self._parse_expansion(built, quoted)
            elif char in "'\"\\":
                self._parse_special_character(char, built, start)
            else:
                built.text_parts.append(char)
                self._position += 1
        return built.build(self._text[start : self._position])

    def _parse_arithmetic(self, end: str) -> Word:
        """Parse an arithmetic expression up to `end`, which is not included."""
        start, built, depth = self._position, _WordBuilder(), 0
        opening, closing = ("[", "]") if end == "]" else ("(", ")")
        while depth or not self._text.startswith(end, self._position):
            char = self._peek()
            if char in ("", "'", "\\"):
                raise UnsupportedSyntaxError
            if char in "$`":
                self._parse_expansion(built, quoted=True)
                continue
            if char == '"':
                self._parse_double_quotes(built)
                continue
            depth += {opening: 1, closing: -1}.get(char, 0)
            if depth < 0:
                raise UnsupportedSyntaxError
            built.text_parts.append(char)
            self._position += 1
        word = built.build(self._text[start : self._position])
        self._position += len(end)
        self._script.arithmetic_expressions.append(word)
        return word

    def _peek(self, offset: int = 0) -> str:
        """Return the next character; "" at the end."""
        at = self._position + offset
        return self._text[at : at + 1]

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Skip what the pattern matches here."""
        if found := pattern.match(self._text, self._position):
            self._position = found.end()
        return found

    def _take_text(self, text: str) -> bool:
        is_here = self._text.startswith(text, self._position)
        self._position += len(text) if is_here else 0
        return is_here

    def _expect(self, *texts: str) -> None:
        if not any(map(self._take_text, texts)):
            raise UnsupportedSyntaxError

    def _skip_blanks(self) -> None:
        self._take(_BLANKS_AND_COMMENT_RE)

    @contextmanager
    def _enter_nesting(self) -> Iterator[None]:
        if self._depth >= _MAX_NESTING:
            raise UnsupportedSyntaxError
        self._depth += 1
        yield
        self._depth -= 1
