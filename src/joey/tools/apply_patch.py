"""Change, make, move and delete files with one patch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from joey.core.edits.diff import DiffStats, Patch
from joey.core.edits.patch_parser import BadPatch, parse_patch
from joey.core.modes import Group
from joey.core.task import Answer
from joey.core.text import split_lines
from joey.errors import ToolError
from joey.ports import Place, ToolContext
from joey.tools.arguments import convert, missing
from joey.tools.base import Access, Claim, Offer, Outcome, Prepared, Tool
from joey.tools.file_edit import (
    Original,
    check_unchanged,
    computed,
    edit_facts,
    make_patch,
    remove,
    save,
    write_result,
)
from joey.tools.patch_plan import Draft, PatchPlan, plan_patch


class ApplyPatchParams(Struct, frozen=True):
    patch: Annotated[
        str,
        Meta(
            description="The whole patch, from `*** Begin Patch` to `*** End Patch`, as the tool's"
            " description shows."
        ),
    ]


class _Shown(Struct, frozen=True):
    """A file as the person who decides sees it."""

    place: Place
    patch: Patch
    changes: int


class PreparedPatch(Prepared, frozen=True, kw_only=True):
    drafts: tuple[Draft, ...]
    withheld: tuple[str, ...] = ()
    """Why the patch cannot be carried out, where that tells about files outside of the workspace:
    not for the model to know before somebody has allowed it to work there."""


class ApplyPatch(Tool[ApplyPatchParams, PreparedPatch]):
    name: ClassVar[str] = "apply_patch"
    group: ClassVar[Group] = Group.EDIT
    params: ClassVar[type[Struct]] = ApplyPatchParams
    strict: ClassVar[bool] = False

    def offered(self, offer: Offer) -> bool:
        return offer.edit_tool == self.name

    def parse(self, arguments: dict[str, Any]) -> ApplyPatchParams:
        params = convert(arguments, ApplyPatchParams, self.name, {"input": "patch"})
        if not params.patch.strip():
            raise missing(self.name, "patch")
        return params

    async def prepare(self, params: ApplyPatchParams, ctx: ToolContext) -> PreparedPatch:
        hunks = await computed(len(params.patch), lambda: parse_patch(params.patch))
        if isinstance(hunks, BadPatch):
            raise ToolError(f"Invalid patch format: {hunks.message}")
        if not hunks:
            raise ToolError("No file operations found in patch.")
        plan = await plan_patch(hunks, ctx)
        if told := [failure.reason for failure in plan.failures if failure.inside]:
            raise _failed(told)
        shown = [await _shown(place, plan) for place in plan.places]
        return PreparedPatch(
            claims=tuple(Claim(Access.WRITE, place=place) for place in plan.places),
            row=_single_row(shown[0]) if len(shown) == 1 else _batch_row(shown),
            path=shown[0].place.shown if len(shown) == 1 else None,
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
                left = [draft.place.given for draft in pending[number + 1 :] if draft.is_changed]
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


async def _carry_out(draft: Draft, ctx: ToolContext) -> str:
    path = draft.place.given
    if not draft.is_changed:
        return f"No changes needed for '{path}'"
    if draft.data is not None:
        like = draft.source.place if draft.source is not None else None
        problems = await save(ctx, draft.original, draft.data, like)
        return write_result(draft.original, ctx.protocol, problems=problems)
    await remove(ctx, draft.original)
    if draft.moved_to is not None:
        return f"Successfully moved {path} to {draft.moved_to.given}"
    return f"Successfully deleted {path}"


async def _shown(place: Place, plan: PatchPlan) -> _Shown:
    draft = next((draft for draft in plan.drafts if draft.place.path == place.path), None)
    if draft is None:
        return _Shown(place, Patch("", DiffStats(0, 0)), 0)
    return _Shown(place, await _patch(draft), max(1, draft.changes))


async def _patch(draft: Draft) -> Patch:
    """The change of one file, in words where there are no lines to show."""
    path = draft.place.shown
    if draft.moved_to is not None:
        return Patch(f"{path} will be moved to {draft.moved_to.shown}.", DiffStats(0, 0))
    if draft.data is None:
        count = 0 if draft.original.is_binary else len(split_lines(draft.original.text))
        return Patch(f"{path} will be deleted.", DiffStats(0, count))
    base = draft.original if draft.source is None else draft.source
    if draft.data == base.data:
        return Patch("", DiffStats(0, 0))
    text = Original(draft.place, draft.data).text
    return await make_patch(Original(draft.place, base.data), text)


def _single_row(shown: _Shown) -> dict[str, Any]:
    facts = edit_facts(shown.place, shown.patch)
    return {"tool": "appliedDiff", "diff": shown.patch.text, **facts}


def _batch_row(files: Sequence[_Shown]) -> dict[str, Any]:
    return {
        "tool": "appliedDiff",
        "batchDiffs": [_batch_item(shown) for shown in files],
        "isProtected": any(shown.place.protected for shown in files),
        "isOutsideWorkspace": any(not shown.place.inside for shown in files),
    }


def _batch_item(shown: _Shown) -> dict[str, Any]:
    path, changes, stats = shown.place.shown, shown.changes, shown.patch.stats
    return {
        "path": path,
        "changeCount": changes,
        "key": f"{path} ({changes} {'change' if changes == 1 else 'changes'})",
        "content": shown.patch.text,
        "diffStats": {"added": stats.added, "removed": stats.removed},
        "diffs": [{"content": shown.patch.text}],
    }


def _headed(shown: _Shown) -> str:
    """A patch that says which file it is of."""
    text = shown.patch.text
    if text and not text.startswith("@@"):
        return text
    path = shown.place.shown
    return f"--- {path}\n+++ {path}\n{text}"
