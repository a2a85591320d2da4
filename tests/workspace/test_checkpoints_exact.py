"""Whatever is done to files: what is restored is what was, and the user's git sees nothing."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.harness.counts import shortened_examples
from tests.harness.workspace.checkpoint_workspace import (
    checkpoints_of,
    commit_all,
    free,
    git,
    metadata,
    remove,
    snapshot,
)

NAMES = [
    *(b"a", b"a/b", b"a/b/c", b"d/x.txt", b"d/y.txt", b"nested/in.txt", b"nested/deep/in.txt"),
    *(b"new\nline", b"back\\slash", b"-dash", b":colon", b"*.txt", b" space ", b"\xff\xfe.txt"),
    *(b".env", b"bin/tool", b"vendor/x.c", b"package.lock", b"data.csv", b"logo.png", b"git~1"),
]
ATTRIBUTES = [
    b"* text eol=crlf\n",
    b"* text=auto ident\n*.txt filter=shout\n",
    b"*.txt working-tree-encoding=UTF-16\n* export-subst\n",
    b"[attr]odd text eol=lf ident filter=shout\n* odd\n",
    b"* filter=lfs diff=lfs merge=lfs -text\n",
]
CONTENTS = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [b"a\r\nb\n", b"$Id$ $Id: x $\r\n", b"\xff\xfea\0", b"a\n", b"", b"$Format:%H$"]
    ),
)
STEPS = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(NAMES), CONTENTS, st.booleans()),
    st.tuples(st.just("link"), st.sampled_from(NAMES), st.sampled_from([b"a", b"/etc", b"none"])),
    st.tuples(st.just("delete"), st.sampled_from(NAMES)),
    st.tuples(st.just("chmod"), st.sampled_from(NAMES), st.booleans()),
    st.tuples(st.just("attributes"), st.sampled_from(ATTRIBUTES)),
)


@pytest.mark.contract("checkpoints:exact", "checkpoints:untouched")
@given(
    rounds=st.lists(st.lists(STEPS, max_size=6), min_size=1, max_size=5),
    chosen=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    in_git=st.booleans(),
)
@example(
    rounds=[
        [("write", b"a", b"1", False)],
        [("write", b"a/b/c", b"2", True)],
        [("link", b"a", b"/etc")],
    ],
    chosen=[0, 2, 1, 0],
    in_git=True,
)
@shortened_examples(10, 30)
def test_every_checkpoint_gives_back_what_was(
    rounds: list[list[tuple[object, ...]]], chosen: list[int], in_git: bool
) -> None:
    with TemporaryDirectory(prefix="joey-test-") as name:
        root, home = Path(name).resolve() / "work", Path(name) / "home"
        (root / "nested").mkdir(parents=True)
        (root / "nested" / "first.txt").write_bytes(b"first\r\n")
        commit_all(root / "nested")
        if in_git:
            commit_all(root)
            git(root, "config", "filter.shout.clean", "tr a-z A-Z")
        before = metadata(root)
        asyncio.run(_there_and_back(root, home, rounds, chosen))
        assert metadata(root) == before


async def _there_and_back(
    root: Path, home: Path, rounds: list[list[tuple[object, ...]]], chosen: list[int]
) -> None:
    async with checkpoints_of(root, home) as checkpoints:
        saved = []
        for steps in rounds:
            for step in steps:
                _do(root, step)
            saved.append((await checkpoints.save("t"), snapshot(root)))
            assert await checkpoints.list_changes(saved[-1][0]) == []
        for number in chosen:
            checkpoint, was = saved[number % len(saved)]
            changes = await checkpoints.list_changes(checkpoint)
            changed = await checkpoints.restore(checkpoint)
            assert snapshot(root) == was
            assert len(changes) == len(changed)
            assert await checkpoints.restore(checkpoint) == []


def _do(root: Path, step: tuple[object, ...]) -> None:
    match step:
        case "write", bytes(name), bytes(data), bool(executable):
            path = free(root, name)
            path.write_bytes(data)
            path.chmod(0o755 if executable else 0o644)
        case "link", bytes(name), bytes(target):
            free(root, name).symlink_to(os.fsdecode(target))
        case "delete", bytes(name):
            path = root / os.fsdecode(name)
            if path.parent == path.parent.resolve():
                remove(path)
        case "chmod", bytes(name), bool(executable):
            path = root / os.fsdecode(name)
            if path == path.resolve() and path.is_file():
                path.chmod(0o755 if executable else 0o644)
        case "attributes", bytes(data):
            root.joinpath(".gitattributes").write_bytes(data)
        case _:
            raise AssertionError(step)
