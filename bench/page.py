"""The web page in a real browser: its cost while a model streams, and how soon a task is there.

The model speaks 200 pieces a second for ten seconds, once into a new task and once into one with
10,000 rows. Counted is the CPU time of the browser's renderers, where the page runs, beside the
time that passed. *open*: from the address to the last row in sight.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from tests.harness.server.browsing import (
    CHROMIUM,
    PAGE,
    Browser,
    Page,
    chromium,
    expect,
    opened,
    served,
    start_task,
    write_long_task,
)

from bench.tables import format_verdict, print_table
from joey.testing.script import Turn, say
from joey.testing.server import ModelServer

CHUNKS_PER_SECOND = 200
STREAM_DURATION_S = 10
ROW_COUNT = 10_000
MAX_CORES = 0.5
MAX_OPEN_S = 2.0
PARAGRAPH = """\
## A part of the answer

The parser **drops a field** when the line ends with a comma, because `split` is called with a
limit. There are two ways out, and [the manual](https://example.org/manual) knows both:

1. keep the empty field, as `csv` does
2. say that it is missing, with the *number* of the line

```python
def parse_line(line: str) -> list[str]:
    return [field.strip() for field in line.split(",")]
```

"""
LAST_LINE = "That was all."


def main() -> None:
    if not CHROMIUM or not PAGE.exists():
        print("\nThe web page is not measured: there is no Chromium, or no page (`make web`).")
        return
    new, long, opening = asyncio.run(measure())
    rows = [["web page", "measured", "goal", ""]]
    for name, cores in (("a new task", new), (f"{ROW_COUNT:,} rows", long)):
        cells = [
            f"{CHUNKS_PER_SECOND} pieces/s into {name}",
            f"{cores:.2f} cores",
            f"{MAX_CORES:.2f}",
        ]
        rows.append([*cells, format_verdict(cores, MAX_CORES)])
    cells = [f"open, {ROW_COUNT:,} rows", f"{opening:.2f} s", f"{MAX_OPEN_S:.2f}"]
    rows.append([*cells, format_verdict(opening, MAX_OPEN_S)])
    print_table("The web page, in Chromium", rows)


async def measure() -> tuple[float, float, float]:
    with TemporaryDirectory(prefix="joey-bench-") as name:
        async with (
            chromium() as browser,
            ModelServer(lambda request: build_answer()) as model,
            served(Path(name), model) as server,
        ):
            write_long_task(server, ROW_COUNT)
            async with opened(browser, server.link) as watched:
                await start_task(watched.page, "Speak")
                new = await measure_cores(watched.page)
            opening = min([await measure_open_s(browser, server.link) for _ in range(3)])
            async with opened(browser, f"{server.link}&task=long") as watched:
                field = watched.page.get_by_label("Message to joey")
                await field.fill("Speak")
                await field.press("Enter")
                long = await measure_cores(watched.page)
    return new, long, opening


def build_answer() -> Turn:
    """Pieces of four letters or so, as tokens are."""
    length = 4 * CHUNKS_PER_SECOND * STREAM_DURATION_S
    parts = (f"# {number}\n\n{PARAGRAPH}" for number in range(length // len(PARAGRAPH) + 1))
    text = "".join(parts)[:length]
    return Turn(say(f"{text}\n\n```\n\n{LAST_LINE}", chunk=4), pace=CHUNKS_PER_SECOND)


async def measure_cores(page: Page) -> float:
    """From the first words to the last."""
    await expect(page.get_by_text("The parser").last).to_be_visible()
    before, started = read_renderer_cpu_s(), time.perf_counter()
    await expect(page.get_by_text(LAST_LINE)).to_be_visible()
    return (read_renderer_cpu_s() - before) / (time.perf_counter() - started)


def read_renderer_cpu_s() -> float:
    """CPU seconds of all renderers below this process."""
    seconds = 0.0
    for process in psutil.Process().children(recursive=True):
        if "--type=renderer" in process.cmdline():
            times = process.cpu_times()
            seconds += times.user + times.system
    return seconds


async def measure_open_s(browser: Browser, link: str) -> float:
    started = time.perf_counter()
    async with opened(browser, f"{link}&task=long") as watched:
        await expect(watched.page.get_by_text(f"Row {ROW_COUNT - 1} ")).to_be_in_viewport()
        return time.perf_counter() - started


if __name__ == "__main__":
    main()
