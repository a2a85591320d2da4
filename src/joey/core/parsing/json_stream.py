"""A parser for the JSON arguments of a call while they stream in.

Pieces are only collected. `parse_partial()` scans the pieces since its last call, never earlier
ones; `close()` parses the whole strictly. So a call without observers costs one append per chunk.

The scanner has one method per expectation, each of which consumes text and sets the next
expectation. It accepts exactly the same JSON as the strict parser, and stops for good at the first
character that cannot be JSON or at the end of the object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from joey.core.text import compile_regex

MAX_DEPTH = 128
"""Deeper arguments are refused: nothing sane nests so, and serialisers recurse."""
_TOO_DEEP_MESSAGE = f"nested more than {MAX_DEPTH} levels deep"


class JsonStream:
    """The growing text of one JSON object."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._scanned_count = 0
        self._scanner = JsonScanner()

    def feed(self, text: str) -> None:
        self._pieces.append(text)

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    @property
    def is_blank(self) -> bool:
        return not any(piece and not piece.isspace() for piece in self._pieces)

    @property
    def is_complete(self) -> bool:
        """Whether the object's closing brace has arrived."""
        return self._scan().is_complete

    @property
    def end_offset(self) -> int | None:
        """The offset after the whole object, or of the first character that cannot be JSON."""
        return self._scan().end_offset

    def parse_partial(self) -> dict[str, Any]:
        """Return the arguments that can be read so far; an open string shows its current content.

        A key whose value has not begun is left out, as is an unfinished number. The dict is the
        caller's to keep; values inside it that are complete are shared between calls.
        """
        return self._scan().build_snapshot()

    def close(self) -> dict[str, Any]:
        """Parse the arguments strictly; empty text means no arguments. Raises ValueError with the
        problem and its position."""
        text = self.text
        if not text or text.isspace():
            return {}
        try:
            value = msgspec.json.decode(text)
        except RecursionError:
            raise ValueError(_TOO_DEEP_MESSAGE) from None
        except ValueError as error:
            reason = str(error).removeprefix("JSON is malformed: ")
            if "truncated" in reason:
                reason = f"the JSON ends before it is complete (after {len(text)} characters)"
            raise ValueError(reason) from error
        if not isinstance(value, dict):
            raise ValueError("expected a JSON object with the arguments at its top (byte 0)")
        if text.count("{") + text.count("[") > MAX_DEPTH and not self.is_complete:
            raise ValueError(_TOO_DEEP_MESSAGE)
        return value

    def _scan(self) -> JsonScanner:
        if self._scanned_count < len(self._pieces):
            self._scanner.feed("".join(self._pieces[self._scanned_count :]))
            self._scanned_count = len(self._pieces)
        return self._scanner


_WHITESPACE_RE = compile_regex(r"[ \t\n\r]*+")
_TOKEN_RE = compile_regex(r"[^ \t\n\r,:\[\]{}\"]*+")
_HEX_DIGIT_RE = "[0-9a-fA-F]"
_STRING_CHARACTERS_RE = compile_regex(
    r'[^"\\\x00-\x1f\ud800-\udfff]*+(?:\\(?:["\\/bfnrt]'
    rf"|u(?![dD][89a-fA-F]){_HEX_DIGIT_RE}{{4}}"
    rf"|u[dD][89abAB]{_HEX_DIGIT_RE}{{2}}\\u[dD][c-fC-F]{_HEX_DIGIT_RE}{{2}})"
    r'[^"\\\x00-\x1f\ud800-\udfff]*+)*+'
)
"""A run of whole characters of a string; an escape or surrogate pair is never cut."""
_PARTIAL_ESCAPE_RE = compile_regex(
    rf"\\(?:u(?:[dD][89abAB]{_HEX_DIGIT_RE}{{2}}(?:\\(?:u(?:[dD](?:[c-fC-F]{_HEX_DIGIT_RE}?)?)?)?)?"
    rf"|{_HEX_DIGIT_RE}{{0,3}})?)?"
)

_NO_VALUE = object()


