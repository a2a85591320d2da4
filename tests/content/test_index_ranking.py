from __future__ import annotations

import pytest

from joey.content.code_index_store import (
    MAX_HIT_CHARS,
    MAX_HIT_LINES,
    MAX_HITS_PER_FILE,
    MIN_SCORE,
    FoundPassage,
    PassageMatch,
    combine_scores,
    merge_hits,
)


def found(path: str, start: int, end: int, score: float = 1.0) -> FoundPassage:
    text = "\n".join(f"{path}:{number}" for number in range(start, end + 1))
    return FoundPassage(path, start, end, text, score)


@pytest.mark.contract("index:search")
@pytest.mark.parametrize(
    ("first", "second"), [((1, 40), (36, 80)), ((36, 80), (1, 40)), ((1, 40), (10, 20))]
)
def test_passages_that_overlap_are_one_hit(first: tuple[int, int], second: tuple[int, int]) -> None:
    (hit,) = merge_hits([found("a", *first, 0.9), found("a", *second, 0.5)], 10)
    assert (hit.start_line, hit.end_line) == (min(first[0], second[0]), max(first[1], second[1]))
    assert hit.text == found("a", hit.start_line, hit.end_line).text
    assert hit.score == 0.9


def test_empty_lines_between_neighbours_are_kept() -> None:
    (hit,) = merge_hits([found("a", 1, 2), found("a", 5, 6)], 10)
    assert hit.text == "a:1\na:2\n\n\na:5\na:6"


def test_hits_do_not_grow_without_end() -> None:
    hits = merge_hits([found("a", start, start + 59) for start in range(1, 600, 60)], 10)
    assert all(hit.end_line - hit.start_line < MAX_HIT_LINES for hit in hits)


def test_long_lines_do_not_make_a_hit_that_nobody_wants_to_read() -> None:
    long = [
        FoundPassage("a", start, start + 9, "\n".join(["x" * 500] * 10), 1.0)
        for start in (1, 11, 21)
    ]
    assert max(len(hit.text) for hit in merge_hits(long, 10)) <= MAX_HIT_CHARS


@pytest.mark.contract("index:search")
def test_no_file_fills_the_list() -> None:
    many = [found("a", start, start + 5) for start in range(1, 1000, 50)]
    hits = merge_hits([*many, found("b", 1, 5, 0.5)], 10)
    assert [hit.path for hit in hits] == ["a"] * MAX_HITS_PER_FILE + ["b"]


def test_the_list_is_as_long_as_wanted_and_what_hardly_fits_is_left_out() -> None:
    assert len(merge_hits([found(f"f{n}", 1, 5) for n in range(20)], 7)) == 7
    assert merge_hits([found("a", 1, 5, MIN_SCORE / 2)], 7) == []


@pytest.mark.contract("index:search")
def test_meaning_and_text_count_together() -> None:
    text_matches = [PassageMatch(1, 1.0), PassageMatch(2, 0.6), PassageMatch(3, 0.5)]
    matches = combine_scores(text_matches, {1: 0.1, 2: 0.8, 4: 0.8})
    assert [match.passage_id for match in matches] == [2, 4, 3, 1]
    assert all(0 <= match.score <= 1 for match in matches)


def test_without_meanings_the_text_decides() -> None:
    assert combine_scores([PassageMatch(1, 1.0), PassageMatch(2, 0.4)], {}) == [
        PassageMatch(1, 1.0),
        PassageMatch(2, 0.4),
    ]
