"""Enter with another key, as terminals spell it beside the protocols that textual knows.

Many terminals are set up to send escape and return for Shift+Enter. Textual would take that for
two keys when more follows, and the second one would send half a message.
"""

from __future__ import annotations

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.keys import Keys

_SEQUENCES = ("\x1b\r", "\x1b\n")


def understand_new_lines() -> None:
    """From now on each of them is one key, Ctrl+J."""
    assert isinstance(ANSI_SEQUENCES_KEYS, dict)
    ANSI_SEQUENCES_KEYS.update(dict.fromkeys(_SEQUENCES, (Keys.ControlJ,)))
