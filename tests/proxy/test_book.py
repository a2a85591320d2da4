"""The book: bodies come back byte for byte, and what conversations share is stored once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.errors import StoreError
from joey.proxy.body_pieces import cut_body
from joey.proxy.book import Book, open_book
from joey.proxy.exchange import Exchange, ExchangeState, Tick, Wire
from joey.proxy.filing import open_filed_book
from joey.proxy.spool import FrameKind, SpoolDirectory, SpooledEnd, SpooledHead, get_spool_root

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda x: st.lists(x) | st.dictionaries(st.text(), x),
)


def an_exchange(at: int = 1, **more: Any) -> Exchange:
    facts: dict[str, Any] = {"wire": Wire.ANTHROPIC, "method": "POST", "path": "/v1/messages"}
    return Exchange(at=at, **(facts | more))


def conversation(turns: int) -> bytes:
    messages = [{"role": "user", "content": f"message {n} " + "text " * 100} for n in range(turns)]
    return json.dumps({"model": "m", "messages": messages, "max_tokens": 9}).encode()


@given(st.one_of(st.binary(), json_values.map(lambda value: json.dumps(value).encode())))
def test_pieces_joined_are_the_body(body: bytes) -> None:
    assert b"".join(cut_body(body)) == body
    assert b"".join(cut_body(body[: len(body) // 2])) == body[: len(body) // 2]


def test_an_exchange_comes_back_as_it_was(tmp_path: Path) -> None:
    recorded = an_exchange(
        status=200,
        state=ExchangeState.CUT_CLIENT,
        request_headers=(("User-Agent", "pi/1"), ("X", "\xe9")),
        ticks=(Tick(0, 1.5), Tick(10, 20.25)),
        first_byte_ms=1.5,
        seconds=2.0,
        task_id="t",
    )
    with open_book(tmp_path / "b" / "book.sqlite") as book:
        number = book.add(recorded, b"\x00request", [b"re", b"ply"])
        assert number is not None
    with open_book(tmp_path / "b" / "book.sqlite") as book:
        (found,) = book.exchanges()
        assert found == book.exchange(number)
        assert found.user_agent == "pi/1"
        assert book.request_body(number) == b"\x00request"
        assert book.response_body(number) == b"reply"
        assert (found.ticks, found.state, found.task_id) == (recorded.ticks, recorded.state, "t")
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "b" / "book.sqlite").stat().st_mode & 0o777 == 0o600


def test_a_body_may_be_left_after_its_beginning(tmp_path: Path) -> None:
    """As when the pipe that `joey proxy show --raw` writes to is closed."""
    with open_book(tmp_path / "book.sqlite") as book:
        number = book.add(an_exchange(), response_body=[bytes(2_000_000), b"end"])
        assert number is not None
        pieces = book.iter_response_body(number)
        next(pieces)
    del pieces
    with open_book(tmp_path / "book.sqlite") as book:
        assert len(book.response_body(number)) == 2_000_003


def test_exchanges_come_in_the_order_of_arrival(tmp_path: Path) -> None:
    with open_book(tmp_path / "book.sqlite") as book:
        for at in (5, 3, 9, 3):
            book.add(an_exchange(at))
        assert [(each.at, each.id) for each in book.exchanges()] == [(3, 2), (3, 4), (5, 1), (9, 3)]
        assert [each.at for each in book.exchanges(since=5)] == [5, 9]


def test_what_requests_of_a_conversation_share_is_stored_once(tmp_path: Path) -> None:
    with open_book(tmp_path / "book.sqlite") as book:
        bodies = {book.add(an_exchange(), conversation(n)): conversation(n) for n in range(1, 60)}
        assert all(book.request_body(number or 0) == body for number, body in bodies.items())
        assert stored_bytes(book) < 2 * len(conversation(59))


def stored_bytes(book: Book) -> int:
    (size,) = book.connection.execute("SELECT sum(size) FROM piece").fetchone()
    return int(size)


def test_the_exchange_of_a_spool_file_is_filed_once(tmp_path: Path) -> None:
    with open_book(tmp_path / "book.sqlite") as book:
        assert book.add(an_exchange(), b"x", spool="a/1") == 1
        assert book.add(an_exchange(), b"x", spool="a/1") is None
        assert len(list(book.exchanges())) == 1


@pytest.mark.parametrize(
    ("damaged", "expected"),
    [
        (FrameKind.OPEN, []),
        (FrameKind.RESPONSE_HEAD, [(ExchangeState.CUT_KILLED, 0)]),
        (FrameKind.END, [(ExchangeState.CUT_KILLED, 200)]),
    ],
)
def test_a_spool_that_a_power_cut_damaged_is_filed_as_far_as_it_is_readable(
    tmp_path: Path, damaged: FrameKind, expected: list[tuple[ExchangeState, int]]
) -> None:
    path = tmp_path / "book.sqlite"
    directory = SpoolDirectory(get_spool_root(path), "1-1")
    spool = directory.create_file(1)
    for kind, value in (
        (FrameKind.OPEN, an_exchange()),
        (FrameKind.RESPONSE_HEAD, SpooledHead(200, (), is_framed=False)),
        (FrameKind.END, SpooledEnd(ExchangeState.DONE)),
    ):
        data = msgspec.json.encode(value)
        spool.write(kind, 1.0, bytes(len(data)) if kind is damaged else data)
    spool.close()
    directory.close()
    with open_filed_book(path) as book:
        assert [(each.state, each.status) for each in book.exchanges()] == expected
    assert not directory.path.exists()


def test_forgotten_exchanges_leave_no_bytes(tmp_path: Path) -> None:
    secret = b"something to be forgotten"
    with open_book(tmp_path / "book.sqlite") as book:
        number = book.add(an_exchange(path="/" + secret.decode()), secret)
        book.add(an_exchange(), b"something to keep")
        assert book.forget([number or 0]) == 1
        assert stored_bytes(book) == len(b"something to keep")
        with pytest.raises(StoreError, match="no exchange 1"):
            book.exchange(1)
    assert not any(secret in file.read_bytes() for file in tmp_path.iterdir())


def test_the_room_of_forgotten_exchanges_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "book.sqlite"
    with open_book(path) as book:
        for at in range(8):
            book.add(an_exchange(at=at), os.urandom(500_000))
        assert book.shrink(2_200_000) == 4
        assert 2_000_000 < path.stat().st_size <= 2_200_000
        assert book.forget_before(100) == 4
        assert path.stat().st_size < 200_000


def test_a_file_that_is_no_book_is_refused(tmp_path: Path) -> None:
    (tmp_path / "book.sqlite").write_bytes(b"not a database, but long enough to be one" * 100)
    with pytest.raises(StoreError, match="cannot be used"):
        open_book(tmp_path / "book.sqlite")
