"""The parser that finds the commands, assignments and expansions of any shell script.

`shell` reads the plain part of the grammar word for word. This parser reads the rest of bash and
keeps as much as tells code from data: the words of each simple command, which of them are literal,
and every place where a value is expanded or computed. It does not check that keywords match.
"""

from __future__ import annotations

import re

from msgspec import Struct

from joey.core.permissions.shell import word_set
from joey.core.permissions.shell_words import (
    EXPANSION_PLACEHOLDER,
    VARIABLE_NAME_PATTERN,
    ShellScript,
    SimpleCommand,
    UnsupportedSyntaxError,
    Word,
    WordParser,
)
from joey.core.text import regex

_REDIRECTION_RE = regex(r"(?:\d+|\{(?P<name>\w+)\})?(?:<<<|<<-?|<>|>>|>\||>&|<&|[<>](?!\())|&>>?")
_ASSIGNMENT_RE = regex(rf"({VARIABLE_NAME_PATTERN})(?:(\[)|\+?=)")
_NAMED_COPROC_RE = regex(
    rf"\s+({VARIABLE_NAME_PATTERN})(?=\s+(?:[{{(]|(?:while|until|for|if|case|select|\[\[)\s))"
)
_ARRAY_ELEMENT_TARGET_RE = regex(r"\{\w+\[.*\}", re.DOTALL)
_CONDITION_OPERATOR_RE = regex(r"[()|&;]|[<>](?!\()")
_CASE_CLAUSE_END_RE = regex(r";;&|;;|;&")
_TRANSPARENT_KEYWORDS = word_set("if then elif else fi while until do done { } ! time -p --")


def parse_script(text: str) -> ShellScript:
    """Raise `UnsupportedSyntaxError` for a script that is more than this parser knows."""
    if EXPANSION_PLACEHOLDER in text:
        raise UnsupportedSyntaxError
    script = ShellScript()
    _ScriptParser(text, script, 0).commands()
    return script


class _HereDocument(Struct, frozen=True):
    """A here-document whose body is still to come."""

    delimiter: str
    strips_tabs: bool
    is_quoted: bool
    fed: list[Word]
    """Where it belongs."""