class JsonScanner:
    """Scans one JSON object from its first character on."""

    def __init__(self) -> None:
        self.is_complete = False
        self.end_offset: int | None = None
        self._offset = 0
        """Characters before the text that is being scanned."""
        self._pending_escape = ""
        """An escape that the last text ended in."""
        self._current_reader: Callable[[str, int], int] = self._read_object
        self._scalar_readers = (self._read_key, self._read_string, self._read_token)
        """Those for which white space is not just a separator."""
        self._stack: list[dict[str, Any] | list[Any]] = []
        self._pending_keys: list[str] = []
        """For each container, the key that its next value gets (unused for arrays)."""
        self._open_scalar_pieces: list[str] = []
        """Decoded pieces of the open string, or the characters of the open token."""
        self._root: dict[str, Any] = {}

    def feed(self, text: str) -> None:
        text = self._pending_escape + text
        self._pending_escape = ""
        pos = 0
        while self.end_offset is None:
            if self._current_reader not in self._scalar_readers:
                match = _WHITESPACE_RE.match(text, pos)
                pos = match.end() if match else pos
            if pos == len(text):
                break
            pos = self._current_reader(text, pos)
        self._offset += len(text) - len(self._pending_escape)

    def build_snapshot(self) -> dict[str, Any]:
        """Copy the containers that are still open, with their current content."""
        if not self._stack:
            return dict(self._root)
        value: Any = (
            "".join(self._open_scalar_pieces)
            if self._current_reader == self._read_string
            else _NO_VALUE
        )
        for container, key in zip(reversed(self._stack), reversed(self._pending_keys), strict=True):
            copy: Any = container.copy()
            if value is _NO_VALUE:
                pass
            elif isinstance(copy, dict):
                copy[key] = value
            else:
                copy.append(value)
            value = copy
        return value  # type: ignore[no-any-return]

    # Each expectation reads text from `pos`, which is not at the end, and returns where the next
    # one continues.

    def _read_object(self, text: str, pos: int) -> int:
        return self._open_container({}, pos) if text[pos] == "{" else self._stop(pos)

    def _read_value(self, text: str, pos: int) -> int:
        match text[pos]:
            case '"':
                self._current_reader = self._read_string
                return pos + 1
            case "{":
                return self._open_container({}, pos)
            case "[":
                return self._open_container([], pos)
            case "," | ":" | "}" | "]":
                return self._stop(pos)
            case _:
                self._current_reader = self._read_token
                return pos

    def _read_first_item(self, text: str, pos: int) -> int:
        return self._close_container(pos) if text[pos] == "]" else self._read_value(text, pos)

    def _read_first_key(self, text: str, pos: int) -> int:
        return self._close_container(pos) if text[pos] == "}" else self._read_next_key(text, pos)

    def _read_next_key(self, text: str, pos: int) -> int:
        if text[pos] != '"':
            return self._stop(pos)
        self._current_reader = self._read_key
        return pos + 1

    def _read_key(self, text: str, pos: int) -> int:
        pos, ended = self._read_characters(text, pos)
        if ended:
            self._pending_keys[-1] = self._drain_open_scalar()
            self._current_reader = self._read_colon
        return pos

    def _read_colon(self, text: str, pos: int) -> int:
        if text[pos] != ":":
            return self._stop(pos)
        self._current_reader = self._read_value
        return pos + 1

    def _read_string(self, text: str, pos: int) -> int:
        pos, ended = self._read_characters(text, pos)
        if ended:
            self._store_value(self._drain_open_scalar())
        return pos

    def _read_token(self, text: str, pos: int) -> int:
        """Read a number, `true`, `false` or `null`, which ends only when something else follows."""
        match = _TOKEN_RE.match(text, pos)
        end = match.end() if match else pos
        self._open_scalar_pieces.append(text[pos:end])
        if end == len(text):
            return end
        try:
            self._store_value(msgspec.json.decode(self._drain_open_scalar()))
        except ValueError:
            return self._stop(end)
        return end

    def _read_separator(self, text: str, pos: int) -> int:
        """Read a comma, or the end of the container, after a value."""
        in_object = isinstance(self._stack[-1], dict)
        if text[pos] == ",":
            self._current_reader = self._read_next_key if in_object else self._read_value
            return pos + 1
        if text[pos] == ("}" if in_object else "]"):
            return self._close_container(pos)
        return self._stop(pos)

    def _read_characters(self, text: str, pos: int) -> tuple[int, bool]:
        """Read characters of a string; True if its closing quote was among them."""
        match = _STRING_CHARACTERS_RE.match(text, pos)
        end = match.end() if match else pos
        run = text[pos:end]
        self._open_scalar_pieces.append(msgspec.json.decode(f'"{run}"') if "\\" in run else run)
        if end == len(text):
            return end, False
        if text[end] == '"':
            return end + 1, True
        begun = _PARTIAL_ESCAPE_RE.match(text, end)
        if begun is None or begun.end() < len(text):
            return self._stop(begun.end() if begun else end), False
        self._pending_escape = text[end:]
        return len(text), False

    def _open_container(self, container: dict[str, Any] | list[Any], pos: int) -> int:
        if len(self._stack) == MAX_DEPTH:
            return self._stop(pos)
        self._stack.append(container)
        self._pending_keys.append("")
        self._current_reader = (
            self._read_first_key if isinstance(container, dict) else self._read_first_item
        )
        return pos + 1

    def _close_container(self, pos: int) -> int:
        container = self._stack.pop()
        self._pending_keys.pop()
        if self._stack:
            self._store_value(container)
            return pos + 1
        assert isinstance(container, dict)
        self._root = container
        self.is_complete = True
        return self._stop(pos + 1)

    def _store_value(self, value: Any) -> None:
        container = self._stack[-1]
        if isinstance(container, dict):
            container[self._pending_keys[-1]] = value
        else:
            container.append(value)
        self._current_reader = self._read_separator

    def _drain_open_scalar(self) -> str:
        run = "".join(self._open_scalar_pieces)
        self._open_scalar_pieces.clear()
        return run

    def _stop(self, pos: int) -> int:
        self.end_offset = self._offset + pos
        return pos
