"""Diagnostics of files, by the checkers of their languages.

Python, JSON and TOML are parsed here. Other languages have a checker that only parses, if it is
installed. Checkers that go deeper (types, style rules) may run code of the project, so they run
only if the user's own settings name them.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory

from msgspec import Struct, structs

from joey.content.syntax_checker import can_parse, find_syntax_errors
from joey.core.diagnostics import Diagnostic, parse_checker_output
from joey.core.path_access import ResolvedPath
from joey.core.settings import Settings
from joey.errors import ConfigError, ToolError
from joey.ports.content import Diagnostics
from joey.ports.workspace import Files
from joey.system.files import keep_absolute_directories, read_fingerprint
from joey.system.subprocess import run

_MAX_FILE_BYTES = 1024 * 1024
_MAX_OUTPUT_BYTES = 1024 * 1024
_CACHE_SIZE = 1000
_INHERITED_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR")


class _Checker(Struct, frozen=True):
    file_pattern: str
    source: str
    command: tuple[str, ...]
    """With the file's path after it, or in place of `{file}`."""
    is_standalone: bool = False
    """Looks at the file and nothing around it. It gets a copy: by its name, it would open what
    has that name by then, and complain about lines of it."""


_SYNTAX_CHECKERS: tuple[_Checker, ...] = (
    _Checker("*.sh", "bash", ("bash", "-n"), is_standalone=True),
    _Checker("*.js", "node", ("node", "--check")),
    _Checker("*.mjs", "node", ("node", "--check")),
    _Checker("*.cjs", "node", ("node", "--check")),
    _Checker("*.php", "php", ("php", "-l"), is_standalone=True),
    _Checker("*.go", "gofmt", ("gofmt", "-e", "-l"), is_standalone=True),
    _Checker("*.rb", "ruby", ("ruby", "-c"), is_standalone=True),
)


class LocalDiagnostics:
    """Results are cached by the file's version: a repeated check only reads its timestamp."""

    def __init__(self, files: Files, settings: Settings, env: Mapping[str, str]) -> None:
        self._files = files
        self._timeout_s = settings.diagnostics_timeout_seconds
        self._env = {name: env[name] for name in _INHERITED_VARIABLES if name in env}
        path = env.get("PATH", os.defpath)
        self._env["PATH"] = keep_absolute_directories(path)
        trusted = keep_absolute_directories(path, outside=(files.root,))
        there = (
            structs.replace(each, command=(found, *each.command[1:]))
            for each in _SYNTAX_CHECKERS
            if (found := shutil.which(each.command[0], path=trusted))
        )
        self._checkers = (*_parse_configured_checkers(settings), *there)
        self._cache: dict[Path, tuple[tuple[int, ...], tuple[Diagnostic, ...]]] = {}

    async def check_files(self, paths: Sequence[ResolvedPath]) -> Sequence[Diagnostic]:
        found = await asyncio.gather(*(self._check_cached(place) for place in paths))
        return [problem for problems in found for problem in problems]

    async def check_workspace(self, limit: int) -> Sequence[Diagnostic]:
        """Check files that were checked before: there is no list of the others."""
        paths = [self._files.resolve(str(path)) for path in list(self._cache)]
        return (await self.check_files([path for path in paths if path.is_inside]))[:limit]

    async def _check_cached(self, path: ResolvedPath) -> tuple[Diagnostic, ...]:
        version = read_fingerprint(path.path)
        if version is None or path.is_ignored:
            return ()
        known = self._cache.get(path.path)
        if known is not None and known[0] == version:
            return known[1]
        problems = await self._check_file(path)
        if len(self._cache) >= _CACHE_SIZE:
            self._cache.pop(next(iter(self._cache)))
        self._cache[path.path] = (version, problems)
        return problems

    async def _check_file(self, path: ResolvedPath) -> tuple[Diagnostic, ...]:
        suffix = PurePath(path.display_path).suffix.lower()
        found: list[Diagnostic] = []
        if can_parse(suffix):
            with suppress(ToolError):  # an unreadable file has no lines to report
                data = await self._files.read(path, _MAX_FILE_BYTES + 1)
                if len(data) <= _MAX_FILE_BYTES:
                    found += await find_syntax_errors(
                        path.display_path, suffix, data, self._timeout_s
                    )
        name = PurePath(path.display_path).name
        fitting = [
            checker
            for checker in self._checkers
            if fnmatch(path.display_path, checker.file_pattern)
            or fnmatch(name, checker.file_pattern)
        ]
        for problems in await asyncio.gather(*(self._run_checker(each, path) for each in fitting)):
            found += problems
        return tuple(found)

    async def _run_checker(self, checker: _Checker, path: ResolvedPath) -> list[Diagnostic]:
        if not checker.is_standalone:
            return await self._run_checker_on_path(checker, path, str(path.path))
        try:
            data = await self._files.read(path, _MAX_FILE_BYTES + 1)
        except ToolError:
            return []
        if len(data) > _MAX_FILE_BYTES:
            return []
        with TemporaryDirectory(prefix="joey-") as directory:
            copy = Path(directory, path.path.name)
            await asyncio.to_thread(copy.write_bytes, data)
            return await self._run_checker_on_path(checker, path, str(copy))

    async def _run_checker_on_path(
        self, checker: _Checker, path: ResolvedPath, file: str
    ) -> list[Diagnostic]:
        command = [part.replace("{file}", file) for part in checker.command]
        if command == list(checker.command):
            command.append(file)
        try:
            done = await run(
                command,
                cwd=self._files.root,
                env=self._env,
                timeout_s=self._timeout_s,
                max_output_bytes=_MAX_OUTPUT_BYTES,
                merge_stderr=True,
            )
        except OSError:
            # It is gone, cannot be run, or is too slow: the edit does not wait.
            return []
        report = done.stdout.decode(errors="replace")
        return [
            Diagnostic(path.display_path, p.line, p.source, p.message, p.code, p.is_error)
            for p in parse_checker_output(_normalize_report(report, checker.source), checker.source)
            if PurePath(p.path).name == path.path.name
        ]


def _parse_configured_checkers(settings: Settings) -> list[_Checker]:
    checkers: list[_Checker] = []
    for pattern, text in settings.diagnostic_checkers.items():
        try:
            command = tuple(shlex.split(text))
        except ValueError as error:
            raise ConfigError(
                f"diagnosticCheckers: the command for {pattern} cannot be read: {error}."
            ) from error
        if command:
            checkers.append(_Checker(pattern, PurePath(command[0]).name, command))
    return checkers


def _normalize_report(report: str, source: str) -> str:
    """Normalize reports with custom formats into compiler format."""
    if source == "node":
        # node: "file:line" is on its own line, the message follows
        lines = report.splitlines()
        message = next((line for line in lines if "Error: " in line), "")
        return f"{lines[0]}: {message}" if lines and message else ""
    if source == "bash":
        return report.replace(": line ", ":")
    if source == "php":
        return "\n".join(map(_convert_php_line, report.splitlines()))
    return report


def _convert_php_line(line: str) -> str:
    message, separator, rest = line.rpartition(" in ")
    path, _, number = rest.rpartition(" on line ")
    return f"{path}:{number}: {message}" if separator and number.isdigit() else ""


_protocol_check: type[Diagnostics] = LocalDiagnostics
