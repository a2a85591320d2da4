"""The `codebase_search` tool: searches the workspace's code index."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta, Struct

from joey.core.modes import ToolGroup
from joey.core.path_access import ResolvedPath
from joey.core.task_types import Answer, RowKind
from joey.core.text import compile_regex, number_lines
from joey.errors import TargetNotFoundError, ToolError
from joey.ports.content import CodeSearchHit, CodeSearchResult
from joey.ports.tool_context import ToolContext
from joey.tools.base import (
    Access,
    AvailabilityContext,
    Claim,
    Outcome,
    PreparedToolCall,
    Tool,
    compute_text_budget,
    resolve_visible_path,
    suggest_paths,
)
from joey.tools.parameters import XML_ONLY

MAX_HITS = 12
_MIN_SCORE_SHARE = 0.4
"""Of the best score; hits below it are only named."""
_MAX_SHOWN_HITS = 8
_MAX_HIT_LINES = 20
_MIN_WORD_CHARS = 3
_QUERY_WORD_RE = compile_regex(r"[^\W_]+")
_DOCUMENT_SUFFIXES = (".md", ".mdx", ".markdown", ".rst", ".txt", ".adoc")


class CodebaseSearchParams(Struct, frozen=True):
    query: Annotated[
        str,
        Meta(
            description="What the code is about, in plain words or by names that occur in it.",
            extra=XML_ONLY,
        ),
    ]
    path: Annotated[
        str | None,
        Meta(description="Folder to search, relative to the workspace; defaults to all of it."),
    ] = None


class PreparedCodeSearch(PreparedToolCall, frozen=True, kw_only=True):
    query: str
    resolved_path: ResolvedPath


class CodebaseSearch(Tool[CodebaseSearchParams, PreparedCodeSearch]):
    name: ClassVar[str] = "codebase_search"
    group: ClassVar[ToolGroup] = ToolGroup.READ
    params: ClassVar[type[Struct]] = CodebaseSearchParams
    required_texts: ClassVar[tuple[str, ...]] = ("query",)
    can_run_in_parallel: ClassVar[bool] = True

    def is_offered(self, context: AvailabilityContext) -> bool:
        return (
            context.capabilities.code_index is not None and context.settings.codebase_index_enabled
        )

    async def prepare(self, params: CodebaseSearchParams, ctx: ToolContext) -> PreparedCodeSearch:
        path = resolve_visible_path(ctx, params.path or ".")
        if not (path.is_inside and path.path.is_relative_to(ctx.files.root)):
            raise ToolError(
                f"{path.display_path} is outside of the workspace, which alone is indexed."
            )
        if not (await ctx.files.stat(path)).exists:
            raise TargetNotFoundError(
                f"{path.display_path} does not exist, so there is nothing to search in it."
                f"{await suggest_paths(ctx, path)}"
            )
        shown = path.display_path if params.path else None
        return PreparedCodeSearch(
            claims=(Claim(Access.READ, path=path),),
            row={
                "tool": "codebaseSearch",
                "query": params.query,
                "path": shown,
                "isOutsideWorkspace": False,
            },
            path=shown,
            query=params.query,
            resolved_path=path,
        )

    async def run_prepared(
        self, prepared: PreparedCodeSearch, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        index = ctx.capabilities.code_index
        if index is None or not ctx.settings.codebase_index_enabled:
            raise ToolError("There is no code index here. Use search_files.")
        found = await index.search(prepared.query, prepared.resolved_path, MAX_HITS)
        return Outcome(
            render_results(prepared.query, found, compute_text_budget(ctx.model)),
            rows=((RowKind.CODEBASE_SEARCH_RESULT, _encode_row(prepared.query, found.hits)),),
        )


def render_results(query: str, found: CodeSearchResult, budget: int) -> str:
    """Render the best hits with their text, the others only as places."""
    note = f"\n\n{found.note}" if found.note else ""
    if not found.hits:
        return f'Nothing in the workspace seems to be about "{query}".{note}'
    # Code comes before documents that match it equally well.
    hits = sorted(
        found.hits, key=lambda hit: (-round(hit.score, 2), hit.path.endswith(_DOCUMENT_SUFFIXES))
    )
    least_score = hits[0].score * _MIN_SCORE_SHARE
    terms = {word.lower() for word in _QUERY_WORD_RE.findall(query) if len(word) >= _MIN_WORD_CHARS}
    shown: list[str] = []
    places: list[str] = []
    for hit in hits:
        text = _format_hit(hit, terms)
        budget -= len(text.encode(errors="replace")) + 2
        is_strong = hit.score >= least_score and len(shown) < _MAX_SHOWN_HITS
        if is_strong and (budget >= 0 or not shown):
            shown.append(text)
        else:
            places.append(f"{hit.path}:{hit.start_line}-{hit.end_line}")
    if places:
        shown.append(f"Other matches: {', '.join(places)}")
    return f"Query: {query}\nResults:\n\n" + "\n\n".join(shown) + note


def _format_hit(hit: CodeSearchHit, terms: Collection[str]) -> str:
    lines = hit.text.split("\n")
    first = _find_best_window(lines, terms)
    shown = lines[first : first + _MAX_HIT_LINES]
    start = hit.start_line + first
    part = f", shown: {start}-{start + len(shown) - 1}" if len(shown) < len(lines) else ""
    return (
        f"File path: {hit.path}\nScore: {hit.score:.2f}\n"
        f"Lines: {hit.start_line}-{hit.end_line}{part}\n"
        f"Code Chunk:\n{number_lines(chr(10).join(shown), start).rstrip()}"
    )


def _find_best_window(lines: Sequence[str], terms: Collection[str]) -> int:
    """Find the first line to show: the window with most words of the query, and a few lines
    before."""
    counts = [sum(word in line for word in terms) for line in map(str.lower, lines)]
    starts = range(max(0, len(lines) - _MAX_HIT_LINES) + 1)
    sums = [sum(counts[start : start + _MAX_HIT_LINES]) for start in starts]
    best = max(sums)
    fitting = [start for start in starts if sums[start] == best]
    return fitting[len(fitting) // 2] if fitting[0] else 0


def _encode_row(query: str, hits: tuple[CodeSearchHit, ...]) -> str:
    results = [
        {
            "filePath": hit.path,
            "score": round(hit.score, 4),
            "startLine": hit.start_line,
            "endLine": hit.end_line,
            "codeChunk": hit.text,
        }
        for hit in hits
    ]
    row = {"tool": "codebaseSearch", "content": {"query": query, "results": results}}
    return msgspec.json.encode(row).decode()
