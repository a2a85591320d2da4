"""Trust in MCP servers: the files that they would run, the descriptions of their tools.

Before a workspace's server is started, the user has to trust its entry, and the files of the
workspace that it names in any way: as the program, as an argument, in a line for a shell, in a
variable that makes programs load it. Files that those load in turn are not known.

A tool runs without approval only while its description is the one first seen (`ToolPins`). A
changed description needs approval once more; using the tool after that accepts the new one. If a
server lists too many tools, those beyond the limit need approval.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path

import msgspec

from joey.core.mcp import McpTool
from joey.errors import ConfigError
from joey.mcp.config import (
    ServerConfig,
    build_environment,
    find_program,
    find_variable_references,
    resolve_cwd,
)
from joey.mcp.config_files import write_json_atomically
from joey.ports.extensions import TrustItem
from joey.system.files import compute_file_digest
from joey.system.locks import lock_for_update

_CODE_LOADING_VARIABLES = frozenset(
    """
    LD_PRELOAD LD_AUDIT DYLD_INSERT_LIBRARIES NODE_OPTIONS PYTHONSTARTUP BASH_ENV ENV PERL5OPT
    RUBYOPT JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS
    """.split()  # noqa: SIM905 (easier to read and to extend than a literal)
)
"""Variables that make a program run a file. Others may well name data, which always changes."""


def list_trust_items(
    config: ServerConfig, workspace: Path, environment: Mapping[str, str]
) -> tuple[TrustItem, ...]:
    """List the trust items; `environment` is the server's view of joey's: programs are searched in
    its PATH."""
    files = dict(_iter_named_files(config, workspace.resolve(), environment))
    # Includes which files exist: if one becomes a directory, the server has changed.
    content = b"\n".join((config.trust_content, *(os.fsencode(name) for name in sorted(files))))
    server = TrustItem(
        name=f"mcp:{config.name}",
        title=f"MCP server {config.name!r}",
        # An entry cannot add lines to the user's list, or push others off the screen.
        details=tuple("\\n".join(text.splitlines()) for text in _describe_entry(config, workspace)),
        content=content,
    )
    scripts = (
        TrustItem(
            name=f"mcp:{config.name}:{name}",
            title=f"file {name}, named by the MCP server {config.name!r}",
            content=digest,
        )
        for name, digest in files.items()
    )
    return (server, *scripts)


def _describe_entry(config: ServerConfig, workspace: Path) -> Iterator[str]:
    unexpanded_entry = config.unexpanded_entry
    if config.transport == "stdio":
        yield f"runs      {shlex.join((unexpanded_entry.command or '', *unexpanded_entry.args))}"
        cwd = unexpanded_entry.cwd or ""
        yield f"in        {cwd if find_variable_references(cwd) else workspace / cwd}"
        yield from (
            f"sets      {name}{_format_value_sources(value)}"
            for name, value in unexpanded_entry.env.items()
        )
    else:
        yield f"talks to  {unexpanded_entry.url} ({config.transport})"
        yield from (
            f"sends     {name}{_format_value_sources(value)}"
            for name, value in unexpanded_entry.headers.items()
        )
    if unexpanded_entry.always_allow:
        yield f"may use without asking: {', '.join(unexpanded_entry.always_allow)}"
    if unexpanded_entry.disabled:
        yield "is switched off"


def _format_value_sources(value: str) -> str:
    """Format the sources of values: a value may be a secret, but its source is not."""
    found = find_variable_references(value)
    return f" from {', '.join(found)}" if found else ""


def _iter_named_files(
    config: ServerConfig, workspace: Path, environment: Mapping[str, str]
) -> Iterator[tuple[str, bytes]]:
    """Iterate over names and digests of the workspace's files."""
    entry = config.entry
    if config.transport != "stdio":
        return
    cwd = resolve_cwd(entry, workspace)
    program = find_program(entry.command or "", cwd, build_environment(entry, environment))
    loaded = (value for name, value in entry.env.items() if name in _CODE_LOADING_VARIABLES)
    candidates = (program or "", entry.command or "", *entry.args, *loaded)
    for part in dict.fromkeys(
        part for candidate in candidates for part in _iter_path_candidates(candidate)
    ):
        named = Path(os.path.normpath(cwd / part))
        real = Path(os.path.realpath(cwd / part))
        if named.is_relative_to(workspace):
            name = named.relative_to(workspace)
        elif real.is_relative_to(workspace):
            name = real.relative_to(workspace)
        else:
            continue
        try:
            if real.is_relative_to(workspace):
                digest = compute_file_digest(real)
            else:
                # The content of files outside the workspace is not part of its trust.
                is_file = real.is_file()
                digest = f"link to {real}".encode("utf-8", "surrogateescape") if is_file else None
        except OSError:
            continue
        if digest is not None:
            yield str(name), digest


