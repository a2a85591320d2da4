from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from joey.core.edits.line_document import iter_occurrences, normalize_text
from joey.core.edits.search_replace import AppliedBlocks, FailedBlocks, apply_blocks
from tests.harness.bounded import run_bounded


def similarity(one: str, other: str) -> float:
    return Levenshtein.normalized_similarity(one, other)


def block(search: str, replace: str, line: int | None = None) -> str:
    return _block(search, f"{replace}\n", line)


def deletion(search: str, line: int | None = None) -> str:
    return _block(search, "", line)


def _block(search: str, replace: str, line: int | None) -> str:
    hint = f":start_line:{line}\n-------\n" if line else ""
    return f"<<<<<<< SEARCH\n{hint}{search}\n=======\n{replace}>>>>>>> REPLACE"


def outcome(original: str, *blocks: str) -> AppliedBlocks | FailedBlocks:
    return apply_blocks(original, "\n\n".join(blocks), similarity=similarity)


def edited(original: str, *blocks: str) -> str:
    result = outcome(original, *blocks)
    assert isinstance(result, AppliedBlocks), result
    assert not result.failures
    return result.text


def failure(original: str, *blocks: str) -> str:
    result = outcome(original, *blocks)
    assert isinstance(result, FailedBlocks), result
    return "\n".join(f"{part.summary}\n{part.evidence}" for part in result.failures)


CODE = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"


@pytest.mark.contract("tool:apply_diff:success:blocks")
@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        (
            (block("    return 1", "    return 11"),),
            "def one():\n    return 11\n\n\ndef two():\n    return 2\n",
        ),
        (
            (block("def two():\n    return 2", "def three():\n    return 3", 5),),
            "def one():\n    return 1\n\n\ndef three():\n    return 3\n",
        ),
        (
            (block("    return 2", "    return 22", 6), block("def one():", "def uno():", 1)),
            "def uno():\n    return 1\n\n\ndef two():\n    return 22\n",
        ),
        (
            (
                block("def one():", '"""Numbers."""\n\n\ndef one():', 1),
                block("    return 2", "    return 22", 6),
            ),
            '"""Numbers."""\n\n\ndef one():\n    return 1\n\n\ndef two():\n    return 22\n',
        ),
        (
            (block("    return 1", "    return 11"), block("    return 2", "    return 22")),
            "def one():\n    return 11\n\n\ndef two():\n    return 22\n",
        ),
    ],
)
def test_blocks_are_applied(blocks: tuple[str, ...], expected: str) -> None:
    assert edited(CODE, *blocks) == expected


def test_start_lines_are_those_of_the_file_before_the_edit() -> None:
    original = "".join(f"x\nitem {n}\n" for n in range(1, 60))
    blocks = [block(f"item {n}", f"item {n}\nmore\nmore\nmore", 2 * n) for n in range(1, 60, 5)]
    expected = "".join(
        f"x\nitem {n}\n" + ("more\nmore\nmore\n" if n % 5 == 1 else "") for n in range(1, 60)
    )
    assert edited(original, *blocks) == expected


@pytest.mark.parametrize("line", [None, 2])
def test_a_block_that_is_written_twice_is_applied_once(line: int | None) -> None:
    result = outcome("a\nfoo\nb\n", *[block("foo", "foo\nbar", line)] * 2)
    assert isinstance(result, AppliedBlocks)
    assert result.text == "a\nfoo\nbar\nb\n"
    summaries = [failure.summary for failure in result.failures]
    again = "The same block is in the diff more often than its text was in the file"
    assert summaries == ([] if line else [f"{again}, where it was changed once."])


def test_a_block_that_is_written_for_each_of_two_places_changes_both() -> None:
    twice = [block("foo", "foo\nbar")] * 2
    assert edited("foo\na\nfoo\n", *twice) == "foo\nbar\na\nfoo\nbar\n"


def test_a_block_without_a_line_does_not_shift_those_before_it() -> None:
    original = "".join(f"a\nline {n}\n" for n in range(50))
    blocks = (block("line 49", "line 49\n" * 5 + "end"), block("a", "b", 11))
    lines = edited(original, *blocks).split("\n")
    assert lines[10] == "b"
    assert lines.count("b") == 1


# Finding the place


