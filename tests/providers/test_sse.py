from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.providers.sse import ServerSentEvent, SseReader

STREAM = (
    'event: message_start\ndata: {"a": 1}\n\n'
    ": a comment\n\n"
    "data: plain\n\n"
    "data:no space\n\n"
    "data: größer 🦘\n\n"
    "id: 7\nretry: 10\nevent: odd\ndata: one\ndata: two\ndata\n\n"
    "event: nothing to say\n\n"
    "\n\ndata: after blank lines\n\n"
    "data: [DONE]\n\n"
)
EVENTS = [
    ServerSentEvent("message_start", b'{"a": 1}'),
    ServerSentEvent("", b"plain"),
    ServerSentEvent("", b"no space"),
    ServerSentEvent("", "größer 🦘".encode()),
    ServerSentEvent("odd", b"one\ntwo\n"),
    ServerSentEvent("", b"after blank lines"),
    ServerSentEvent("", b"[DONE]"),
]
ENDINGS = ["\n", "\r\n", "\r"]


def read(pieces: list[bytes]) -> list[ServerSentEvent]:
    reader = SseReader()
    return [event for piece in pieces for event in reader.feed(piece)]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_stream_is_read_with_any_line_ending_and_a_byte_order_mark(
    ending: str, mark: bytes
) -> None:
    assert read([mark + STREAM.replace("\n", ending).encode()]) == EVENTS


@pytest.mark.contract("services:streams")
@pytest.mark.parametrize("ending", ENDINGS)
def test_every_single_split_gives_the_same_events(ending: str) -> None:
    data = b"\xef\xbb\xbf" + STREAM.replace("\n", ending).encode()
    for place in range(len(data) + 1):
        assert read([data[:place], data[place:]]) == EVENTS
    assert read([bytes([byte]) for byte in data]) == EVENTS


texts = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1)


@given(
    st.lists(st.lists(texts, min_size=1, max_size=4), max_size=6),
    st.lists(st.integers(0, 10_000), max_size=10),
    st.lists(st.sampled_from(ENDINGS), min_size=1, max_size=7),
)
def test_whatever_is_written_is_read_however_it_is_split(
    blocks: list[list[str]], places: list[int], endings: list[str]
) -> None:
    """The line endings change from event to event."""
    data = b""
    for number, lines in enumerate(blocks):
        ending = endings[number % len(endings)]
        data += ("".join(f"data: {line}{ending}" for line in lines) + ending).encode()
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    pieces = [data[start:end] for start, end in itertools.pairwise(edges)]
    assert [event.data for event in read(pieces)] == ["\n".join(x).encode() for x in blocks]


@given(st.lists(st.binary(max_size=40), max_size=12))
def test_arbitrary_bytes_give_the_same_events_whole_and_in_pieces(pieces: list[bytes]) -> None:
    assert read(pieces) == read([b"".join(pieces)])


def test_an_event_without_its_blank_line_is_not_one_yet() -> None:
    reader = SseReader()
    assert reader.feed(b"data: almost\n") == []
    assert reader.feed(b"\n") == [ServerSentEvent("", b"almost")]


def test_a_line_feed_that_belongs_to_the_carriage_return_before_ends_no_event() -> None:
    assert read([b"data: one\r", b"\ndata: two\r\n\r", b"\n"]) == [ServerSentEvent("", b"one\ntwo")]
