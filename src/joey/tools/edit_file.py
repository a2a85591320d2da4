"""The `edit_file` tool: replaces a text as often as expected, or creates a file.

Differences in white space are tolerated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from joey.core.edits.text_replace import normalize_newlines
from joey.core.path_access import ResolvedPath
from joey.errors import ToolError
from joey.ports.tool_context import ToolContext
from joey.tools.base import suggest_paths
from joey.tools.file_edit import OriginalFile, require_editable_text, run_in_thread_if_large
from joey.tools.text_edit_base import (
    ReplaceFailure,
    TextChange,
    TextEditTool,
    find_and_replace,
    format_edit_failure,
)

_WHITESPACE_NOTE = (
    "old_string was found with other white space than you wrote; new_string was put there as it is,"
    " so see that its indentation fits."
)


class EditFileParams(Struct, frozen=True):
    file_path: Annotated[
        str, Meta(description="Path of the file, relative to the workspace or absolute.")
    ]
    old_string: Annotated[
        str,
        Meta(
            description="The text to replace, with at least 3 lines around the change so that the"
            " place is clear. Empty makes a new file."
        ),
    ]
    new_string: Annotated[
        str, Meta(description="The text that takes its place, or the whole content of a new file.")
    ]
    expected_replacements: Annotated[
        int,
        Meta(
            ge=1,
            description="How often old_string is in the file; all of them are replaced.",
            extra_json_schema={"minimum": 1},
        ),
    ] = 1


class EditFile(TextEditTool[EditFileParams]):
    name: ClassVar[str] = "edit_file"
    params: ClassVar[type[Struct]] = EditFileParams
    required_texts: ClassVar[tuple[str, ...]] = ("file_path",)
    parameter_aliases: ClassVar[Mapping[str, str]] = {"path": "file_path"}
    extra_xml_params: ClassVar[tuple[str, ...]] = ("path",)

    def parse(self, arguments: dict[str, Any]) -> EditFileParams:
        given = {"old_string": None, **arguments}
        # Null is how some models write "nothing". A new_string that was left out is a mistake.
        for name in ("old_string", "new_string"):
            if name in given and given[name] is None:
                given[name] = ""
        return super().parse(given)

    def get_path(self, params: EditFileParams) -> str:
        return params.file_path

    async def compute_change(
        self, params: EditFileParams, original: OriginalFile, ctx: ToolContext
    ) -> TextChange:
        path = original.resolved_path
        if not params.old_string:
            if not original.exists:
                return TextChange(params.new_string)
            raise _build_edit_error(
                "File already exists",
                path,
                "An empty old_string makes a new file, but this one is there.",
                "To change it, read it and quote the text to replace in old_string.",
                "To replace all of it, use write_to_file.",
            )
        if not original.exists:
            raise _build_edit_error(
                "File not found",
                path,
                "A text can only be replaced in a file that exists.",
                f"Check the path with list_files.{await suggest_paths(ctx, path)}",
                "To make the file, call again with an empty old_string.",
            )
        text = await require_editable_text(ctx, original, self.name)
        if normalize_newlines(params.old_string) == normalize_newlines(params.new_string):
            raise _build_edit_error(
                "Nothing to change in file",
                path,
                "old_string and new_string are identical.",
                "Write what the file has now into old_string, and what it should have into"
                " new_string.",
            )
        count = params.expected_replacements
        outcome = await run_in_thread_if_large(
            len(text),
            lambda: find_and_replace(
                text, params.old_string, params.new_string, ctx.model, expected=count, tolerant=True
            ),
        )
        if isinstance(outcome, ReplaceFailure):
            raise _build_mismatch_error(outcome, params, path)
        notes = (f"{count} places were changed.",) if count > 1 else ()
        if not outcome.result.is_exact:
            notes = (*notes, _WHITESPACE_NOTE)
        return TextChange(outcome.result.text, outcome.stripped_parts, notes)


def _build_mismatch_error(
    missed: ReplaceFailure, params: EditFileParams, path: ResolvedPath
) -> ToolError:
    if missed.match_count == 0:
        return _build_edit_error(
            "No match found in file",
            path,
            "old_string is not in the file, not even with other white space."
            f" {format_edit_failure(missed.explanation, path)}",
            "Copy old_string exactly from the file as it is now.",
            "Quote fewer lines, and only ones that you are sure of.",
        )
    return _build_edit_error(
        "Occurrence count mismatch in file",
        path,
        f"Expected {params.expected_replacements}, found {missed.match_count}."
        f" {format_edit_failure(missed.explanation, path)}",
        "Quote more of the text around the place that you mean.",
        f"To replace all of them, set expected_replacements to {missed.match_count}.",
    )


def _build_edit_error(
    headline: str, path: ResolvedPath, details: str, *suggestions: str
) -> ToolError:
    listed = "\n".join(f"{number}. {text}" for number, text in enumerate(suggestions, 1))
    return ToolError(
        f"{headline}: {path.path}\n\n<error_details>\n{details}\n\nRecovery suggestions:\n"
        f"{listed}\n</error_details>"
    )