@pytest.mark.contract("tool:apply_diff:success:tolerance")
@pytest.mark.parametrize(
    ("original", "search"),
    [
        ("if  a ==  b:\n", "if a == b:"),
        ("value = 1   \n", "value = 1"),
        ("\tfoo()\n", "foo()"),
        ("say(\u201chi\u201d)\n", 'say("hi")'),
        ("it's\n", "it\u2019s"),
        ("a \u2013 b\u2026\n", "a - b..."),
        ("a\u00a0b\n", "a b"),
    ],
)
def test_white_space_and_typography_may_differ(original: str, search: str) -> None:
    assert edited(original, block(search, "new")).strip() == "new"


def test_blank_lines_that_the_file_has_more_of_do_not_hinder() -> None:
    assert edited("a\n\nb\nc\n", block("a\nb", "x")) == "x\nc\n"


def test_blank_lines_around_the_search_take_the_files_blank_lines() -> None:
    assert edited("a\n\nb\n\nc\n", block("\nb\n", "\nx\n")) == "a\n\nx\n\nc\n"


def test_a_blank_line_after_the_end_of_the_file_does_not_hinder() -> None:
    assert edited("a\nb\n", block("b\n", "c\n")) == "a\nc\n"


@pytest.mark.parametrize(
    ("search", "replace"),
    [("b\n", "B\n"), ("\nb", "\nB"), ("\n\nb\n", "\n\nB\n"), ("\nb\n", "B")],
)
def test_a_blank_line_that_only_the_block_has_does_not_get_into_the_file(
    search: str, replace: str
) -> None:
    assert edited("a\nb\nc\n", block(search, replace)) == "a\nB\nc\n"


def test_blank_lines_that_the_block_adds_get_into_the_file() -> None:
    assert edited("a\nb\nc\n", block("b", "\nB\n")) == "a\n\nB\n\nc\n"
    assert edited("a\nb\nc\n", block("b\n", "B\n\n")) == "a\nB\n\nc\n"
    assert edited("a\n\nb\nc\n", block("\n\nb", "\n\nB")) == "a\n\nB\nc\n"


@pytest.mark.parametrize("indent", ["", "    "])
def test_a_block_of_equal_lines_is_found_in_a_file_of_equal_lines(indent: str) -> None:
    run_bounded(
        "import sys\n"
        "from joey.core.edits.search_replace import AppliedBlocks, apply_blocks\n"
        "block = (sys.argv[1] + 'x\\n') * 200_000\n"
        "head = '<<<<<<< SEARCH\\n:start_line:200001\\n'\n"
        "diff = head + block + '=======\\nz\\n>>>>>>> REPLACE'\n"
        "outcome = apply_blocks('x\\n' * 400_000, diff, similarity=lambda one, other: 0.0)\n"
        "assert isinstance(outcome, AppliedBlocks)\n"
        "assert outcome.text == 'x\\n' * 200_000 + 'z\\n'",
        indent,
    )


@given(st.text("ab", max_size=30), st.text("ab", min_size=1, max_size=4))
def test_every_occurrence_is_found_those_that_overlap_included(text: str, wanted: str) -> None:
    everywhere = [at for at in range(len(text)) if text.startswith(wanted, at)]
    assert list(iter_occurrences(text, wanted)) == everywhere


def test_an_exact_line_is_preferred_to_one_that_differs_in_white_space() -> None:
    original = "  x = 1\n" * 5 + "x = 1\n"
    assert edited(original, block("x = 1", "x = 2")) == "  x = 1\n" * 5 + "x = 2\n"


def test_of_equal_texts_the_one_nearest_to_the_start_line_is_meant() -> None:
    original = "".join(f"same\n{n}\n" for n in range(100))
    assert edited(original, block("same", "other", 101)).split("\n").index("other") == 100
    assert edited(original, block("same", "other", 4)).split("\n").index("other") == 4
    assert edited(original, block("same\n7", "other", 11)).split("\n").index("other") == 14


