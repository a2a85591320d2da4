"""git as a subprocess that runs no other program.

A repository's configuration can name programs: a file-system monitor, filters, external diffs,
hooks, ways to fetch missing objects. All of it may come from the workspace, so all of it is
switched off for each run. `Git` queries the repository of a directory; its configuration can also
name another directory as its work tree.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from joey.errors import ToolError
from joey.system.files import keep_absolute_directories
from joey.system.subprocess import CompletedProgram, run
from joey.workspace.pipes_and_devices import (
    FILES_OPENED_BY_GIT,
    BlockingFileError,
    watch_for_blocking_files,
)

_LOW_PRIORITY_NICENESS = 10
_MAX_ERROR_BYTES = 64 * 1024
_MAX_OUTPUT_BYTES = 2 * 1024 * 1024
_GIT_TIMEOUT_S = 20
SAFE_SETTINGS = {
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


class GitError(Exception):
    """Why git gave no answer, for users."""


async def run_git(
    arguments: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    *,
    stdin: bytes | None = None,
    max_output_bytes: int = _MAX_OUTPUT_BYTES,
    timeout_s: float = _GIT_TIMEOUT_S,
    is_low_priority: bool = False,
    pass_fds: Iterable[int] = (),
) -> CompletedProgram:
    """Run git from outside the workspace, with an environment that inherits nothing; it keeps
    `pass_fds` open for as long as it lives. Raises GitError if there is no git, it cannot run,
    takes too long, or would block forever."""
    top = Path(environment.get("GIT_WORK_TREE", cwd))
    search_path = keep_absolute_directories(os.environ.get("PATH", os.defpath), outside=(cwd, top))
    if (program := shutil.which("git", path=search_path)) is None:
        raise GitError("git is not installed")
    try:
        async with watch_for_blocking_files(top, FILES_OPENED_BY_GIT):
            return await run(
                (program, *arguments),
                cwd=cwd,
                env={
                    **environment,
                    "PATH": search_path,
                    "GIT_ALLOW_PROTOCOL": "none",
                    "GIT_NO_LAZY_FETCH": "1",
                    "GIT_TERMINAL_PROMPT": "0",
                },
                input=stdin,
                timeout_s=timeout_s,
                max_output_bytes=max_output_bytes,
                max_error_bytes=_MAX_ERROR_BYTES,
                niceness=_LOW_PRIORITY_NICENESS if is_low_priority else 0,
                pass_fds=pass_fds,
                umask=0o077,
            )
    except BlockingFileError as error:
        raise GitError(describe_blocking_file(error.path)) from error
    except TimeoutError as error:
        raise GitError(f"git took longer than {timeout_s:g} seconds") from error
    except OSError as error:
        raise GitError(f"git cannot be run: {error.strerror or error}") from error


def describe_blocking_file(path: Path) -> str:
    """Describe the file that blocks git."""
    return f"git would wait for {str(path)!r}, which is no regular file: delete or rename it"


def build_config_options(settings: Mapping[str, str]) -> list[str]:
    return [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]


def find_repository_root(directory: Path) -> Path | None:
    """Find the nearest directory with `.git` in it, from here upwards."""
    upwards = (directory, *directory.parents)
    return next((path for path in upwards if os.path.lexists(path / ".git")), None)


_DISABLED_FILTER_SETTINGS = {"clean": "", "smudge": "", "process": "", "required": "false"}
_CONFIG_KEY_NOT_FOUND_CODE = 1
_FAILURE_SIGNS = {
    "the workspace is not a git repository": ("not a git repository", "cannot use bare repository"),
    "there is no such commit": ("unknown revision", "bad object", "bad revision"),
    "some of what is needed was never fetched, and nothing is fetched from here": (
        "lazy fetching disabled",
        "promisor remote",
    ),
}


class Git:
    """The repository of a directory, for the duration of one operation."""

    def __init__(
        self,
        root: Path,
        filters: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
        pass_fds: Iterable[int] = (),
    ) -> None:
        self._directory = root
        self._extra_environment = environment or {}
        self._pass_fds = tuple(pass_fds)
        off = {
            f"{name}.{key}": to for name in filters for key, to in _DISABLED_FILTER_SETTINGS.items()
        }
        self._config_options = build_config_options({**SAFE_SETTINGS, **off})

    @classmethod
    async def open_at(
        cls,
        root: Path,
        environment: Mapping[str, str] | None = None,
        pass_fds: Iterable[int] = (),
    ) -> Git:
        """Open a repository; `environment` overrides what the directory shows.

        Raises ToolError if there is no git, or it cannot be made harmless.
        """
        keys = await cls(root, environment=environment).list_config_keys(r"^filter\..")
        names = {key.rpartition(".")[0] for key in keys}
        for name in names:
            if "=" in name:  # an option would end at it, and switch off something else
                raise ToolError(f"git is not run: its configuration names the filter {name!r}")
        return cls(root, sorted(names), environment, pass_fds)

    async def list_config_keys(self, regex: str) -> list[str]:
        """Raises ToolError."""
        question = ("config", "-z", "--name-only", "--get-regexp", regex)
        found = await self.run_text(*question, accepted_codes=(0, _CONFIG_KEY_NOT_FOUND_CODE))
        return [key for key in found.split("\0") if key]

    async def run_text(self, *arguments: str, accepted_codes: Sequence[int] = (0,)) -> str:
        """Return git's output if its exit code is expected. Raises ToolError."""
        printed = await self.run_bytes(*arguments, accepted_codes=accepted_codes)
        return printed.decode(errors="replace")

    async def run_bytes(
        self,
        *arguments: str,
        accepted_codes: Sequence[int] = (0,),
        max_output_bytes: int = _MAX_OUTPUT_BYTES,
    ) -> bytes:
        """Return git's output as bytes, since names of files may be in any encoding."""
        answer = await self.run(*arguments, max_output_bytes=max_output_bytes)
        if answer.returncode not in accepted_codes:
            raise ToolError(describe_failure(answer))
        return answer.stdout

    async def run(
        self,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        max_output_bytes: int = _MAX_OUTPUT_BYTES,
        timeout_s: float = _GIT_TIMEOUT_S,
    ) -> CompletedProgram:
        """Run git and return output and exit code, whatever they are. Raises ToolError."""
        wanted = ("HOME", "LANG", "LC_ALL")
        variables = {name: os.environ[name] for name in wanted if name in os.environ}
        # The folder with `.git` in it, whatever its configuration calls the work tree.
        if (top := find_repository_root(self._directory)) is not None:
            variables["GIT_WORK_TREE"] = str(top)
        variables |= {"GIT_OPTIONAL_LOCKS": "0", **self._extra_environment, **(environment or {})}
        try:
            return await run_git(
                ("--no-optional-locks", *self._config_options, *arguments),
                self._directory,
                variables,
                stdin=stdin,
                max_output_bytes=max_output_bytes,
                timeout_s=timeout_s,
                pass_fds=self._pass_fds,
            )
        except GitError as error:
            raise ToolError(str(error)) from error


def describe_failure(answer: CompletedProgram) -> str:
    """Describe why git failed."""
    said = answer.stderr.decode(errors="replace")
    for text, signs in _FAILURE_SIGNS.items():
        if any(sign in said for sign in signs):
            return text
    lines = said.strip().splitlines()
    return f"git failed: {lines[0] if lines else 'it said nothing'}"
