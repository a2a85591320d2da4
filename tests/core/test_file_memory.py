from __future__ import annotations

from pathlib import Path

from joey.core.file_state import FileStamp, ReadTracker
from joey.core.path_access import ResolvedPath

NOW, LATER = FileStamp(3, 1), FileStamp(3, 2)


def place(name: str = "a") -> ResolvedPath:
    return ResolvedPath(name, Path("/w") / name, name, is_inside=True)


def test_a_file_that_was_never_seen_is_not_stale() -> None:
    memory = ReadTracker()
    assert not memory.is_stale(place(), NOW, b"old")
    assert not memory.may_have_changed(place(), NOW)


def test_a_version_is_known_by_its_bytes_where_they_were_at_hand() -> None:
    memory = ReadTracker()
    memory.record_seen(place(), NOW, b"old")
    assert not memory.is_stale(place(), LATER, b"old")
    assert memory.is_stale(place(), NOW, b"new")
    memory.record_seen(place(), LATER, b"new")
    assert not memory.is_stale(place(), LATER, b"new")


def test_otherwise_it_is_known_by_its_size_and_time() -> None:
    memory = ReadTracker()
    memory.record_seen(place(), NOW)
    assert not memory.is_stale(place(), NOW, b"old")
    assert memory.is_stale(place(), LATER, b"old")
    assert not memory.may_have_same_bytes(place(), LATER)


def test_being_notified_of_a_change_is_not_seeing_it() -> None:
    memory = ReadTracker()
    memory.record_seen(place(), NOW, b"old")
    assert memory.may_have_changed(place(), LATER)
    assert memory.may_have_same_bytes(place(), LATER)
    memory.record_change_reported(place(), LATER)
    assert not memory.may_have_changed(place(), LATER)
    assert memory.is_stale(place(), LATER, b"new")


def test_a_file_can_be_forgotten() -> None:
    memory = ReadTracker()
    memory.record_seen(place(), NOW, b"old")
    memory.discard(place())
    memory.record_change_reported(place(), NOW)
    assert not memory.is_stale(place(), LATER, b"new")
    assert memory.list_recent_paths(5) == ()


def test_the_latest_files_come_first_and_the_oldest_are_forgotten() -> None:
    memory = ReadTracker()
    for number in range(3_000):
        memory.record_seen(place(str(number)), NOW)
    memory.record_seen(place("2000"), LATER)
    assert [seen.path_as_given for seen in memory.list_recent_paths(3)] == ["2000", "2999", "2998"]
    assert len(memory.list_recent_paths(9_999)) == 2_000
