"""`python -m bench.commands OLD NEW`: CPU time of management commands in two trees of sources.

OLD and NEW are directories that contain `src/joey`. Runs alternate, in an empty directory with an
empty home, and the smallest figure counts: everything else is the machine's.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.runs import build_environment
from bench.tables import print_table

ROUNDS = 15
COMMANDS = ("config get mode", "modes list", "mcp list", "tasks list", "--help")


def main(old: Path, new: Path) -> None:
    rows = [["CPU ms", "old", "new", "ratio"]]
    for line in COMMANDS:
        pairs = [(measure_cpu_ms(line, old), measure_cpu_ms(line, new)) for _ in range(ROUNDS + 1)]
        before, after = (min(times) for times in zip(*pairs[1:], strict=True))
        rows.append([f"joey {line}", f"{before:.1f}", f"{after:.1f}", f"{after / before:.2f}"])
    print_table(f"{ROUNDS} alternating pairs of runs", rows)


def measure_cpu_ms(line: str, tree: Path) -> float:
    with TemporaryDirectory() as directory:
        env = build_environment() | {
            "PYTHONPATH": str(tree.resolve() / "src"),
            "JOEY_HOME": str(Path(directory, "home")),
        }
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "joey", *line.split()],
            env=env,
            cwd=directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m bench.commands OLD NEW")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
