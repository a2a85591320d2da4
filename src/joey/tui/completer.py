"""Offering completions while something is typed, and writing the one that is taken."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from joey.errors import JoeyError
from joey.tui.choices import Choices
from joey.tui.completion import (
    Choice,
    Kind,
    Wanted,
    command_choices,
    mention_choices,
    searched_path,
    wanted,
)
from joey.tui.offers import Offers
from joey.tui.text_entry import TextEntry

log = logging.getLogger(__name__)


class Completer:
    def __init__(
        self,
        offers: Offers,
        choices: Choices,
        entry: TextEntry,
        begin_finding: Callable[[Wanted], object],
    ) -> None:
        """`begin_finding` has `find_files` called beside what else is done, once at a time."""
        self._begin_finding = begin_finding
        self._offers = offers
        self._choices = choices
        self._entry = entry
        self._wanted: Wanted | None = None
        self._whole: str | None = None
        """A text that came as a whole: nothing is offered before it is changed."""
        self._found_for: Wanted | None = None
        self._is_dismissed = False
        """Nothing is offered for what is wanted now."""
        self._key_to_do = ""
        """Pressed while the list was that of something typed before."""

    @property
    def is_open(self) -> bool:
        return bool(self._choices.choices)

    def offer(self, *, shell: bool) -> None:
        """Called after every change of the text or of the cursor's place."""
        if self._whole is not None and self._whole != self._entry.text:
            self._whole = None
        is_quiet = shell or self._whole is not None
        now = None if is_quiet else self._wanted_here()
        if now == self._wanted:
            return
        self._wanted = now
        self._is_dismissed = False
        self._key_to_do = ""
        match now:
            case None:
                self._choices.close()
            case Wanted(kind=Kind.COMMAND):
                self._open(now, command_choices(now.typed, self._offers.commands()))
            case _:
                self._begin_finding(now)

    async def find_files(self, sought: Wanted) -> str:
        """A key that was pressed meanwhile and is not for the list, if there is one."""
        try:
            paths = await self._offers.files(searched_path(sought.typed))
        except JoeyError as error:
            log.info("no files can be offered: %s", error)
            paths = ()
        if sought != self._wanted or self._is_dismissed:
            return ""
        self._open(sought, mention_choices(sought.typed, paths))
        key = self._key_to_do
        return "" if not key or (self.is_open and self.handle(key)) else key

    def _open(self, sought: Wanted, choices: Sequence[Choice]) -> None:
        self._found_for = sought
        self._choices.open(choices)

    def close(self, *, whole: bool = False) -> None:
        """Nothing is offered until something else is typed; `whole`: the text was just loaded."""
        self._whole = self._entry.text if whole else None
        self._wanted = None if whole else self._wanted_here()
        self._is_dismissed = True
        self._choices.close()

    def _wanted_here(self) -> Wanted | None:
        row, _ = self._entry.cursor_location
        return wanted(row, self._entry.before)

    def handle(self, key: str) -> bool:
        self._key_to_do = ""
        match key:
            case "tab" | "enter" if self._found_for != self._wanted:
                self._key_to_do = key
            case "up" | "ctrl+p":
                self._choices.move(-1)
            case "down" | "ctrl+n":
                self._choices.move(1)
            case "escape":
                self.close()
            case "tab":
                self._take(into_folder=True)
            case "enter" if not self._is_complete():
                self._take(into_folder=False)
            case _:
                return False
        return True

    def _is_complete(self) -> bool:
        """Whether the chosen one stands there already, which Enter sends."""
        chosen, sought = self._choices.chosen, self._wanted
        if chosen is None or sought is None:
            return False
        return chosen.written[1:] == sought.typed

    def _take(self, *, into_folder: bool) -> None:
        chosen, sought = self._choices.chosen, self._wanted
        if chosen is None or sought is None:
            return
        goes_on = chosen.goes_on or (chosen.is_folder and into_folder)
        row, column = self._entry.cursor_location
        written = chosen.written if goes_on else f"{chosen.written} "
        self._entry.replace(written, (row, sought.start), (row, column))
        self._entry.move_cursor((row, sought.start + len(written)))
        self._wanted = None
        self._choices.close()
