"""Edits whose lines are indented otherwise than the file: the same table for both formats."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from joey.core.edits.diff import iter_common_line_numbers
from joey.tools.apply_diff import ApplyDiff
from joey.tools.apply_patch import ApplyPatch
from tests.harness.tools.editing import AnyTool, run_tool
from tests.harness.tools.tool_context import make_context


class IndentedEdit(msgspec.Struct, frozen=True):
    case: str
    file: str
    search: str
    replace: str
    expected: str


EDITS = [
    msgspec.json.decode(line, type=IndentedEdit)
    for line in Path(__file__).with_name("indented_edits.jsonl").read_text().splitlines()
]
every_edit = pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.case)


def build_chunk(search: list[str], replace: list[str]) -> list[str]:
    """The lines that both have are kept, the others removed or added."""
    chunk: list[str] = []
    old = new = 0
    for one, other in [*iter_common_line_numbers(search, replace), (len(search), len(replace))]:
        chunk += [f"-{line}" for line in search[old:one]]
        chunk += [f"+{line}" for line in replace[new:other]]
        chunk += [f" {line}" for line in search[one : one + 1]]
        old, new = one + 1, other + 1
    return chunk


def test_the_table_is_long_enough_to_mean_something() -> None:
    assert len(EDITS) >= 60


async def edit_file(edit: IndentedEdit, directory: Path, tool: AnyTool, **given: str) -> None:
    ctx = make_context(directory)
    path = ctx.files.root / "a.py"
    path.write_bytes(edit.file.encode())
    await run_tool(tool, ctx, given)
    assert path.read_bytes().decode() == edit.expected


@every_edit
async def test_blocks(edit: IndentedEdit, tmp_path: Path) -> None:
    diff = f"<<<<<<< SEARCH\n{edit.search}\n=======\n{edit.replace}\n>>>>>>> REPLACE"
    await edit_file(edit, tmp_path, ApplyDiff(), path="a.py", diff=diff)


@every_edit
async def test_patches(edit: IndentedEdit, tmp_path: Path) -> None:
    chunk = build_chunk(edit.search.split("\n"), edit.replace.split("\n"))
    lines = ["*** Begin Patch", "*** Update File: a.py", "@@", *chunk, "*** End Patch"]
    await edit_file(edit, tmp_path, ApplyPatch(), patch="\n".join(lines))
