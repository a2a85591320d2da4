from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from psutil import Process

from joey.errors import ToolError, WorkspaceError
from joey.workspace.files import LocalFiles


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("print(1)\n")
    (tmp_path / "work-secret").mkdir()
    (tmp_path / "work-secret" / "key").write_text("secret")
    return root


def names_in(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


# Resolving


def test_a_path_inside_is_shown_relative_to_the_workspace(root: Path) -> None:
    files = LocalFiles(root)
    for given in ("src/a.py", "./src/../src/a.py", str(root / "src" / "a.py"), "src//a.py"):
        place = files.resolve(given)
        assert (place.path_as_given, place.display_path, place.is_inside) == (
            given,
            "src/a.py",
            True,
        )
        assert place.path == root / "src" / "a.py"
    assert files.resolve(".").display_path == "."
    assert files.resolve("").path == root


@pytest.mark.contract("permissions:paths")
@pytest.mark.parametrize(
    "given", ["../work-secret/key", "src/../../work-secret/key", "/etc/passwd"]
)
def test_a_path_that_leads_out_is_outside(root: Path, given: str) -> None:
    place = LocalFiles(root).resolve(given)
    assert not place.is_inside
    assert Path(place.display_path).is_absolute()


@pytest.mark.contract("permissions:paths")
def test_a_sibling_whose_name_begins_like_the_workspace_is_outside(root: Path) -> None:
    assert not LocalFiles(root).resolve(f"{root}-secret/key").is_inside


@pytest.mark.contract("permissions:paths")
def test_links_are_followed_before_anything_is_decided(root: Path) -> None:
    (root / "notes").symlink_to("../work-secret/key")
    (root / "folder").symlink_to("../work-secret")
    (root / "inner").symlink_to("src")
    files = LocalFiles(root)
    assert not files.resolve("notes").is_inside
    assert not files.resolve("folder/new/file").is_inside
    assert files.resolve("folder/../work/src/a.py").display_path == "src/a.py"
    assert files.resolve("inner/new.py").display_path == "src/new.py"


@pytest.mark.contract("permissions:paths")
def test_a_link_to_nothing_is_judged_by_where_it_leads(root: Path) -> None:
    (root / "dangling").symlink_to("../elsewhere")
    assert not LocalFiles(root).resolve("dangling").is_inside


def test_a_workspace_reached_through_a_link_is_the_same_workspace(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    files = LocalFiles(link)
    assert files.root == root
    assert files.resolve(str(link / "src" / "a.py")).display_path == "src/a.py"


def test_looking_for_a_repository_leaves_no_file_open(root: Path) -> None:
    (root / ".git").mkdir()
    files = LocalFiles(root)
    files.resolve("a.txt")
    before = Process().num_fds()
    for number in range(10):
        (root / f"{number}.txt").touch()
        files.resolve("a.txt")
    assert Process().num_fds() == before


def test_a_tilde_is_a_name_like_others(root: Path) -> None:
    place = LocalFiles(root).resolve("~/x")
    assert (place.display_path, place.is_inside) == ("~/x", True)


@pytest.mark.parametrize("given", ["a\0b", "x" * 5000, "\ud800"])
def test_a_name_that_no_file_can_have_is_refused(root: Path, given: str) -> None:
    with pytest.raises(ToolError, match="not a usable path"):
        LocalFiles(root).resolve(given)


async def test_a_name_too_long_for_the_file_system_is_an_error_not_a_crash(root: Path) -> None:
    files = LocalFiles(root)
    with pytest.raises(ToolError, match="name too long"):
        await files.read(files.resolve("x" * 300))


def test_a_workspace_must_be_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "nothing", tmp_path / "file"):
        with pytest.raises(WorkspaceError):
            LocalFiles(path)


# Reading


async def test_a_file_is_read_whole_or_in_part(root: Path) -> None:
    files = LocalFiles(root)
    place = files.resolve("src/a.py")
    assert await files.read(place) == b"print(1)\n"
    assert await files.read(place, 5) == b"print"
    assert await files.read(place, 3, offset=5) == b"(1)"
    assert await files.read(place, 3, offset=100) == b""


async def test_a_large_file_is_read_only_as_far_as_wanted(root: Path) -> None:
    path = root / "large"
    with path.open("wb") as file:
        file.truncate(10 * 2**30)
        file.seek(5 * 2**30)
        file.write(b"middle")
    files = LocalFiles(root)
    place = files.resolve("large")
    assert await files.read(place, 6, offset=5 * 2**30) == b"middle"
    assert len(await files.read(place, 2**20)) == 2**20
    with pytest.raises(ToolError, match="larger than 64 MB"):
        await files.read(place)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing", "No such file"),
        ("src", "directory"),
        ("pipe", "not a regular file"),
        ("src/a.py/x", "Not a directory"),
        ("loop", "symbolic links"),
    ],
)
async def test_what_is_no_regular_file_is_not_read(root: Path, name: str, reason: str) -> None:
    os.mkfifo(root / "pipe")
    (root / "loop").symlink_to("loop")
    files = LocalFiles(root)
    with pytest.raises(ToolError, match=reason):
        await files.read(files.resolve(name))


