"""`python -m bench.compare OLD NEW [ROW…]`: runs of `joey -p` in two trees of sources, in pairs.

OLD and NEW are directories that contain `src/joey`, for instance worktrees of two commits. Their
runs alternate, so that a busy machine is as busy for one as for the other. *turn* is the median of
all turns, *fastest* that of the fastest third, *CPU* the smallest of all runs, per turn and less an
empty run: everything else is the machine's.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median

from msgspec import Struct

from bench.runs import MeasuredRun, ModelProcess, measure_command, start_model
from bench.scenarios import build_prompt
from bench.tables import print_table

ROUNDS = 12
PROGRAM = """
import sys
if sys.argv.pop(1) == "landlock":
    from joey.execution.sandbox.bubblewrap import Bubblewrap
    Bubblewrap.explain_unavailable = lambda self: "it is left out"
from joey.cli.main import run
sys.exit(run())
"""


class Row(Struct, frozen=True):
    scenario: str
    size: int
    level: str = "full"


EMPTY_RUN = "empty run"
ROWS = {
    EMPTY_RUN: Row("done", 0),
    "read": Row("read", 20),
    "shell, full": Row("shell", 20),
    "shell, landlock": Row("shell", 20, "landlock"),
    "shell, no sandbox": Row("shell", 20, "none"),
    "write": Row("write", 200_000),
    "text": Row("text", 5_000),
}


def main(old: Path, new: Path, names: list[str]) -> None:
    rows = {EMPTY_RUN: ROWS[EMPTY_RUN]} | {name: ROWS[name] for name in names or ROWS}
    pairs: dict[str, list[tuple[MeasuredRun, MeasuredRun]]] = {name: [] for name in rows}
    with start_model() as model:
        for each in range(ROUNDS + 1):
            for name, row in rows.items():
                trees = (old, new) if each % 2 else (new, old)
                runs = {tree: run_once(model, tree, row) for tree in trees}
                if each:  # the first writes bytecode
                    pairs[name].append((runs[old], runs[new]))
    table = [["joey -p", "", "old", "new", "ratio"]]
    for name, row in rows.items():
        old_figures, new_figures = (
            compute_figures(row, [pair[side] for pair in pairs[name]], base)
            for side, base in enumerate(zip(*pairs[EMPTY_RUN], strict=True))
        )
        for label, before in old_figures.items():
            after = new_figures[label]
            table.append([name, label, f"{before:.2f}", f"{after:.2f}", f"{after / before:.2f}"])
    print_table(f"{ROUNDS} alternating pairs of runs", table)


def run_once(model: ModelProcess, tree: Path, row: Row) -> MeasuredRun:
    flags = ["-y", "--provider", "anthropic", "--base-url", model.url, "-m", "test-model"]
    flags += ["--no-sandbox"] if row.level == "none" else []
    prompt = build_prompt(row.scenario, row.size)
    command = [sys.executable, "-c", PROGRAM, row.level, "-p", prompt, *flags]
    return measure_command(model, command, PYTHONPATH=str(tree.resolve() / "src"))


def compute_figures(
    row: Row, runs: list[MeasuredRun], empty_runs: tuple[MeasuredRun, ...]
) -> dict[str, float]:
    cpu_ms = min(run.cpu_s for run in runs) * 1000
    if row.scenario == "done":
        return {
            "CPU ms": cpu_ms,
            "to first request ms": min(run.cold_start_s for run in runs) * 1000,
            "exit ms": median(run.exit_s for run in runs) * 1000,
            "memory MB": min(run.peak_memory_mb for run in runs),
        }
    turns = sorted(turn * 1000 for run in runs for turn in run.turn_durations_s)
    count = len(runs[0].turn_durations_s) or 1
    figures = {"CPU ms": (cpu_ms - min(run.cpu_s for run in empty_runs) * 1000) / count}
    if turns:
        figures |= {"turn ms": median(turns), "fastest ms": median(turns[: len(turns) // 3 + 1])}
    return figures


if __name__ == "__main__":
    if len(sys.argv) < 3 or not set(sys.argv[3:]) <= ROWS.keys():
        sys.exit(f"usage: python -m bench.compare OLD NEW [{'|'.join(ROWS)}]…")
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
