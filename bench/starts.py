"""`python -m bench.starts OLD NEW`: a run of `joey -p` in two trees of sources, side by side.

OLD and NEW are directories that contain `src/joey`, for instance worktrees of two commits. Runs
alternate, and the smallest figure counts: everything else is the machine's.
"""

from __future__ import annotations

import sys
from pathlib import Path

from bench.runs import MeasuredRun, ModelProcess, measure_command, start_model
from bench.scenarios import build_prompt
from bench.tables import print_table

ROUNDS = 20


def main(old: Path, new: Path) -> None:
    trees = {"old": old, "new": new}
    runs: dict[str, list[MeasuredRun]] = {name: [] for name in trees}
    with start_model() as model:
        for _ in range(ROUNDS + 1):
            for name, tree in trees.items():
                runs[name].append(_run_once(model, tree))
    figures = {
        "CPU, ms": [min(run.cpu_s for run in runs[name][1:]) * 1000 for name in trees],
        "to first request, ms": [
            min(run.cold_start_s for run in runs[name][1:]) * 1000 for name in trees
        ],
        "memory, MB": [min(run.peak_memory_mb for run in runs[name][1:]) for name in trees],
    }
    rows = [["", "old", "new", "ratio"]]
    rows += [
        [label, f"{before:.1f}", f"{after:.1f}", f"{after / before:.3f}"]
        for label, (before, after) in figures.items()
    ]
    print_table(f"joey -p with one request, minimum of {ROUNDS} alternating runs", rows)


def _run_once(model: ModelProcess, tree: Path) -> MeasuredRun:
    provider_flags = ["--provider", "anthropic", "--base-url", model.url, "-m", "test-model"]
    command = [sys.executable, "-m", "joey", "-p", build_prompt("read", 0), *provider_flags]
    return measure_command(model, command, PYTHONPATH=str(tree.resolve() / "src"))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m bench.starts OLD NEW")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
