"""What is left when another process dies, or the disk is full: real processes, real kills."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from joey.errors import TaskLockedError
from joey.storage.task_store import JsonFileStore
from tests.harness.paths import ROOT
from tests.harness.storage.records import TASK, created, said

pytestmark = pytest.mark.usefixtures("on_disk")


@contextmanager
def child(what: str, home: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.harness.storage.task_process", what, str(home)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def send_line(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def kill_after(process: subprocess.Popen[str], lines: int) -> int:
    """Kill -9 once `lines` things were told to be done; how many had been told in the end."""
    printed = [next_line(process) for _ in range(lines)]
    process.kill()
    assert process.stdout is not None
    # The last line may have been cut by the kill; a whole one ends with a newline.
    printed += [line.strip() for line in process.stdout if line.endswith("\n")]
    return int(printed[-1])


@pytest.mark.contract("store:journal")
def test_every_record_reported_before_a_kill_is_there_and_the_task_goes_on(tmp_path: Path) -> None:
    for round_number in range(16):
        home = tmp_path / str(round_number)
        with child("append", home) as process:
            reported = kill_after(process, 1 + round_number * 37)
        log, records = JsonFileStore(home).open(TASK)
        assert [record.seq for record in records] == list(range(1, len(records) + 1))
        assert len(records) >= reported
        log.append(said(len(records) + 1))
        log.close()
        assert len(JsonFileStore(home).open(TASK)[1]) == len(records) + 1


@pytest.mark.contract("store:snapshots", "store:layout")
def test_files_are_whole_whenever_a_process_is_killed_while_it_saves(tmp_path: Path) -> None:
    for round_number in range(16):
        home = tmp_path / str(round_number)
        with child("snapshot", home) as process:
            reported = kill_after(process, 1 + round_number)
        directory = home / "tasks" / f"task_{TASK}"
        for name in ("ui_messages.json", "api_conversation_history.json"):
            assert len(json.loads((directory / name).read_bytes())) >= reported
        assert json.loads((directory / "task_metadata.json").read_bytes())["seq"] >= reported
        log, records = JsonFileStore(home).open(TASK)
        assert len(records) >= reported
        assert not list(directory.glob(".joey-*"))
        log.close()


@pytest.mark.contract("store:one-process")
def test_a_second_process_is_shown_who_holds_the_task_until_that_closes_or_dies(
    tmp_path: Path,
) -> None:
    store = JsonFileStore(tmp_path)
    log = store.create(TASK)
    log.append(created())
    log.close()
    with child("hold", tmp_path) as process:
        assert next_line(process) == "holding 1"
        with pytest.raises(TaskLockedError, match=rf"process {process.pid} since \d{{4}}-"):
            store.open(TASK)
        send_line(process)
        assert next_line(process) == "closed"
        log, _ = store.open(TASK)
        log.close()
    with child("hold", tmp_path) as process:
        assert next_line(process) == "holding 1"
        process.kill()
        process.wait()
        log, _ = store.open(TASK)
        log.close()


@pytest.mark.contract("store:journal")
def test_a_full_disk_leaves_a_valid_journal_and_says_where_to_free_space(tmp_path: Path) -> None:
    with child("fill", tmp_path) as process:
        refused, _, error = next_line(process).partition(" ")
        assert process.wait() == 0
    directory = tmp_path / "tasks" / f"task_{TASK}"
    assert str(directory) in error
    assert "Free some space" in error
    log, records = JsonFileStore(tmp_path).open(TASK)
    log.close()
    assert [record.seq for record in records] == list(range(1, int(refused) + 2))
    assert not list(directory.glob("journal.*-*"))


@pytest.mark.contract("store:journal")
def test_a_full_disk_leaves_the_files_of_the_snapshot_before(tmp_path: Path) -> None:
    with child("fill-snapshot", tmp_path) as process:
        error = next_line(process)
        assert process.wait() == 0
    directory = tmp_path / "tasks" / f"task_{TASK}"
    assert str(directory) in error
    assert "Free some space" in error
    assert len(json.loads((directory / "ui_messages.json").read_bytes())) == 2
    assert len(json.loads((directory / "api_conversation_history.json").read_bytes())) == 1
    assert json.loads((directory / "task_metadata.json").read_bytes())["seq"] == 1
    assert not list(directory.glob(".joey-*"))
