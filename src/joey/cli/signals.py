"""Handling of SIGINT, SIGTERM and SIGHUP.

The first signal stops the work cleanly. The second ends the process and the programs that it
started. A terminal that hangs up may send SIGHUP several times; it counts once.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from joey.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    import asyncio

_SIGNAL_EXIT_CODES = {
    signal.SIGHUP: ExitCode.HANGUP,
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGTERM: ExitCode.TERMINATED,
}
HANGUP_SHUTDOWN_TIMEOUT_S = 20.0
"""Who writes to a terminal that is gone may wait for ever."""
T = TypeVar("T")


class Interruption:
    """The signal that stopped the run, if one did."""

    def __init__(self, work: asyncio.Task[Any] | None = None) -> None:
        self.exit_code: ExitCode | None = None
        self.before_exit: Callable[[], None] | None = None
        """Called when the process ends at once."""
        self._stoppable_task = work

    async def run_stoppable(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work`; a signal cancels it, even one that came before. Raises CancelledError."""
        import asyncio

        doing: asyncio.Task[T] = asyncio.ensure_future(work)
        self._stoppable_task = doing
        if self.exit_code is not None:
            self.stop()
        try:
            return await doing
        finally:
            self._stoppable_task = None

    def stop(self) -> None:
        work, self._stoppable_task = self._stoppable_task, None
        if work is not None:
            work.cancel()


_current_interruption = Interruption()


def was_interrupted() -> bool:
    """Whether a signal has arrived, even if the event loop has not handled it yet."""
    return _current_interruption.exit_code is not None


@contextmanager
def handle_signals(
    *numbers: signal.Signals, only_stoppable: bool = False
) -> Iterator[Interruption]:
    """Cancel the current asyncio task at the first of these signals (by default all handled ones),
    or with `only_stoppable` the work inside `run_stoppable`; a second signal ends the process.
    Ignored signals (`nohup`) stay ignored."""
    import asyncio

    global _current_interruption  # noqa: PLW0603 (a process has one set of signals)
    handled = [
        n for n in numbers or _SIGNAL_EXIT_CODES if signal.getsignal(n) is not signal.SIG_IGN
    ]
    loop = asyncio.get_running_loop()
    interruption = _current_interruption = Interruption(
        None if only_stoppable else asyncio.current_task()
    )
    for number in handled:
        loop.add_signal_handler(number, interruption.stop)
        # The event loop handles a signal later; this is called at once.
        signal.signal(number, _handle_signal)
    try:
        yield interruption
    finally:
        if interruption.exit_code is None:
            for number in handled:
                loop.remove_signal_handler(number)


@contextmanager
def run_until_signal(*numbers: signal.Signals) -> Iterator[Interruption]:
    """Like `handle_signals`, but a signal ends the block instead of the program."""
    import asyncio

    with handle_signals(*numbers) as interruption:
        try:
            yield interruption
        except asyncio.CancelledError:
            if interruption.exit_code is None:
                raise


def _handle_signal(number: int, frame: FrameType | None) -> None:
    if _current_interruption.exit_code is None:
        _current_interruption.exit_code = _SIGNAL_EXIT_CODES[signal.Signals(number)]
        if number == signal.SIGHUP:
            signal.signal(signal.SIGALRM, _exit_on_timeout)
            signal.setitimer(signal.ITIMER_REAL, HANGUP_SHUTDOWN_TIMEOUT_S)
    elif number != signal.SIGHUP:
        # The journal is written immediately: nothing acknowledged is lost.
        _kill_child_process_groups()
        if _current_interruption.before_exit is not None:
            _current_interruption.before_exit()
        os._exit(_SIGNAL_EXIT_CODES[signal.Signals(number)])


def _kill_child_process_groups() -> None:
    from joey.system.subprocess import kill_child_process_groups  # loaded wherever one is started

    kill_child_process_groups()


def _exit_on_timeout(number: int, frame: FrameType | None) -> None:
    _kill_child_process_groups()
    os._exit(ExitCode.HANGUP)
