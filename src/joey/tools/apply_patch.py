"""The `apply_patch` tool: changes, creates, moves and deletes files with one patch.

Everything is computed before anything is written. The hunks are applied one after another to drafts
of the files, so that a file may be changed twice, or deleted and created again, in one patch.
Failures are collected; if there is any, no part of the patch is applied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Meta, Struct, structs

from joey.core.diagnostics import Diagnostic
from joey.core.edits.diff import DiffStats, UnifiedDiff
from joey.core.edits.patch import MAX_FAILED_CHUNKS, FailedPatch, apply_chunks
from joey.core.edits.patch_parser import (
    AddFile,
    DeleteFile,
    FileOperation,
    InvalidPatch,
    PatchChunk,
    UpdateFile,
    parse_patch,
)
from joey.core.modes import ToolGroup
from joey.core.path_access import ResolvedPath
from joey.core.task_types import Answer, RowKind
from joey.core.text import split_lines, unescape_entities
from joey.core.tool_calls import CallKind
from joey.errors import ToolError
from joey.ports.tool_context import ToolContext
from joey.tools.base import (
    AvailabilityContext,
    Outcome,
    PreparedToolCall,
    Tool,
    resolve_visible_path,
    suggest_paths,
)
from joey.tools.file_edit import (
    EMPTY_PATCH,
    FilePreview,
    OriginalFile,
    apply_or_unescape,
    build_edit_preview,
    build_patch,
    check_unchanged,
    compute_similarity,
    format_failed_parts,
    format_new_errors,
    format_write_result,
    load_original,
    remove_file,
    run_in_thread_if_large,
    save_file,
)


class ApplyPatchParams(Struct, frozen=True):
    patch: Annotated[
        str,
        Meta(
            description="The whole patch, from `*** Begin Patch` to `*** End Patch`. Chunks appear"
            " in file order; `*** End of File` as the last line of one anchors it to the end of"
            " the file. A chunk with only added lines goes after the line named by `@@`, or to the"
            " end of the file. A new file is given in full, with `+` before every line, and must"
            " not exist yet. `*** Move to:` directly follows `*** Update File:`; chunks are"
            " optional, and the target must not exist.",
        ),
    ]


class PreparedPatch(PreparedToolCall, frozen=True, kw_only=True):
    drafts: tuple[FileDraft, ...]
    failures_withheld_until_approval: tuple[str, ...] = ()
    """Why the patch cannot be carried out, where that tells about files outside of the workspace:
    not for the model to know before somebody has allowed it to work there."""


class ApplyPatch(Tool[ApplyPatchParams, PreparedPatch]):
    name: ClassVar[str] = "apply_patch"
    group: ClassVar[ToolGroup] = ToolGroup.EDIT
    params: ClassVar[type[Struct]] = ApplyPatchParams
    required_texts: ClassVar[tuple[str, ...]] = ("patch",)
    parameter_aliases: ClassVar[Mapping[str, str]] = {"input": "patch"}
    strict: ClassVar[bool] = False

    def is_offered(self, context: AvailabilityContext) -> bool:
        return context.edit_tool == self.name

    async def prepare(self, params: ApplyPatchParams, ctx: ToolContext) -> PreparedPatch:
        hunks = await run_in_thread_if_large(len(params.patch), lambda: parse_patch(params.patch))
        if isinstance(hunks, InvalidPatch):
            raise ToolError(f"Invalid patch format: {hunks.message}")
        if not hunks:
            raise ToolError("No file operations found in patch.")
        plan = await plan_patch(hunks, ctx)
        if reportable := [
            failure.reason for failure in plan.failures if failure.is_inside_workspace
        ]:
            raise _build_patch_error(reportable)
        drafts = {draft.resolved_path.path: draft for draft in reversed(plan.drafts)}
        previews: list[FilePreview] = []
        for path in plan.resolved_paths:
            draft = drafts.get(path.path)
            patch = EMPTY_PATCH
            if draft is not None:
                patch = draft.patch = await _build_file_patch(draft)
            count = 0 if draft is None else max(1, draft.change_count)
            previews.append(FilePreview(path, patch, count, patch.text))
        return PreparedPatch(
            **build_edit_preview(previews),
            kind=_find_kind(plan.drafts),
            drafts=plan.drafts,
            failures_withheld_until_approval=tuple(failure.reason for failure in plan.failures),
        )

    async def run_prepared(
        self, prepared: PreparedPatch, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        if prepared.failures_withheld_until_approval:
            raise _build_patch_error(prepared.failures_withheld_until_approval)
        for draft in prepared.drafts:
            await check_unchanged(ctx, draft.original)
        # What is moved is in its new place before it leaves the old one.
        pending = sorted(prepared.drafts, key=lambda draft: draft.new_bytes is None)
        results: list[str] = []
        new_errors: list[Diagnostic] = []
        for number, draft in enumerate(pending):
            try:
                text, errors = await _write_draft(draft, ctx)
                results.append(text)
                new_errors += errors
            except ToolError as error:
                if not any(done.is_changed for done in pending[:number]):
                    raise
                left = [
                    draft.resolved_path.path_as_given
                    for draft in pending[number + 1 :]
                    if draft.is_changed
                ]
                rest = f" These were not changed either: {', '.join(left)}." if left else ""
                problem = (
                    "The patch was carried out in part: the changes above were made, then this"
                    f" failed: {error}{rest}"
                )
                return Outcome(
                    "\n\n".join((*results, problem)),
                    is_error=True,
                    new_errors=tuple(new_errors),
                    rows=((RowKind.ERROR, f"{self.name}: {error}{rest}"),),
                )
        return Outcome("\n\n".join(results), new_errors=tuple(new_errors))


def _find_kind(drafts: Sequence[FileDraft]) -> CallKind:
    if drafts and all(draft.new_bytes is None and not draft.moved_to for draft in drafts):
        return CallKind.DELETE
    if len(drafts) == 2 and any(draft.moved_to is not None for draft in drafts):
        return CallKind.MOVE
    if drafts and not any(draft.original.exists for draft in drafts):
        return CallKind.CREATE
    return CallKind.EDIT


def _build_patch_error(reasons: Sequence[str]) -> ToolError:
    listed = "\n\n".join(reasons)
    return ToolError(f"Failed to process patch: nothing was written.\n\n{listed}")


async def _write_draft(draft: FileDraft, ctx: ToolContext) -> tuple[str, tuple[Diagnostic, ...]]:
    """Write a draft; return what was done, and the errors that it introduced."""
    path = draft.resolved_path.path_as_given
    if not draft.is_changed:
        return f"No changes needed for '{path}'", ()
    if draft.new_bytes is not None:
        like = draft.moved_from.resolved_path if draft.moved_from is not None else None
        errors = await save_file(ctx, draft.original, draft.new_bytes, like)
        problems = format_new_errors(errors, ctx.settings)
        return format_write_result(draft.original, draft.patch, problems=problems), errors
    await remove_file(ctx, draft.original)
    if draft.moved_to is not None:
        return f"Successfully moved {path} to {draft.moved_to.path_as_given}", ()
    return f"Successfully deleted {path}", ()


async def _build_file_patch(draft: FileDraft) -> UnifiedDiff:
    """Build the patch of one file, in words if there are no lines to show."""
    path = draft.resolved_path.display_path
    if draft.moved_to is not None:
        return UnifiedDiff(
            f"{path} will be moved to {draft.moved_to.display_path}.", DiffStats(0, 0)
        )
    if draft.new_bytes is None:
        count = 0 if draft.original.is_binary else len(split_lines(draft.original.text))
        return UnifiedDiff(f"{path} will be deleted.", DiffStats(0, count))
    base = draft.original if draft.moved_from is None else draft.moved_from
    if draft.new_bytes == base.data:
        return EMPTY_PATCH
    text = OriginalFile(draft.resolved_path, draft.new_bytes).text
    return await build_patch(OriginalFile(draft.resolved_path, base.data), text)


class FileDraft(Struct):
    """A file named by a patch, while hunks are applied to it."""

    original: OriginalFile
    new_bytes: bytes | None
    """What it shall be; None: no such file."""
    moved_from: OriginalFile | None = None
    moved_to: ResolvedPath | None = None
    change_count: int = 0
    patch: UnifiedDiff = EMPTY_PATCH

    @property
    def resolved_path(self) -> ResolvedPath:
        return self.original.resolved_path

    @property
    def is_changed(self) -> bool:
        return self.new_bytes != self.original.data


class HunkFailure(Struct, frozen=True):
    reason: str
    is_inside_workspace: bool
    """All files of the hunk are of the workspace, so that it may be told at once."""


class PatchPlan(Struct, frozen=True):
    resolved_paths: tuple[ResolvedPath, ...]
    """Every file that the patch names, targets of moves included, each once."""
    drafts: tuple[FileDraft, ...]
    failures: tuple[HunkFailure, ...]


async def plan_patch(hunks: Sequence[FileOperation], ctx: ToolContext) -> PatchPlan:
    """Plan a patch. Raises ToolError if a path is hidden or invalid; then no file was read."""
    paths: dict[str, ResolvedPath] = {}
    for hunk in hunks:
        for path in _list_paths(hunk):
            paths[path] = resolve_visible_path(ctx, path)
    outside = _find_outside_paths(hunks, paths)
    planner = _PatchPlanner(ctx, paths, outside)
    failures: list[HunkFailure] = []
    for hunk in hunks:
        try:
            await planner.apply_hunk(hunk)
        except ToolError as error:
            inside = paths[hunk.path].path not in outside
            failures.append(HunkFailure(str(error), inside))
    unique = {resolved_path.path: resolved_path for resolved_path in reversed(paths.values())}
    return PatchPlan(tuple(reversed(unique.values())), planner.drafts, tuple(failures))


def _find_outside_paths(
    hunks: Sequence[FileOperation], paths: dict[str, ResolvedPath]
) -> frozenset[Path]:
    """Find files outside of the workspace, and those moved there or possibly from there."""
    outside: set[Path] = set()
    for hunk in hunks:
        named = [paths[path] for path in _list_paths(hunk)]
        if any(
            not resolved_path.is_inside or resolved_path.path in outside for resolved_path in named
        ):
            outside |= {resolved_path.path for resolved_path in named}
    return frozenset(outside)


class _PatchPlanner:
    def __init__(
        self, ctx: ToolContext, paths: dict[str, ResolvedPath], outside: frozenset[Path]
    ) -> None:
        self._ctx = ctx
        self._resolved_paths = paths
        self._outside_paths = outside
        self._drafts: dict[str, FileDraft] = {}

    @property
    def drafts(self) -> tuple[FileDraft, ...]:
        return tuple(self._drafts.values())

    async def apply_hunk(self, hunk: FileOperation) -> None:
        """Apply a hunk. Raises ToolError if it does not match the file."""
        draft = await self._load_draft(hunk.path)
        match hunk:
            case AddFile(path, content):
                if draft.new_bytes is not None:
                    raise ToolError(
                        f"{path}: the file exists already. Change it with `*** Update File:`, or"
                        " delete it in the same patch first."
                    )
                draft.new_bytes, draft.moved_to = draft.original.encode(content), None
            case DeleteFile(path):
                await self._check_exists(draft, path, "deleted")
                if draft.original.is_stale:
                    raise ToolError(
                        f"{path}: it was changed by the user or by a command since you last saw it,"
                        " and that change would be lost. Read the file again before you delete it."
                    )
                draft.new_bytes = None
            case UpdateFile(path, chunks, target):
                await self._check_exists(draft, path, "updated")
                draft.new_bytes = await self._update_content(draft, path, chunks)
                if target is not None:
                    await self._move_draft(draft, target)
        draft.change_count += max(1, len(hunk.chunks)) if isinstance(hunk, UpdateFile) else 1

    async def _check_exists(self, draft: FileDraft, path: str, verb: str) -> None:
        if draft.new_bytes is None:
            is_deleted_before = draft.original.exists
            near = "" if is_deleted_before else await suggest_paths(self._ctx, draft.resolved_path)
            raise ToolError(
                f"{path}: there is no such file, so it cannot be {verb}. Check the path.{near}"
            )

    async def _load_draft(self, path: str) -> FileDraft:
        resolved_path = self._resolved_paths[path]
        key = str(resolved_path.path)
        if key not in self._drafts:
            original = await load_original(self._ctx, resolved_path)
            self._drafts[key] = FileDraft(original, original.data)
        return self._drafts[key]

    async def _move_draft(self, draft: FileDraft, target: str) -> None:
        goal = await self._load_draft(target)
        if goal is draft:
            return
        if goal.new_bytes is not None:
            raise ToolError(
                f"{draft.resolved_path.path_as_given}: it cannot be moved to {target}, where there "
                "is a file already."
            )
        goal.new_bytes, draft.new_bytes = draft.new_bytes, None
        goal.moved_from, draft.moved_from = draft.moved_from or draft.original, None
        goal.change_count = draft.change_count + 1
        draft.moved_to = goal.resolved_path

    async def _update_content(
        self, draft: FileDraft, path: str, chunks: Sequence[PatchChunk]
    ) -> bytes | None:
        if not chunks:
            return draft.new_bytes
        current = OriginalFile(draft.resolved_path, draft.new_bytes)
        if current.is_binary:
            raise ToolError(f"{path}: this is a binary file, and only text can be updated.")
        text = current.text
        outcome: str | FailedPatch = await run_in_thread_if_large(
            len(text),
            lambda: apply_or_unescape(
                list(chunks),
                lambda chunks: [_unescape_chunk(chunk) for chunk in chunks],
                lambda chunks: apply_chunks(text, chunks, similarity=compute_similarity),
                FailedPatch,
                self._ctx.model,
            ),
        )
        if isinstance(outcome, FailedPatch):
            quoted = draft.resolved_path.path not in self._outside_paths
            is_cut = len(outcome.failures) == MAX_FAILED_CHUNKS
            more = "Later chunks were not tried." if is_cut else ""
            details = format_failed_parts(outcome.failures, more, quoted=quoted)
            raise ToolError(f"{path}: the patch does not fit the file.\n{details}")
        return current.encode(outcome)


def _unescape_chunk(chunk: PatchChunk) -> PatchChunk:
    return structs.replace(
        chunk,
        anchor_lines=tuple(map(unescape_entities, chunk.anchor_lines)),
        lines=tuple(
            structs.replace(line, text=unescape_entities(line.text)) for line in chunk.lines
        ),
    )


def _list_paths(hunk: FileOperation) -> tuple[str, ...]:
    if isinstance(hunk, UpdateFile) and hunk.move_to is not None:
        return (hunk.path, hunk.move_to)
    return (hunk.path,)
