"""Finding and killing the processes of a command.

A process may leave its group and its session, and its parent may die, but it keeps the
environment it was started with. So each command carries a mark there, and its processes are those
with the mark, those of its session or group, and all their descendants. Only a process that
cleared its environment, left the session and was orphaned escapes.

Without `/proc` only the process group is known.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from joey.ports.execution import ConfinedProcess

MARKER_VARIABLE = "JOEY_COMMAND"
"""Environment variable: the marks of all commands that a process belongs to, `:` between them."""

_MARKER_VARIABLE_PREFIX = b"\0" + MARKER_VARIABLE.encode() + b"="
_PROC_ROOT = Path("/proc")
_POLL_INTERVAL_S = 0.02
_MAX_KILL_ROUNDS = 100
_KILL_TIMEOUT_S = 5.0


class _ProcessStat(Struct, frozen=True):
    pid: int
    parent_pid: int
    group_id: int
    session_id: int


def find_processes(marker: str, leader: int | None = None, reaped: bool = False) -> list[int]:
    """The live processes that bear `marker`, and those of the session that `leader` opened.

    A `marker` that ends with `.` stands for all marks that begin with it. `reaped` says that the
    leader has ended: if its number is in use again, then by a stranger.
    """
    if not (_PROC_ROOT / "self" / "stat").exists():
        return [] if leader is None or not process_group_exists(leader) else [-leader]
    stats = _read_process_stats()
    if reaped and any(stat.pid == leader for stat in stats):
        leader = None
    found = {
        stat.pid
        for stat in stats
        if (leader is not None and leader in (stat.group_id, stat.session_id))
        or _has_marker(stat.pid, marker.encode())
    }
    children: dict[int, list[int]] = {}
    for stat in stats:
        children.setdefault(stat.parent_pid, []).append(stat.pid)
    unseen = list(found)
    while unseen:
        new = [pid for pid in children.get(unseen.pop(), ()) if pid not in found]
        found.update(new)
        unseen.extend(new)
    return sorted(found - {os.getpid()})


def send_signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
        except PermissionError:
            # It changed its user (sudo): ending it is not ours to do.
            continue


def kill_marked_processes(marker: str) -> None:
    """SIGKILL to all that bear the mark, and to what they start meanwhile."""
    for _ in range(_MAX_KILL_ROUNDS):
        if not (pids := find_processes(marker)):
            return
        send_signal(pids, signal.SIGKILL)


async def terminate_processes(find: Callable[[], list[int]], grace: float) -> None:
    """SIGTERM to all that `find` finds, `grace` seconds to obey, then SIGKILL until none is left.

    Cancelling it skips the rest of the grace, never the SIGKILL.
    """
    if not (pids := find()):
        return
    try:
        send_signal(pids, signal.SIGTERM)
        await _wait_until_none(find, grace)
    finally:
        send_signal(find(), signal.SIGKILL)
    await _wait_until_none(find, _KILL_TIMEOUT_S, insist=True)


async def terminate_confined_process(
    confined_process: ConfinedProcess, leader: int, grace: float
) -> None:
    """The same for a confined command, whose supervisor knows all that is inside."""

    def find() -> list[int]:
        return [] if confined_process.has_no_processes() else [-leader]

    try:
        confined_process.terminate()
        await _wait_until_none(find, grace)
    finally:
        confined_process.kill()
    await _wait_until_none(find, _KILL_TIMEOUT_S)
    send_signal(find(), signal.SIGKILL)


async def _wait_until_none(
    find: Callable[[], list[int]], seconds: float, insist: bool = False
) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while (left := find()) and loop.time() < deadline:
        if insist:
            send_signal(left, signal.SIGKILL)
        await asyncio.sleep(_POLL_INTERVAL_S)


def _read_process_stats() -> list[_ProcessStat]:
    stats: list[_ProcessStat] = []
    for name in os.listdir(_PROC_ROOT):  # noqa: PTH208 (names only: this runs over every process)
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # It ended meanwhile.
        if fields[0] not in (b"Z", b"X"):
            stats.append(_ProcessStat(int(name), int(fields[1]), int(fields[2]), int(fields[3])))
    return stats


def _has_marker(pid: int, marker: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
            environment = file.read()
    except OSError:
        return False  # It ended meanwhile, or belongs to somebody else.
    marks = (
        (b"\0" + environment).partition(_MARKER_VARIABLE_PREFIX)[2].partition(b"\0")[0].split(b":")
    )
    return any(
        found == marker or (marker.endswith(b".") and found.startswith(marker)) for found in marks
    )


def process_group_exists(leader: int) -> bool:
    """Whether anything is left of a process group, be it a zombie; costs next to nothing."""
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
