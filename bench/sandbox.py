"""What the sandbox costs: the start and end of `true`, plain and at each level that works here.

All take turns, so that a busy machine is as busy for one as for the other. *added* is the median
of what a level takes more than the plain process of the same round.
"""

from __future__ import annotations

import asyncio
import os
import time
from functools import cache, partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.tables import table, verdict
from joey.core.settings import Settings
from joey.ports import Terminal
from joey.sandboxes.bubblewrap import Bubblewrap
from joey.sandboxes.canary import CanaryProber
from joey.sandboxes.landlock import Landlock
from joey.sandboxes.local import LocalSandbox
from joey.sandboxes.session import Session
from joey.terminals.local import LocalTerminal

ROUNDS = 40
GOAL = 30.0
"""Milliseconds."""
LEVELS = (Bubblewrap(), Landlock())


def main() -> None:
    with TemporaryDirectory(prefix="joey-bench-") as folder:
        workspace = Path(folder, "workspace")
        workspace.mkdir()
        asyncio.run(run(folder, workspace))


async def run(folder: str, workspace: Path) -> None:
    terminals: dict[str, Terminal] = {"plain": LocalTerminal()}
    reasons: dict[str, str] = {}
    for level in LEVELS:
        session = Session(
            workspace=workspace,
            joey_home=Path(folder, "home"),
            env=os.environ,
            )
        sandbox = LocalSandbox(session, Settings(), cache(partial(CanaryProber, (level,))))
        reasons |= (await sandbox.probe()).reasons
        if level.level not in reasons:
            terminals[level.level] = LocalTerminal(sandbox=sandbox)
    times = await measured(terminals, workspace)
    for terminal in terminals.values():
        await terminal.close()
    show(times, reasons)


async def measured(terminals: dict[str, Terminal], workspace: Path) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in terminals}
    for _ in range(ROUNDS):
        for name, terminal in terminals.items():
            started = time.perf_counter()
            running = await terminal.start("true", workspace, None)
            await running.wait()
            times[name].append((time.perf_counter() - started) * 1000)
    return times


def show(times: dict[str, list[float]], reasons: dict[str, str]) -> None:
    plain = times["plain"]
    rows = [["`true` in a terminal", "median ms", "added ms", "ratio", "goal ms", ""]]
    rows.append(["plain", f"{median(plain):.1f}", "", "", "", ""])
    for name, found in times.items():
        if name == "plain":
            continue
        added = median(one - other for one, other in zip(found, plain, strict=True))
        ratio = f"{median(found) / median(plain):.1f}x"
        goal = f"+{GOAL:.0f}"
        rows.append(
            [name, f"{median(found):.1f}", f"+{added:.1f}", ratio, goal, verdict(added, GOAL)]
        )
    table("The sandbox", rows)
    for name, reason in reasons.items():
        print(f"  {name} was not measured: {reason}")


if __name__ == "__main__":
    main()
