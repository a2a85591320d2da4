"""What a patch makes of the files that it names, computed before anything is written.

The hunks are laid one after the other on drafts of the files, so that a file may be changed twice,
or deleted and made anew, in one patch. What cannot be done is collected; if there is anything, the
patch is not carried out at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, structs

from joey.core.edits.patch import MOST_MISSES, Missed, apply_chunks
from joey.core.edits.patch_parser import AddFile, Chunk, DeleteFile, Hunk, UpdateFile
from joey.core.text import unescape_entities
from joey.errors import ToolError
from joey.ports import Place, ToolContext
from joey.tools.file_edit import Original, computed, load_original, locate, printable
from joey.tools.similarity import similarity


class Draft(Struct):
    """A file that a patch names, while the hunks are laid on it."""

    original: Original
    data: bytes | None
    """What it shall be; None: no such file."""
    source: Original | None = None
    """The file that was moved here."""
    moved_to: Place | None = None
    changes: int = 0

    @property
    def place(self) -> Place:
        return self.original.place

    @property
    def is_changed(self) -> bool:
        return self.data != self.original.data


class HunkFailure(Struct, frozen=True):
    reason: str
    inside: bool
    """All files of the hunk are of the workspace, so that it may be told at once."""


class PatchPlan(Struct, frozen=True):
    places: tuple[Place, ...]
    """Every file that the patch names, targets of moves included, each once."""
    drafts: tuple[Draft, ...]
    failures: tuple[HunkFailure, ...]


async def plan_patch(hunks: Sequence[Hunk], ctx: ToolContext) -> PatchPlan:
    """
    Raises:
        ToolError: a path is hidden or cannot be one; no file has been looked at then.
    """
    places: dict[str, Place] = {}
    for hunk in hunks:
        for path in _paths(hunk):
            places[path] = locate(ctx, path)
    outside = _outside(hunks, places)
    planner = _Planner(ctx, places, outside)
    failures: list[HunkFailure] = []
    for hunk in hunks:
        try:
            await planner.lay(hunk)
        except ToolError as error:
            inside = places[hunk.path].path not in outside
            failures.append(HunkFailure(str(error), inside))
    unique = {place.path: place for place in reversed(places.values())}
    return PatchPlan(tuple(reversed(unique.values())), planner.drafts, tuple(failures))


def _outside(hunks: Sequence[Hunk], places: dict[str, Place]) -> frozenset[Path]:
    """Files outside of the workspace, and those that are moved there or, maybe, come from there."""
    outside: set[Path] = set()
    for hunk in hunks:
        named = [places[path] for path in _paths(hunk)]
        if any(not place.inside or place.path in outside for place in named):
            outside |= {place.path for place in named}
    return frozenset(outside)


class _Planner:
    def __init__(
        self, ctx: ToolContext, places: dict[str, Place], outside: frozenset[Path]
    ) -> None:
        self._ctx = ctx
        self._places = places
        self._outside = outside
        self._drafts: dict[str, Draft] = {}

    @property
    def drafts(self) -> tuple[Draft, ...]:
        return tuple(self._drafts.values())

    async def lay(self, hunk: Hunk) -> None:
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

    async def _draft(self, path: str) -> Draft:
        place = self._places[path]
        key = str(place.path)
        if key not in self._drafts:
            original = await load_original(self._ctx, place)
            self._drafts[key] = Draft(original, original.data)
        return self._drafts[key]

    async def _move(self, draft: Draft, target: str) -> None:
        goal = await self._draft(target)
        if goal is draft:
            return
        if goal.data is not None:
            raise ToolError(
                f"{draft.place.given}: it cannot be moved to {target}, where there is a file"
                " already."
            )
        goal.data, draft.data = draft.data, None
        goal.source, draft.source = draft.source or draft.original, None
        goal.changes = draft.changes + 1
        draft.moved_to = goal.place

    async def _updated(self, draft: Draft, path: str, chunks: Sequence[Chunk]) -> bytes | None:
        if not chunks:
            return draft.data
        current = Original(draft.place, draft.data)
        if current.is_binary:
            raise ToolError(f"{path}: this is a binary file, and only text can be updated.")
        text = current.text
        outcome = await computed(len(text), lambda: self._applied(text, chunks))
        if isinstance(outcome, Missed):
            quoted = draft.place.path not in self._outside
            raise ToolError(_missed(path, outcome, quoted=quoted))
        return current.encode(outcome)

    def _applied(self, text: str, chunks: Sequence[Chunk]) -> str | Missed:
        """Apply as written; if that fails, without the entities that some models put in."""
        outcome = apply_chunks(text, chunks, similarity=similarity)
        if isinstance(outcome, str) or "claude" in self._ctx.model.id.lower():
            return outcome
        unescaped = [_unescaped(chunk) for chunk in chunks]
        if unescaped == list(chunks):
            return outcome
        second = apply_chunks(text, unescaped, similarity=similarity)
        return second if isinstance(second, str) else outcome


def _paths(hunk: Hunk) -> tuple[str, ...]:
    if isinstance(hunk, UpdateFile) and hunk.move_to is not None:
        return (hunk.path, hunk.move_to)
    return (hunk.path,)


def _check_exists(draft: Draft, path: str, verb: str) -> None:
    if draft.data is None:
        raise ToolError(f"{path}: there is no such file, so it cannot be {verb}. Check the path.")


def _missed(path: str, missed: Missed, *, quoted: bool) -> str:
    """Why chunks do not fit. A file outside of the workspace that may be changed is not read."""
    parts = [
        f"{failure.summary}\n\n{failure.evidence}"
        if quoted and failure.evidence
        else failure.summary
        for failure in missed.failures
    ]
    if len(parts) == MOST_MISSES:
        parts.append("The chunks behind these were not tried.")
    text = printable("\n\n".join(parts))
    return f"{path}: the patch does not fit the file.\n<error_details>\n{text}\n</error_details>"


def _unescaped(chunk: Chunk) -> Chunk:
    return structs.replace(
        chunk,
        contexts=tuple(map(unescape_entities, chunk.contexts)),
        lines=tuple(
            structs.replace(line, text=unescape_entities(line.text)) for line in chunk.lines
        ),
    )
