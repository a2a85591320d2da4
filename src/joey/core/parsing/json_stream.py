"""The arguments of a call while they stream in: JSON text, piece by piece.

Pieces are only collected. Whoever wants to see the arguments early asks for `partial()`, and the
scanner then reads what came since it was last asked, never what came before; the final word is
the strict parse of `close()`. So a call that nobody watches costs an append per chunk.
"""

from __future__ import annotations

from typing import Any

import msgspec

from joey.core.parsing.json_scanner import MAX_DEPTH, JsonScanner

_TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"


class JsonStream:
    """The text of one JSON object, growing."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._scanned = 0
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
    def is_whole(self) -> bool:
        """The object's closing brace has come."""
        return self._scan().whole

    @property
    def stopped_at(self) -> int | None:
        """Offset behind the whole object, or of the first character that cannot be JSON."""
        return self._scan().stopped_at

    def partial(self) -> dict[str, Any]:
        """The arguments that can be read so far; an open string shows what it has.

        A key whose value has not begun is left out, and so is an unfinished number. The dict is
        the caller's to keep; values inside it that are complete are shared between calls.
        """
        return self._scan().snapshot()

    def close(self) -> dict[str, Any]:
        """The arguments, strictly parsed; no text at all means no arguments.

        Raises:
            ValueError: saying what is wrong and where.
        """
        text = self.text
        if not text or text.isspace():
            return {}
        try:
            value = msgspec.json.decode(text)
        except RecursionError:
            raise ValueError(_TOO_DEEP) from None
        except ValueError as error:
            raise ValueError(_describe(error, text)) from error
        if not isinstance(value, dict):
            raise ValueError("expected a JSON object with the arguments at its top (byte 0)")
        if text.count("{") + text.count("[") > MAX_DEPTH and not self.is_whole:
            raise ValueError(_TOO_DEEP)
        return value

    def _scan(self) -> JsonScanner:
        if self._scanned < len(self._pieces):
            self._scanner.feed("".join(self._pieces[self._scanned :]))
            self._scanned = len(self._pieces)
        return self._scanner


def _describe(error: ValueError, text: str) -> str:
    reason = str(error).removeprefix("JSON is malformed: ")
    if "truncated" in reason:
        return f"the JSON ends before it is complete (after {len(text)} characters)"
    return reason
