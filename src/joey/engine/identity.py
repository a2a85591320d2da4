"""Ids of tasks: UUIDs that sort by the time they were made (version 7)."""

from __future__ import annotations

import secrets
import uuid


def new_task_id(now_ms: int) -> str:
    stamp = (now_ms & (1 << 48) - 1) << 80
    version, variant = 0x7 << 76, 0b10 << 62
    random = secrets.randbits(12) << 64 | secrets.randbits(62)
    return str(uuid.UUID(int=stamp | version | variant | random))
