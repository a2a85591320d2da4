from __future__ import annotations

import asyncio
import logging
import os
import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joey.core.events import Record
from joey.errors import StoreError, TaskStateError
from joey.storage.journal import Journal, decode_journal, encode_record
from tests.harness.storage.records import created, opening, said

pytestmark = pytest.mark.usefixtures("on_disk")


def write_journal(directory: Path, data: bytes) -> Path:
    path = directory / "journal.jsonl"
    path.write_bytes(data)
    return path


def read_back(directory: Path) -> list[Record]:
    journal, records = Journal.open(directory)
    journal.close()
    return records


@pytest.mark.contract("store:journal")
def test_a_line_torn_at_any_byte_is_cut_and_kept_aside(tmp_path: Path) -> None:
    whole = [encode_record(record) for record in opening()]
    last = encode_record(said(4, "größer"))
    for cut in range(1, len(last)):
        directory = tmp_path / str(cut)
        directory.mkdir()
        path = write_journal(directory, b"".join(whole) + last[:cut])
        assert read_back(directory) == opening()
        assert (directory / "journal.torn-1").read_bytes() == last[:cut]
        assert path.read_bytes() == b"".join(whole)


def test_a_second_torn_line_does_not_replace_the_first(tmp_path: Path) -> None:
    for tail in (b'{"seq"', b"{"):
        write_journal(tmp_path, encode_record(created()) + tail)
        read_back(tmp_path)
    assert (tmp_path / "journal.torn-1").read_bytes() == b'{"seq"'
    assert (tmp_path / "journal.torn-2").read_bytes() == b"{"


