"""Running git so that it runs nothing else.

A repository's configuration can name programs: a file-system monitor, filters, external diffs,
hooks, ways to fetch what is missing. It can also name another folder as its own. All of it may
have come with the workspace, so all of it is switched off, for each question anew.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from joey.errors import ToolError

_MOST_BYTES = 2 * 1024 * 1024
_SECONDS = 20
_DYING_SECONDS = 5
_HARMLESS = {
    "color.branch": "false",
    "color.status": "false",
    "color.ui": "false",
    "core.attributesFile": "/dev/null",
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "diff.external": "",
    "diff.orderFile": "/dev/null",
    "diff.submodule": "short",
    "log.showSignature": "false",
    "safe.bareRepository": "explicit",
    "status.submoduleSummary": "false",
}
_WITHOUT_FILTER = {"clean": "", "smudge": "", "process": "", "required": "false"}
_NOTHING_FOUND = 1
"""The code by which `git config` says so."""


class Git:
    """The repository that a folder is in, for as long as one question takes."""

    def __init__(self, root: Path, filters: Iterable[str] = ()) -> None:
        self._root = root
        off = {f"{name}.{key}": to for name in filters for key, to in _WITHOUT_FILTER.items()}
        settings = {**_HARMLESS, **off}
        self._options = [part for key in settings for part in ("-c", f"{key}={settings[key]}")]

    @classmethod
    async def of(cls, root: Path) -> Git:
        """Raises ToolError: there is no git, or it cannot be made harmless."""
        plain = cls(root)
        question = ("config", "-z", "--name-only", "--get-regexp", r"^filter\..")
        keys = await plain.ask(*question, fine=(0, _NOTHING_FOUND))
        names = {key.rpartition(".")[0] for key in keys.split("\0") if key}
        for name in names:
            if "=" in name:  # an option would end at it, and switch off something else
                raise ToolError(f"git is not run: its configuration names the filter {name!r}")
        return cls(root, sorted(names))

    async def ask(self, *arguments: str, fine: Sequence[int] = (0,)) -> str:
        """What git prints, if it ends with a code that is fine. Raises ToolError."""
        try:
            process = await asyncio.create_subprocess_exec(
                *(_program(), "--no-optional-locks", *self._options, *arguments),
                cwd=self._root,
                env=self._environment(),
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise ToolError(f"git cannot be run: {error.strerror or error}") from error
        assert process.stdout is not None and process.stderr is not None
        try:
            async with asyncio.timeout(_SECONDS):
                out, said = await asyncio.gather(_bounded(process.stdout), _bounded(process.stderr))
                code = await process.wait()
        except TimeoutError as error:
            raise ToolError(f"git took longer than {_SECONDS} seconds") from error
        finally:
            await _end(process)
        if code not in fine:
            raise ToolError(_reason(said.decode(errors="replace")))
        return out.decode(errors="replace")

    def _environment(self) -> dict[str, str]:
        wanted = ("HOME", "LANG", "LC_ALL")
        kept = {name: value for name in wanted if (value := os.environ.get(name)) is not None}
        top = _top(self._root)
        return {
            **kept,
            # The folder with `.git` in it, whatever its configuration calls the work tree.
            **({"GIT_WORK_TREE": str(top)} if top is not None else {}),
            "PATH": _path(),
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
        }


def _top(root: Path) -> Path | None:
    return next((path for path in (root, *root.parents) if os.path.lexists(path / ".git")), None)


def _program() -> str:
    found = shutil.which("git", path=_path())
    if found is None:
        raise ToolError("git is not installed")
    return found


def _path() -> str:
    """Where programs are looked for: never in folders that the workspace decides about."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if Path(folder).is_absolute())


async def _bounded(stream: asyncio.StreamReader) -> bytes:
    """The beginning of what a stream says; the rest is read and dropped."""
    kept = bytearray()
    while data := await stream.read(64 * 1024):
        kept += data[: _MOST_BYTES - len(kept)]
    return bytes(kept)


async def _end(process: Process) -> None:
    """The whole group: git works with processes of its own."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):  # somebody may still hold its output open
        async with asyncio.timeout(_DYING_SECONDS):
            await process.wait()


def _reason(said: str) -> str:
    if "not a git repository" in said or "cannot use bare repository" in said:
        return "the workspace is not a git repository"
    if "unknown revision" in said or "bad object" in said or "bad revision" in said:
        return "there is no such commit"
    if "lazy fetching disabled" in said or "promisor remote" in said:
        return "some of what is needed was never fetched, and nothing is fetched from here"
    lines = said.strip().splitlines()
    return f"git failed: {lines[0] if lines else 'it said nothing'}"