class _ScriptParser(WordParser):
    def __init__(self, text: str, script: ShellScript, depth: int) -> None:
        super().__init__(text, script, depth)
        self._documents: list[_HereDocument] = []

    def commands(self, until: str = "") -> None:
        """Read up to the end of the text, or to `until`: `)`, or the `;;` of a clause."""
        start, outer = self._at, self._documents
        self._documents = []
        with self._nested():
            while not self._ends(until):
                if self._char() == "\n":
                    self._at += 1
                    self._read_documents()
                elif self._char() == "(":
                    self._parenthesis()
                elif self._char() in ";|" or (self._char() == "&" and self._char(1) != ">"):
                    self._at += 1
                else:
                    self._command()
        is_split = outer and "\n" in self._text[start : self._at]
        if until and (self._documents or is_split):
            # which line a here-document begins at depends on the version
            raise UnsupportedSyntaxError
        self._documents = outer

    def _ends(self, until: str) -> bool:
        self._skip_blanks()
        char = self._char()
        if char == ")":
            self._at += 1
        if char in ("", ")"):
            if char != until:
                raise UnsupportedSyntaxError
            return True
        return until == ";;" and (self._matches(_CASE_CLAUSE_END_RE) or self._has_keyword("esac"))

    def _command(self) -> None:
        assigned: list[str] = []
        words: list[Word] = []
        fed: list[Word] = []
        while True:
            self._skip_blanks()
            if self._redirection(fed):
                continue
            char = self._char()
            if char == "(":
                self._function(words)
                return
            if char in ("", "\n", ";", "|", "&", ")"):
                break
            if not words and (name := self._assignment()):
                assigned.append(name)
                continue
            word = self._word()
            if self._char() in ("<", ">") and _ARRAY_ELEMENT_TARGET_RE.fullmatch(word.raw):
                raise UnsupportedSyntaxError  # where a descriptor goes: `{a[x]}>out`
            if not words and not assigned and self._keyword(word.raw):
                return
            words.append(word)
        self._script.commands.append(SimpleCommand(tuple(words), tuple(assigned), fed))

    def _keyword(self, word: str) -> bool:
        """Whether the word is one, after which a command can begin."""
        match word:
            case "for" | "select":
                self._loop()
            case "case":
                self._case()
            case "function":
                self._skip_blanks()
                self._script.functions.append(self._word().text)
                self._skip_blanks()
                if self._char() == "(":
                    self._parentheses()
            case "coproc":
                if found := _NAMED_COPROC_RE.match(self._text, self._at):
                    self._script.assign(found[1], None)
                    self._at = found.end()
            case "[[":
                self._condition()
            case _:
                return word in _TRANSPARENT_KEYWORDS
        return True

    def _loop(self) -> None:
        self._skip_blanks()
        if self._ahead("(("):
            self._at += 2
            self._expression("))")
            return
        name = self._word().text
        self._skip_lines()
        if not self._has_keyword("in"):
            self._script.assign(name, None)
            return
        self._take("in")
        self._skip_blanks()
        while self._char() not in ("", "\n", ";"):
            self._script.assign(name, self._word())
            self._skip_blanks()

    def _case(self) -> None:
        self._skip_blanks()
        self._word()
        self._skip_lines()
        self._take("in")
        while True:
            self._skip_lines()
            if self._has_keyword("esac"):
                self._take("esac")
                return
            if self._char() == "(":
                self._at += 1
            self._patterns()
            self.commands(";;")
            if found := _CASE_CLAUSE_END_RE.match(self._text, self._at):
                self._at = found.end()

    def _patterns(self) -> None:
        while True:
            self._skip_blanks()
            self._word()
            self._skip_blanks()
            if self._char() != "|":
                break
            self._at += 1
        self._take(")")

    def _condition(self) -> None:
        words: list[Word] = []
        while True:
            self._skip_lines()
            if found := _CONDITION_OPERATOR_RE.match(self._text, self._at):
                self._at = found.end()
                continue
            word = self._word()
            if word.raw == "]]":
                break
            words.append(word)
        self._script.conditions.append(tuple(words))

    def _parenthesis(self) -> None:
        """A subshell, or an arithmetic command."""
        if self._ahead("(("):
            self._at += 2
            self._expression("))")
        else:
            self._at += 1
            self.commands(")")

    def _function(self, words: list[Word]) -> None:
        if len(words) != 1:
            raise UnsupportedSyntaxError
        self._parentheses()
        self._script.functions.append(words[0].text)

    def _parentheses(self) -> None:
        self._take("(")
        self._skip_blanks()
        self._take(")")

    def _assignment(self) -> str:
        """The variable that is set here, or nothing."""
        found = _ASSIGNMENT_RE.match(self._text, self._at)
        if found is None:
            return ""
        self._at = found.end()
        if found[2]:
            self._expression("]")
            self._take("+=" if self._ahead("+=") else "=")
        if self._char() == "(":
            self._array()
            self._script.assign(found[1], None)
        else:
            self._script.assign(found[1], self._word(may_be_empty=True))
        return found[1]

    def _redirection(self, fed: list[Word]) -> bool:
        found = _REDIRECTION_RE.match(self._text, self._at)
        if found is None:
            return False
        self._at = found.end()
        if found["name"]:
            self._script.assign(found["name"], None)
        self._skip_blanks()
        target = self._word()
        operator = found[0].lstrip("0123456789")
        if operator == "<<<":
            fed.append(target)
        elif operator.startswith("<<"):
            if target.expansions:
                raise UnsupportedSyntaxError
            is_quoted = target.raw != target.text
            self._documents.append(_HereDocument(target.text, operator == "<<-", is_quoted, fed))
        return True

    def _read_documents(self) -> None:
        documents, self._documents = self._documents, []
        for document in documents:
            lines: list[str] = []
            while self._at < len(self._text):
                line = self._line(document.is_quoted)
                line = line.lstrip("\t") if document.strips_tabs else line
                if line == document.delimiter:
                    break
                lines.append(f"{line}\n")
            body = "".join(lines)
            reader = _ScriptParser(body, self._script, self._depth)
            word = Word(body, body) if document.is_quoted else reader.expanded_text()
            document.fed.append(word)

    def _line(self, is_quoted: bool) -> str:
        """The next line; where it is expanded, a backslash joins it to the one after it."""
        joined = ""
        while True:
            end = self._text.find("\n", self._at)
            end = len(self._text) if end < 0 else end
            line = self._text[self._at : end]
            self._at = end + 1
            if is_quoted or not _ends_in_backslash(line) or self._at >= len(self._text):
                return joined + line
            joined += line[:-1]

    def _has_keyword(self, word: str) -> bool:
        at = self._at + len(word)
        return self._ahead(word) and self._text[at : at + 1] in ("", *" \t\n;&|()<>")

    def _skip_lines(self) -> None:
        self._skip_blanks()
        while self._char() == "\n":
            if self._documents:
                raise UnsupportedSyntaxError
            self._at += 1
            self._skip_blanks()


def _ends_in_backslash(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1
