"""The `list_files` tool: lists the entries of a directory."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from joey.core.modes import ToolGroup
from joey.core.path_access import ResolvedPath
from joey.core.task_types import Answer
from joey.errors import ToolError
from joey.ports.tool_context import ToolContext
from joey.tools.base import (
    Access,
    Claim,
    Outcome,
    PreparedToolCall,
    Tool,
    resolve_visible_path,
    truncate_to_budget,
)

MAX_ENTRIES = 200
_TRUNCATION_NOTE = "(File list truncated. Use list_files on subdirectories to see the rest.)"


class ListFilesParams(Struct, frozen=True):
    path: Annotated[str, Meta(description="The folder, relative to the workspace.")]
    recursive: Annotated[
        bool, Meta(description="true: everything below it as well; false: its own entries only.")
    ] = False


class PreparedListing(PreparedToolCall, frozen=True, kw_only=True):
    resolved_path: ResolvedPath
    recursive: bool
    precomputed_result: str | None
    """Listed before anybody is asked, but outside of the workspace only after."""


class ListFiles(Tool[ListFilesParams, PreparedListing]):
    name: ClassVar[str] = "list_files"
    group: ClassVar[ToolGroup] = ToolGroup.READ
    params: ClassVar[type[Struct]] = ListFilesParams
    can_run_in_parallel: ClassVar[bool] = True

    async def prepare(self, params: ListFilesParams, ctx: ToolContext) -> PreparedListing:
        path = resolve_visible_path(ctx, params.path)
        result = await _list_entries(path, params.recursive, ctx) if path.is_inside else None
        return PreparedListing(
            claims=(Claim(Access.READ, path=path),),
            row={
                "tool": "listFilesRecursive" if params.recursive else "listFilesTopLevel",
                "path": path.display_path,
                "isOutsideWorkspace": not path.is_inside,
                "content": result or "",
            },
            path=path.display_path,
            resolved_path=path,
            recursive=params.recursive,
            precomputed_result=result,
        )

    async def run_prepared(
        self, prepared: PreparedListing, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        if prepared.precomputed_result is not None:
            return Outcome(prepared.precomputed_result)
        return Outcome(await _list_entries(prepared.resolved_path, prepared.recursive, ctx))


async def _list_entries(path: ResolvedPath, recursive: bool, ctx: ToolContext) -> str:
    listing = await ctx.search.list_directory(path, recursive, MAX_ENTRIES)
    if not listing.entries:
        return "No files found."
    lines = [_mark_protected(entry, path, ctx) for entry in listing.entries]
    text = truncate_to_budget("\n".join(lines), ctx.model, _TRUNCATION_NOTE)
    return (
        f"{text}\n\n{_TRUNCATION_NOTE}"
        if listing.truncated and not text.endswith(_TRUNCATION_NOTE)
        else text
    )


def _mark_protected(entry: str, path: ResolvedPath, ctx: ToolContext) -> str:
    """An entry with a shield when writing to it always needs a user."""
    try:
        protected = ctx.files.resolve(str(path.path / entry)).is_protected
    except ToolError:  # a link to a name that cannot be used
        protected = True
    return f"🛡️ {entry}" if protected else entry
