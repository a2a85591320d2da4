"""The screen of the terminal: its cost while a model streams, and how soon a key is seen.

The real program in a terminal of its own, with a task of 5,000 rows open. The model speaks 200
pieces a second; counted is the CPU time of the whole process beside the time that passed. *echo*:
from a keypress to its letter in what the program writes, while the model speaks. *open*: from the
start of the program to the last row of the task, and the part of it that the widget takes.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import struct
import sys
import termios
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import cast

import psutil

from bench.tables import format_verdict, print_table
from joey.client.session import Session
from joey.core.history.ui import Row
from joey.testing.script import Turn, say
from joey.testing.server import ModelServer
from joey.tui.blocks.block_layout import BlockHeights
from joey.tui.blocks.timeline import Timeline

CHUNKS_PER_SECOND = 200
STREAM_DURATION_S = 10.0
ROW_COUNT = 5_000
MANY_ROW_COUNT = 100_000
KEY_COUNT = 60
KEY_INTERVAL_S = 0.1
MAX_CORES = 0.5
ECHO_GOAL_MS = 50.0
MAX_OPEN_S = 2.0
TIMELINE_GOALS_MS = {ROW_COUNT: 50.0, MANY_ROW_COUNT: 1_000.0}
COLUMNS, LINES = 160, 50
TIMEOUT_S = 60.0
ECHO_LETTERS = "αβγδεζηθικλμνξοπρστυφχψω"
"""None of them is in the words of the model."""
PARAGRAPH = """\
## A part of the answer

