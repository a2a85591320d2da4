"""Words of a shell script: quotes, expansions, and the parsed script they belong to.

A `ShellScript` keeps as much of a script as tells code from data. Syntax that is unknown, or that
versions of the shell read differently, is an error, never text.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from msgspec import Struct, field

from joey.core.text import regex

EXPANSION_PLACEHOLDER = "\0"
"""Stands for an expansion in the text of a word."""


class ExpansionKind(Enum):
    """What an expansion gives."""

    PARAMETER = "the value of a variable"
    ELEMENT = "an element of an array"
    NUMBER = "the result of arithmetic, or a length"
    COMMAND = "the output of commands"
    OTHER = "anything else"


class Expansion(Struct, frozen=True):
    kind: ExpansionKind
    raw: str
    quoted: bool
    name: str = ""


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
    assigned: tuple[str, ...]
    """Variables that are set before its words."""
    fed: list[Word]
    """Its here-documents and here-strings. Those of a group of commands are a command of their own,
    without words."""


class ParameterExpansion(Struct, frozen=True):
    """A parameter expansion that does more than give a value."""

    raw: str
    is_indirect: bool
    transformation: str = ""
    """Its letter: `P` in `${x@P}`."""


class ShellScript(Struct):
    commands: list[SimpleCommand] = field(default_factory=list)
    conditions: list[tuple[Word, ...]] = field(default_factory=list)
    """The words between `[[` and `]]`."""
    arithmetic: list[Word] = field(default_factory=list)
    """Expressions, subscripts and offsets."""
    parameters: list[ParameterExpansion] = field(default_factory=list)
    processes: list[str] = field(default_factory=list)
    assignments: dict[str, list[Word | None]] = field(default_factory=dict)
    """By variable, each value that it is given; None for one that the script does not spell out."""
    functions: list[str] = field(default_factory=list)

    def assign(self, name: str, value: Word | None) -> None:
        self.assignments.setdefault(name, []).append(value)


_MAX_NESTING = 40
"""Levels of nesting; nobody writes more by hand."""
VARIABLE_NAME_PATTERN = "[A-Za-z_][A-Za-z0-9_]*"
_PLAIN_TEXT_RE = regex(r"[^ \t\n;&|()<>'\"\\$`*?\[{~]+")
_ARRAY_ASSIGNMENT_RE = regex(rf"({VARIABLE_NAME_PATTERN})\+?=")
_PARAMETER_RE = regex(
    rf"(?P<length>[#](?=(?:{VARIABLE_NAME_PATTERN}|\d+|[@*#?$!-])[}}\[]))?(?P<indirect>!(?![}}:]))?"
    rf"(?P<name>{VARIABLE_NAME_PATTERN}|\d+|[@*#?$!-])"
)
_SIMPLE_PARAMETER_RE = regex(rf"{VARIABLE_NAME_PATTERN}|[0-9@*#?$!-]")
_PARAMETER_OPERATOR_RE = regex(r":?[-=?+]|##?|%%?|/[/#%]?|\^\^?|,,?")
_TRANSFORMATION_RE = regex(r"@([A-Za-z])(?=\})")
_NAME_LISTING_RE = regex(r"[@*](?=\})")
_ANSI_C_QUOTE_RE = regex(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL)
_BACKTICKS_RE = regex(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)
_BACKTICK_ESCAPE_RE = regex(r"\\([$`\\])")
_BLANKS_RE = regex(r"(?:[ \t]|\\\n)*(?:#[^\n]*)?")


class UnsupportedSyntaxError(Exception):
    """The script holds syntax that this parser does not know."""


class _WordBuilder:
    """A word while it is read."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.expansions: list[Expansion] = []
        self.has_pattern = False

    def expand(self, kind: ExpansionKind, raw: str, quoted: bool, name: str = "") -> None:
        self.text.append(EXPANSION_PLACEHOLDER)
        self.expansions.append(Expansion(kind, raw, quoted, name))

    def word(self, raw: str) -> Word:
        return Word(raw, "".join(self.text), tuple(self.expansions), self.has_pattern)


