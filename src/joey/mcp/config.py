"""Configuration of MCP servers: the entries of `mcp.json`, and the secrets in them.

The schema is Roo's. A server with an invalid entry is left out with the reason, and the others
stay. `${env:NAME}` and `${workspaceFolder}` are substituted in any string. Secrets are shown
neither in lists nor in error messages.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, urlsplit

import msgspec
from msgspec import Meta, Struct, structs

from joey.core.text import split_validation_error
from joey.system.files import keep_absolute_directories

ServerSource = Literal["project", "global"]
TransportKind = Literal["stdio", "sse", "streamable-http"]

SERVERS_KEY = "mcpServers"
DEFAULT_CALL_TIMEOUT_S = 60
ANY_TOOL_WILDCARD = "*"

_TRANSPORT_BY_TYPE: dict[str, TransportKind] = {
    "stdio": "stdio",
    "sse": "sse",
    "streamable-http": "streamable-http",
    "http": "streamable-http",
}
_VARIABLE_RE = re.compile(r"\$\{(?:env:(\w+)|(workspaceFolder))\}")
_HEADER_NAME_RE = re.compile(r"[!#$%&'*+.^_`|~\w-]+", re.ASCII)


class ServerEntry(Struct, frozen=True, rename="camel"):
    """A server's entry in a file."""

    type: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    cwd: str | None = None
    env: dict[str, str] = {}
    url: str | None = None
    headers: dict[str, str] = {}
    disabled: bool = False
    timeout: Annotated[float, Meta(ge=1, le=3600)] = DEFAULT_CALL_TIMEOUT_S
    """Seconds that a call may take."""
    always_allow: tuple[str, ...] = ()
    disabled_tools: tuple[str, ...] = ()
    watch_paths: tuple[str, ...] = ()


