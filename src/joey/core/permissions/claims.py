"""What a call says it is going to do: all that the policy judges."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from joey.core.places import Place


class Access(StrEnum):
    NONE = "none"
    """Touches nothing but the task itself; never asks."""
    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    SWITCH_MODE = "switch_mode"
    QUESTION = "question"
    """The tool *is* a question: a person always answers."""


class Claim(Struct, frozen=True):
    """One thing that a call is going to do, stated before it does it."""

    access: Access
    place: Place | None = None
    command: str | None = None
