"""Ids of tasks: UUIDs of version 7, which sort by the time they were made."""

from __future__ import annotations

import secrets


def new_task_id(now_ms: int) -> str:
    random = f"{secrets.randbits(76):019x}"
    stamp = f"{now_ms & (1 << 48) - 1:012x}"
    variant = "89ab"[int(random[3], 16) & 3]
    return f"{stamp[:8]}-{stamp[8:]}-7{random[:3]}-{variant}{random[4:7]}-{random[7:]}"