class ServerConfig(Struct, frozen=True, kw_only=True):
    name: str
    source: ServerSource
    transport: TransportKind
    entry: ServerEntry
    """With its variables filled in."""
    unexpanded_entry: ServerEntry
    """With its variables as they were written."""
    trust_content: bytes
    """What trust is bound to: everything that the file says about it."""
    default_cwd: Path | None = None
    """The folder that joey makes for it to start in, where its entry names none."""

    @property
    def connection_key(self) -> tuple[object, ...]:
        """The settings that cannot change without a new connection; for a project, everything that
        was trusted."""
        if self.source == "project":
            return (self.source, self.trust_content)
        entry = self.entry
        settings = (entry.command, entry.args, entry.cwd, entry.env, entry.url, entry.headers)
        return (self.source, self.transport, self.entry.disabled, *settings)

    @property
    def display_target(self) -> str:
        """The command line or address as written, without possible secrets."""
        entry = self.unexpanded_entry
        if self.transport == "stdio":
            return shlex.join((entry.command or "", *redact_arguments(entry.args)))
        parts = urlsplit(entry.url or "")
        host = parts.netloc.rpartition("@")[2]
        url = parts._replace(query="", fragment="", netloc=host).geturl()
        return _KNOWN_TOKEN_RE.sub(REDACTED_TEXT, url)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must not appear in texts about this server."""
        entry, unexpanded_entry = self.entry, self.unexpanded_entry
        redacted = redact_arguments(entry.args)
        hidden = (
            argument
            for argument, redacted_argument in zip(entry.args, redacted, strict=True)
            if argument != redacted_argument
        )
        given = (
            value
            for name, value in entry.env.items()
            if is_secret_name(name)
            or is_secret_name("".join(find_variable_references(unexpanded_entry.env[name])))
        )
        query = (value for _, value in parse_qsl(urlsplit(entry.url or "").query))
        return (*hidden, *given, *entry.headers.values(), *query)

    @property
    def start_failure_hint(self) -> str:
        """A hint for a server that does not start, after a full stop."""
        if self.default_cwd is None:
            return ""
        hint = '"cwd": "${workspaceFolder}" starts it in the workspace'
        return f". It starts in {self.default_cwd}; {hint}"

    def is_always_allowed(self, tool: str) -> bool:
        return tool in self.entry.always_allow or ANY_TOOL_WILDCARD in self.entry.always_allow


class ParsedServers(Struct, frozen=True):
    """The usable servers of a file, and why others are not."""

    configs: dict[str, ServerConfig] = {}
    problems: dict[str, str] = {}
    """By the name of the server; that of the whole file by an empty one."""


def parse_servers(
    document: Mapping[str, Any], source: ServerSource, path: Path, variables: Mapping[str, str]
) -> ParsedServers:
    """Parse servers; `variables` are the environment and `workspaceFolder`."""
    group = document.get(SERVERS_KEY, {})
    if not isinstance(group, dict):
        return ParsedServers(
            problems={"": f"{path}: `{SERVERS_KEY}` must be an object with one key per server."}
        )
    configs: dict[str, ServerConfig] = {}
    problems: dict[str, str] = {}
    for name, entry in group.items():
        try:
            configs[name] = parse_server(name, entry, source, variables)
        except ValueError as error:
            problems[name] = f"{path}: the server {name!r} is left out: {error}."
    return ParsedServers(configs, problems)


def parse_server(
    name: str, value: object, source: ServerSource, variables: Mapping[str, str]
) -> ServerConfig:
    """Parse a server. Raises ValueError, which names the problem."""
    if not name.strip():
        raise ValueError("it has no name")
    if not name.isprintable():
        raise ValueError("its name has characters that cannot be seen")
    if not isinstance(value, dict):
        raise ValueError("its entry must be an object")
    try:
        unexpanded_entry = msgspec.convert(value, ServerEntry)
    except msgspec.ValidationError as error:
        path, problem = split_validation_error(error)
        raise ValueError(f"`{path}`: {problem}" if path else problem) from None
    transport = _resolve_transport(unexpanded_entry)
    content = msgspec.json.encode(value, order="sorted")
    if b"\\u0000" in content:
        raise ValueError("it has a zero byte, which is not allowed in programs or addresses")
    entry = _substitute_variables(unexpanded_entry, variables)
    if transport != "stdio":
        _check_url(entry.url or "")
        for header, text in entry.headers.items():
            if not _HEADER_NAME_RE.fullmatch(header):
                raise ValueError(f"`headers`: {header!r} is not a valid header name")
            if not (text.isascii() and text.isprintable()):
                # The library would quote a value that it cannot send.
                raise ValueError(
                    f"`headers`: the value of {header} has characters that cannot be sent"
                )
    return ServerConfig(
        name=name,
        source=source,
        transport=transport,
        entry=entry,
        unexpanded_entry=unexpanded_entry,
        trust_content=content,
    )


def apply_default_cwd(config: ServerConfig, default_cwd: Path, user_home: Path) -> ServerConfig:
    """Run a user's server outside of the workspace unless its entry says otherwise: there, `npx x`
    and `python -m x` could run a project's file of that name."""
    if config.transport != "stdio":
        return config
    cwd = config.entry.cwd
    if not cwd:
        entry = structs.replace(config.entry, cwd=str(default_cwd))
        return structs.replace(config, entry=entry, default_cwd=default_cwd)
    inside = cwd[2:] if cwd == "~" or cwd.startswith("~/") else cwd
    entry = structs.replace(config.entry, cwd=str(user_home / inside))
    return structs.replace(config, entry=entry)


def _resolve_transport(entry: ServerEntry) -> TransportKind:
    if entry.type is not None and entry.type not in _TRANSPORT_BY_TYPE:
        raise ValueError(f"unknown `type` {entry.type!r}; there are stdio, sse and streamable-http")
    if entry.command is not None and entry.url is not None:
        raise ValueError("it has both `command` and `url`; use only one")
    transport = _TRANSPORT_BY_TYPE[entry.type] if entry.type is not None else None
    if entry.command is not None:
        if transport not in (None, "stdio"):
            raise ValueError(f"a server of type {entry.type} needs `url`, not `command`")
        if not entry.command.strip():
            raise ValueError("`command` is empty")
        return "stdio"
    if entry.url is None:
        raise ValueError("it needs `command`, or `url` with `type`")
    if transport is None:
        raise ValueError('with `url` it needs `type`: "streamable-http" or "sse"')
    if transport == "stdio":
        raise ValueError("a server of type stdio needs `command`, not `url`")
    return transport


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError as error:
        raise ValueError(f"`url` is not an address ({error})") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("`url` must be an http:// or https:// address")


def find_variable_references(text: str) -> list[str]:
    """Find references such as `${env:NAME}`."""
    return [found[0] for found in _VARIABLE_RE.finditer(text)]


