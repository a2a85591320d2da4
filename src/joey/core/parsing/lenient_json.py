"""JSON as models write it: small mistakes are corrected, but nothing unfinished is completed.

Accepted are trailing commas, single quotes, comments, raw control characters and unknown escapes in
strings, bare keys, `True`, `False` and `None`, a Markdown fence around the whole, and several
values in a row. A string, list or object that is not closed is an error: it was truncated.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from joey.core.parsing.json_stream import MAX_DEPTH
from joey.core.text import compile_regex


class Repair(StrEnum):
    """A deviation from the tool's schema that was repaired. The values are in the journal."""

    TRAILING_COMMA = "trailingComma"
    QUOTES = "quotes"
    COMMENT = "comment"
    CONTROL_CHARACTER = "controlCharacter"
    ESCAPE = "escape"
    BARE_KEY = "bareKey"
    LITERAL = "literal"
    FENCE = "fence"
    TEMPLATE_TOKEN = "templateToken"
    ENCODED_TWICE = "encodedTwice"
    WRAPPED = "wrapped"
    LIST_OF_ONE = "listOfOne"
    SEVERAL_CALLS = "severalCalls"
    TOOL_NAME = "toolName"
    PARAMETER_NAME = "parameterName"
    CALL_IN_TEXT = "callInText"


class UnfinishedJsonError(ValueError):
    """The text ends inside of a string, list or object."""


class LenientValues(Struct, frozen=True):
    values: tuple[Any, ...]
    """The values that stand in a row; usually one."""
    end: int
    """Offset behind the last value, and behind the white space after it."""
    repairs: frozenset[Repair]


_FENCE_RE = compile_regex(r"\s*```[\w-]*[ \t]*\n(.*?)\n?[ \t]*```\s*", re.DOTALL)
_TEMPLATE_TOKENS_RE = compile_regex(
    r"(?:\s*(?:<\|[^<>|]{1,40}\|>|<｜[^<>｜]{1,40}｜>|</?s>|\[/?INST\]|</tool_call>))++\s*"
)
_COMMENT = r"(?:/\*.*?\*/|//[^\n]*|#[^\n]*)"
_COMMENT_RE = compile_regex(_COMMENT, re.DOTALL)
_COMMENTS_RE = compile_regex(rf"(?:\s*+{_COMMENT})*+", re.DOTALL)


def parse_lenient_json(text: str) -> LenientValues:
    """Parse all of `text` as JSON. Raises ValueError with the problem and its position."""
    repairs: set[Repair] = set()
    if fenced := _FENCE_RE.fullmatch(text):
        text = fenced[1]
        repairs.add(Repair.FENCE)
    read = read_lenient_json(text)
    rest = text[_match_end(_COMMENTS_RE, text, read.end) :]
    if rest.strip():
        if not _TEMPLATE_TOKENS_RE.fullmatch(rest):
            raise ValueError(f"unexpected text after the value (character {read.end})")
        repairs.add(Repair.TEMPLATE_TOKEN)
    return LenientValues(read.values, read.end, read.repairs | repairs)


def read_lenient_json(text: str, start: int = 0) -> LenientValues:
    """Read consecutive objects and lists at `start`. Raises ValueError if there is none, or one is
    malformed or unfinished."""
    reader = _Reader(text, start)
    values = [reader.read_value(0)]
    while True:
        end = _match_end(_SPACE_RE, text, reader.pos)
        reader.skip_space()
        if isinstance(values[-1], dict) and text[end : end + 1] in (",", ";"):
            reader.pos += 1
            reader.skip_space()
        if not isinstance(values[-1], dict) or text[reader.pos : reader.pos + 1] != "{":
            return LenientValues(tuple(values), end, frozenset(reader.repairs))
        values.append(reader.read_value(0))


