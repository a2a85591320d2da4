"""Files that mean no good: each gets a clear answer, in little memory, and nobody waits for it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from joey.content.isolated_workers import IsolatedDocumentReader
from joey.content.outlines import OutlineExtractor
from joey.core.models import ToolProtocol
from joey.core.path_access import ResolvedPath
from joey.errors import ToolError
from joey.ports.tool_context import Capabilities, ToolContext
from joey.tools.base import Outcome
from joey.tools.read_file import ReadFile
from joey.workspace.files import LocalFiles
from tests.harness.content.sample_documents import bomb
from tests.harness.tools.hostile_files import (
    LONG_LINE_BYTES,
    limit_peak_memory,
    make_long_line,
    make_sparse,
    make_special_files,
)
from tests.harness.tools.tool_context import make_context

tool = ReadFile()


@pytest.fixture(params=list(ToolProtocol))
def ctx(tmp_path: Path, request: pytest.FixtureRequest) -> ToolContext:
    context = make_context(tmp_path, protocol=request.param)
    extras = Capabilities(
        outlines=OutlineExtractor(), documents=IsolatedDocumentReader(context.files)
    )
    return make_context(tmp_path, protocol=request.param, files=context.files, capabilities=extras)


async def outcome(ctx: ToolContext, *paths: str, **fields: Any) -> Outcome:
    arguments = {"files": [{"path": path, **fields} for path in paths]}
    async with asyncio.timeout(20):
        return await tool.run_prepared(await tool.prepare(tool.parse(arguments), ctx), ctx, None)


@pytest.mark.contract("tool:read_file:failure:special", "read:hostile")
async def test_what_is_no_regular_file_is_refused_at_once(ctx: ToolContext) -> None:
    names = make_special_files(ctx.files.root)
    (ctx.files.root / "device").symlink_to("/dev/zero")
    for name in (*names, "device", "/dev/random", "/dev/stdin"):
        result = await outcome(ctx, name)
        assert result.is_error
        assert any(why in result.text for why in ("not a regular file", "not found")), name
    (ctx.files.root / "folder").mkdir()
    assert "is a directory" in (await outcome(ctx, "folder")).text


@pytest.mark.contract("read:hostile")
async def test_a_huge_file_takes_little_memory(ctx: ToolContext) -> None:
    make_sparse(ctx.files.root / "zeros.txt")
    make_sparse(ctx.files.root / "log.txt", b"a line of the log\n" * 20_000)
    with limit_peak_memory(32):
        result = await outcome(ctx, "zeros.txt", "log.txt")
    assert "Binary file (txt) - content not displayed" in result.text
    assert "of more than " in result.text
    with limit_peak_memory(32):
        result = await outcome(ctx, "log.txt", line_ranges=[[19_999, 20_000]])
    assert "20000 | a line of the log\n" in result.text


@pytest.mark.contract("read:hostile")
@pytest.mark.parametrize("name", ["a.docx", "a.pdf", "a.xlsx", "a.ipynb", "a.png", "a.py"])
async def test_a_huge_file_of_any_kind_takes_little_memory(ctx: ToolContext, name: str) -> None:
    make_sparse(ctx.files.root / name, b"\x89PNG\r\n\x1a\n" if name == "a.png" else b"x\n")
    with limit_peak_memory(32):
        text = (await outcome(ctx, name)).text
    refusals = ("larger than 64 MB", "too large (2048.0 MB)", "Binary file (py)")
    assert any(refusal in text for refusal in refusals)


@pytest.mark.contract("read:hostile")
async def test_a_line_of_a_hundred_megabytes_is_cut(ctx: ToolContext) -> None:
    make_long_line(ctx.files.root / "a.min.js")
    with limit_peak_memory(32):
        result = await outcome(ctx, "a.min.js")
    assert "Line 1 is cut" in result.text
    assert len(result.text) < LONG_LINE_BYTES // 50
    with limit_peak_memory(32):
        result = await outcome(ctx, "a.min.js", line_ranges=[[2, 2]])
    assert "2 | needle\n" in result.text
    with limit_peak_memory(32):
        result = await outcome(ctx, "a.min.js", indentation={"anchor_line": 2})
    assert "too long to look at" in result.text


@pytest.mark.contract("read:hostile")
@pytest.mark.parametrize("name", ["a\nb.txt", "a\u2028b", "-rf", "…", " a .txt"[1:], "a\x1b[31m"])
async def test_a_file_with_a_strange_name_is_read(ctx: ToolContext, name: str) -> None:
    (ctx.files.root / name).write_text("fine\n")
    result = await outcome(ctx, name)
    assert not result.is_error
    assert "1 | fine\n" in result.text


@pytest.mark.contract("read:hostile")
@pytest.mark.parametrize("name", ["a\0b", "a\udce9b", "x" * 5000, "x" * 300, "a/" * 2000])
async def test_a_name_that_no_file_has_is_refused(ctx: ToolContext, name: str) -> None:
    try:
        result = await outcome(ctx, name)
    except ToolError as error:
        assert "not a usable path" in str(error)
    else:
        assert result.is_error
        assert any(why in result.text for why in ("not found", "too long", "not a directory"))


async def test_lines_far_inside_of_an_endless_file_are_not_waited_for(
    ctx: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("joey.tools.line_reader.MAX_SKIP_BYTES", 2**24)
    path = ctx.files.root / "endless.log"
    with path.open("wb") as file:
        file.write(b"words\n" * 2_000)
        file.truncate(2**42)
    result = await outcome(ctx, path.name, line_ranges=[[9_000, 9_001]])
    assert result.is_error
    assert "A command such as `sed -n 9000p` can" in result.text


@pytest.mark.contract("read:hostile")
async def test_nul_bytes_do_not_reach_the_model(ctx: ToolContext) -> None:
    (ctx.files.root / "late.txt").write_bytes(b"some text\n" * 1000 + b"a\0b\n")
    (ctx.files.root / "early.txt").write_bytes(b"a\0b\n")
    result = await outcome(ctx, "late.txt", "early.txt")
    assert "\0" not in result.text
    assert "1001 | a\ufffdb\n" in result.text
    assert "Binary file (txt)" in result.text


@pytest.mark.contract("read:hostile")
async def test_an_archive_that_unpacks_without_end_is_an_error_of_its_file(
    ctx: ToolContext,
) -> None:
    (ctx.files.root / "fine.txt").write_text("fine\n")
    (ctx.files.root / "bomb.docx").write_bytes(bomb())
    with limit_peak_memory(32):
        result = await outcome(ctx, "bomb.docx", "fine.txt")
    assert result.is_error
    assert "Cannot read bomb.docx: it unpacks to more than 100 MB" in result.text
    assert "1 | fine\n" in result.text


class GrowingFiles(LocalFiles):
    """Each read finds more in the file than the one before."""

    async def read(self, path: ResolvedPath, limit: int | None = None, offset: int = 0) -> bytes:
        data = await super().read(path, limit, offset)
        with path.path.open("ab") as file:
            file.write(b"one more line\n" * 80_000)
        return data


@pytest.mark.contract("read:hostile")
async def test_a_file_that_grows_while_it_is_read_has_an_end(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    files = GrowingFiles(tmp_path / "work")
    ctx = make_context(tmp_path, files=files)
    (files.root / "a.log").write_text("a line\n" * 100_000)
    with limit_peak_memory(32):
        result = await outcome(ctx, "a.log")
    assert "1 | a line\n" in result.text
    assert "of more than " in result.text


class ShrinkingFiles(LocalFiles):
    async def read(self, path: ResolvedPath, limit: int | None = None, offset: int = 0) -> bytes:
        data = await super().read(path, limit, offset)
        path.path.write_bytes(b"")
        return data


@pytest.mark.contract("read:hostile")
async def test_a_file_that_is_emptied_while_it_is_read_has_an_end(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    files = ShrinkingFiles(tmp_path / "work")
    ctx = make_context(tmp_path, files=files)
    (files.root / "a.log").write_text("a line\n" * 100_000)
    assert "1 | a line\n" in (await outcome(ctx, "a.log")).text


@pytest.mark.contract("read:hostile")
async def test_others_go_on_while_a_large_file_is_read(tmp_path: Path) -> None:
    ctx = make_context(tmp_path)
    make_sparse(ctx.files.root / "a.log", b"a line of the log\n" * 20_000)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    await outcome(ctx, "a.log")
    other.cancel()
    assert turns > 100
