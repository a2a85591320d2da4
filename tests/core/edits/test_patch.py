from __future__ import annotations

from difflib import SequenceMatcher

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joey.core.edits.patch import MAX_FAILED_CHUNKS, FailedPatch, apply_chunks
from joey.core.edits.patch_parser import InvalidPatch, UpdateFile, parse_patch


def similarity(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other, autojunk=False).ratio()


def outcome(text: str, *lines: str) -> str | FailedPatch:
    body = "\n".join(lines)
    hunks = parse_patch(f"*** Begin Patch\n*** Update File: a\n{body}\n*** End Patch")
    assert not isinstance(hunks, InvalidPatch), hunks.message
    (hunk,) = hunks
    assert isinstance(hunk, UpdateFile)
    return apply_chunks(text, hunk.chunks, similarity=similarity)


def applied(text: str, *lines: str) -> str:
    result = outcome(text, *lines)
    assert isinstance(result, str), result
    return result


def miss(text: str, *lines: str) -> tuple[str, str]:
    result = outcome(text, *lines)
    assert isinstance(result, FailedPatch), result
    (failure,) = result.failures
    return failure.summary, failure.evidence


CODE = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"


# Where a chunk goes


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (("-    return 1", "+    return 11"), CODE.replace("1", "11")),
        ((" def one():", "+    x = 0", "     return 1"), CODE.replace("():", "():\n    x = 0", 1)),
        (("-def one():", "-    return 1", "-", "-"), "def two():\n    return 2\n"),
        (
            ("-    return 1", "+    return 11", "@@", "-    return 2", "+    return 22"),
            CODE.replace("1", "11").replace("2", "22"),
        ),
        ((" def two():", "-    return 2", "+    return 3"), CODE.replace("2", "3")),
        (("+# the end",), CODE + "# the end\n"),
        (("@@", "+# the end"), CODE + "# the end\n"),
        (("@@ def one():", "+    x = 0"), CODE.replace("():", "():\n    x = 0", 1)),
        (("@@ def one():", "+# the end", "*** End of File"), CODE + "# the end\n"),
        (
            ("+# the end", "@@", "-    return 1", "+    return 11"),
            CODE.replace("1", "11") + "# the end\n",
        ),
        ((" def one():",), CODE),
        (("-def one():", "-    return 1", "-", "-", "-def two():", "-    return 2"), ""),
    ],
)
def test_chunks_change_the_lines_they_quote(lines: tuple[str, ...], after: str) -> None:
    assert applied(CODE, *lines) == after


def test_a_text_that_was_empty_is_filled() -> None:
    assert applied("", "+one", "+two") == "one\ntwo\n"


def test_context_says_which_of_equal_places_is_meant() -> None:
    text = "class A:\n    def f():\n        x\n\nclass B:\n    def f():\n        x\n"
    assert applied(text, "-        x", "+        y") == text.replace("x", "y", 1)
    expected = text[::-1].replace("x", "y", 1)[::-1]
    assert applied(text, "@@ class B:", "-        x", "+        y") == expected
    stacked = applied(text, "@@ class B:", "@@     def f():", "-        x", "+        y")
    assert stacked == expected


def test_each_chunk_is_looked_for_behind_the_one_before() -> None:
    assert applied("x\na\nx\nx\n", " a", "+b", "@@", "-x", "+y") == "x\na\nb\ny\nx\n"
    assert applied("x\nx\nx\n", "-x", "+1", "@@", "-x", "+2", "@@", "-x", "+3") == "1\n2\n3\n"


def test_a_chunk_at_the_end_of_the_file_is_looked_for_nowhere_else() -> None:
    text = "x\ny\nx\n"
    assert applied(text, "-x", "+z", "*** End of File") == "x\ny\nz\n"
    summary, _ = miss(text, "-y", "+z", "*** End of File")
    assert "They are at line 2, which is not the end of the file" in summary


# What may differ


@pytest.mark.parametrize(
    ("line", "quoted"),
    [
        ("value = 1  ", "value = 1"),
        ("value = 1", "value = 1   "),
        ("\tvalue = 1", "value = 1"),
        ("say(\u201chi\u201d)", 'say("hi")'),
        ("a \u2014 b\u00a0c", "a - b c"),
        ("it\u2019s", "it's"),
    ],
)
def test_white_space_and_typography_may_differ_and_kept_lines_keep_theirs(
    line: str, quoted: str
) -> None:
    text = f"before\n{line}\nafter\n"
    assert applied(text, f" {quoted}", "-after", "+AFTER") == f"before\n{line}\nAFTER\n"
    assert applied(text, f"-{quoted}", "+new", " after").endswith("new\nafter\n")


