"""Few changes are kept without a look of git at everything, and nobody can tell the difference."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from joey.workspace.checkpoints import snapshot as snapshot_module
from joey.workspace.checkpoints.scan import MAX_FILE_BYTES
from tests.harness.counts import shortened_examples
from tests.harness.workspace.checkpoint_workspace import (
    checkpoints_of,
    collect_garbage,
    commit_all,
    free,
    git,
    remove,
    shadow_of,
    snapshot,
)

NAMES = [
    *(b"a", b"a/b", b"a/b/c", b"a.b", b"a-b/c", b"d/x.txt", b"d/y.log", b"nested/in.txt"),
    *(b":colon", b"*.txt", b"-dash", b" space ", b"new\nline", b"\xff\xfe.txt"),
]
RULES = [b"", b"*.log\n", b"d/\n", b"*\n!a\n", b"a*\n", b"/d/*\n!/d/x.txt\n", b"\\:colon\n"]
STEPS = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(NAMES), st.binary(max_size=9), st.booleans()),
    st.tuples(st.just("link"), st.sampled_from(NAMES), st.sampled_from([b"a", b"d", b"none"])),
    st.tuples(st.just("delete"), st.sampled_from(NAMES)),
    st.tuples(
        st.just("rules"), st.sampled_from([b".gitignore", b"d/.gitignore"]), st.sampled_from(RULES)
    ),
    st.tuples(st.just("repository"), st.sampled_from([b"nested", b"d"])),
)
Step = tuple[object, ...]


@given(rounds=st.lists(st.lists(STEPS, max_size=4), min_size=2, max_size=6))
@example(
    rounds=[
        [("write", b"a", b"1", False)],
        [("write", b"a/b/c", b"2", True), ("write", b"a.b", b"3", False)],
        [("link", b"a", b"d"), ("write", b"a-b/c", b"4", False)],
        [("rules", b".gitignore", b"a*\n")],
        [("write", b"a/b", b"5", False)],
    ]
)
@shortened_examples(8, 25)
def test_what_is_kept_is_what_another_process_sees(rounds: list[list[Step]]) -> None:
    with TemporaryDirectory(prefix="joey-test-") as name:
        root, home = Path(name).resolve() / "work", Path(name) / "home"
        root.mkdir()
        (root / "first.txt").write_text("first\n")
        asyncio.run(_compared(root, home, rounds))
        git(root, f"--git-dir={shadow_of(home)}/repository", "fsck", "--strict", "--no-dangling")


async def _compared(root: Path, home: Path, rounds: list[list[Step]]) -> None:
    async with checkpoints_of(root, home) as checkpoints:
        await checkpoints.save("t")
        saved = []
        for steps in rounds:
            for step in steps:
                _do(root, step)
            saved.append(await checkpoints.save("t"))
            assert await checkpoints.list_changes(saved[-1]) == []
            if len(saved) % 2 == 0:
                await _agrees(root, home, saved[-1])
        await _agrees(root, home, saved[-1])


async def _agrees(root: Path, home: Path, saved: str) -> None:
    async with checkpoints_of(root, home) as another:
        assert await another.list_changes(saved) == []


def _do(root: Path, step: Step) -> None:
    match step:
        case "write", bytes(name), bytes(data), bool(executable):
            path = free(root, name)
            path.write_bytes(data)
            path.chmod(0o755 if executable else 0o644)
        case "link", bytes(name), bytes(target):
            free(root, name).symlink_to(os.fsdecode(target))
        case "delete", bytes(name):
            path = root / os.fsdecode(name)
            if os.path.realpath(path.parent) == str(path.parent):
                remove(path)
        case "rules", bytes(name), bytes(rules):
            free(root, name).write_bytes(rules)
        case "repository", bytes(name):
            directory = free(root, name + b"/.git").parent
            git(directory, "init", "-q")
        case _:
            raise AssertionError(step)


async def test_the_index_is_not_read_for_few_changes(root: Path, home: Path) -> None:
    (root / "src").mkdir()
    for name in ("a.py", "src/b.py", "src/gone.py"):
        (root / name).write_text("1\n")
    async with checkpoints_of(root, home) as checkpoints:
        first = await checkpoints.save("t")
        was = snapshot(root)
        index = shadow_of(home) / "repository" / "index"
        before = index.stat()
        (root / "src" / "b.py").write_text("2\n")
        (root / "src" / "gone.py").unlink()
        (root / "src" / "new.py").write_text("3\n")
        second = await checkpoints.save("t")
        after = index.stat()
        assert (after.st_atime_ns, after.st_mtime_ns) == (before.st_atime_ns, before.st_mtime_ns)
        changes = {one.path: one.kind for one in await checkpoints.list_changes(first, second)}
        assert changes == {"src/b.py": "changed", "src/gone.py": "removed", "src/new.py": "added"}
        await checkpoints.restore(first)
        assert snapshot(root) == was


async def test_a_new_file_that_is_ignored_leaves_nothing_in_the_shadow(
    root: Path, home: Path
) -> None:
    (root / ".gitignore").write_text("*.env\n")
    async with checkpoints_of(root, home) as checkpoints:
        first = await checkpoints.save("t")
        (root / "secret.env").write_text("the password\n")
        assert await checkpoints.save("t") == first
        (root / "secret.env").write_text("another password\n")
        (root / "seen.txt").write_text("no secret\n")
        await checkpoints.save("t")
        where = f"--git-dir={shadow_of(home)}/repository"
        objects = git(root, where, "cat-file", "--batch-check", "--batch-all-objects").splitlines()
        blobs = [line.split()[0] for line in objects if " blob " in line]
        held = {git(root, where, "cat-file", "blob", blob) for blob in blobs}
        assert held == {"*.env\n", "no secret\n"}


@pytest.mark.parametrize("in_between", [False, True])
async def test_what_was_kept_once_stays_known_when_it_is_ignored_later(
    root: Path, home: Path, in_between: bool
) -> None:
    """In the same process, and when another one comes in between."""
    (root / "a").write_text("a\n")
    async with checkpoints_of(root, home) as checkpoints:
        await checkpoints.save("t")
        (root / "made.txt").write_text("1\n")
        second = await checkpoints.save("t")
        if not in_between:
            (root / ".gitignore").write_text("made.txt\n")
            assert [one.path for one in await checkpoints.list_changes(second)] == [".gitignore"]
    async with checkpoints_of(root, home) as checkpoints:
        (root / ".gitignore").write_text("made.txt\n")
        (root / "made.txt").write_text("2\n")
        changes = [(one.path, one.kind) for one in await checkpoints.list_changes(second)]
        assert changes == [(".gitignore", "added"), ("made.txt", "changed")]


async def test_what_was_deleted_is_ignored_when_it_comes_again(root: Path, home: Path) -> None:
    """Also by another process, which asks the index what is known."""
    made = root / "made.env"
    made.write_text("1\n")
    async with checkpoints_of(root, home) as checkpoints:
        await checkpoints.save("t")
        (root / ".gitignore").write_text("*.env\n")
        await settled(root / ".gitignore")
        await checkpoints.save("t")
        made.unlink()
        await checkpoints.save("t")
        made.write_text("a secret\n")
        last = await checkpoints.save("t")
        assert await checkpoints.list_changes(last) == []
    async with checkpoints_of(root, home) as another:
        assert await another.list_changes(last) == []


async def settled(path: Path) -> None:
    """Until its times say when it was changed."""
    async with asyncio.timeout(60):
        while _is_fresh(path):  # noqa: ASYNC110 (the clock tells nobody)
            await asyncio.sleep(0.01)


def _is_fresh(path: Path) -> bool:
    seen = snapshot_module.run_quick_scan(path.parent, frozenset())
    return seen is None or os.fsencode(path.name) in seen.unsettled_files


async def test_a_file_that_grows_too_large_is_left_alone(root: Path, home: Path) -> None:
    (root / "grows").write_text("small\n")
    async with checkpoints_of(root, home) as checkpoints:
        first = await checkpoints.save("t")
        os.truncate(root / "grows", MAX_FILE_BYTES + 1)
        (root / "large").touch()
        os.truncate(root / "large", MAX_FILE_BYTES + 1)
        second = await checkpoints.save("t")
        assert await checkpoints.list_changes(first, second) == []
        await checkpoints.restore(first)
        assert (root / "grows").stat().st_size == MAX_FILE_BYTES + 1
        os.truncate(root / "large", 3)
        third = await checkpoints.save("t")
        (root / "large").write_text("changed\n")
        await checkpoints.restore(third)
        assert (root / "large").read_bytes() == b"\0\0\0"


async def test_packed_directories_are_read_again_by_the_next_process(
    root: Path, home: Path
) -> None:
    (root / "src" / "deep").mkdir(parents=True)
    (root / "src" / "deep" / "a.py").write_text("1\n")
    commit_all(root)
    async with checkpoints_of(root, home) as checkpoints:
        first = await checkpoints.save("t")
        await collect_garbage(checkpoints)
    async with checkpoints_of(root, home) as checkpoints:
        assert await checkpoints.save("t") == first
        (root / "src" / "deep" / "b.py").write_text("2\n")
        second = await checkpoints.save("t")
        (change,) = await checkpoints.list_changes(first, second)
        assert (change.path, change.kind) == ("src/deep/b.py", "added")


async def test_a_directory_that_git_ignores_may_be_of_any_size(root: Path, home: Path) -> None:
    (root / ".gitignore").write_text("built/\n*.log\n")
    for directory in ("node_modules", "built", "logs", "src"):
        (root / directory).mkdir()
    for number in range(snapshot_module.MAX_SCANNED_ENTRIES):
        (root / "node_modules" / f"{number}.js").touch()
    (root / "built" / "a.o").touch()
    (root / "logs" / "a.log").touch()
    (root / "src" / "a.py").write_text("1\n")
    async with checkpoints_of(root, home) as checkpoints:
        for _ in range(2):
            first = await checkpoints.save("t")
        index = shadow_of(home) / "repository" / "index"
        before = index.stat()
        (root / "src" / "a.py").write_text("2\n")
        (root / "node_modules" / "new.js").touch()
        (root / "built" / "b.o").touch()
        (root / "logs" / "new.txt").touch()
        second = await checkpoints.save("t")
        changed = [one.path for one in await checkpoints.list_changes(first, second)]
        assert changed == ["logs/new.txt", "src/a.py"]
        assert index.stat() == before
        (root / ".gitignore").write_text("!node_modules/\n")
        third = await checkpoints.save("t")
        assert (
            len(await checkpoints.list_changes(second, third)) > snapshot_module.MAX_SCANNED_ENTRIES
        )
        (root / "node_modules" / "new.js").write_text("seen\n")
        fourth = await checkpoints.save("t")
        changed = [one.path for one in await checkpoints.list_changes(third, fourth)]
        assert changed == ["node_modules/new.js"]
