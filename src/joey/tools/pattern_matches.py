"""The other process of `pattern_match`: expressions and texts on stdin, what fits on stdout.

It is run by its file name, apart from the package, so it imports the standard library only.
"""

from __future__ import annotations

import json
import re
import sys


def matches(pairs: list[list[str]]) -> list[bool]:
    return [re.search(expression, text) is not None for expression, text in pairs]


if __name__ == "__main__":
    json.dump(matches(json.load(sys.stdin)), sys.stdout)
