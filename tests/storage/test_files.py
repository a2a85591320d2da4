"""The files of a task: who may read them, and what a reader sees at any moment."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import re
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from joey.core.settings import TaskSecrets
from joey.errors import StoreError, TaskLockedError
from joey.ports.storage import TaskMetadata
from joey.storage import task_directory
from joey.storage.task_directory import LockOwner, read_process_start_ticks
from joey.storage.task_store import JsonFileStore
from joey.system.files import read_regular_file
from joey.system.locks import try_lock
from tests.harness.storage.records import TASK, created, said

SNAPSHOT = ("ui_messages.json", "api_conversation_history.json", "task_metadata.json")


@pytest.fixture(params=[0o000, 0o022, 0o277])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(root: Path) -> dict[str, int]:
    return {
        str(path.relative_to(root)): stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*")
    }


def rows(count: int) -> list[bytes]:
    return [msgspec.json.encode({"ts": number, "text": "x" * 200}) for number in range(count)]


@pytest.mark.contract("store:layout")
@pytest.mark.usefixtures("umask")
async def test_only_the_owner_can_read_whatever_the_umask(tmp_path: Path) -> None:
    home = tmp_path / "not" / "there"
    log = JsonFileStore(home).create(TASK)
    log.append(created())
    await log.write_snapshot(rows(1), rows(1), TaskMetadata(id=TASK))
    log.close()
    with (log.directory / "journal.jsonl").open("ab") as journal:
        journal.write(b"torn")
    JsonFileStore(home).open(TASK)[0].close()
    found = modes(tmp_path)
    files = {*SNAPSHOT, "journal.jsonl", "journal.torn-1", "lock"}
    assert {Path(name).name for name, mode in found.items() if mode == 0o600} == files
    assert all(mode == 0o700 for name, mode in found.items() if Path(name).name not in files)


def test_a_directory_that_others_could_read_is_closed_when_it_is_opened(tmp_path: Path) -> None:
    log = JsonFileStore(tmp_path).create(TASK)
    log.append(created())
    log.close()
    log.directory.chmod(0o755)
    (log.directory / "journal.jsonl").chmod(0o644)
    JsonFileStore(tmp_path).open(TASK)[0].close()
    assert stat.S_IMODE(log.directory.stat().st_mode) == 0o700
    assert stat.S_IMODE((log.directory / "journal.jsonl").stat().st_mode) == 0o600


async def test_snapshots_are_json_arrays_in_the_order_given(tmp_path: Path) -> None:
    log = JsonFileStore(tmp_path).create(TASK)
    await log.write_snapshot(rows(3), [], TaskMetadata(id=TASK, title="t", snapshot_seq=9))
    log.close()
    ui, api, metadata = (json.loads((log.directory / name).read_bytes()) for name in SNAPSHOT)
    assert [row["ts"] for row in ui] == [0, 1, 2]
    assert api == []
    assert metadata == {"id": TASK, "title": "t", "seq": 9}


@pytest.mark.contract("store:snapshots")
async def test_a_reader_sees_whole_files_at_every_moment(tmp_path: Path) -> None:
    log = JsonFileStore(tmp_path).create(TASK)
    await log.write_snapshot(rows(1), rows(1), TaskMetadata(id=TASK, snapshot_seq=1))
    done = threading.Event()
    seen: list[int] = []

    def watch() -> None:
        while not done.is_set():
            for name in SNAPSHOT:
                seen.append(len(json.loads((log.directory / name).read_bytes())))

    watching = asyncio.create_task(asyncio.to_thread(watch))
    for count in range(2, 60):
        await log.write_snapshot(
            rows(count), rows(count), TaskMetadata(id=TASK, snapshot_seq=count)
        )
    done.set()
    await watching
    log.close()
    assert seen


async def test_of_many_snapshots_at_once_the_last_one_asked_for_stays(tmp_path: Path) -> None:
    log = JsonFileStore(tmp_path).create(TASK)
    await asyncio.gather(
        *(
            log.write_snapshot(rows(n), rows(n), TaskMetadata(id=TASK, snapshot_seq=n))
            for n in range(1, 21)
        )
    )
    log.close()
    ui, api, metadata = (json.loads((log.directory / name).read_bytes()) for name in SNAPSHOT)
    assert (len(ui), len(api), metadata["seq"]) == (20, 20, 20)


async def test_lists_that_grow_after_the_call_do_not_change_the_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow_disk(_: int) -> None:
        entered.set()
        leave.wait(5)

    log = JsonFileStore(tmp_path).create(TASK)
    monkeypatch.setattr(os, "fsync", slow_disk)
    ui = rows(2)
    saving = [
        asyncio.create_task(log.write_snapshot(ui, [], TaskMetadata(id=TASK, snapshot_seq=n)))
        for n in (1, 2)
    ]
    await asyncio.to_thread(entered.wait, 5)
    ui.append(b"not json")
    leave.set()
    await asyncio.gather(*saving)
    log.close()
    assert len(json.loads((log.directory / SNAPSHOT[0]).read_bytes())) == 2


async def test_a_snapshot_that_cannot_be_written_is_an_error_that_names_the_directory(
    tmp_path: Path,
) -> None:
    log = JsonFileStore(tmp_path).create(TASK)
    (log.directory / SNAPSHOT[1]).mkdir()
    with pytest.raises(StoreError, match=str(log.directory)):
        await log.write_snapshot(rows(1), rows(1), TaskMetadata(id=TASK))
    log.close()
    assert not list(log.directory.glob(".joey-*"))


def test_leftovers_of_a_killed_process_are_removed_and_nothing_else(tmp_path: Path) -> None:
    log = JsonFileStore(tmp_path).create(TASK)
    log.append(created())
    log.close()
    for name in (".joey-abc.tmp", ".ui_messages.json.bak_1_x.tmp", "notes.txt"):
        (log.directory / name).touch()
    JsonFileStore(tmp_path).open(TASK)[0].close()
    names = {path.name for path in log.directory.iterdir()}
    assert names == {
        ".ui_messages.json.bak_1_x.tmp",
        "notes.txt",
        "journal.jsonl",
        "lock",
        "command-output",
    }


@pytest.mark.contract("store:one-process")
def test_a_lock_file_left_by_a_dead_process_blocks_nobody(tmp_path: Path) -> None:
    log = JsonFileStore(tmp_path).create(TASK)
    log.append(created())
    log.close()
    stale = LockOwner(pid=os.getpid(), acquired_at_ms=0, process_start_ticks=1)
    (log.directory / "lock").write_bytes(msgspec.json.encode(stale))
    JsonFileStore(tmp_path).open(TASK)[0].close()


def test_a_lock_whose_holder_left_a_process_behind_says_so(tmp_path: Path) -> None:
    log = JsonFileStore(tmp_path).create(TASK)
    log.append(created())
    for content, message in (
        (
            msgspec.json.encode(LockOwner(pid=2**22 + 1, acquired_at_ms=0, process_start_ticks=1)),
            "in a child of process",
        ),
        (b"", "in another process"),
        (b"\xff", "in another process"),
    ):
        (log.directory / "lock").write_bytes(content)
        with pytest.raises(TaskLockedError, match=message):
            JsonFileStore(tmp_path).open(TASK)
    log.close()


@pytest.mark.parametrize("looks_only", [False, True])
def test_a_released_lock_is_free_though_a_child_is_being_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks_only: bool
) -> None:
    """Until a child has become another program, it has a copy of every descriptor."""
    log = JsonFileStore(tmp_path).create(TASK)
    log.append(created())
    child = multiprocessing.get_context("fork").Process(target=signal.pause)

    def lock_and_start(descriptor: int, *, shared: bool = False) -> bool:
        is_locked = try_lock(descriptor, shared=shared)
        child.start()
        return is_locked

    try:
        if looks_only:
            log.close()
            (log.directory / "lock").write_text('{"pid": 1, "since": 1}')
            with monkeypatch.context() as patch:
                patch.setattr(task_directory, "try_lock", lock_and_start)
                assert not task_directory.is_locked(log.directory)
        else:
            child.start()
            log.close()
        JsonFileStore(tmp_path).open(TASK)[0].close()
    finally:
        child.kill()
        child.join()


def test_the_start_of_a_process_is_known_while_it_lives() -> None:
    if not Path("/proc/self/stat").exists():
        pytest.skip("no /proc on this system")
    assert read_process_start_ticks(os.getpid()) == read_process_start_ticks(os.getpid())
    assert read_process_start_ticks(2**22 + 1) is None


def test_a_pipe_in_place_of_a_file_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert read_regular_file(tmp_path / "pipe") is None
    assert read_regular_file(tmp_path) is None
    assert read_regular_file(tmp_path / "nothing") is None


def test_a_failed_open_leaves_the_task_unlocked(tmp_path: Path) -> None:
    log = JsonFileStore(tmp_path).create(TASK)
    log.append(created())
    log.close()
    journal = log.directory / "journal.jsonl"
    good = journal.read_bytes()
    journal.write_bytes(good + b'{"seq":2,"event":{"event":"new","ts":1}}\n')
    with pytest.raises(StoreError, match="newer joey"):
        JsonFileStore(tmp_path).open(TASK)
    journal.write_bytes(good)
    again, _ = JsonFileStore(tmp_path).open(TASK)
    again.append(said(2))
    again.close()


def test_a_home_that_cannot_hold_tasks_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "tasks").write_text("a file")
    with pytest.raises(StoreError, match=str(tmp_path)):
        JsonFileStore(tmp_path).create(TASK)
    with pytest.raises(StoreError, match=str(tmp_path)):
        JsonFileStore(tmp_path).list_tasks()


def test_a_child_that_a_killed_process_was_just_starting_is_waited_for(tmp_path: Path) -> None:
    """Until it has become another program it has the lock of its parent in its hands."""
    store = JsonFileStore(tmp_path)
    made = store.create(TASK)
    made.append(created())
    made.close()
    dying = (
        "import os, signal, subprocess, sys\n"
        "from pathlib import Path\n"
        "from joey.storage.task_store import JsonFileStore\n"
        "log, _ = JsonFileStore(Path(sys.argv[1])).open(sys.argv[2])\n"
        "subprocess.Popen(['sleep', '0.2'], pass_fds=[log._lock._descriptor])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", dying, str(tmp_path), TASK], check=False)
    log, _ = store.open(TASK)
    log.close()


def test_secrets_of_tasks_whose_directories_are_gone_are_removed(tmp_path: Path) -> None:
    store = JsonFileStore(tmp_path)
    store.save_secrets("gone", TaskSecrets(api_key="k"))
    store.save_secrets("new", TaskSecrets(api_key="k"))
    (gone,) = (tmp_path / "task-secrets").glob("*gone*")
    assert stat.S_IMODE(gone.stat().st_mode) == 0o600
    assert stat.S_IMODE(gone.parent.stat().st_mode) == 0o700
    os.utime(gone, (0, 0))
    store.save_secrets("other", TaskSecrets(api_key="k"))
    assert [path.name for path in sorted(gone.parent.iterdir())] == [
        "task_new.secret.json",
        "task_other.secret.json",
    ]


def test_damaged_secrets_are_an_error_that_names_the_file(tmp_path: Path) -> None:
    store = JsonFileStore(tmp_path)
    store.save_secrets("one", TaskSecrets(api_key="k"))
    (path,) = (tmp_path / "task-secrets").iterdir()
    path.write_text("{", encoding="utf-8")
    with pytest.raises(StoreError, match=re.escape(str(path))):
        store.load_secrets("one")
