"""What finding and replacing texts costs in a file of 10,000 lines, beside `str.replace`.

Only the search and the edit are measured, without files and without the diff for people. Times are
CPU, best of five; a ratio says how many plain `text.replace(old, new)` of one line each would have
taken as long. Doubling the file must not much more than double the cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from bench.tables import format_verdict, print_table
from joey.core.edits import patch
from joey.core.edits.patch_parser import UpdateFile, parse_patch
from joey.core.edits.search_replace import AppliedBlocks, apply_blocks
from joey.core.models import ModelInfo
from joey.tools.file_edit import compute_similarity
from joey.tools.text_edit_base import ReplaceFailure, ReplaceSuccess, find_and_replace

LINE_COUNT = 10_000
ROUNDS = 5
BLOCK_COUNT = 20
QUOTED_LINES = 20
MAX_GROWTH_RATIO = 3.0
MODEL = ModelInfo(id="claude")


class EditCase(NamedTuple):
    name: str
    prepare_edit: Callable[[list[str]], Callable[[], object]]
    """Makes, for the lines of a file, the edit that is measured."""
    goal_ms: float


def main() -> None:
    lines = build_source(LINE_COUNT)
    text = "\n".join(lines)
    replace = time_best_of(lambda: text.replace(lines[LINE_COUNT // 2], "x"))
    rows = [["10,000 lines", "ms", "goal", "", "str.replace", "2x size", ""]]
    for name, work, goal in CASES:
        cost = time_best_of(work(lines))
        growth = time_best_of(work(build_source(2 * LINE_COUNT))) / cost
        measured = [f"{cost * 1000:.1f}", f"{goal:g}", format_verdict(cost * 1000, goal)]
        rows.append(
            [
                name,
                *measured,
                f"{cost / replace:.0f}x",
                f"{growth:.2f}x",
                format_verdict(growth, MAX_GROWTH_RATIO),
            ]
        )
    print_table(f"Edits beside one str.replace of {replace * 1000:.2f} ms", rows)


def time_best_of(work: Callable[[], object]) -> float:
    def once() -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    return min(once() for _ in range(ROUNDS))


def build_source(count: int) -> list[str]:
    return [_build_line(number) for number in range(count)]


def _build_line(number: int) -> str:
    match number % 4:
        case 0:
            return f"    def method_{number}(self, value: int = {number % 97}) -> int:"
        case 1:
            return f"        total_{number} = value * {number} + self.offset[{number % 13}]"
        case 2:
            return f"        return total_{number - 1}"
    return ""


def format_block(search: str, replace: str, line: int | None = None) -> str:
    hint = f":start_line:{line}\n-------\n" if line else ""
    return f"<<<<<<< SEARCH\n{hint}{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


def prepare_exact_blocks(lines: list[str], *, hints: bool) -> Callable[[], object]:
    text, step = "\n".join(lines), len(lines) // BLOCK_COUNT
    positions = range(step // 2, len(lines), step)
    diff = "".join(
        format_block("\n".join(lines[at : at + 3]), "pass", at + 1 if hints else None)
        for at in positions
    )

    def work() -> None:
        outcome = apply_blocks(text, diff, similarity=compute_similarity)
        assert isinstance(outcome, AppliedBlocks)
        assert outcome.applied_count == BLOCK_COUNT

    return work


def prepare_fuzzy_miss(lines: list[str]) -> Callable[[], object]:
    """A block in which every line with words is a little different."""
    text, diff = "\n".join(lines), format_block(_alter_excerpt(lines), "pass")
    return lambda: apply_blocks(text, diff, similarity=compute_similarity)


def prepare_patch(lines: list[str], *, wrong: str = "") -> Callable[[], object]:
    """A patch that is parsed and applied; what is `wrong` makes every chunk miss."""
    text, step = "\n".join(lines), len(lines) // BLOCK_COUNT
    body = "".join(
        f"@@\n {lines[at - 1]}\n-{lines[at]}{wrong}\n+pass\n {lines[at + 1]}\n"
        for at in range(step // 2, len(lines), step)
    )
    written = f"*** Begin Patch\n*** Update File: a.py\n{body}*** End Patch"

    def work() -> None:
        hunks = parse_patch(written)
        assert isinstance(hunks, tuple)
        (hunk,) = hunks
        assert isinstance(hunk, UpdateFile)
        outcome = patch.apply_chunks(text, hunk.chunks, similarity=compute_similarity)
        assert isinstance(outcome, patch.FailedPatch if wrong else str)

    return work


def prepare_plain_replaces(lines: list[str]) -> Callable[[], object]:
    """The same edits without any format."""
    text, step = "\n".join(lines), len(lines) // BLOCK_COUNT

    def work() -> None:
        changed = text
        for at in range(step // 2, len(lines), step):
            old = "\n".join(lines[at - 1 : at + 2])
            changed = changed.replace(old, f"{lines[at - 1]}\npass\n{lines[at + 1]}", 1)

    return work


def prepare_missed_edit(lines: list[str]) -> Callable[[], object]:
    text, old = "\n".join(lines), _alter_excerpt(lines)

    def work() -> None:
        outcome = find_and_replace(text, old, "pass", MODEL, tolerant=True)
        assert isinstance(outcome, ReplaceFailure)
        assert outcome.explanation.evidence

    return work


def prepare_whitespace_edit(lines: list[str]) -> Callable[[], object]:
    """A text that is there with other white space."""
    text, half = "\n".join(lines), len(lines) // 2
    old = "\n".join(lines[half : half + QUOTED_LINES]).replace("    ", "\t")

    def work() -> None:
        assert isinstance(find_and_replace(text, old, "pass", MODEL, tolerant=True), ReplaceSuccess)

    return work


def prepare_exact_edit(lines: list[str]) -> Callable[[], object]:
    text, half = "\n".join(lines), len(lines) // 2
    old = "\n".join(lines[half : half + QUOTED_LINES])

    def work() -> None:
        assert isinstance(find_and_replace(text, old, "pass", MODEL), ReplaceSuccess)

    return work


def _alter_excerpt(lines: list[str]) -> str:
    half = len(lines) // 2
    quoted = "\n".join(lines[half : half + QUOTED_LINES])
    return quoted.replace("value", "worth").replace("total", "sum")


CASES = [
    EditCase("apply_diff, 20 blocks", lambda lines: prepare_exact_blocks(lines, hints=True), 10),
    EditCase(
        "apply_diff, 20 without lines", lambda lines: prepare_exact_blocks(lines, hints=False), 20
    ),
    EditCase("apply_diff, fuzzy miss", prepare_fuzzy_miss, 200),
    EditCase("str.replace, 20 edits", prepare_plain_replaces, 10),
    EditCase("apply_patch, 20 chunks", prepare_patch, 10),
    EditCase("apply_patch, miss", lambda lines: prepare_patch(lines, wrong="?"), 200),
    EditCase("edit, exact", prepare_exact_edit, 2),
    EditCase("edit_file, other white space", prepare_whitespace_edit, 100),
    EditCase("edit_file, miss", prepare_missed_edit, 200),
]


if __name__ == "__main__":
    main()
