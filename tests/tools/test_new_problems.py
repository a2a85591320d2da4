"""After an edit the model is told what it broke, by whichever tool it made the edit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from joey.content.diagnostics import LocalDiagnostics
from joey.core.models import ToolProtocol
from joey.core.settings import Settings
from joey.ports.tool_context import Capabilities, ToolContext
from joey.tools.registry import Registry, build_default_tools
from joey.workspace.files import LocalFiles
from tests.harness.tools.tool_context import make_context

registry = Registry(build_default_tools())
BROKEN = "def f(:\n"
TITLE = "New problems detected after saving the file:"

EDITS: list[tuple[str, dict[str, Any]]] = [
    ("write_to_file", {"path": "a.py", "content": BROKEN}),
    (
        "apply_diff",
        {
            "path": "a.py",
            "diff": "<<<<<<< SEARCH\nx = 1\n=======\nx = (\n>>>>>>> REPLACE",
        },
    ),
    ("edit", {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = ("}),
    ("search_replace", {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = ("}),
    ("edit_file", {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = ("}),
    ("insert_content", {"path": "a.py", "line": 0, "content": "def f(:"}),
    (
        "apply_patch",
        {
            "patch": "*** Begin Patch\n*** Update File: a.py\n@@\n-x = 1\n+x = (\n*** End Patch",
        },
    ),
]


def context(root: Path, settings: Settings | None = None, **changes: Any) -> ToolContext:
    settings = settings or Settings()
    (root / "work").mkdir(exist_ok=True)
    problems = LocalDiagnostics(LocalFiles(root / "work"), settings, os.environ)
    return make_context(
        root, settings=settings, capabilities=Capabilities(diagnostics=problems), **changes
    )


async def edit(ctx: ToolContext, name: str, arguments: dict[str, Any]) -> str:
    tool = registry.find(name)
    prepared = await tool.prepare(tool.parse(arguments), ctx)
    return (await tool.run_prepared(prepared, ctx, None)).text


@pytest.mark.contract("edits:problems")
@pytest.mark.parametrize(("name", "arguments"), EDITS, ids=[name for name, _ in EDITS])
async def test_an_edit_that_breaks_a_file_is_reported(
    tmp_path: Path, name: str, arguments: dict[str, Any]
) -> None:
    ctx = context(tmp_path)
    (tmp_path / "work/a.py").write_text("x = 1\n")
    text = await edit(ctx, name, arguments)
    assert TITLE in text
    assert "a.py\n- [python Error] " in text


@pytest.mark.parametrize("protocol", ToolProtocol)
async def test_the_problems_follow_the_result(tmp_path: Path, protocol: ToolProtocol) -> None:
    ctx = context(tmp_path, protocol=protocol)
    result = await edit(ctx, "write_to_file", {"path": "a.py", "content": BROKEN})
    assert result == (
        f"Created a.py: line 1.\n\n{TITLE}\na.py\n- [python Error] 1 | SyntaxError : invalid syntax"
    )


async def test_problems_that_were_there_before_are_not_reported_again(tmp_path: Path) -> None:
    ctx = context(tmp_path)
    (tmp_path / "work/a.py").write_text("x = 1\ndef f(:\n")
    text = await edit(
        ctx, "edit", {"file_path": "a.py", "old_string": "x = 1", "new_string": "y = 1\nz = 2"}
    )
    assert TITLE not in text


async def test_they_can_be_switched_off_and_are_cut_at_the_limit(tmp_path: Path) -> None:
    quiet = context(tmp_path, Settings(include_diagnostic_messages=False))
    assert TITLE not in await edit(quiet, "write_to_file", {"path": "a.py", "content": BROKEN})
    report = "\n".join(f"b.txt:{n}: error: word {n}" for n in range(1, 6))
    (tmp_path / "report").write_text(report)
    few = context(
        tmp_path,
        Settings(
            max_diagnostic_messages=2,
            diagnostic_checkers={"*.txt": f"cat {tmp_path / 'report'} {{file}}"},
        ),
    )
    text = await edit(few, "write_to_file", {"path": "b.txt", "content": "words"})
    assert "word 2" in text
    assert "word 3" not in text
    assert "... 3 more" in text
