"""The `list_code_definition_names` tool: lists the definitions in a file or a directory.

Other modules use `format_definitions` too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from joey.core.path_access import ResolvedPath
from joey.errors import TargetNotFoundError, ToolError
from joey.ports.content import Definition, Outlines
from joey.ports.tool_context import ToolContext
from joey.ports.workspace import Files
from joey.tools.base import (
    AvailabilityContext,
    LookupTool,
    PathParams,
    truncate_to_budget,
)
from joey.tools.parameters import XML_ONLY

MAX_FILES = 50
_MAX_DIRECTORY_ENTRIES = 1_000
_MAX_CONCURRENT_FILES = 4
_TRUNCATION_NOTE = "(The list is cut: name a file to see it.)"


class ListCodeDefinitionNamesParams(PathParams, frozen=True):
    path: Annotated[
        str,
        Meta(
            description="A file, or a folder to look at the files directly in it.", extra=XML_ONLY
        ),
    ]


class ListCodeDefinitionNames(LookupTool[ListCodeDefinitionNamesParams]):
    name: ClassVar[str] = "list_code_definition_names"
    params: ClassVar[type[Struct]] = ListCodeDefinitionNamesParams

    def is_offered(self, context: AvailabilityContext) -> bool:
        return context.capabilities.outlines is not None

    def build_row(
        self, params: ListCodeDefinitionNamesParams, path: ResolvedPath
    ) -> dict[str, Any]:
        return {"tool": "listCodeDefinitionNames", "path": path.display_path}

    async def look_up(
        self, params: ListCodeDefinitionNamesParams, path: ResolvedPath, ctx: ToolContext
    ) -> str:
        outlines = ctx.capabilities.outlines
        if outlines is None:
            raise ToolError("Definitions cannot be listed here: use search_files or read_file.")
        kind = await ctx.files.stat(path)
        if kind.is_file:
            return await _list_file_definitions(path, outlines, ctx)
        if kind.is_dir:
            return await _list_directory_definitions(path, outlines, ctx)
        problem = f"Cannot list the definitions of {path.display_path}: it"
        if not kind.exists:
            raise TargetNotFoundError(f"{problem} does not exist.")
        raise ToolError(f"{problem} is neither a file nor a folder.")


async def _list_file_definitions(path: ResolvedPath, outlines: Outlines, ctx: ToolContext) -> str:
    name = path.path.name
    if not outlines.supports(name):
        return f"Files such as {name} are not in a language whose definitions can be listed."
    try:
        found = await parse_definitions(path, outlines, ctx.files)
    except ToolError as error:
        raise ToolError(f"Cannot list the definitions of {path.display_path}: {error}") from error
    if not found:
        return f"No definitions of four lines or more in {path.display_path}."
    return truncate_to_budget(format_definitions(name, found), ctx.model, _TRUNCATION_NOTE)


async def _list_directory_definitions(
    path: ResolvedPath, outlines: Outlines, ctx: ToolContext
) -> str:
    listing = await ctx.search.list_directory(path, False, _MAX_DIRECTORY_ENTRIES)
    files = [
        file
        for entry in listing.entries
        if outlines.supports(entry)
        and (file := await _resolve_direct_file(path, entry, ctx)) is not None
    ]
    turns = asyncio.Semaphore(_MAX_CONCURRENT_FILES)
    parts = await asyncio.gather(
        *(_list_definitions_or_error(file, outlines, ctx, turns) for file in files[:MAX_FILES])
    )
    shown = [part for part in parts if part is not None]
    if len(files) > MAX_FILES or listing.truncated:
        shown.append(f"(Only the first {MAX_FILES} files were looked at: name a file to see it.)")
    if not shown:
        return f"No definitions of four lines or more in the files of {path.display_path}."
    return truncate_to_budget("\n\n".join(shown), ctx.model, _TRUNCATION_NOTE)


async def _resolve_direct_file(
    directory: ResolvedPath, entry: str, ctx: ToolContext
) -> ResolvedPath | None:
    """Resolve a file in the directory itself: links may lead to files that no user has allowed to
    read."""
    try:
        file = ctx.files.resolve(str(directory.path / entry))
    except ToolError:
        return None  # a link to a name that cannot be used
    if file.path.parent != directory.path or file.is_ignored:
        return None
    return file if (await ctx.files.stat(file)).is_file else None


async def _list_definitions_or_error(
    file: ResolvedPath, outlines: Outlines, ctx: ToolContext, turns: asyncio.Semaphore
) -> str | None:
    """List the definitions of one of several files; an error in one does not affect the others."""
    name = file.path.name
    try:
        async with turns:
            found = await parse_definitions(file, outlines, ctx.files)
    except ToolError as error:
        return f"# {name}\n({error})"
    return format_definitions(name, found) if found else None


MAX_SOURCE_BYTES = 2 * 1024 * 1024
_MAX_DEFINITIONS = 500


async def parse_definitions(
    path: ResolvedPath, outlines: Outlines, files: Files
) -> Sequence[Definition]:
    """Parse definitions. Raises ToolError if the file cannot be read or parsed."""
    data = await files.read(path, MAX_SOURCE_BYTES + 1)
    if len(data) > MAX_SOURCE_BYTES:
        raise ToolError(f"it is larger than {MAX_SOURCE_BYTES // 2**20} MB.")
    return await outlines.build_outline(path.path.name, data)


def format_definitions(name: str, definitions: Sequence[Definition]) -> str:
    """Format `# name`, then `first--last | first line` for each; only outer ones if there are too
    many."""
    lines = [f"# {name}"]
    lines += [
        f"{item.start_line}--{item.end_line} | {item.first_line}"
        for item in _select_outermost(definitions)
    ]
    if len(definitions) > _MAX_DEFINITIONS:
        lines.append(
            f"({len(definitions) - _MAX_DEFINITIONS} more are not shown, inner ones first. To see"
            " them, read the lines of the one around them with read_file, or use search_files.)"
        )
    return "\n".join(lines)


def _select_outermost(definitions: Sequence[Definition]) -> Sequence[Definition]:
    if len(definitions) <= _MAX_DEFINITIONS:
        return definitions
    depths: list[int] = []
    open_ends: list[int] = []
    for item in definitions:
        while open_ends and open_ends[-1] < item.start_line:
            open_ends.pop()
        depths.append(len(open_ends))
        open_ends.append(item.end_line)
    by_depth = sorted(range(len(definitions)), key=depths.__getitem__)
    return [definitions[at] for at in sorted(by_depth[:_MAX_DEFINITIONS])]
