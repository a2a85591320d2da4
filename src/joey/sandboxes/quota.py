"""How many processes a command of an ordinary user may have.

The kernel counts all processes of a user, so the limit is what there is already and the share of
the command. It does not hold for root (see `control_group`).
"""

from __future__ import annotations

import os
import resource


def limit_processes(most: int) -> None:
    """For this process and those that come of it."""
    user = os.getuid()
    if not most or not user:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    share = _threads_of(user) + most
    limit = share if hard == resource.RLIM_INFINITY else min(share, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))


def _threads_of(user: int) -> int:
    count = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                found = os.stat(f"/proc/{name}/task")
            except OSError:
                continue  # It ended meanwhile.
            count += found.st_nlink - 2 if found.st_uid == user else 0
    return count
