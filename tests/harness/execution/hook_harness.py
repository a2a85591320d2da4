"""Real hooks in real tasks: shell commands in a workspace, with trust in a real file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec

from joey.app.task_runtime_factory import build_hooks
from joey.app.trust import WorkspaceTrust
from joey.config.rule_store import UserRuleStore
from joey.core.events import RowAdded, ToolFailed, ToolFinished
from joey.core.hooks import Hook
from joey.core.settings import Settings
from joey.engine.task import Task
from joey.execution.bash_grammar import BashGrammar
from joey.ports.tool_context import Capabilities
from joey.workspace.files import LocalFiles
from tests.harness.engine.engine_harness import ALLOW_ALL, EngineHarness, list_durable_events

READS_ALONE = Settings()


class HookHarness(EngineHarness):
    def __init__(self, tmp_path: Path) -> None:
        super().__init__(tmp_path)
        self.home.mkdir()
        self.set_user_hooks()

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.home), "OPENAI_API_KEY": "sk-secret"}

    def set_user_hooks(self, *hooks: dict[str, Any]) -> None:
        """Hooks of the user's own."""
        settings = msgspec.structs.replace(
            ALLOW_ALL, hooks=msgspec.convert(hooks, tuple[Hook, ...])
        )
        self.capabilities = Capabilities(
            hooks=build_hooks(LocalFiles(self.root), self.home, self.env, settings),
            rule_store=UserRuleStore(self.home, self.root),
            shell_grammar=BashGrammar(),
        )

    def write_project_hooks(self, *hooks: dict[str, Any]) -> Path:
        """Hooks of the project, which nobody has trusted yet."""
        file = self.root / ".roo/hooks.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(hooks), encoding="utf-8")
        self.set_user_hooks()
        return file

    def trust(self) -> None:
        WorkspaceTrust(self.root, self.home, self.env).grant()


def hook(event: str, command: str, **more: Any) -> dict[str, Any]:
    return {"event": event, "command": command, **more}


def said(task: Task, kind: str) -> list[str]:
    return [
        event.text
        for event in list_durable_events(task)
        if isinstance(event, RowAdded) and event.say == kind
    ]


def outcomes(task: Task) -> list[str]:
    return [event.content for event in list_durable_events(task) if isinstance(event, ToolFinished)]


def failures(task: Task) -> list[ToolFailed]:
    return [event for event in list_durable_events(task) if isinstance(event, ToolFailed)]
