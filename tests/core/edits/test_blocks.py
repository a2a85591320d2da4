from __future__ import annotations

import pytest

from joey.core.edits.block_parser import (
    BLOCK_FORMAT,
    MalformedDiff,
    SearchReplaceBlock,
    parse_blocks,
)


def parse(diff: str) -> tuple[SearchReplaceBlock, ...] | MalformedDiff:
    return parse_blocks(diff, lambda block, is_exact: ())


S, M, R = "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"


def joined(*lines: str) -> str:
    return "\n".join(lines)


def problem(*lines: str) -> str:
    result = parse(joined(*lines))
    assert isinstance(result, MalformedDiff)
    return result.message


@pytest.mark.contract("tool:apply_diff:success:blocks")
@pytest.mark.parametrize(
    ("lines", "blocks"),
    [
        ((S, "a", M, "b", R), (SearchReplaceBlock("a", "b"),)),
        (
            (S, "a", M, "b", R, "", S, "c", M, "d", R),
            (SearchReplaceBlock("a", "b"), SearchReplaceBlock("c", "d")),
        ),
        ((S, ":start_line:5", "-------", "a", M, "b", R), (SearchReplaceBlock("a", "b", 5),)),
        (
            (S, ":start_line: 5 ", ":end_line:9", "-------", "a", M, "b", R),
            (SearchReplaceBlock("a", "b", 5),),
        ),
        ((S, ":start_line:5", "a", M, "b", R), (SearchReplaceBlock("a", "b", 5),)),
        ((S, "-------", "a", M, "b", R), (SearchReplaceBlock("a", "b"),)),
        (
            (S, "-------", "a", M, "-------", "b", R),
            (SearchReplaceBlock("-------\na", "-------\nb"),),
        ),
        ((S, ":start_line:0", "-------", "a", M, "b", R), (SearchReplaceBlock("a", "b"),)),
        ((S + ">", "a", M, "b", R), (SearchReplaceBlock("a", "b"),)),
        (("<" + S, "a", M, "b", ">" + R + "<"), (SearchReplaceBlock("a", "b"),)),
        (("file.py", "```", S, "a", M, "b", R, "```"), (SearchReplaceBlock("a", "b"),)),
        ((f"  {S}  ", "  a  ", f" {M}", "b", R), (SearchReplaceBlock("  a  ", "b"),)),
        ((S, "a", M, R), (SearchReplaceBlock("a", ""),)),
        ((S, M, "b", R), (SearchReplaceBlock("", "b"),)),
        ((S + "\r", "a\r", M + "\r", "b\r", R + "\r"), (SearchReplaceBlock("a", "b"),)),
        ((S, "1 | a", "2 | b", M, "1 | c", R), (SearchReplaceBlock("1 | a\n2 | b", "1 | c"),)),
    ],
)
def test_blocks_are_understood(
    lines: tuple[str, ...], blocks: tuple[SearchReplaceBlock, ...]
) -> None:
    assert parse(joined(*lines)) == blocks


@pytest.mark.parametrize(
    "marker", ["<<<<<<< HEAD", "=======", ">>>>>>> main", "-------", ":start_line:5", ":end_line:5"]
)
def test_a_backslash_lets_a_marker_be_text(marker: str) -> None:
    diff = joined(S, "x", f"\\{marker}", f"  \\{marker}", M, f"\\{marker}", R)
    assert parse(diff) == (SearchReplaceBlock(f"x\n{marker}\n  {marker}", marker),)


@pytest.mark.contract("tool:apply_diff:failure:format")
@pytest.mark.parametrize(
    ("lines", "found", "number", "expected"),
    [
        ((R,), R, 1, S),
        ((S, "a", R), R, 3, M),
        ((S, "a", S, "b", M, "c", R), S, 3, M),
        ((S, "a", M, "b", S, "c", M, "d", R), S, 5, R),
        ((M, "a", R), M, 1, S),
        ((S, "a", M, "b", M), M, 5, R),
    ],
)
def test_a_misplaced_marker_is_named_with_its_line_and_what_was_expected(
    lines: tuple[str, ...], found: str, number: int, expected: str
) -> None:
    message = problem(*lines)
    assert f"line {number}" in message
    assert f"found `{found}`" in message
    assert f"`{expected}` was expected" in message
    assert S in message
    assert R in message


@pytest.mark.parametrize(
    ("lines", "marker"),
    [
        ((S + ">>", "a", M, "b", R), S + ">>"),
        ((S + "  >", "a", M, "b", R), S + "  >"),
        (("<" * 9 + " SEARCH", "a", M, "b", M, "c", R), "<" * 9 + " SEARCH"),
        ((S, "<<<<<<< HEAD", M, "b", R), "<<<<<<< HEAD"),
        ((S, "a", M, "b", ">>>>>>> main", R), ">>>>>>> main"),
    ],
)
def test_a_line_like_a_conflict_marker_asks_for_a_backslash(
    lines: tuple[str, ...], marker: str
) -> None:
    message = problem(*lines)
    assert "merge conflict" in message
    assert f"`\\{marker}`" in message


@pytest.mark.parametrize(
    "lines",
    [
        ("<<< SEARCH", "a", "===", "b", "===", "c", ">>> REPLACE"),
        ("<<< SEARCH", "a", ">>> REPLACE"),
        ("@@ -1 +1 @@", "-a", "+b", "words"),
        ("@@ -1 +1 @@", "-a", "+b", "--- a/y", "+++ b/y", "@@ -2 +2 @@", "-c", "+d"),
        ("-a", "+b"),
        ("Change it:", "@@ -1 +1 @@", "-a", "+b"),
    ],
)
def test_diffs_in_other_forms_are_refused_unless_they_are_plain(lines: tuple[str, ...]) -> None:
    assert BLOCK_FORMAT in problem(*lines)


def test_hunks_of_a_unified_diff_are_blocks() -> None:
    first, second = "@@ -3,2 +3,2 @@ def f():\n a\n-b\n+c\n", "@@ -9 +9 @@\n-d\n+\n\\ No newline"
    assert parse(f"--- a/x\n+++ b/x\n{first}\n{second}") == (
        SearchReplaceBlock("a\nb", "a\nc", 3),
        SearchReplaceBlock("d", "", 9),
    )
    assert parse("```diff\n@@ -4 +4 @@\n--- a\n+++ b\n```") == (
        SearchReplaceBlock("-- a", "++ b", 4),
    )


@pytest.mark.parametrize("marker", [":start_line:3", ":end_line:3", "  :start_line:3"])
def test_line_markers_in_the_replace_part_are_refused(marker: str) -> None:
    message = problem(S, "a", M, "b", marker, "c", R)
    assert "REPLACE" in message
    assert "Right:" in message
    assert "Wrong:" in message


@pytest.mark.parametrize(("lines", "expected"), [((S, "a"), M), ((S, "a", M, "b"), R)])
def test_a_diff_that_ends_too_early_says_what_is_missing(
    lines: tuple[str, ...], expected: str
) -> None:
    message = problem(*lines)
    assert "ends in the middle" in message
    assert f"`{expected}`" in message


@pytest.mark.parametrize("text", ["", "change a to b", "<<<<<< SEARCH\na\n======\nb"])
def test_a_diff_without_a_block_is_no_diff(text: str) -> None:
    assert "no block" in problem(text)
