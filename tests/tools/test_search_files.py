from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from joey.core.models import ModelInfo, ToolProtocol
from joey.errors import ArgumentError, ToolError
from joey.ports.tool_context import ToolContext
from joey.tools.base import Access, Claim
from joey.tools.read_file import ReadFile
from joey.tools.search_files import SearchFiles
from tests.harness.tools.editing import run_tool
from tests.harness.tools.tool_context import make_context

tool = SearchFiles()


@pytest.fixture(params=list(ToolProtocol))
def ctx(tmp_path: Path, request: pytest.FixtureRequest) -> ToolContext:
    return make_context(tmp_path, protocol=request.param)


async def search(ctx: ToolContext, **arguments: Any) -> str:
    params = tool.parse({"path": ".", **arguments})
    return (await tool.run_prepared(await tool.prepare(params, ctx), ctx, None)).text


@pytest.mark.contract("tool:search_files:success")
async def test_hits_are_grouped_by_file_with_numbered_context(ctx: ToolContext) -> None:
    root = ctx.files.root
    (root / "src").mkdir()
    (root / "src" / "a.py").write_text("import os\n\ndef one():  \n    pass\n\n\n\ndef two():\n")
    (root / "b.py").write_text("\n" * 999 + "def three():\n")
    assert await search(ctx, regex=r"^def \w+") == (
        "Found 3 matching lines.\n\n"
        "# b.py\n 999 | \n>1000 | def three():\n\n"
        "# src/a.py\n   2 | \n>  3 | def one():\n   4 |     pass\n----\n"
        "   7 | \n>  8 | def two():"
    )


async def test_one_hit_and_none_are_counted_too(ctx: ToolContext) -> None:
    (ctx.files.root / "a.txt").write_text("needle\n")
    assert await search(ctx, regex="needle") == "Found 1 matching line.\n\n# a.txt\n>  1 | needle"
    assert await search(ctx, regex="haystack") == "Found 0 matching lines."


@pytest.mark.parametrize("pattern", [None, "", "*.txt"])
async def test_a_pattern_is_optional(ctx: ToolContext, pattern: str | None) -> None:
    (ctx.files.root / "a.txt").write_text("needle\n")
    (ctx.files.root / "a.md").write_text("needle\n")
    text = await search(ctx, regex="needle", file_pattern=pattern)
    assert ("# a.md" in text) is (not pattern)


async def test_matching_lines_are_counted_not_groups_of_them(ctx: ToolContext) -> None:
    (ctx.files.root / "a.txt").write_text("needle\nneedle\nhay\nneedle\n")
    text = await search(ctx, regex="needle")
    assert text == (
        "Found 3 matching lines.\n\n"
        "# a.txt\n>  1 | needle\n>  2 | needle\n   3 | hay\n>  4 | needle"
    )


async def test_a_pattern_that_no_file_matches_says_so(ctx: ToolContext) -> None:
    (ctx.files.root / "src").mkdir()
    (ctx.files.root / "src" / "a.txt").write_text("needle\n")
    (ctx.files.root / ".rooignore").write_text("hidden.md\n")
    (ctx.files.root / "hidden.md").write_text("needle\n")
    assert await search(ctx, regex="x", file_pattern="*.txt") == "Found 0 matching lines."
    for pattern in ("*.py", "*.md", "lib/**"):
        expected = f"No file in . matches the pattern {pattern}."
        assert await search(ctx, regex="needle", file_pattern=pattern) == expected


async def test_a_name_cannot_look_like_the_name_of_another_file(ctx: ToolContext) -> None:
    (ctx.files.root / "a\n\n# README.md").write_text("needle\n")
    text = await search(ctx, regex="needle")
    assert text == "Found 1 matching line.\n\n# a\\n\\n# README.md\n>  1 | needle"


@pytest.mark.contract("tool:search_files:success")
@pytest.mark.parametrize(("count", "has_context"), [(20, True), (21, False)])
async def test_many_matches_are_shown_without_context(
    ctx: ToolContext, count: int, has_context: bool
) -> None:
    (ctx.files.root / "a.txt").write_text("needle\nhay\nhay\nhay\n" * count)
    text = await search(ctx, regex="needle")
    how = "" if has_context else ", shown without context"
    assert text.startswith(f"Found {count} matching lines{how}.")
    assert ("| hay" in text) is has_context
    assert text.count("\n----\n") == (count - 1 if has_context else 0)


async def test_too_many_hits_say_so(ctx: ToolContext) -> None:
    (ctx.files.root / "a.txt").write_text("needle\n\n\n\n" * 400)
    text = await search(ctx, regex="needle")
    assert text.startswith("Showing the first 300 matching lines without context; there are more. ")
    assert text.endswith("\n>1193 | needle\n>1197 | needle")
    assert "----" not in text


@pytest.mark.parametrize("lines", [3, 2_000])
async def test_what_does_not_fit_into_the_window_is_left_out_and_it_is_said(
    tmp_path: Path, lines: int
) -> None:
    ctx = make_context(tmp_path, model=ModelInfo(id="small", context_window=10_000))
    for name in range(100):
        (ctx.files.root / f"{name:02}.txt").write_text(f"needle {'漢' * 300}\n" * lines)
    text = await search(ctx, path=".", regex="needle")
    assert len(text.encode()) < 30_000
    assert text.startswith("Showing the first ")
    assert "# 00.txt\n>  1 | needle" in text


