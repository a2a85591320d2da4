"""The `insert_content` tool: inserts lines into a file.

Supported for models and histories that use it; never offered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from joey.core.edits.diff import UnifiedDiff
from joey.core.edits.line_document import Document, LineSpan
from joey.core.path_access import ResolvedPath
from joey.errors import ToolError
from joey.ports.tool_context import ToolContext
from joey.tools.base import AvailabilityContext, resolve_visible_path, suggest_paths
from joey.tools.file_edit import OriginalFile, run_in_thread_if_large
from joey.tools.text_edit_base import TextChange, TextEditTool


class InsertContentParams(Struct, frozen=True):
    path: Annotated[str, Meta(description="Path of the file, relative to the workspace.")]
    line: Annotated[
        int,
        Meta(description="The line before which the content goes, from 1; 0 puts it at the end."),
    ]
    content: Annotated[str, Meta(description="The lines to insert, without line numbers.")]


class InsertContent(TextEditTool[InsertContentParams]):
    name: ClassVar[str] = "insert_content"
    params: ClassVar[type[Struct]] = InsertContentParams
    strict: ClassVar[bool] = True
    required_texts: ClassVar[tuple[str, ...]] = ("path",)
    parameter_aliases: ClassVar[Mapping[str, str]] = {"file_path": "path"}
    extra_xml_params: ClassVar[tuple[str, ...]] = ("file_path",)

    def is_offered(self, context: AvailabilityContext) -> bool:
        return False

    def get_path(self, params: InsertContentParams) -> str:
        return params.path

    def resolve_path(self, params: InsertContentParams, ctx: ToolContext) -> ResolvedPath:
        if params.line < 0:
            raise ToolError(
                f"{params.line} is no line: give the number of a line, from 1, or 0 for the end."
            )
        return resolve_visible_path(ctx, params.path)

    def build_row(
        self, params: InsertContentParams, patch: UnifiedDiff, is_new: bool
    ) -> dict[str, Any]:
        return {"tool": "insertContent", "diff": patch.text, "lineNumber": params.line}

    async def compute_change(
        self, params: InsertContentParams, original: OriginalFile, ctx: ToolContext
    ) -> TextChange:
        path = original.resolved_path
        if not original.exists and params.line > 1:
            raise ToolError(
                f"{path.display_path} does not exist, so there is no line {params.line} in it. A"
                f" new file begins at line 0 or 1.{await suggest_paths(ctx, path)}"
            )
        if original.is_stale:
            raise ToolError(
                f"{path.display_path} was changed by the user or by a command since you last saw"
                " it, so the line may be another one by now and nothing was inserted. Read the file"
                " again."
            )
        if original.is_binary:
            raise ToolError(
                f"{path.display_path} is a binary file: insert_content changes text only."
            )
        text = original.text
        size = len(text) + len(params.content)
        return TextChange(
            await run_in_thread_if_large(size, lambda: _insert_lines(text, params, path))
        )


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
