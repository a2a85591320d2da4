"""The parser that finds the commands, assignments and expansions of any shell script.

`shell` reads the plain part of the grammar word for word. This parser reads the rest of bash and
keeps what distinguishes code from data: the words of each simple command, which of them are
literal, and every place where a value is expanded or computed. It does not check that keywords
match.
"""

from __future__ import annotations

import re

from msgspec import Struct

from joey.core.permissions.shell import parse_word_set
from joey.core.permissions.shell_words import (
    EXPANSION_PLACEHOLDER,
    VARIABLE_NAME_PATTERN,
    ShellScript,
    SimpleCommand,
    UnsupportedSyntaxError,
    Word,
    WordParser,
)
from joey.core.text import compile_regex

_REDIRECTION_RE = compile_regex(
    r"(?:\d+|\{(?P<name>\w+)\})?(?:<<<|<<-?|<>|>>|>\||>&|<&|[<>](?!\())|&>>?"
)
_ASSIGNMENT_RE = compile_regex(rf"({VARIABLE_NAME_PATTERN})(?:(\[)|\+?=)")
_NAMED_COPROC_RE = compile_regex(
    rf"\s+({VARIABLE_NAME_PATTERN})(?=\s+(?:[{{(]|(?:while|until|for|if|case|select|\[\[)\s))"
)
_ARRAY_ELEMENT_DESCRIPTOR_RE = compile_regex(r"\{\w+\[.*\}", re.DOTALL)
_CONDITION_OPERATOR_RE = compile_regex(r"[()|&;]|[<>](?!\()")
_CASE_CLAUSE_END_RE = compile_regex(r";;&|;;|;&")
_TRANSPARENT_KEYWORDS = parse_word_set("if then elif else fi while until do done { } ! time -p --")


def parse_script(text: str) -> ShellScript:
    """Parse a script. Raises UnsupportedSyntaxError for syntax that this parser does not know."""
    if EXPANSION_PLACEHOLDER in text:
        raise UnsupportedSyntaxError
    script = ShellScript()
    _ScriptParser(text, script, 0).parse_commands()
    return script


class _HereDocument(Struct, frozen=True):
    """A here-document whose body has not been read yet."""

    delimiter: str
    strips_tabs: bool
    is_quoted: bool
    command_inputs: list[Word]