async def test_long_lines_are_cut(ctx: ToolContext) -> None:
    (ctx.files.root / "a.txt").write_text("needle" + "x" * 1000 + "\n")
    text = await search(ctx, regex="needle")
    assert f">  1 | needle{'x' * 494} [truncated...]" in text


async def test_the_row_has_the_results_before_anybody_is_asked(ctx: ToolContext) -> None:
    (ctx.files.root / "a.txt").write_text("needle\n")
    prepared = await tool.prepare(tool.parse({"path": ".", "regex": "ne+dle"}), ctx)
    assert prepared.claims == (Claim(Access.READ, path=ctx.files.resolve(".")),)
    assert prepared.row == {
        "tool": "searchFiles",
        "path": ".",
        "regex": "ne+dle",
        "filePattern": None,
        "isOutsideWorkspace": False,
        "content": "Found 1 matching line.\n\n# a.txt\n>  1 | needle",
    }


async def test_outside_of_the_workspace_nothing_is_searched_before_it_is_allowed(
    ctx: ToolContext, tmp_path: Path
) -> None:
    (tmp_path / "secret.txt").write_text("needle\n")
    prepared = await tool.prepare(tool.parse({"path": "..", "regex": "needle"}), ctx)
    assert prepared.row["isOutsideWorkspace"]
    assert prepared.row["content"] == ""
    assert str(tmp_path / "secret.txt") in (await tool.run_prepared(prepared, ctx, None)).text


@pytest.mark.contract("tool:search_files:failure:bad-regex")
async def test_an_expression_that_is_none_is_an_error(ctx: ToolContext) -> None:
    with pytest.raises(ToolError, match="unclosed group"):
        await search(ctx, regex="(")


@pytest.mark.contract("tool:search_files:failure:bad-regex")
@pytest.mark.parametrize(
    "arguments",
    [
        {"regex": "a\0b"},
        {"regex": "a" * 200_000},
        {"regex": "a", "file_pattern": "\0"},
        {"regex": "a", "file_pattern": "a" * 200_000},
        {"regex": "a", "file_pattern": "{a,b}" * 20},
    ],
    ids=["nul", "too long", "nul in pattern", "pattern too long", "pattern of many"],
)
async def test_what_no_command_line_can_carry_is_an_error(
    ctx: ToolContext, arguments: dict[str, str]
) -> None:
    with pytest.raises(ToolError):
        await search(ctx, **arguments)


async def test_what_cannot_be_searched_is_an_error(ctx: ToolContext) -> None:
    (ctx.files.root / ".rooignore").write_text("secret/\n")
    (ctx.files.root / "secret").mkdir()
    with pytest.raises(ToolError, match="hidden by"):
        await search(ctx, regex="x", path="secret")
    with pytest.raises(ToolError, match="missing: it does not exist"):
        await search(ctx, regex="x", path="missing")


@pytest.mark.parametrize(
    ("arguments", "parameter"), [({"regex": "x"}, "path"), ({"path": ".", "regex": ""}, "regex")]
)
def test_a_missing_parameter_is_named(arguments: dict[str, Any], parameter: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        tool.parse(arguments)
    assert caught.value.parameter == parameter


def test_a_result_names_the_expression() -> None:
    without = tool.describe_call({"path": ".", "regex": "x", "file_pattern": "null"})
    assert without == "[search_files for 'x']"
    assert tool.describe_call({"regex": "x+"}) == "[search_files for 'x+']"
    assert tool.describe_call({"regex": "x", "file_pattern": "*.py"}) == (
        "[search_files for 'x' in '*.py']"
    )


async def test_look_around_is_searched_for(ctx: ToolContext) -> None:
    (ctx.files.root / "a.py").write_text("lru_cache\ntlru_cache\n")
    outcome = await run_tool(tool, ctx, {"path": ".", "regex": r"(?<!t)lru_cache"})
    assert "Found 1 matching line." in outcome.text
    with pytest.raises(ToolError, match="PCRE2: error compiling pattern"):
        await run_tool(tool, ctx, {"path": ".", "regex": "(?<!t)lru_cache("})


async def test_a_path_that_does_not_exist_is_answered_with_one_that_does(ctx: ToolContext) -> None:
    (ctx.files.root / "src/cachetools").mkdir(parents=True)
    (ctx.files.root / "src/cachetools/keys.py").write_text("x = 1\n")
    for path, near in (("src/cachetool", "src/cachetools"), ("keys.py", "src/cachetools/keys.py")):
        with pytest.raises(ToolError, match=rf"it does not exist\. Did you mean {near}\?"):
            await run_tool(tool, ctx, {"path": path, "regex": "x"})
    read = ReadFile()
    arguments = {"files": [{"path": "test/keys.py"}, {"path": "src/cachetools/kys.py"}]}
    outcome = await run_tool(read, ctx, arguments)
    assert outcome.text.count("Did you mean src/cachetools/keys.py?") == 2
