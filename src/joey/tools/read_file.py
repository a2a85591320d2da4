"""The `read_file` tool: its argument forms, for whole files, ranges and blocks of lines.

Of the forms that this tool has had, the one with a list of files is offered: files that belong
together are read in one turn, and each turn costs a whole request. From the later form, which has
one file per call, it takes the block around a line; pages by offset and limit are ranges by another
name. All forms are accepted:

    {"files": [{"path": "a", "line_ranges": [[1, 5]]}]}                      offered
    {"files": [{"path": "a", "anchor_line": 9}]}                             the same, for a block
    {"files": [{"path": "a", "indentation": {"anchor_line": 9}}]}            its older form
    {"files": "<the same list as a JSON string>"}                            encoded twice
    {"files": "a"}                                                           just the path
    {"path": "a", "start_line": 1, "end_line": 5}                            the oldest form
    {"path": "a", "mode": "slice", "offset": 1, "limit": 5}                  the newest form
    {"path": "a", "mode": "indentation", "indentation": {"anchor_line": 9}}  the same, for a block
    {"args": "<file><path>a</path><line_range>1-5</line_range></file>"}      XML
    {"file": "<path>a</path></file><file><path>b</path>"}                    XML, not wrapped
    {"path": ["a", "b"]}                                                     XML, a tag for each

The keys that select lines may stand next to a path wherever the path stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from joey.core.modes import ToolGroup
from joey.core.parsing.xml_elements import parse_args_xml
from joey.core.path_access import ResolvedPath
from joey.core.settings import Settings
from joey.core.task_types import Answer, RowKind
from joey.core.text import compile_regex
from joey.errors import ArgumentError, IgnoredPathError, ToolError
from joey.ports.tool_context import ToolContext
from joey.tools.base import (
    Access,
    Claim,
    Outcome,
    PreparedToolCall,
    Tool,
    refuse_private_path,
)
from joey.tools.file_view import FileReadRequest, FileView, FileViewer, LineRange, render_views
from joey.tools.line_reader import MAX_BLOCK_LINES, BlockRequest
from joey.tools.parameters import (
    XML_ONLY,
    build_missing_parameter_error,
    build_wrong_kind_error,
    convert_arguments,
    try_decode_json,
)

INDENTATION_KEY = "indentation"
BLOCK_KEYS = ("anchor_line", "max_levels", "max_lines", "include_siblings", "include_header")


class ReadRequest(Struct, frozen=True):
    files: tuple[FileReadRequest, ...]


class FileParams(Struct, frozen=True):
    path: Annotated[str, Meta(description="Relative to the workspace.")]
    line_ranges: Annotated[
        tuple[tuple[int, int], ...] | None,
        Meta(description="Ranges [first, last], counted from 1; defaults to the whole file."),
    ] = None
    anchor_line: int | None = None
    max_levels: Annotated[
        int | None,
        Meta(
            description="With anchor_line: levels of indentation to go out, 0 for all; defaults to"
            " the innermost function or class."
        ),
    ] = None


class ReadFileParams(Struct, frozen=True):
    files: Annotated[
        tuple[FileParams, ...],
        Meta(description="The files to read.", extra=XML_ONLY, min_length=1),
    ]


class PreparedRead(PreparedToolCall, frozen=True, kw_only=True):
    files: tuple[tuple[FileReadRequest, ResolvedPath], ...]


class ReadFile(Tool[ReadRequest, PreparedRead]):
    name: ClassVar[str] = "read_file"
    group: ClassVar[ToolGroup] = ToolGroup.READ
    params: ClassVar[type[Struct]] = ReadFileParams
    can_run_in_parallel: ClassVar[bool] = True
    bare_parameter: ClassVar[str | None] = "path"
    extra_xml_params: ClassVar[tuple[str, ...]] = (
        *("args", "file", "path", "start_line", "end_line", "line_range", "line_ranges"),
        *("mode", "offset", "limit", INDENTATION_KEY, *BLOCK_KEYS),
    )

    def parse(self, arguments: dict[str, Any]) -> ReadRequest:
        return parse_request(arguments, self.name)

    async def prepare(self, params: ReadRequest, ctx: ToolContext) -> PreparedRead:
        files = tuple((wanted, ctx.files.resolve(wanted.path)) for wanted in params.files)
        visible = tuple((wanted, path) for wanted, path in files if not path.is_ignored)
        for _, path in visible:
            refuse_private_path(ctx, path)
        if len(files) == 1 and not visible:
            raise IgnoredPathError(files[0][0].path, files[0][1].ignore_error)
        if not visible:
            raise ToolError(
                "\n".join(_format_ignored_error(wanted, path) for wanted, path in files)
            )
        return PreparedRead(
            claims=tuple(Claim(Access.READ, path=path) for _, path in visible),
            row=_build_row(visible, ctx.settings),
            path=visible[0][1].display_path if len(visible) == 1 else None,
            files=files,
        )

    async def run_prepared(
        self, prepared: PreparedRead, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        viewer = FileViewer(ctx)
        most = ctx.settings.max_concurrent_file_reads
        entries = [
            FileView(wanted.path, error=_format_ignored_error(wanted, path))
            if path.is_ignored
            else await viewer.view(wanted, path)
            for wanted, path in prepared.files[:most]
        ]
        if most is not None:
            note = f"Not read: at most {most} files are read in one call. Read it in another one."
            entries += (FileView(wanted.path, note=note) for wanted, _ in prepared.files[most:])
        return Outcome(
            render_views(entries, ctx.protocol),
            images=tuple(
                entry.image_data_uri for entry in entries if entry.image_data_uri is not None
            ),
            is_error=any(entry.error is not None for entry in entries),
            rows=(
                *(
                    (RowKind.ROOIGNORE_ERROR, path.display_path)
                    for _, path in prepared.files
                    if path.is_ignored
                ),
                *(
                    (RowKind.ERROR, f"{self.name}: {entry.error}")
                    for entry, (_, path) in zip(entries, prepared.files, strict=True)
                    if entry.error is not None and not path.is_ignored
                ),
            ),
        )

    def describe_call(self, arguments: dict[str, Any]) -> str:
        try:
            paths = [*dict.fromkeys(wanted.path for wanted in self.parse(arguments).files)]
        except ArgumentError:
            return f"[{self.name}]"
        if len(paths) <= 3:
            return f"[{self.name} for {', '.join(repr(path) for path in paths)}]"
        return f"[{self.name} for {len(paths)} files]"


def _build_row(
    files: tuple[tuple[FileReadRequest, ResolvedPath], ...], settings: Settings
) -> dict[str, Any]:
    if len(files) == 1:
        wanted, path = files[0]
        row = {
            "tool": "readFile",
            "path": path.display_path,
            "isOutsideWorkspace": not path.is_inside,
            "content": str(path.path),
            "reason": _describe_selected_lines(wanted, settings),
        }
        if wanted.is_paged:
            return {**row, "startLine": wanted.ranges[0][0]}
        return row if wanted.block is None else {**row, "startLine": wanted.block.anchor_line}
    return {
        "tool": "readFile",
        "batchFiles": [_build_batch_item(*file, settings) for file in files],
    }


def _build_batch_item(
    wanted: FileReadRequest, path: ResolvedPath, settings: Settings
) -> dict[str, Any]:
    snippet = _describe_selected_lines(wanted, settings)
    return {
        "path": path.display_path,
        "lineSnippet": snippet,
        "isOutsideWorkspace": not path.is_inside,
        "key": f"{path.display_path} ({snippet})" if snippet else path.display_path,
        "content": str(path.path),
    }


def _describe_selected_lines(wanted: FileReadRequest, settings: Settings) -> str:
    if wanted.block is not None:
        return f"the block around line {wanted.block.anchor_line}"
    if wanted.ranges:
        return "lines " + ", ".join(f"{start}-{end}" for start, end in wanted.ranges)
    most = settings.max_read_file_line
    return f"up to {most} lines" if most >= 0 else ""


def _format_ignored_error(wanted: FileReadRequest, path: ResolvedPath) -> str:
    return str(IgnoredPathError(wanted.path, path.ignore_error))


DEFAULT_PAGE_LINES = 2000
_LINE_RANGE_RE = compile_regex(r"(\d{1,15})\s*-\s*(\d{1,15})")
_INTEGER_RE = compile_regex(r"-?\d{1,15}")
_WRAPPER_PARAMETERS = ("files", "args", "file")
_LINE_SELECTION_KEYS = ("start_line", "end_line", "offset", "limit", INDENTATION_KEY, *BLOCK_KEYS)
_RANGE_KEYS = ("line_ranges", "line_range", "lineRanges", "lineRange")


class _LineSelectionParams(Struct, frozen=True):
    mode: str | None = None
    start_line: int | None = None
    end_line: int | None = None
    offset: int | None = None
    limit: int | None = None


class _IndentationParams(Struct, frozen=True):
    anchor_line: int | None = None
    max_levels: int | None = None
    max_lines: int | None = None
    include_siblings: bool | None = None
    include_header: bool | None = None


def parse_request(arguments: Mapping[str, Any], tool: str) -> ReadRequest:
    """Parse a request. Raises ArgumentError if no file is named, or a range is invalid."""
    wanted = [
        file
        for key in _WRAPPER_PARAMETERS
        for file in _iter_wrapped_files(key, arguments.get(key), tool)
    ]
    named = {file.path for file in wanted}
    wanted += (file for file in _iter_element_files(arguments, tool) if file.path not in named)
    if not wanted:
        for key in (*_WRAPPER_PARAMETERS, "path"):
            given = arguments.get(key)
            if given and not (isinstance(given, str) and (not given.strip() or "<" in given)):
                raise build_wrong_kind_error(tool, key, tuple[FileParams, ...], given)
        raise build_missing_parameter_error(tool, "args" if "args" in arguments else "files")
    return ReadRequest(tuple(wanted))


def _iter_wrapped_files(key: str, given: Any, tool: str) -> Iterator[FileReadRequest]:
    """Iterate over the files in a wrapper parameter, in order."""
    given = _decode_json_string(given)
    if isinstance(given, str) and not _is_markup(given):
        given = [line.strip() for line in given.splitlines()]
    elif isinstance(given, str):
        given = parse_args_xml(f"<file>{given}</file>" if key == "file" else given)
    pending = [given]
    while pending:
        match pending.pop():
            case str(path) if path:
                yield FileReadRequest(path)
            case list() as items:
                pending += reversed(items)
            case dict() as element:
                yield from _iter_element_files(element, tool)
                pending += (element[key] for key in reversed(_WRAPPER_PARAMETERS) if key in element)


def _is_markup(text: str) -> bool:
    """Whether a text is XML or JSON rather than the name of a file."""
    return "<" in text or text.lstrip().startswith(("[", "{"))


def _iter_element_files(element: Mapping[str, Any], tool: str) -> Iterator[FileReadRequest]:
    """Iterate over the files of an element with one or more paths."""
    given = element.get("path")
    texts = given if isinstance(given, list) else [given]
    if isinstance(given, dict):
        raise build_wrong_kind_error(tool, "path", str, given)
    paths = [text.strip() for text in texts if isinstance(text, str) and text.strip()]
    if not paths:
        return
    wanted = _parse_line_selection(paths[0], element, tool)
    if len(paths) == 1:
        yield wanted
        return
    if wanted.ranges or any(element.get(key) for key in _LINE_SELECTION_KEYS):
        raise ArgumentError(
            "It is not clear to which of several paths the lines belong: give each path a file"
            " element of its own, with its lines in it."
        )
    yield from map(FileReadRequest, paths)


def _parse_line_selection(path: str, element: Mapping[str, Any], tool: str) -> FileReadRequest:
    """Parse a path with the selection of lines next to it."""
    wanted = convert_arguments(element, _LineSelectionParams, tool)
    around = _parse_indentation(element, tool)
    by_block = wanted.mode is None and around.anchor_line is not None
    if by_block or (wanted.mode or "").strip().lower() == INDENTATION_KEY:
        return FileReadRequest(path, block=_build_block_request(wanted, around))
    if wanted.offset is not None or wanted.limit is not None:
        offset = 1 if wanted.offset is None else wanted.offset
        limit = wanted.limit or DEFAULT_PAGE_LINES
        if offset < 1 or limit < 1:
            raise ArgumentError(
                f"Lines are 1-indexed: offset and limit must be at least 1, not {offset} and"
                f" {limit}."
            )
        return FileReadRequest(path, ((offset, offset + limit - 1),), is_paged=True)
    start, end = wanted.start_line or 0, wanted.end_line or 0
    if start > 0 and end > 0:
        return FileReadRequest(path, ((start, end),))
    given = (_decode_json_string(element.get(key)) for key in _RANGE_KEYS)
    return FileReadRequest(path, tuple(span for value in given for span in _iter_ranges(value)))


def _parse_indentation(element: Mapping[str, Any], tool: str) -> _IndentationParams:
    """Parse indentation options in a separate parameter, in any form, or next to the path."""
    given = _decode_json_string(element.get(INDENTATION_KEY))
    if isinstance(given, list) and len(given) == 1:
        given = _decode_json_string(given[0])
    if isinstance(given, str):
        given = parse_args_xml(given)
    inside = given if isinstance(given, dict) else {}
    return convert_arguments(
        {**{key: element.get(key) for key in BLOCK_KEYS}, **inside}, _IndentationParams, tool
    )


def _build_block_request(wanted: _LineSelectionParams, around: _IndentationParams) -> BlockRequest:
    anchor = wanted.offset if around.anchor_line is None else around.anchor_line
    anchor = 1 if anchor is None else anchor
    levels = around.max_levels
    most = min(
        wanted.limit or MAX_BLOCK_LINES, around.max_lines or MAX_BLOCK_LINES, MAX_BLOCK_LINES
    )
    if anchor < 1 or (levels or 0) < 0 or most < 1:
        raise ArgumentError(
            f"Lines are 1-indexed: anchor_line must be at least 1, not {anchor}; max_levels must"
            " not be negative, and max_lines and limit at least 1."
        )
    return BlockRequest(
        anchor_line=anchor,
        max_levels=levels,
        max_lines=most,
        include_siblings=bool(around.include_siblings),
        include_header=around.include_header is not False,
    )


def _iter_ranges(value: Any) -> Iterator[LineRange]:
    """Iterate over ranges as `[a, b]`, `{start, end}` or `a-b`, one or several; others are
    ignored."""
    single = _parse_pair(value) is not None or not isinstance(value, list)
    for item in [value] if single else value:
        if isinstance(item, str):
            yield from ((int(match[1]), int(match[2])) for match in _LINE_RANGE_RE.finditer(item))
        elif pair := _parse_pair(item):
            yield pair


def _parse_pair(value: Any) -> LineRange | None:
    match value:
        case {"start": start, "end": end} | [start, end]:
            first, last = _parse_integer(start), _parse_integer(end)
            return (first, last) if first is not None and last is not None else None
    return None


def _parse_integer(value: Any) -> int | None:
    match value:
        case int():
            return value
        case float() if value.is_integer():
            return int(value)
        case str() if _INTEGER_RE.fullmatch(value.strip()):
            return int(value)
    return None


def _decode_json_string(value: Any) -> Any:
    """Decode a value that was encoded as JSON once too often."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    decoded = try_decode_json(value)
    return value if decoded is None else decoded
