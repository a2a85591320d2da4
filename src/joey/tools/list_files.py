"""The `list_files` tool: lists the entries of a directory."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from joey.core.path_access import ResolvedPath
from joey.core.prompts.environment import PROTECTED_MARK, render_skipped_directories
from joey.errors import ToolError
from joey.ports.tool_context import ToolContext
from joey.tools.base import LookupTool, PathParams, truncate_to_budget

MAX_ENTRIES = 200
_TRUNCATION_NOTE = "(File list truncated. Use list_files on subdirectories to see the rest.)"


class ListFilesParams(PathParams, frozen=True):
    path: Annotated[str, Meta(description="The directory, relative to the workspace.")]
    recursive: Annotated[
        bool, Meta(description="true: everything below it as well; false: its own entries only.")
    ] = False
    glob: Annotated[
        str | None, Meta(description="Find files by name at any depth, e.g. *.test.ts.")
    ] = None


class ListFiles(LookupTool[ListFilesParams]):
    name: ClassVar[str] = "list_files"
    params: ClassVar[type[Struct]] = ListFilesParams

    def build_row(self, params: ListFilesParams, path: ResolvedPath) -> dict[str, Any]:
        tool = "listFilesRecursive" if params.recursive else "listFilesTopLevel"
        return {"tool": tool, "path": path.display_path}

    async def look_up(self, params: ListFilesParams, path: ResolvedPath, ctx: ToolContext) -> str:
        if params.glob:
            listing = await ctx.search.find_files(path, params.glob, MAX_ENTRIES)
        else:
            listing = await ctx.search.list_directory(path, params.recursive, MAX_ENTRIES)
        lines = [_mark_protected(entry, path, ctx) for entry in listing.entries]
        text = truncate_to_budget("\n".join(lines), ctx.model, _TRUNCATION_NOTE)
        is_cut = listing.truncated and not text.endswith(_TRUNCATION_NOTE)
        parts = (
            text or "No files found.",
            _TRUNCATION_NOTE if is_cut else "",
            render_skipped_directories(listing.skipped),
        )
        return "\n\n".join(filter(None, parts))


def _mark_protected(entry: str, path: ResolvedPath, ctx: ToolContext) -> str:
    """Mark an entry with a shield if writing to it always needs approval."""
    try:
        protected = ctx.files.resolve(str(path.path / entry)).is_protected
    except ToolError:  # a link to a name that cannot be used
        protected = True
    return f"{PROTECTED_MARK} {entry}" if protected else entry
