"""Parser of SEARCH/REPLACE blocks.

    <<<<<<< SEARCH
    :start_line:<n>
    -------
    text to find
    =======
    text to put there
    >>>>>>> REPLACE

One pass over the lines of a diff has three states (outside, in SEARCH, in REPLACE) and either
collects the blocks or reports the line at which the format was violated. Lines that look like a
marker but belong to the file are written with a backslash in front. If a block has several lines
`=======`, the file tells which of them is the separator, or the diff is refused. A diff without
such blocks may have markers of another length or Cline's, or be a unified diff of the file; it is
read where that is plain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import islice

from msgspec import Struct

from joey.core.text import compile_regex

BLOCK_FORMAT = """\
<<<<<<< SEARCH
:start_line:<number of the first line to replace>
-------
<the lines as they are in the file>
=======
<the lines that take their place>
>>>>>>> REPLACE"""

_SEARCH_MARKER_RE = compile_regex(r"<{7,8} SEARCH>?")
_REPLACE_MARKER_RE = compile_regex(r">{7,8} REPLACE<?")
_SEPARATOR_MARKER = "======="
_MAX_LISTED_SEPARATORS = 20
_MAX_LISTED_CHARS = 80
_START_LINE_RE = compile_regex(r":start_line:\s*(\d{1,9})?")
_END_LINE_RE = compile_regex(r":end_line:\s*\d*")
_OTHER_SEARCH_MARKER_RE = compile_regex(r"(?:<{3,12}|-{3,12}) ?SEARCH>?")
_OTHER_SEPARATOR_RE = compile_regex(r"={3,12}")
_OTHER_REPLACE_MARKER_RE = compile_regex(r"(?:>{3,12}|\+{3,12}) ?REPLACE<?")
_HUNK_RE = compile_regex(r"@@(?: -(\d{1,9})(?:,\d+)? \+\d+(?:,\d+)?)?(?: @@.*| .*)?")
_FENCED_DIFF_RE = compile_regex(r"```(?:diff|patch)?[ \t]*\n(.*)\n```[ \t]*", re.DOTALL)
_FILE_START_RE = compile_regex(r"\n--- .*\n\+\+\+ .*\n@@")
_FILE_HEADERS = ("diff ", "index ", "--- ", "+++ ", "new file mode", "old mode", "new mode")
_ESCAPED_MARKER_RE = compile_regex(
    r"^([ \t]*)\\(?=<<<<<<<|=======|>>>>>>>|-------|:start_line:|:end_line:)", re.MULTILINE
)


class SearchReplaceBlock(Struct, frozen=True):
    search: str
    replace: str
    start_line: int | None = None
    """Where the model says that the text begins, counted from 1."""


class MalformedDiff(Struct, frozen=True):
    """The diff is not a sequence of blocks; none of it may be applied."""

    message: str


FollowingLines = Callable[[SearchReplaceBlock, bool], Sequence[Sequence[str]]]
"""For each place of the file where SEARCH matches, exactly or else loosely too, the two lines
after it."""


class _BlockParserState(StrEnum):
    OUTSIDE = "<<<<<<< SEARCH"
    """The marker that each state waits for is its value."""
    IN_SEARCH = "======="
    IN_REPLACE = ">>>>>>> REPLACE"


def parse_blocks(
    diff: str, following: FollowingLines
) -> tuple[SearchReplaceBlock, ...] | MalformedDiff:
    lines = [line.removesuffix("\r") for line in diff.split("\n")]
    markers = [_find_awaiting_state(line.strip()) for line in lines]
    if _BlockParserState.OUTSIDE not in markers:
        markers = _find_other_markers(lines) or markers
    # Equal numbers of starts and ends with a separator for each: a stray one belongs to a file.
    count = markers.count(_BlockParserState.OUTSIDE)
    counts_add_up = count == markers.count(_BlockParserState.IN_REPLACE) and (
        markers.count(_BlockParserState.IN_SEARCH) >= count
    )
    state = _BlockParserState.OUTSIDE
    body: list[str] = []
    separators: list[int] = []
    blocks: list[SearchReplaceBlock] = []
    for number, (line, awaited_in) in enumerate(zip(lines, markers, strict=True), 1):
        if awaited_in is _BlockParserState.IN_SEARCH and (
            state is _BlockParserState.IN_SEARCH
            or (state is _BlockParserState.IN_REPLACE and counts_add_up)
        ):
            state = _BlockParserState.IN_REPLACE
            separators.append(len(body))
            body.append(line)
        elif awaited_in is not state:
            if problem := _find_marker_problem(
                line.strip(), number, state, awaited_in, counts_add_up
            ):
                return MalformedDiff(problem)
            body.append(line)
        elif state is _BlockParserState.OUTSIDE:
            state, body, separators = _BlockParserState.IN_SEARCH, [], []
        else:
            block = _choose_block(body, separators, following)
            if block is None:
                return MalformedDiff(_describe_separators(body, number - len(body)))
            blocks.append(block)
            state = _BlockParserState.OUTSIDE
    if state is not _BlockParserState.OUTSIDE:
        return MalformedDiff(
            f"The diff ends in the middle of a block: `{state}` was still expected."
            f" A block looks like this:\n\n{BLOCK_FORMAT}"
        )
    if not blocks and (hunks := _parse_unified_diff(lines)):
        return hunks
    if not blocks:
        return MalformedDiff(
            f"Invalid diff format: there is no block in it. Expected:\n\n{BLOCK_FORMAT}"
        )
    return tuple(blocks)


def _choose_block(
    body: list[str], separators: list[int], following: FollowingLines
) -> SearchReplaceBlock | None:
    """Choose the separator of a block; None if it is ambiguous. Where the file continues with
    `=======` after SEARCH, the line may be quoted from it."""
    if len(separators) > _MAX_LISTED_SEPARATORS:
        return None
    # A separator repeated, or once more at the end, is not text to insert.
    blocks = [
        _build_block(body[:at], body[at + 1 :])
        for at in separators
        if all(
            body[other - 1].strip()
            and other != at + 1
            and (other + 1 < len(body) or at > separators[0])
            for other in separators
            if other > at
        )
    ]
    if len(separators) == 1:
        [block] = blocks
        if not any(line.strip() == f"\\{_SEPARATOR_MARKER}" for line in body):
            return block
        quoted = [_SEPARATOR_MARKER, block.replace.split("\n", 1)[0].strip()]
        places = following(block, False)
        return (
            None if any([line.strip() for line in place] == quoted for place in places) else block
        )
    fitting = [
        block
        for block in blocks
        if len(places := following(block, True)) == 1
        and [line.strip() for line in places[0][:1]] != [_SEPARATOR_MARKER]
    ]
    return fitting[0] if len(fitting) == 1 else None


def _describe_separators(body: list[str], first_number: int) -> str:
    candidates = (
        f"line {number}: `{line.strip()}` after `{before.strip()[:_MAX_LISTED_CHARS]}`"
        for number, (before, line) in enumerate(
            zip(["<<<<<<< SEARCH", *body], body, strict=False), first_number
        )
        if line.strip().removeprefix("\\") == _SEPARATOR_MARKER
    )
    listed = "\n".join(islice(candidates, _MAX_LISTED_SEPARATORS))
    return (
        "It is not clear which of these lines of the diff separates SEARCH from REPLACE:\n\n"
        f"{listed}\n\n"
        "Leave the separator as `=======`, put a backslash in front of every other one"
        " (`\\=======`), and quote complete lines in SEARCH. Nothing was applied."
    )


def _find_other_markers(lines: list[str]) -> list[_BlockParserState | None] | None:
    """Classify the lines of blocks with other markers; None if they are ambiguous."""
    markers = [
        next(
            (state for state, form in _OTHER_MARKERS.items() if form.fullmatch(line.strip())), None
        )
        for line in lines
    ]
    found = [marker for marker in markers if marker is not None]
    expected = list(_OTHER_MARKERS) * (len(found) // len(_OTHER_MARKERS))
    return markers if found and found == expected else None


_OTHER_MARKERS = {
    _BlockParserState.OUTSIDE: _OTHER_SEARCH_MARKER_RE,
    _BlockParserState.IN_SEARCH: _OTHER_SEPARATOR_RE,
    _BlockParserState.IN_REPLACE: _OTHER_REPLACE_MARKER_RE,
}


def _parse_unified_diff(lines: list[str]) -> tuple[SearchReplaceBlock, ...]:
    """Convert a unified diff of one file into blocks; empty if it is not one."""
    blocks: list[SearchReplaceBlock] = []
    hunk: re.Match[str] | None = None
    old: list[str] = []
    new: list[str] = []

    def end_hunk() -> None:
        while old[-1:] == [""] == new[-1:]:  # may only separate hunks
            old.pop()
            new.pop()
        if hunk is not None:
            start_line = int(hunk[1]) if hunk[1] else None
            blocks.append(SearchReplaceBlock("\n".join(old), "\n".join(new), start_line or None))
        old.clear()
        new.clear()

    text = "\n".join(lines).strip("\n")
    fenced = _FENCED_DIFF_RE.fullmatch(text)
    if _FILE_START_RE.search(text, text.find("@@") + 1):  # hunks of another file
        return ()
    for line in (fenced[1] if fenced else text).split("\n"):
        if header := _HUNK_RE.fullmatch(line):
            end_hunk()
            hunk = header
        elif hunk is None:
            if line.strip() and not line.startswith(_FILE_HEADERS):
                return ()
        elif not line or line[0] in " +-":
            if not line.startswith("+"):
                old.append(line[1:])
            if not line.startswith("-"):
                new.append(line[1:])
        elif not line.startswith("\\"):
            return ()
    end_hunk()
    return tuple(blocks)


def _find_awaiting_state(marker: str) -> _BlockParserState | None:
    """Return the state that a marker ends; None if the line is not a marker."""
    if marker == _SEPARATOR_MARKER:
        return _BlockParserState.IN_SEARCH
    if _SEARCH_MARKER_RE.fullmatch(marker):
        return _BlockParserState.OUTSIDE
    return _BlockParserState.IN_REPLACE if _REPLACE_MARKER_RE.fullmatch(marker) else None


def _build_block(search: list[str], replace: list[str]) -> SearchReplaceBlock:
    start_line, rest = None, search
    # A rule without a line number before it that also precedes the new lines is part of the file.
    if search[:1] == ["-------"] == replace[:1]:
        return SearchReplaceBlock(_unescape_markers(search), _unescape_markers(replace))
    if rest and (match := _START_LINE_RE.fullmatch(rest[0].strip())):
        start_line = int(match[1]) if match[1] else None
        rest = rest[1:]
    if rest and _END_LINE_RE.fullmatch(rest[0].strip()):
        rest = rest[1:]
    if rest and rest[0].rstrip() == "-------":
        rest = rest[1:]
    return SearchReplaceBlock(
        _unescape_markers(rest), _unescape_markers(replace), start_line or None
    )


def _unescape_markers(lines: list[str]) -> str:
    return _ESCAPED_MARKER_RE.sub(r"\1", "\n".join(lines))


def _find_marker_problem(
    marker: str,
    number: int,
    state: _BlockParserState,
    awaited_in: _BlockParserState | None,
    counts_add_up: bool,
) -> str | None:
    """Return the problem with this line in this state, if any."""
    is_separator = awaited_in is _BlockParserState.IN_SEARCH
    if awaited_in and not (is_separator and counts_add_up):
        return (
            f"Malformed diff at line {number}: found `{marker}` where `{state}` was expected."
            f" Each block must look like this:\n\n{BLOCK_FORMAT}"
        )
    if awaited_in or marker.startswith(("<<<<<<<", ">>>>>>>")):
        return (
            f"Line {number} of the diff is `{marker}`, which looks like a merge conflict marker in"
            f" the file, while `{state}` was expected. If the file really has this line, put a"
            f" backslash in front of it, in SEARCH and in REPLACE alike: `\\{marker}`. Otherwise"
            f" use the markers of a block exactly:\n\n{BLOCK_FORMAT}"
        )
    in_replace = state is _BlockParserState.IN_REPLACE
    if not in_replace or not marker.startswith((":start_line:", ":end_line:")):
        return None
    return (
        f"Line {number} of the diff has `{marker}` in a REPLACE part. Line markers belong to the"
        " SEARCH part only.\n\n"
        "Right:\n<<<<<<< SEARCH\n:start_line:5\n-------\nold\n=======\nnew\n>>>>>>> REPLACE\n\n"
        "Wrong:\n<<<<<<< SEARCH\nold\n=======\n:start_line:5\nnew\n>>>>>>> REPLACE\n\n"
        f"If the file really has this line, write `\\{marker}`."
    )
