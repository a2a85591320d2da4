"""What of a workspace would run if its servers were started: what a person has to trust.

That is the entry, and the files of the workspace that it names in whatever way: as the program,
as an argument, within a line for a shell, in a variable that makes programs load it. What these
files load in turn is not known here.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from joey.mcp.config import ServerConfig, variables_in
from joey.mcp.launch import environment_of, find_program, folder_of
from joey.ports.extensions import Wanted
from joey.system.files import file_digest

_LOADING = frozenset(
    """
    LD_PRELOAD LD_AUDIT DYLD_INSERT_LIBRARIES NODE_OPTIONS PYTHONSTARTUP BASH_ENV ENV PERL5OPT
    RUBYOPT JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS
    """.split()  # noqa: SIM905 (easier to read and to extend than a literal)
)
"""Variables that make a program run a file. Others may well name data, which always changes."""


def wanted_of(
    config: ServerConfig, workspace: Path, environment: Mapping[str, str]
) -> tuple[Wanted, ...]:
    """`environment` is what the server would see of ours: programs are looked for in its PATH."""
    files = dict(_files(config, workspace.resolve(), environment))
    # Also which files there are: one that becomes a folder is not the same server any more.
    content = b"\n".join((config.content, *(os.fsencode(name) for name in sorted(files))))
    server = Wanted(
        name=f"mcp:{config.name}",
        title=f"MCP server {config.name!r}",
        details=tuple(map(_one_line, _details(config, workspace))),
        content=content,
    )
    scripts = (
        Wanted(
            name=f"mcp:{config.name}:{name}",
            title=f"file {name}, named by the MCP server {config.name!r}",
            content=digest,
        )
        for name, digest in files.items()
    )
    return (server, *scripts)


def _details(config: ServerConfig, workspace: Path) -> Iterator[str]:
    written = config.written
    if config.transport == "stdio":
        yield f"runs      {shlex.join((written.command or '', *written.args))}"
        yield f"in        {_shown_folder(written.cwd or '', workspace)}"
        yield from (f"sets      {name}{_sources(value)}" for name, value in written.env.items())
    else:
        yield f"talks to  {written.url} ({config.transport})"
        yield from (f"sends     {name}{_sources(value)}" for name, value in written.headers.items())
    if written.always_allow:
        yield f"may use without asking: {', '.join(written.always_allow)}"
    if written.disabled:
        yield "is switched off"


def _shown_folder(written: str, workspace: Path) -> str:
    return written if variables_in(written) else str(workspace / written)


def _sources(value: str) -> str:
    """A value may be a secret; where it comes from is not."""
    found = variables_in(value)
    return f" from {', '.join(found)}" if found else ""


def _one_line(text: str) -> str:
    """No entry adds lines of its own to what a person reads, or pushes others off the screen."""
    return "\\n".join(text.splitlines())


def _files(
    config: ServerConfig, workspace: Path, environment: Mapping[str, str]
) -> Iterator[tuple[str, bytes]]:
    """Names and digests of files of the workspace."""
    entry = config.entry
    if config.transport != "stdio":
        return
    cwd = folder_of(entry, workspace)
    program = find_program(entry.command or "", cwd, environment_of(entry, environment))
    loaded = (value for name, value in entry.env.items() if name in _LOADING)
    words = (program or "", entry.command or "", *entry.args, *loaded)
    for part in dict.fromkeys(part for word in words for part in _parts(word)):
        named = Path(os.path.normpath(cwd / part))
        real = Path(os.path.realpath(cwd / part))
        if named.is_relative_to(workspace):
            name = named.relative_to(workspace)
        elif real.is_relative_to(workspace):
            name = real.relative_to(workspace)
        else:
            continue
        digest = _digest(real) if real.is_relative_to(workspace) else _outside(real)
        if digest is not None:
            yield str(name), digest


def _parts(word: str) -> Iterator[str]:
    """What may be a path: the word, what `--option=` gives, and the words of a line for a shell."""
    pieces = [word]
    if any(character.isspace() for character in word):
        try:
            pieces += shlex.split(word)
        except ValueError:
            pieces += word.split()
    for piece in pieces:
        yield from filter(None, (piece, piece.partition("=")[2]))


def _outside(path: Path) -> bytes | None:
    """Where a link leads that leaves the workspace: its content belongs to somebody else."""
    return f"link to {path}".encode("utf-8", "surrogateescape") if path.is_file() else None


def _digest(path: Path) -> bytes | None:
    """Of a regular file; None when it is anything else."""
    try:
        return file_digest(path)
    except OSError:
        return None
