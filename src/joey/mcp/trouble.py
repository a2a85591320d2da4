"""Why a server cannot be used, in words that say what to do."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from joey.mcp.launch import LastWords

_LINES = 8
_LONGEST = 1000
_CLOSED = -32000
_ENDED = "Connection closed"
"""What the library says when a connection ends; servers use the same code for other things."""


class Circumstances(Struct):
    """What is known beside the error itself."""

    words: LastWords = field(default_factory=LastWords)
    status: int = 0
    """Of the latest response that refused a request."""

    @property
    def last_words(self) -> str:
        """What the program said at its end, after a dash."""
        code = self.words.code
        ended = "" if code is None else f" ({_exit(code)})"
        lines = self.words.text.splitlines()[-_LINES:]
        said = "\n".join(lines)[-_LONGEST:]
        return f"{ended}; it said last: {said}" if said else ended


def _exit(code: int) -> str:
    return f"ended by signal {-code}" if code < 0 else f"exit code {code}"


def in_words(error: BaseException, about: Circumstances, name: str = "") -> str:
    """A clause without a full stop."""
    error = first_cause(error)
    login = f"joey mcp login {name}"
    match type(error).__name__:
        case "LoginNeededError":
            return f"its login has expired; log in again: {login}"
        case "ValidationError":
            return "its answer is not what the protocol promises"
        case "ConnectError":
            return "nobody listens at its address"
        case "MCPError" if str(error) == _ENDED and about.status == 0:
            return f"the connection was closed{about.last_words}"
    if about.status in (401, 403):
        return f"it wants a login (HTTP {about.status}): {login}"
    if about.status:
        return f"it answered with HTTP {about.status}"
    text = str(error).strip()[:_LONGEST] or type(error).__name__
    return f"{text.removesuffix('.')}{about.last_words}"


def first_cause(error: BaseException) -> BaseException:
    """The library raises groups of groups; what went wrong first is what matters."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def closed(error: BaseException) -> bool:
    """The connection ended before the answer came."""
    error = first_cause(error)
    code: Any = getattr(error, "code", None)
    return type(error).__name__ == "MCPError" and code == _CLOSED
