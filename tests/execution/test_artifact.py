from __future__ import annotations

from pathlib import Path

import pytest

from joey.execution.command import OutputFile

MIB = 1024 * 1024


def test_bytes_are_there_as_soon_as_they_are_written(tmp_path: Path) -> None:
    artifact = OutputFile(tmp_path / "a.txt")
    artifact.write(b"one ")
    artifact.write(b"two")
    assert (tmp_path / "a.txt").read_bytes() == b"one two"
    artifact.close()


@pytest.mark.parametrize("extra", [1, MIB])
def test_beyond_the_cap_a_note_takes_the_place_of_the_rest(tmp_path: Path, extra: int) -> None:
    artifact = OutputFile(tmp_path / "a.txt", cap=MIB)
    artifact.write(b"x" * (MIB - 10))
    artifact.write(b"y" * (10 + extra))
    artifact.write(b"z")
    artifact.close()
    content = (tmp_path / "a.txt").read_bytes()
    assert content[:MIB] == b"x" * (MIB - 10) + b"y" * 10
    assert content[MIB:] == b"\n[...output after the first 1 MiB was not kept...]\n"


def test_exactly_the_cap_is_kept_without_a_note(tmp_path: Path) -> None:
    artifact = OutputFile(tmp_path / "a.txt", cap=MIB)
    artifact.write(b"x" * MIB)
    artifact.close()
    assert (tmp_path / "a.txt").stat().st_size == MIB


def test_an_old_file_of_the_same_name_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"old and longer")
    artifact = OutputFile(tmp_path / "a.txt")
    artifact.write(b"new")
    artifact.close()
    assert (tmp_path / "a.txt").read_bytes() == b"new"


def test_a_link_is_not_written_through(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "target").write_bytes(b"precious")
    (tmp_path / "a.txt").symlink_to(tmp_path / "target")
    artifact = OutputFile(tmp_path / "a.txt")
    artifact.write(b"new")
    artifact.close()
    assert (tmp_path / "target").read_bytes() == b"precious"
    assert "no longer stored" in caplog.text