@pytest.mark.parametrize(
    ("blocks", "where"),
    [
        ([block("same", "other")], "3 times, at lines 3, 15, 28"),
        ([block("same", "other")] * 2, "3 times, at lines 3, 15, 28"),
        ([block("  same", "  other")], "3 times, at lines 3, 15, 28"),
        ([block("same", "other", 150)], "not near line 150, but in the file 3 times"),
    ],
)
def test_a_text_that_is_there_more_often_than_the_block_is_refused(
    blocks: list[str], where: str
) -> None:
    lines = [f"line {n}" for n in range(30)]
    for number in (2, 14, 27):
        lines[number] = "same"
    message = failure("\n".join(lines), *blocks)
    assert where in message
    assert "quote more lines" in message
    assert "same" not in message


def test_text_that_another_block_inserts_does_not_make_a_block_ambiguous() -> None:
    blocks = (block("foo()", "foo()\nbar()"), block("bar()", "baz()"))
    assert edited("foo()\nbar()\n", *blocks) == "foo()\nbar()\nbaz()\n"
    assert edited("bar()\nfoo()\n", *blocks) == "baz()\nfoo()\nbar()\n"


def test_text_that_another_block_only_quotes_makes_a_block_ambiguous() -> None:
    blocks = (block("foo()\n1", "foo()\n2"), block("foo()", "bar()"))
    result = outcome("foo()\n1\nfoo()\n", *blocks)
    assert isinstance(result, AppliedBlocks)
    assert result.text == "foo()\n2\nfoo()\n"
    assert "twice, at lines 1, 3" in result.failures[0].summary


def test_a_start_line_that_is_far_off_does_not_matter_where_only_one_place_matches() -> None:
    original = "".join(f"line {n}\n" for n in range(1, 200))
    for line in (90, 10, 92, 199):
        assert f"line {line}!\n" in edited(original, block(f"line {line}", f"line {line}!", 50))
    assert edited(CODE, block("return 1", "return 3", 500)) == CODE.replace("1", "3")


def test_near_the_start_line_a_text_may_be_there_more_often_elsewhere() -> None:
    original = "".join(f"line {n % 100}\n" for n in range(1, 200))
    lines = edited(original, block("line 90", "new", 191)).split("\n")
    assert lines.index("new") == 189


# Line numbers


@pytest.mark.parametrize(
    ("search", "replace"),
    [
        ("5 | def two():\n6 |     return 2", "5 | def two():\n6 |     return 3"),
        ("5 | def two():\n6 |     return 2\n", "5 | def two():\n6 |     return 3\n"),
        ("| def two():\n|     return 2", "| def two():\n|     return 3"),
        ("def two():\n6 |     return 2", "def two():\n6 |     return 3"),
    ],
)
def test_line_numbers_in_a_block_are_taken_off(search: str, replace: str) -> None:
    assert edited(CODE, block(search, replace)).rstrip() == CODE.replace("2", "3").rstrip()


def test_the_first_line_number_is_the_start_line() -> None:
    original = "same\n" * 9
    result = edited(original, block("8 | same", "8 | other"))
    assert result.split("\n").index("other") == 7


def test_a_text_that_looks_like_a_numbered_line_is_looked_for_as_it_is_first() -> None:
    table = "1 | one\n1 | two\ntwo\n"
    assert edited(table, block("1 | two", "1 | three")) == "1 | one\n1 | three\ntwo\n"
    assert edited(table, block("1 | one\n1 | two", "1 | one")) == "1 | one\ntwo\n"
    assert edited(table, block("3 | two", "3 | three")) == "1 | one\n1 | two\nthree\n"


def test_bars_of_new_lines_are_not_taken_for_line_numbers() -> None:
    rows = "| a | b |\n| c | d |"
    assert edited("text\nmore\n", block("1 | text\n2 | more", rows)) == f"{rows}\n"


def test_lines_quoted_with_numbers_can_be_deleted() -> None:
    assert edited(CODE, deletion("2 |     return 1\n3 | ")) == CODE.replace("    return 1\n\n", "")


# What is put there


