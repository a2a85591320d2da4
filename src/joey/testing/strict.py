"""A model that takes no request above its window, for tasks that outgrow it many times over.

    strict = StrictModel(lambda number: Turn(call(...)), window=32_000, bytes_per_token=4.0)
    async with ModelServer(strict) as server: ...

It counts the bytes of each request, states the count as its usage, and refuses what is too long
in the words of a real service. Asked for a summary, it writes one that names its number.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct

from joey.core.context.condense import SYSTEM
from joey.testing.script import Turn, call, fail, say, usage
from joey.testing.server import Request

_OUTPUT = 50


class Tally(Struct):
    """What was asked of the model."""

    turns: int = 0
    summaries: int = 0
    nested: int = 0
    """Summaries of a conversation that began with the one before."""
    biggest: int = 0
    """The tokens of the longest request."""
    too_long: int = 0
    """Requests that were refused."""


class StrictModel:
    def __init__(
        self, turns: Callable[[int], Turn], window: int, bytes_per_token: float = 4.0
    ) -> None:
        """`turns` makes the answer to the n-th request, from 0 on; summaries do not count."""
        self._turns = turns
        self._window = window
        self._bytes_per_token = bytes_per_token
        self.tally = Tally()

    def __call__(self, request: Request) -> Turn:
        tally = self.tally
        tokens = math.ceil(len(request.raw) / self._bytes_per_token)
        tally.biggest = max(tally.biggest, tokens)
        if tokens > self._window:
            tally.too_long += 1
            return Turn(fail(400, f"prompt is too long: {tokens} tokens > {self._window} maximum"))
        if is_for_summary(request):
            tally.nested += f"Summary number {tally.summaries}.".encode() in request.raw
            tally.summaries += 1
            turn = Turn(say(f"Summary number {tally.summaries}. Files were read."))
        else:
            turn = self._turns(tally.turns)
            tally.turns += 1
        return Turn(*turn.steps, usage(input=tokens, output=_OUTPUT), coalesce=True)


def is_for_summary(request: Request) -> bool:
    return SYSTEM[:40].encode() in request.raw


def read_in_turn(files: int, turns: int) -> Callable[[int], Turn]:
    """Reads one file after the other for so many turns, then is done."""

    def turn(number: int) -> Turn:
        if number < turns:
            return Turn(call("read_file", {"path": f"file{number % files}.txt"}))
        return Turn(call("attempt_completion", {"result": f"{turns} files read."}))

    return turn
