"""The child process of `find_pattern`: a request on stdin, the spans of all matches on stdout.

A separate module because it is run by its path in a separate process, outside of the package: it
only imports the standard library.
"""

from __future__ import annotations

import json
import re
import sys
from itertools import islice


def find_spans(
    text: str, pattern: str, is_regex: bool, ignore_case: bool, most: int
) -> dict[str, object]:
    flags = re.MULTILINE | (re.IGNORECASE if ignore_case else re.NOFLAG)
    try:
        expression = re.compile(pattern if is_regex else re.escape(pattern), flags)
    except (re.error, RecursionError, OverflowError) as error:
        return {"problem": str(error)}
    return {"spans": [match.span() for match in islice(expression.finditer(text), most)]}


if __name__ == "__main__":
    json.dump(find_spans(**json.load(sys.stdin)), sys.stdout)
