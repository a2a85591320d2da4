"""What a process has started, and what that has started.

Used in the keeper, so nothing is imported here that takes long.
"""

from __future__ import annotations

# ruff: noqa: PTH123, PTH208 (`pathlib` takes longer, to load and to use)
import os


def children(pid: int) -> list[int]:
    """Also those that have ended and were not asked about yet."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return [int(each) for each in file.read().split()]
    except OSError:
        return descendants(pid)  # The kernel keeps no such list.


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
