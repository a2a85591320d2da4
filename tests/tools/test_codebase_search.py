from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from joey.content.code_index import WorkspaceIndexPool
from joey.core.models import ModelInfo, ToolProtocol
from joey.core.modes import BUILT_IN_MODES
from joey.core.settings import Settings
from joey.errors import ArgumentError, IgnoredPathError, ToolError
from joey.ports.content import CodeSearchHit, CodeSearchResult
from joey.ports.tool_context import Capabilities, ToolContext
from joey.tools.base import (
    Access,
    AvailabilityContext,
    Claim,
    Outcome,
)
from joey.tools.codebase_search import CodebaseSearch, render_results
from joey.tools.registry import Registry, build_default_tools
from joey.workspace.files import LocalFiles
from joey.workspace.listing import list_indexable_files
from tests.harness.tools.tool_context import make_context

tool = CodebaseSearch()


@pytest.fixture(params=list(ToolProtocol))
async def ctx(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[ToolContext]:
    context = make_context(tmp_path, protocol=request.param)
    files = LocalFiles(context.files.root)
    index = WorkspaceIndexPool(tmp_path / "home").open(
        files, lambda stop: list_indexable_files(files, stop)
    )
    yield structs.replace(context, capabilities=Capabilities(code_index=index))
    await index.close()


async def search(ctx: ToolContext, **arguments: Any) -> Outcome:
    return await tool.run_prepared(await tool.prepare(tool.parse(arguments), ctx), ctx, None)


@pytest.mark.contract("tool:codebase_search:success")
async def test_hits_are_shown_with_path_score_lines_and_text(ctx: ToolContext) -> None:
    (ctx.files.root / "src").mkdir()
    (ctx.files.root / "src" / "a.py").write_text("\ndef find_needle():\n    return 1\n")
    outcome = await search(ctx, query="where is the needle found")
    assert outcome.text == (
        "Query: where is the needle found\nResults:\n\n"
        "File path: src/a.py\nScore: 1.00\nLines: 2-3\n"
        "Code Chunk:\n2 | def find_needle():\n3 |     return 1"
    )
    ((say, text),) = outcome.rows
    assert say == "codebase_search_result"
    assert json.loads(text) == {
        "tool": "codebaseSearch",
        "content": {
            "query": "where is the needle found",
            "results": [
                {
                    "filePath": "src/a.py",
                    "score": 1.0,
                    "startLine": 2,
                    "endLine": 3,
                    "codeChunk": "def find_needle():\n    return 1",
                }
            ],
        },
    }


@pytest.mark.contract("tool:codebase_search:success")
async def test_nothing_found_is_said_with_the_query(ctx: ToolContext) -> None:
    (ctx.files.root / "a.py").write_text("x = 1\n")
    outcome = await search(ctx, query="zebra crossing")
    assert outcome.text == 'Nothing in the workspace seems to be about "zebra crossing".'


async def test_hits_that_do_not_fit_into_the_window_are_left_out(ctx: ToolContext) -> None:
    for number in range(12):
        name = f"needle_{number} = '{'x' * 450}'\n"
        (ctx.files.root / f"{number}.py").write_text(name * 100)
    whole = await search(ctx, query="needle")
    assert len(whole.text) < 200_000
    small = structs.replace(ctx, model=ModelInfo(id="small", context_window=10_000))
    cut = await search(small, query="needle")
    assert len(cut.text) < 20_000
    assert cut.text.count("File path: ") > 0
    assert "Other matches: " in cut.text


async def test_a_directory_that_does_not_exist_is_an_error(ctx: ToolContext) -> None:
    with pytest.raises(ToolError, match=r"nowhere does not exist"):
        await search(ctx, query="needle", path="nowhere")


def test_a_note_follows_the_results() -> None:
    hit = CodeSearchHit("a.py", 0.5, 1, 1, "x")
    result = CodeSearchResult((hit,), "Be careful.")
    assert render_results("q", result, 1000).endswith("Code Chunk:\n1 | x\n\nBe careful.")
    nothing = render_results("q", CodeSearchResult((), "Be careful."), 1000)
    assert nothing.endswith('"q".\n\nBe careful.')


@pytest.mark.contract("tool:codebase_search:success")
def test_chunks_have_line_numbers_and_weak_hits_are_only_named() -> None:
    hits = (
        CodeSearchHit("a.py", 0.9, 9, 10, "def a():\n    pass"),
        CodeSearchHit("b.py", 0.37, 1, 1, "b = 1"),
        CodeSearchHit("c.py", 0.35, 1, 4, "c = 1"),
        CodeSearchHit("d.py", 0.21, 7, 9, "d = 1"),
    )
    assert render_results("q", CodeSearchResult(hits, ""), 1000) == (
        "Query: q\nResults:\n\n"
        "File path: a.py\nScore: 0.90\nLines: 9-10\nCode Chunk:\n 9 | def a():\n10 |     pass\n\n"
        "File path: b.py\nScore: 0.37\nLines: 1-1\nCode Chunk:\n1 | b = 1\n\n"
        "Other matches: c.py:1-4, d.py:7-9"
    )


def test_of_a_long_chunk_the_lines_around_the_best_match_are_shown() -> None:
    lines = [f"x{number} = 0" for number in range(118)]
    lines[60] = "def remove_expired(items):"
    (cut,) = re.findall(
        r"(?s)Lines: 11-128, shown: (\d+)-(\d+)\nCode Chunk:\n(.*)",
        render("expired items", CodeSearchHit("a.py", 0.9, 11, 128, "\n".join(lines))),
    )
    assert int(cut[1]) - int(cut[0]) == 19
    assert "71 | def remove_expired(items):\n" in cut[2]
    short = CodeSearchHit("a.py", 0.9, 1, 20, "\n".join(lines[:20]))
    assert "Lines: 1-20\n" in render("expired", short)


def test_eight_hits_are_shown_code_before_documents() -> None:
    names = ["README.md", *(f"{number}.py" for number in range(10))]
    text = render("q", *(CodeSearchHit(name, 0.9, 1, 1, "x") for name in names))
    assert re.findall("File path: (.+)", text) == [f"{number}.py" for number in range(8)]
    assert text.endswith("Other matches: 8.py:1-1, 9.py:1-1, README.md:1-1")


def render(query: str, *hits: CodeSearchHit) -> str:
    return render_results(query, CodeSearchResult(hits, ""), 100_000)


@pytest.mark.contract("tool:codebase_search:approval")
@pytest.mark.parametrize(
    ("path", "shown"), [(None, None), ("", None), ("null", None), ("src/", "src"), (".", ".")]
)
async def test_the_row_and_the_claim_name_the_directory(
    ctx: ToolContext, path: str | None, shown: str | None
) -> None:
    (ctx.files.root / "src").mkdir()
    prepared = await tool.prepare(tool.parse({"query": "q", "path": path}), ctx)
    assert prepared.row == {
        "tool": "codebaseSearch",
        "query": "q",
        "path": shown,
        "isOutsideWorkspace": False,
    }
    (claim,) = prepared.claims
    assert claim.access is Access.READ
    assert claim.path is not None
    assert claim.path.display_path == (shown or ".")
    assert isinstance(claim, Claim)


async def test_a_directory_keeps_the_search_to_it(ctx: ToolContext) -> None:
    for name in ("one", "two"):
        (ctx.files.root / name).mkdir()
        (ctx.files.root / name / "a.py").write_text("needle = 1\n")
    text = (await search(ctx, query="needle", path="two")).text
    assert "two/a.py" in text
    assert "one/a.py" not in text


async def test_hidden_and_foreign_directories_are_refused(ctx: ToolContext) -> None:
    (ctx.files.root / ".rooignore").write_text("secret/\n")
    (ctx.files.root / "secret").mkdir()
    with pytest.raises(IgnoredPathError):
        await search(ctx, query="q", path="secret")
    with pytest.raises(ToolError, match="outside of the workspace"):
        await search(ctx, query="q", path="..")


@pytest.mark.parametrize("arguments", [{}, {"query": " "}, {"path": "src"}])
def test_a_missing_query_is_named(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError) as caught:
        tool.parse(arguments)
    assert caught.value.parameter == "query"


@pytest.mark.contract("tool:codebase_search:schema:offered")
async def test_it_is_offered_where_there_is_an_index_whether_it_is_filled_or_not(
    ctx: ToolContext,
) -> None:
    registry = Registry(build_default_tools())
    mode = BUILT_IN_MODES[0]

    def names(settings: Settings, extras: Capabilities) -> set[str]:
        offer = AvailabilityContext(settings, ModelInfo(id="any"), extras)
        return {spec.name for spec in registry.list_specs(mode, offer)}

    on, off = Settings(), Settings(codebase_index_enabled=False)
    assert ctx.capabilities.code_index is not None
    assert not ctx.capabilities.code_index.state.is_ready
    assert tool.name in names(on, ctx.capabilities)
    assert tool.name not in names(off, ctx.capabilities)
    assert tool.name not in names(on, Capabilities())


@pytest.mark.contract("tool:codebase_search:schema:offered")
async def test_without_an_index_a_call_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no code index"):
        await search(make_context(tmp_path), query="q")


def test_a_result_names_the_query() -> None:
    assert tool.describe_call({"query": "needle"}) == "[codebase_search for 'needle']"
