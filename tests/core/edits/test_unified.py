from __future__ import annotations

import re
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from joey.core.edits.diff import DiffStats, build_new_file_diff, build_unified_diff

HUNK = re.compile(r"@@ -(\d+),(\d+) \+(\d+),(\d+) @@")


def patched(old: str, patch: str) -> str:
    """The new text, made from the old one and a patch, as any program would make it."""
    source = old.split("\n")
    result: list[str] = []
    at = 0
    for line in patch.split("\n")[:-1]:
        if match := HUNK.fullmatch(line):
            start = int(match[1]) - (1 if int(match[2]) else 0)
            result += source[at:start]
            at = start
            continue
        if line[0] in " -":
            assert source[at] == line[1:]
            at += 1
        if line[0] in " +":
            result.append(line[1:])
    return "\n".join(result + source[at:])


def test_a_change_is_shown_with_three_lines_around_it() -> None:
    old = "".join(f"{n}\n" for n in range(1, 11))
    patch = build_unified_diff(old, old.replace("5\n", "five\nfive\n"))
    assert patch.text == "@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n+five\n 6\n 7\n 8\n"
    assert patch.stats == DiffStats(added=2, removed=1)


def test_changes_far_apart_have_hunks_of_their_own() -> None:
    old = "".join(f"{n}\n" for n in range(1, 30))
    patch = build_unified_diff(old, old.replace("\n5\n", "\nfive\n").replace("\n25\n", "\n"))
    assert patch.text.count("@@ -") == 2
    assert patch.stats == DiffStats(added=1, removed=2)


def test_equal_texts_have_no_patch() -> None:
    assert build_unified_diff("a\nb\n", "a\nb\n").text == ""
    assert build_unified_diff("a\r\nb", "a\r\nb").text == ""


def test_lines_that_only_end_in_another_way_are_counted() -> None:
    to_lf = "\\ Lines that will end with LF instead of CRLF"
    to_crlf = "\\ Lines that will end with CRLF instead of LF"
    assert build_unified_diff("a\r\nb\r\n", "a\nb\n").text == f"{to_lf}: 2.\n"
    patch = build_unified_diff("a\nb\nc\r\nd\r\n", "a\r\nB\nc\nd\r\n")
    hunk = "@@ -1,4 +1,4 @@\n a\n-b\n+B\n c\n d\n"
    assert patch.text == f"{hunk}{to_crlf}: 1.\n{to_lf}: 1.\n"
    assert patch.stats == DiffStats(added=1, removed=1)


def test_a_missing_last_line_end_is_a_change() -> None:
    assert build_unified_diff("a\nb", "a\nb\n").text == "@@ -1,2 +1,2 @@\n a\n-b\n+b\n"


def test_a_new_file_is_a_patch_against_nothing() -> None:
    patch = build_new_file_diff("src/a.py", "x\ny\n")
    assert patch.text == "--- /dev/null\n+++ src/a.py\n@@ -0,0 +1,2 @@\n+x\n+y\n"
    assert patch.stats == DiffStats(added=2, removed=0)
    assert build_new_file_diff("a", "").stats == DiffStats(added=0, removed=0)


def test_repetitive_texts_of_some_length_are_patched_rightly() -> None:
    random = Random(1)
    old = "".join(random.choice("abc") + "\n" for _ in range(3000))
    new = "".join(random.choice("abc") + "\n" for _ in range(3000))
    assert patched(old, build_unified_diff(old, new).text) == new


TEXT = st.lists(st.sampled_from(["a", "b", "c", "", "unique"]), max_size=25).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


@settings(max_examples=200)
@given(TEXT, TEXT)
def test_a_patch_turns_the_old_text_into_the_new_one(old: str, new: str) -> None:
    patch = build_unified_diff(old, new)
    assert patched(old, patch.text) == new
    lines = patch.text.split("\n")
    assert patch.stats.added == sum(line.startswith("+") for line in lines)
    assert patch.stats.removed == sum(line.startswith("-") for line in lines)