@pytest.mark.contract("store:journal")
@pytest.mark.parametrize(
    "damage",
    [
        b"\0\0\0\0\n",
        b"{}\n",
        b"\n",
        b"[1]\n",
        b'{"seq":2,"event":\n',
        b"\xff\xfe\n",
        b"[" * 9999 + b"\n",
    ],
)
def test_everything_after_an_unreadable_line_is_kept_aside_and_reported(
    tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    after = damage + encode_record(said(3))
    path = write_journal(tmp_path, encode_record(created()) + after)
    with caplog.at_level(logging.WARNING):
        assert read_back(tmp_path) == [created()]
    assert (tmp_path / "journal.unreadable-1").read_bytes() == after
    assert path.read_bytes() == encode_record(created())
    assert "journal.unreadable-1" in caplog.text


def test_records_that_do_not_rise_are_kept_aside(tmp_path: Path) -> None:
    lines = [encode_record(record) for record in (created(), said(2), said(2), said(3))]
    write_journal(tmp_path, b"".join(lines))
    assert [record.seq for record in read_back(tmp_path)] == [1, 2]
    assert (tmp_path / "journal.unreadable-1").read_bytes() == b"".join(lines[2:])


@pytest.mark.parametrize(
    "event",
    [
        {"event": "somethingNew", "ts": 5},
        {"event": "said", "ts": 5},
        {"event": "askOpened", "ts": 5, "ask": "a_new_kind"},
    ],
)
def test_a_journal_of_a_newer_version_is_refused_and_left_alone(
    tmp_path: Path, event: dict[str, object]
) -> None:
    newer = msgspec.json.encode({"seq": 2, "event": event})
    data = encode_record(created()) + newer + b"\n" + b'{"torn'
    path = write_journal(tmp_path, data)
    with pytest.raises(StoreError, match="written by a newer joey"):
        Journal.open(tmp_path)
    assert path.read_bytes() == data
    assert [entry.name for entry in tmp_path.iterdir()] == ["journal.jsonl"]


@pytest.mark.contract("store:journal")
@settings(max_examples=100)
@given(st.lists(st.text(max_size=50), max_size=6), st.binary(max_size=40), st.integers(min_value=0))
def test_any_damage_leaves_the_records_before_it(
    texts: list[str], damage: bytes, place: int
) -> None:
    lines = [encode_record(said(n, text)) for n, text in enumerate(texts, start=1)]
    data = b"".join(lines)
    at = place % (len(data) + 1)
    records, good = decode_journal(data[:at] + damage)
    before = data[:at].count(b"\n")
    assert records[:before] == [said(n, text) for n, text in enumerate(texts, start=1)][:before]
    assert decode_journal((data[:at] + damage)[:good]) == (records, good)


def test_a_journal_that_is_no_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").mkdir()
    with pytest.raises(StoreError, match="is not a file"):
        Journal.open(tmp_path)


class Gate:
    """Stands in for `os.fdatasync`: counts the calls and lets each end when told to."""

    def __init__(self) -> None:
        self.calls = 0
        self.entered = threading.Semaphore(0)
        self.leave = threading.Semaphore(0)
        self.error: OSError | None = None

    def __call__(self, descriptor: int) -> None:
        os.fstat(descriptor)
        self.calls += 1
        self.entered.release()
        self.leave.acquire()
        if self.error is not None:
            raise self.error


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate = Gate()
    monkeypatch.setattr(os, "fdatasync", gate)
    return gate


async def test_callers_that_wait_at_the_same_time_share_one_sync(
    tmp_path: Path, gate: Gate
) -> None:
    journal = Journal.create(tmp_path)
    journal.append(created())
    waiting = [asyncio.create_task(journal.sync()) for _ in range(5)]
    await asyncio.to_thread(gate.entered.acquire)
    journal.append(said(2))
    waiting += [asyncio.create_task(journal.sync()) for _ in range(5)]
    gate.leave.release()
    await asyncio.to_thread(gate.entered.acquire)
    assert [task.done() for task in waiting] == [True] * 5 + [False] * 5
    gate.leave.release()
    async with asyncio.timeout(60):
        await asyncio.gather(*waiting)
        await journal.sync()
    assert gate.calls == 2
    journal.close()


async def test_nothing_is_synced_when_nothing_was_appended(tmp_path: Path, gate: Gate) -> None:
    journal = Journal.create(tmp_path)
    async with asyncio.timeout(60):
        await journal.sync()
    assert gate.calls == 0
    journal.close()


async def test_a_caller_that_is_cancelled_leaves_the_others_their_sync(
    tmp_path: Path, gate: Gate
) -> None:
    journal = Journal.create(tmp_path)
    journal.append(created())
    first, second = (asyncio.create_task(journal.sync()) for _ in range(2))
    await asyncio.to_thread(gate.entered.acquire)
    first.cancel()
    gate.leave.release()
    async with asyncio.timeout(60):
        await second
    assert first.cancelled()
    journal.close()


async def test_closing_during_a_sync_lets_it_finish(tmp_path: Path, gate: Gate) -> None:
    journal = Journal.create(tmp_path)
    journal.append(created())
    waiting = asyncio.create_task(journal.sync())
    await asyncio.to_thread(gate.entered.acquire)
    journal.close()
    gate.leave.release()
    async with asyncio.timeout(60):
        await waiting


@pytest.mark.contract("store:journal")
async def test_a_sync_that_failed_once_is_never_reported_as_done(
    tmp_path: Path, gate: Gate
) -> None:
    journal = Journal.create(tmp_path)
    journal.append(created())
    gate.error = OSError(5, "Input/output error")
    gate.leave.release()
    with pytest.raises(StoreError, match="Input/output error"):
        await journal.sync()
    gate.error = None
    for _ in range(2):
        with pytest.raises(StoreError, match="Input/output error"):
            await journal.sync()
    with pytest.raises(StoreError, match="Input/output error"):
        journal.append(said(2))
    assert gate.calls == 1
    journal.close()


async def test_syncing_a_closed_journal_with_something_unsaved_is_an_error(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path)
    journal.append(created())
    journal.close()
    with pytest.raises(TaskStateError, match="closed"):
        await journal.sync()