class _ScriptParser(WordParser):
    def __init__(self, text: str, script: ShellScript, depth: int) -> None:
        super().__init__(text, script, depth)
        self._pending_here_documents: list[_HereDocument] = []

    def parse_commands(self, until: str = "") -> None:
        """Parse commands up to the end of the text, or to `until`: `)`, or the `;;` of a clause."""
        start, outer = self._position, self._pending_here_documents
        self._pending_here_documents = []
        with self._enter_nesting():
            while not self._consume_end(until):
                if self._take_text("\n"):
                    self._read_here_documents()
                elif self._take_text("(("):
                    self._parse_arithmetic("))")
                elif self._take_text("("):
                    self.parse_commands(")")
                elif self._peek() in ";|" or (self._peek() == "&" and self._peek(1) != ">"):
                    self._position += 1
                else:
                    self._parse_command()
        is_split = outer and "\n" in self._text[start : self._position]
        if until and (self._pending_here_documents or is_split):
            # the first line of a here-document depends on the version
            raise UnsupportedSyntaxError
        self._pending_here_documents = outer

    def _consume_end(self, until: str) -> bool:
        self._skip_blanks()
        if (char := self._peek()) in ("", ")"):
            if char != until:
                raise UnsupportedSyntaxError
            self._position += len(char)
            return True
        is_clause_end = _CASE_CLAUSE_END_RE.match(self._text, self._position) is not None
        return until == ";;" and (is_clause_end or self._is_at_keyword("esac"))

    def _parse_command(self) -> None:
        assigned: list[str] = []
        words: list[Word] = []
        inputs: list[Word] = []
        while True:
            self._skip_blanks()
            if self._parse_redirection(inputs):
                continue
            char = self._peek()
            if char == "(":
                if len(words) != 1:
                    raise UnsupportedSyntaxError
                self._consume_empty_parentheses()
                self._script.function_names.append(words[0].text)
                return
            if char in ("", "\n", ";", "|", "&", ")"):
                break
            if not words and (name := self._parse_assignment()):
                assigned.append(name)
                continue
            word = self._parse_word()
            if self._peek() in ("<", ">") and _ARRAY_ELEMENT_DESCRIPTOR_RE.fullmatch(word.raw):
                raise UnsupportedSyntaxError  # where a descriptor goes: `{a[x]}>out`
            if not words and not assigned and self._parse_keyword(word.raw):
                return
            words.append(word)
        self._script.commands.append(SimpleCommand(tuple(words), tuple(assigned), inputs))

    def _parse_keyword(self, word: str) -> bool:
        """Whether the word is a keyword after which a command can begin."""
        match word:
            case "for" | "select":
                self._parse_for_loop()
            case "case":
                self._parse_case()
            case "function":
                self._skip_blanks()
                self._script.function_names.append(self._parse_word().text)
                self._skip_blanks()
                if self._peek() == "(":
                    self._consume_empty_parentheses()
            case "coproc":
                if found := self._take(_NAMED_COPROC_RE):
                    self._script.add_assignment(found[1], None)
            case "[[":
                self._parse_condition()
            case _:
                return word in _TRANSPARENT_KEYWORDS
        return True

    def _parse_for_loop(self) -> None:
        self._skip_blanks()
        if self._take_text("(("):
            self._parse_arithmetic("))")
            return
        name = self._parse_word().text
        self._skip_blanks_and_newlines()
        if not self._take_keyword("in"):
            self._script.add_assignment(name, None)
            return
        self._skip_blanks()
        while self._peek() not in ("", "\n", ";"):
            self._script.add_assignment(name, self._parse_word())
            self._skip_blanks()

    def _parse_case(self) -> None:
        self._skip_blanks()
        self._parse_word()
        self._skip_blanks_and_newlines()
        self._expect("in")
        while True:
            self._skip_blanks_and_newlines()
            if self._take_keyword("esac"):
                return
            has_pattern = True
            self._take_text("(")
            while has_pattern:
                self._skip_blanks()
                self._parse_word()
                self._skip_blanks()
                has_pattern = self._take_text("|")
            self._expect(")")
            self.parse_commands(";;")
            self._take(_CASE_CLAUSE_END_RE)

    def _parse_condition(self) -> None:
        words: list[Word] = []
        while True:
            self._skip_blanks_and_newlines()
            if self._take(_CONDITION_OPERATOR_RE):
                continue
            word = self._parse_word()
            if word.raw == "]]":
                break
            words.append(word)
        self._script.conditions.append(tuple(words))

    def _consume_empty_parentheses(self) -> None:
        self._expect("(")
        self._skip_blanks()
        self._expect(")")

    def _parse_assignment(self) -> str:
        """Parse the name of the assigned variable, if any."""
        if (found := self._take(_ASSIGNMENT_RE)) is None:
            return ""
        if found[2]:
            self._parse_arithmetic("]")
            self._expect("+=", "=")
        if self._peek() == "(":
            self._parse_array()
            self._script.add_assignment(found[1], None)
        else:
            self._script.add_assignment(found[1], self._parse_word(may_be_empty=True))
        return found[1]

    def _parse_redirection(self, inputs: list[Word]) -> bool:
        if (found := self._take(_REDIRECTION_RE)) is None:
            return False
        if found["name"]:
            self._script.add_assignment(found["name"], None)
        self._skip_blanks()
        target = self._parse_word()
        operator = found[0].lstrip("0123456789")
        if operator == "<<<":
            inputs.append(target)
        elif operator.startswith("<<"):
            if target.expansions:
                raise UnsupportedSyntaxError
            is_quoted = target.raw != target.text
            self._pending_here_documents.append(
                _HereDocument(target.text, operator == "<<-", is_quoted, inputs)
            )
        return True

    def _read_here_documents(self) -> None:
        documents, self._pending_here_documents = self._pending_here_documents, []
        for document in documents:
            lines: list[str] = []
            while self._position < len(self._text):
                line = self._read_line(document.is_quoted)
                line = line.lstrip("\t") if document.strips_tabs else line
                if line == document.delimiter:
                    break
                lines.append(f"{line}\n")
            body = "".join(lines)
            reader = _ScriptParser(body, self._script, self._depth)
            word = Word(body, body) if document.is_quoted else reader.parse_here_document()
            document.command_inputs.append(word)

    def _read_line(self, is_quoted: bool) -> str:
        """Read a line; where it is expanded, a backslash joins it to the next one."""
        joined = ""
        while True:
            line, _, _ = self._text[self._position :].partition("\n")
            self._position += len(line) + 1
            is_continued = (len(line) - len(line.rstrip("\\"))) % 2 == 1
            if is_quoted or not is_continued or self._position >= len(self._text):
                return joined + line
            joined += line[:-1]

    def _is_at_keyword(self, word: str) -> bool:
        at = self._position + len(word)
        is_whole = self._text[at : at + 1] in ("", *" \t\n;&|()<>")
        return is_whole and self._text.startswith(word, self._position)

    def _take_keyword(self, word: str) -> bool:
        return self._is_at_keyword(word) and self._take_text(word)

    def _skip_blanks_and_newlines(self) -> None:
        self._skip_blanks()
        while self._take_text("\n"):
            if self._pending_here_documents:
                raise UnsupportedSyntaxError
            self._skip_blanks()
