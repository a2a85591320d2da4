"""The `apply_diff` tool: changes parts of files with SEARCH/REPLACE blocks.

A call names one file, or several in `<args>`. Models sometimes leave out the wrapper; then `file`
contains all the elements: `<path>…</path><diff>…</diff></file><file>…`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta, Struct

from joey.core.diagnostics import Diagnostic
from joey.core.edits.diff import UnifiedDiff
from joey.core.edits.similar import EditFailure
from joey.core.modes import ToolGroup
from joey.core.parsing.xml_elements import parse_args_xml
from joey.core.path_access import ResolvedPath
from joey.core.task_types import Answer, RowKind
from joey.core.text import compile_regex, unescape_entities
from joey.errors import ArgumentError, ToolError
from joey.ports.tool_context import ToolContext
from joey.tools.base import (
    AvailabilityContext,
    Outcome,
    PreparedToolCall,
    Tool,
    resolve_visible_path,
)
from joey.tools.file_edit import (
    EMPTY_PATCH,
    FilePreview,
    OriginalFile,
    apply_or_unescape,
    build_edit_preview,
    build_patch,
    compute_similarity,
    format_failed_parts,
    format_new_errors,
    format_write_result,
    load_original,
    require_editable_text,
    run_in_thread_if_large,
    save_file,
)
from joey.tools.parameters import XML_ONLY, convert_arguments, require_texts

if TYPE_CHECKING:
    from joey.core.edits.search_replace import AppliedBlocks


class FileDiffRequest(Struct, frozen=True):
    path: str
    diff: str


class DiffRequest(Struct, frozen=True):
    files: tuple[FileDiffRequest, ...]


_MAX_SHOWN_FAILURES = 5


class ApplyDiffParams(Struct, frozen=True):
    path: Annotated[str, Meta(description="Path of the file, relative to the workspace.")]
    diff: Annotated[str, Meta(description="One or more SEARCH/REPLACE blocks.", extra=XML_ONLY)]


class PlannedEdit(Struct, frozen=True):
    """One file with the blocks that fit."""

    request: FileDiffRequest
    original: OriginalFile
    applied_blocks: AppliedBlocks
    new_bytes: bytes
    patch: UnifiedDiff

    @property
    def resolved_path(self) -> ResolvedPath:
        return self.original.resolved_path

    @property
    def change_count(self) -> int:
        return self.applied_blocks.total_count


class DiffFailureWithheldUntilApproval(Struct, frozen=True):
    """A file outside of the workspace that cannot be changed, reported only after approval:
    earlier, the error would tell the model about files that no user has allowed it to read."""

    request: FileDiffRequest
    resolved_path: ResolvedPath
    reason: str
    patch: ClassVar[UnifiedDiff] = EMPTY_PATCH
    change_count: ClassVar[int] = 0


FilePlan = PlannedEdit | DiffFailureWithheldUntilApproval


class PreparedDiff(PreparedToolCall, frozen=True, kw_only=True):
    plans: tuple[FilePlan, ...]
    failures: tuple[str, ...] = ()
    """Files of a call for several that cannot be changed, and why."""


class ApplyDiff(Tool[DiffRequest, PreparedDiff]):
    name: ClassVar[str] = "apply_diff"
    group: ClassVar[ToolGroup] = ToolGroup.EDIT
    params: ClassVar[type[Struct]] = ApplyDiffParams
    strict: ClassVar[bool] = False
    extra_xml_params: ClassVar[tuple[str, ...]] = ("args", "file", "file_path")

    def is_offered(self, context: AvailabilityContext) -> bool:
        return context.edit_tool == self.name

    def parse(self, arguments: dict[str, Any]) -> DiffRequest:
        return parse_request(arguments, self.name)

    async def prepare(self, params: DiffRequest, ctx: ToolContext) -> PreparedDiff:
        plans: list[FilePlan] = []
        failures: list[ToolError] = []
        requests: dict[Path, tuple[FileDiffRequest, ResolvedPath]] = {}
        for request in params.files:
            try:
                path = resolve_visible_path(ctx, request.path)
            except ToolError as error:
                failures.append(error)
                continue
            # Two names of one file are one request: each would be made of the file without the
            # other.
            first, path = requests.get(path.path, (None, path))
            diff = request.diff if first is None else f"{first.diff}\n{request.diff}"
            requests[path.path] = (FileDiffRequest((first or request).path, diff), path)
        for request, path in requests.values():
            try:
                plans.append(await _plan_edit(request, path, ctx))
            except ToolError as error:
                if path.is_inside:
                    failures.append(error)
                else:
                    plans.append(DiffFailureWithheldUntilApproval(request, path, str(error)))
        if len(params.files) == 1 and failures:
            raise failures[0]
        if not plans:
            raise ToolError("\n\n".join(map(str, failures)))
        previews = [
            FilePreview(plan.resolved_path, plan.patch, plan.change_count, plan.request.diff)
            for plan in plans
        ]
        return PreparedDiff(
            **build_edit_preview(previews), plans=tuple(plans), failures=tuple(map(str, failures))
        )

    async def run_prepared(
        self, prepared: PreparedDiff, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        results: list[str] = []
        new_errors: list[Diagnostic] = []
        failures = list(prepared.failures)
        for plan in prepared.plans:
            if isinstance(plan, DiffFailureWithheldUntilApproval):
                failures.append(plan.reason)
                continue
            try:
                errors = await save_file(ctx, plan.original, plan.new_bytes)
                problems = format_new_errors(errors, ctx.settings)
                notes = plan.applied_blocks.notes
                results.append(
                    format_write_result(plan.original, plan.patch, problems=problems, notes=notes)
                )
                new_errors += errors
                if plan.applied_blocks.failures:
                    failures.append(_format_failed_blocks(plan))
            except ToolError as error:
                failures.append(str(error))
        if not results:
            raise ToolError("\n\n".join(failures))
        return Outcome(
            "\n\n".join([*results, *failures]),
            is_error=bool(failures),
            new_errors=tuple(new_errors),
            rows=tuple(
                (RowKind.ERROR, f"{self.name}: {failure.splitlines()[0]}") for failure in failures
            ),
        )

    def describe_call(self, arguments: dict[str, Any]) -> str:
        try:
            first, *others = self.parse(arguments).files
        except ArgumentError:
            return super().describe_call(arguments)
        more = f" and {len(others)} more files" if others else ""
        return f"[{self.name} for '{first.path}'{more}]"


async def _plan_edit(request: FileDiffRequest, path: ResolvedPath, ctx: ToolContext) -> PlannedEdit:
    # Imported on need: the first request is sent without it.
    from joey.core.edits.search_replace import FailedBlocks, apply_blocks

    original = await load_original(ctx, path)
    text = await require_editable_text(ctx, original, "apply_diff")
    size = len(text) + len(request.diff)
    outcome: AppliedBlocks | FailedBlocks = await run_in_thread_if_large(
        size,
        lambda: apply_or_unescape(
            request.diff,
            unescape_entities,
            lambda diff: apply_blocks(text, diff, similarity=compute_similarity),
            FailedBlocks,
            ctx.model,
        ),
    )
    if isinstance(outcome, FailedBlocks):
        raise ToolError(
            f"Unable to apply diff to file: {path.path_as_given}\n\n"
            f"{_format_failures(outcome.failures, path)}"
        )
    return PlannedEdit(
        request=request,
        original=original,
        applied_blocks=outcome,
        new_bytes=original.encode(outcome.text),
        patch=await build_patch(original, outcome.text),
    )


def _format_failures(failures: Sequence[EditFailure], path: ResolvedPath) -> str:
    more = len(failures) - _MAX_SHOWN_FAILURES
    note = f"{more} more blocks failed." if more > 0 else ""
    return format_failed_parts(failures[:_MAX_SHOWN_FAILURES], note, quoted=path.is_inside)


def _format_failed_blocks(edit: PlannedEdit) -> str:
    applied, path = edit.applied_blocks, edit.resolved_path
    return (
        f"{len(applied.failures)} of {applied.total_count} blocks could not be applied to"
        f" {path.path_as_given}; the others were.\n{_format_failures(applied.failures, path)}"
    )


_WRAPPER_PARAMETERS = ("args", "file")
_SEARCH_LINE_RE = compile_regex(r"^[ \t]*<{7,8} SEARCH>?[ \t]*\r?\n", re.MULTILINE)


def parse_request(arguments: Mapping[str, Any], tool: str) -> DiffRequest:
    """Parse the diffs of a call; those for the same file are merged. Raises ArgumentError if a path
    or a diff is missing, or `args` has another structure."""
    diffs: dict[str, list[str]] = {}
    wrapped = any(arguments.get(key) for key in _WRAPPER_PARAMETERS)
    named = arguments.get("path") or arguments.get("file_path")
    if not wrapped or (named and arguments.get("diff")):
        single = convert_arguments(arguments, FileDiffRequest, tool, {"file_path": "path"})
        require_texts(single, ("path", "diff"), tool)
        diffs[single.path] = [single.diff]
    for key in _WRAPPER_PARAMETERS:
        given = arguments.get(key)
        is_whole = key == "args" and not isinstance(given, list)
        elements: Any = given if is_whole else {"file": given}
        if isinstance(given, str):
            elements = parse_args_xml(given if is_whole else f"<file>{given}</file>")
        for path, diff in _iter_diffs(elements):
            diffs.setdefault(path, []).append(diff)
    if not diffs:
        raise ArgumentError(
            "Nothing to apply was found in args. Each file must look like"
            " <file><path>…</path><diff><content>…</content></diff></file>."
        )
    return DiffRequest(
        tuple(FileDiffRequest(path, "\n".join(parts)) for path, parts in diffs.items())
    )


def _iter_diffs(elements: Any) -> Iterator[tuple[str, str]]:
    files = elements.get("file", ()) if isinstance(elements, dict) else ()
    for file in _as_list(files):
        if not isinstance(file, dict) or not isinstance(
            path := _get_first_value(file, "path"), str
        ):
            continue
        for diff in _as_list(file.get("diff", ())):
            text = diff if isinstance(diff, str) else _get_first_value(diff, "content")
            if isinstance(text, str) and text:
                yield path, _insert_start_line(text, diff)


def _insert_start_line(text: str, diff: Any) -> str:
    """Insert a start line given next to the content where a block has it."""
    line = _get_first_value(diff, "start_line") if isinstance(diff, dict) else None
    line = str(line) if isinstance(line, int) else line
    if not isinstance(line, str) or not line.isdecimal() or ":start_line:" in text:
        return text
    return _SEARCH_LINE_RE.sub(lambda match: f"{match[0]}:start_line:{line}\n", text, count=1)


def _get_first_value(element: Any, name: str) -> Any:
    values = _as_list(element.get(name, ())) if isinstance(element, dict) else []
    return values[0] if values else None


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
