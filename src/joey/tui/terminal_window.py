"""The terminal around the app: window title, notifications, restoring its modes.

No notification is sent while the terminal has the focus. A terminal that does not report its focus
counts as focused. `make_terminal_restorer` is for a process that a signal ends at once.
"""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from joey.presentation.text import to_one_line

if TYPE_CHECKING:
    from joey.tui.app import JoeyApp


SAVE_TITLE_SEQUENCE = "\x1b[22;0t"
RESTORE_TITLE_SEQUENCE = "\x1b[23;0t"
BELL = "\x07"
MAX_TITLE_CHARS = 120


class TerminalWindow:
    def __init__(self, app: JoeyApp) -> None:
        self._app = app

    def setup(self) -> None:
        self._write(SAVE_TITLE_SEQUENCE)
        self.set_title("")

    def restore_title(self) -> None:
        self._write(RESTORE_TITLE_SEQUENCE)

    def set_title(self, title: str) -> None:
        """Set the terminal's window title to the task's."""
        text = to_one_line(title, MAX_TITLE_CHARS)
        self._write(f"\x1b]0;{f'joey: {text}' if text else 'joey'}\x07")

    def notify(self, text: str) -> None:
        """Notify the user."""
        mode = self._app.host.notification_mode
        if self._app.app_focus or mode == "off":
            return
        if mode == "auto":
            self._write(f"\x1b]9;{to_one_line(text, MAX_TITLE_CHARS)}\x07")
        self._write(BELL)

    def _write(self, sequence: str) -> None:
        driver = self._app._driver  # textual has no other way to speak to the terminal
        if driver is not None and not driver.is_headless:
            driver.write(sequence)


_SCREEN_TERMINAL_MODES = (1000, 1002, 1003, 1006, 1015, 1016, 1004, 2004, 2048)
"""Mouse, focus, pastes and sizes that a screen wants to hear of."""
_RESET_SEQUENCE = (
    "".join(f"\x1b[?{mode}l" for mode in _SCREEN_TERMINAL_MODES)
    + "\x1b[<u\x1b[?7h\x1b[?1049l\x1b[?25h"
)


def make_terminal_restorer() -> Callable[[], None]:
    """Return a function that restores the terminal to its current state, and can be called by a
    signal handler."""
    source, target = sys.stdin.fileno(), sys.stderr.fileno()
    attributes = termios.tcgetattr(source)

    def bring_back() -> None:
        with suppress(OSError, termios.error):  # the terminal may be gone
            os.write(target, _RESET_SEQUENCE.encode())
            termios.tcsetattr(source, termios.TCSANOW, attributes)

    return bring_back
