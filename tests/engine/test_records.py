"""Only the latest records are in memory; all of them can be had."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from joey.core.events import Record, RowAdded
from joey.engine.bus import RECORD_CACHE_SIZE, RecordCache


def record(seq: int) -> Record:
    return Record(seq, RowAdded(ts=seq, say="text"))


@given(
    count=st.integers(0, 3 * RECORD_CACHE_SIZE),
    opened=st.integers(0, 3 * RECORD_CACHE_SIZE),
    since=st.integers(0, 9000),
)
def test_what_came_after_any_number_is_whole(count: int, opened: int, since: int) -> None:
    journal = [record(seq) for seq in range(1, opened + 1)]
    records = RecordCache(lambda: journal, journal[:])
    for seq in range(opened + 1, opened + count + 1):
        journal.append(record(seq))
        records.append(journal[-1])
    assert records.last_seq == len(journal)
    assert list(records.list_after(since)) == journal[since:]


def test_long_ago_is_not_in_memory() -> None:
    reads = 0

    def read() -> list[Record]:
        nonlocal reads
        reads += 1
        return [record(seq) for seq in range(1, 5 * RECORD_CACHE_SIZE)]

    records = RecordCache(read)
    for seq in range(1, 5 * RECORD_CACHE_SIZE):
        records.append(record(seq))
    assert len(records.list_after(4 * RECORD_CACHE_SIZE)) == RECORD_CACHE_SIZE - 1
    assert reads == 0
    assert len(records.list_after(0)) == 5 * RECORD_CACHE_SIZE - 1
    assert reads == 1
