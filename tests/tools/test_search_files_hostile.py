"""Trees that mean no good: searching and listing them ends soon, in little memory."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from joey.errors import ToolError
from joey.ports.tool_context import ToolContext
from joey.tools.list_files import ListFiles
from joey.tools.search_files import SearchFiles
from tests.harness.tools.hostile_files import (
    limit_peak_memory,
    make_long_line,
    make_sparse,
    make_special_files,
)
from tests.harness.tools.tool_context import make_context

searcher, lister = SearchFiles(), ListFiles()


@pytest.fixture
def ctx(tmp_path: Path) -> ToolContext:
    return make_context(tmp_path)


async def search(ctx: ToolContext, regex: str, path: str = ".", **more: Any) -> str:
    params = searcher.parse({"path": path, "regex": regex, **more})
    async with asyncio.timeout(20):
        return (await searcher.run_prepared(await searcher.prepare(params, ctx), ctx, None)).text


async def listed(ctx: ToolContext, path: str = ".", recursive: bool = True) -> str:
    params = lister.parse({"path": path, "recursive": recursive})
    async with asyncio.timeout(20):
        return (await lister.run_prepared(await lister.prepare(params, ctx), ctx, None)).text


@pytest.mark.contract("read:hostile")
async def test_special_files_are_passed_over_by_a_search(ctx: ToolContext) -> None:
    names = make_special_files(ctx.files.root)
    (ctx.files.root / "a.txt").write_text("needle\n")
    assert await search(ctx, "needle") == "Found 1 matching line.\n\n# a.txt\n>  1 | needle"
    for name in (*names, "/dev/zero"):
        with pytest.raises(ToolError, match=r"Cannot search .*: it is neither|does not exist"):
            await search(ctx, "needle", name)


@pytest.mark.contract("tool:list_files:success:special")
@pytest.mark.parametrize("recursive", [False, True])
async def test_special_files_are_named_in_a_list(ctx: ToolContext, recursive: bool) -> None:
    names = make_special_files(ctx.files.root)
    (ctx.files.root / "a.txt").write_text("x\n")
    text = await listed(ctx, recursive=recursive)
    assert text.split("\n") == ["a.txt", "back", "loop", "pipe", "socket", "there"]
    for name in names:
        with pytest.raises(ToolError, match="Cannot list"):
            await listed(ctx, name)


@pytest.mark.contract("read:hostile")
async def test_a_huge_file_does_not_hold_up_a_search(ctx: ToolContext) -> None:
    make_sparse(ctx.files.root / "zeros")
    make_sparse(ctx.files.root / "log.txt", b"needle\n" + b"a line\n" * 20_000)
    (ctx.files.root / "z.txt").write_text("needle\n")
    with limit_peak_memory(16):
        text = await search(ctx, "needle|^$")
    assert "# z.txt\n>  1 | needle" in text
    (ctx.files.root / "small.bin").write_bytes(b"\0\nneedle\n")
    with pytest.raises(ToolError, match=r"small\.bin is a binary file"):
        await search(ctx, "needle", "small.bin")
    (ctx.files.root / "wide.txt").write_text("needle\n", encoding="utf-16")
    assert "1 | needle" in await search(ctx, "needle", "wide.txt")
    assert await search(ctx, "thread", "wide.txt") == "Found 0 matching lines."


@pytest.mark.contract("read:hostile")
async def test_matches_in_a_line_of_a_hundred_megabytes_are_cut(ctx: ToolContext) -> None:
    make_long_line(ctx.files.root / "a.min.js")
    (ctx.files.root / "b.txt").write_text("x\n")
    with limit_peak_memory(16):
        text = await search(ctx, "x")
    assert text.startswith("Found 2 matching lines.\n\n# a.min.js\n>  1 | xxx")
    assert "[truncated...]\n   2 | needle\n\n# b.txt\n>  1 | x" in text
    assert len(text) < 2000


@pytest.mark.contract("read:hostile")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can limit another process")
async def test_a_line_that_fits_no_memory_does_not_spoil_the_search(
    ctx: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("joey.workspace.ripgrep.MAX_MEMORY_BYTES", 96 * 2**20)
    make_long_line(ctx.files.root / "a.min.js")
    (ctx.files.root / "b.txt").write_text("needle\n")
    text = await search(ctx, "needle")
    assert "Found 1 matching line.\n\n# b.txt\n>  1 | needle" in text
    assert "Note: Files of more than 64MB were not searched" in text
    with pytest.raises(ToolError, match="a line that is too long"):
        await search(ctx, "needle", "a.min.js")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can limit another process")
@pytest.mark.parametrize("use", [search, listed])
async def test_ignore_rules_without_end_are_an_error_that_says_so(
    ctx: ToolContext, monkeypatch: pytest.MonkeyPatch, use: Callable[..., Awaitable[str]]
) -> None:
    monkeypatch.setattr("joey.workspace.ripgrep.MAX_MEMORY_BYTES", 96 * 2**20)
    (ctx.files.root / ".gitignore").symlink_to("/dev/zero")
    (ctx.files.root / "a.txt").write_text("needle\n")
    with pytest.raises(ToolError, match=r"more than 96 MB of memory.*ignored"):
        await use(ctx, "needle") if use is search else await use(ctx)


@pytest.mark.contract("read:hostile")
async def test_names_with_line_breaks_or_no_utf_8_are_shown_on_one_line(ctx: ToolContext) -> None:
    root = ctx.files.root
    (root / "a\n").mkdir()
    for name in (f"a\n/{root}/b.txt"[:40], "a\n/c.txt", "d\n\n\ne", os.fsdecode(b"f\xe9\xff")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("needle\n")
    text = await search(ctx, "needle")
    for shown in ("# a\\n/c.txt\n", "# d\\n\\n\\ne\n", "# f\ufffd\ufffd\n"):
        assert shown in text
    assert text.count("\n# ") == 4
    names = await listed(ctx)
    assert {"a\\n/", "a\\n/c.txt", "d\\n\\n\\ne", "f\ufffd\ufffd"} <= set(names.split("\n"))


async def test_a_name_that_repeats_the_workspace_is_not_taken_for_another_file(
    ctx: ToolContext,
) -> None:
    root = ctx.files.root
    (root / f"x\n{root}").mkdir(parents=True)
    (root / f"x\n{root}/secret.txt").write_text("needle\n")
    assert f"# x\\n{root}/secret.txt\n" in await search(ctx, "needle")
    assert "# secret.txt" not in await search(ctx, "needle")


@pytest.mark.contract("read:hostile")
async def test_a_warning_about_a_binary_file_is_not_taken_for_a_name(ctx: ToolContext) -> None:
    (ctx.files.root / "a.bin").write_bytes(b"needle\n" + b"text\n" * 100_000 + b"\0needle\n")
    (ctx.files.root / "b.txt").write_text("needle\n")
    text = await search(ctx, "needle")
    assert "# b.txt\n>  1 | needle" in text
    assert "WARNING" not in text


@pytest.mark.contract("tool:search_files:success:order")
@pytest.mark.parametrize("files", [350, 1200])
async def test_the_first_hits_by_name_are_shown_however_many_there_are(
    ctx: ToolContext, files: int
) -> None:
    for number in range(files):
        directory = ctx.files.root / f"{number % 7}"
        directory.mkdir(exist_ok=True)
        (directory / f"{number:04}.txt").write_text("needle\n\n\n\n" * 5)
    text = await search(ctx, "needle")
    assert text.startswith("Showing the first 300 matching lines without context;")
    shown = [line for line in text.split("\n") if line.startswith("# ")]
    there = sorted(path.relative_to(ctx.files.root) for path in ctx.files.root.rglob("*.txt"))
    assert shown == [f"# {path}" for path in there[:60]]


async def test_a_tree_too_deep_for_any_path_is_listed_as_far_as_it_goes(ctx: ToolContext) -> None:
    top = os.open(ctx.files.root, os.O_RDONLY)
    here = top
    for _ in range(40):
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    (ctx.files.root / "a.txt").write_text("needle\n")
    assert "a.txt" in (await listed(ctx)).split("\n")
    assert "# a.txt" in await search(ctx, "needle")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_directory_that_may_not_be_read_does_not_spoil_the_list(ctx: ToolContext) -> None:
    (ctx.files.root / "closed").mkdir(mode=0)
    (ctx.files.root / "a.txt").write_text("x\n")
    assert await listed(ctx) == "a.txt\nclosed/"
