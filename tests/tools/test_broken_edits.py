from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from joey.core.models import ModelInfo
from joey.errors import ToolError
from joey.ports import ToolContext
from joey.tools.registry import Registry, default_tools
from tests.tools.editing import carry_out, prepare, problem
from tests.tools.shell_context import make_context

registry = Registry(default_tools())


@pytest.fixture
def ctx(tmp_path: Path) -> ToolContext:
    return make_context(tmp_path, model=ModelInfo(id="claude"))


def block(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE"


async def test_a_file_under_two_names_is_one_file(ctx: ToolContext) -> None:
    file = ctx.files.root / "a"
    file.write_text("one\ntwo\n")
    (ctx.files.root / "link").symlink_to("a")
    args = "".join(
        f"<file><path>{path}</path><diff><content>{diff}</content></diff></file>"
        for path, diff in (
            ("a", block("one", "1")),
            ("./a", block("two", "2")),
            ("link", block("1", "uno")),
        )
    )
    prepared = await prepare(registry.find("apply_diff"), ctx, {"args": args})
    assert len(prepared.claims) == 1
    outcome = await registry.find("apply_diff").run(prepared, ctx, None)
    assert not outcome.is_error
    assert file.read_text() == "uno\n2\n"


async def test_new_line_ends_are_part_of_what_is_shown(ctx: ToolContext) -> None:
    (ctx.files.root / "a").write_bytes(b"foo\nbar\n")
    prepared = await prepare(
        registry.find("write_to_file"), ctx, {"path": "a", "content": "foo\r\nbar\r\n"}
    )
    assert prepared.diff == "\\ Lines that will end with CRLF instead of LF: 2.\n"


async def test_a_binary_file_that_is_replaced_is_shown_as_such(ctx: ToolContext) -> None:
    (ctx.files.root / "a").write_bytes(b"\x89PNG\0\0")
    prepared = await prepare(registry.find("write_to_file"), ctx, {"path": "a", "content": "x\n"})
    told = "\\ The old content is not text: 6 bytes are replaced.\n"
    assert prepared.diff == f"@@ -0,0 +1,1 @@\n+x\n{told}"


async def test_many_operations_that_fail_are_explained_up_to_a_point(ctx: ToolContext) -> None:
    (ctx.files.root / "a").write_text("some words\nand others\n")
    operations = [{"search": f"some wards {number}", "replace": "x"} for number in range(9)]
    told = await problem(registry.find("edit"), ctx, {"path": "a", "operations": operations})
    assert told.count("What is there:") == 5
    assert "Operation 9: No match found for search in a." in told


async def test_a_moved_file_keeps_its_mode(ctx: ToolContext) -> None:
    file = ctx.files.root / "run.sh"
    file.write_text("echo\n")
    os.chmod(file, 0o750)
    patch = "*** Begin Patch\n*** Update File: run.sh\n*** Move to: bin/run\n*** End Patch"
    await carry_out(registry.find("apply_patch"), ctx, {"patch": patch})
    assert (ctx.files.root / "bin/run").stat().st_mode & 0o777 == 0o750


async def test_a_deletion_that_was_not_made_is_not_taken_for_done(ctx: ToolContext) -> None:
    (ctx.files.root / "a").write_text("alpha\ngamma\n")
    patch = "*** Begin Patch\n*** Update File: a\n@@\n alpha\n-beta\n*** End Patch"
    told = await problem(registry.find("apply_patch"), ctx, {"patch": patch})
    assert "made before" not in told


@pytest.mark.parametrize("pattern", ["x*", "."])
async def test_an_expression_that_is_everywhere_is_refused(ctx: ToolContext, pattern: str) -> None:
    (ctx.files.root / "a").write_text("y" * 1_000_001)
    arguments = {"path": "a", "search": pattern, "replace": "b", "use_regex": True}
    told = await problem(registry.find("edit"), ctx, arguments)
    assert "more than 1000000 times" in told
