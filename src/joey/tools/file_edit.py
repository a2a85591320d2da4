"""Files under edit, for all editing tools: find, refuse (hidden, binary), load, diff, save, report.

The original bytes of an edit are kept until it is applied. If the file has changed by then, nothing
is written: the user approved a change of the original. Each write is recorded in the task, and the
result says so if the file had been changed by others before. It also lists the diagnostics that the
edit introduced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from joey.core.diagnostics import Diagnostic, find_new_errors, format_diagnostics
from joey.core.edits.diff import DiffStats, UnifiedDiff, build_new_file_diff, build_unified_diff
from joey.core.edits.encodings import UTF_8, detect_encoding
from joey.core.edits.similar import EditFailure, format_changed_lines
from joey.core.file_state import FileStamp
from joey.core.models import ModelInfo
from joey.core.path_access import ResolvedPath
from joey.core.settings import Settings
from joey.core.text import compile_regex, split_lines
from joey.errors import ToolError
from joey.ports.tool_context import ToolContext
from joey.tools.base import Access, Claim, suggest_paths

EMPTY_PATCH = UnifiedDiff("", DiffStats(0, 0))
_MAX_CHARS_WITHOUT_THREAD = 256 * 1024
_MAX_PATCH_CHARS = 512 * 1024
_STALE_FILE_NOTE = (
    "The edit was made, but the file had been changed by the user or by a command since you last"
    " saw it; the rest of it may differ from what you know. Read it again before you change more."
)

_SURROGATES_RE = compile_regex("[\ud800-\udfff]")

InputT = TypeVar("InputT")
ResultT = TypeVar("ResultT")


class OriginalFile(Struct, frozen=True):
    """A file before an edit."""

    resolved_path: ResolvedPath
    data: bytes | None
    """None: there is no such file yet."""
    is_stale: bool = False
    """The model has seen another version of it."""

    @property
    def exists(self) -> bool:
        return self.data is not None

    @property
    def is_binary(self) -> bool:
        return detect_encoding(self.data or b"") is None

    @property
    def has_bom(self) -> bool:
        """Whether it begins with a byte order mark, which is not part of its text."""
        encoding = detect_encoding(self.data or b"")
        return encoding is not None and bool(encoding.byte_order_mark)

    @property
    def text(self) -> str:
        """The text without a byte order mark; empty if it is binary. Bytes that are invalid in the
        encoding survive a round trip."""
        data = self.data or b""
        encoding = detect_encoding(data)
        return encoding.decode(data) if encoding is not None else ""

    def encode(self, text: str) -> bytes:
        """Encode a new text in the file's encoding, with its byte order mark. Raises ToolError if
        characters cannot be encoded."""
        encoding = detect_encoding(self.data or b"") or UTF_8
        try:
            return encoding.encode(text)
        except UnicodeEncodeError as error:
            raise ToolError(
                f"The new content of {self.resolved_path.display_path} has half a surrogate pair "
                f"at character {error.start}, which cannot be written as {encoding.name.upper()}."
            ) from error


async def load_original(ctx: ToolContext, path: ResolvedPath) -> OriginalFile:
    """Load a file that is about to be changed. Outside of the workspace, errors are only for the
    user until the call is allowed, since even a file's existence is private: the caller must hold
    the error until then. Raises ToolError if it is a directory, or cannot be read."""
    data, stamp = await _read_with_stamp(ctx, path)
    is_stale = data is not None and ctx.read_tracker.is_stale(path, stamp, data)
    return OriginalFile(path, data, is_stale)


async def require_editable_text(ctx: ToolContext, original: OriginalFile, tool: str) -> str:
    """Return the text of an existing file. Raises ToolError if there is no such file, or it is not
    text."""
    path = original.resolved_path
    if not original.exists:
        near = await suggest_paths(ctx, path)
        raise ToolError(
            f"File does not exist at path: {path.path}\n\n<error_details>\nOnly files that exist"
            f" can be changed with {tool}. Check the path, or make the file with"
            f" write_to_file.{near}\n</error_details>"
        )
    if original.is_binary:
        raise ToolError(f"{path.display_path} is a binary file: {tool} changes text only.")
    return original.text


async def check_unchanged(ctx: ToolContext, original: OriginalFile) -> None:
    """Check that the file has not changed. Raises ToolError if it is no longer the one that the
    edit was based on."""
    if (await _read_with_stamp(ctx, original.resolved_path))[0] != original.data:
        raise ToolError(
            f"{original.resolved_path.display_path} was changed by the user or by a command after"
            " this edit was prepared, so nothing was written. Read the file again and make the edit"
            " again."
        )


def build_edit_claim(original: OriginalFile, data: bytes) -> Claim:
    """Build the claim of an edit: one that changes no byte of a file in the workspace only reads
    it."""
    path = original.resolved_path
    is_read = path.is_inside and data == original.data
    return Claim(Access.READ if is_read else Access.WRITE, path=path)


async def save_file(
    ctx: ToolContext, original: OriginalFile, data: bytes, mode_source: ResolvedPath | None = None
) -> tuple[Diagnostic, ...]:
    """Write the file, unless it is no longer the one that the edit was based on, or already has
    this content.

    A new file may take over the mode of another one that it is `mode_source`.

    Returns the errors that the file has now and had not before.
    """
    path = original.resolved_path
    before = await get_diagnostics(ctx, path) if original.exists else ()
    await check_unchanged(ctx, original)
    if data != original.data:
        await ctx.files.write(path, data, mode_source)
    (kind,) = await ctx.files.stat_all([path])
    if original.is_stale:
        # The model has not seen the rest of it, and must not overwrite it as if it had.
        ctx.read_tracker.record_change_reported(path, kind.stamp)
    else:
        ctx.read_tracker.record_seen(path, kind.stamp, data)
    return find_new_errors(before, await get_diagnostics(ctx, path))


async def remove_file(ctx: ToolContext, original: OriginalFile) -> None:
    """Delete the file, unless it has changed meanwhile."""
    await check_unchanged(ctx, original)
    await ctx.files.remove(original.resolved_path)
    ctx.read_tracker.discard(original.resolved_path)


async def build_patch(original: OriginalFile, text: str) -> UnifiedDiff:
    """Build the change as shown to users."""
    old = original.text
    if original.exists:
        patch = await run_in_thread_if_large(
            len(old) + len(text), lambda: build_unified_diff(old, text)
        )
    else:
        patch = build_new_file_diff(original.resolved_path.display_path, text)
    shown = replace_surrogates(patch.text)
    if original.is_binary:
        shown += (
            f"\\ The old content is not text: {len(original.data or b'')} bytes are replaced.\n"
        )
    if len(shown) > _MAX_PATCH_CHARS:
        shown = (
            f"{shown[:_MAX_PATCH_CHARS]}\n[...{len(shown) - _MAX_PATCH_CHARS} characters "
            "omitted...]"
        )
    return UnifiedDiff(shown, patch.stats, patch.changed_lines)


def replace_surrogates(text: str) -> str:
    """Return a text that can be sent: lone surrogates stand for bytes that are not text."""
    return _SURROGATES_RE.sub("\ufffd", text)


async def run_in_thread_if_large(size: int, work: Callable[[], ResultT]) -> ResultT:
    """Run a function on a text, in a thread if the text is so long that it would block."""
    return work() if size <= _MAX_CHARS_WITHOUT_THREAD else await asyncio.to_thread(work)


def apply_or_unescape(
    given: InputT,
    unescape: Callable[[InputT], InputT],
    apply: Callable[[InputT], ResultT],
    failure: type[object],
    model: ModelInfo,
) -> ResultT:
    """Apply an edit as written; if that fails, with the entities decoded that some models add."""
    outcome = apply(given)
    if not isinstance(outcome, failure) or "claude" in model.id.lower():
        return outcome
    unescaped = unescape(given)
    second = outcome if unescaped == given else apply(unescaped)
    return outcome if isinstance(second, failure) else second


def format_failed_parts(parts: Sequence[EditFailure], more: str, *, quoted: bool) -> str:
    """Format why parts of an edit failed. A file outside of the workspace is not quoted."""
    texts = [
        f"{part.summary}\n\n{part.evidence}" if quoted and part.evidence else part.summary
        for part in parts
    ]
    joined = replace_surrogates("\n\n".join(filter(None, (*texts, more))))
    return f"<error_details>\n{joined}\n</error_details>"


def build_edit_row_fields(path: ResolvedPath, patch: UnifiedDiff) -> dict[str, Any]:
    """Build the fields that the rows of all edits have."""
    return {
        "path": path.display_path,
        "content": patch.text,
        "isOutsideWorkspace": not path.is_inside,
        "isProtected": path.is_protected,
        "diffStats": {"added": patch.stats.added, "removed": patch.stats.removed},
    }


class FilePreview(Struct, frozen=True):
    """A file as shown to the user who approves its change."""

    resolved_path: ResolvedPath
    patch: UnifiedDiff
    change_count: int
    diff: str
    """As the model wrote it, where it did."""


def build_edit_preview(files: Sequence[FilePreview]) -> dict[str, Any]:
    """Build the fields `claims`, `row`, `path` and `diff` of a prepared call that changes these
    files."""
    claims = tuple(Claim(Access.WRITE, path=file.resolved_path) for file in files)
    if len(files) == 1:
        path, patch = files[0].resolved_path, files[0].patch
        facts = build_edit_row_fields(path, patch)
        row = {"tool": "appliedDiff", "diff": files[0].diff, **facts}
        return {"claims": claims, "row": row, "path": path.display_path, "diff": patch.text}
    row = {
        "tool": "appliedDiff",
        "batchDiffs": [_build_batch_item(file) for file in files],
        "isProtected": any(file.resolved_path.is_protected for file in files),
        "isOutsideWorkspace": any(not file.resolved_path.is_inside for file in files),
    }
    joined = "\n".join(
        f"--- {path.display_path}\n+++ {path.display_path}\n{patch.text}"
        if not patch.text or patch.text.startswith("@@")
        else patch.text
        for path, patch in ((file.resolved_path, file.patch) for file in files)
    )
    return {"claims": claims, "row": row, "diff": joined}


def _build_batch_item(file: FilePreview) -> dict[str, Any]:
    path, changes, stats = file.resolved_path.display_path, file.change_count, file.patch.stats
    return {
        "path": path,
        "changeCount": changes,
        "key": f"{path} ({changes} {'change' if changes == 1 else 'changes'})",
        "content": file.patch.text,
        "diffStats": {"added": stats.added, "removed": stats.removed},
        "diffs": [{"content": file.diff}],
    }


def format_write_result(
    original: OriginalFile,
    patch: UnifiedDiff,
    stripped_parts: tuple[str, ...] = (),
    problems: str = "",
    notes: tuple[str, ...] = (),
    *,
    is_replaced: bool = False,
) -> str:
    """Format the result for the model: the written lines, and how they differ from its call.
    `problems` are those that the change introduced; `notes` say how else it differs."""
    path, lines = original.resolved_path.path_as_given, format_changed_lines(patch.changed_lines)
    if is_replaced and original.exists and not original.is_binary:
        old_count = len(split_lines(original.text))
        new_count = old_count + patch.stats.added - patch.stats.removed
        plural = "" if old_count == 1 else "s"
        counts = f"{old_count} line{plural} before, {new_count} now"
        sentences = [f"Replaced {path}: {counts}{lines and f'; changed: {lines}'}.", *notes]
    else:
        verb = "Changed" if original.exists else "Created"
        sentences = [f"{verb} {path}{lines and f': {lines}'}.", *notes]
    if stripped_parts:
        sentences.append(
            f"The file was written without {' and '.join(stripped_parts)}. If that belongs to the"
            " file, put it there with an edit."
        )
    if original.is_stale:
        sentences.append(_STALE_FILE_NOTE)
    return " ".join(sentences) + problems


async def _read_with_stamp(ctx: ToolContext, path: ResolvedPath) -> tuple[bytes | None, FileStamp]:
    kind = await ctx.files.stat(path)
    if not kind.exists:
        return None, kind.stamp
    if kind.is_dir:
        raise ToolError(f"{path.display_path} is a directory, not a file.")
    return await ctx.files.read(path), kind.stamp


async def get_diagnostics(ctx: ToolContext, path: ResolvedPath) -> Sequence[Diagnostic]:
    """Return the current diagnostics of a file; empty if they are not wanted."""
    problems = ctx.capabilities.diagnostics
    if problems is None or not path.is_inside or not ctx.settings.include_diagnostic_messages:
        return ()
    return await problems.check_files([path])


def format_new_errors(errors: Sequence[Diagnostic], settings: Settings) -> str:
    """Format new errors for the model; empty if there are none."""
    if not errors:
        return ""
    most = settings.max_diagnostic_messages
    most = len(errors) if most < 0 else most
    text = format_diagnostics(errors[:most])
    more = f"\n... {len(errors) - most} more" if len(errors) > most else ""
    return f"\n\nNew problems detected after saving the file:\n{text}{more}"


_MAX_FRAGMENT_CHARS = 500


def compute_similarity(one: str, other: str) -> float:
    """Compute a similarity from 0 to 1."""
    # Imported late: only an edit that does not match is compared like this.
    from rapidfuzz.distance import Levenshtein

    return Levenshtein.normalized_similarity(one, other)


def compute_fragment_similarity(one: str, other: str) -> float:
    """Compute the similarity with the most similar part of a line."""
    if len(one) >= len(other) or len(one) > _MAX_FRAGMENT_CHARS:
        return compute_similarity(one, other)
    from rapidfuzz import fuzz

    return fuzz.partial_ratio(one, other) / 100
