"""Trees of files that git keeps: taken from a folder, compared, merged and laid out again.

None of it touches the user's index, files, branches or stashes. What a repository's configuration
could run while files are merged is switched off too: a driver of its own makes a conflict.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from joey.errors import ToolError
from joey.workspace.git import Git, reason_of
from joey.workspace.tree_changes import Change, parse_raw

_NEEDED = (2, 38)
"""The first git that merges without touching files."""
_SECONDS = 300
_MOST_BYTES = 64 * 1024 * 1024
_NOTHING_FOUND = 1
_CONFLICT = 1
_QUIET = ("-c", "core.safecrlf=false", "-c", "advice.addEmbeddedRepo=false", "-c", "gc.auto=0")
_ITSELF = {
    **{f"GIT_{who}_NAME": "joey" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "joey@localhost" for who in ("AUTHOR", "COMMITTER")},
    "LC_ALL": "C",
}


class Places(Struct, frozen=True):
    """Where things of the repository are."""

    prefix: str
    """The folder that git is run in, as seen from the top."""
    common: Path
    """What all worktrees share, and what is known of each."""
    index: Path
    up: str
    """The way to the top."""


class Merged(Struct, frozen=True):
    tree: str
    conflicts: tuple[bytes, ...] = ()


class Trees:
    """Of one repository, for as long as one step takes."""

    def __init__(self, git: Git, places: Places) -> None:
        self._git = git
        self.places = places

    @classmethod
    async def of(cls, root: Path, environment: Mapping[str, str] | None = None) -> Trees:
        """Raises ToolError."""
        git = await Git.of(root, environment)
        asked = ("--show-prefix", "--git-common-dir", "--git-path", "index", "--show-cdup")
        told = await git.ask("rev-parse", "--path-format=absolute", *asked)
        prefix, common, index, up = (*told.split("\n"), "", "", "", "")[:4]
        return cls(git, Places(prefix, Path(common), Path(index), up or "."))

    async def check_version(self) -> None:
        """Raises ToolError: this git cannot merge."""
        version = re.search(r"(\d+)\.(\d+)", await self._git.ask("version"))
        if version is None or (int(version[1]), int(version[2])) < _NEEDED:
            raise ToolError("worktrees need git 2.38 or newer")

    async def _drivers(self) -> list[str]:
        """Options by which programs that merge files are switched off."""
        question = ("config", "-z", "--name-only", "--get-regexp", r"^merge\..*\.driver$")
        found = await self._git.ask(*question, fine=(0, _NOTHING_FOUND))
        keys = [key for key in found.split("\0") if key]
        for key in keys:
            if "=" in key:
                raise ToolError(f"git is not run: its configuration names the driver {key!r}")
        return [part for key in keys for part in ("-c", f"{key}=false")]

    async def say(self, *arguments: str, index: Path | None = None) -> str:
        """What git answers, in one line. Raises ToolError."""
        return (await self._run(*arguments, index=index)).decode(errors="replace").strip()

    async def find(self, name: str) -> str | None:
        """The commit or tree that is called so."""
        answer = await self._git.run("rev-parse", "--verify", "--quiet", "--end-of-options", name)
        return answer.out.decode().strip() if answer.code == 0 else None

    async def take(self, index: Path | None = None) -> str:
        """The tree of the files as they are; all that is not ignored. With the index of the folder
        itself, or with another that is brought up to date."""
        await self._run(*_QUIET, "add", "--all", index=index)
        return await self.say("write-tree", index=index)

    @asynccontextmanager
    async def apart(self) -> AsyncIterator[Path]:
        """A copy of the folder's index, which knows what files looked like; its time tells which
        of them may have been changed since."""
        own = self.places.index
        import tempfile  # on need: it is slow to load

        with tempfile.TemporaryDirectory(prefix="joey-") as folder:
            copy = Path(folder, "index")
            if own.exists():
                shutil.copy2(own, copy)
            yield copy

    async def look(self) -> str:
        """The tree of the files as they are; the index stays as it is."""
        async with self.apart() as index:
            return await self.take(index)

    async def commit(self, tree: str, parents: Iterable[str], message: str) -> str:
        named = [part for parent in parents for part in ("-p", parent)]
        return await self.say("commit-tree", tree, *named, "-m", message)

    async def changes(self, before: str, after: str) -> list[Change]:
        wanted = ("-r", "-z", "--raw", "--no-renames", "--no-abbrev")
        return parse_raw(await self._run("diff-tree", *wanted, before, after))

    async def counts(self, before: str, after: str) -> list[tuple[bytes, int | None, int | None]]:
        """Each changed file, with the lines that it gained and lost."""
        wanted = ("-r", "-z", "--numstat", "--no-renames", "--no-textconv", "--no-ext-diff")
        listed = await self._run("diff-tree", *wanted, before, after)
        found = []
        for line in filter(None, listed.split(b"\0")):
            added, removed, path = line.split(b"\t", 2)
            binary = added == b"-"
            lines = (None, None) if binary else (int(added), int(removed))
            found.append((path, *lines))
        return found

    async def merge(self, ours: str, theirs: str) -> Merged:
        """Two commits over the one that both come from. Raises ToolError."""
        wanted = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages")
        answer = await self._git.run(
            *(*await self._drivers(), *wanted, ours, theirs),
            environment=_ITSELF,
            most=_MOST_BYTES,
            seconds=_SECONDS,
        )
        if answer.code not in (0, _CONFLICT):
            raise ToolError(reason_of(answer))
        tree, *names = answer.out.split(b"\0")
        conflicts = tuple(dict.fromkeys(filter(None, names)))
        return Merged(tree.decode().strip(), conflicts if answer.code == _CONFLICT else ())

    async def lay_out(self, tree: str, changes: Iterable[Change], folder: Path) -> None:
        """The new files of a tree, below a folder, as they are written on this system."""
        wanted = b"".join(change.path + b"\0" for change in changes if not change.is_gone)
        if not wanted:
            return
        async with self.apart() as index:
            index.unlink(missing_ok=True)
            await self._run("read-tree", tree, index=index)
            # Paths are read as seen from where git is run.
            laid = (
                "-C",
                self.places.up,
                "checkout-index",
                "-f",
                "-z",
                "--stdin",
                f"--prefix={folder}/",
            )
            await self._run(*laid, index=index, given=wanted)

    async def _run(
        self, *arguments: str, index: Path | None = None, given: bytes | None = None
    ) -> bytes:
        chosen = {} if index is None else {"GIT_INDEX_FILE": str(index)}
        answer = await self._git.run(
            *arguments,
            given=given,
            environment={**_ITSELF, **chosen},
            most=_MOST_BYTES,
            seconds=_SECONDS,
        )
        if answer.is_cut:
            raise ToolError("git has more to say than can be looked at: too many files")
        if answer.code != 0:
            raise ToolError(reason_of(answer))
        return answer.out