def _iter_path_candidates(candidate: str) -> Iterator[str]:
    """Iterate over possible paths: the word, the value in `--option=`, and the words of a shell
    line."""
    pieces = [candidate]
    if any(character.isspace() for character in candidate):
        try:
            pieces += shlex.split(candidate)
        except ValueError:
            pieces += candidate.split()
    for piece in pieces:
        yield from filter(None, (piece, piece.partition("=")[2]))


PINS_FILE_NAME = "mcp-pins.json"
MAX_PINNED_TOOLS = 2000
"""Of one server, over time."""
_MAX_PINNED_SERVERS = 500

log = logging.getLogger(__name__)

ToolDigests = dict[str, str]
"""By the names of a server's tools."""


class ToolPins:
    def __init__(self, home: Path) -> None:
        self._path = home / PINS_FILE_NAME

    def pin_new_and_find_changed_tools(
        self, config: ServerConfig, tools: list[McpTool]
    ) -> set[str]:
        """Pin new tools and return the names of changed ones."""
        seen = {tool.name: _compute_tool_digest(tool) for tool in tools}
        pinned = self._load_pins().get(_build_server_key(config), {})
        if _select_new_digests(seen, pinned):
            pinned = self._update_pins(
                config, lambda pinned: pinned | _select_new_digests(seen, pinned)
            )
        return {name for name, digest in seen.items() if pinned.get(name) != digest}

    def accept_tool(self, config: ServerConfig, tool: McpTool) -> None:
        self._update_pins(config, lambda pinned: {**pinned, tool.name: _compute_tool_digest(tool)})

    def _update_pins(
        self, config: ServerConfig, change: Callable[[ToolDigests], ToolDigests]
    ) -> ToolDigests:
        """Update the pins of one server's tools; others stay."""
        try:
            with lock_for_update(self._path):
                known = self._load_pins()
                pinned = change(known.get(_build_server_key(config), {}))
                known = {**known, _build_server_key(config): pinned}
                latest = dict(list(known.items())[-_MAX_PINNED_SERVERS:])
                write_json_atomically(self._path, latest)
        except ConfigError as error:
            log.warning("%s", error)
            return change(self._load_pins().get(_build_server_key(config), {}))
        return pinned

    def _load_pins(self) -> dict[str, ToolDigests]:
        try:
            return msgspec.convert(json.loads(self._path.read_bytes()), dict[str, ToolDigests])
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            log.warning("%s cannot be read and is replaced: %s", self._path, error)
            return {}


def _select_new_digests(seen: ToolDigests, pinned: ToolDigests) -> ToolDigests:
    names = [name for name in seen if name not in pinned]
    return {name: seen[name] for name in names[: max(MAX_PINNED_TOOLS - len(pinned), 0)]}


def _build_server_key(config: ServerConfig) -> str:
    digest = sha256(config.name.encode() + b"\0" + config.trust_content)
    return digest.hexdigest()[:32]


def _compute_tool_digest(tool: McpTool) -> str:
    seen = msgspec.json.encode((tool.name, tool.description, tool.schema), order="sorted")
    return sha256(seen).hexdigest()
