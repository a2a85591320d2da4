"""Ctrl-C and its relatives."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from joey.cli.exit_codes import ExitCode

_CODES = {
    signal.SIGHUP: ExitCode.HANGUP,
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGTERM: ExitCode.TERMINATED,
}


class Interruption:
    """Which signal stopped the run, once one did."""

    code: ExitCode | None = None


@contextmanager
def interruptible(*numbers: signal.Signals) -> Iterator[Interruption]:
    """The first of these signals (all that we know, unless some are named) cancels the asyncio
    task that is inside; the next ends the process. What is ignored (`nohup`) stays ignored."""
    heeded = [n for n in numbers or _CODES if signal.getsignal(n) is not signal.SIG_IGN]
    loop = asyncio.get_running_loop()
    inside = asyncio.current_task()
    assert inside is not None
    interruption = Interruption()

    def stop(number: signal.Signals) -> None:
        interruption.code = _CODES[number]
        for again in heeded:
            loop.remove_signal_handler(again)
            signal.signal(again, _leave_at_once)
        inside.cancel()

    for number in heeded:
        loop.add_signal_handler(number, stop, number)
    try:
        yield interruption
    finally:
        if interruption.code is None:
            for number in heeded:
                loop.remove_signal_handler(number)


def _leave_at_once(number: int, frame: FrameType | None) -> None:
    # The journal is written as things happen: nothing that was acknowledged is lost.
    os._exit(_CODES[signal.Signals(number)])
