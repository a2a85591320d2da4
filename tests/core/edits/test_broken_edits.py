from __future__ import annotations

import pytest

from joey.core.edits.flat_text import FlatText
from joey.core.edits.misses import explain_miss
from joey.core.edits.replacement import Miscounted, Replaced, replace_text
from joey.core.edits.search_replace import Applied, Failed
from joey.core.edits.tolerant import WordSearch
from joey.errors import ToolError
from tests.bounded import run_bounded
from tests.core.edits.test_search_replace import block, edited, outcome, similarity


@pytest.mark.parametrize(
    ("original", "search", "replace", "expected"),
    [
        ('s = "a  b"\nold\n', 's = "a b"\nold', 's = "a b"\nnew', 's = "a  b"\nnew\n'),
        ("# it’s\nold\n", "# it's\nold", "# it's\nnew", "# it’s\nnew\n"),
        ("a  \n\t\nold\nb\u00a0c\n", "a\n\nold\nb c", "a\n\nnew\nb c", "a  \n\t\nnew\nb\u00a0c\n"),
        ("“a”\n1\n“b”\n2\n", '"a"\n1\n"b"\n2', '"a"\n3\n"b"\n4', "“a”\n3\n“b”\n4\n"),
        ("“a”\n\n\nold\n", '"a"\n\nold', '"a"\n\nnew', "“a”\n\nnew\n"),
    ],
)
def test_lines_that_a_block_only_quotes_keep_their_bytes(
    original: str, search: str, replace: str, expected: str
) -> None:
    assert edited(original, block(search, replace)) == expected


@pytest.mark.parametrize(
    ("original", "search", "replace", "expected"),
    [
        ("    # it’s\n", "    # it's", "\tx", "\tx\n"),
        ("if x:\n    a()\n", "if x:\n  a()", "if x:\n  a()\n  b()", "if x:\n    a()\n    b()\n"),
    ],
)
def test_new_lines_are_indented_as_the_place_is2(
    original: str, search: str, replace: str, expected: str
) -> None:
    assert edited(original, block(search, replace)) == expected


@pytest.mark.parametrize("line", [None, 2])
def test_a_block_that_is_written_twice_is_applied_once(line: int | None) -> None:
    twice = [block("foo", "foo\nbar", line)] * 2
    result = outcome("a\nfoo\nb\n", *twice)
    assert isinstance(result, Applied)
    assert result.text == "a\nfoo\nbar\nb\n"
    told = [failure.summary for failure in result.failures]
    again = "The same block is in the diff more often than its text was in the file"
    assert told == ([] if line else [f"{again}, where it was changed once."])


def test_a_block_that_is_written_for_each_of_two_places_changes_both() -> None:
    twice = [block("foo", "foo\nbar")] * 2
    assert edited("foo\na\nfoo\n", *twice) == "foo\nbar\na\nfoo\nbar\n"


def test_bars_of_new_lines_are_not_taken_for_line_numbers() -> None:
    rows = "| a | b |\n| c | d |"
    assert edited("text\nmore\n", block("1 | text\n2 | more", rows)) == f"{rows}\n"


def test_of_many_blocks_that_do_not_fit_only_the_first_are_explained() -> None:
    blocks = [block(f"nowhere {number}", "x") for number in range(9)]
    result = outcome("some words\nand more of them\n", *blocks)
    assert isinstance(result, Failed)
    assert len(result.failures) == 9
    assert [bool(failure.evidence) for failure in result.failures] == [True] * 5 + [False] * 4


def test_a_rule_that_the_new_lines_have_too_belongs_to_the_file() -> None:
    text = "Title\n-------\nold\n"
    assert edited(text, block("-------\nold", "-------\nnew")) == "Title\n-------\nnew\n"


@pytest.mark.parametrize(
    ("text", "old"), [("}\n}\n}\n", "}\n}"), ("aXaXa", "aXa"), ("}\r\n}\r\n}\r\n", "}\n}")]
)
def test_a_text_that_overlaps_itself_is_there_more_than_once(text: str, old: str) -> None:
    outcome = replace_text(FlatText(text), old, "new", tolerant=True)
    assert isinstance(outcome, Miscounted)
    assert len(outcome.places) == 2
    assert isinstance(replace_text(FlatText(text), old, "new", expected=None), Replaced)


def test_a_text_that_is_there_too_often_is_not_looked_for_with_other_white_space() -> None:
    text = FlatText("a\u00a0b\na\u00a0b\na b\n")
    outcome = replace_text(text, "a\u00a0b", "X", tolerant=True)
    assert isinstance(outcome, Miscounted)
    assert len(outcome.places) == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [("alpha\nbeta\n", "alpha\n"), ("zeta", "a"), ("one two", "alpha")],
)
def test_a_new_text_that_may_be_there_for_other_reasons_is_not_pointed_at(
    old: str, new: str
) -> None:
    text = FlatText("alpha\ngamma\nalpha\nalpha\nalpha\n")
    assert "there already" not in explain_miss(text, old, new, similarity).summary


def test_many_places_in_one_line_do_not_take_for_ever() -> None:
    run_bounded(
        "from joey.core.edits.flat_text import FlatText\n"
        "text = FlatText('abcd,' * 400_000)\n"
        "new = text.replace(text.find(','), ';\\n')\n"
        "assert new == 'abcd;\\n' * 400_000\n"
    )


def test_a_text_that_is_everywhere_is_refused() -> None:
    with pytest.raises(ToolError, match="more than 1000000 times"):
        FlatText("a" * 1_000_001).find("a")
    with pytest.raises(ToolError, match="more than 1000000 times"):
        WordSearch("a b " * 1_000_001).find("a  b")
