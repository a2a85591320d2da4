from __future__ import annotations

from pathlib import Path

from joey.core.file_state import FileStamp, ReadTracker
from joey.core.paths import ResolvedPath

NOW, LATER = FileStamp(3, 1), FileStamp(3, 2)


def place(name: str = "a") -> ResolvedPath:
    return ResolvedPath(name, Path("/w") / name, name, inside=True)


def test_a_file_that_was_never_seen_is_not_stale() -> None:
    memory = ReadTracker()
    assert not memory.is_stale(place(), NOW, b"old")
    assert not memory.needs_look(place(), NOW)


def test_a_version_is_known_by_its_bytes_where_they_were_at_hand() -> None:
    memory = ReadTracker()
    memory.note(place(), NOW, b"old")
    assert not memory.is_stale(place(), LATER, b"old")
    assert memory.is_stale(place(), NOW, b"new")
    memory.note(place(), LATER, b"new")
    assert not memory.is_stale(place(), LATER, b"new")


def test_otherwise_it_is_known_by_its_size_and_time() -> None:
    memory = ReadTracker()
    memory.note(place(), NOW)
    assert not memory.is_stale(place(), NOW, b"old")
    assert memory.is_stale(place(), LATER, b"old")
    assert not memory.may_be_same(place(), LATER)


def test_being_notified_of_a_change_is_not_seeing_it() -> None:
    memory = ReadTracker()
    memory.note(place(), NOW, b"old")
    assert memory.needs_look(place(), LATER)
    assert memory.may_be_same(place(), LATER)
    memory.record_reported(place(), LATER)
    assert not memory.needs_look(place(), LATER)
    assert memory.is_stale(place(), LATER, b"new")


def test_a_file_can_be_forgotten() -> None:
    memory = ReadTracker()
    memory.note(place(), NOW, b"old")
    memory.forget(place())
    memory.record_reported(place(), NOW)
    assert not memory.is_stale(place(), LATER, b"new")
    assert memory.newest(5) == ()


def test_the_latest_files_come_first_and_the_oldest_are_forgotten() -> None:
    memory = ReadTracker()
    for number in range(3_000):
        memory.note(place(str(number)), NOW)
    memory.note(place("2000"), LATER)
    assert [seen.given for seen in memory.newest(3)] == ["2000", "2999", "2998"]
    assert len(memory.newest(9_999)) == 2_000
