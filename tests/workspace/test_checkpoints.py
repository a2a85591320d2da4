"""What is kept of a workspace, what is told of it, and what comes back."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from threading import Event

import pytest

from joey.core.file_state import FileChange
from joey.errors import CheckpointError
from joey.workspace.checkpoints.pool import CheckpointStorePool, TaskCheckpoints
from joey.workspace.checkpoints.scan import MAX_FILE_BYTES
from tests.harness.workspace.checkpoint_workspace import (
    checkpoints_of,
    commit_all,
    git,
    is_there,
    measure_size,
    metadata,
    read_file_state,
    shadow_of,
    snapshot,
)


@pytest.fixture
async def checkpoints(root: Path, home: Path) -> AsyncIterator[TaskCheckpoints]:
    async with checkpoints_of(root, home) as made:
        yield made


def write(root: Path, name: str, text: str = "x\n") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


async def test_the_same_files_give_the_same_id(root: Path, checkpoints: TaskCheckpoints) -> None:
    write(root, "a.txt", "one")
    first = await checkpoints.save("t")
    assert await checkpoints.save("t") == first
    write(root, "a.txt", "two")
    second = await checkpoints.save("t")
    assert second != first
    os.utime(root / "a.txt", ns=(1, 1))
    assert await checkpoints.save("t") == second


async def test_the_same_files_give_the_same_id_in_the_next_process(root: Path, home: Path) -> None:
    write(root, "a.txt")
    write(root, "large.bin").write_bytes(bytes(MAX_FILE_BYTES + 1))
    async with checkpoints_of(root, home) as before:
        first = await before.save("t")
    async with checkpoints_of(root, home) as after:
        assert await after.save("t") == first


async def test_changes_and_texts_between_checkpoints_and_now(
    root: Path, checkpoints: TaskCheckpoints
) -> None:
    for name in ("changed", "removed", "same"):
        write(root, name, f"{name} before\n")
    first = await checkpoints.save("t")
    write(root, "changed", "changed after\n")
    write(root, "sub/added", "added\n")
    (root / "removed").unlink()
    (root / "link").symlink_to("same")
    second = await checkpoints.save("t")
    expected = [
        FileChange("changed", "changed"),
        FileChange("link", "added"),
        FileChange("removed", "removed"),
        FileChange("sub/added", "added"),
    ]
    assert await checkpoints.list_changes(first, second) == expected
    assert await checkpoints.list_changes(first) == expected
    assert await checkpoints.list_changes(second) == []
    diffs = [(one.path, one.text_before, one.text_after) for one in await checkpoints.diff(first)]
    assert diffs == [
        ("changed", "changed before\n", "changed after\n"),
        ("link", None, "same"),
        ("removed", "removed before\n", None),
        ("sub/added", None, "added\n"),
    ]


async def test_a_diff_shows_no_bytes_and_no_endless_texts(
    root: Path, checkpoints: TaskCheckpoints
) -> None:
    first = await checkpoints.save("t")
    (root / "bytes").write_bytes(b"\0\1\2")
    write(root, "long", "x" * 300_000)
    write(root, "short", "x")
    for number in range(300):
        write(root, f"z/{number:03}", f"z{number}")
    diffs = {one.path: one for one in await checkpoints.diff(first)}
    assert len(diffs) == 303
    assert (diffs["bytes"].text_after, diffs["long"].text_after, diffs["short"].text_after) == (
        None,
        None,
        "x",
    )
    assert (diffs["z/000"].text_after, diffs["z/299"].text_after) == ("z0", None)


@pytest.mark.contract("checkpoints:exact")
@pytest.mark.parametrize("in_git", [True, False])
async def test_what_git_does_not_ignore_is_kept(
    root: Path, checkpoints: TaskCheckpoints, in_git: bool
) -> None:
    kept = ["poetry.lock", ".env", "data.csv", "logo.png", "bin/tool", "vendor/x.c", "dist/x.js"]
    ignored = ["build/out.o", "sub/secret.key", "node_modules/x/index.js", ".venv/lib/x.py"]
    for name in (*kept, *ignored):
        write(root, name, "before")
    write(root, ".gitignore", "build/\n")
    write(root, "sub/.gitignore", "*.key\n")
    if in_git:
        commit_all(root)
    first = await checkpoints.save("t")
    for name in (*kept, *ignored):
        write(root, name, "after")
    for name in ("build/new.o", "sub/new.key", "node_modules/new.js"):
        write(root, name)
    assert sorted(change.path for change in await checkpoints.restore(first)) == sorted(kept)
    assert {(root / name).read_text() for name in kept} == {"before"}
    assert {(root / name).read_text() for name in ignored} == {"after"}
    assert (root / "build/new.o").exists() and (root / "sub/new.key").exists()


async def test_a_file_that_is_ignored_but_tracked_is_kept(
    root: Path, checkpoints: TaskCheckpoints
) -> None:
    write(root, ".gitignore", "*.log\n")
    write(root, "kept.log", "before")
    git(root, "init", "-q")
    git(root, "add", "-f", "kept.log")
    first = await checkpoints.save("t")
    write(root, "kept.log", "after")
    write(root, "other.log", "after")
    await checkpoints.restore(first)
    assert (root / "kept.log").read_text() == "before"
    assert (root / "other.log").read_text() == "after"


async def test_a_file_that_was_put_on_the_ignore_list_is_not_deleted(
    root: Path, checkpoints: TaskCheckpoints
) -> None:
    first = await checkpoints.save("t")
    write(root, "notes.txt")
    await checkpoints.save("t")
    write(root, ".gitignore", "notes.txt\n")
    await checkpoints.restore(first)
    assert (root / "notes.txt").exists()
    assert not (root / ".gitignore").exists()


@pytest.mark.contract("checkpoints:exact")
async def test_a_large_file_is_neither_kept_nor_touched(
    root: Path, checkpoints: TaskCheckpoints
) -> None:
    large = bytes(MAX_FILE_BYTES + 1)
    write(root, "grows", "small")
    (root / "shrinks").write_bytes(large)
    first = await checkpoints.save("t")
    (root / "grows").write_bytes(large)
    write(root, "shrinks", "small")
    (root / "new").write_bytes(large)
    second = await checkpoints.save("t")
    assert await checkpoints.list_changes(first, second) == []
    assert await checkpoints.restore(first) == []
    assert (root / "grows").stat().st_size == len(large)
    assert (root / "shrinks").read_text() == "small"
    assert (root / "new").stat().st_size == len(large)
    shadow = measure_size(checkpoints)
    assert shadow < 1_000_000


@pytest.mark.contract("checkpoints:exact")
async def test_repositories_inside_are_kept_like_everything_else(
    root: Path, checkpoints: TaskCheckpoints
) -> None:
    for directory in ("lib", "lib/deep", "sub/module", "empty"):
        write(root, f"{directory}/file.txt", "before")
        write(root, f"{directory}/.gitignore", "*.o\n")
        commit_all(root / directory)
    (root / "empty/file.txt").unlink()
    (root / "empty/.gitignore").unlink()
    write(root, "lib/deep/x.o", "object")
    write(root, "top.txt", "before")
    commit_all(root)
    before, theirs = snapshot(root), metadata(root)
    first = await checkpoints.save("t")
    assert await checkpoints.save("t") == first
    for directory in ("lib", "lib/deep", "sub/module", "empty"):
        write(root, f"{directory}/file.txt", "after")
        write(root, f"{directory}/new.txt", "new")
    (root / "lib/deep/.gitignore").unlink()
    second = await checkpoints.save("t")
    assert len(await checkpoints.list_changes(first, second)) >= 8
    await checkpoints.restore(first)
    assert snapshot(root) == before
    assert metadata(root) == theirs


@pytest.mark.contract("checkpoints:exact")
async def test_a_repository_in_the_place_of_a_file_is_kept_at_once(root: Path, home: Path) -> None:
    (root / "vendor").write_text("fetched later\n")
    async with checkpoints_of(root, home) as checkpoints:
        await checkpoints.save("t")
    (root / "vendor").unlink()
    (root / "vendor").mkdir()
    (root / "vendor" / "a.txt").write_text("a\n")
    commit_all(root / "vendor")
    async with checkpoints_of(root, home) as checkpoints:
        saved = await checkpoints.save("t")
        was = snapshot(root)
        (root / "vendor" / "a.txt").write_text("b\n")
        await checkpoints.restore(saved)
        assert snapshot(root) == was


@pytest.mark.contract("checkpoints:exact")
async def test_a_part_of_a_repository_follows_its_ignore_lists(root: Path, home: Path) -> None:
    top = "*.tmp\n/packages/*/dist/\n/dist/\nother/gen/\n**/cache/\n!keep.tmp\n"
    write(root, ".gitignore", top)
    part = root / "packages/part"
    ignored = ["x.tmp", "dist/x.js", "deep/cache/x"]
    kept = ["keep.tmp", "deep/dist/x.js", "gen/x"]
    for name in (*ignored, *kept):
        write(part, name, "before")
    commit_all(root)
    async with checkpoints_of(part, home) as checkpoints:
        first = await checkpoints.save("t")
        for name in (*ignored, *kept):
            write(part, name, "after")
        restored = await checkpoints.restore(first)
    assert sorted(change.path for change in restored) == sorted(kept)


async def test_a_workspace_that_a_repository_above_ignores_is_kept(root: Path, home: Path) -> None:
    write(root, ".gitignore", "*\n")
    commit_all(root)
    write(root, "project/a.txt", "before")
    async with checkpoints_of(root / "project", home) as checkpoints:
        first = await checkpoints.save("t")
        write(root, "project/a.txt", "after")
        assert await checkpoints.restore(first) == [FileChange("a.txt", "changed")]


async def test_a_worktree_has_checkpoints_too(root: Path, home: Path) -> None:
    write(root, "a.txt", "before")
    commit_all(root)
    tree = root.parent / "tree"
    git(root, "worktree", "add", "-q", str(tree))
    link = (tree / ".git").read_bytes()
    async with checkpoints_of(tree, home) as checkpoints:
        first = await checkpoints.save("t")
        write(tree, "a.txt", "after")
        assert await checkpoints.restore(first) == [FileChange("a.txt", "changed")]
    assert (tree / ".git").read_bytes() == link
    assert git(tree, "status", "--porcelain") == ""


@pytest.mark.contract("checkpoints:untouched")
async def test_the_users_git_runs_and_configures_nothing(
    root: Path, checkpoints: TaskCheckpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tmp_path / "trace"
    script = write(tmp_path, "script.sh", f"#!/bin/sh\necho $0 $@ >> {trace}\ncat\n")
    script.chmod(0o755)
    settings = "\n".join(
        [
            f"[core]\n\tfsmonitor = {script}\n\thooksPath = {tmp_path}\n\tautocrlf = true",
            f"\texcludesFile = {write(tmp_path, 'excludes', '*')}",
            f"\tattributesFile = {write(tmp_path, 'attributes', '* filter=x text eol=crlf')}",
            f'[filter "x"]\n\tclean = {script}\n\tsmudge = {script}\n\tprocess = {script}',
            f"[diff]\n\texternal = {script}",
            f"[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = {script}",
            f"[credential]\n\thelper = {script}",
        ]
    )
    write(Path(os.environ["HOME"]), ".gitconfig", settings)
    write(root, ".gitattributes", "* filter=x text eol=crlf diff=x\n")
    (root / "a.txt").write_bytes(b"a\r\nb\n")
    commit_all(root)
    with (root / ".git/config").open("a") as config:
        config.write(settings)
    for name in ("post-commit", "pre-commit", "post-index-change", "reference-transaction"):
        (root / ".git/hooks" / name).write_bytes(script.read_bytes())
        (root / ".git/hooks" / name).chmod(0o755)
    for name in ("DIR", "INDEX_FILE", "WORK_TREE", "OBJECT_DIRECTORY"):
        monkeypatch.setenv(f"GIT_{name}", str(tmp_path / "elsewhere"))
    theirs = metadata(root)
    first = await checkpoints.save("t")
    (root / "a.txt").write_bytes(b"c\n")
    await checkpoints.save("t")
    await checkpoints.diff(first)
    await checkpoints.restore(first)
    assert (root / "a.txt").read_bytes() == b"a\r\nb\n"
    assert metadata(root) == theirs
    assert not trace.exists()


@pytest.mark.contract("checkpoints:untouched")
async def test_nothing_is_written_through_a_link(
    root: Path, checkpoints: TaskCheckpoints, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    write(root, "sub/a.txt", "before")
    first = await checkpoints.save("t")
    outside.mkdir()
    write(outside, "a.txt", "theirs")
    (root / "sub/a.txt").unlink()
    (root / "sub").rmdir()
    (root / "sub").symlink_to(outside)
    await checkpoints.restore(first)
    assert (root / "sub/a.txt").read_text() == "before"
    assert not (root / "sub").is_symlink()
    assert (outside / "a.txt").read_text() == "theirs"


@pytest.mark.contract("checkpoints:untouched")
async def test_a_link_in_the_way_that_git_ignores_stops_a_file_and_not_the_others(
    root: Path, checkpoints: TaskCheckpoints, tmp_path: Path
) -> None:
    write(root, "sub/a.txt", "before")
    write(root, "b.txt", "before")
    first = await checkpoints.save("t")
    (root / "sub/a.txt").unlink()
    (root / "sub").rmdir()
    (root / "sub").symlink_to(tmp_path)
    write(root, "b.txt", "after")
    write(root, ".gitignore", "/sub\n")
    with pytest.raises(CheckpointError, match=r"2 files were restored, but not sub/a.txt"):
        await checkpoints.restore(first)
    assert (root / "b.txt").read_text() == "before"
    assert not (tmp_path / "a.txt").exists()


@pytest.mark.contract("checkpoints:untouched")
async def test_a_directory_that_turns_into_a_link_meanwhile_leads_nowhere(
    root: Path, checkpoints: TaskCheckpoints, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for number in range(60):
        write(root, f"sub/deep/{number}", "before")
    first = await checkpoints.save("t")
    done = Event()
    sub, aside = root / "sub", root / "aside"

    def swap() -> None:
        steps = (
            lambda: sub.rename(aside),
            lambda: sub.symlink_to(outside),
            lambda: [sub.lstat() for _ in range(100)],
            sub.unlink,
            lambda: aside.rename(sub),
            lambda: shutil.rmtree(aside),
            lambda: [sub.lstat() for _ in range(100)],
        )
        while not done.is_set():
            for step in steps:
                with suppress(OSError):  # files are written here meanwhile
                    step()

    swapping = asyncio.create_task(asyncio.to_thread(swap))
    for _ in range(10):
        with suppress(CheckpointError):
            await checkpoints.restore(first)
    done.set()
    await swapping
    assert list(outside.iterdir()) == []


async def test_restoring_keeps_what_permissions_a_file_has(
    root: Path, checkpoints: TaskCheckpoints
) -> None:
    secret = write(root, "secret", "before")
    secret.chmod(0o600)
    tool = write(root, "tool", "before")
    tool.chmod(0o750)
    first = await checkpoints.save("t")
    write(root, "secret", "after")
    tool.chmod(0o640)
    await checkpoints.restore(first)
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert stat.S_IMODE(tool.stat().st_mode) == 0o750


async def test_directories_that_restoring_empties_go_and_others_stay(
    root: Path, checkpoints: TaskCheckpoints
) -> None:
    write(root, "kept/.gitignore", "*.o\n")
    first = await checkpoints.save("t")
    write(root, "new/deep/a.txt")
    write(root, "kept/new/a.txt")
    write(root, "kept/new/a.o")
    await checkpoints.restore(first)
    assert not (root / "new").exists()
    assert (root / "kept/new/a.o").exists()


async def test_pipes_are_left_alone(root: Path, checkpoints: TaskCheckpoints) -> None:
    write(root, "a", "before")
    first = await checkpoints.save("t")
    (root / "a").unlink()
    os.mkfifo(root / "a")
    os.mkfifo(root / "b")
    await checkpoints.save("t")
    assert await checkpoints.restore(first) == []
    assert read_file_state(root / "a")[0] == read_file_state(root / "b")[0] == "other"


@pytest.mark.contract("checkpoints:exact")
@pytest.mark.parametrize("name", ["", "Desktop", "Documents", "Downloads"])
async def test_the_home_of_many_things_is_refused(home: Path, name: str) -> None:
    directory = Path(os.environ["HOME"]) / name
    directory.mkdir(exist_ok=True)
    async with checkpoints_of(directory, home) as checkpoints:
        checkpoints.prewarm("t")
        with pytest.raises(CheckpointError, match="not a project"):
            await checkpoints.save("t")
    assert not is_there(home)


@pytest.mark.contract("checkpoints:exact")
async def test_without_git_it_says_so(
    checkpoints: TaskCheckpoints, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CheckpointError, match="git is not installed"):
        await checkpoints.save("t")


@pytest.mark.parametrize("name", ["HEAD", "--output=x", "0" * 40, ""])
async def test_what_is_no_checkpoint_is_refused(
    root: Path, checkpoints: TaskCheckpoints, name: str
) -> None:
    await checkpoints.save("t")
    for question in (
        checkpoints.list_changes(name),
        checkpoints.diff(name),
        checkpoints.restore(name),
    ):
        with pytest.raises(CheckpointError, match="checkpoint"):
            await question


async def test_joeys_own_directory_is_not_kept(root: Path) -> None:
    home = root / ".joey"
    async with checkpoints_of(root, home) as checkpoints:
        write(home, "tasks/t/journal.jsonl", "before")
        write(root, ".gitignore", "!.joey\n")
        first = await checkpoints.save("t")
        write(home, "tasks/t/journal.jsonl", "after")
        assert await checkpoints.restore(first) == []
        assert await checkpoints.save("t") == first


@pytest.mark.contract("checkpoints:untouched")
async def test_directories_and_files_are_private(
    root: Path, home: Path, checkpoints: TaskCheckpoints
) -> None:
    write(root, "a.txt")
    await checkpoints.save("t")
    shadow = shadow_of(home)
    assert (shadow / "workspace").read_text() == f"{root}\n"
    for path in (shadow.parent, shadow):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    for path in shadow.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


async def test_tasks_of_one_workspace_share_one_shadow(root: Path, home: Path) -> None:
    stores = CheckpointStorePool(home)
    one, other = stores.lease(root), stores.lease(root)
    one.prewarm("one")
    other.prewarm("other")
    write(root, "a.txt", "before")
    first, second = await asyncio.gather(one.save("one"), other.save("other"))
    write(root, "a.txt", "after")
    await one.close()
    assert await other.list_changes(first) == await other.list_changes(second)
    await other.restore(first)
    assert (root / "a.txt").read_text() == "before"
    await other.close()
    assert shadow_of(home)


async def test_what_is_not_to_be_kept_is_gone_after_the_last_task(root: Path, home: Path) -> None:
    stores = CheckpointStorePool(home, persistent=False)
    checkpoints = stores.lease(root)
    write(root, "a.txt", "before")
    first = await checkpoints.save("t")
    write(root, "a.txt", "after")
    await checkpoints.restore(first)
    assert (root / "a.txt").read_text() == "before"
    passing = stores._temporary_directory
    assert passing is not None and passing.exists()
    await checkpoints.close()
    assert not is_there(passing) and not is_there(home)


async def test_what_a_task_began_with_is_kept_while_it_thinks(root: Path, home: Path) -> None:
    write(root, "a.txt", "before")
    async with checkpoints_of(root, home) as checkpoints:
        checkpoints.prewarm("t")
        refs = ("for-each-ref", "--format=%(objectname)", "refs/joey/t/")
        async with asyncio.timeout(20):
            while not (found := _shadow_git(home, *refs)):  # noqa: ASYNC110 (git has no events)
                await asyncio.sleep(0.01)
        assert await checkpoints.save("t") == found


def _shadow_git(home: Path, *arguments: str) -> str:
    directory = home / "checkpoints"
    if not directory.exists() or not (shadow_of(home) / "repository").exists():
        return ""
    return git(directory, "--git-dir", str(shadow_of(home) / "repository"), *arguments).strip()


async def test_nothing_is_made_before_it_is_needed(root: Path, home: Path) -> None:
    async with checkpoints_of(root, home):
        pass
    assert not is_there(home)
