"""Asking git about the repository that a folder is in, whatever its configuration says.

It can name programs, which are switched off. It can also name another folder as its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from joey.errors import ToolError
from joey.workspace.git_process import (
    HARMLESS,
    GitAnswer,
    GitRun,
    GitTrouble,
    options,
    repository_top,
    run_git,
)

_MOST_BYTES = 2 * 1024 * 1024
_SECONDS = 20
_WITHOUT_FILTER = {"clean": "", "smudge": "", "process": "", "required": "false"}
_NOTHING_FOUND = 1
"""The code by which `git config` says so."""


class Git:
    """The repository that a folder is in, for as long as one question takes."""

    def __init__(
        self,
        root: Path,
        filters: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._root = root
        self._added = environment or {}
        off = {f"{name}.{key}": to for name in filters for key, to in _WITHOUT_FILTER.items()}
        self._options = options({**HARMLESS, **off})

    @classmethod
    async def of(cls, root: Path, environment: Mapping[str, str] | None = None) -> Git:
        """`environment` is for what cannot be seen from the folder.

        Raises ToolError: there is no git, or it cannot be made harmless."""
        plain = cls(root, environment=environment)
        question = ("config", "-z", "--name-only", "--get-regexp", r"^filter\..")
        keys = await plain.ask(*question, fine=(0, _NOTHING_FOUND))
        names = {key.rpartition(".")[0] for key in keys.split("\0") if key}
        for name in names:
            if "=" in name:  # an option would end at it, and switch off something else
                raise ToolError(f"git is not run: its configuration names the filter {name!r}")
        return cls(root, sorted(names), environment)

    async def ask(self, *arguments: str, fine: Sequence[int] = (0,)) -> str:
        """What git prints, if it ends with a code that is fine. Raises ToolError."""
        return (await self.ask_bytes(*arguments, fine=fine)).decode(errors="replace")

    async def ask_bytes(
        self, *arguments: str, fine: Sequence[int] = (0,), most: int = _MOST_BYTES
    ) -> bytes:
        """The same as it is: names of files may be anything."""
        answer = await self.run(*arguments, most=most)
        if answer.code not in fine:
            raise ToolError(reason_of(answer))
        return answer.out

    async def run(
        self,
        *arguments: str,
        given: bytes | None = None,
        environment: Mapping[str, str] | None = None,
        most: int = _MOST_BYTES,
        seconds: float = _SECONDS,
    ) -> GitAnswer:
        """Whatever git says, and with whatever code. Raises ToolError."""
        run = GitRun(
            arguments=("--no-optional-locks", *self._options, *arguments),
            folder=self._root,
            environment={**self._environment(), **(environment or {})},
            given=given,
            most=most,
            seconds=seconds,
        )
        try:
            return await run_git(run)
        except GitTrouble as trouble:
            raise ToolError(str(trouble)) from trouble

    def _environment(self) -> dict[str, str]:
        wanted = ("HOME", "LANG", "LC_ALL")
        kept = {name: value for name in wanted if (value := os.environ.get(name)) is not None}
        top = repository_top(self._root)
        return {
            **kept,
            # The folder with `.git` in it, whatever its configuration calls the work tree.
            **({"GIT_WORK_TREE": str(top)} if top is not None else {}),
            "GIT_OPTIONAL_LOCKS": "0",
            **self._added,
        }


def reason_of(answer: GitAnswer) -> str:
    """Why git did not do what it was asked."""
    said = answer.said
    if "not a git repository" in said or "cannot use bare repository" in said:
        return "the workspace is not a git repository"
    if "unknown revision" in said or "bad object" in said or "bad revision" in said:
        return "there is no such commit"
    if "lazy fetching disabled" in said or "promisor remote" in said:
        return "some of what is needed was never fetched, and nothing is fetched from here"
    lines = said.strip().splitlines()
    return f"git failed: {lines[0] if lines else 'it said nothing'}"