@pytest.mark.parametrize(
    ("original", "search", "replace", "expected"),
    [
        ("\t\tfoo()\n", "foo()", "if x:\n    foo()", "\t\tif x:\n\t\t    foo()\n"),
        ("        a\n", "    a", "    a\n        b\n  c", "        a\n            b\n      c\n"),
        ("  a\n", "      a", "a", "a\n"),
        ("\ta\n\tb\n", "a\nb", "a\n\nb", "\ta\n\n\tb\n"),
        ("\ta\n", "\ta", "\ta\n        b", "\ta\n        b\n"),
        ("    a\n", "    a", "a", "a\n"),
        ("  a  \n", "a", "b  ", "  b  \n"),
        ("a\n", "a", "    a\n\tb", "    a\n\tb\n"),
        ("    # it’s\n", "    # it's", "\tx", "\tx\n"),
        ("    a\n    b\n", "a\n    b", "c\n    d", "    c\n    d\n"),
        ("    a\n    b\n", "a\n    b", "      c\n    d", "      c\n    d\n"),
    ],
)
def test_new_lines_are_indented_as_the_place_is(
    original: str, search: str, replace: str, expected: str
) -> None:
    assert edited(original, block(search, replace)) == expected


def test_trailing_white_space_of_new_lines_is_kept() -> None:
    assert edited("a\n", block("a", "two spaces  \nx")) == "two spaces  \nx\n"


@pytest.mark.parametrize(
    ("original", "search", "expected"),
    [
        ("a\nb\nc\n", "b", "a\nc\n"),
        ("a\nb\nc\n", "b\nc", "a\n"),
        ("a\nb", "b", "a"),
        ("a\n  b\n    c\nd\n", "  b\n    c", "a\nd\n"),
        ("a\n", "a", ""),
    ],
)
def test_an_empty_replacement_deletes(original: str, search: str, expected: str) -> None:
    assert edited(original, deletion(search)) == expected


@pytest.mark.contract("tool:apply_diff:success:line-ends")
@pytest.mark.parametrize(
    ("original", "expected"),
    [
        ("a\r\nb\r\nc\r\n", "a\r\nx\r\ny\r\nc\r\n"),
        ("a\nb\nc", "a\nx\ny\nc"),
        ("a\r\nb", "a\r\nx\r\ny"),
        ("a\nb\r\nc\n", "a\nx\r\ny\r\nc\n"),
        ("\ufeffa\nb\n", "\ufeffa\nx\ny\n"),
        ("b", "x\ny"),
    ],
)
def test_line_ends_stay_what_they_are(original: str, expected: str) -> None:
    assert edited(original, block("b", "x\ny")) == expected
    assert edited(original, block("b", "x\ny").replace("\n", "\r\n")) == expected


@pytest.mark.parametrize(
    ("original", "search", "replace", "expected"),
    [
        ("a\r\nb\nc\r\nd\n", "a\nb\nc", "a\nB\nc", "a\r\nB\nc\r\nd\n"),
        ("a\r\nb\nc\r\n", "a\nb\nc", "a\nb\nx\nc", "a\r\nb\nx\nc\r\n"),
        ("a\nb\r\nc", "b\nc", "b\nc\nd", "a\nb\r\nc\r\nd"),
        ("a\nb", "a\nb", "x\nb", "x\nb"),
        ("b", "b", "a\nb", "a\nb"),
    ],
)
def test_lines_that_a_block_only_quotes_keep_their_ends(
    original: str, search: str, replace: str, expected: str
) -> None:
    assert edited(original, block(search, replace)) == expected


@pytest.mark.parametrize(
    ("original", "search", "replace", "expected"),
    [
        ('s = "a  b"\nold\n', 's = "a b"\nold', 's = "a b"\nnew', 's = "a  b"\nnew\n'),
        ("“a”\n1\n“b”\n2\n", '"a"\n1\n"b"\n2', '"a"\n3\n"b"\n4', "“a”\n3\n“b”\n4\n"),
        ("“a”\n\n\nold\n", '"a"\n\nold', '"a"\n\nnew', "“a”\n\n\nnew\n"),
    ],
)
def test_lines_that_a_block_only_quotes_are_not_written_as_it_quotes_them(
    original: str, search: str, replace: str, expected: str
) -> None:
    assert edited(original, block(search, replace)) == expected


