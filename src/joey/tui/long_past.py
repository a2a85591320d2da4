"""A task with a long past, on the screen."""

from __future__ import annotations

import gc

LONG = 500
"""Blocks of a past that is worth an effort."""


def let_rest() -> None:
    """What is there now is going to stay: the collector need not look at all of it every other
    second, which would be felt at the keyboard."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
