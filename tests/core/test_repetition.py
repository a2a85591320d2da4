from __future__ import annotations

from typing import Any

import pytest

from joey.core.repetition import Repetition


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
