"""The `insert_content` tool: inserts lines into a file.

Kept for models and histories that know it; never offered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from joey.core.edits.diff import DiffStats, UnifiedDiff
from joey.core.edits.line_document import Document, LineSpan
from joey.core.modes import ToolGroup
from joey.core.path_access import ResolvedPath
from joey.core.task_types import Answer
from joey.errors import ToolError
from joey.ports.tool_context import ToolContext
from joey.tools.base import (
    Access,
    AvailabilityContext,
    Claim,
    Outcome,
    PreparedToolCall,
    Tool,
    resolve_visible_path,
)
from joey.tools.file_edit import (
    OriginalFile,
    build_edit_row_fields,
    build_patch,
    format_write_result,
    load_original,
    run_in_thread_if_large,
    save_file,
)


class InsertContentParams(Struct, frozen=True):
    path: Annotated[str, Meta(description="Path of the file, relative to the workspace.")]
    line: Annotated[
        int,
        Meta(description="The line before which the content goes, from 1; 0 puts it at the end."),
    ]
    content: Annotated[str, Meta(description="The lines to insert, without line numbers.")]


class _PlannedInsertion(Struct, frozen=True):
    original: OriginalFile
    new_bytes: bytes
    patch: UnifiedDiff


class PreparedInsertion(PreparedToolCall, frozen=True, kw_only=True):
    plan_or_failure_reason: _PlannedInsertion | str
    """Or why it cannot be made, for a file outside of the workspace: told once it is allowed."""


class InsertContent(Tool[InsertContentParams, PreparedInsertion]):
    name: ClassVar[str] = "insert_content"
    group: ClassVar[ToolGroup] = ToolGroup.EDIT
    params: ClassVar[type[Struct]] = InsertContentParams
    required_texts: ClassVar[tuple[str, ...]] = ("path",)
    parameter_aliases: ClassVar[Mapping[str, str]] = {"file_path": "path"}
    extra_xml_params: ClassVar[tuple[str, ...]] = ("file_path",)

    def is_offered(self, context: AvailabilityContext) -> bool:
        return False

    async def prepare(self, params: InsertContentParams, ctx: ToolContext) -> PreparedInsertion:
        if params.line < 0:
            raise ToolError(
                f"{params.line} is no line: give the number of a line, from 1, or 0 for the end."
            )
        path = resolve_visible_path(ctx, params.path)
        insertion = await _try_plan_insertion(params, path, ctx)
        patch = UnifiedDiff("", DiffStats(0, 0)) if isinstance(insertion, str) else insertion.patch
        return PreparedInsertion(
            claims=(Claim(Access.WRITE, path=path),),
            row={
                "tool": "insertContent",
                "diff": patch.text,
                "lineNumber": params.line,
                **build_edit_row_fields(path, patch),
            },
            path=path.display_path,
            diff=patch.text,
            plan_or_failure_reason=insertion,
        )

    async def run_prepared(
        self, prepared: PreparedInsertion, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        insertion = prepared.plan_or_failure_reason
        if isinstance(insertion, str):
            raise ToolError(insertion)
        problems = await save_file(ctx, insertion.original, insertion.new_bytes)
        return Outcome(format_write_result(insertion.original, ctx.protocol, problems=problems))


async def _try_plan_insertion(
    params: InsertContentParams, path: ResolvedPath, ctx: ToolContext
) -> _PlannedInsertion | str:
    try:
        return await _plan_insertion(params, path, ctx)
    except ToolError as error:
        if path.is_inside:
            raise
        return str(error)


async def _plan_insertion(
    params: InsertContentParams, path: ResolvedPath, ctx: ToolContext
) -> _PlannedInsertion:
    original = await load_original(ctx, path)
    if not original.exists and params.line > 1:
        raise ToolError(
            f"{path.display_path} does not exist, so there is no line {params.line} in it. A new "
            "file begins at line 0 or 1."
        )
    if original.is_stale:
        raise ToolError(
            f"{path.display_path} was changed by somebody else since you last saw it, so the line "
            "may be another one by now and nothing was inserted. Read the file again."
        )
    if original.is_binary:
        raise ToolError(f"{path.display_path} is a binary file: insert_content changes text only.")
    text = original.text
    size = len(text) + len(params.content)
    new = await run_in_thread_if_large(size, lambda: _insert_lines(text, params, path))
    return _PlannedInsertion(original, original.encode(new), await build_patch(original, new))


def _insert_lines(text: str, params: InsertContentParams, path: ResolvedPath) -> str:
    document = Document(text)
    count = len(document.lines)
    if params.line > count + 1:
        raise ToolError(
            f"{path.display_path} has {count} lines, so nothing can be inserted before line"
            f" {params.line}. Read the file, or give line 0 for its end."
        )
    at = params.line - 1 if params.line else count
    content = params.content.replace("\r\n", "\n").removesuffix("\n").split("\n")
    document.replace(LineSpan(at, at), content)
    return document.text
