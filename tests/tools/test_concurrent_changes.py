"""Files that somebody else changes while a task works on them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from joey.core.models import ToolProtocol
from joey.errors import ToolError
from joey.ports.tool_context import ToolContext
from joey.tools.registry import Registry, build_default_tools
from tests.harness.tools.editing import CODE, expect_error, prepare, run_tool
from tests.harness.tools.tool_context import make_context

registry = Registry(build_default_tools())
THEIRS = CODE + "theirs = 3\n"
BLOCK = "<<<<<<< SEARCH\n    return 1\n=======\n    return 11\n>>>>>>> REPLACE"
STRINGS = {"file_path": "a.py", "old_string": "return 1", "new_string": "return 11"}
EDITS: dict[str, dict[str, Any]] = {
    "apply_diff": {"path": "a.py", "diff": BLOCK},
    "edit": STRINGS,
    "search_and_replace": {"path": "a.py", "search": "return 1", "replace": "return 11"},
    "search_replace": STRINGS,
    "edit_file": STRINGS,
}


@pytest.fixture
def ctx(tmp_path: Path) -> ToolContext:
    ctx = make_context(tmp_path)
    (ctx.files.root / "a.py").write_text(CODE)
    return ctx


@pytest.fixture
def work(ctx: ToolContext) -> Path:
    return ctx.files.root


async def call(ctx: ToolContext, tool: str, arguments: dict[str, Any]) -> str:
    return (await run_tool(registry.find(tool), ctx, arguments)).text


async def read(ctx: ToolContext, **lines: Any) -> None:
    await call(ctx, "read_file", {"files": [{"path": "a.py", **lines}]})


async def write(ctx: ToolContext, content: str = "mine\n") -> str:
    return await call(ctx, "write_to_file", {"path": "a.py", "content": content})


async def refusal(ctx: ToolContext) -> str:
    tool = registry.find("write_to_file")
    return await expect_error(tool, ctx, {"path": "a.py", "content": "mine\n"})


@pytest.mark.contract("tool:write_to_file:failure:changed-by-others")
@pytest.mark.parametrize("lines", [{}, {"line_ranges": [[1, 2]]}])
async def test_a_file_that_changed_since_it_was_read_is_not_overwritten(
    ctx: ToolContext, work: Path, lines: dict[str, Any]
) -> None:
    await read(ctx, **lines)
    (work / "a.py").write_text(THEIRS)
    message = await refusal(ctx)
    assert message.startswith("a.py was changed by the user or by a command since you last saw it")
    assert "Read the file again" in message
    assert (work / "a.py").read_text() == THEIRS
    await read(ctx)
    assert (await write(ctx)).startswith("Replaced a.py: ")
    assert (work / "a.py").read_text() == "mine\n"


async def test_a_change_of_the_same_length_at_the_same_time_is_noticed(
    ctx: ToolContext, work: Path
) -> None:
    await read(ctx)
    facts = (work / "a.py").stat()
    (work / "a.py").write_text(CODE.replace("1", "3"))
    os.utime(work / "a.py", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    await refusal(ctx)


async def test_a_file_too_long_to_remember_is_known_by_its_size_and_time(
    ctx: ToolContext, work: Path
) -> None:
    (work / "a.py").write_text(CODE * 10_000)
    await read(ctx, line_ranges=[[1, 2]])
    await write(ctx, CODE * 10_000)
    (work / "a.py").write_text(CODE * 9_000)
    await read(ctx, line_ranges=[[1, 2]])
    (work / "a.py").write_text(CODE * 10_000)
    await refusal(ctx)


async def test_a_file_that_was_only_touched_can_be_written(ctx: ToolContext, work: Path) -> None:
    await read(ctx)
    os.utime(work / "a.py", ns=(1, 1))
    await write(ctx)


@pytest.mark.contract("tool:write_to_file:approval")
async def test_a_file_that_was_never_read_can_be_overwritten_and_the_row_shows_how(
    ctx: ToolContext, work: Path
) -> None:
    (work / "a.py").write_text("theirs\n")
    tool = registry.find("write_to_file")
    prepared = await prepare(tool, ctx, {"path": "a.py", "content": "mine\n"})
    assert prepared.diff == "@@ -1,1 +1,1 @@\n-theirs\n+mine\n"
    await tool.run_prepared(prepared, ctx, None)
    assert (work / "a.py").read_text() == "mine\n"


async def test_what_the_model_wrote_it_has_seen(ctx: ToolContext, work: Path) -> None:
    await read(ctx)
    await write(ctx, "first\n")
    await write(ctx, "second\n")
    (work / "a.py").write_text("theirs\n")
    await refusal(ctx)


async def test_a_file_that_somebody_deleted_can_be_made_again(ctx: ToolContext, work: Path) -> None:
    await read(ctx)
    (work / "a.py").unlink()
    assert (await write(ctx)).startswith("Created a.py")


async def test_a_file_that_cannot_be_shown_was_not_seen(ctx: ToolContext, work: Path) -> None:
    await read(ctx, line_ranges=[[500, 600]])
    (work / "a.py").write_text(THEIRS)
    await write(ctx)


async def test_a_change_outside_of_the_workspace_is_reported_once_the_call_is_allowed(
    ctx: ToolContext, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.write_text("seen\n")
    await call(ctx, "read_file", {"files": [{"path": "../other"}]})
    other.write_text("theirs\n")
    tool = registry.find("write_to_file")
    prepared = await prepare(tool, ctx, {"path": "../other", "content": "mine\n"})
    with pytest.raises(
        ToolError, match="changed by the user or by a command since you last saw it"
    ):
        await tool.run_prepared(prepared, ctx, None)
    assert other.read_text() == "theirs\n"


@pytest.mark.contract("edits:changed-meanwhile")
@pytest.mark.parametrize("protocol", ToolProtocol)
@pytest.mark.parametrize("tool", EDITS)
async def test_an_edit_of_a_file_that_changed_is_made_and_says_so(
    tmp_path: Path, tool: str, protocol: ToolProtocol
) -> None:
    ctx = make_context(tmp_path, protocol=protocol)
    work = ctx.files.root
    (work / "a.py").write_text(CODE)
    await read(ctx)
    (work / "a.py").write_text(THEIRS)
    text = await call(ctx, tool, EDITS[tool])
    assert (work / "a.py").read_text() == THEIRS.replace("return 1", "return 11")
    assert "the file had been changed by the user or by a command since you last saw it" in text
    # It still has not seen the rest, so it may not write over it.
    await refusal(ctx)
    await read(ctx)
    await write(ctx)


@pytest.mark.parametrize("tool", EDITS)
async def test_an_edit_is_noted_as_seen(ctx: ToolContext, work: Path, tool: str) -> None:
    await read(ctx)
    assert "by a command" not in await call(ctx, tool, EDITS[tool])
    await write(ctx)
    (work / "a.py").write_text(THEIRS)
    await refusal(ctx)


@pytest.mark.contract("permissions:approved-bytes")
@pytest.mark.parametrize("tool", [*EDITS, "write_to_file"])
async def test_an_edit_is_not_made_of_other_bytes_than_were_approved(
    ctx: ToolContext, work: Path, tool: str
) -> None:
    arguments = EDITS.get(tool, {"path": "a.py", "content": "mine\n"})
    prepared = await prepare(registry.find(tool), ctx, arguments)
    (work / "a.py").write_text(THEIRS)
    with pytest.raises(ToolError, match="after this edit was prepared"):
        await registry.find(tool).run_prepared(prepared, ctx, None)
    assert (work / "a.py").read_text() == THEIRS
