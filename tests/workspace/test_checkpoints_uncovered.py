"""Which files no checkpoint has, asked by their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.workspace.checkpoint_workspace import checkpoints_of, git

pytestmark = pytest.mark.contract("rewind:files")


async def test_what_is_not_kept_is_reported_with_the_reason(root: Path, home: Path) -> None:
    git(root, "init", "--quiet")
    (root / ".gitignore").write_text("*.log\nbuild/\n!asked.log\n")
    nested = root / "nested"
    nested.mkdir()
    git(nested, "init", "--quiet")
    (nested / ".gitignore").write_text("*.tmp\n")
    (root / "sub").mkdir()
    (root / "alias").symlink_to("sub")
    (root / "far").symlink_to(root.parent)
    (root / "big").write_bytes(b"x" * (11 * 1024 * 1024))
    reasons = {
        "a.log": "ignored",
        "build/gone.txt": "ignored",
        "nested/a.tmp": "ignored",
        "alias/a.log": "ignored",
        "node_modules/a.js": "ignored",
        ".git/config": "ignored",
        "nested/.git/config": "ignored",
        "far/a.txt": "outside",
        "../a.txt": "outside",
        "/nowhere/a.txt": "outside",
        "big": "large",
    }
    kept = ["a.txt", "asked.log", "nested/a.txt", "alias/a.txt", "-x", ":(top)y", "sp ace.txt"]
    async with checkpoints_of(root, home) as checkpoints:
        await checkpoints.save("task")
        left = await checkpoints.list_unrestorable_files([*kept, *reasons])
        assert [(each.path, each.reason) for each in left] == list(reasons.items())
        assert await checkpoints.list_unrestorable_files([]) == []
