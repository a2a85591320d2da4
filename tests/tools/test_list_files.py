from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from joey.core.models import ModelInfo, ToolProtocol
from joey.errors import ArgumentError, ToolError
from joey.ports.tool_context import ToolContext
from joey.tools.base import Access, Claim
from joey.tools.list_files import ListFiles
from tests.harness.tools.tool_context import make_context

tool = ListFiles()


@pytest.fixture(params=list(ToolProtocol))
def ctx(tmp_path: Path, request: pytest.FixtureRequest) -> ToolContext:
    return make_context(tmp_path, protocol=request.param)


async def listed(ctx: ToolContext, **arguments: Any) -> str:
    params = tool.parse({"path": ".", **arguments})
    return (await tool.run_prepared(await tool.prepare(params, ctx), ctx, None)).text


@pytest.mark.contract("tool:list_files:success")
@pytest.mark.parametrize("recursive", [True, "true", "True"])
async def test_everything_below_is_listed(ctx: ToolContext, recursive: bool | str) -> None:
    (ctx.files.root / "src").mkdir()
    (ctx.files.root / "src" / "a.py").touch()
    (ctx.files.root / "b.md").touch()
    assert await listed(ctx, recursive=recursive) == "b.md\nsrc/\nsrc/a.py"
    assert await listed(ctx, path="src", recursive=recursive) == "a.py"


@pytest.mark.parametrize("arguments", [{}, {"recursive": None}, {"recursive": "false"}])
async def test_without_recursion_only_the_directory_itself(
    ctx: ToolContext, arguments: dict[str, Any]
) -> None:
    (ctx.files.root / "src").mkdir()
    (ctx.files.root / "src" / "a.py").touch()
    assert await listed(ctx, **arguments) == "src/"


@pytest.mark.parametrize("recursive", [False, True])
async def test_a_name_with_control_characters_is_one_line(
    ctx: ToolContext, recursive: bool
) -> None:
    (ctx.files.root / "a\nREADME.md\x1b\u2028").write_text("x\n")
    assert await listed(ctx, path=".", recursive=recursive) == r"a\nREADME.md\x1b\u2028"


async def test_skipped_directories_are_named(ctx: ToolContext) -> None:
    for name in ("node_modules", "dist", "src"):
        (ctx.files.root / name).mkdir()
        (ctx.files.root / name / "a.js").touch()
    (ctx.files.root / ".gitignore").write_text("dist/\n")
    assert (await listed(ctx, recursive=True)).endswith(
        "src/\nsrc/a.js\n\n(Not listed, as git ignores them or packages are installed there:"
        " dist/, node_modules/.)"
    )


@pytest.mark.contract("tool:list_files:success")
async def test_a_glob_finds_files_anywhere_below(ctx: ToolContext) -> None:
    (ctx.files.root / "src" / "deep").mkdir(parents=True)
    (ctx.files.root / "src" / "deep" / "a.test.ts").touch()
    (ctx.files.root / "src" / "a.ts").touch()
    assert await listed(ctx, glob="*.test.ts") == "src/deep/a.test.ts"
    assert await listed(ctx, glob="*.py") == "No files found."
    assert await listed(ctx, glob="null") == "src/"


async def test_an_empty_directory_says_so(ctx: ToolContext) -> None:
    assert await listed(ctx) == "No files found."
    assert await listed(ctx, recursive=True) == "No files found."


async def test_protected_entries_have_a_shield(ctx: ToolContext) -> None:
    (ctx.files.root / "AGENTS.md").touch()
    (ctx.files.root / ".roo").mkdir()
    (ctx.files.root / "a").symlink_to("AGENTS.md")
    (ctx.files.root / "b").touch()
    assert await listed(ctx) == "🛡️ .roo/\n🛡️ a\n🛡️ AGENTS.md\nb"


async def test_a_list_of_long_names_is_cut_to_what_fits_into_the_window(tmp_path: Path) -> None:
    ctx = make_context(tmp_path, model=ModelInfo(id="small", context_window=10_000))
    for number in range(200):
        (ctx.files.root / f"{number:03}{'漢' * 80}").touch()
    text = await listed(ctx)
    assert len(text.encode()) < 20_000
    assert text.startswith("000")
    assert text.endswith("(File list truncated. Use list_files on subdirectories to see the rest.)")


@pytest.mark.contract("tool:list_files:success")
async def test_a_long_list_is_cut_with_a_note(ctx: ToolContext) -> None:
    for number in range(201):
        (ctx.files.root / f"{number}").touch()
    lines = (await listed(ctx)).split("\n")
    assert lines[:3] == ["0", "1", "2"]
    assert lines[200:] == [
        "",
        "(File list truncated. Use list_files on subdirectories to see the rest.)",
    ]


@pytest.mark.parametrize(
    ("recursive", "tag"), [(True, "listFilesRecursive"), (False, "listFilesTopLevel")]
)
async def test_the_row_has_the_list_before_anybody_is_asked(
    ctx: ToolContext, recursive: bool, tag: str
) -> None:
    (ctx.files.root / "a").touch()
    prepared = await tool.prepare(tool.parse({"path": ".", "recursive": recursive}), ctx)
    assert prepared.claims == (Claim(Access.READ, path=ctx.files.resolve(".")),)
    assert prepared.row == {
        "tool": tag,
        "path": ".",
        "isOutsideWorkspace": False,
        "content": "a",
    }


async def test_outside_of_the_workspace_nothing_is_listed_before_it_is_allowed(
    ctx: ToolContext, tmp_path: Path
) -> None:
    (tmp_path / "secret").touch()
    prepared = await tool.prepare(tool.parse({"path": ".."}), ctx)
    assert prepared.row["isOutsideWorkspace"]
    assert prepared.row["content"] == ""
    assert (await tool.run_prepared(prepared, ctx, None)).text == "secret\nwork/"


async def test_what_cannot_be_listed_is_an_error(ctx: ToolContext) -> None:
    (ctx.files.root / "file").touch()
    (ctx.files.root / "hidden").mkdir()
    (ctx.files.root / ".rooignore").write_text("hidden/\n")
    for path, reason in (("file", "use read_file"), ("no", "does not exist"), ("hidden", "hidden")):
        with pytest.raises(ToolError, match=reason):
            await listed(ctx, path=path)


def test_a_missing_path_is_named() -> None:
    with pytest.raises(ArgumentError) as caught:
        tool.parse({"recursive": True})
    assert caught.value.parameter == "path"
