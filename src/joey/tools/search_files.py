"""The `search_files` tool: searches file contents with a regular expression."""

from __future__ import annotations

from itertools import groupby
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from joey.core.path_access import ResolvedPath
from joey.ports.tool_context import ToolContext
from joey.ports.workspace import SearchHit, SearchResult
from joey.tools.base import LookupTool, PathParams, compute_text_budget
from joey.tools.parameters import XML_ONLY, build_missing_parameter_error, is_null_spelling

MAX_HITS = 300
_MAX_MATCHES_WITH_CONTEXT = 20
_MAX_LINE_CHARS = 500
_HIT_OVERHEAD_BYTES = 10
"""About what separates hits."""


class SearchFilesParams(PathParams, frozen=True):
    path: Annotated[
        str, Meta(description="Folder to search, with everything below it; or a single file.")
    ]
    regex: Annotated[str, Meta(description="The regular expression (Rust syntax).", extra=XML_ONLY)]
    file_pattern: Annotated[
        str | None,
        Meta(description="Glob for the files to search, e.g. *.ts; defaults to all files."),
    ] = None


class SearchFiles(LookupTool[SearchFilesParams]):
    name: ClassVar[str] = "search_files"
    params: ClassVar[type[Struct]] = SearchFilesParams

    def parse(self, arguments: dict[str, Any]) -> SearchFilesParams:
        params = super().parse(arguments)
        if not params.regex:
            raise build_missing_parameter_error(self.name, "regex")
        return params

    def build_row(self, params: SearchFilesParams, path: ResolvedPath) -> dict[str, Any]:
        return {
            "tool": "searchFiles",
            "path": path.display_path,
            "regex": params.regex,
            "filePattern": params.file_pattern,
        }

    async def look_up(self, params: SearchFilesParams, path: ResolvedPath, ctx: ToolContext) -> str:
        pattern = params.file_pattern or None
        result = await ctx.search.grep(path, params.regex, pattern, MAX_HITS)
        if pattern and not (result.hits or (await ctx.search.find_files(path, pattern, 1)).entries):
            return f"No file in {path.display_path} matches the pattern {pattern}."
        has_context = _count_matches(result) <= _MAX_MATCHES_WITH_CONTEXT
        shown = result if has_context else _drop_context(result)
        shown = _truncate_hits(shown, compute_text_budget(ctx.model))
        return render_results(shown, has_context=has_context)

    def describe_call(self, arguments: dict[str, Any]) -> str:
        pattern = arguments.get("file_pattern")
        where = (
            f" in '{pattern}'" if pattern and not is_null_spelling(pattern, "file_pattern") else ""
        )
        return f"[{self.name} for '{arguments.get('regex', '')}'{where}]"


def _count_matches(result: SearchResult) -> int:
    return sum(is_match for hit in result.hits for _, _, is_match in hit.lines)


def _drop_context(result: SearchResult) -> SearchResult:
    """Keep one hit per file, with the matching lines only."""
    hits = tuple(
        SearchHit(path, tuple(line for hit in group for line in hit.lines if line[2]))
        for path, group in groupby(result.hits, key=lambda hit: hit.path)
    )
    return SearchResult(hits, truncated=result.truncated, note=result.note)


def _truncate_hits(result: SearchResult, budget: int) -> SearchResult:
    """Return the first hits that one call may return; of the last one, the first lines."""
    kept: list[SearchHit] = []
    for hit in result.hits:
        budget -= len(hit.path.encode()) + _HIT_OVERHEAD_BYTES
        count = 0
        for line in hit.lines:
            budget -= len(_format_line(line).encode(errors="replace")) + 1
            if budget < 0:
                break
            count += 1
        if count:
            kept.append(SearchHit(hit.path, hit.lines[:count]))
        if budget < 0:
            return SearchResult(tuple(kept), truncated=True, note=result.note)
    return result


def render_results(result: SearchResult, *, has_context: bool = True) -> str:
    """Render `# path`, numbered lines with `>` for matches, `----` between hits of a file."""
    count = _count_matches(result)
    lines = f"{count} matching line{'' if count == 1 else 's'}"
    if result.truncated:
        how = "" if has_context else " without context"
        header = f"Showing the first {lines}{how}; there are more. Narrow the search to see them."
    else:
        header = f"Found {lines}{'' if has_context else ', shown without context'}."
    parts = [header]
    for path, hits in groupby(result.hits, key=lambda hit: hit.path):
        shown = "\n----\n".join("\n".join(map(_format_line, hit.lines)) for hit in hits)
        parts.append(f"# {path}\n{shown}")
    if result.note:
        parts.append(f"Note: {result.note}")
    return "\n\n".join(parts)


def _format_line(line: tuple[int, str, bool]) -> str:
    number, text, is_match = line
    text = text.rstrip()
    if len(text) > _MAX_LINE_CHARS:
        text = f"{text[:_MAX_LINE_CHARS]} [truncated...]"
    return f"{'>' if is_match else ' '}{number:>3} | {text}"
