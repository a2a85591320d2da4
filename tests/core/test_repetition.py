from __future__ import annotations

from typing import Any

import pytest

from joey.engine.limits import RepeatedCallDetector, RepeatedRoundDetector, RepetitionVerdict


def verdicts(
    limit: int,
    calls: list[tuple[str, dict[str, Any]]],
    results: str | None = None,
    busy: str | None = None,
) -> list[bool]:
    """Whether each call is stopped. `results`: what each one gets, a letter for each; `busy`: `x`
    while a background command runs."""
    repetition = RepeatedCallDetector(limit)
    stops: list[bool] = []
    for number, (name, arguments) in enumerate(calls):
        is_busy = busy is not None and busy[number] == "x"
        verdict = repetition.check_call(str(number), name, arguments, is_busy=is_busy)
        stops.append(verdict is not RepetitionVerdict.ALLOW)
        result = "same" if results is None else results[number]
        repetition.compare_results({str(number): result}.get, is_busy=is_busy)
    return stops


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


SAME: list[tuple[str, dict[str, Any]]] = [("read_file", {"path": "a"})]


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ("abcdefgh", [False] * 8),
        ("aaaaaaaa", [False, False, False, True] * 2),
        ("aabaabaa", [False] * 8),
        ("aabbbb--", [False] * 5 + [True, False, False]),
    ],
)
def test_only_calls_with_the_same_result_are_repetitions(
    results: str, expected: list[bool]
) -> None:
    assert verdicts(3, SAME * 8, results) == expected


def test_calls_made_while_a_background_command_runs_are_no_repetitions() -> None:
    assert verdicts(2, SAME * 8, busy="xxxxx---") == [False] * 6 + [True, False]
    assert verdicts(2, SAME * 4, busy="--x-") == [False, False, False, True]


def test_a_second_stop_with_the_same_result_is_distinguished() -> None:
    repetition = RepeatedCallDetector(1)

    def call(name: str, result: str) -> RepetitionVerdict:
        verdict = repetition.check_call("id", name, {}, is_busy=False)
        repetition.compare_results({"id": result}.get, is_busy=False)
        return verdict

    assert [call("a", "x") for _ in range(4)] == [
        *(RepetitionVerdict.ALLOW, RepetitionVerdict.STOP),
        *(RepetitionVerdict.ALLOW, RepetitionVerdict.STOP_AGAIN),
    ]
    assert [call("b", "x") for _ in range(2)] == [RepetitionVerdict.ALLOW, RepetitionVerdict.STOP]
    assert [call("a", "y") for _ in range(2)] == [RepetitionVerdict.ALLOW, RepetitionVerdict.STOP]
    assert [call("a", "x") for _ in range(2)] == [
        RepetitionVerdict.ALLOW,
        RepetitionVerdict.STOP_AGAIN,
    ]


def test_calls_side_by_side_are_compared_once_all_before_them_have_results() -> None:
    repetition = RepeatedCallDetector(2)
    results: dict[str, str] = {}
    for id in "abc":
        assert repetition.check_call(id, "t", {}, is_busy=False) is RepetitionVerdict.ALLOW
    results["c"] = "same"
    repetition.compare_results(results.get, is_busy=False)
    assert repetition.check_call("d", "t", {}, is_busy=False) is RepetitionVerdict.ALLOW
    results |= {"a": "same", "b": "same"}
    repetition.compare_results(results.get, is_busy=False)
    repetition.discard_pending()
    assert repetition.check_call("e", "t", {}, is_busy=False) is RepetitionVerdict.STOP


def rounds_of(limit: int, *rounds: str) -> bool:
    """Whether so many rounds of calls, each a letter, are too many alike."""
    seen = RepeatedRoundDetector(limit)
    for number, calls in enumerate(rounds):
        seen.start_round_if_new_summary(f"summary {number}")
        for name in calls:
            seen.record_call(name, {})
    seen.start_round_if_new_summary("the last")
    return seen.is_limit_reached


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
    seen = RepeatedRoundDetector(1)
    for _ in range(9):
        seen.start_round_if_new_summary("the only one")
        seen.record_call("a", {})
    assert not seen.is_limit_reached
