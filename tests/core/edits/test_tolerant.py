from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joey.core.edits import text_replace
from joey.core.edits.text_replace import WordSearch
from joey.errors import ToolError
from tests.harness.bounded import run_bounded


def found(flat: str, wanted: str) -> list[str]:
    return [flat[place.start : place.stop] for place, _ in WordSearch(flat).find(wanted)]


def on_lines(flat: str, wanted: str) -> list[bool]:
    return [match.has_same_line_breaks for match in WordSearch(flat).find(wanted)]


@pytest.mark.parametrize(
    ("flat", "wanted", "places", "spaced"),
    [
        ("if  a ==\tb:\n", "if a == b:", ["if  a ==\tb:"], [True]),
        ("f(\n    a,\n    b)\n", "f(\n  a,\n  b)", ["f(\n    a,\n    b)"], [True]),
        ("f(a,\n  b)\n", "f(a, b)", ["f(a,\n  b)"], [False]),
        ("f(a, b)\n", "f(a,\nb)", ["f(a, b)"], [True]),
        ("x\n\ty\nz", " y", ["\ty"], [True]),
        ("x\ny\nz", " y", ["y"], [False]),
        ("a  b a\tb", "a b", ["a  b", "a\tb"], [True, True]),
        ("nothing", "some thing", [], []),
        ("a b", " \n ", [], []),
        ("", "a", [], []),
    ],
)
def test_terms_are_found_whatever_is_between_them(
    flat: str, wanted: str, places: list[str], spaced: list[bool]
) -> None:
    assert found(flat, wanted) == places
    assert on_lines(flat, wanted) == spaced


@pytest.mark.parametrize(
    ("flat", "wanted", "place"),
    [
        ("a (b)\n\n\n    c\n", "a  (b)\n", "a (b)\n"),
        ("a (b)  \n\n    c\n", "a  (b)\n\n", "a (b)  \n\n"),
        ("a (b)\n    c\n", "a  (b)\n  ", "a (b)\n    "),
        ("x\n\n    a (b)", "\n  a  (b)", "\n    a (b)"),
        ("x  \n    a (b)", "\n  a  (b)", "\n    a (b)"),
        ("x  \n    a (b)", " \n  a  (b)", "  \n    a (b)"),
        ("    a (b)", "\na  (b)", "    a (b)"),
    ],
)
def test_no_more_white_space_is_taken_than_was_asked_for(
    flat: str, wanted: str, place: str
) -> None:
    assert found(flat, wanted) == [place]


@settings(max_examples=200)
@given(
    terms=st.lists(st.text("ab(", min_size=1, max_size=3), min_size=1, max_size=6),
    gaps=st.lists(st.text(" \t\n", min_size=1, max_size=3), min_size=7, max_size=7),
    others=st.lists(st.text(" \t\n", min_size=1, max_size=3), min_size=7, max_size=7),
)
def test_every_place_has_the_same_terms(
    terms: list[str], gaps: list[str], others: list[str]
) -> None:
    def join(spaces: list[str]) -> str:
        return "".join(word + gap for word, gap in zip(terms, spaces, strict=False))

    flat, wanted = "{" + join(gaps) + "}", join(others)
    places = found(flat, wanted)
    assert len(places) >= 1
    assert all(place.split() == wanted.split() for place in places)


def test_many_equal_terms_do_not_take_for_ever() -> None:
    run_bounded(
        "from joey.core.edits.text_replace import WordSearch\n"
        "search = WordSearch('a  ' * 300_000 + 'b')\n"
        "assert len(search.find('a ' * 100_000 + 'b')) == 1\n"
        "assert search.find('a ' * 100_000 + 'c') == []"
    )


def test_terms_that_are_everywhere_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_replace, "MAX_MATCHES", 1000)
    with pytest.raises(ToolError, match="more than 1000 times"):
        WordSearch("a b " * 1001).find("a  b")