class WordParser(ABC):
    """Moves through a text; the commands in its expansions are read by the subclass."""

    def __init__(self, text: str, script: ShellScript, depth: int) -> None:
        self._text = text
        self._script = script
        self._depth = depth
        self._at = 0

    @abstractmethod
    def commands(self, until: str = "") -> None:
        """Read commands up to the end of the text, or to `until`."""

    @abstractmethod
    def _skip_lines(self) -> None:
        """Skip blanks, comments and line breaks."""

    def expanded_text(self) -> Word:
        """The whole text, as the body of a here-document is read."""
        built = _WordBuilder()
        while char := self._char():
            if char == "\\":
                built.text.append(self._text[self._at : self._at + 2])
                self._at += 2
            elif char in "$`":
                self._expansion(built, quoted=True)
            else:
                built.text.append(char)
                self._at += 1
        return built.word(self._text)

    def _word(self, *, may_be_empty: bool = False) -> Word:
        start, built = self._at, _WordBuilder()
        while char := self._char():
            if run := _PLAIN_TEXT_RE.match(self._text, self._at):
                built.text.append(run[0])
                self._at = run.end()
            elif char in "<>" and self._char(1) == "(":
                self._process(built)
            elif char == "(" and _ARRAY_ASSIGNMENT_RE.fullmatch(self._text, start, self._at):
                self._array()
                built.expand(ExpansionKind.OTHER, self._text[start : self._at], quoted=True)
            elif char in " \t\n;&|()<>":
                break
            else:
                self._piece(char, built, start)
        if self._at == start and not may_be_empty:
            raise UnsupportedSyntaxError
        return built.word(self._text[start : self._at])

    def _array(self) -> None:
        self._take("(")
        while True:
            self._skip_lines()
            if self._char() == ")":
                self._at += 1
                return
            if self._char() == "[":
                self._at += 1
                self._expression("]")
                self._take("+=" if self._ahead("+=") else "=")
                self._word(may_be_empty=True)
            else:
                self._word()

    def _piece(self, char: str, built: _WordBuilder, start: int) -> None:
        """One sign of a word that is more than itself."""
        match char:
            case "'":
                end = self._text.find("'", self._at + 1)
                if end < 0:
                    raise UnsupportedSyntaxError
                built.text.append(self._text[self._at + 1 : end])
                self._at = end + 1
            case '"':
                self._double_quotes(built)
            case "\\":
                built.text.append(self._char(1).replace("\n", ""))
                self._at += 2
            case "$" | "`":
                self._expansion(built, quoted=False)
            case _:
                is_home = char == "~" and (self._at == start or self._char(-1) in "=:")
                is_braces = char == "{" and self._char(1) != "}"
                built.has_pattern |= char in "*?[" or is_home or is_braces
                built.text.append(char)
                self._at += 1

    def _double_quotes(self, built: _WordBuilder) -> None:
        self._at += 1
        while (char := self._char()) != '"':
            if not char:
                raise UnsupportedSyntaxError
            if char in "$`":
                self._expansion(built, quoted=True)
            elif char == "\\" and self._char(1) in '$`"\\\n':
                built.text.append(self._char(1).replace("\n", ""))
                self._at += 2
            else:
                built.text.append(char)
                self._at += 1
        self._at += 1

    def _process(self, built: _WordBuilder) -> None:
        start = self._at
        self._at += 2
        self.commands(")")
        raw = self._text[start : self._at]
        self._script.processes.append(raw)
        built.expand(ExpansionKind.OTHER, raw, quoted=True)

    def _expansion(self, built: _WordBuilder, quoted: bool) -> None:
        """What `$` or a backtick begins."""
        start = self._at
        with self._nested():
            kind, name = self._expanded(built, quoted)
        if kind is not None:
            built.expand(kind, self._text[start : self._at], quoted, name)

    def _expanded(self, built: _WordBuilder, quoted: bool) -> tuple[ExpansionKind | None, str]:
        """What kind of expansion was read, and of which parameter; None for text."""
        if self._char() == "`":
            self._backticks(quoted)
            return ExpansionKind.COMMAND, ""
        if self._ahead("$(("):
            self._at += 3
            self._expression("))")
            return ExpansionKind.NUMBER, ""
        match self._char(1):
            case "(":
                self._at += 2
                self.commands(")")
                return ExpansionKind.COMMAND, ""
            case "[":
                self._at += 2
                self._expression("]")
                return ExpansionKind.NUMBER, ""
            case "{":
                return self._parameter(quoted)
            case "'" if not quoted:
                if (found := _ANSI_C_QUOTE_RE.match(self._text, self._at)) is None:
                    raise UnsupportedSyntaxError
                self._at = found.end()
                return ExpansionKind.OTHER, ""
            case '"' if not quoted:
                self._at += 1
                self._double_quotes(_WordBuilder())
                return ExpansionKind.OTHER, ""
        self._at += 1
        if found := _SIMPLE_PARAMETER_RE.match(self._text, self._at):
            self._at = found.end()
            return ExpansionKind.PARAMETER, found[0]
        built.text.append("$")
        return None, ""

    def _backticks(self, quoted: bool) -> None:
        if (found := _BACKTICKS_RE.match(self._text, self._at)) is None:
            raise UnsupportedSyntaxError
        self._at = found.end()
        inner = _BACKTICK_ESCAPE_RE.sub(r"\1", found[1])
        if quoted:
            inner = inner.replace('\\"', '"')
        type(self)(inner, self._script, self._depth).commands()

    def _parameter(self, quoted: bool) -> tuple[ExpansionKind, str]:
        start = self._at
        found = _PARAMETER_RE.match(self._text, start + 2)
        if found is None:
            raise UnsupportedSyntaxError
        self._at = found.end()
        name, kind = found["name"], ExpansionKind.PARAMETER
        if self._char() == "[":
            self._at += 1
            kind = ExpansionKind.ELEMENT
            subscript = self._subscript()
            lists = subscript in ("@", "*") and self._char() == "}"
        else:
            lists = self._matches(_NAME_LISTING_RE)
            if found["indirect"] and lists:
                self._at += 1
        indirect = bool(found["indirect"]) and not lists
        transformation = ""
        if changed := _TRANSFORMATION_RE.match(self._text, self._at):
            transformation = changed[1]
            self._at = changed.end()
            kind = ExpansionKind.OTHER
        elif self._char() != "}":
            kind = ExpansionKind.OTHER
            self._modification(name, quoted)
        self._take("}")
        raw = self._text[start : self._at]
        if indirect or transformation:
            self._script.parameters.append(ParameterExpansion(raw, indirect, transformation))
        if found["length"]:
            return ExpansionKind.NUMBER, ""
        return (ExpansionKind.OTHER if found["indirect"] else kind), name

    def _subscript(self) -> str:
        for each in ("@", "*"):
            if self._ahead(f"{each}]"):
                self._at += 2
                return each
        return self._expression("]").text

    def _modification(self, name: str, quoted: bool) -> None:
        """Of a parameter: a default, a part of it, or a replacement, up to the closing brace."""
        operator = _PARAMETER_OPERATOR_RE.match(self._text, self._at)
        if operator is None:
            self._take(":")
            self._expression("}")
            self._at -= 1
            return
        self._at = operator.end()
        operand = self._operand(quoted)
        if operator[0] in ("=", ":="):
            self._script.assign(name, operand)

    def _operand(self, quoted: bool) -> Word:
        start, built = self._at, _WordBuilder()
        while (char := self._char()) != "}":
            if not char or (char == "'" and quoted):
                raise UnsupportedSyntaxError  # shells disagree on where such an operand ends
            if char in "<>" and self._char(1) == "(" and not quoted:
                self._process(built)
            elif char in "$`":
                self._expansion(built, quoted)
            elif char in "'\"\\":
                self._piece(char, built, start)
            else:
                built.text.append(char)
                self._at += 1
        return built.word(self._text[start : self._at])

    def _expression(self, end: str) -> Word:
        """An arithmetic expression, up to `end` and without it."""
        start, built, depth = self._at, _WordBuilder(), 0
        opening, closing = ("[", "]") if end == "]" else ("(", ")")
        while depth or not self._ahead(end):
            char = self._char()
            if char in ("", "'", "\\"):
                raise UnsupportedSyntaxError
            if char in "$`":
                self._expansion(built, quoted=True)
                continue
            if char == '"':
                self._double_quotes(built)
                continue
            depth += {opening: 1, closing: -1}.get(char, 0)
            if depth < 0:
                raise UnsupportedSyntaxError
            built.text.append(char)
            self._at += 1
        word = built.word(self._text[start : self._at])
        self._at += len(end)
        self._script.arithmetic.append(word)
        return word

    def _char(self, offset: int = 0) -> str:
        """Empty at the end."""
        at = self._at + offset
        return self._text[at : at + 1]

    def _ahead(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _matches(self, pattern: re.Pattern[str]) -> bool:
        return pattern.match(self._text, self._at) is not None

    def _take(self, text: str) -> None:
        if not self._ahead(text):
            raise UnsupportedSyntaxError
        self._at += len(text)

    def _skip_blanks(self) -> None:
        if found := _BLANKS_RE.match(self._text, self._at):
            self._at = found.end()

    @contextmanager
    def _nested(self) -> Iterator[None]:
        if self._depth >= _MAX_NESTING:
            raise UnsupportedSyntaxError
        self._depth += 1
        yield
        self._depth -= 1
