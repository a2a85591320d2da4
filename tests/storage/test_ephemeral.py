"""The store of `--ephemeral`: nothing of it stays."""

from __future__ import annotations

import gc
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from joey.core.settings import TaskSecrets
from joey.errors import StoreError
from joey.storage.task_store import EphemeralStore
from tests.harness.storage.records import TASK, created

DYING = """
import os, signal, sys
from pathlib import Path
from joey.storage.task_store import EphemeralStore
store = EphemeralStore(Path(sys.argv[1]))
if sys.argv[2] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def run_process(parent: Path, end: str) -> int:
    return subprocess.run([sys.executable, "-c", DYING, str(parent), end], check=False).returncode


def test_its_directory_is_private_and_goes_with_it(tmp_path: Path) -> None:
    store = EphemeralStore(tmp_path)
    log = store.create(TASK)
    log.append(created())
    log.close()
    (directory,) = tmp_path.iterdir()
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    del store, log
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_it_goes_with_the_process(tmp_path: Path) -> None:
    assert run_process(tmp_path, "ended") == 0
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed_by_the_next_and_nothing_else(tmp_path: Path) -> None:
    assert run_process(tmp_path, "killed") == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    live = EphemeralStore(tmp_path)
    (tmp_path / "joey-other").mkdir()
    for path in tmp_path.iterdir():
        os.utime(path, (0, 0))
    latest = EphemeralStore(tmp_path)
    remaining = {live.tasks_directory.parent, latest.tasks_directory.parent}
    assert set(tmp_path.iterdir()) == remaining | {tmp_path / "joey-other"}
    assert left not in remaining


def test_secrets_are_in_no_file(tmp_path: Path) -> None:
    store = EphemeralStore(tmp_path)
    store.save_secrets(TASK, TaskSecrets(api_key="a-secret-key"))
    assert store.load_secrets(f"task_{TASK}") == TaskSecrets(api_key="a-secret-key")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="could not create a temporary directory"):
        EphemeralStore(tmp_path / "missing")
