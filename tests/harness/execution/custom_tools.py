"""Custom tools in a workspace, described and run."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from joey.execution.custom_tools import LocalCustomTools


class ToolHarness:
    def __init__(self, root: Path) -> None:
        self.home, self.workspace = root / "home", root / "work"
        self.trusted = True
        for directory in (self.home / "tools", self.workspace / ".roo/tools"):
            directory.mkdir(parents=True)

    def write_user_tool(self, name: str, text: str) -> None:
        (self.home / "tools" / name).write_text(text)

    def write_project_tool(self, name: str, text: str) -> None:
        (self.workspace / ".roo/tools" / name).write_text(text)

    async def load_tools(self, **env: str) -> LocalCustomTools:
        given = {"PATH": os.environ["PATH"], **env}
        tools = LocalCustomTools(self.home, self.workspace, given, lambda contents: self.trusted)
        await tools.refresh()
        return tools


def is_gone(pid: int) -> bool:
    try:
        process = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return True
    gone, _ = psutil.wait_procs([process], timeout=10)
    return bool(gone) or process.status() == psutil.STATUS_ZOMBIE
