"""What all tools that change a file share: the file as it was, the row, the save, the result.

The bytes that an edit was made from are kept until it is carried out. If the file is another one
by then, nothing is written: what the person approved was a change of that file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from joey.core.edits.unified import Patch, new_file_patch, unified_patch
from joey.core.protocol import ToolProtocol
from joey.errors import HiddenError, ToolError
from joey.ports import Place, ToolContext

_BOM = b"\xef\xbb\xbf"
_SNIFFED = 8192
_SMALL = 256 * 1024
_LONGEST_PATCH = 512 * 1024
_AS_STATED = "The file was written exactly as stated; there is no need to read it again."
_BASELINE = "Take this content as the starting point for further changes."

T = TypeVar("T")


class Original(Struct, frozen=True):
    """A file before an edit."""

    place: Place
    data: bytes | None
    """None: there is no such file yet."""

    @property
    def exists(self) -> bool:
        return self.data is not None

    @property
    def is_binary(self) -> bool:
        return b"\0" in (self.data or b"")[:_SNIFFED]

    @property
    def text(self) -> str:
        """Without a byte order mark; bytes that are not UTF-8 survive the way there and back."""
        return (self.data or b"").removeprefix(_BOM).decode(errors="surrogateescape")

    def encode(self, text: str) -> bytes:
        """A new text as bytes, with the byte order mark that the file had.

        Raises:
            ToolError: it has characters that cannot be written.
        """
        try:
            data = text.encode(errors="surrogateescape")
        except UnicodeEncodeError as error:
            raise ToolError(
                f"The new content of {self.place.shown} has half a surrogate pair at character"
                f" {error.start}, which cannot be written as UTF-8."
            ) from error
        if (self.data or b"").startswith(_BOM) and not data.startswith(_BOM):
            return _BOM + data
        return data


def locate(ctx: ToolContext, path: str) -> Place:
    """Where the file is that shall be changed.

    Raises:
        ToolError: no file can have this name, or it is hidden.
    """
    place = ctx.files.resolve(path)
    if place.ignored:
        raise HiddenError(path)
    return place


async def load_original(ctx: ToolContext, place: Place) -> Original:
    """The file that is about to be changed.

    What is found out outside of the workspace is for the person alone until the call is allowed,
    be it only that there is such a file: the caller must keep the error until then.

    Raises:
        ToolError: it is a directory, or cannot be read.
    """
    return Original(place, await _data(ctx, place))


async def save(ctx: ToolContext, original: Original, data: bytes) -> None:
    """Write the file, unless it is no longer the one that the edit was made from."""
    if await _data(ctx, original.place) != original.data:
        raise ToolError(
            f"{original.place.shown} was changed by somebody else after this edit was prepared, so"
            " nothing was written. Read the file again and make the edit anew."
        )
    await ctx.files.write(original.place, data)


async def make_patch(original: Original, text: str) -> Patch:
    """The change as it is shown to people."""
    old = "" if original.is_binary else original.text
    if original.exists:
        patch = await computed(len(old) + len(text), lambda: unified_patch(old, text))
    else:
        patch = new_file_patch(original.place.shown, text)
    shown = _printable(patch.text)
    if len(shown) > _LONGEST_PATCH:
        shown = (
            f"{shown[:_LONGEST_PATCH]}\n[...{len(shown) - _LONGEST_PATCH} characters omitted...]"
        )
    return Patch(shown, patch.stats)


async def computed(size: int, work: Callable[[], T]) -> T:
    """Work on a text, in a thread when the text is so long that others would wait."""
    return work() if size <= _SMALL else await asyncio.to_thread(work)


def edit_facts(place: Place, patch: Patch) -> dict[str, Any]:
    """The part of a row that all edits have."""
    return {
        "path": place.shown,
        "content": patch.text,
        "isOutsideWorkspace": not place.inside,
        "isProtected": place.protected,
        "diffStats": {"added": patch.stats.added, "removed": patch.stats.removed},
    }


def write_result(
    original: Original, protocol: ToolProtocol, taken_off: tuple[str, ...] = ()
) -> str:
    """What the model is told about a file that was written, and how it differs from its words."""
    notices = (_as_changed(taken_off) if taken_off else _AS_STATED, _BASELINE)
    path = original.place.given
    operation = "modified" if original.exists else "created"
    if protocol is ToolProtocol.NATIVE:
        result = {"path": path, "operation": operation, "notice": " ".join(notices)}
        return msgspec.json.encode(result).decode()
    items = "".join(f"<i>{_escaped(notice)}</i>" for notice in notices)
    return (
        f"<file_write_result>\n<path>{_escaped(path)}</path>\n<operation>{operation}</operation>\n"
        f"<notice>{items}</notice>\n</file_write_result>"
    )


def _as_changed(taken_off: tuple[str, ...]) -> str:
    return (
        f"The file was written without {' and '.join(taken_off)}. If that belongs to the file,"
        " put it there with apply_diff."
    )


async def _data(ctx: ToolContext, place: Place) -> bytes | None:
    kind = await ctx.files.stat(place)
    if not kind.exists:
        return None
    if kind.is_dir:
        raise ToolError(f"{place.shown} is a directory, not a file.")
    return await ctx.files.read(place)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _printable(text: str) -> str:
    return text.encode(errors="surrogateescape").decode(errors="replace")
