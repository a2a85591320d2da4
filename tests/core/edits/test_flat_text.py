from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joey.core.edits import text_replace
from joey.core.edits.text_replace import CharSpan, NormalizedText
from joey.errors import ToolError
from tests.harness.bounded import run_bounded

TEXT = st.lists(st.sampled_from(["a", "b", "ab", "\n", "\r\n", "\r", " "]), max_size=30).map(
    "".join
)


def replaced(text: str, old: str, new: str) -> str:
    flat = NormalizedText(text)
    return flat.replace(flat.find(old), new)


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n"),
        ("a\nb\nc\n", "a\r\nb", "x\r\ny", "x\ny\nc\n"),
        ("a\r\nb\nc\n", "a\nb\nc", "a\nB\nc", "a\r\nB\nc\n"),
        ("a\nb\r\nc", "c", "x\ny", "a\nb\r\nx\r\ny"),
        ("a\r\nb", "\nb", "", "a"),
        ("a\r\n\r\nb", "\n", "", "ab"),
        ("one", "one", "a\r\nb", "a\r\nb"),
        ("a\rb\n", "a\rb", "c", "c\n"),
        ("a\r\r\nb", "\nb", "c", "a\rc"),
        ("a$1\n", "$1", "$& \\1", "a$& \\1\n"),
    ],
)
def test_new_lines_end_as_the_place_does(text: str, old: str, new: str, expected: str) -> None:
    assert replaced(text, old, new) == expected


def test_places_do_not_overlap() -> None:
    assert NormalizedText("aaaaa").find("aa") == [CharSpan(0, 2), CharSpan(2, 4)]
    assert NormalizedText("aaa").find("") == []


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (None, None, "one\ntwo\nthree\n"),
        (2, 2, "two"),
        (2, None, "two\nthree\n"),
        (None, 2, "one\ntwo"),
        (3, 99, "three\n"),
        (99, None, ""),
        (3, 1, ""),
        (0, 1, "one"),
    ],
)
def test_lines_are_counted_from_one(first: int | None, last: int | None, expected: str) -> None:
    text = NormalizedText("one\r\ntwo\r\nthree\r\n")
    start, stop = text.get_normalized_line_span(first, last)
    assert text.normalized_text[start:stop] == expected


def test_a_replacement_that_would_grow_without_bounds_is_refused() -> None:
    flat = NormalizedText("a" * 10_000)
    with pytest.raises(ToolError, match="longer than 64 MB"):
        flat.replace(flat.find("a"), "x" * 10_000)


@settings(max_examples=200)
@given(text=TEXT, old=TEXT, new=TEXT)
def test_what_is_outside_of_the_places_keeps_its_bytes(text: str, old: str, new: str) -> None:
    flat = NormalizedText(text)
    places = flat.find(old)
    wanted = old.replace("\r\n", "\n")
    assert len(places) == (flat.normalized_text.count(wanted) if wanted else 0)
    result = flat.replace(places, new)
    flat_new = new.replace("\r\n", "\n") if "\n" in text else new
    if "\r" not in flat_new + flat.normalized_text:
        assert (
            NormalizedText(result).normalized_text
            == NormalizedText(
                flat.normalized_text.replace(wanted, new) if wanted else text
            ).normalized_text
        )
    if not places:
        assert result == text
    else:
        head, tail = (
            flat._to_original_position(places[0].start),
            len(text) - flat._to_original_position(places[-1].stop),
        )
        assert result.startswith(text[:head])
        assert result.endswith(text[len(text) - tail :])


def test_many_places_in_one_line_do_not_take_for_ever() -> None:
    run_bounded(
        "from joey.core.edits.text_replace import NormalizedText\n"
        "text = NormalizedText('abcd,' * 400_000)\n"
        "assert text.replace(text.find(','), ';\\n') == 'abcd;\\n' * 400_000\n"
    )


def test_a_text_that_is_everywhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert text_replace.MAX_MATCHES == 1_000_000
    monkeypatch.setattr(text_replace, "MAX_MATCHES", 1000)
    with pytest.raises(ToolError, match="more than 1000 times"):
        NormalizedText("a" * 1001).find("a")
    assert len(NormalizedText("a" * 1000).find("a")) == 1000