The parser **drops a field** when the line ends with a comma, because `split` is called with a
limit. There are two ways out, and [the manual](https://example.org/manual) knows both:

1. keep the empty field, as `csv` does
2. say that it is missing, with the *number* of the line

| field | meaning |
|-------|---------|
| name  | what it is called |

```python
def parse_line(line: str) -> list[str]:
    return [field.strip() for field in line.split(",")]
```

"""


def main() -> None:
    opening, cores, echoes = asyncio.run(measure())
    p95 = quantiles(echoes, n=20)[-1]
    rows = [["terminal screen", "measured", "goal", ""]]
    cells = [
        f"{CHUNKS_PER_SECOND} pieces/s into {ROW_COUNT:,} rows",
        f"{cores:.2f} cores",
        f"{MAX_CORES:.2f}",
    ]
    rows.append([*cells, format_verdict(cores, MAX_CORES)])
    rows.append([f"echo of a key, median of {KEY_COUNT}", f"{median(echoes):.0f} ms", "", ""])
    rows.append(
        [
            "echo of a key, p95",
            f"{p95:.0f} ms",
            f"{ECHO_GOAL_MS:.0f}",
            format_verdict(p95, ECHO_GOAL_MS),
        ]
    )
    cells = [f"open, {ROW_COUNT:,} rows", f"{opening:.2f} s", f"{MAX_OPEN_S:.2f}"]
    rows.append([*cells, format_verdict(opening, MAX_OPEN_S)])
    for count, goal in TIMELINE_GOALS_MS.items():
        took = measure_timeline_ms(count)
        cells = [f"blocks of {count:,} rows, CPU", f"{took:.0f} ms", f"{goal:.0f}"]
        rows.append([*cells, format_verdict(took, goal)])
    print_table(f"The screen, in a terminal of {COLUMNS} x {LINES}", rows)


async def measure() -> tuple[float, float, list[float]]:
    with TemporaryDirectory(prefix="joey-bench-") as name:
        async with ModelServer(lambda request: build_answer()) as model:
            home, workspace = Path(name, "home"), Path(name, "work")
            write_long_task(home / "tasks" / "task_long", workspace)
            async with open_screen(home, workspace, model.url) as screen:
                started = time.perf_counter()
                await screen.wait_for_text(f"Row {ROW_COUNT - 1}")
                opening = time.perf_counter() - started
                await screen.wait_until_quiet()
                screen.press("Speak")
                await asyncio.sleep(1)
                screen.press("\r")
                await screen.wait_for_text("A part of the answer")
                cores = await screen.measure_cores(STREAM_DURATION_S)
                echoes = [
                    await screen.measure_echo_ms(ECHO_LETTERS[number % len(ECHO_LETTERS)])
                    for number in range(KEY_COUNT)
                ]
    return opening, cores, echoes


def build_answer() -> Turn:
    """Pieces of four letters or so, as tokens are, for longer than anybody looks."""
    length = int(4 * CHUNKS_PER_SECOND * (STREAM_DURATION_S + 3 * KEY_COUNT * KEY_INTERVAL_S + 20))
    parts = (f"# {number}\n\n{PARAGRAPH}" for number in range(length // len(PARAGRAPH) + 1))
    return Turn(say("".join(parts)[:length], chunk=4), pace=CHUNKS_PER_SECOND)


def write_long_task(directory: Path, workspace: Path) -> None:
    """A task as another program left it."""
    workspace.mkdir()
    directory.mkdir(parents=True)
    rows = [
        {"ts": 1_700_000_000_000 + n, "type": "say", "say": "text", "text": f"Row {n} {PARAGRAPH}"}
        for n in range(ROW_COUNT - 1)
    ]
    last = {"ts": 1_700_000_000_000 + ROW_COUNT, "type": "say", "say": "text"}
    rows.append({**last, "text": f"Row {ROW_COUNT - 1}"})
    messages = [{"role": "user", "content": [{"type": "text", "text": "<task>\nBe long\n</task>"}]}]
    (directory / "ui_messages.json").write_text(json.dumps(rows), encoding="utf-8")
    (directory / "api_conversation_history.json").write_text(json.dumps(messages), encoding="utf-8")
    facts = {"id": "long", "workspace": str(workspace), "title": "Be long", "mode": "code"}
    (directory / "task_metadata.json").write_text(json.dumps(facts), encoding="utf-8")


def build_environment(home: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home.parent),
        "JOEY_HOME": str(home),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "ANTHROPIC_API_KEY": "scripted",
    }


@asynccontextmanager
async def open_screen(home: Path, workspace: Path, url: str) -> AsyncIterator[TerminalScreen]:
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "joey", "-r", "long", "-y"),
        *("--provider", "anthropic", "--base-url", url, "--model", "scripted"),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=workspace,
        env=build_environment(home),
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(slave)
    screen = TerminalScreen(master, process)
    try:
        yield screen
    finally:
        screen.close()
        if process.returncode is None:
            process.kill()
        await process.wait()


class TerminalScreen:
    """What a program writes to its terminal, read all the time, so that it never waits."""

    def __init__(self, fd: int, process: Process) -> None:
        self._fd = fd
        self._process = psutil.Process(process.pid)
        self._output = bytearray()
        self._output_arrived = asyncio.Event()
        asyncio.get_running_loop().add_reader(fd, self._read_output)

    def press(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    async def wait_for_text(self, text: str, since: int = 0) -> None:
        encoded = text.encode()
        async with asyncio.timeout(TIMEOUT_S):
            while self._output.find(encoded, max(0, since)) < 0:
                self._output_arrived.clear()
                await self._output_arrived.wait()

    async def wait_until_quiet(self) -> None:
        """Until nothing was written for a while."""
        written = -1
        while written != len(self._output):
            written = len(self._output)
            await asyncio.sleep(1)

    async def measure_cores(self, seconds: float) -> float:
        before, started = self._read_cpu_s(), time.perf_counter()
        await asyncio.sleep(seconds)
        return (self._read_cpu_s() - before) / (time.perf_counter() - started)

    async def measure_echo_ms(self, letter: str) -> float:
        """Milliseconds until a letter is on the screen."""
        await asyncio.sleep(KEY_INTERVAL_S)
        since, started = len(self._output), time.perf_counter()
        self.press(letter)
        await self.wait_for_text(letter, since)
        return (time.perf_counter() - started) * 1000

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)

    def _read_cpu_s(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def _read_output(self) -> None:
        try:
            self._output += os.read(self._fd, 65536)
        except OSError:
            asyncio.get_running_loop().remove_reader(self._fd)
        self._output_arrived.set()


def measure_timeline_ms(count: int) -> float:
    """Milliseconds of work until all rows have a place."""
    rows = [Row(ts=n, type="say", say="text", text=f"{n} {PARAGRAPH}") for n in range(count)]
    session = cast(Session, SimpleNamespace(id="task", rows=rows))
    started = time.process_time()
    story = Timeline()
    story.load_session(session)
    BlockHeights(block.estimate_height(COLUMNS) for block in story.blocks)
    return (time.process_time() - started) * 1000


if __name__ == "__main__":
    main()
