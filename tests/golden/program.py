"""The `joey` program, started in a home and a workspace of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.harness.cli.binary import Finished, Joey

FILES = {"a.txt": "hello\n", "src/main.py": "print('hello')\n"}


class Program:
    def __init__(self, root: Path, **settings: Any) -> None:
        self.root = root
        self.home = root / "joey-home"
        self.workspace = root / "work"
        self.server_url = ""
        for directory in (self.home, self.workspace):
            directory.mkdir(exist_ok=True)
        for name, text in FILES.items():
            path = self.workspace / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        # What a machine has installed must not decide which tools are offered.
        settings = {"browserToolEnabled": False, "codebaseIndexEnabled": False} | settings
        (self.home / "settings.json").write_text(json.dumps(settings), encoding="utf-8")

    @property
    def env(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root),
            "JOEY_HOME": str(self.home),
            "LANG": "C.UTF-8",
            "SHELL": "/bin/bash",
            "TERM": "dumb",
            "TZ": "UTC",
            "PYTHONWARNINGS": "error",
            "ANTHROPIC_API_KEY": "key-for-tests",
            "OPENAI_API_KEY": "key-for-tests",
        }

    @property
    def paths(self) -> dict[str, str]:
        """Marks for the folders of this run."""
        return {
            str(self.workspace): "<workspace>",
            str(self.home): "<joey home>",
            str(self.root): "<home>",
            self.workspace.as_posix().lstrip("/"): "<workspace>",
        }

    async def run(self, *arguments: str, stdin: bytes | None = None) -> Finished:
        return await Joey(self.home, self.workspace).run(*arguments, stdin=stdin, env=self.env)

    def task_file(self, task_id: str, name: str) -> Any:
        path = self.home / "tasks" / f"task_{task_id}" / name
        return json.loads(path.read_text(encoding="utf-8"))


def reach(url: str, wire: str = "anthropic") -> tuple[str, ...]:
    """The flags that lead to a scripted model."""
    return ("--provider", wire, "--base-url", url, "--model", "scripted")
