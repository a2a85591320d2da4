"""The real program in a real terminal: a tmux of its own, which says what stands on its screen."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from joey.tui.widgets.dialog_area import REPEAT_GUARD_S
from tests.harness.cli.binary import LIMIT, Joey
from tests.harness.fork_server import start_process
from tests.harness.tui.screens import Screen

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
AFTER = "ended with"
"""Behind it the shell tells the exit code, on the screen that was there before."""


class TerminalScreen(Screen):
    def __init__(self, socket: str) -> None:
        self._socket = socket
        self.process: Process | None = None
        """joey, unless a shell has started it."""

    async def tmux(self, *arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *("tmux", "-S", self._socket, "-f", os.devnull, *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode == 0, f"tmux {arguments}: {err.decode()}"
        return out.decode()

    async def press(self, *keys: str) -> None:
        await self.tmux("send-keys", "-t", "joey", *keys)

    async def type(self, text: str) -> None:
        await self.tmux("send-keys", "-t", "joey", "-l", text)

    async def capture(self, *, colours: bool = False) -> str:
        return await self.tmux("capture-pane", "-t", "joey", "-p", *(["-e"] if colours else []))

    async def wait_for_guard(self) -> None:
        """Until no key counts as a repetition of the last answer. It also outlasts the guard of the
        question, which on a busy machine begins after the question is seen here."""
        await asyncio.sleep(REPEAT_GUARD_S * 1.1)

    async def copied(self) -> str:
        """The text that joey has put on the clipboard (OSC 52), which tmux keeps as a buffer."""
        async with asyncio.timeout(LIMIT):
            while True:
                if buffer := await self.tmux("list-buffers", "-F", "#{buffer_sample}"):
                    return buffer.strip()
                await asyncio.sleep(0.05)

    async def resize(self, columns: int, rows: int) -> None:
        await self.tmux("resize-window", "-t", "joey", "-x", str(columns), "-y", str(rows))

    async def pid(self) -> int:
        """Of joey itself."""
        if self.process is not None:
            return self.process.pid
        shell = (await self.tmux("display-message", "-t", "joey", "-p", "#{pane_pid}")).strip()
        return await asyncio.to_thread(_only_child, int(shell))

    async def title(self) -> str:
        return (await self.tmux("display-message", "-t", "joey", "-p", "#{pane_title}")).strip()

    async def ended(self, code: int) -> str:
        """What is left on the terminal when joey has gone."""
        left = await self.until(f"{AFTER} {code}.")
        assert "Traceback" not in left
        assert "never retrieved" not in left
        return left


def _only_child(pid: int) -> int:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return int(found[0])


def command_line(*arguments: str) -> str:
    return shlex.join((sys.executable, "-m", "joey", *arguments))


@asynccontextmanager
async def terminal(
    joey: Joey,
    *arguments: str,
    size: tuple[int, int] = (100, 30),
    env: Mapping[str, str] | None = None,
    behind: str = "",
) -> AsyncIterator[TerminalScreen]:
    """joey on a terminal of this size, in a window that outlives it; `behind` is for the shell."""
    if behind:
        after = f"{command_line(*arguments)} {behind}; echo {AFTER} $?.; exec sleep 1000"
        async with _window(joey, size, env or {}, "sh", "-c", after) as shown:
            yield shown
        return
    with TemporaryDirectory(prefix="joey-pane-") as directory:
        released, ended = Path(directory, "released"), Path(directory, "ended")
        for fifo in (released, ended):
            os.mkfifo(fifo)
        hold = (sys.executable, "-I", "-S", "-c", _HOLD_PANE, str(released), str(ended))
        async with _window(joey, size, {}, *hold) as shown:
            async with asyncio.timeout(LIMIT):
                await asyncio.to_thread(released.read_bytes)
            process = await _start_in_pane(shown, joey, arguments, {**joey.env, **(env or {})})
            shown.process = process
            reporting = asyncio.create_task(_report_end(process, ended))
            try:
                yield shown
            finally:
                if process.returncode is None:
                    process.kill()
                await reporting


_HOLD_PANE = f"""
import fcntl, os, select, signal, sys, termios
signal.signal(signal.SIGHUP, signal.SIG_IGN)
fcntl.ioctl(0, termios.TIOCNOTTY)
with open(sys.argv[1], "wb") as released:
    released.write(b".")
ended = os.open(sys.argv[2], os.O_RDWR)
waiting = select.poll()
waiting.register(0, 0)  # only for its end
waiting.register(ended, select.POLLIN)
for ready, _ in iter(lambda: waiting.poll()[0], None):
    if ready != ended:
        break
    print("{AFTER}", os.read(ended, 16).decode(), flush=True)
"""
"""Gives the terminal of the pane to joey, says how that ended, and stays until it is closed."""


async def _start_in_pane(
    shown: TerminalScreen, joey: Joey, arguments: tuple[str, ...], env: Mapping[str, str]
) -> Process:
    tty = (await shown.tmux("display-message", "-t", "joey", "-p", "#{pane_tty}")).strip()
    terminal = os.open(tty, os.O_RDWR | os.O_NOCTTY)
    try:
        return await start_process(
            *arguments,
            env=env,
            cwd=joey.workspace,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            controls_terminal=True,
        )
    finally:
        os.close(terminal)


async def _report_end(process: Process, ended: Path) -> None:
    code = await process.wait()
    with suppress(OSError):  # the window is closed
        fifo = os.open(ended, os.O_WRONLY | os.O_NONBLOCK)
        os.write(fifo, f"{code if code >= 0 else 128 - code}.".encode())
        os.close(fifo)


@asynccontextmanager
async def shell(joey: Joey) -> AsyncIterator[TerminalScreen]:
    """A shell in which joey can be started, stopped and gone on with."""
    async with _window(joey, (100, 30), {}, "bash", "--norc", "-i") as shown:
        yield shown


@asynccontextmanager
async def _window(
    joey: Joey, size: tuple[int, int], env: Mapping[str, str], *program: str
) -> AsyncIterator[TerminalScreen]:
    columns, rows = size
    variables = {**joey.env, **env}
    # The name of a socket must be short, and tmux leaves it behind.
    with TemporaryDirectory(prefix="joey-tmux-") as directory:
        shown = TerminalScreen(f"{directory}/socket")
        await shown.tmux(
            *("new-session", "-d", "-s", "joey", "-x", str(columns), "-y", str(rows)),
            *("-c", str(joey.workspace)),
            *("env", "-i", *(f"{name}={value}" for name, value in variables.items()), *program),
        )
        await shown.tmux("set-option", "-s", "set-clipboard", "on")
        try:
            yield shown
        finally:
            await shown.tmux("kill-server")
