"""The child process of `match_patterns`: expressions and texts on stdin, the matches on stdout.

A module of its own because it runs by its path in a process of its own, apart from the package: it
imports the standard library only.
"""

from __future__ import annotations

import json
import re
import sys


def match_pairs(pairs: list[list[str]]) -> list[bool]:
    return [re.search(expression, text) is not None for expression, text in pairs]


if __name__ == "__main__":
    json.dump(match_pairs(json.load(sys.stdin)), sys.stdout)
