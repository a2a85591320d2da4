from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from joey.core.models import ModelInfo
from joey.core.protocol import ToolProtocol
from joey.ports import ToolContext
from joey.tools.diff_request import FileDiff
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


async def test_a_binary_file_that_is_only_moved_is_not_shown_as_replaced(ctx: ToolContext) -> None:
    (ctx.files.root / "a").write_bytes(b"\x89PNG\0\0")
    patch = "*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** End Patch"
    prepared = await prepare(registry.find("apply_patch"), ctx, {"patch": patch})
    assert prepared.diff == "a will be moved to b.\n--- b\n+++ b\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [("a\n", "x\ny\n"), (None, "x\ny\n"), ("a", "x\ny"), ("a\r\n", "x\r\ny\r\n")],
)
async def test_in_xml_a_file_ends_as_it_did_or_with_a_newline(
    tmp_path: Path, before: str | None, after: str
) -> None:
    ctx = make_context(tmp_path, protocol=ToolProtocol.XML)
    if before is not None:
        (ctx.files.root / "a").write_bytes(before.encode())
    await carry_out(registry.find("write_to_file"), ctx, {"path": "a", "content": "x\ny"})
    assert (ctx.files.root / "a").read_bytes().decode() == after


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("write_to_file", {"content": "x"}),
        ("apply_diff", {"diff": block("a", "b")}),
        ("insert_content", {"line": 1, "content": "x"}),
    ],
)
def test_a_path_may_have_the_name_that_other_tools_give_it(
    tool: str, given: dict[str, Any]
) -> None:
    found = registry.find(tool)
    assert found.parse({"file_path": "a", **given}) == found.parse({"path": "a", **given})
    assert "file_path" in found.xml_tags


@pytest.mark.parametrize("wrap", [lambda files: files, lambda files: {"file": files}])
def test_files_may_be_a_list_and_lines_numbers(wrap: Any) -> None:
    files = [{"path": "a", "diff": {"content": block("x", "y"), "start_line": 3}}]
    diff = "<<<<<<< SEARCH\n:start_line:3\nx\n=======\ny\n>>>>>>> REPLACE"
    assert registry.find("apply_diff").parse({"args": wrap(files)}).files == (FileDiff("a", diff),)