def test_what_stands_as_it_is_quoted_goes_before_what_is_only_like_it() -> None:
    assert applied("  x\nx\n", "-x", "+y") == "  x\ny\n"


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (
            (" if a:", "     b()", "+    c()", "+    if d:", "+        e()"),
            "\tif a:\n\t\tb()\n\t\tc()\n\t\tif d:\n\t\t\te()\n",
        ),
        (("     b()", "+# out"), "\tif a:\n\t\tb()\n# out\n"),
        ((" if a:", "+", "     b()"), "\tif a:\n\n\t\tb()\n"),
    ],
)
def test_added_lines_take_on_the_indentation_of_the_place(
    lines: tuple[str, ...], after: str
) -> None:
    assert applied("\tif a:\n\t\tb()\n", *lines) == after


def test_added_lines_move_outwards_with_the_place() -> None:
    text = "            a()\n            b()\n"
    assert applied(text, "         a()", "+    c()", "         b()").split("\n")[1] == "        c()"


def test_an_empty_line_at_the_end_of_a_chunk_need_not_be_there() -> None:
    assert applied("a\nb\n", "-b", "+c", "") == "a\nc\n"
    assert applied("a\nb\n", "-b", "-", "+c", "+") == "a\nc\n"
    assert applied("a\nb\n", " b", "", "+c") == "a\nb\n\nc\n"
    assert applied("a\n\nb\n", "-a", "+c", "") == "c\n\nb\n"


@pytest.mark.parametrize("text", ["", "\n", "  \n"])
def test_the_blank_line_of_an_otherwise_empty_file_can_be_replaced(text: str) -> None:
    assert applied(text, "-", "+a", "+b") == "a\nb\n"
    assert applied(text, "-") == ""


def test_a_chunk_may_repeat_what_the_chunk_before_has_kept() -> None:
    text = "a\nb\nc\nd\n"
    assert applied(text, "-a", "+A", " b", "@@", " b", "-c", "+C") == "A\nb\nC\nd\n"
    assert applied(text, "-a", "+A", " b", "@@ b", "-c", "+C") == "A\nb\nC\nd\n"


def test_a_chunk_may_repeat_the_line_that_its_context_names() -> None:
    assert applied("f:\n  x\nf:\n", "@@ f:", " f:", "-  x", "+  y") == "f:\n  y\nf:\n"


def test_a_context_that_was_passed_already_still_holds() -> None:
    text = "f:\n  a\n  b\n"
    assert applied(text, "@@ f:", "-  a", "+  A", "@@ f:", "-  b", "+  B") == "f:\n  A\n  B\n"


# Bytes


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\r\nb\r\nc\r\n", "a\r\nB\r\nN\r\nc\r\n"),
        ("a\r\nb\r\nc", "a\r\nB\r\nN\r\nc"),
        ("a\r\nb\nc\r\n", "a\r\nB\nN\nc\r\n"),
        ("a\nb", "a\nB\nN"),
        ("b", "B\nN"),
        ("a\r\nb", "a\r\nB\r\nN"),
        ("caf\udce9\nb\n\udcff", "caf\udce9\nB\nN\n\udcff"),
        ("a\x0cA\x85\u2028\nb\n", "a\x0cA\x85\u2028\nB\nN\n"),
    ],
)
def test_line_ends_and_the_last_one_stay_as_the_file_has_them(before: str, after: str) -> None:
    assert applied(before, "-b", "+B", "+N") == after


@pytest.mark.parametrize(
    ("before", "after"),
    [("a", "a\nz"), ("a\n", "a\nz\n"), ("x\r\na", "x\r\na\r\nz"), ("a\r\n", "a\r\nz\r\n")],
)
def test_appending_keeps_the_last_line_end_as_it_was(before: str, after: str) -> None:
    assert applied(before, "+z") == after


def test_the_patch_may_change_the_last_line_end() -> None:
    no_newline = "\\ No newline at end of file"
    assert applied("a\nb", "-b", no_newline, "+b") == "a\nb\n"
    assert applied("a\nb\n", "-b", "+b", no_newline) == "a\nb"
    assert applied("a\r\nb", "-b", no_newline, "+c") == "a\r\nc\r\n"
    assert applied("a\nb", " b", "+") == "a\nb\n"


def test_deleting_the_last_line_of_a_text_without_a_last_newline_adds_none() -> None:
    assert applied("a\nb", "-b") == "a"


# What does not fit


@pytest.mark.contract("tool:apply_patch:failure:miss")
def test_a_miss_shows_the_nearest_lines_and_the_first_that_differs() -> None:
    summary, evidence = miss(CODE, " def two():", "-    return 3", "+    return 4")
    assert summary.startswith("Chunk at line 3 of the patch: its kept and removed lines are not")
    assert "The nearest lines begin at line 5 of the file" in summary
    assert "the first that differs is number 2 of the chunk, `    return 3`" in summary
    assert "Search Content:\ndef two():\n    return 3" in evidence
    assert "5 | def two():\n6 |     return 2" in evidence


