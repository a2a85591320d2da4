"""How a run of the loop can end, and what a turn can lead to: plain values to match on."""

from __future__ import annotations

from msgspec import Struct

from joey.core.messages import UserBlock
from joey.errors import JoeyError


class Completed(Struct, frozen=True):
    """The result was accepted."""

    result: str
    refused: tuple[str, ...] = ()
    """What was not done because nobody was there to allow it."""
    answered: bool = False
    """The result is an answer in plain text."""


class Failed(Struct, frozen=True):
    """It cannot go on by itself."""

    code: str
    message: str


class Aborted(Struct, frozen=True):
    """Somebody cancelled it."""


Ending = Completed | Failed | Aborted


class Continue(Struct, frozen=True):
    """Another request, with these words after the results of the calls."""

    content: tuple[UserBlock, ...] = ()


class Stop(JoeyError):
    """Ends the run from wherever it is, with a code and a sentence for the person."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
