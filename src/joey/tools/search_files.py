"""Search the contents of files with a regular expression."""

from __future__ import annotations

from itertools import groupby
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from joey.core.asks import Answer
from joey.core.modes import Group
from joey.errors import HiddenError
from joey.ports import Place, SearchHit, SearchResult, ToolContext
from joey.tools.arguments import convert, missing
from joey.tools.base import Access, Claim, Outcome, Prepared, Tool

LIMIT = 300
_LONGEST_LINE = 500


class SearchFilesParams(Struct, frozen=True):
    path: Annotated[
        str, Meta(description="Folder to search, with everything below it; or a single file.")
    ]
    regex: Annotated[str, Meta(description="What to look for: a regular expression (Rust syntax).")]
    file_pattern: Annotated[
        str | None,
        Meta(description="Glob for the names of files to look into, e.g. *.ts; null for all."),
    ] = None


class PreparedSearch(Prepared, frozen=True, kw_only=True):
    params: SearchFilesParams
    place: Place
    result: str | None
    """Found before anybody is asked, but outside of the workspace only after."""


class SearchFiles(Tool[SearchFilesParams, PreparedSearch]):
    name: ClassVar[str] = "search_files"
    group: ClassVar[Group] = Group.READ
    params: ClassVar[type[Struct]] = SearchFilesParams
    parallel: ClassVar[bool] = True

    def parse(self, arguments: dict[str, Any]) -> SearchFilesParams:
        params = convert(arguments, SearchFilesParams, self.name)
        if not params.regex:
            raise missing(self.name, "regex")
        return params

    async def prepare(self, params: SearchFilesParams, ctx: ToolContext) -> PreparedSearch:
        place = ctx.files.resolve(params.path)
        if place.ignored:
            raise HiddenError(params.path)
        result = await _search(params, place, ctx) if place.inside else None
        return PreparedSearch(
            claims=(Claim(Access.READ, place=place),),
            row={
                "tool": "searchFiles",
                "path": place.shown,
                "regex": params.regex,
                "filePattern": params.file_pattern,
                "isOutsideWorkspace": not place.inside,
                "content": result or "",
            },
            path=place.shown,
            params=params,
            place=place,
            result=result,
        )

    async def run(
        self, prepared: PreparedSearch, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        if prepared.result is not None:
            return Outcome(prepared.result)
        return Outcome(await _search(prepared.params, prepared.place, ctx))

    def describe(self, arguments: dict[str, Any]) -> str:
        pattern = arguments.get("file_pattern")
        where = f" in '{pattern}'" if pattern else ""
        return f"[{self.name} for '{arguments.get('regex', '')}'{where}]"


async def _search(params: SearchFilesParams, place: Place, ctx: ToolContext) -> str:
    result = await ctx.search.grep(place, params.regex, params.file_pattern or None, LIMIT)
    return render(result)


def render(result: SearchResult) -> str:
    """`# path`, numbered lines, `----` after each hit."""
    parts = [_header(result)]
    for path, hits in groupby(result.hits, key=lambda hit: hit.path):
        parts.append(f"# {path}\n" + "\n".join(_hit(hit) for hit in hits))
    if result.note:
        parts.append(f"Note: {result.note}")
    return "\n\n".join(parts)


def _header(result: SearchResult) -> str:
    count = len(result.hits)
    if result.truncated:
        return f"Showing first {count} of {count}+ results. Narrow the search to see the others."
    return "Found 1 result." if count == 1 else f"Found {count} results."


def _hit(hit: SearchHit) -> str:
    return "\n".join([*(f"{number:>3} | {_cut(text)}" for number, text, _ in hit.lines), "----"])


def _cut(text: str) -> str:
    text = text.rstrip()
    return text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]} [truncated...]"
