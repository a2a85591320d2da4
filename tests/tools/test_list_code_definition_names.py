from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from joey.content.outlines import OutlineExtractor
from joey.core.models import ModelInfo, ToolProtocol
from joey.core.settings import Settings
from joey.errors import ArgumentError, IgnoredPathError, ToolError
from joey.ports.tool_context import Capabilities, ToolContext
from joey.tools.base import Access, AvailabilityContext, Claim
from joey.tools.list_code_definition_names import MAX_FILES, ListCodeDefinitionNames
from tests.harness.tools.hostile_files import make_sparse, make_special_files
from tests.harness.tools.tool_context import make_context
from tests.harness.tools.xml_calls import parsed

tool = ListCodeDefinitionNames()
CODE = "def total(items):\n    a()\n    b()\n    return 1\n"


@pytest.fixture(params=list(ToolProtocol))
def ctx(tmp_path: Path, request: pytest.FixtureRequest) -> ToolContext:
    extras = Capabilities(outlines=OutlineExtractor())
    return make_context(tmp_path, protocol=request.param, capabilities=extras)


async def listed(ctx: ToolContext, path: str) -> str:
    params = tool.parse({"path": path})
    return (await tool.run_prepared(await tool.prepare(params, ctx), ctx, None)).text


@pytest.mark.contract("tool:list_code_definition_names:success")
async def test_a_file_is_listed_with_first_and_last_lines(ctx: ToolContext) -> None:
    (ctx.files.root / "src").mkdir()
    (ctx.files.root / "src" / "a.py").write_text(f"import os\n\n{CODE}x = 1\n\ndef short(): ...\n")
    assert await listed(ctx, "src/a.py") == "# a.py\n3--6 | def total(items):"


@pytest.mark.contract("tool:list_code_definition_names:success")
async def test_of_a_directory_the_files_directly_in_it_are_listed(ctx: ToolContext) -> None:
    root = ctx.files.root
    for name in ("b.py", "a.py", "deep/c.py"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(CODE)
    (root / "README.md").write_text("# Title\n\nwords\nwords\n")
    (root / "plain.txt").write_text(CODE)
    (root / "nothing.py").write_text("x = 1\n")
    assert await listed(ctx, ".") == (
        "# a.py\n1--4 | def total(items):\n\n# b.py\n1--4 | def total(items):\n\n"
        "# README.md\n1--4 | # Title"
    )


@pytest.mark.contract("tool:list_code_definition_names:success")
async def test_of_too_many_definitions_the_outer_ones_are_listed(ctx: ToolContext) -> None:
    method = "    def m(self):\n        a()\n        b()\n        c()\n"
    (ctx.files.root / "a.py").write_text(f"class A:\n{method * 510}\n{CODE}\nclass B:\n{method}")
    _, *lines, note = (await listed(ctx, "a.py")).splitlines()
    assert len(lines) == 500
    assert [line for line in lines if "def m" not in line] == [
        "1--2041 | class A:",
        "2043--2046 | def total(items):",
        "2048--2052 | class B:",
    ]
    assert note.startswith("(14 more are not shown, inner ones first. To see them, read the lines")


@pytest.mark.contract("tool:list_code_definition_names:success")
async def test_nothing_to_list_is_said(ctx: ToolContext) -> None:
    (ctx.files.root / "a.py").write_text("x = 1\n")
    (ctx.files.root / "a.txt").write_text("words\n")
    assert "No definitions" in await listed(ctx, "a.py")
    assert "No definitions" in await listed(ctx, ".")
    assert "not in a language" in await listed(ctx, "a.txt")


@pytest.mark.contract("tool:list_code_definition_names:failure:file-by-file")
async def test_what_cannot_be_listed_is_an_error(ctx: ToolContext) -> None:
    (ctx.files.root / ".rooignore").write_text("secret.py\n")
    (ctx.files.root / "secret.py").write_text(CODE)
    with pytest.raises(ToolError, match="does not exist"):
        await listed(ctx, "missing.py")
    with pytest.raises(IgnoredPathError):
        await listed(ctx, "secret.py")
    assert "total" not in await listed(ctx, ".")
    with pytest.raises(ToolError, match="cannot be listed here"):
        await listed(make_context(ctx.files.root.parent), "missing.py")


@pytest.mark.contract("tool:list_code_definition_names:failure:file-by-file")
async def test_hostile_files_spoil_nothing(ctx: ToolContext) -> None:
    root = ctx.files.root
    for name in make_special_files(root):
        (root / name).rename(root / f"{name}.py")
        with pytest.raises(ToolError):
            await listed(ctx, f"{name}.py")
    make_sparse(root / "huge.py")
    (root / "crash.tsx").write_text("<a>(" * 100_000)
    (root / "a\nb.py").write_text(CODE)
    (root / "fine.py").write_text(CODE)
    text = await listed(ctx, ".")
    assert "# fine.py\n1--4 | def total(items):" in text
    assert "# huge.py\n(it is larger than 2 MB.)" in text
    assert "# crash.tsx\n(it could not be made sense of" in text


@pytest.mark.contract("tool:list_code_definition_names:failure:file-by-file")
async def test_links_in_a_directory_lead_nowhere_else(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text(CODE.replace("total", "secret"))
    (ctx.files.root / "link.py").symlink_to(tmp_path / "outside.py")
    assert "secret" not in await listed(ctx, ".")


async def test_outside_of_the_workspace_nothing_is_read_before_it_is_allowed(
    ctx: ToolContext, tmp_path: Path
) -> None:
    (tmp_path / "outside.py").write_text(CODE)
    prepared = await tool.prepare(tool.parse({"path": "../outside.py"}), ctx)
    assert prepared.row["isOutsideWorkspace"]
    assert prepared.row["content"] == ""
    assert "total" in (await tool.run_prepared(prepared, ctx, None)).text


async def test_a_directory_of_many_files_is_cut_with_a_note(ctx: ToolContext) -> None:
    for number in range(MAX_FILES + 1):
        (ctx.files.root / f"{number:03}.md").write_text("# Title\n\nwords\nwords\n")
    text = await listed(ctx, ".")
    assert text.count("# Title") == MAX_FILES
    assert f"Only the first {MAX_FILES} files" in text


async def test_the_row_is_what_clients_know(ctx: ToolContext) -> None:
    (ctx.files.root / "a.py").write_text(CODE)
    prepared = await tool.prepare(tool.parse({"path": "a.py"}), ctx)
    assert prepared.claims == (Claim(Access.READ, path=ctx.files.resolve("a.py")),)
    assert prepared.row == {
        "tool": "listCodeDefinitionNames",
        "path": "a.py",
        "isOutsideWorkspace": False,
        "content": "# a.py\n1--4 | def total(items):",
    }


@pytest.mark.contract(
    "tool:list_code_definition_names:native", "tool:list_code_definition_names:xml"
)
def test_it_is_offered_where_definitions_can_be_found_and_understood_in_xml() -> None:
    def offer(**extras: Any) -> AvailabilityContext:
        return AvailabilityContext(Settings(), ModelInfo(id="test"), Capabilities(**extras))

    assert tool.is_offered(offer(outlines=OutlineExtractor()))
    assert not tool.is_offered(offer())
    call = "<list_code_definition_names>\n<path>src</path>\n</list_code_definition_names>"
    assert parsed(call).path == "src"
    with pytest.raises(ArgumentError) as caught:
        tool.parse({})
    assert caught.value.parameter == "path"