@pytest.mark.parametrize(
    ("original", "search", "replace", "expected", "removed"),
    [
        ("a\n\nb\nc\n", "a\nb\nc", "a\nb\nC", "a\n\nb\nC\n", ""),
        ("a\n\nb\nc\n", "a\nb\nc", "A\nb\nc", "A\n\nb\nc\n", ""),
        ("a\n\nb\n", "a\nb", "a\nx\nb", "a\n\nx\nb\n", ""),
        ("a\n\nb\n", "a\nb", "a\n\nB", "a\n\nB\n", ""),
        ("a\n\n\nb\n", "a\n\nb", "a\nB", "a\n\nB\n", ""),
        ("a\n\n\nb\n", "a\nb", "b", "\n\nb\n", ""),
        ("a\n\nb\nc\n", "a\nb\n\nc", "a\nb\n\nC", "a\n\nb\n\nC\n", ""),
        ("a\n\nb\n", "a\nb", "A\nB", "A\nB\n", "; 1 blank line that it lacks was removed"),
        ("a\n\n\nb\n", "a\nb", "X", "X\n", "; 2 blank lines that it lacks were removed"),
    ],
)
def test_blank_lines_that_a_block_does_not_quote_stay_or_are_named(
    original: str, search: str, replace: str, expected: str, removed: str
) -> None:
    result = outcome(original, block(search, replace))
    assert isinstance(result, AppliedBlocks)
    assert result.text == expected
    assert result.notes == (f"SEARCH differed from the file in blank lines{removed}.",)


@pytest.mark.parametrize(
    ("original", "search", "replace", "notes"),
    [
        ("a  b\n", "a b", "c", ("SEARCH differed from the file in white space.",)),
        ("it’s\n", "it's", "is", ("SEARCH differed from the file in typographic characters.",)),
        (
            "it’s  a\n\n“b”\n",
            'it\'s a\n"b"',
            'it\'s a\n"B"',
            ("SEARCH differed from the file in blank lines, white space, typographic characters.",),
        ),
        ("f(a,\nb)\n", "f(a, b)", "f(a)", ("SEARCH differed from the file in line breaks.",)),
        (
            "    a\n",
            "  a",
            "  b",
            ("SEARCH differed from the file in white space; REPLACE was indented like the file.",),
        ),
        ("    a\nb\n", "  a\nb", "  a\nB", ("SEARCH differed from the file in white space.",)),
        ("a\nb\n", "\na\n\n", "A", ()),
        ("a\nb\n", "a", "A", ()),
        ("1 | a\n", "1 | a", "A", ()),
    ],
)
def test_a_block_that_is_not_exact_is_named_with_what_differs(
    original: str, search: str, replace: str, notes: tuple[str, ...]
) -> None:
    result = outcome(original, block(search, replace))
    assert isinstance(result, AppliedBlocks)
    assert result.notes == notes


def test_blocks_that_are_not_exact_are_named_by_number() -> None:
    result = outcome("a\nb  c\n", block("a", "A"), block("b c", "B"))
    assert isinstance(result, AppliedBlocks)
    assert result.notes == ("Block 2: SEARCH differed from the file in white space.",)


ODD = (
    "it’s {}",
    "  a  b {}",
    "\t“{}”",
    "x{}  ",
    "    y\u00a0z {}",
    "\x0c{}",
    "a\u2028{}",
    "a\rb {}",
)


@pytest.mark.contract("edits:bytes")
@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from((*ODD, *ODD, "", "  ", "\t")), min_size=3, max_size=9),
    st.data(),
    st.booleans(),
)
def test_of_lines_quoted_without_their_peculiarities_one_is_changed(
    patterns: list[str], data: st.DataObject, has_line: bool
) -> None:
    lines = [pattern.format(number) for number, pattern in enumerate(patterns)]
    filled = [number for number, line in enumerate(lines) if line.strip()]
    assume(filled)
    first, changed, last = sorted(data.draw(st.sampled_from(filled)) for _ in range(3))
    quoted = [normalize_text(line) for line in lines]
    new = [*quoted[first:changed], "new", *quoted[changed + 1 : last + 1]]
    search, replace = "\n".join(quoted[first : last + 1]), "\n".join(new)
    after = edited("\n".join(lines), block(search, replace, first + 1 if has_line else None))
    assert after.split("\n")[changed].strip() == "new"
    assert after.split("\n")[:changed] == lines[:changed]
    assert after.split("\n")[changed + 1 :] == lines[changed + 1 :]


# What does not fit


