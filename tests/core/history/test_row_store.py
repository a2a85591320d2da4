"""Rows and messages that a summary has closed are packed away, and are there when looked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from joey.core.history.api import CompressedList
from joey.core.history.ui import Row, RowStore
from joey.core.messages import Message, TextBlock


def row(ts: int, text: str = "") -> Row:
    return Row(ts=ts, type="say", say="text", text=text)


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.integers(1, 40), st.text(max_size=5)),
            st.tuples(st.just("seal"), st.integers(1, 41), st.just("")),
            st.tuples(st.just("get"), st.integers(1, 40), st.just("")),
        ),
        max_size=40,
    )
)
def test_sealing_changes_nothing_that_can_be_seen(steps: list[tuple[str, int, str]]) -> None:
    store, plain = RowStore(), dict[int, Row]()
    for what, ts, text in steps:
        match what:
            case "put":
                assert store.put(ts, row(ts, text)) == (ts in plain)
                plain[ts] = row(ts, text)
            case "seal":
                store.compress_before(ts)
            case _:
                assert store.get(ts) == plain.get(ts)
        assert list(store) == [plain[ts] for ts in sorted(plain)]


def test_rows_of_somebody_else_keep_their_place() -> None:
    store = RowStore()
    store.put(1, {"ts": 1, "odd": True})
    store.put(2, row(2))
    store.put(3, {"ts": 3})
    store.compress_before(10)
    store.put(11, row(11))
    assert list(store) == [{"ts": 1, "odd": True}, row(2), {"ts": 3}, row(11)]


def test_what_is_added_while_it_is_read_is_not_part_of_it() -> None:
    sealed = CompressedList(Message)
    said = Message(role="user", content=(TextBlock("hello"),), ts=1, condense_parent="c")
    sealed.extend([said])
    reading = iter(sealed)
    sealed.extend([said])
    [read] = reading
    assert (read.content, read.condense_parent) == (said.content, "c")
    assert len(list(sealed)) == 2


def test_rows_that_are_sealed_while_they_are_read_are_read_once() -> None:
    store = RowStore()
    for ts in (1, 2):
        store.put(ts, row(ts))
        store.compress_before(ts)
    reading = iter(store)
    store.compress_before(3)
    assert list(reading) == [row(1), row(2)]
