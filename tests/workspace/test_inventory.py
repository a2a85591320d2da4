from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest
from psutil import Process

from joey.errors import ToolError
from joey.workspace import listing
from joey.workspace import listing as listing_module
from joey.workspace.files import LocalFiles
from joey.workspace.listing import list_all_files, list_indexable_files


def write(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x\n")


@pytest.mark.contract("index:hidden")
def test_all_files_are_listed_but_those_that_are_hidden_ignored_or_made_by_others(
    tmp_path: Path,
) -> None:
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / ".rooignore").write_text("/secret\n")
    shown = {"a.py", "pkg/deep/b.go", "ä b.txt", "src/secret/c.py"}
    write(tmp_path, *shown, "a.log", "secret/a.py", ".env", ".git/config", "node_modules/x/a.js")
    write(tmp_path, "lib/app.min.js", "uv.lock", "package-lock.json", "vendor/a.go")
    (tmp_path / "link.py").symlink_to(tmp_path / "a.py")
    (tmp_path / "large.txt").write_bytes(b"x" * 2_000_000)
    listing = list_indexable_files(LocalFiles(tmp_path))
    assert {*listing.entries} == shown
    assert not listing.truncated


def test_what_a_user_may_point_at_is_more_than_what_is_worth_reading(tmp_path: Path) -> None:
    shown = {"a.py", ".gitignore", ".env", "uv.lock", "lib/app.min.js", "vendor/a.go", "large.txt"}
    write(tmp_path, *shown, "a.log", "secret/a.py", ".git/config")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / ".rooignore").write_text("/secret\n")
    (tmp_path / "large.txt").write_bytes(b"x" * 2_000_000)
    assert {*list_all_files(LocalFiles(tmp_path)).entries} - {".rooignore"} == shown


def test_names_that_cannot_be_shown_as_they_are_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "two\nlines.py", "right\u202eleft.py")
    (tmp_path / os.fsdecode(b"\xff.py")).write_text("x\n")
    assert "two\nlines.py" not in list_indexable_files(LocalFiles(tmp_path)).entries
    assert {*list_indexable_files(LocalFiles(tmp_path)).entries} <= {"a.py", "right\u202eleft.py"}


def test_too_many_files_are_cut_in_the_order_of_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing_module, "MAX_INDEXED_FILES", 3)
    write(tmp_path, *(f"f{number}.py" for number in range(9)))
    listing = list_indexable_files(LocalFiles(tmp_path))
    assert listing.entries == ("f0.py", "f1.py", "f2.py")
    assert listing.truncated


@pytest.mark.parametrize("name", ["home", "link"])
def test_a_home_is_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "link").symlink_to("home")
    monkeypatch.setenv("HOME", str(tmp_path / name))
    with pytest.raises(ToolError, match="too wide"):
        list_indexable_files(LocalFiles(tmp_path / "home"))


@pytest.mark.contract("index:hidden")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can limit another process")
@pytest.mark.parametrize("name", [".gitignore", ".ignore", ".rooignore"])
def test_ignore_rules_without_end_take_no_memory_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("joey.workspace.ripgrep.MAX_MEMORY_BYTES", 96 * 2**20)
    write(tmp_path, "a.py")
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(ToolError, match=r"cannot be listed.*memory"):
        list_indexable_files(LocalFiles(tmp_path))


@pytest.mark.contract("index:hidden")
def test_ignore_rules_that_nobody_writes_are_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / ".gitignore")
    before = set(Process().children())
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    with pytest.raises(ToolError, match="stopped"):
        list_indexable_files(LocalFiles(tmp_path), stop)
    monkeypatch.setattr(listing, "_WORKSPACE_LISTING_TIMEOUT_S", 0.2)
    with pytest.raises(ToolError, match="takes longer than"):
        list_indexable_files(LocalFiles(tmp_path))
    assert set(Process().children()) <= before


def test_a_workspace_that_has_gone_is_an_error(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    tmp_path.rmdir()
    with pytest.raises(ToolError, match="cannot be listed"):
        list_indexable_files(files)
