"""The `search_replace` tool: replaces a text that occurs exactly once in a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from joey.errors import ToolError
from joey.ports.tool_context import ToolContext
from joey.tools.file_edit import OriginalFile, require_editable_text, run_in_thread_if_large
from joey.tools.parameters import build_missing_parameter_error
from joey.tools.text_edit_base import (
    ReplaceFailure,
    TextChange,
    TextEditTool,
    find_and_replace,
    format_replace_failure,
    refuse_identical,
)

_QUOTE_MORE_ADVICE = "Add the 3-5 lines before and after the one you mean."


class SearchReplaceParams(Struct, frozen=True):
    file_path: Annotated[
        str, Meta(description="Path of the file, relative to the workspace or absolute.")
    ]
    old_string: Annotated[
        str,
        Meta(
            description="The text to replace, exactly as it is in the file, with enough lines"
            " around it to be there just once."
        ),
    ]
    new_string: Annotated[
        str, Meta(description="The text that takes its place; empty to delete it.")
    ]


class SearchReplace(TextEditTool[SearchReplaceParams]):
    name: ClassVar[str] = "search_replace"
    params: ClassVar[type[Struct]] = SearchReplaceParams
    required_texts: ClassVar[tuple[str, ...]] = ("file_path",)
    parameter_aliases: ClassVar[Mapping[str, str]] = {"path": "file_path"}
    extra_xml_params: ClassVar[tuple[str, ...]] = ("path",)

    def parse(self, arguments: dict[str, Any]) -> SearchReplaceParams:
        params = super().parse(arguments)
        if not params.old_string:
            raise build_missing_parameter_error(self.name, "old_string")
        refuse_identical(params.old_string, params.new_string)
        return params

    def get_path(self, params: SearchReplaceParams) -> str:
        return params.file_path

    async def compute_change(
        self, params: SearchReplaceParams, original: OriginalFile, ctx: ToolContext
    ) -> TextChange:
        text = await require_editable_text(ctx, original, self.name)
        outcome = await run_in_thread_if_large(
            len(text),
            lambda: find_and_replace(text, params.old_string, params.new_string, ctx.model),
        )
        if isinstance(outcome, ReplaceFailure):
            raise ToolError(
                format_replace_failure(
                    outcome, "old_string", original.resolved_path, _QUOTE_MORE_ADVICE
                )
            )
        return TextChange(outcome.result.text, outcome.stripped_parts)
