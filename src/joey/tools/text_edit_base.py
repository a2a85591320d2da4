"""The base class of tools that change a file by quoting a text in it.

They differ in their parameters, in how often the text may occur, and in their error messages;
`TextEditTool` does the rest. Nothing about a file outside the workspace is revealed before the call
is allowed, and its contents are not quoted even then.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from msgspec import Struct

from joey.core.edits.diff import UnifiedDiff
from joey.core.edits.similar import EditFailure
from joey.core.edits.text_replace import (
    CountMismatch,
    NormalizedText,
    ReplaceResult,
    explain_not_found,
    explain_wrong_count,
    normalize_newlines,
    replace_text,
)
from joey.core.models import ModelInfo
from joey.core.modes import ToolGroup
from joey.core.path_access import ResolvedPath
from joey.core.task_types import Answer, RowKind
from joey.core.text import has_line_numbers, strip_line_numbers, unescape_entities
from joey.errors import ArgumentError, ToolError
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
    EMPTY_PATCH,
    OriginalFile,
    build_edit_claim,
    build_edit_row_fields,
    build_patch,
    compute_fragment_similarity,
    compute_similarity,
    format_new_errors,
    format_write_result,
    load_original,
    replace_surrogates,
    save_file,
)

ParamsT = TypeVar("ParamsT", bound=Struct)

_LINE_NUMBERS_LABEL = "the line number in front of every line"
_ENTITIES_LABEL = "the escaping of &lt; and &gt;"


class TextChange(Struct, frozen=True):
    """The new text of a file, and notes about the edit."""

    text: str
    stripped_parts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    """Parts of the edit that were not made, and why."""


class NoTextChange(Struct, frozen=True):
    """There is nothing to change, which is not an error."""

    reason: str


class PlannedTextChange(Struct, frozen=True):
    original: OriginalFile
    new_bytes: bytes
    change: TextChange
    patch: UnifiedDiff


class EditFailureWithheldUntilApproval(Struct, frozen=True):
    """Why a file outside of the workspace cannot be changed, reported only after approval."""

    reason: str


TextEditPlan = PlannedTextChange | NoTextChange | EditFailureWithheldUntilApproval


class PreparedTextEdit(PreparedToolCall, frozen=True, kw_only=True):
    plan: TextEditPlan


class TextEditTool(Tool[ParamsT, PreparedTextEdit]):
    group: ClassVar[ToolGroup] = ToolGroup.EDIT
    strict: ClassVar[bool] = False

    def is_offered(self, context: AvailabilityContext) -> bool:
        return context.edit_tool == self.name

    @abstractmethod
    def get_path(self, params: ParamsT) -> str:
        """Return the file that a call wants to change."""

    @abstractmethod
    async def compute_change(
        self, params: ParamsT, original: OriginalFile, ctx: ToolContext
    ) -> TextChange | NoTextChange:
        """Compute the new text. Raises ToolError if the edit does not match."""

    def resolve_path(self, params: ParamsT, ctx: ToolContext) -> ResolvedPath:
        """Resolve a path; an absolute path is shown relative to the workspace."""
        path = resolve_visible_path(ctx, self.get_path(params))
        if path.is_inside and Path(path.path_as_given).is_absolute():
            return resolve_visible_path(ctx, path.display_path)
        return path

    def build_row(self, params: ParamsT, patch: UnifiedDiff, is_new: bool) -> dict[str, Any]:
        """The beginning of the row."""
        return {"tool": "newFileCreated" if is_new else "appliedDiff", "diff": patch.text}

    async def prepare(self, params: ParamsT, ctx: ToolContext) -> PreparedTextEdit:
        path = self.resolve_path(params, ctx)
        patch, is_new = EMPTY_PATCH, False
        claim = Claim(Access.WRITE, path=path)
        plan: TextEditPlan
        try:
            original = await load_original(ctx, path)
            change = await self.compute_change(params, original, ctx)
            if isinstance(change, NoTextChange):
                plan = change
            else:
                patch, is_new = await build_patch(original, change.text), not original.exists
                data = original.encode(change.text)
                plan = PlannedTextChange(original, data, change, patch)
                claim = build_edit_claim(original, data)
        except ToolError as error:
            if path.is_inside:
                raise
            plan = EditFailureWithheldUntilApproval(str(error))
        if path.is_inside and isinstance(plan, NoTextChange):
            return PreparedTextEdit(claims=(Claim(Access.NONE),), row={}, plan=plan)
        return PreparedTextEdit(
            claims=(claim,),
            row={**self.build_row(params, patch, is_new), **build_edit_row_fields(path, patch)},
            path=path.display_path,
            diff=patch.text,
            plan=plan,
        )

    async def run_prepared(
        self, prepared: PreparedTextEdit, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        match prepared.plan:
            case EditFailureWithheldUntilApproval(reason):
                raise ToolError(reason)
            case NoTextChange(reason):
                return Outcome(reason)
            case PlannedTextChange(original, data, change, patch):
                errors = await save_file(ctx, original, data)
                problems = format_new_errors(errors, ctx.settings)
                result = format_write_result(
                    original, patch, change.stripped_parts, problems, change.notes
                )
                return Outcome(
                    "\n\n".join([result, *change.failures]),
                    is_error=bool(change.failures),
                    new_errors=errors,
                    rows=tuple(
                        (RowKind.ERROR, f"{self.name}: {failure.splitlines()[0]}")
                        for failure in change.failures
                    ),
                )


class ReplaceSuccess(Struct, frozen=True):
    """A text that occurred as often as expected, and was replaced."""

    result: ReplaceResult
    stripped_parts: tuple[str, ...] = ()


class ReplaceFailure(Struct, frozen=True):
    match_count: int
    explanation: EditFailure


def find_and_replace(
    text: str,
    old: str,
    new: str,
    model: ModelInfo,
    *,
    expected: int | None = 1,
    tolerant: bool = False,
    is_explained: bool = True,
) -> ReplaceSuccess | ReplaceFailure:
    """Replace a text as given, else without additions that models tend to make."""
    flat = NormalizedText(text)
    for found_old, found_new, taken_off in _iter_interpretations(old, new, model):
        outcome = replace_text(flat, found_old, found_new, expected=expected, tolerant=tolerant)
        match outcome:
            case ReplaceResult():
                return ReplaceSuccess(outcome, taken_off)
            case CountMismatch(spans) if spans:
                return ReplaceFailure(len(spans), explain_wrong_count(flat, spans))
    return ReplaceFailure(0, explain_no_match(flat, old, new) if is_explained else EditFailure(""))


def explain_no_match(text: NormalizedText, old: str, new: str) -> EditFailure:
    measure = (
        compute_similarity
        if "\n" in normalize_newlines(old).strip("\n")
        else compute_fragment_similarity
    )
    return explain_not_found(text, old, new, measure)


def _iter_interpretations(
    old: str, new: str, model: ModelInfo
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    yield old, new, ()
    if has_line_numbers(old) and (not new.strip() or has_line_numbers(new)):
        yield strip_line_numbers(old), strip_line_numbers(new), (_LINE_NUMBERS_LABEL,)
    if "claude" not in model.id.lower() and unescape_entities(old) != old:
        yield unescape_entities(old), unescape_entities(new), (_ENTITIES_LABEL,)


def format_replace_failure(
    missed: ReplaceFailure, name: str, path: ResolvedPath, advice: str
) -> str:
    """Format why a text that must occur once was not replaced; `advice` is for one that occurs
    often."""
    if missed.match_count == 0:
        return (
            f"No match found for {name} in {path.display_path}. Copy the text exactly as it is in "
            f"the file now. {format_edit_failure(missed.explanation, path)}"
        ).rstrip()
    return (
        f"Found {missed.match_count} matches for {name} in {path.display_path}, but it must "
        f"occur exactly once. {advice} {format_edit_failure(missed.explanation, path)}"
    )


def refuse_identical(old: str, new: str) -> None:
    if normalize_newlines(old) == normalize_newlines(new):
        raise ArgumentError(
            "old_string and new_string are identical, so there is nothing to change. Write what"
            " the file has now into old_string and what it should have into new_string."
        )


def format_edit_failure(failure: EditFailure, path: ResolvedPath) -> str:
    """Format a failure. A file outside of the workspace is not quoted."""
    if not (path.is_inside and failure.evidence):
        return failure.summary
    return f"{failure.summary}\n\nWhat is there:\n{replace_surrogates(failure.evidence)}"