_SPACE_RE = compile_regex(r"\s*+")
_BARE_KEY_RE = compile_regex(r"[A-Za-z_$][\w$-]*+(?=\s*:)")
_TOKEN_RE = compile_regex(r"[\w.+-]++")
_PYTHON_LITERALS: dict[str, Any] = {"True": True, "False": False, "None": None}
_STRING_RUN_RE = {quote: compile_regex(rf"[^{quote}\\]*+") for quote in ('"', "'")}
_CONTROL_CHARACTER_RE = compile_regex(r"[\x00-\x1f]")
_ESCAPES = {
    '"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip
_JSON_ESCAPES = frozenset(_ESCAPES) - {"'"}
_UNICODE_ESCAPE_RE = compile_regex(r"u[0-9a-fA-F]{4}")


class _Reader:
    def __init__(self, text: str, pos: int) -> None:
        self.text = text
        self.pos = pos
        self.repairs: set[Repair] = set()

    def read_value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise ValueError(f"nested more than {MAX_DEPTH} levels deep")
        self.skip_space()
        match self.text[self.pos : self.pos + 1]:
            case "{":
                return self._read_object(depth)
            case "[":
                return self._read_list(depth)
            case '"' | "'":
                return self._read_string()
            case _:
                return self._read_token()

    def skip_space(self) -> None:
        while True:
            self.pos = _match_end(_SPACE_RE, self.text, self.pos)
            comment = _COMMENT_RE.match(self.text, self.pos)
            if comment is None:
                return
            self.repairs.add(Repair.COMMENT)
            self.pos = comment.end()

    def _read_object(self, depth: int) -> dict[str, Any]:
        value: dict[str, Any] = {}
        self.pos += 1
        while not self._ends_container("}", is_first=not value):
            key = self._read_key()
            self.skip_space()
            self._expect(":")
            value[key] = self.read_value(depth + 1)
        return value

    def _read_list(self, depth: int) -> list[Any]:
        items: list[Any] = []
        self.pos += 1
        while not self._ends_container("]", is_first=not items):
            items.append(self.read_value(depth + 1))
        return items

    def _ends_container(self, closing: str, *, is_first: bool) -> bool:
        """Consume the comma before an item; True at the end of the container."""
        self.skip_space()
        if not is_first and self.text[self.pos : self.pos + 1] == ",":
            self.pos += 1
            self.skip_space()
            if self.text[self.pos : self.pos + 1] != closing:
                return False
            self.repairs.add(Repair.TRAILING_COMMA)
        elif is_first and self.text[self.pos : self.pos + 1] != closing:
            return False
        self._expect(closing)
        return True

    def _read_key(self) -> str:
        if self.text[self.pos : self.pos + 1] in ('"', "'"):
            return self._read_string()
        bare = _BARE_KEY_RE.match(self.text, self.pos)
        if bare is None:
            raise self._build_error("a key in quotes")
        self.repairs.add(Repair.BARE_KEY)
        self.pos = bare.end()
        return bare[0]

    def _read_string(self) -> str:
        quote = self.text[self.pos]
        if quote == "'":
            self.repairs.add(Repair.QUOTES)
        start, pieces = self.pos, []
        self.pos += 1
        while True:
            end = _match_end(_STRING_RUN_RE[quote], self.text, self.pos)
            run = self.text[self.pos : end]
            if _CONTROL_CHARACTER_RE.search(run):
                self.repairs.add(Repair.CONTROL_CHARACTER)
            pieces.append(run)
            self.pos = end + 1
            match self.text[end : end + 1]:
                case "":
                    raise UnfinishedJsonError(
                        f"the string that begins at character {start} is not closed"
                    )
                case "\\":
                    pieces.append(self._read_escape())
                case _:
                    text = "".join(pieces)
                    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def _read_escape(self) -> str:
        code = self.text[self.pos : self.pos + 1]
        if code in _ESCAPES:
            if code not in _JSON_ESCAPES:
                self.repairs.add(Repair.ESCAPE)
            self.pos += 1
            return _ESCAPES[code]
        if _UNICODE_ESCAPE_RE.match(self.text, self.pos):
            number = self.text[self.pos + 1 : self.pos + 5]
            self.pos += 5
            return chr(int(number, 16))
        # `\d` in a regular expression, `\w`, `\.`: the backslash itself was meant.
        self.repairs.add(Repair.ESCAPE)
        return "\\"

    def _read_token(self) -> Any:
        token = _TOKEN_RE.match(self.text, self.pos)
        if token is None:
            raise self._build_error("a value")
        if token[0] in _PYTHON_LITERALS:
            self.repairs.add(Repair.LITERAL)
            value = _PYTHON_LITERALS[token[0]]
        else:
            try:
                value = msgspec.json.decode(token[0])
            except ValueError:
                raise self._build_error("a value") from None
        self.pos = token.end()
        return value

    def _expect(self, character: str) -> None:
        if self.text[self.pos : self.pos + 1] != character:
            raise self._build_error(f"`{character}`")
        self.pos += 1

    def _build_error(self, expected: str) -> ValueError:
        if self.pos >= len(self.text):
            return UnfinishedJsonError(
                f"the JSON ends before it is complete (after {self.pos} characters)"
            )
        found = self.text[self.pos]
        return ValueError(f"expected {expected} instead of `{found}` (character {self.pos})")


def _match_end(pattern: Any, text: str, pos: int) -> int:
    match = pattern.match(text, pos)
    return match.end() if match else pos
