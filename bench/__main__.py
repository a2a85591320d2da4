"""`python -m bench [adoption] [parsers] [edits] [trees] [index] [tasks] [harness] [growth] [crowd]
[fanout]`.

Figures beside goals. Nothing here fails when a goal is missed: a busy machine is no defect. Read
the figures.
"""

from __future__ import annotations

import sys

from bench import adoption, crowd, edits, fanout, growth, harness, index, parsers, task_list, trees

PARTS = {
    "adoption": adoption.main,
    "parsers": parsers.main,
    "edits": edits.main,
    "trees": trees.main,
    "index": index.main,
    "tasks": task_list.main,
    "harness": harness.main,
    "growth": growth.main,
    "crowd": crowd.main,
    "fanout": fanout.main,
}


def main(names: list[str]) -> None:
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        sys.exit(f"no benchmark is called {unknown[0]!r}; there are: {', '.join(PARTS)}")
    for name in names or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
