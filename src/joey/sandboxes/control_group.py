"""A limit on the number of processes that holds for root too.

The kernel counts the processes of each user, and refuses root none. A control group counts those
that are put in it, whoever they belong to. Only root can make one without being asked for more.
"""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_PREFIX = "joey-"
_numbers = count(1)


class ControlGroup:
    """Of one task; what is started in it stays in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def admit(self, pid: int) -> None:
        """From now on the process counts, and all that it starts. Takes some milliseconds."""
        (self._folder / "cgroup.procs").write_text(str(pid), encoding="ascii")

    def close(self) -> None:
        try:
            self._folder.rmdir()
        except OSError:
            return  # Something is just ending; whoever makes the next group removes this one.


def make_group(most: int) -> ControlGroup | None:
    """A group of at most so many processes; None where none can be made."""
    if os.geteuid() != 0:
        return None
    for parent in _parents():
        folder = parent / f"{_PREFIX}{os.getpid()}-{next(_numbers)}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / "pids.max").write_text(str(most), encoding="ascii")
        except OSError:
            folder.rmdir()
            continue
        _sweep(parent)
        return ControlGroup(folder)
    return None


def can_count() -> bool:
    """Whether the commands of this user can be limited in number."""
    if os.geteuid() != 0:
        return True
    group = make_group(1)
    if group is None:
        return False
    group.close()
    return True


def _sweep(parent: Path) -> None:
    """Remove what processes that were killed have left."""
    for each in parent.glob(f"{_PREFIX}*"):
        owner = each.name.removeprefix(_PREFIX).partition("-")[0]
        if not Path("/proc", owner).exists():
            ControlGroup(each).close()


def _parents() -> list[Path]:
    """Where ours may be made: controllers of the first generation, then of the second."""
    found: list[Path] = []
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    for line in lines:
        number, controllers, path = line.split(":", 2)
        own = path.strip("/")
        if "pids" in controllers.split(","):
            found.append(_ROOT / controllers / own)
        elif number == "0":
            # A group with processes of its own may have no limited groups below it.
            found += [(_ROOT / own).parent if own else _ROOT, _ROOT / own]
    return [each for each in found if each.is_dir() and each.is_relative_to(_ROOT)]
