"""The `apply_diff` tool: changes parts of files with SEARCH/REPLACE blocks.

A call names one file, or several in `<args>`. Models leave the wrapping out at times; then the
elements come in `file`, which holds all of them: `<path>…</path><diff>…</diff></file><file>…`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from joey.core.edits.diff import DiffStats, UnifiedDiff
from joey.core.edits.search_replace import AppliedBlocks, FailedBlocks, apply_blocks
from joey.core.edits.similar import EditFailure
from joey.core.models import ModelInfo
from joey.core.modes import ToolGroup
from joey.core.parsing.xml_argument_parser import parse_args_xml
from joey.core.path_access import ResolvedPath
from joey.core.task_types import Answer
from joey.core.text import compile_regex, unescape_entities
from joey.errors import ArgumentError, ToolError
from joey.ports.tool_context import ToolContext
from joey.tools.base import (
    Access,
    AvailabilityContext,
    Claim,
    Outcome,
    PreparedToolCall,
    Tool,
    build_missing_parameter_error,
    convert_arguments,
    resolve_visible_path,
)
from joey.tools.file_edit import (
    OriginalFile,
    build_edit_row_fields,
    build_patch,
    compute_similarity,
    format_write_result,
    join_patches,
    load_original,
    replace_surrogates,
    require_editable_text,
    run_in_thread_if_large,
    save_file,
)


class FileDiffRequest(Struct, frozen=True):
    path: str
    diff: str


class DiffRequest(Struct, frozen=True):
    files: tuple[FileDiffRequest, ...]


_MAX_SHOWN_FAILURES = 5
_BATCH_HINT = (
    "\n<notice>Several changes to a file can go into one call: write one SEARCH/REPLACE block for"
    " each of them into the same diff.</notice>"
)


class ApplyDiffParams(Struct, frozen=True):
    path: Annotated[str, Meta(description="Path of the file, relative to the workspace.")]
    diff: Annotated[
        str, Meta(description="One or more SEARCH/REPLACE blocks, as the tool's description shows.")
    ]


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
    """A file outside of the workspace that cannot be changed: told once the call is allowed.

    Told before, it would let the model find out about files that nobody let it look at.
    """

    request: FileDiffRequest
    resolved_path: ResolvedPath
    reason: str
    patch: ClassVar[UnifiedDiff] = UnifiedDiff("", DiffStats(0, 0))
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
                _merge_request(requests, request, resolve_visible_path(ctx, request.path))
            except ToolError as error:
                failures.append(error)
        for request, path in requests.values():
            try:
                plans.append(await _plan_file(request, path, ctx))
            except ToolError as error:
                failures.append(error)
        if len(params.files) == 1 and failures:
            raise failures[0]
        if not plans:
            raise ToolError("\n\n".join(map(str, failures)))
        single = plans[0] if len(plans) == 1 else None
        return PreparedDiff(
            claims=tuple(Claim(Access.WRITE, path=plan.resolved_path) for plan in plans),
            row=_build_single_row(single) if single else _build_batch_row(plans),
            path=single.resolved_path.display_path if single else None,
            diff=single.patch.text
            if single
            else join_patches((plan.resolved_path, plan.patch) for plan in plans),
            plans=tuple(plans),
            failures=tuple(map(str, failures)),
        )

    async def run_prepared(
        self, prepared: PreparedDiff, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        results: list[str] = []
        failures = list(prepared.failures)
        for plan in prepared.plans:
            try:
                results.append(await _execute_plan(plan, ctx))
            except ToolError as error:
                failures.append(str(error))
        if not results:
            raise ToolError("\n\n".join(failures))
        return Outcome("\n\n".join([*results, *failures]), is_error=bool(failures))

    def describe_call(self, arguments: dict[str, Any]) -> str:
        try:
            first, *others = self.parse(arguments).files
        except ArgumentError:
            return super().describe_call(arguments)
        more = f" and {len(others)} more files" if others else ""
        return f"[{self.name} for '{first.path}'{more}]"


def _merge_request(
    requests: dict[Path, tuple[FileDiffRequest, ResolvedPath]],
    request: FileDiffRequest,
    path: ResolvedPath,
) -> None:
    """Two names of one file are one request: each would be made of the file without the other."""
    if path.path in requests:
        first, path = requests[path.path]
        request = FileDiffRequest(first.path, f"{first.diff}\n{request.diff}")
    requests[path.path] = (request, path)


async def _plan_file(request: FileDiffRequest, path: ResolvedPath, ctx: ToolContext) -> FilePlan:
    try:
        return await _plan_edit(request, path, ctx)
    except ToolError as error:
        if path.is_inside:
            raise
        return DiffFailureWithheldUntilApproval(request, path, str(error))


async def _plan_edit(request: FileDiffRequest, path: ResolvedPath, ctx: ToolContext) -> PlannedEdit:
    original = await load_original(ctx, path)
    text = require_editable_text(original, "apply_diff")
    size = len(text) + len(request.diff)
    outcome = await run_in_thread_if_large(size, lambda: _apply_diff(text, request.diff, ctx.model))
    if isinstance(outcome, FailedBlocks):
        raise ToolError(
            "Unable to apply diff to file: "
            f"{path.path}\n\n{_format_failures(outcome.failures, path)}"
        )
    return PlannedEdit(
        request=request,
        original=original,
        applied_blocks=outcome,
        new_bytes=original.encode(outcome.text),
        patch=await build_patch(original, outcome.text),
    )


async def _execute_plan(plan: FilePlan, ctx: ToolContext) -> str:
    if isinstance(plan, DiffFailureWithheldUntilApproval):
        raise ToolError(plan.reason)
    problems = await save_file(ctx, plan.original, plan.new_bytes)
    return _format_result(plan, ctx, problems)


def _apply_diff(text: str, diff: str, model: ModelInfo) -> AppliedBlocks | FailedBlocks:
    """Apply as written; if nothing fits, without the entities that some models put in."""
    outcome = apply_blocks(text, diff, similarity=compute_similarity)
    if isinstance(outcome, AppliedBlocks) or "claude" in model.id.lower():
        return outcome
    unescaped = unescape_entities(diff)
    if unescaped == diff:
        return outcome
    second = apply_blocks(text, unescaped, similarity=compute_similarity)
    return second if isinstance(second, AppliedBlocks) else outcome


def _format_failures(failures: Sequence[EditFailure], path: ResolvedPath) -> str:
    """Why blocks failed. A file outside of the workspace that may be changed is still not read."""
    parts = [
        f"{failure.summary}\n\n{failure.evidence}"
        if path.is_inside and failure.evidence
        else failure.summary
        for failure in failures[:_MAX_SHOWN_FAILURES]
    ]
    if len(failures) > _MAX_SHOWN_FAILURES:
        parts.append(f"{len(failures) - _MAX_SHOWN_FAILURES} more blocks failed.")
    text = replace_surrogates("\n\n".join(parts))
    return f"<error_details>\n{text}\n</error_details>"


def _format_result(edit: PlannedEdit, ctx: ToolContext, problems: str) -> str:
    applied, path = edit.applied_blocks, edit.resolved_path
    result = format_write_result(edit.original, ctx.protocol, problems=problems)
    if applied.failures:
        result = (
            f"{len(applied.failures)} of {applied.total_count} blocks could not be applied to"
            f" {path.path}; the others were. Read the file again and apply these anew.\n"
            f"{_format_failures(applied.failures, path)}\n\n{result}"
        )
    if applied.total_count == 1:
        result += _BATCH_HINT
    return result


def _build_single_row(plan: FilePlan) -> dict[str, Any]:
    facts = build_edit_row_fields(plan.resolved_path, plan.patch)
    return {"tool": "appliedDiff", "diff": plan.request.diff, **facts}


def _build_batch_row(plans: Sequence[FilePlan]) -> dict[str, Any]:
    return {
        "tool": "appliedDiff",
        "batchDiffs": [_build_batch_item(plan) for plan in plans],
        "isProtected": any(plan.resolved_path.is_protected for plan in plans),
        "isOutsideWorkspace": any(not plan.resolved_path.is_inside for plan in plans),
    }


def _build_batch_item(plan: FilePlan) -> dict[str, Any]:
    path, changes = plan.resolved_path.display_path, plan.change_count
    return {
        "path": path,
        "changeCount": changes,
        "key": f"{path} ({changes} {'change' if changes == 1 else 'changes'})",
        "content": plan.patch.text,
        "diffStats": {"added": plan.patch.stats.added, "removed": plan.patch.stats.removed},
        "diffs": [{"content": plan.request.diff}],
    }


_WRAPPER_PARAMETERS = ("args", "file")
_SEARCH_LINE_RE = compile_regex(r"^[ \t]*<{7,8} SEARCH>?[ \t]*\r?\n", re.MULTILINE)


def parse_request(arguments: Mapping[str, Any], tool: str) -> DiffRequest:
    """The diffs of a call; those for the same file become one. Raises ArgumentError: a path or a
    diff is missing, or `args` has another structure."""
    diffs: dict[str, list[str]] = {}
    wrapped = any(arguments.get(key) for key in _WRAPPER_PARAMETERS)
    named = arguments.get("path") or arguments.get("file_path")
    if not wrapped or (named and arguments.get("diff")):
        single = convert_arguments(arguments, FileDiffRequest, tool, {"file_path": "path"})
        if not single.path.strip():
            raise build_missing_parameter_error(tool, "path")
        if not single.diff.strip():
            raise build_missing_parameter_error(tool, "diff")
        diffs[single.path] = [single.diff]
    for key in _WRAPPER_PARAMETERS:
        for path, diff in _iter_diffs(_parse_elements(key, arguments.get(key))):
            diffs.setdefault(path, []).append(diff)
    if not diffs:
        raise ArgumentError(
            "Nothing to apply was found in args. Each file must look like"
            " <file><path>…</path><diff><content>…</content></diff></file>."
        )
    return DiffRequest(
        tuple(FileDiffRequest(path, "\n".join(parts)) for path, parts in diffs.items())
    )


def _parse_elements(key: str, given: Any) -> Any:
    if key == "args" and not isinstance(given, list):
        return parse_args_xml(given) if isinstance(given, str) else given
    return parse_args_xml(f"<file>{given}</file>") if isinstance(given, str) else {"file": given}


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
    """A start line beside the content, put where a block has it."""
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