@pytest.mark.contract("tool:apply_diff:success:in-part")
def test_a_failure_shows_the_nearest_text_with_its_lines() -> None:
    message = failure(CODE, block("def two():\n    return 3", "x", 5))
    assert message.startswith("No match found at line 5 or elsewhere in the 6 lines of the file.")
    assert "The closest text, lines 5-6, is 94% similar: 1 of 2 lines match." in message
    assert "Search Content:\ndef two():\n    return 3" in message
    assert "Best Match Found:\n1 | def one():\n" in message
    assert message.count("6 |     return 2") == 1


@pytest.mark.contract("tool:apply_diff:success:in-part")
def test_what_fits_is_applied_and_what_does_not_is_reported() -> None:
    result = outcome(CODE, block("nowhere", "x"), block("    return 2", "    return 3"))
    assert isinstance(result, AppliedBlocks)
    assert (result.applied_count, result.total_count, len(result.failures)) == (1, 2, 1)
    assert result.text == CODE.replace("2", "3")


def test_of_many_blocks_that_do_not_fit_only_the_first_are_explained() -> None:
    blocks = [block(f"nowhere {number}", "x") for number in range(9)]
    result = outcome("some words\nand more of them\n", *blocks)
    assert isinstance(result, FailedBlocks)
    assert [bool(failure.evidence) for failure in result.failures] == [True] * 5 + [False] * 4


def test_a_block_that_changes_nothing_fails() -> None:
    assert "identical" in failure(CODE, block("def one():", "def one():"))


@pytest.mark.parametrize("search", ["", "   ", "\n\n"])
def test_a_block_that_searches_nothing_fails(search: str) -> None:
    assert "Empty search" in failure(CODE, block(search, "x"))


def test_a_malformed_diff_changes_nothing() -> None:
    diff = block("def one():", "def uno():") + "\n<<<<<<< SEARCH\ndef two():\n"
    assert isinstance(apply_blocks(CODE, diff, similarity=similarity), FailedBlocks)


def test_nothing_fits_into_an_empty_file() -> None:
    assert "Nothing in it is similar" in failure("", block("a", "b"))


# For all texts

LINE = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=12).filter(
    lambda line: (
        not line.strip().startswith(("<<<<<<<", ">>>>>>>", "=======", ":", "-------", "\\"))
    )
)


@settings(max_examples=200)
@given(
    lines=st.lists(LINE, min_size=1, max_size=20),
    new=st.lists(LINE, max_size=4),
    ends=st.sampled_from(["\n", "\r\n"]),
    final=st.booleans(),
    data=st.data(),
)
def test_a_block_of_the_files_own_lines_replaces_just_them(
    lines: list[str], new: list[str], ends: str, final: bool, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(lines) - 1))
    stop = data.draw(st.integers(start + 1, len(lines)))
    old = lines[start:stop]
    is_numbered = all(line.lstrip()[:1].isdigit() or line.lstrip()[:1] == "|" for line in old)
    if not "".join(old).strip() or new in (old, [""]) or is_numbered:
        return
    if not final and (not lines[-1] or len(lines) == 1):
        return
    original = ends.join(lines) + (ends if final else "")
    search, replace = "\n".join(old), "\n".join(new)
    diff = block(search, replace, start + 1) if new else deletion(search, start + 1)
    result = lines[:start] + new + lines[stop:]
    expected = ends.join(result) + (ends if final and result else "")
    assert edited(original, diff) == expected


def test_the_closest_text_is_where_whole_lines_match() -> None:
    lines = [
        "    with open(url) as response:",
        "        return parse(response.read())",
        "",
        "",
        "def dump(data: Mapping[str, Any], fp: IO[str], *, sort_keys: bool = False) -> None:",
        *(f"    line_{number} = {number}" for number in range(20)),
        "    return Parser(string).parse()",
        "",
        "",
        "def document() -> TOMLDocument:",
    ]
    search = "\n".join([*lines[1:4], "def dump("])
    message = failure("\n".join(lines) + "\n", block(search, "x"))
    assert "The closest text, lines 2-5, is 74% similar: 3 of 4 lines match." in message
    assert "Line 4 of your block is only the beginning of line 5: quote complete lines." in message
    assert "\n8 |     line_2 = 2" in message and "line_3" not in message


