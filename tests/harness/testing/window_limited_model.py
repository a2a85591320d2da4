"""A model that refuses requests above its window, for tasks that outgrow it many times.

It counts the bytes of each request, reports the count as its usage, and refuses a request that is
too long with the message of a real service. Asked for a summary, it writes one with its number.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct

from joey.core.context.condense import APPENDED_INTRODUCTION, CONDENSE_SYSTEM_PROMPT
from joey.testing.script import Turn, call, fail, say, usage
from joey.testing.server import Request

_REPORTED_OUTPUT_TOKENS = 50


class RequestTally(Struct):
    """What was asked of the model."""

    turn_count: int = 0
    summary_count: int = 0
    resummarization_count: int = 0
    """Summaries of a conversation that began with the one before."""
    max_request_tokens: int = 0
    refused_request_count: int = 0


class WindowLimitedModelScript:
    def __init__(
        self, turns: Callable[[int], Turn], window: int, bytes_per_token: float = 4.0
    ) -> None:
        """`turns` makes the answer to the n-th request, from 0 on; summaries do not count."""
        self._make_turn = turns
        self._window_tokens = window
        self._bytes_per_token = bytes_per_token
        self.tally = RequestTally()

    def __call__(self, request: Request) -> Turn:
        tally = self.tally
        tokens = math.ceil(len(request.raw) / self._bytes_per_token)
        tally.max_request_tokens = max(tally.max_request_tokens, tokens)
        if tokens > self._window_tokens:
            tally.refused_request_count += 1
            return Turn(
                fail(400, f"prompt is too long: {tokens} tokens > {self._window_tokens} maximum")
            )
        if is_summary_request(request):
            tally.resummarization_count += (
                f"Summary number {tally.summary_count}.".encode() in request.raw
            )
            tally.summary_count += 1
            turn = Turn(say(f"Summary number {tally.summary_count}. Files were read."))
        else:
            turn = self._make_turn(tally.turn_count)
            tally.turn_count += 1
        return Turn(*turn.steps, usage(input=tokens, output=_REPORTED_OUTPUT_TOKENS), coalesce=True)


def is_summary_request(request: Request) -> bool:
    beginnings = (CONDENSE_SYSTEM_PROMPT[:40], APPENDED_INTRODUCTION[:40])
    return any(text.encode() in request.raw for text in beginnings)


def make_file_reading_turns(files: int, turns: int) -> Callable[[int], Turn]:
    """Reads one file after the other for so many turns, then is done."""

    def turn(number: int) -> Turn:
        if number < turns:
            return Turn(call("read_file", {"path": f"file{number % files}.txt"}))
        return Turn(call("attempt_completion", {"result": f"{turns} files read."}))

    return turn
