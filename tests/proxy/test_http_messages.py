"""The end of every body is found at the same byte, however its bytes are split."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.proxy.http_messages import (
    BodyFraming,
    MessageError,
    ResponseStart,
    find_request_framing,
    find_response_framing,
    parse_request_head,
    parse_response_head,
)

REST = b"GET / HTTP/1.1\r\n\r\n"


def chunked(chunks: list[bytes], extension: bytes, trailers: list[bytes]) -> bytes:
    framed = b"".join(b"%x%s\r\n%s\r\n" % (len(each), extension, each) for each in chunks if each)
    return framed + b"0\r\n" + b"".join(line + b"\r\n" for line in trailers) + b"\r\n"


def take(framing: BodyFraming, data: bytes, cuts: list[int]) -> tuple[int, bytes]:
    """How far the body goes in `data`, and its content."""
    borders = sorted({0, *(cut % len(data) for cut in cuts), len(data)})
    content: list[bytes] = []
    for start, end in pairwise(borders):
        used = framing.feed(data[start:end], content)
        if used < end - start:
            return start + used, b"".join(content)
    return len(data), b"".join(content)


@given(
    st.lists(st.binary(max_size=30)),
    st.sampled_from([b"", b";name=value", b" "]),
    st.lists(st.sampled_from([b"a: b", b"0: x"])),
    st.lists(st.integers(0, 5000), max_size=8),
)
def test_a_chunked_body_ends_at_its_last_byte(
    chunks: list[bytes], extension: bytes, trailers: list[bytes], cuts: list[int]
) -> None:
    body = chunked(chunks, extension, trailers)
    start = ResponseStart(200, headers=(("Transfer-Encoding", "chunked"),))
    for places in (cuts, list(range(len(body) + len(REST)))):
        framing = find_response_framing(start, "GET")
        assert take(framing, body + REST, places) == (len(body), b"".join(chunks))
        assert framing.is_complete


@pytest.mark.parametrize(
    ("method", "head", "length"),
    [
        ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 5", 5),
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5", 0),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5", 0),
        ("GET", b"HTTP/1.1 204 No Content", 0),
        ("GET", b"HTTP/1.1 100 Continue", 0),
        ("GET", b"HTTP/1.1 200", None),
        ("GET", b"HTTP/1.0 200 OK\r\nTransfer-Encoding: gzip", None),
        ("GET", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nContent-Length: 5", 5),
    ],
)
def test_the_head_says_where_the_body_ends(method: str, head: bytes, length: int | None) -> None:
    framing = find_response_framing(parse_response_head(head), method)
    assert framing.ends_with_connection == (length is None)
    if length is not None:
        assert framing.feed(b"x" * 20) == length
        assert framing.is_complete


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: 5\r\nContent-Length: 6",
        b"Content-Length: +5",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: gzip, chunked",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        b" folded: field",
        b"no field",
        b"nul: \x00",
    ],
)
def test_a_request_whose_end_is_ambiguous_is_refused(fields: bytes) -> None:
    with pytest.raises(MessageError):
        find_request_framing(parse_request_head(b"POST / HTTP/1.1\r\n" + fields))


@pytest.mark.parametrize(
    "body", [b"x\r\n", b"5\r\nabcdefg\r\n", b"5\nabcde", b"1;" + b"x" * 70_000]
)
def test_broken_chunks_are_refused(body: bytes) -> None:
    framing = find_request_framing(
        parse_request_head(b"POST / HTTP/1.1\r\ntransfer-encoding: Chunked")
    )
    with pytest.raises(MessageError):
        framing.feed(body)