def _substitute_variables(entry: ServerEntry, variables: Mapping[str, str]) -> ServerEntry:
    """Substitute variables; unset ones stay as written, to show which are missing."""

    def fill(text: str) -> str:
        return _VARIABLE_RE.sub(lambda found: variables.get(found[1] or found[2], found[0]), text)

    return structs.replace(
        entry,
        command=entry.command and fill(entry.command),
        args=tuple(map(fill, entry.args)),
        cwd=entry.cwd and fill(entry.cwd),
        env={name: fill(value) for name, value in entry.env.items()},
        url=entry.url and fill(entry.url),
        headers={name: fill(value).strip() for name, value in entry.headers.items()},
        watch_paths=tuple(map(fill, entry.watch_paths)),
    )


REDACTED_TEXT = "…"
_MIN_SECRET_CHARS = 6
"""Hiding shorter ones would make a riddle of any text."""
_SECRET_NAME_RE = re.compile(
    r"key|token|secret|passw|passphrase|pwd|auth|credential|cookie|bearer|(?:^|[-_])pat(?:$|[-_])",
    re.IGNORECASE,
)
_OPTION_RE = re.compile(r"-[\w.-]+")
_HEADER_OPTIONS = frozenset({"-H", "--header"})
_ASSIGNMENT_RE = re.compile(r"(-{0,2}[\w.-]+)=(.+)", re.DOTALL)
_HEADER_RE = re.compile(r"([\w-]+)\s*:(?!//).*", re.DOTALL)
_URL_USER_RE = re.compile(r"(?<=://)[^/\s@]+@")
_QUERY_VALUE_RE = re.compile(r"([?&][^=&\s]*=)[^&\s]+")
_KNOWN_TOKEN_RE = re.compile(r"\b(?:sk-|ghp_|gho_|github_pat_|glpat-|xox[abp]-|AKIA|eyJ)[\w.-]{8,}")


def is_secret_name(name: str) -> bool:
    return _SECRET_NAME_RE.search(name) is not None


def redact_arguments(arguments: Iterable[str]) -> Iterator[str]:
    """Redact the values in `--api-key …`, `TOKEN=…` and `postgres://…@host`."""
    should_hide = False
    for argument in arguments:
        is_option = _OPTION_RE.fullmatch(argument) is not None
        yield REDACTED_TEXT if should_hide and not is_option else _redact_argument(argument)
        should_hide = is_option and (argument in _HEADER_OPTIONS or is_secret_name(argument))


def _redact_argument(argument: str) -> str:
    assignment = _ASSIGNMENT_RE.fullmatch(argument)
    if assignment is not None and (
        assignment[1] in _HEADER_OPTIONS or is_secret_name(assignment[1])
    ):
        return f"{assignment[1]}={REDACTED_TEXT}"
    header = _HEADER_RE.fullmatch(argument)
    if header is not None and is_secret_name(header[1]):
        return f"{header[1]}: {REDACTED_TEXT}"
    redacted = _QUERY_VALUE_RE.sub(
        rf"\1{REDACTED_TEXT}", _URL_USER_RE.sub(f"{REDACTED_TEXT}@", argument)
    )
    return _KNOWN_TOKEN_RE.sub(REDACTED_TEXT, redacted)


def redact_secrets(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        # Also without a prefix: `Bearer …`, `TOKEN=…`.
        for hidden in (secret.strip(), *secret.split()[-1:], secret.partition("=")[2].strip()):
            if len(hidden) >= _MIN_SECRET_CHARS:
                text = text.replace(hidden, REDACTED_TEXT)
    return text


def resolve_cwd(entry: ServerEntry, workspace: Path) -> Path:
    """Return the directory that the server runs in."""
    return workspace / entry.cwd if entry.cwd else workspace


def build_environment(entry: ServerEntry, environment: Mapping[str, str]) -> dict[str, str]:
    """Build the environment from joey's and the entry's. joey's must not find programs in the
    current directory."""
    path = keep_absolute_directories(environment.get("PATH", ""))
    return {**environment, "PATH": path, **entry.env}


def find_program(command: str, cwd: Path, env: Mapping[str, str]) -> str | None:
    """Find the program that would be run."""
    directories = (
        str(cwd / directory) for directory in env.get("PATH", "").split(os.pathsep) if directory
    )
    if "/" in command:
        return shutil.which(str(cwd / command))
    return shutil.which(command, path=os.pathsep.join(directories))
