"""Read files, whole or by lines; several in one call.

Of the forms that this tool has had, the one with a list of files is offered: what belongs together
is read in one turn, and each turn costs a whole request. From the later form, which has one file
to a call, it takes the block around a line; pages by offset and limit are ranges by another name.
All forms are understood (`read_request`).
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from joey.core.modes import Group
from joey.core.settings import Settings
from joey.core.task import Answer
from joey.errors import ArgumentError, HiddenError, ToolError
from joey.ports import Place, ToolContext
from joey.tools.base import Access, Claim, Outcome, Prepared, Tool
from joey.tools.file_view import FileViewer
from joey.tools.read_request import (
    BLOCK_KEYS,
    INDENTATION,
    ReadRequest,
    WantedFile,
    parse_request,
)
from joey.tools.read_result import Entry, render


class BlockToRead(Struct, frozen=True):
    anchor_line: Annotated[int, Meta(description="A line of the block, counted from 1.")]
    max_levels: Annotated[
        int | None,
        Meta(description="How many levels of indentation to go out; 0 or null: to the margin."),
    ] = None
    max_lines: Annotated[int | None, Meta(description="At most so many lines; null: 2000.")] = None
    include_siblings: Annotated[
        bool | None, Meta(description="true: also what else stands at the outermost level.")
    ] = None
    include_header: Annotated[
        bool | None,
        Meta(description="false: leave out comments and decorators right above the block."),
    ] = None


class FileToRead(Struct, frozen=True):
    path: Annotated[str, Meta(description="Path of the file, relative to the workspace.")]
    line_ranges: Annotated[
        tuple[tuple[int, int], ...] | None,
        Meta(
            description="Ranges of lines to read, each [first, last] counted from 1 and inclusive."
            " Null reads the whole file."
        ),
    ] = None
    indentation: Annotated[
        BlockToRead | None,
        Meta(
            description="Instead of ranges: the whole function or block that a line belongs to,"
            " found by indentation. Null otherwise."
        ),
    ] = None


class ReadFileParams(Struct, frozen=True):
    files: Annotated[
        tuple[FileToRead, ...],
        Meta(description="The files to read; ask for related ones together.", min_length=1),
    ]


class PreparedRead(Prepared, frozen=True, kw_only=True):
    files: tuple[tuple[WantedFile, Place], ...]


class ReadFile(Tool[ReadRequest, PreparedRead]):
    name: ClassVar[str] = "read_file"
    group: ClassVar[Group] = Group.READ
    params: ClassVar[type[Struct]] = ReadFileParams
    parallel: ClassVar[bool] = True
    xml_params: ClassVar[tuple[str, ...]] = (
        *("args", "file", "path", "start_line", "end_line", "line_range", "line_ranges"),
        *("mode", "offset", "limit", INDENTATION, *BLOCK_KEYS),
    )

    def parse(self, arguments: dict[str, Any]) -> ReadRequest:
        return parse_request(arguments, self.name)

    async def prepare(self, params: ReadRequest, ctx: ToolContext) -> PreparedRead:
        most = ctx.settings.max_concurrent_file_reads
        if len(params.files) > most:
            raise ToolError(
                f"{len(params.files)} files in one call are too many: at most {most} can be read"
                " at once. Read them in several calls."
            )
        files = tuple((wanted, ctx.files.resolve(wanted.path)) for wanted in params.files)
        visible = tuple((wanted, place) for wanted, place in files if not place.ignored)
        if len(files) == 1 and not visible:
            raise HiddenError(files[0][0].path, files[0][1].because)
        if not visible:
            raise ToolError("\n".join(_hidden(wanted, place) for wanted, place in files))
        return PreparedRead(
            claims=tuple(Claim(Access.READ, place=place) for _, place in visible),
            row=_row(visible, ctx.settings),
            path=visible[0][1].shown if len(visible) == 1 else None,
            files=files,
        )

    async def run(self, prepared: PreparedRead, ctx: ToolContext, answer: Answer | None) -> Outcome:
        viewer = FileViewer(ctx)
        entries = [
            Entry(wanted.path, error=_hidden(wanted, place))
            if place.ignored
            else await viewer.view(wanted, place)
            for wanted, place in prepared.files
        ]
        return Outcome(
            render(entries, ctx.protocol),
            images=tuple(entry.image for entry in entries if entry.image is not None),
            is_error=any(entry.error is not None for entry in entries),
            said=tuple(
                ("rooignore_error", place.shown) for _, place in prepared.files if place.ignored
            ),
        )

    def describe(self, arguments: dict[str, Any]) -> str:
        try:
            paths = [wanted.path for wanted in self.parse(arguments).files]
        except ArgumentError:
            return f"[{self.name}]"
        match paths:
            case [path]:
                hint = "Related files can be read together, in one call."
                return f"[{self.name} for '{path}'. {hint}]"
            case _ if len(paths) <= 3:
                return f"[{self.name} for {', '.join(repr(path) for path in paths)}]"
        return f"[{self.name} for {len(paths)} files]"


def _row(files: tuple[tuple[WantedFile, Place], ...], settings: Settings) -> dict[str, Any]:
    if len(files) == 1:
        wanted, place = files[0]
        row = {
            "tool": "readFile",
            "path": place.shown,
            "isOutsideWorkspace": not place.inside,
            "content": str(place.path),
            "reason": _snippet(wanted, settings),
        }
        if wanted.pages:
            return {**row, "startLine": wanted.ranges[0][0]}
        return row if wanted.block is None else {**row, "startLine": wanted.block.anchor_line}
    return {"tool": "readFile", "batchFiles": [_batch_item(*file, settings) for file in files]}


def _batch_item(wanted: WantedFile, place: Place, settings: Settings) -> dict[str, Any]:
    snippet = _snippet(wanted, settings)
    return {
        "path": place.shown,
        "lineSnippet": snippet,
        "isOutsideWorkspace": not place.inside,
        "key": f"{place.shown} ({snippet})" if snippet else place.shown,
        "content": str(place.path),
    }


def _snippet(wanted: WantedFile, settings: Settings) -> str:
    if wanted.block is not None:
        return f"the block around line {wanted.block.anchor_line}"
    if wanted.ranges:
        return "lines " + ", ".join(f"{start}-{end}" for start, end in wanted.ranges)
    most = settings.max_read_file_line
    return f"up to {most} lines" if most >= 0 else ""


def _hidden(wanted: WantedFile, place: Place) -> str:
    return str(HiddenError(wanted.path, place.because))
