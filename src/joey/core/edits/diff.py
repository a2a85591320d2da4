"""Unified diffs of two texts.

Lines that occur exactly once in both texts are anchors, and only the lines between two anchors are
compared one by one. This keeps the cost nearly linear, where a plain comparison would be quadratic
on files with many repeated lines.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from typing import NamedTuple

from msgspec import Struct

from joey.core.edits.line_document import ChangedLines, count_common_ends

_CONTEXT_LINE_COUNT = 3
_MAX_LINE_COMPARISONS = 100_000
"""In one diff; what is left over is shown as replaced."""


class DiffStats(Struct, frozen=True):
    added: int
    removed: int


class UnifiedDiff(Struct, frozen=True):
    text: str
    """Hunks, each with its `@@` line; empty when nothing changed."""
    stats: DiffStats
    changed_lines: tuple[ChangedLines, ...] = ()
    """Of the new text; an empty one where lines were only removed."""


class LineChange(NamedTuple):
    """Lines [old_start, old_stop) of the old text became [new_start, new_stop) of the new."""

    old_start: int
    old_stop: int
    new_start: int
    new_stop: int


def build_unified_diff(old: str, new: str) -> UnifiedDiff:
    """Build hunks with three lines of context; return also how many line endings change."""
    old_lines, new_lines = _split_lines(old), _split_lines(new)
    changes = list(iter_changes(old_lines, new_lines))
    hunks = [_render_hunk(group, old_lines, new_lines) for group in _group_changes(changes)]
    if "\r\n" in old or "\r\n" in new:
        hunks += _describe_line_ending_changes(
            old, new, _iter_unchanged_line_numbers(old_lines, new_lines, changes)
        )
    stats = DiffStats(
        added=sum(change.new_stop - change.new_start for change in changes),
        removed=sum(change.old_stop - change.old_start for change in changes),
    )
    lines = tuple(
        ChangedLines(change.new_start, change.new_stop, change.old_stop - change.old_start)
        for change in changes
    )
    return UnifiedDiff("".join(hunks), stats, lines)


def iter_common_line_numbers(old: list[str], new: list[str]) -> Iterator[tuple[int, int]]:
    """Iterate over pairs of line numbers, in the old and the new text, of unchanged lines."""
    yield from _iter_unchanged_line_numbers(old, new, iter_changes(old, new))


def build_new_file_diff(path: str, text: str) -> UnifiedDiff:
    """Build the diff of a new file, as a patch against `/dev/null`."""
    header = f"--- /dev/null\n+++ {path}\n"
    if not text:
        return UnifiedDiff(header, DiffStats(added=0, removed=0))
    lines = text.replace("\r\n", "\n").removesuffix("\n").replace("\n", "\n+")
    count = lines.count("\n") + 1
    diff = f"{header}@@ -0,0 +1,{count} @@\n+{lines}\n"
    return UnifiedDiff(diff, DiffStats(added=count, removed=0), (ChangedLines(0, count, 0),))


def _iter_unchanged_line_numbers(
    old: list[str], new: list[str], changes: Iterable[LineChange]
) -> Iterator[tuple[int, int]]:
    """Iterate over the pairs of line numbers between changes."""
    old_at = new_at = 0
    for change in [*changes, LineChange(len(old), len(old), len(new), len(new))]:
        old_numbers = range(old_at, change.old_start)
        yield from zip(old_numbers, range(new_at, change.new_start), strict=True)
        old_at, new_at = change.old_stop, change.new_stop


def _describe_line_ending_changes(
    old: str, new: str, unchanged: Iterable[tuple[int, int]]
) -> Iterator[str]:
    """Describe lines of which only the line endings change."""
    old_ends = [line.endswith("\r") for line in old.split("\n")]
    new_ends = [line.endswith("\r") for line in new.split("\n")]
    changed = Counter((old_ends[one], new_ends[other]) for one, other in unchanged)
    if count := changed[False, True]:
        yield f"\\ Lines that will end with CRLF instead of LF: {count}.\n"
    if count := changed[True, False]:
        yield f"\\ Lines that will end with LF instead of CRLF: {count}.\n"


def _split_lines(text: str) -> list[str]:
    """Lines with their ends, so that a missing last one is a difference; `\\r\\n` as `\\n`."""
    *lines, rest = text.replace("\r\n", "\n").split("\n")
    return [f"{line}\n" for line in lines] + ([rest] if rest else [])


def iter_changes(old: list[str], new: list[str]) -> Iterator[LineChange]:
    budget = _MAX_LINE_COMPARISONS
    old_start = new_start = 0
    for old_stop, new_stop in [*_find_anchors(old, new), (len(old), len(new))]:
        size = (old_stop - old_start) * (new_stop - new_start)
        if size and size <= budget:
            budget -= size
            matcher = SequenceMatcher(
                None, old[old_start:old_stop], new[new_start:new_stop], autojunk=False
            )
            for tag, i1, i2, j1, j2 in matcher.get_opcodes():
                if tag != "equal":
                    yield LineChange(old_start + i1, old_start + i2, new_start + j1, new_start + j2)
        elif old_start < old_stop or new_start < new_stop:
            yield LineChange(old_start, old_stop, new_start, new_stop)
        old_start, new_start = old_stop + 1, new_stop + 1


def _find_anchors(old: list[str], new: list[str]) -> list[tuple[int, int]]:
    """Find pairs of equal lines that do not cross: the ends, then unique lines in between."""
    head, tail = count_common_ends(old, new)
    middle = _find_unique_anchors(old, new, head, tail)
    ends = [(len(old) - back, len(new) - back) for back in range(tail, 0, -1)]
    return [(line, line) for line in range(head)] + middle + ends


def _find_unique_anchors(
    old: list[str], new: list[str], head: int, tail: int
) -> list[tuple[int, int]]:
    """Find the longest increasing run of lines that are unique in both middles (patience
    sorting)."""
    old_middle, new_middle = old[head : len(old) - tail], new[head : len(new) - tail]
    old_counts, new_counts = Counter(old_middle), Counter(new_middle)
    new_at = {line: at for at, line in enumerate(new_middle, head)}
    pairs = [
        (at, new_at[line])
        for at, line in enumerate(old_middle, head)
        if old_counts[line] == new_counts[line] == 1
    ]
    tops: list[int] = []
    piles: list[int] = []
    before: list[int | None] = []
    for index, (_, new_line) in enumerate(pairs):
        pile = bisect_left(tops, new_line)
        before.append(piles[pile - 1] if pile else None)
        tops[pile : pile + 1] = [new_line]
        piles[pile : pile + 1] = [index]
    run: list[tuple[int, int]] = []
    last = piles[-1] if piles else None
    while last is not None:
        run.append(pairs[last])
        last = before[last]
    return run[::-1]


def _group_changes(changes: list[LineChange]) -> Iterator[list[LineChange]]:
    """Group changes whose contexts touch into hunks."""
    group: list[LineChange] = []
    for change in changes:
        if group and change.old_start - group[-1].old_stop > 2 * _CONTEXT_LINE_COUNT:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _render_hunk(group: list[LineChange], old: list[str], new: list[str]) -> str:
    first, last = group[0], group[-1]
    lead = min(_CONTEXT_LINE_COUNT, first.old_start)
    trail = min(_CONTEXT_LINE_COUNT, len(old) - last.old_stop)
    old_start, old_stop = first.old_start - lead, last.old_stop + trail
    new_start, new_stop = first.new_start - lead, last.new_stop + trail
    old_range, new_range = _format_range(old_start, old_stop), _format_range(new_start, new_stop)
    lines = [f"@@ -{old_range} +{new_range} @@"]
    at = old_start
    for change in group:
        lines += [f" {line}" for line in old[at : change.old_start]]
        lines += [f"-{line}" for line in old[change.old_start : change.old_stop]]
        lines += [f"+{line}" for line in new[change.new_start : change.new_stop]]
        at = change.old_stop
    lines += [f" {line}" for line in old[at:old_stop]]
    return "".join(line.removesuffix("\n") + "\n" for line in lines)


def _format_range(start: int, stop: int) -> str:
    return f"{start + 1 if stop > start else start},{stop - start}"
