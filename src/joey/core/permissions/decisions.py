"""What may become of a call: it runs, a person is asked, or it is refused."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

ANYTHING = "*"
"""Among the rules that allow: whatever it is."""


class Beyond(StrEnum):
    """What lies beyond the boundary of a run, by the setting that allows it everywhere."""

    READ_OUTSIDE = "alwaysAllowReadOnlyOutsideWorkspace"
    WRITE_OUTSIDE = "alwaysAllowWriteOutsideWorkspace"
    WRITE_PROTECTED = "alwaysAllowWriteProtected"


class Allow(Struct, frozen=True):
    rule: str
    """The setting or command rule that allows it, as the user wrote it."""


class Ask(Struct, frozen=True):
    reason: str
    """Why a person has to look, naming the setting and the path or command."""


class Deny(Struct, frozen=True):
    rule: str
    reason: str


Decision = Allow | Ask | Deny
