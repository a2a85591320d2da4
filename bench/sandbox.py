"""What the sandbox costs: the start and end of `true`, plain and at each level that works here.

All take turns, so that a busy machine is as busy for one as for the other. *added* is the median
of what a level takes more than the plain process of the same round. A command follows another after
a pause, as a model makes it, or at once in a *burst*. *first* are commands of new tasks that nobody
has announced, *announced* those whose name came from the model a moment before their arguments. The
large workspace has as many folders as a big monorepo.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.tables import format_verdict, print_table
from joey.core.settings import Settings
from joey.execution.sandbox.bubblewrap import Bubblewrap
from joey.execution.sandbox.landlock import Landlock
from joey.execution.sandbox.probe import CanaryProbe
from joey.execution.sandbox.sandbox import LocalSandbox, SandboxConfig
from joey.execution.terminal import LocalTerminal
from joey.ports.execution import Terminal

ROUNDS = 20
FIRST_COMMAND_COUNT = 10
DIRECTORY_COUNT = 3000
PAUSE_S = 0.3
"""Seconds; the fastest of models takes longer for a turn."""
ANNOUNCEMENT_LEAD_S = 0.15
"""Seconds in which a fast model writes the arguments of a command."""
GOAL_MS = 30.0
LEVELS = (Bubblewrap(), Landlock())


def main() -> None:
    with TemporaryDirectory(prefix="joey-bench-") as directory:
        workspace = Path(directory, "workspace")
        workspace.mkdir()
        asyncio.run(measure(directory, workspace))


async def measure(directory: str, workspace: Path) -> None:
    large = Path(directory, "large")
    for number in range(DIRECTORY_COUNT // 10):
        for inner in range(10):
            (large / f"{number}/{inner}").mkdir(parents=True)
    terminals: dict[str, tuple[Terminal, Path]] = {"plain": (LocalTerminal(), workspace)}
    reasons: dict[str, str] = {}
    extra_times: dict[str, list[float]] = {}
    for level in LEVELS:
        prober = CanaryProbe((level,))
        reasons |= prober.find_available().report.unavailable_reasons
        if level.level in reasons:
            continue
        for target in (workspace, large):
            name = f"{level.level}, large workspace" if target is large else str(level.level)
            terminals[name] = (
                build_sandboxed_terminal(Path(directory, "home"), target, prober),
                target,
            )
        for name, lead in (("first", 0.0), ("first, announced", ANNOUNCEMENT_LEAD_S)):
            extra_times[f"{level.level}, {name}"] = [
                await time_first_command_ms(Path(directory, "home"), workspace, prober, lead)
                for _ in range(FIRST_COMMAND_COUNT)
            ]
    times = await time_in_rounds(terminals)
    for name, (terminal, target) in terminals.items():
        if target is workspace:
            burst = [await time_command_ms(terminal, workspace) for _ in range(ROUNDS)]
            extra_times[f"{name}, burst"] = burst
        await terminal.close()
    print_results(times, extra_times, reasons)


def build_sandboxed_terminal(home: Path, workspace: Path, prober: CanaryProbe) -> Terminal:
    session = SandboxConfig(workspace=workspace, joey_home=home, env=os.environ)
    return LocalTerminal(sandbox=LocalSandbox(session, Settings(), lambda: prober))


async def time_first_command_ms(
    home: Path, workspace: Path, prober: CanaryProbe, lead: float
) -> float:
    terminal = build_sandboxed_terminal(home, workspace, prober)
    try:
        if lead:
            terminal.prewarm()
            await asyncio.sleep(lead)
        return await time_command_ms(terminal, workspace)
    finally:
        await terminal.close()


async def time_in_rounds(terminals: dict[str, tuple[Terminal, Path]]) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in terminals}
    for terminal, workspace in terminals.values():
        await time_command_ms(terminal, workspace)
    for _ in range(ROUNDS):
        for name, (terminal, workspace) in terminals.items():
            await asyncio.sleep(PAUSE_S)
            times[name].append(await time_command_ms(terminal, workspace))
    return times


async def time_command_ms(terminal: Terminal, workspace: Path) -> float:
    started = time.perf_counter()
    running = await terminal.start("true", workspace, None)
    await running.wait()
    return (time.perf_counter() - started) * 1000


def print_results(
    times: dict[str, list[float]], extra_times: dict[str, list[float]], reasons: dict[str, str]
) -> None:
    plain = times["plain"]
    rows = [["`true` in a terminal", "median ms", "added ms", "ratio", "goal ms", ""]]
    rows.append(["plain", f"{median(plain):.1f}", "", "", "", ""])
    for name, found in times.items():
        if name == "plain":
            continue
        added = median(one - other for one, other in zip(found, plain, strict=True))
        ratio = f"{median(found) / median(plain):.1f}x"
        goal = f"+{GOAL_MS:.0f}"
        rows.append(
            [
                name,
                f"{median(found):.1f}",
                f"{added:+.1f}",
                ratio,
                goal,
                format_verdict(added, GOAL_MS),
            ]
        )
    for name, found in extra_times.items():
        added = median(found) - median(plain)
        judged = (
            [f"+{GOAL_MS:.0f}", format_verdict(added, GOAL_MS)] if "announced" in name else ["", ""]
        )
        rows.append([name, f"{median(found):.1f}", f"{added:+.1f}", "", *judged])
    print_table("The sandbox", rows)
    for name, reason in reasons.items():
        print(f"  {name} was not measured: {reason}")


if __name__ == "__main__":
    main()
