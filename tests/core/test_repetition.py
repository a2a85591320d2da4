from __future__ import annotations

from typing import Any

import pytest

from joey.core.repetition import Repetition, Rounds


def verdicts(limit: int, calls: list[tuple[str, dict[str, Any]]]) -> list[bool]:
    repetition = Repetition(limit)
    return [repetition.repeats(name, arguments) for name, arguments in calls]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (3, [False, False, False, True]),
        (2, [False, False, True, False]),
        (1, [False, True, False, True]),
        (0, [False] * 4),
        (-1, [False] * 4),
    ],
)
def test_the_call_after_as_many_repeats_as_the_limit_is_blocked(
    limit: int, expected: list[bool]
) -> None:
    assert verdicts(limit, [("read_file", {"path": "a"})] * 4) == expected


def test_after_blocking_the_count_begins_anew() -> None:
    calls = [("read_file", {"path": "a"})] * 8
    assert verdicts(3, calls) == [False, False, False, True] * 2


def test_the_order_of_keys_does_not_matter_at_any_depth() -> None:
    one = {"path": "a", "options": {"x": 1, "y": [1, 2]}}
    other = {"options": {"y": [1, 2], "x": 1}, "path": "a"}
    assert verdicts(1, [("t", one), ("t", other)]) == [False, True]


@pytest.mark.parametrize(
    "between",
    [("read_file", {"path": "b"}), ("list_files", {"path": "a"}), ("read_file", {"path": ["a"]})],
)
def test_a_different_call_in_between_resets_the_count(between: tuple[str, dict[str, Any]]) -> None:
    same = ("read_file", {"path": "a"})
    assert verdicts(2, [same, same, between, same, same, same]) == [False] * 5 + [True]


def test_items_of_a_list_in_another_order_are_another_call() -> None:
    assert verdicts(1, [("t", {"x": [1, 2]}), ("t", {"x": [2, 1]})]) == [False, False]


def rounds_of(limit: int, *rounds: str) -> bool:
    """Whether so many rounds of calls, each a letter, are too many alike."""
    seen = Rounds(limit)
    for number, calls in enumerate(rounds):
        seen.after(f"summary {number}")
        for name in calls:
            seen.called(name, {})
    seen.after("the last")
    return seen.too_many


@pytest.mark.parametrize(
    ("limit", "rounds", "expected"),
    [
        (3, ["ab", "ab", "ab", "ab"], True),
        (3, ["ab", "ab", "ab"], False),
        (3, ["abc", "ab", "abcd", "ab"], True),
        (3, ["ab", "ca", "bc", "ab", "ca", "bc"], False),
        (3, ["ab", "ab", "ab", "ac", "ab", "ab"], False),
        (0, ["ab"] * 9, False),
    ],
)
def test_rounds_alike_between_summaries_are_too_many(
    limit: int, rounds: list[str], expected: bool
) -> None:
    assert rounds_of(limit, *rounds) is expected


def test_calls_after_the_same_summary_are_one_round() -> None:
    seen = Rounds(1)
    for _ in range(9):
        seen.after("the only one")
        seen.called("a", {})
    assert not seen.too_many
