"""A pytest plugin that keeps temporary files in memory: `pytest -p tests.harness.memory_disk`.

Most tests wait for the disk without depending on it. Those of crashes, and of sandboxes, use the
fixture `on_disk` and stay there. Without a usable tmpfs, all of them do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

CANDIDATES = (Path("/dev/shm"), Path(f"/run/user/{os.getuid()}"))
NEEDED_BYTES = 2 << 30
DISK_VARIABLE = "JOEY_TEST_DISK"
"""Where temporary files would be without this plugin; for the workers of pytest-xdist, too."""
_PREFIX = "joey-test-"
_directory = pytest.StashKey[Path]()
_disk = os.environ.get(DISK_VARIABLE)


def get_disk() -> str | None:
    """Where the files of tests that need a disk go; None: where all others go, too."""
    return _disk


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if DISK_VARIABLE in os.environ or config.option.basetemp:
        return  # a worker, or a user who has chosen a place
    global _disk  # noqa: PLW0603 - conftest.py is imported before
    directory = _create_directory()
    if directory is None:
        return
    config.stash[_directory] = directory
    os.environ[DISK_VARIABLE] = _disk = tempfile.gettempdir()
    os.environ["TMPDIR"] = tempfile.tempdir = str(directory)
    config.option.basetemp = directory / "t"  # short, for names of sockets


def pytest_unconfigure(config: pytest.Config) -> None:
    if directory := config.stash.get(_directory, None):
        shutil.rmtree(directory, ignore_errors=True)


def _create_directory() -> Path | None:
    for place in CANDIDATES:
        try:
            if not _is_tmpfs(place) or shutil.disk_usage(place).free < NEEDED_BYTES:
                continue
            _remove_leftovers(place)
            directory = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}.", dir=place))
            directory.chmod(0o755)  # the tests of sandboxes run as other users, too
        except OSError:
            continue
        if _can_run_programs(directory):
            return directory
        shutil.rmtree(directory)
    return None


def _is_tmpfs(place: Path) -> bool:
    mounts = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    return any(mount.split()[1:3] == [str(place), "tmpfs"] for mount in mounts)


def _can_run_programs(directory: Path) -> bool:
    script = directory / "script"
    script.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    script.chmod(0o755)
    try:
        return subprocess.run([str(script)], check=False).returncode == 0
    except OSError:  # mounted with noexec
        return False
    finally:
        script.unlink()


def _remove_leftovers(place: Path) -> None:
    """Of runs that were killed; not what their tests make here under names without a number."""
    for each in place.glob(f"{_PREFIX}*.*"):
        pid = each.name.removeprefix(_PREFIX).partition(".")[0]
        if pid.isdecimal() and not Path("/proc", pid).exists():
            with suppress(OSError):
                shutil.rmtree(each)
