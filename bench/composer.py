"""The composer: what a key costs in a long draft, a large paste, and finding one of many files.

A key is counted from its arrival to the end of its handling; `bench.screen` counts until it is
seen.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles

from textual import events
from textual.app import App, ComposeResult

from bench.tables import format_verdict, print_table
from joey.app.file_finder import PathIndex
from joey.tui.app_services import CompletionItem
from joey.tui.widgets.composer import Composer
from joey.tui.widgets.prompt_history import PromptHistory
from joey.tui.widgets.text_area import TextEntry

DRAFT_LINES = 5_000
KEY_COUNT = 200
KEY_GOAL_MS = 5.0
PASTE_GOAL_MS = 100.0
FILE_COUNT = 100_000
FIND_GOAL_MS = 10.0
FUZZY_FIND_GOAL_MS = 100.0
"""In a thread, in portions: nobody who types waits for it."""
NAME_PARTS = ("app", "core", "test", "page", "model", "view", "store", "query", "parse", "widget")


class EmptyCompletions:
    def list_commands(self) -> Sequence[CompletionItem]:
        return ()

    async def find_files(self, typed: str) -> Sequence[str]:
        return ()


class ComposerApp(App[None]):
    def compose(self) -> ComposeResult:
        yield Composer(EmptyCompletions(), PromptHistory(None, Path("/")))


def main() -> None:
    rows = [["what", "measured", "goal", ""]]
    rows += asyncio.run(measure_input())
    names = PathIndex(build_paths())
    for label, typed, goal in (
        ("begins so", "widget", FIND_GOAL_MS),
        ("has it", "st12", FIND_GOAL_MS),
        ("has its letters", "wdgtprs", FUZZY_FIND_GOAL_MS),
        ("nothing", "zzzz", FUZZY_FIND_GOAL_MS),
    ):
        spent = compute_p95([time_find_ms(names, typed) for _ in range(20)])
        rows.append(format_row(f"{FILE_COUNT:,} files: {label}", spent, goal))
    print_table("The composer", rows)


async def measure_input() -> list[list[str]]:
    rows = []
    async with ComposerApp().run_test(size=(100, 40)) as pilot:
        composer, entry = pilot.app.query_one(Composer), pilot.app.query_one(TextEntry)
        composer.focus()
        for label, text in (
            ("an empty draft", ""),
            (
                f"{DRAFT_LINES:,} lines",
                "\n".join(f"line {number}" for number in range(DRAFT_LINES)),
            ),
        ):
            composer.set_text(text)
            await pilot.pause()
            spent = []
            for _ in range(KEY_COUNT):
                spent.append(await time_event_ms(entry, events.Key("x", "x")))
                await asyncio.sleep(0)
            await pilot.pause()
            rows.append(format_row(f"a key in {label}, p95", compute_p95(spent), KEY_GOAL_MS))
        composer.clear()
        await pilot.pause()
        large = "0123456789abcde\n" * 65_536
        rows.append(
            format_row(
                "a paste of 1 MB", await time_event_ms(entry, events.Paste(large)), PASTE_GOAL_MS
            )
        )
    return rows


async def time_event_ms(entry: TextEntry, event: events.Event) -> float:
    began = time.perf_counter()
    await entry.on_event(event)
    return (time.perf_counter() - began) * 1000


def time_find_ms(names: PathIndex, typed: str) -> float:
    began = time.perf_counter()
    names.find(typed)
    return (time.perf_counter() - began) * 1000


def build_paths() -> list[str]:
    chance = random.Random(1)

    def name() -> str:
        return f"{chance.choice(NAME_PARTS)}{chance.randrange(30)}"

    directories = ["/".join(name() for _ in range(chance.randrange(1, 6))) for _ in range(6_000)]
    return sorted(
        f"{chance.choice(directories)}/{name()}{name()}{number}.py" for number in range(FILE_COUNT)
    )


def compute_p95(spent: list[float]) -> float:
    return quantiles(spent, n=20)[-1]


def format_row(label: str, spent: float, goal: float) -> list[str]:
    return [label, f"{spent:.1f} ms", f"{goal:.0f} ms", format_verdict(spent, goal)]


if __name__ == "__main__":
    main()
