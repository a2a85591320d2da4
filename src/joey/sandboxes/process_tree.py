"""What a process has started, and what that has started.

Used in the keeper, so nothing is imported here that takes long.
"""

from __future__ import annotations

# ruff: noqa: PTH123, PTH208 (`pathlib` takes longer, to load and to use)
import os


def descendants(pid: int) -> list[int]:
    """Nearest first; zombies are left out."""
    known: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # It ended meanwhile.
        if fields[0] not in (b"Z", b"X"):
            known.setdefault(int(fields[1]), []).append(int(name))
    found = list(known.get(pid, ()))
    for each in found:
        found += known.get(each, ())
    return found


def send(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            continue  # It ended meanwhile.
