"""`python -m bench.starts OLD NEW`: a run of `joey -p` in two trees of sources, side by side.

OLD and NEW are directories that contain `src/joey`, for instance worktrees of two commits. Runs
alternate, and the smallest figure counts: everything else is the machine's.
"""

from __future__ import annotations

import sys
from pathlib import Path

from bench.runs import MeasuredRun, ModelProcess, measure_command, running_model
from bench.scenarios import prompt
from bench.tables import table

ROUNDS = 20


def main(old: Path, new: Path) -> None:
    trees = {"old": old, "new": new}
    runs: dict[str, list[MeasuredRun]] = {name: [] for name in trees}
    with running_model() as model:
        for _ in range(ROUNDS + 1):
            for name, tree in trees.items():
                runs[name].append(_run(model, tree))
    figures = {
        "CPU, ms": [min(run.cpu for run in runs[name][1:]) * 1000 for name in trees],
        "to first request, ms": [min(run.cold for run in runs[name][1:]) * 1000 for name in trees],
        "memory, MB": [min(run.peak for run in runs[name][1:]) for name in trees],
    }
    rows = [["", "old", "new", "ratio"]]
    rows += [
        [what, f"{before:.1f}", f"{after:.1f}", f"{after / before:.3f}"]
        for what, (before, after) in figures.items()
    ]
    table(f"joey -p with one request, minimum of {ROUNDS} alternating runs", rows)


def _run(model: ModelProcess, tree: Path) -> MeasuredRun:
    reach = ["--provider", "anthropic", "--base-url", model.url, "-m", "test-model"]
    command = [sys.executable, "-m", "joey", "-p", prompt("read", 0), *reach]
    return measure_command(model, command, PYTHONPATH=str(tree.resolve() / "src"))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m bench.starts OLD NEW")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
