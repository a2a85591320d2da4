"""Custom tools: Python files in the `tools/` directories of the user and the project.

A tool runs in a separate process (`custom_tool_runner.py`), with a minimal environment, limits on
time and output, and a process group that is killed with it. Describing a tool already runs its
file, so files of the project are not even described before the project is trusted. The trust covers
every file that the tools could import. A tool's description is checked before it is sent to a
provider.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from joey.core.text import compile_regex
from joey.errors import ToolError
from joey.ports.extensions import CustomToolInfo, CustomTools, TrustItem
from joey.system.files import read_fingerprint
from joey.system.subprocess import Process

PROJECT_TOOLS_DIRECTORY = ".roo/tools"


_RUNNER_PATH = Path(__file__).with_name("custom_tool_runner.py")
_DESCRIBE_TIMEOUT_S = 10
_RUN_TIMEOUT_S = 300
_MAX_REPLY_BYTES = 4 * 1024 * 1024
_MAX_RESULT_CHARS = 200_000
_UNSUPPORTED_SUFFIXES = frozenset({".ts", ".js", ".mts", ".mjs", ".cts", ".cjs"})
_INHERITED_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TERM", "TZ", "TMPDIR")

ToolSource = Literal["project", "global"]
ToolTrustCheck = Callable[[Mapping[str, bytes]], bool]
"""Whether the user has agreed to these files of the project, byte for byte."""


class _RunnerReply(Struct, frozen=True):
    tool: dict[str, Any] | None = None
    result: str | None = None
    error: str | None = None


class LocalCustomTools:
    def __init__(
        self,
        home: Path,
        workspace: Path,
        env: Mapping[str, str],
        check_trust: ToolTrustCheck,
    ) -> None:
        self._directories: tuple[tuple[ToolSource, Path], ...] = (
            ("global", home / "tools"),
            ("project", workspace / PROJECT_TOOLS_DIRECTORY),
        )
        self._workspace = workspace
        self._env = {name: env[name] for name in _INHERITED_VARIABLES if name in env}
        self._check_trust = check_trust
        self._scanned_signatures: tuple[object, ...] = ()
        self.tools: tuple[CustomToolInfo, ...] = ()
        self.warnings: tuple[str, ...] = ()
        self._tool_files: dict[str, Path] = {}

    async def refresh(self) -> None:
        files = [
            (source, file)
            for source, directory in self._directories
            for file in _list_tool_files(directory)
        ]
        trusted = await asyncio.to_thread(self._is_project_trusted)
        seen = (trusted, *((file, read_fingerprint(file)) for _, file in files))
        if seen == self._scanned_signatures:
            return
        found: dict[str, CustomToolInfo] = {}
        warnings: list[str] = []
        self._tool_files = {}
        if not trusted:
            if left_out := sum(source == "project" for source, _ in files):
                warnings.append(_format_untrusted_warning(left_out))
            files = [(source, file) for source, file in files if source != "project"]
        for source, file in files:
            shown = f".roo/tools/{file.name}" if source == "project" else f"tools/{file.name}"
            try:
                info = await self._describe(file, shown, source)
            except (ToolError, msgspec.ValidationError) as error:
                warnings.append(f"{shown} is not used: {error}")
            else:
                found[info.name] = info
                self._tool_files[info.name] = file
        self._scanned_signatures = seen
        self.warnings = tuple(warnings)
        self.tools = tuple(found[name] for name in sorted(found))

    def _is_project_trusted(self) -> bool:
        """Whether there is nothing to trust, or the user trusts all of it in its current form."""
        contents = {item.name: item.content for item in list_tool_trust_items(self._workspace)}
        return not contents or self._check_trust(contents)

    async def _describe(self, file: Path, shown: str, source: ToolSource) -> CustomToolInfo:
        """Describe a tool. Raises ToolError or msgspec.ValidationError, which says why it is not
        used."""
        if file.suffix in _UNSUPPORTED_SUFFIXES:
            raise ToolError("tools are written in Python here")
        said = await self._run_runner("describe", file, b"", _DESCRIBE_TIMEOUT_S)
        if said.tool is None:
            raise ToolError(said.error or "it did not describe itself")
        info = msgspec.convert({**said.tool, "path": shown, "source": source}, CustomToolInfo)
        check_tool_info(info)
        return info

    async def run(self, name: str, arguments: dict[str, Any], mode: str) -> str:
        file = self._tool_files.get(name)
        if file is None:
            raise ToolError(f"The custom tool {name} is gone.")
        if file.is_relative_to(self._workspace) and not await asyncio.to_thread(
            self._is_project_trusted
        ):
            raise ToolError(
                f"The custom tool {name} was changed since the user trusted it, so it was not run."
                " The user can look at it and agree with `joey trust`."
            )
        asked = msgspec.json.encode({"arguments": arguments, "mode": mode})
        said = await self._run_runner("run", file, asked, _RUN_TIMEOUT_S)
        if said.result is None:
            raise ToolError(f"The custom tool {name} failed: {said.error}")
        if len(said.result) <= _MAX_RESULT_CHARS:
            return said.result
        left_out = len(said.result) - _MAX_RESULT_CHARS
        return f"{said.result[:_MAX_RESULT_CHARS]}\n[...{left_out:,} characters left out...]"

    async def _run_runner(
        self, action: str, file: Path, given: bytes, seconds: float
    ) -> _RunnerReply:
        # Files in `__pycache__` may differ from what was trusted.
        python = (sys.executable, "-I", "-B", "-X", f"pycache_prefix={os.devnull}")
        try:
            process = Process(
                (*python, str(_RUNNER_PATH), action, str(file)),
                cwd=self._workspace,
                env={**self._env, "JOEY_ACTIVE": "1", "ROO_ACTIVE": "true"},
                has_stdin=True,
                is_marked=True,
            )
        except OSError as error:
            raise ToolError(f"it cannot be started: {error.strerror or error}") from error
        try:
            process.feed(given, is_last=True)
            async with asyncio.timeout(seconds):
                answer = await _read_reply(process)
            return msgspec.json.decode(answer, type=_RunnerReply)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ToolError("it ended without an answer") from error
        except TimeoutError as error:
            raise ToolError(f"it took longer than {seconds} seconds and was stopped") from error
        finally:
            await process.end()


def _format_untrusted_warning(count: int) -> str:
    """Format a warning about all files together, since trusted ones may import untrusted ones."""
    tools = "The tool" if count == 1 else f"The {count} tools"
    return (
        f"{tools} of {PROJECT_TOOLS_DIRECTORY} {'is' if count == 1 else 'are'} not used, because "
        "the files there are not those that you have trusted (`joey trust` shows and asks)"
    )


async def _read_reply(process: Process) -> bytes:
    answer = bytearray()
    # To the end of the line: background processes may keep the pipe open.
    while not answer.endswith(b"\n") and (data := await process.read()):
        answer += data
        if len(answer) > _MAX_REPLY_BYTES:
            raise ToolError(f"it answered with more than {_MAX_REPLY_BYTES // 1024**2} MB")
    return bytes(answer)


def _list_tool_files(directory: Path) -> list[Path]:
    try:
        inside = sorted(directory.iterdir())
    except OSError:
        return []  # no directory, no tools
    known = ({".py"} | _UNSUPPORTED_SUFFIXES).__contains__
    named = (file for file in inside if known(file.suffix) and not file.name.startswith(("_", ".")))
    return [file for file in named if file.is_file()]


_protocol_check: type[CustomTools] = LocalCustomTools


MAX_DEFINITION_CHARS = 20_000
"""Of a description, or of a schema as JSON."""
_TOOL_NAME_RE = compile_regex(r"(?!mcp[-_])[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)
_PARAMETER_NAME_RE = compile_regex(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)


def check_tool_info(info: CustomToolInfo) -> None:
    """Check a description. Raises ToolError if a provider would reject it, and with it the whole
    request."""
    if not _TOOL_NAME_RE.fullmatch(info.name):
        raise ToolError(f"{info.name[:80]!r} is not a valid tool name")
    definition = (info.description, msgspec.json.encode(info.schema))
    if any(len(each) > MAX_DEFINITION_CHARS for each in definition):
        raise ToolError(
            f"its description or its schema has more than {MAX_DEFINITION_CHARS:,} characters"
        )
    properties = info.schema.get("properties", {})
    required = info.schema.get("required", [])
    if info.schema.get("type") != "object" or not isinstance(properties, dict):
        raise ToolError("its schema must describe an object with `properties`")
    for name, schema in properties.items():
        if not _PARAMETER_NAME_RE.fullmatch(name) or not isinstance(schema, dict):
            raise ToolError(f"{name[:80]!r} is not a valid parameter name")
    if not isinstance(required, list) or not all(name in properties for name in map(str, required)):
        raise ToolError("its schema requires parameters that it does not define")


_MAX_TRUST_CONTENT_BYTES = 1024 * 1024
_MAX_IMPORTABLE_FILES = 500
_MAX_SEARCHED_DIRECTORIES = 500
_BYTECODE_DIRECTORY = "__pycache__"
"""Tools are run without it."""


def list_tool_trust_items(workspace: Path) -> tuple[TrustItem, ...]:
    """List one item for each file that could run: the tools, and other files that they may
    import."""
    directory = workspace / PROJECT_TOOLS_DIRECTORY
    found = _find_importable_files(directory)
    if found is None:  # too much to review: never equal
        return (_build_trust_item("(too many files and folders)", os.urandom(16)),)
    return tuple(
        _build_trust_item(str(file.relative_to(directory)), _read_content_or_digest(file))
        for file in sorted(found)
    )


def _build_trust_item(name: str, content: bytes) -> TrustItem:
    return TrustItem(
        name=f"tool:{name}",
        title=f"custom tool {PROJECT_TOOLS_DIRECTORY}/{name}",
        content=content,
        details=(f"runs      {PROJECT_TOOLS_DIRECTORY}/{name}",),
    )


def _find_importable_files(directory: Path) -> list[Path] | None:
    """Find every file that Python can import, links included; None if there are too many."""
    endings = tuple(all_suffixes())
    entered: set[str] = set()
    found: list[Path] = []
    for path, directories, names in os.walk(directory, followlinks=True):
        real = os.path.realpath(path)
        if real in entered:
            directories.clear()
            continue
        entered.add(real)
        directories[:] = (name for name in directories if name != _BYTECODE_DIRECTORY)
        found += (Path(path, name) for name in names if name.endswith(endings))
        if len(entered) > _MAX_SEARCHED_DIRECTORIES or len(found) > _MAX_IMPORTABLE_FILES:
            return None
    return found


def _read_content_or_digest(file: Path) -> bytes:
    """Read a file; beyond the size limit, its digest."""
    try:
        if not file.is_file():
            return b""
        with file.open("rb") as opened:
            if os.fstat(opened.fileno()).st_size <= _MAX_TRUST_CONTENT_BYTES:
                return opened.read(_MAX_TRUST_CONTENT_BYTES)
            return hashlib.file_digest(opened, "sha256").digest()
    except OSError as error:
        return f"unreadable: {error.strerror}".encode()
