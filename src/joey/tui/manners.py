"""How the screen behaves towards the desktop around it: the window's title, and calling somebody.

Nothing is said while the person looks at the terminal; a terminal that does not tell whether they
do is taken for one that is looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from joey.presentation.text import one_line

if TYPE_CHECKING:
    from joey.tui.app import JoeyApp

KEEP_TITLE = "\x1b[22;0t"
BRING_TITLE_BACK = "\x1b[23;0t"
BELL = "\x07"
LONGEST = 120


class Manners:
    def __init__(self, app: JoeyApp) -> None:
        self._app = app

    def arrive(self) -> None:
        self._write(KEEP_TITLE)
        self.entitle("")

    def leave(self) -> None:
        self._write(BRING_TITLE_BACK)

    def entitle(self, title: str) -> None:
        """The terminal's window shows which task it is."""
        shown = one_line(title, LONGEST)
        self._write(f"\x1b]0;{f'joey: {shown}' if shown else 'joey'}\x07")

    def call(self, words: str) -> None:
        """A person is needed, or may want to know."""
        wish = self._app.host.notifications
        if self._app.app_focus or wish == "off":
            return
        if wish == "auto":
            self._write(f"\x1b]9;{one_line(words, LONGEST)}\x07")
        self._write(BELL)

    def _write(self, sequence: str) -> None:
        driver = self._app._driver  # textual has no other way to speak to the terminal
        if driver is not None and not driver.is_headless:
            driver.write(sequence)