@pytest.mark.contract("tool:apply_patch:failure:miss")
def test_chunks_out_of_order_are_reported_with_where_their_lines_are() -> None:
    summary, evidence = miss(CODE, "-    return 2", "@@", "-    return 1")
    assert "Chunk at line 4 of the patch" in summary
    assert "They are at line 2, but the chunks before reach to line 6" in summary
    assert "order" in summary
    assert evidence == ""


def test_lines_before_their_context_are_reported_with_where_they_are() -> None:
    summary, _ = miss(CODE, "@@ def two():", "-    return 1")
    assert "They are at line 2, but its `@@` says that they are after line 5" in summary


@pytest.mark.contract("tool:apply_patch:failure:miss")
def test_a_context_that_is_not_there_is_reported_with_the_nearest_line() -> None:
    summary, evidence = miss(CODE, "@@ def too():", "-    return 2")
    assert "there is no line `def too():`" in summary
    assert "5 | def two():" in evidence


def test_an_addition_behind_a_context_that_was_passed_is_not_guessed() -> None:
    summary, _ = miss(CODE, "-    return 2", "@@ def one():", "+    x")
    assert "there is no line `def one():` after line 6" in summary


def test_a_change_that_was_made_before_is_recognised() -> None:
    summary, _ = miss(CODE, " def one():", "-    return 0", "+    return 1")
    assert "The new lines are at line 1 already" in summary


def test_kept_lines_that_are_there_do_not_mean_that_the_others_were_deleted() -> None:
    summary, _ = miss("alpha\ngamma\n", " alpha", "-beta")
    assert "made before" not in summary


def test_a_text_with_nothing_alike_says_so() -> None:
    summary, evidence = miss("", "-x")
    assert "No similar lines were found" in summary
    assert "Best Match Found" not in evidence


def test_misses_are_reported_up_to_a_limit_and_nothing_of_the_file_is_in_a_summary() -> None:
    result = outcome("secret = 1\n" * 20, *(["@@", "-secret = 2"] * 9))
    assert isinstance(result, FailedPatch)
    assert len(result.failures) == MAX_FAILED_CHUNKS
    for failure in result.failures:
        assert "secret = 1" not in failure.summary
        assert "secret = 1" in failure.evidence


@pytest.mark.parametrize("text", ["x\n" * 200_000, " x\n" * 200_000, "x" * 400_000])
def test_repetition_costs_no_more_than_reading_a_few_times(text: str) -> None:
    assert isinstance(outcome(text, *[" x"] * 20_000, "-y"), FailedPatch)


# Any two texts


def chunks_between(old: list[str], new: list[str], cuts: st.DataObject) -> list[str]:
    """Chunks that make `new` of `old`, each beginning where the one before ends, so that the first
    place where it fits is the right one."""
    lines: list[str] = ["@@"]
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            lines += [f"-{line}" for line in old[a:b]] + [f"+{line}" for line in new[c:d]]
            continue
        for line in old[a:b]:
            lines.append(f" {line}")
            if cuts.draw(st.booleans()):
                lines.append("@@")
    return [line for at, line in enumerate(lines) if line != "@@" or lines[at + 1 : at + 2]]


LINES = st.lists(st.sampled_from(["", "a", " a", "a ", "b", "\tb", "*** x", "@@ y", "-", "+"]))


@pytest.mark.contract("tool:apply_patch:success")
@settings(max_examples=200)
@given(st.data(), LINES, LINES, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_a_patch_between_two_texts_makes_the_second_of_the_first(
    data: st.DataObject, old: list[str], new: list[str], newline: str, ends: bool
) -> None:
    old, new = ["top", *old, "end"], ["top", *new, "end"]
    before, after = newline.join(old), newline.join(new)
    last = newline if ends else ""
    lines = chunks_between(old, new, data)
    assert applied(before + last, *lines) == after + last


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.sampled_from("kra"), st.integers(0, 99)), min_size=1, max_size=60),
    st.integers(0, 4),
)
def test_a_patch_with_little_context_fits_where_lines_are_unique(
    plan: list[tuple[str, int]], around: int
) -> None:
    old, new, marked = ["top"], ["top"], [" top"]
    for number, (kind, text) in enumerate(plan):
        line = f"{number}: {text}"
        old += [] if kind == "a" else [line]
        new += [] if kind == "r" else [line]
        marked.append({"k": " ", "r": "-", "a": "+"}[kind] + line)
    changed = {at for at, line in enumerate(marked) if line[0] != " "}
    near = {at + step for at in changed for step in range(-around - 1, around + 1)}
    lines = [
        line if at in near or at == 0 else "@@"
        for at, line in enumerate(marked)
        if at in near or at == 0 or at - 1 in near or at == 1
    ]
    while lines[-1] == "@@":
        lines.pop()
    lines = [line for at, line in enumerate(lines) if line != "@@" or lines[at + 1] != "@@"]
    assert applied("\n".join(old) + "\n", *lines) == "\n".join(new) + "\n"
