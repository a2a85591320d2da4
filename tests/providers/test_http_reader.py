from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.providers.http_parser import (
    MAX_HEAD_BYTES,
    HttpEvent,
    ProtocolError,
    ResponseEnd,
    ResponseHead,
    ResponseReader,
    TruncatedResponseError,
)

CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\nA;name=value\r\n, w\xc3\xb6rl\r\nd\r\n1 \r\n!\r\n0\r\nTrailer: yes\r\n\r\n"
)
LENGTH = b"HTTP/1.1 404 Not Found\r\nContent-Length: 11\r\nConnection: close\r\n\r\nhello world"
UNTIL_CLOSE = b"HTTP/1.0 200 OK\r\n\r\nall there is"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 \r\nLink: x\r\n\r\n" + LENGTH
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
WITHOUT_BODY = b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n"
WHOLE = [CHUNKED, LENGTH, INTERIM, EMPTY, WITHOUT_BODY]


def read(pieces: list[bytes], *, close: bool = False) -> tuple[ResponseHead | None, bytes, bool]:
    """Head, body and whether the response ended."""
    reader = ResponseReader()
    events: list[HttpEvent] = []
    for piece in pieces:
        events += reader.feed(piece)
    if close:
        events += reader.close()
    heads = [event for event in events if isinstance(event, ResponseHead)]
    body = b"".join(event for event in events if isinstance(event, bytes))
    assert len(heads) <= 1
    return heads[0] if heads else None, body, ResponseEnd() in events


def split(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


def test_a_chunked_response_is_read_with_extensions_and_trailers() -> None:
    head, body, ended = read([CHUNKED])
    assert head is not None
    assert (head.status, head.reason, head.can_keep_alive) == (200, "OK", True)
    assert head.headers["content-type"] == "text/event-stream"
    assert (body.decode(), ended) == ("hello, wörl\r\nd!", True)


def test_a_response_with_a_length_ends_with_its_last_byte() -> None:
    head, body, ended = read([LENGTH])
    assert head is not None
    assert (head.status, head.can_keep_alive) == (404, False)
    assert (body, ended) == (b"hello world", True)


def test_a_response_without_a_length_ends_with_the_connection() -> None:
    assert read([UNTIL_CLOSE])[1:] == (b"all there is", False)
    head, body, ended = read([UNTIL_CLOSE], close=True)
    assert head is not None
    assert (head.can_keep_alive, body, ended) == (False, b"all there is", True)


def test_interim_responses_are_passed_over() -> None:
    assert read([INTERIM]) == read([LENGTH])


@pytest.mark.parametrize("response", [EMPTY, WITHOUT_BODY])
def test_a_response_may_have_no_body(response: bytes) -> None:
    assert read([response])[1:] == (b"", True)


def test_repeated_headers_are_joined() -> None:
    head, _, _ = read([b"HTTP/1.1 204 x\r\nA: 1\r\nB:2\r\na: 3\r\n\r\n"])
    assert head is not None
    assert head.headers == {"a": "1, 3", "b": "2"}


@pytest.mark.contract("services:streams")
@pytest.mark.parametrize("response", WHOLE)
def test_every_single_split_gives_the_same_response(response: bytes) -> None:
    whole = read([response])
    for place in range(len(response)):
        assert read([response[:place], response[place:]]) == whole
    assert read([bytes([byte]) for byte in response]) == whole


@given(st.sampled_from(WHOLE), st.lists(st.integers(min_value=0, max_value=10_000), max_size=12))
def test_any_splits_give_the_same_response(response: bytes, places: list[int]) -> None:
    assert read(split(response, places)) == read([response])


@given(st.lists(st.binary(min_size=1, max_size=200), max_size=30), st.lists(st.integers(0, 10**4)))
def test_any_body_in_any_chunks_comes_out_as_it_went_in(
    chunks: list[bytes], places: list[int]
) -> None:
    framed = b"".join(b"%X\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    response = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + framed + b"0\r\n\r\n"
    assert read(split(response, places))[1:] == (b"".join(chunks), True)


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_arbitrary_bytes_raise_nothing_but_a_protocol_error(pieces: list[bytes]) -> None:
    feed_all(pieces)


@given(
    st.sampled_from([*WHOLE, UNTIL_CLOSE]),
    st.integers(0, 300),
    st.binary(max_size=8),
    st.integers(0, 8),
)
def test_damaged_responses_raise_nothing_but_a_protocol_error(
    response: bytes, place: int, noise: bytes, gap: int
) -> None:
    place %= len(response)
    feed_all([response[:place] + noise + response[place + gap :]])


def feed_all(pieces: list[bytes]) -> None:
    reader = ResponseReader()
    try:
        for piece in pieces:
            reader.feed(piece)
        reader.close()
    except ProtocolError:
        return


@pytest.mark.parametrize(
    "response",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad name: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 3, 4\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\ncontent-length: 0x3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0x5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * MAX_HEAD_BYTES,
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * MAX_HEAD_BYTES + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"0" * 2000,
    ],
)
def test_what_is_not_http_is_refused(response: bytes) -> None:
    with pytest.raises(ProtocolError):
        ResponseReader().feed(response)


@pytest.mark.parametrize("response", [CHUNKED, LENGTH])
def test_a_response_that_is_cut_off_anywhere_is_not_taken_for_whole(response: bytes) -> None:
    for place in range(len(response)):
        reader = ResponseReader()
        assert ResponseEnd() not in reader.feed(response[:place])
        with pytest.raises(TruncatedResponseError):
            reader.close()


def test_the_reader_knows_whether_an_answer_has_begun() -> None:
    reader = ResponseReader()
    assert not reader.has_started
    reader.feed(b"H")
    assert reader.has_started
