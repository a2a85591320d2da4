"""The `apply_patch` tool: changes, creates, moves and deletes files with one patch.

Everything is computed before anything is written. The hunks are applied one after the other to
drafts of the files, so that a file may be changed twice, or deleted and created anew, in one patch.
Failures are collected; if there is any, the patch is not carried out at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct, structs

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
from joey.core.task import Answer
from joey.core.text import split_lines, unescape_entities
from joey.errors import ToolError
from joey.ports import ResolvedPath, ToolContext
from joey.tools.base import (
    Access,
    AvailabilityContext,
    Claim,
    Outcome,
    PreparedToolCall,
    Tool,
    convert,
    missing,
)
from joey.tools.file_edit import (
    OriginalFile,
    check_unchanged,
    computed,
    edit_facts,
    load_original,
    locate,
    make_patch,
    printable,
    remove,
    save,
    similarity,
    write_result,
)


class ApplyPatchParams(Struct, frozen=True):
    patch: Annotated[
        str,
        Meta(
            description="The whole patch, from `*** Begin Patch` to `*** End Patch`, as the tool's"
            " description shows."
        ),
    ]


class _FilePreview(Struct, frozen=True):
    """A file as the person who decides sees it."""

    place: ResolvedPath
    patch: UnifiedDiff
    changes: int


class PreparedPatch(PreparedToolCall, frozen=True, kw_only=True):
    drafts: tuple[FileDraft, ...]
    withheld: tuple[str, ...] = ()
    """Why the patch cannot be carried out, where that tells about files outside of the workspace:
    not for the model to know before somebody has allowed it to work there."""


class ApplyPatch(Tool[ApplyPatchParams, PreparedPatch]):
    name: ClassVar[str] = "apply_patch"
    group: ClassVar[ToolGroup] = ToolGroup.EDIT
    params: ClassVar[type[Struct]] = ApplyPatchParams
    strict: ClassVar[bool] = False

    def offered(self, offer: AvailabilityContext) -> bool:
        return offer.edit_tool == self.name

    def parse(self, arguments: dict[str, Any]) -> ApplyPatchParams:
        params = convert(arguments, ApplyPatchParams, self.name, {"input": "patch"})
        if not params.patch.strip():
            raise missing(self.name, "patch")
        return params

    async def prepare(self, params: ApplyPatchParams, ctx: ToolContext) -> PreparedPatch:
        hunks = await computed(len(params.patch), lambda: parse_patch(params.patch))
        if isinstance(hunks, InvalidPatch):
            raise ToolError(f"Invalid patch format: {hunks.message}")
        if not hunks:
            raise ToolError("No file operations found in patch.")
        plan = await plan_patch(hunks, ctx)
        if reportable := [failure.reason for failure in plan.failures if failure.inside]:
            raise _failed(reportable)
        shown = [await _shown(place, plan) for place in plan.places]
        return PreparedPatch(
            claims=tuple(Claim(Access.WRITE, path=place) for place in plan.places),
            row=_single_row(shown[0]) if len(shown) == 1 else _batch_row(shown),
            path=shown[0].place.display_path if len(shown) == 1 else None,
            diff=shown[0].patch.text if len(shown) == 1 else "\n".join(map(_headed, shown)),
            drafts=plan.drafts,
            withheld=tuple(failure.reason for failure in plan.failures),
        )

    async def run(
        self, prepared: PreparedPatch, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        if prepared.withheld:
            raise _failed(prepared.withheld)
        for draft in prepared.drafts:
            await check_unchanged(ctx, draft.original)
        # What is moved is in its new place before it leaves the old one.
        pending = sorted(prepared.drafts, key=lambda draft: draft.data is None)
        results: list[str] = []
        for number, draft in enumerate(pending):
            try:
                results.append(await _carry_out(draft, ctx))
            except ToolError as error:
                if not any(done.is_changed for done in pending[:number]):
                    raise
                left = [draft.place.original for draft in pending[number + 1 :] if draft.is_changed]
                return Outcome("\n\n".join([*results, _stopped(error, left)]), is_error=True)
        return Outcome("\n\n".join(results))


def _failed(reasons: Sequence[str]) -> ToolError:
    listed = "\n\n".join(reasons)
    return ToolError(f"Failed to process patch: nothing was written.\n\n{listed}")


def _stopped(error: ToolError, left: Sequence[str]) -> str:
    rest = f" These were not changed either: {', '.join(left)}." if left else ""
    return (
        f"The patch was carried out in part: what is told above is done, then this failed: {error}"
        f"{rest}"
    )


async def _carry_out(draft: FileDraft, ctx: ToolContext) -> str:
    path = draft.place.original
    if not draft.is_changed:
        return f"No changes needed for '{path}'"
    if draft.data is not None:
        like = draft.source.place if draft.source is not None else None
        problems = await save(ctx, draft.original, draft.data, like)
        return write_result(draft.original, ctx.protocol, problems=problems)
    await remove(ctx, draft.original)
    if draft.moved_to is not None:
        return f"Successfully moved {path} to {draft.moved_to.original}"
    return f"Successfully deleted {path}"


async def _shown(place: ResolvedPath, plan: PatchPlan) -> _FilePreview:
    draft = next((draft for draft in plan.drafts if draft.place.path == place.path), None)
    if draft is None:
        return _FilePreview(place, UnifiedDiff("", DiffStats(0, 0)), 0)
    return _FilePreview(place, await _patch(draft), max(1, draft.changes))


async def _patch(draft: FileDraft) -> UnifiedDiff:
    """The change of one file, in words where there are no lines to show."""
    path = draft.place.display_path
    if draft.moved_to is not None:
        return UnifiedDiff(
            f"{path} will be moved to {draft.moved_to.display_path}.", DiffStats(0, 0)
        )
    if draft.data is None:
        count = 0 if draft.original.is_binary else len(split_lines(draft.original.text))
        return UnifiedDiff(f"{path} will be deleted.", DiffStats(0, count))
    base = draft.original if draft.source is None else draft.source
    if draft.data == base.data:
        return UnifiedDiff("", DiffStats(0, 0))
    text = OriginalFile(draft.place, draft.data).text
    return await make_patch(OriginalFile(draft.place, base.data), text)


def _single_row(shown: _FilePreview) -> dict[str, Any]:
    facts = edit_facts(shown.place, shown.patch)
    return {"tool": "appliedDiff", "diff": shown.patch.text, **facts}


def _batch_row(files: Sequence[_FilePreview]) -> dict[str, Any]:
    return {
        "tool": "appliedDiff",
        "batchDiffs": [_batch_item(shown) for shown in files],
        "isProtected": any(shown.place.is_protected for shown in files),
        "isOutsideWorkspace": any(not shown.place.is_inside for shown in files),
    }


def _batch_item(shown: _FilePreview) -> dict[str, Any]:
    path, changes, stats = shown.place.display_path, shown.changes, shown.patch.stats
    return {
        "path": path,
        "changeCount": changes,
        "key": f"{path} ({changes} {'change' if changes == 1 else 'changes'})",
        "content": shown.patch.text,
        "diffStats": {"added": stats.added, "removed": stats.removed},
        "diffs": [{"content": shown.patch.text}],
    }


def _headed(shown: _FilePreview) -> str:
    """A patch that says which file it is of."""
    text = shown.patch.text
    if text and not text.startswith("@@"):
        return text
    path = shown.place.display_path
    return f"--- {path}\n+++ {path}\n{text}"


class FileDraft(Struct):
    """A file that a patch names, while the hunks are laid on it."""

    original: OriginalFile
    data: bytes | None
    """What it shall be; None: no such file."""
    source: OriginalFile | None = None
    moved_to: ResolvedPath | None = None
    changes: int = 0

    @property
    def place(self) -> ResolvedPath:
        return self.original.place

    @property
    def is_changed(self) -> bool:
        return self.data != self.original.data


class HunkFailure(Struct, frozen=True):
    reason: str
    inside: bool
    """All files of the hunk are of the workspace, so that it may be told at once."""


class PatchPlan(Struct, frozen=True):
    places: tuple[ResolvedPath, ...]
    """Every file that the patch names, targets of moves included, each once."""
    drafts: tuple[FileDraft, ...]
    failures: tuple[HunkFailure, ...]


async def plan_patch(hunks: Sequence[FileOperation], ctx: ToolContext) -> PatchPlan:
    """
    Raises:
        ToolError: a path is hidden or cannot be one; no file has been looked at then.
    """
    places: dict[str, ResolvedPath] = {}
    for hunk in hunks:
        for path in _paths(hunk):
            places[path] = locate(ctx, path)
    outside = _outside(hunks, places)
    planner = _PatchPlanner(ctx, places, outside)
    failures: list[HunkFailure] = []
    for hunk in hunks:
        try:
            await planner.lay(hunk)
        except ToolError as error:
            inside = places[hunk.path].path not in outside
            failures.append(HunkFailure(str(error), inside))
    unique = {place.path: place for place in reversed(places.values())}
    return PatchPlan(tuple(reversed(unique.values())), planner.drafts, tuple(failures))


def _outside(hunks: Sequence[FileOperation], places: dict[str, ResolvedPath]) -> frozenset[Path]:
    """Files outside of the workspace, and those that are moved there or, maybe, come from there."""
    outside: set[Path] = set()
    for hunk in hunks:
        named = [places[path] for path in _paths(hunk)]
        if any(not place.is_inside or place.path in outside for place in named):
            outside |= {place.path for place in named}
    return frozenset(outside)


class _PatchPlanner:
    def __init__(
        self, ctx: ToolContext, places: dict[str, ResolvedPath], outside: frozenset[Path]
    ) -> None:
        self._ctx = ctx
        self._places = places
        self._outside = outside
        self._drafts: dict[str, FileDraft] = {}

    @property
    def drafts(self) -> tuple[FileDraft, ...]:
        return tuple(self._drafts.values())

    async def lay(self, hunk: FileOperation) -> None:
        """
        Raises:
            ToolError: the hunk does not fit what is there.
        """
        draft = await self._draft(hunk.path)
        match hunk:
            case AddFile(path, content):
                if draft.data is not None:
                    raise ToolError(
                        f"{path}: the file exists already. Change it with `*** Update File:`, or"
                        " delete it in the same patch first."
                    )
                draft.data, draft.moved_to = draft.original.encode(content), None
            case DeleteFile(path):
                _check_exists(draft, path, "deleted")
                if draft.original.is_stale:
                    raise ToolError(
                        f"{path}: it was changed by somebody else since you last saw it, and their"
                        " changes would be lost. Read the file again before you delete it."
                    )
                draft.data = None
            case UpdateFile(path, chunks, target):
                _check_exists(draft, path, "updated")
                draft.data = await self._updated(draft, path, chunks)
                if target is not None:
                    await self._move(draft, target)
        draft.changes += max(1, len(hunk.chunks)) if isinstance(hunk, UpdateFile) else 1

    async def _draft(self, path: str) -> FileDraft:
        place = self._places[path]
        key = str(place.path)
        if key not in self._drafts:
            original = await load_original(self._ctx, place)
            self._drafts[key] = FileDraft(original, original.data)
        return self._drafts[key]

    async def _move(self, draft: FileDraft, target: str) -> None:
        goal = await self._draft(target)
        if goal is draft:
            return
        if goal.data is not None:
            raise ToolError(
                f"{draft.place.original}: it cannot be moved to {target}, where there is a file"
                " already."
            )
        goal.data, draft.data = draft.data, None
        goal.source, draft.source = draft.source or draft.original, None
        goal.changes = draft.changes + 1
        draft.moved_to = goal.place

    async def _updated(
        self, draft: FileDraft, path: str, chunks: Sequence[PatchChunk]
    ) -> bytes | None:
        if not chunks:
            return draft.data
        current = OriginalFile(draft.place, draft.data)
        if current.is_binary:
            raise ToolError(f"{path}: this is a binary file, and only text can be updated.")
        text = current.text
        outcome = await computed(len(text), lambda: self._applied(text, chunks))
        if isinstance(outcome, FailedPatch):
            quoted = draft.place.path not in self._outside
            raise ToolError(_missed(path, outcome, quoted=quoted))
        return current.encode(outcome)

    def _applied(self, text: str, chunks: Sequence[PatchChunk]) -> str | FailedPatch:
        """Apply as written; if that fails, without the entities that some models put in."""
        outcome = apply_chunks(text, chunks, similarity=similarity)
        if isinstance(outcome, str) or "claude" in self._ctx.model.id.lower():
            return outcome
        unescaped = [_unescaped(chunk) for chunk in chunks]
        if unescaped == list(chunks):
            return outcome
        second = apply_chunks(text, unescaped, similarity=similarity)
        return second if isinstance(second, str) else outcome


def _paths(hunk: FileOperation) -> tuple[str, ...]:
    if isinstance(hunk, UpdateFile) and hunk.move_to is not None:
        return (hunk.path, hunk.move_to)
    return (hunk.path,)


def _check_exists(draft: FileDraft, path: str, verb: str) -> None:
    if draft.data is None:
        raise ToolError(f"{path}: there is no such file, so it cannot be {verb}. Check the path.")


def _missed(path: str, missed: FailedPatch, *, quoted: bool) -> str:
    """Why chunks do not fit. A file outside of the workspace that may be changed is not read."""
    parts = [
        f"{failure.summary}\n\n{failure.evidence}"
        if quoted and failure.evidence
        else failure.summary
        for failure in missed.failures
    ]
    if len(parts) == MAX_FAILED_CHUNKS:
        parts.append("The chunks behind these were not tried.")
    text = printable("\n\n".join(parts))
    return f"{path}: the patch does not fit the file.\n<error_details>\n{text}\n</error_details>"


def _unescaped(chunk: PatchChunk) -> PatchChunk:
    return structs.replace(
        chunk,
        context_lines=tuple(map(unescape_entities, chunk.context_lines)),
        lines=tuple(
            structs.replace(line, text=unescape_entities(line.text)) for line in chunk.lines
        ),
    )
