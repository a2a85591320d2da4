"""What of a workspace would run if its servers were started: what a person has to trust."""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from joey.mcp.config import ServerConfig
from joey.ports.trust import Wanted

_CHUNK = 1024 * 1024
_LARGEST = 64 * 1024 * 1024


def wanted_of(config: ServerConfig, workspace: Path) -> tuple[Wanted, ...]:
    """The server itself, and the files of the workspace that its command line names."""
    server = Wanted(
        name=f"mcp:{config.name}",
        title=f"MCP server {config.name!r}",
        details=tuple(_details(config, workspace)),
        content=config.content,
    )
    return (server, *_scripts(config, workspace))


def _details(config: ServerConfig, workspace: Path) -> Iterator[str]:
    written = config.written
    if config.transport == "stdio":
        yield f"runs      {shlex.join((written.command or '', *written.args))}"
        yield f"in        {workspace / written.cwd if written.cwd else workspace}"
        for name, value in written.env.items():
            # A value may be a secret; where it comes from is not.
            yield f"sets      {name}{f' from {value}' if value.startswith('${') else ''}"
    else:
        yield f"talks to  {written.url} ({config.transport})"
        for name, value in written.headers.items():
            yield f"sends     {name}{f' from {value}' if '${' in value else ''}"
    if written.always_allow:
        yield f"may use without asking: {', '.join(written.always_allow)}"
    if written.disabled:
        yield "is switched off"


def _scripts(config: ServerConfig, workspace: Path) -> Iterator[Wanted]:
    if config.transport != "stdio":
        return
    cwd = workspace / config.entry.cwd if config.entry.cwd else workspace
    for word in (config.entry.command or "", *config.entry.args):
        if not word or word.startswith("-") or "\0" in word:
            continue
        path = (cwd / word).resolve()
        if path.is_relative_to(workspace) and (digest := _digest(path)) is not None:
            shown = path.relative_to(workspace)
            yield Wanted(
                name=f"mcp:{config.name}:{shown}",
                title=f"file {shown}, run by the MCP server {config.name!r}",
                content=digest,
            )


def _digest(path: Path) -> bytes | None:
    """Of a regular file; None when it is anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return None
        if found.st_size > _LARGEST:
            return f"{found.st_size} bytes of {found.st_mtime_ns}".encode()
        digest = hashlib.sha256()
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
        return digest.digest()
