from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from joey.execution.command import OutputBuffer

NOTE = re.compile(r"\n\[\.\.\.(\d+) bytes omitted\.\.\.\]\n")

texts = st.text(alphabet=st.sampled_from("ab\né€😀"), max_size=120)
cuts = st.lists(st.integers(0, 600), max_size=6)


def pieces(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def filled(chunks: list[bytes], head: int = 32, tail: int = 48) -> OutputBuffer:
    buffer = OutputBuffer(head=head, tail=tail)
    for chunk in chunks:
        buffer.feed(chunk)
    return buffer


def test_output_of_exactly_the_budget_is_shown_whole() -> None:
    assert filled([b"x" * 20]).render_truncated(20) == "x" * 20


def test_one_byte_more_than_the_budget_shows_both_halves_around_a_note() -> None:
    assert filled([b"0123456789x"]).render_truncated(10) == "01234\n[...1 bytes omitted...]\n6789x"


def test_one_huge_chunk_and_many_small_ones_look_the_same() -> None:
    data = bytes(range(65, 91)) * 40
    assert filled([data]).render_truncated(30) == filled(
        [bytes([b]) for b in data]
    ).render_truncated(30)


def test_no_more_than_head_and_twice_the_tail_is_held() -> None:
    buffer = OutputBuffer(head=10, tail=20)
    for _ in range(1000):
        buffer.feed(b"abcdefg")
    assert buffer.total_bytes == 7000
    assert len(buffer._head) == 10
    assert len(buffer._tail) <= 40


def test_a_chunk_larger_than_the_tail_leaves_no_hole_in_it() -> None:
    data = bytes(range(256))
    buffer = filled([data[:33], data[33:]], head=32, tail=48)
    assert buffer.render_truncated(200).endswith(data[-48:].decode(errors="replace"))
    assert f"[...{256 - 32 - 48} bytes omitted...]" in buffer.render_truncated(200)


def test_new_output_waits_for_the_rest_of_a_character() -> None:
    buffer = filled([b"a\xe2\x82"])
    assert buffer.read_new_text(100) == "a"
    buffer.feed(b"\xac")
    assert buffer.read_new_text(100) == "€"


def test_an_incomplete_character_is_shown_when_nothing_more_can_come() -> None:
    buffer = filled([b"a\xe2\x82"])
    buffer.is_closed = True
    assert buffer.read_new_text(100) == "a\ufffd"


def test_new_output_that_was_lost_meanwhile_is_counted() -> None:
    buffer = filled([b"start"], head=8, tail=16)
    assert buffer.read_new_text(100) == "start"
    buffer.feed(b"x" * 100 + b"the end")
    text = buffer.read_new_text(100)
    assert text.endswith("the end")
    assert (note := NOTE.search(text))
    assert len(NOTE.sub("", text)) + int(note[1]) == 107


@given(texts, cuts, st.integers(2, 400))
@example(text="a" * 13 + "éé" + "€" * 11 + "😀" * 8, places=[33], budget=97)
@settings(max_examples=200)
def test_preview_is_the_text_or_its_two_ends_whatever_the_chunks(
    text: str, places: list[int], budget: int
) -> None:
    data = text.encode()
    buffer = filled(pieces(data, places))
    shown = buffer.render_truncated(budget)
    if len(data) <= min(budget, 80):
        assert shown == text
        return
    if (note := NOTE.search(shown)) is None:
        assert shown == text
        return
    head, tail = shown[: note.start()], shown[note.end() :]
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head.encode()) + int(note[1]) + len(tail.encode()) == len(data)
    assert len(head.encode()) <= budget // 2
    assert len(tail.encode()) <= budget - budget // 2


@given(texts, cuts)
@settings(max_examples=200)
def test_new_output_taken_after_every_chunk_adds_up_to_the_text(
    text: str, places: list[int]
) -> None:
    buffer = OutputBuffer(head=16, tail=1000)
    taken = ""
    for chunk in pieces(text.encode(), places):
        buffer.feed(chunk)
        taken += buffer.read_new_text(10_000)
    assert taken == text
    assert buffer.read_new_text(10_000) == ""


@given(st.lists(st.binary(max_size=60), max_size=8), st.integers(0, 300))
@settings(max_examples=200)
def test_any_bytes_give_text_and_a_true_count(chunks: list[bytes], budget: int) -> None:
    buffer = filled(chunks)
    assert buffer.total_bytes == sum(map(len, chunks))
    assert isinstance(buffer.render_truncated(budget), str)
    assert isinstance(buffer.read_new_text(budget), str)


@pytest.mark.parametrize("budget", [0, 1])
def test_a_budget_too_small_for_anything_still_counts_everything(budget: int) -> None:
    assert "bytes omitted" in filled([b"abc"]).render_truncated(budget)
