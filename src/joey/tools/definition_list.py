"""What a file defines, as a list for the model."""

from __future__ import annotations

from collections.abc import Sequence

from joey.errors import ToolError
from joey.ports import Definition, Files, Outlines, Place

LARGEST = 2 * 1024 * 1024
_MOST = 500


async def definitions_in(place: Place, outlines: Outlines, files: Files) -> Sequence[Definition]:
    """Raises ToolError when the file cannot be read or parsed."""
    data = await files.read(place, LARGEST + 1)
    if len(data) > LARGEST:
        raise ToolError(f"it is larger than {LARGEST // 2**20} MB.")
    return await outlines.outline(place.path.name, data)


def definition_list(name: str, definitions: Sequence[Definition]) -> str:
    """`# name`, then `first--last | how it begins` for each."""
    lines = [f"# {name}"]
    lines += [f"{item.start}--{item.end} | {item.text}" for item in definitions[:_MOST]]
    if len(definitions) > _MOST:
        lines.append(f"({len(definitions) - _MOST} more are not shown.)")
    return "\n".join(lines)
