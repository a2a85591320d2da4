"""Looking at the git repository of the workspace, without letting it run anything.

A repository's configuration can name programs (a file-system monitor, filters, external diffs,
hooks). It may have come with the folder, so every one of them is switched off here.
"""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

from joey.errors import ToolError
from joey.ports import Repository

_MOST_LINES = 500
_MOST_BYTES = 2 * 1024 * 1024
_SECONDS = 20
_HARMLESS = (
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat"),
    *("-c", "diff.external=", "-c", "log.showSignature=false", "--no-optional-locks"),
)
_HASH = re.compile(r"[0-9a-f]{4,40}")
_FORMAT = "Commit: %h (%H)%nAuthor: %an%nDate: %ad%n%nMessage: %s%n%n%b"


class GitRepository:
    """`git` on the repository that `root` is in, if it is in one."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._filters: tuple[str, ...] | None = None

    async def changes(self) -> str:
        status = await self._git("status", "--short")
        if not status.strip():
            return "No changes in working directory"
        if await self._has_commits():
            diff = await self._git("diff", "--no-ext-diff", "--no-textconv", "HEAD")
        else:
            diff = "(there is no commit yet to compare with)"
        return _cut(f"Working directory changes:\n\n{status}\n{diff}".rstrip())

    async def commit(self, name: str) -> str:
        if not _HASH.fullmatch(name):
            raise ToolError(f"{name} is not the hash of a commit")
        shown = ("show", "--no-ext-diff", "--no-textconv", "--stat", "--patch")
        return _cut((await self._git(*shown, f"--format={_FORMAT}", name, "--")).rstrip())

    async def status(self, limit: int) -> str:
        branch, *files = (await self._git("status", "--short", "--branch")).splitlines()
        more = [f"... {len(files) - limit} more files"] if len(files) > limit else []
        return "\n".join([branch, *files[:limit], *more])

    async def _has_commits(self) -> bool:
        try:
            await self._git("rev-parse", "--verify", "--quiet", "HEAD")
        except ToolError:
            return False
        return True

    async def _git(self, *arguments: str) -> str:
        if self._filters is None:
            self._filters = await self._switched_off_filters()
        return await self._run(*_HARMLESS, *self._filters, *arguments)

    async def _switched_off_filters(self) -> tuple[str, ...]:
        """Options that empty every filter which some configuration defines."""
        found = await self._run("config", "--name-only", "--get-regexp", r"^filter\.", no_match=1)
        keys = (line for line in found.splitlines() if line.endswith((".clean", ".process")))
        return tuple(part for key in keys for part in ("-c", f"{key}="))

    async def _run(self, *arguments: str, no_match: int = 0) -> str:
        """What git prints; `no_match` is a code by which it says that there is nothing."""
        try:
            process = await asyncio.create_subprocess_exec(
                "git",
                *arguments,
                cwd=self._root,
                env=_environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=_MOST_BYTES,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise ToolError("git is not installed") from error
        try:
            async with asyncio.timeout(_SECONDS):
                assert process.stdout is not None and process.stderr is not None
                out, said = await asyncio.gather(_bounded(process.stdout), _bounded(process.stderr))
                code = await process.wait()
        except TimeoutError as error:
            raise ToolError(f"git took longer than {_SECONDS} seconds") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if code not in (0, no_match):
            raise ToolError(_reason(said.decode(errors="replace")))
        return out.decode(errors="replace")


async def _bounded(stream: asyncio.StreamReader) -> bytes:
    """The beginning of what a stream says; the rest is read and dropped."""
    kept = bytearray()
    while data := await stream.read(64 * 1024):
        kept += data[: _MOST_BYTES - len(kept)]
    return bytes(kept)


def _environment() -> dict[str, str]:
    wanted = ("PATH", "HOME", "LANG", "LC_ALL")
    kept = {name: value for name in wanted if (value := os.environ.get(name)) is not None}
    return {**kept, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}


def _reason(said: str) -> str:
    if "not a git repository" in said:
        return "the workspace is not a git repository"
    if "unknown revision" in said or "bad object" in said or "bad revision" in said:
        return "there is no such commit"
    lines = said.strip().splitlines()
    return f"git failed: {lines[0] if lines else 'it said nothing'}"


def _cut(text: str) -> str:
    lines = text.split("\n")
    if len(lines) <= _MOST_LINES:
        return text
    head, tail = _MOST_LINES // 5, _MOST_LINES * 4 // 5
    left_out = len(lines) - head - tail
    return "\n".join([*lines[:head], f"[...{left_out} lines omitted...]", *lines[-tail:]])


_fits: type[Repository] = GitRepository
