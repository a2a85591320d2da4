"""A tool's world for tests of commands and of the task's own tools: real files, real processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from joey.core.models import ModelInfo, ToolProtocol
from joey.core.modes import BUILT_IN_MODES, find_mode
from joey.core.settings import Settings
from joey.execution.terminal import LocalTerminal
from joey.ports.tool_context import ToolContext
from joey.workspace.files import LocalFiles
from joey.workspace.search import LocalSearch

ROW_TS = 1706119234567


def make_context(root: Path, terminal: LocalTerminal | None = None, **changes: Any) -> ToolContext:
    """`root/work` is the workspace, `root/task` holds the artifacts; `changes` replace fields."""
    workspace = root / "work"
    workspace.mkdir(exist_ok=True)
    files = LocalFiles(workspace)
    mode = find_mode("code")
    assert mode is not None
    given: dict[str, Any] = {
        "files": files,
        "search": LocalSearch(files),
        "terminal": terminal or LocalTerminal(),
        "settings": Settings(),
        "protocol": ToolProtocol.NATIVE,
        "model": ModelInfo(id="test"),
        "modes": BUILT_IN_MODES,
        "mode": mode,
        "todos": (),
        "artifacts_directory": root / "task" / "command-output",
        "call_id": "call_1",
        "row_ts": ROW_TS,
        "on_output": lambda text: None,
    }
    return ToolContext(**given | changes)
