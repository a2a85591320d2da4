"""What of a line makes it more than plain words, in a few words for a person.

Nothing is decided by this: `shell` says whether a line is plain.
"""

from __future__ import annotations

import re

from joey.core.permissions.shell import RESERVED
from joey.core.regex import regex

_PIECES = regex(
    r"""
      '[^']*'
    | (?<=[ \t])[12]?>(?:&[12]|[ ]?/dev/null)(?=[ \t\n;|]|\Z)
    | "(?:[^"\\$`]|\\[^$`\n]|\$(?=["\ |)]))*"
    | (?P<substitution>"[^"]*(?:`|\$\()|`|\$\(|[<>]\()
    | (?P<variable>"[^"]*\$|\$)
    | (?P<redirection>\|&|(?:(?<!\S)\d+|&)?[<>]+)
    | (?P<job>(?<!&)&(?!&))
    | (?P<pattern>[*?\[{])
    | (?P<home>(?<![\w.^])~)
    | (?P<group>(?<!\\)[()])
    | (?P<comment>(?<!\S)\#)
    | (?P<assignment>(?:(?<=[;|&\n(])|\A)\s*[A-Za-z_]\w*\+?=)
    | (?P<escape>(?<!\S)\\(?![()!]\s)|(?<=\S)\\)
    | (?P<quote>['"])
    """,
    re.VERBOSE,
)
_NAMES = {
    "substitution": "a substitution",
    "variable": "a variable",
    "redirection": "a redirection",
    "job": "a job in the background",
    "pattern": "a pattern",
    "home": "`~` for a home folder",
    "group": "a group",
    "comment": "a comment",
    "assignment": "an assignment",
    "escape": "a backslash",
    "quote": "a quote that is not closed",
}
_FIRST_WORDS = regex(r"(?:\A|[;|&\n])\s*([^\s;|&]+)")
_BEHIND = regex(r"[<>]+\s+[^\s;]+|[^\s;\"]+")
_LONGEST = 40


def describe_syntax(line: str) -> str:
    """`it has a pattern (`*.py`), and rules judge plain words only`."""
    return f"it has {_found(line)}, and rules judge plain words only"


def _found(line: str) -> str:
    for first in _FIRST_WORDS.findall(line):
        if first in RESERVED or first == "[":
            return f"a keyword of the shell (`{first}`)"
    for piece in _PIECES.finditer(line):
        if piece.lastgroup is not None:
            return f"{_NAMES[piece.lastgroup]} (`{_around(line, piece.end() - 1)}`)"
    return "signs that are none of a word"


def _around(line: str, at: int) -> str:
    """The word that a sign stands in; where to, for one that stands alone."""
    start = max(line.rfind(each, 0, at) for each in ' \t\n;"') + 1
    found = _BEHIND.match(line, start)
    shown = found[0] if found else line[at]
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"
