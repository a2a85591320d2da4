from __future__ import annotations

import pytest
from rapidfuzz.distance import Levenshtein

from joey.core.edits.line_document import ChangedLines, Document, LineSpan
from joey.core.edits.similar import EditFailure, find_most_similar, format_changed_lines
from joey.core.edits.text_replace import NormalizedText, explain_not_found, explain_wrong_count
from tests.harness.bounded import run_bounded


def similarity(one: str, other: str) -> float:
    return Levenshtein.normalized_similarity(one, other)


def miss(text: str, wanted: str, new: str = "") -> EditFailure:
    return explain_not_found(NormalizedText(text), wanted, new, similarity)


CODE = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"


@pytest.mark.parametrize(
    ("wanted", "reason", "shown"),
    [
        ("def  two():\n  return 2", "with other white space are at line 5.", "5 | def two():"),
        ("def two():\n    return 3", "lines 5-6, is 94% alike.", "6 |     return 2"),
        ("something else entirely", "Nothing in the file is much like it.", ""),
        ("5 | def tow():\n6 |     return 2", "has line numbers", "5 | def two():"),
    ],
)
def test_a_miss_tells_what_is_there(wanted: str, reason: str, shown: str) -> None:
    failure = miss(CODE, wanted)
    assert reason in failure.summary
    assert shown in failure.evidence
    assert "return 2" not in failure.summary


def test_a_difference_in_typography_is_named() -> None:
    assert "quotes, dashes" in miss("say(\u201chi\u201d)\n", 'say("hi")').summary


def test_a_change_that_was_made_before_is_recognised() -> None:
    summary = miss(CODE, "return one", "    return 1").summary
    assert "The new text is there already, at line 2" in summary


@pytest.mark.parametrize(
    ("old", "new"), [("alpha\nbeta\n", "alpha\n"), ("zeta", "a"), ("one two", "alpha")]
)
def test_a_new_text_that_may_be_there_for_other_reasons_is_not_pointed_at(
    old: str, new: str
) -> None:
    summary = miss("alpha\ngamma\nalpha\nalpha\nalpha\n", old, new).summary
    assert "there already" not in summary


def test_every_place_of_a_text_is_named_and_the_first_are_shown() -> None:
    text = NormalizedText("x\n" + "same\n" * 20)
    failure = explain_wrong_count(text, text.find("same"))
    lines = "2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 10 more"
    assert failure.summary == f"It is there 20 times, at lines {lines}."
    assert failure.evidence.startswith("1 | x\n2 | same\n3 | same\n4 | same\n")
    assert failure.evidence.count("same") == 6


def source(count: int) -> list[str]:
    return [f"    value_{n} = compute(first_{n}, {n % 7})" if n % 3 else "" for n in range(count)]


@pytest.mark.parametrize("place", [0, 5_000, 9_980])
def test_a_place_without_a_line_in_common_is_found_by_its_text(place: int) -> None:
    lines = source(10_000)
    wanted = [line.replace("compute(", "calculate( ") for line in lines[place : place + 15]]
    document = Document("\n".join(lines))
    best = find_most_similar(document, wanted, LineSpan(0, 10_000), similarity, lambda start: start)
    assert best is not None
    assert best.span == LineSpan(place, place + 15)
    assert 0.7 < best.score < 1


def test_a_long_search_is_compared_by_its_lines() -> None:
    lines = source(9_000)
    wanted = lines[1_000:8_000]
    wanted[500:600] = ["something else"] * 100
    document = Document("\n".join(lines))
    best = find_most_similar(document, wanted, LineSpan(0, 9_000), similarity, lambda start: start)
    assert best is not None
    assert best.span == LineSpan(1_000, 8_000)
    assert 0.9 < best.score < 1


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("'x y\\n' * 100_000", "'x z\\n' * 50_000"),
        ("'a b c d ' * 200_000", "'a b c e ' * 100_000"),
        ("''.join(f'w{n % 50} }}\\n' for n in range(200_000))", "'w1 w2 w3 q\\n' * 100"),
    ],
)
def test_no_text_takes_for_ever_to_explain(text: str, wanted: str) -> None:
    run_bounded(
        "from rapidfuzz.distance import Levenshtein\n"
        "from joey.core.edits.text_replace import NormalizedText\n"
        "from joey.core.edits.text_replace import explain_not_found\n"
        f"text, wanted = {text}, {wanted}\n"
        "explain_not_found(NormalizedText(text), wanted, 'x', Levenshtein.normalized_similarity)"
    )


def test_changed_lines_are_named_in_the_order_of_the_file() -> None:
    places = [(10, 11, 1), (18, 18, 2), (30, 30, 1), (52, 60, 8), (61, 67, 1)]
    assert format_changed_lines([ChangedLines(*place) for place in places]) == (
        "line 11, 2 lines removed after line 18, 1 line removed after line 30, lines 53-60, 62-67"
    )
