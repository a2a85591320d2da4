"""Passages of the code index: files cut into chunks, and the terms by which a chunk is found.

A passage is a few dozen lines, cut where a definition begins or a line is empty, so that related
code is found together. Code has compound names: `readConfigFile` is also found by `config`, and
`config_file` by its parts, because the parts are indexed along with the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right

from msgspec import Struct

MIN_PASSAGE_LINES, MAX_PASSAGE_LINES = 25, 60
OVERLAP_LINES = 5
"""Where no good place to cut was found."""
MAX_PASSAGE_CHARS = 6_000
MAX_LINE_CHARS = 500
MAX_QUERY_TERMS = 16
"""What comes after them says little."""

_MODIFIERS_PATTERN = (
    r"export|default|public|private|protected|internal|static|final|abstract|async|sealed|partial"
    r"|override|virtual|inline|extern|unsafe|declare|data|open|suspend|pub(?:\([^)\n]*\))?"
)
_DEFINITION_KEYWORDS_PATTERN = (
    r"def|class|function\*?|func|fn|fun|struct|enum|union|trait|interface|impl|type|module|mod"
    r"|namespace|record|protocol|extension|object|macro_rules!|sub|procedure|package"
)
_DEFINITION_RE = re.compile(
    rf"^[ \t]*(?:(?:{_MODIFIERS_PATTERN})[ \t]+)*(?:{_DEFINITION_KEYWORDS_PATTERN})[ \t]+[\w$(<~].*"
    r"|^(?:export[ \t]+)?(?:const|let|var|val)[ \t]+[\w$]+[ \t]*[=:].*"
    r"|^[ \t]*(?:public|private|protected|static)[ \t][^=;\n]*\(.*"
    r"|^[A-Za-z_][\w \t*&:<>,]*[ \t*&][\w:~]+\([^;\n]*$",
    re.MULTILINE,
)
_HEADING_RE = re.compile(r"^#{1,6}[ \t]+\S.*", re.MULTILINE)
_LEADING_COMMENT_RE = re.compile(r"\s*(?:@|#|//|/\*|\*)")
"""Decorators and comments in front of a definition."""
_COMPOUND_NAME_RE = re.compile(r"(?<![A-Za-z0-9])[A-Za-z][a-z0-9]*[A-Z][A-Za-z0-9]*")
_NAME_PART_RE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_WORD_RE = re.compile(r"[^\W_]+")
_STOPWORDS = frozenset(
    """a all an and any are as at be by can code do does file files find for from function functions
    get has have how i implementation implemented in into is it its me method of on or show that
    the their there these this to use used uses using was we what when where which who why will
    with you""".split()  # noqa: SIM905 (words are easier to read than a list of them)
)


class Passage(Struct, frozen=True):
    """Lines `start` to `end` of a file, counted from 1."""

    start_line: int
    end_line: int
    text: str
    definitions: str
    """The definitions in it: their first lines, with compound names taken apart too."""
    name_parts: str
    """The parts of compound names in it."""


def split_passages(name: str, text: str) -> list[Passage]:
    """Split a file into passages; blank lines at their ends are left out."""
    lines = [_truncate_line(line) for line in text.split("\n")]
    named = _find_definitions(name, text)
    definition_lines = sorted(named)
    found = []
    start = 0
    while start < len(lines):
        end, following = _find_cut(lines, definition_lines, start)
        if (passage := _build_passage(lines, start, end, named, definition_lines)) is not None:
            found.append(passage)
        start = following
    return found


def extract_name_parts(text: str) -> str:
    """Extract the parts of compound names: `readConfigFile` gives `read config file`."""
    compounds = [
        name for name in dict.fromkeys(_COMPOUND_NAME_RE.findall(text)) if not name.isupper()
    ]
    return " ".join(
        dict.fromkeys(part for name in compounds for part in _NAME_PART_RE.findall(name))
    )


def extract_query_terms(query: str) -> tuple[str, ...]:
    """Extract the significant terms of a query in lower case, with the parts of compound names."""
    terms = [word.lower() for word in _WORD_RE.findall(f"{query} {extract_name_parts(query)}")]
    telling = [word for word in terms if word not in _STOPWORDS and len(word) > 1]
    return tuple(dict.fromkeys(telling or terms))[:MAX_QUERY_TERMS]


def _truncate_line(line: str) -> str:
    line = line.rstrip("\r")
    return line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]}…"


def _find_definitions(name: str, text: str) -> dict[int, str]:
    """Find the lines where definitions begin, counted from 0."""
    expression = _HEADING_RE if name.endswith((".md", ".markdown", ".mdx")) else _DEFINITION_RE
    found: dict[int, str] = {}
    line = position = 0
    for match in expression.finditer(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        found[line] = _truncate_line(match[0])
    return found


def _find_cut(lines: list[str], definition_lines: list[int], start: int) -> tuple[int, int]:
    """Find the end of the passage that begins at `start`, and the start of the next one."""
    furthest = _find_max_end(lines, start)
    if furthest == len(lines):
        return furthest, furthest
    soonest = min(start + MIN_PASSAGE_LINES, furthest)
    within = definition_lines[
        bisect_left(definition_lines, soonest) : bisect_right(definition_lines, furthest)
    ]
    if within:
        indents = {line: len(lines[line]) - len(lines[line].lstrip()) for line in within}
        cut = min(within, key=lambda line: (indents[line], -line))
        while cut > soonest and _LEADING_COMMENT_RE.match(lines[cut - 1]):
            cut -= 1
        return cut, cut
    for cut in range(furthest, soonest, -1):
        if not lines[cut - 1].strip():
            return cut, cut
    return furthest, max(furthest - OVERLAP_LINES, start + 1)


def _find_max_end(lines: list[str], start: int) -> int:
    """Find the end of the longest possible passage from here; at least one line."""
    characters = 0
    for number in range(start, min(start + MAX_PASSAGE_LINES, len(lines))):
        characters += len(lines[number]) + 1
        if characters > MAX_PASSAGE_CHARS and number > start:
            return number
    return min(start + MAX_PASSAGE_LINES, len(lines))


def _build_passage(
    lines: list[str], start: int, end: int, named: dict[int, str], definition_lines: list[int]
) -> Passage | None:
    while end > start and not lines[end - 1].strip():
        end -= 1
    while start < end and not lines[start].strip():
        start += 1
    if start == end:
        return None
    text = "\n".join(lines[start:end])
    within = definition_lines[
        bisect_left(definition_lines, start) : bisect_left(definition_lines, end)
    ]
    names = "\n".join(named[line] for line in within)
    return Passage(
        start + 1, end, text, f"{names} {extract_name_parts(names)}", extract_name_parts(text)
    )
