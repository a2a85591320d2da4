"""`python -m bench [adoption] [parsers] [edits] [trees] [checkpoints] [index] [tasks] [harness]
[growth] [long] [crowd] [delegation] [batches] [fleet] [fanout] [policy] [sandbox]
[screen] [composer] [proxy]`.

Figures beside goals. Nothing here fails when a goal is missed: a busy machine is no defect. Read
the figures.
"""

from __future__ import annotations

import sys

from bench import (
    adoption,
    batches,
    checkpoints,
    composer,
    crowd,
    delegation,
    edits,
    fanout,
    fleet,
    growth,
    harness,
    index,
    long,
    parsers,
    policy,
    recording,
    sandbox,
    screen,
    task_list,
    trees,
)

BENCHMARKS = {
    "adoption": adoption.main,
    "parsers": parsers.main,
    "policy": policy.main,
    "edits": edits.main,
    "trees": trees.main,
    "checkpoints": checkpoints.main,
    "index": index.main,
    "tasks": task_list.main,
    "harness": harness.main,
    "growth": growth.main,
    "long": long.main,
    "crowd": crowd.main,
    "delegation": delegation.main,
    "fanout": fanout.main,
    "batches": batches.main,
    "fleet": fleet.main,
    "sandbox": sandbox.main,
    "screen": screen.main,
    "composer": composer.main,
    "proxy": recording.main,
}


def main(names: list[str]) -> None:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"no benchmark is called {unknown[0]!r}; there are: {', '.join(BENCHMARKS)}")
    for name in names or BENCHMARKS:
        BENCHMARKS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
