"""A list to choose from: typing narrows it, arrows move, Enter takes, Esc leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input, Static

from joey.presentation.text import one_line
from joey.tui.choice_list import MOVES, ChoiceList, Line
from joey.tui.host import Entry


class Picker(Widget):
    """Ask with `await picker.chosen()` once it is on the screen."""

    DEFAULT_CSS = """
    Picker { height: auto; padding: 0 1; border-top: solid ansi_bright_black; }
    Picker Static { height: auto; max-height: 40vh; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,ctrl+c", "leave", show=False)]

    def __init__(
        self, title: str, entries: Sequence[Entry], hint: str = "", *, takes_any: bool = False
    ) -> None:
        """`takes_any`: what is not in the list can be written instead."""
        super().__init__()
        self._title = title
        self._hint = hint or "Enter takes · Esc leaves"
        self._takes_any = takes_any
        self._entries = list(entries)
        self._fitting = self._entries
        self._words: list[str] = []
        self._result: asyncio.Future[Entry | None] = asyncio.get_running_loop().create_future()

    def compose(self) -> ComposeResult:
        yield Static(Text.assemble((self._title, "bold"), (f"  {self._hint}", "dim")), markup=False)
        yield Input(placeholder="type to filter", compact=True)
        yield ChoiceList(list(_lines(self._entries)))

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        current = (n for n, entry in enumerate(self._entries) if entry.is_current)
        self.query_one(ChoiceList).at = next(current, 0)

    async def chosen(self) -> Entry | None:
        return await self._result

    def on_input_changed(self) -> None:
        self._narrow()

    def _narrow(self) -> None:
        """By what is written now: a key may be here before the news that the text has changed."""
        words = self.query_one(Input).value.lower().split()
        if words == self._words:
            return
        self._words = words
        self._fitting = [entry for entry in self._entries if _fits(entry, words)]
        written = self.query_one(Input).value.strip()
        if self._takes_any and written and written not in {each.key for each in self._fitting}:
            self._fitting.append(Entry(written, f'use "{written}"'))
        self.query_one(ChoiceList).show(list(_lines(self._fitting)))

    def on_key(self, event: events.Key) -> None:
        if event.key in MOVES:
            event.stop()
            event.prevent_default()
            self._narrow()
            self.query_one(ChoiceList).hear(event.key)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._narrow()
        self.query_one(ChoiceList).take()

    def on_choice_list_taken(self, event: ChoiceList.Taken) -> None:
        event.stop()
        self._settle(self._fitting[event.number])

    def action_leave(self) -> None:
        self._settle(None)

    def on_unmount(self) -> None:
        self._settle(None)

    def _settle(self, entry: Entry | None) -> None:
        if not self._result.done():
            self._result.set_result(entry)


def _lines(entries: Sequence[Entry]) -> Iterator[Line]:
    for entry in entries:
        yield Line(one_line(entry.label, 300), one_line(entry.about, 300), entry.is_current)


def _fits(entry: Entry, words: Sequence[str]) -> bool:
    text = f"{entry.label} {entry.about}".lower()
    return all(word in text for word in words)