def test_of_a_long_block_only_the_lines_that_differ_are_shown() -> None:
    lines = [f"value_{number} = {number}" for number in range(200)]
    text = "\n".join(lines) + "\n"
    search = [*lines[20:110], "value_110 = 0", *lines[111:150]]
    message = failure(text, block("\n".join(search), "x", 21))
    assert "Search Content" not in message
    assert (
        "Best Match Found:\nSEARCH has instead of line 111:\nvalue_110 = 0\nThe file has:\n"
        "109 | value_108 = 108\n110 | value_109 = 109\n111 | value_110 = 110\n"
    ) in message
    assert len(message) < 600


def test_a_line_that_a_long_block_lacks_is_the_only_difference() -> None:
    lines = [f"value_{number} = {number}" for number in range(200)]
    search = [*lines[20:110], *lines[111:150]]
    message = failure("\n".join(lines) + "\n", block("\n".join(search), "x", 21))
    assert "SEARCH has instead of line 111:\n(nothing)\nThe file has:" in message
    assert message.count("SEARCH has") == 1
    search = [*lines[20:110], "more = 1", *lines[110:150]]
    message = failure("\n".join(lines) + "\n", block("\n".join(search), "x", 21))
    assert "SEARCH has before line 111:\nmore = 1\nThe file has:" in message
    assert message.count("SEARCH has") == 1


def test_the_differences_of_a_long_block_are_bounded() -> None:
    lines = [f"value_{number} = {number}{'x' * 3_000}" for number in range(400)]
    search = [line.replace("= ", "= 1") if at % 9 == 0 else line for at, line in enumerate(lines)]
    assert len(failure("\n".join(lines) + "\n", block("\n".join(search), "x"))) < 10_000


# Lines of the file that look like the separator

RST = "Intro\n=======\n\nText.\n\nDiscuss\n=======\n\nJoin us on `chat`.\n"
HEADING, NEW = "Discuss\n=======\n\nJoin us on `chat`.", "Checking\n=======\n\nText.\n\n"


def escaped(text: str) -> str:
    return text.replace("=======", "\\=======")


@pytest.mark.parametrize("line", [None, 6])
@pytest.mark.parametrize(
    ("search", "replace"),
    [
        (HEADING, NEW + HEADING),
        (escaped(HEADING), NEW + HEADING),
        (HEADING, escaped(NEW + HEADING)),
        (escaped(HEADING), escaped(NEW + HEADING)),
        ("Discuss\n=======", "Talk\n======="),
        ("Discuss", escaped(f"{NEW}Discuss")),
        ("Join us on `chat`.", f"Join us on `chat`.\n\n{NEW}"),
    ],
)
def test_the_file_tells_which_line_is_the_separator(
    search: str, replace: str, line: int | None
) -> None:
    plain = (search.replace("\\", ""), replace.replace("\\", ""))
    assert edited(RST, block(search, replace, line)) == RST.replace(*plain)


@pytest.mark.parametrize(
    ("search", "replace"),
    [
        ("Discuss\n=======\n\nJoin us", f"{NEW}Discuss\n=======\n\nJoin us"),
        ("Discuss\n=======\n\nJoin us\n\\=======\nChecking", "x"),
        ("nowhere", "Title\n=======\n"),
        ("Text.", "=======\nMore."),
        ("Text.", "More.\n======="),
        ("Text.", "More.\n\n=======\nText."),
    ],
)
def test_a_separator_that_the_file_does_not_tell_is_asked_for(search: str, replace: str) -> None:
    message = failure(RST, block(search, replace, 6))
    assert "It is not clear which of these lines of the diff separates SEARCH" in message
    assert "put a backslash in front of every other one (`\\=======`)" in message


@pytest.mark.parametrize("text", [RST, RST.replace("Disc", "  Disc"), f"Discuss\n\n{RST}"])
def test_a_block_with_the_wrong_line_escaped_is_not_applied(text: str) -> None:
    diff = (
        "<<<<<<< SEARCH\n:start_line:6\n-------\nDiscuss\n=======\n\nJoin us\n\\=======\nChecking\n"
        "========\n\nDiscuss\n\\=======\n\nJoin us\n>>>>>>> REPLACE"
    )
    assert (
        "line 5: `=======` after `Discuss`\nline 8: `\\=======` after `Join us`\n"
        "line 13: `\\=======` after `Discuss`\n"
    ) in failure(text, diff)
