"""A terminal as it was before a screen was drawn on it, for a process that ends at once."""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Callable
from contextlib import suppress

_MODES = (1000, 1002, 1003, 1006, 1015, 1016, 1004, 2004, 2048)
"""Mouse, focus, pastes and sizes that a screen wants to hear of."""
_RESET = "".join(f"\x1b[?{mode}l" for mode in _MODES) + "\x1b[<u\x1b[?7h\x1b[?1049l\x1b[?25h"


def keep_terminal() -> Callable[[], None]:
    """What brings the terminal back to how it is now. It may be called by a signal handler."""
    source, target = sys.stdin.fileno(), sys.stderr.fileno()
    kept = termios.tcgetattr(source)

    def bring_back() -> None:
        with suppress(OSError, termios.error):  # it may be gone itself
            os.write(target, _RESET.encode())
            termios.tcsetattr(source, termios.TCSANOW, kept)

    return bring_back
