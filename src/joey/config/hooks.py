"""Hooks of a project (`.roo/hooks.json`), and the files to which trust in them is bound.

These are the file itself, the files of the workspace that its commands name, and all files in
`.roo/hooks/`. Files that those load in turn are not known.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import msgspec

from joey.config.untrusted_files import ROO_DIRECTORY, ConfigScopes, UntrustedFileReader
from joey.core.hooks import Hook
from joey.ports.extensions import ProjectHooks, TrustItem
from joey.system.files import compute_file_digest

HOOKS_FILE = "hooks.json"
HOOKS_DIRECTORY = "hooks"
MAX_HOOKS = 50
_MAX_HOOK_FILES = 200
_SHELL_OPERATOR_CHARS = frozenset("();<>|&")
_WRITING_PROGRAMS = frozenset({"mkdir", "rm", "tee", "touch"})


def read_project_hooks(scopes: ConfigScopes) -> ProjectHooks:
    """Read the project's hooks without running anything; never raises."""
    scope = scopes.project
    if scope is None:
        return ProjectHooks()
    reader = UntrustedFileReader()
    label = f"{scope.label}/{HOOKS_FILE}"
    found = reader.read(scope.directory / HOOKS_FILE, label, scope.symlink_policy)
    if found is None or not found.text.strip():
        return ProjectHooks(warnings=reader.warnings)
    try:
        if found.is_truncated:
            raise ValueError("it is too long")
        hooks = _parse_hooks(found.text)
    except (ValueError, RecursionError) as error:
        reader.warn(f"{label} is not used: {error}.")
        return ProjectHooks(warnings=reader.warnings)
    wanted = _build_trust_items(label, found.text, hooks, scopes.workspace) if hooks else ()
    return ProjectHooks(hooks, wanted, reader.warnings)


def _parse_hooks(text: str) -> tuple[Hook, ...]:
    """Parse a list, or an object that holds it as `hooks`. Raises ValueError."""
    try:
        document = msgspec.json.decode(text)
        entries = document.get("hooks") if isinstance(document, dict) else document
        hooks = msgspec.convert(entries, tuple[Hook, ...])
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error
    if len(hooks) > MAX_HOOKS:
        raise ValueError(f"it has more than {MAX_HOOKS} hooks")
    return hooks


def _build_trust_items(
    label: str, text: str, hooks: tuple[Hook, ...], workspace: Path
) -> tuple[TrustItem, ...]:
    files = dict(_iter_file_digests(hooks, workspace))
    # Includes which files exist: if a word becomes a file's name, the hook has changed.
    content = b"\n".join((text.encode(), *(os.fsencode(name) for name in sorted(files))))
    details = tuple(line for hook in hooks for line in _describe_hook(hook))
    scripts = (
        TrustItem(name=f"hook:{name}", title=f"file {name}, used by the hooks", content=digest)
        for name, digest in files.items()
    )
    file = TrustItem(
        name=f"hook:{label}", title=f"hooks of {label}", content=content, details=details
    )
    return (file, *scripts)


def _describe_hook(hook: Hook) -> Iterator[str]:
    """Format the whole command on one line."""
    tools = "" if hook.tools == ("*",) else f" of {', '.join(hook.tools)}"
    command = "\\n".join(hook.command.splitlines())
    yield f"runs      {command}"
    yield f"at        {hook.event}{tools}, in the workspace"


def _iter_file_digests(hooks: tuple[Hook, ...], workspace: Path) -> Iterator[tuple[str, bytes]]:
    candidates = (word for hook in hooks for word in _iter_path_candidates(hook.command))
    named = (Path(os.path.normpath(workspace / word)) for word in candidates if "\0" not in word)
    beside = _list_hook_files(workspace / ROO_DIRECTORY / HOOKS_DIRECTORY)
    if len(beside) > _MAX_HOOK_FILES:  # too much to review: never equal
        yield f"{ROO_DIRECTORY}/{HOOKS_DIRECTORY} (too many files)", os.urandom(16)
        return
    for path in dict.fromkeys((*named, *beside)):
        if (
            path.is_relative_to(workspace)
            and (digest := _compute_digest(path, workspace)) is not None
        ):
            yield str(path.relative_to(workspace)), digest


def _iter_path_candidates(command: str) -> Iterator[str]:
    """Iterate over possible paths, also in a line for another shell and after `=`."""
    pieces = [command, *_iter_read_arguments(command)]
    pieces += [
        inner for piece in pieces[1:] if " " in piece for inner in _iter_read_arguments(piece)
    ]
    for piece in pieces:
        yield from filter(None, (piece, piece.partition("=")[2]))


def _iter_read_arguments(line: str) -> Iterator[str]:
    """Iterate over the words of a line except files that it only writes: a log is not part of a
    hook."""
    program, before = "", ""
    for word in _split_command(line):
        if set(word) <= _SHELL_OPERATOR_CHARS:
            program = program if ">" in word or "<" in word else ""
        elif ">" not in before:
            if program not in _WRITING_PROGRAMS:
                yield word
            program = program or word
        before = word if set(word) <= _SHELL_OPERATOR_CHARS else ""


def _split_command(line: str) -> list[str]:
    try:
        reader = shlex.shlex(line, posix=True, punctuation_chars=True)
        reader.whitespace_split = True
        return list(reader)
    except ValueError:
        return line.split()


def _list_hook_files(directory: Path) -> list[Path]:
    found: list[Path] = []
    for path, _, names in os.walk(directory):
        found += (Path(path, name) for name in names)
        if len(found) > _MAX_HOOK_FILES:
            break
    return sorted(found)


def _compute_digest(path: Path, workspace: Path) -> bytes | None:
    """Compute the digest of a regular file, or the target of a link that leaves the workspace; else
    None."""
    try:
        real = Path(os.path.realpath(path))
        if real.is_relative_to(workspace):
            return compute_file_digest(real)
        return b"link to " + os.fsencode(real) if real.is_file() else None
    except (OSError, ValueError):
        return None