async def test_a_device_is_not_read(root: Path) -> None:
    files = LocalFiles(root)
    with pytest.raises(ToolError, match="not a regular file"):
        await files.read(files.resolve("/dev/zero"), 10)


@pytest.mark.contract("permissions:paths")
async def test_a_link_that_appears_after_the_decision_is_not_followed(root: Path) -> None:
    files = LocalFiles(root)
    file, directory = files.resolve("src/a.py"), files.resolve("deep/b.py")
    (root / "src" / "a.py").unlink()
    (root / "src" / "a.py").symlink_to(root.parent / "work-secret" / "key")
    (root / "deep").symlink_to(root.parent / "work-secret")
    for place in (file, directory):
        with pytest.raises(ToolError):
            await files.read(place)
        with pytest.raises(ToolError):
            await files.write(place, b"overwritten")
        with pytest.raises(ToolError):
            await files.remove(place)
    assert (root.parent / "work-secret" / "key").read_text() == "secret"
    assert names_in(root.parent / "work-secret") == ["key"]


async def test_stat_tells_what_is_there(root: Path) -> None:
    files = LocalFiles(root)
    assert (await files.stat(files.resolve("src/a.py"))).size == 9
    assert (await files.stat(files.resolve("src"))).is_dir
    assert not (await files.stat(files.resolve("src/a.py/x"))).exists


# Writing


async def test_a_new_file_gets_its_directories(root: Path) -> None:
    files = LocalFiles(root)
    await files.write(files.resolve("new/deep/file.txt"), b"hello")
    assert (root / "new" / "deep" / "file.txt").read_bytes() == b"hello"


async def test_a_file_keeps_its_mode_and_no_trace_is_left_beside_it(root: Path) -> None:
    path = root / "src" / "a.py"
    path.chmod(0o751)
    files = LocalFiles(root)
    await files.write(files.resolve("src/a.py"), b"x" * 500_000)
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert path.stat().st_size == 500_000
    assert names_in(root / "src") == ["a.py"]


async def test_writing_to_a_link_changes_the_file_it_leads_to(root: Path) -> None:
    (root / "link").symlink_to("src/a.py")
    files = LocalFiles(root)
    await files.write(files.resolve("link"), b"new")
    assert (root / "link").is_symlink()
    assert (root / "src" / "a.py").read_bytes() == b"new"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("src", "directory"), ("pipe", "not a regular file"), ("src/a.py/x", "Not a directory")],
)
async def test_what_cannot_be_written_says_why(root: Path, name: str, reason: str) -> None:
    os.mkfifo(root / "pipe")
    files = LocalFiles(root)
    with pytest.raises(ToolError, match=f"Cannot write {name}: .*{reason}"):
        await files.write(files.resolve(name), b"x")
    assert names_in(root) == ["pipe", "src"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_a_file_or_directory_that_is_read_only_is_not_written(root: Path) -> None:
    files = LocalFiles(root)
    (root / "src" / "a.py").chmod(0o444)
    with pytest.raises(ToolError, match="read-only"):
        await files.write(files.resolve("src/a.py"), b"x")
    (root / "src").chmod(0o555)
    with pytest.raises(ToolError, match="Permission denied"):
        await files.write(files.resolve("src/b.py"), b"x")
    (root / "src").chmod(0o755)


# Deleting


async def test_a_file_is_deleted_and_its_directory_stays(root: Path) -> None:
    files = LocalFiles(root)
    await files.remove(files.resolve("src/a.py"))
    assert names_in(root / "src") == []


@pytest.mark.contract("permissions:paths")
async def test_a_directory_that_became_a_link_leads_to_no_deletion(root: Path) -> None:
    (root / "deep").mkdir()
    (root / "deep" / "key").touch()
    files = LocalFiles(root)
    place = files.resolve("deep/key")
    (root / "deep" / "key").unlink()
    (root / "deep").rmdir()
    (root / "deep").symlink_to(root.parent / "work-secret")
    with pytest.raises(ToolError, match="Cannot delete deep/key"):
        await files.remove(place)
    assert names_in(root.parent / "work-secret") == ["key"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("src", "directory"),
        (".", "directory"),
        ("pipe", "not a regular file"),
        ("missing", "no such file"),
        ("missing/a.py", "No such file"),
        ("src/a.py/x", "Not a directory"),
    ],
)
async def test_what_cannot_be_deleted_says_why(root: Path, name: str, reason: str) -> None:
    os.mkfifo(root / "pipe")
    files = LocalFiles(root)
    with pytest.raises(ToolError, match=f"Cannot delete .*{reason}"):
        await files.remove(files.resolve(name))
    assert names_in(root) == ["pipe", "src"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may delete everything")
async def test_a_file_that_is_read_only_is_not_deleted(root: Path) -> None:
    files = LocalFiles(root)
    (root / "src" / "a.py").chmod(0o444)
    with pytest.raises(ToolError, match="read-only"):
        await files.remove(files.resolve("src/a.py"))
    assert names_in(root / "src") == ["a.py"]
