"""Configuration directories of the user and the project, read without trusting their files.

A rule file may be a pipe, a device, ten megabytes or a link to a private key. So only regular files
are opened, never more than a limit of them is read, and a link in a project is followed only to
places that the project itself could contain. The resolved file is opened without following a link
that was put there meanwhile. A file that cannot be used becomes a warning for the user; only
`parse_yaml` raises.

Every file is remembered with its `stat` result: `is_unchanged` compares them again, which costs one
call per file and reads none.

In YAML every value is a string, as in its failsafe schema: types are not guessed, tags create no
objects, and merge keys are not supported. The C parser would crash on deep nesting, so the events
are counted before objects are built.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from joey.core.modes import CustomizationSource
from joey.core.text import compile_regex
from joey.system.files import (
    build_fingerprint,
    open_regular_file,
    open_regular_file_within,
    scan_directory,
)

MAX_FILE_BYTES = 100_000
MAX_DIRECTORY_ENTRIES = 1000
MAX_CODE_DIRECTORY_ENTRIES = 20_000
MAX_WARNINGS = 100
_MISSING_FILE_ERRNOS = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_CONTROL_CHARS_RE = compile_regex("[\x00-\x1f\x7f-\x9f\u2028\u2029]")

FileSignature = tuple[int, ...]


class SymlinkPolicy(Struct, frozen=True):
    """Where symbolic links of a project may lead."""

    allowed_roots: tuple[Path, ...]
    """Real paths."""
    is_hidden: Callable[[Path], bool]
    """What the project keeps from the model (`.rooignore`)."""

    def resolve(self, path: Path) -> Path | None:
        """Resolve a path if its target may be read."""
        try:
            real = Path(os.path.realpath(path))
        except OSError:
            return None  # it is being changed at the moment
        if not any(real.is_relative_to(root) for root in self.allowed_roots):
            return None
        return real if real == path or not self.is_hidden(real) else None


class FileText(Struct, frozen=True):
    """The text of a file: all of it, or the beginning."""

    text: str
    size_bytes: int
    """Bytes of the whole file."""
    is_truncated: bool = False


class UntrustedFileReader:
    def __init__(self) -> None:
        self._signatures: dict[Path, FileSignature] = {}
        self._warnings: dict[str, None] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(self._warnings)

    def warn(self, text: str) -> None:
        if len(self._warnings) < MAX_WARNINGS:
            self._warnings[escape_control_chars(text)] = None

    def is_unchanged(self) -> bool:
        """Whether all files read are unchanged."""
        return all(
            _read_signature(path) == signature for path, signature in self._signatures.items()
        )

    def is_directory(self, path: Path) -> bool:
        facts = self._stat(path)
        return facts is not None and stat.S_ISDIR(facts.st_mode)

    def is_file(self, path: Path) -> bool:
        facts = self._stat(path)
        return facts is not None and stat.S_ISREG(facts.st_mode)

    def list_names(
        self, directory: Path, label: str, symlink_policy: SymlinkPolicy | None
    ) -> list[str]:
        """List the names in a directory, sorted; empty if it is not a readable directory."""
        if not self.is_directory(directory) or not self._is_allowed(
            directory, label, symlink_policy
        ):
            return []
        try:
            with (
                os.scandir(directory)
                if symlink_policy is None
                else scan_directory(_resolve_allowed_path(directory, symlink_policy))
            ) as entries:
                names = sorted(entry.name for entry in islice(entries, MAX_DIRECTORY_ENTRIES + 1))
        except OSError as error:
            self.warn(f"{label}/ cannot be read: {_format_reason(error)}.")
            return []
        if len(names) > MAX_DIRECTORY_ENTRIES:
            self.warn(
                f"{label}/ has more than {MAX_DIRECTORY_ENTRIES} entries; the others are not read."
            )
        return [name for name in names[:MAX_DIRECTORY_ENTRIES] if _is_utf8(name)]

    def list_subdirectories(self, directory: Path) -> list[str]:
        """List the subdirectories of a directory, sorted, without links."""
        if not self.is_directory(directory):
            return []
        try:
            with os.scandir(directory) as entries:
                return sorted(
                    entry.name
                    for entry in islice(entries, MAX_CODE_DIRECTORY_ENTRIES)
                    if entry.is_dir(follow_symlinks=False) and _is_utf8(entry.name)
                )
        except OSError:
            return []  # an unreadable directory holds nothing for joey

    def read(
        self,
        path: Path,
        label: str,
        symlink_policy: SymlinkPolicy | None,
        limit: int = MAX_FILE_BYTES,
    ) -> FileText | None:
        """Read the text of a file; None if there is no usable file."""
        facts = self._stat(path, label)
        if facts is None:
            return None
        if not stat.S_ISREG(facts.st_mode):
            self.warn(f"{label} is not read: it is not a regular file.")
            return None
        if not self._is_allowed(path, label, symlink_policy):
            return None
        try:
            data, size = _read_bytes(path, symlink_policy, limit)
        except OSError as error:
            self.warn(f"{label} cannot be read: {_format_reason(error)}.")
            return None
        if b"\0" in data:
            self.warn(f"{label} is not read: it is not text.")
            return None
        if len(data) <= limit:
            return FileText(data.decode("utf-8-sig", "replace"), size)
        self.warn(f"{label} has {size:,} bytes; only the first {limit:,} are used.")
        return FileText(
            data[:limit].decode("utf-8-sig", "replace").rstrip("\ufffd"), size, is_truncated=True
        )

    def _is_allowed(self, path: Path, label: str, symlink_policy: SymlinkPolicy | None) -> bool:
        if symlink_policy is None or symlink_policy.resolve(path) is not None:
            return True
        self.warn(f"{label} is not read: it is a link that leads out of the workspace.")
        return False

    def _stat(self, path: Path, label: str = "") -> os.stat_result | None:
        """Stat a path and remember the result. With a label, problems become warnings."""
        try:
            facts = path.stat()
        except OSError as error:
            self._signatures[path] = (error.errno or 0,)
            if label and (error.errno not in _MISSING_FILE_ERRNOS or is_symlink(path)):
                self.warn(f"{label} cannot be read: {_format_reason(error)}.")
            return None
        self._signatures[path] = build_fingerprint(facts)
        return facts


def iter_symlink_chain(path: Path) -> Iterator[Path]:
    """Iterate over the links from a path to its target; at most ten."""
    for _ in range(10):
        if not is_symlink(path):
            return
        yield path
        try:
            path = path.parent / path.readlink()
        except OSError:
            return


def escape_control_chars(text: str) -> str:
    """Escape control characters, so that a name cannot look like several, or like another."""
    return _CONTROL_CHARS_RE.sub(lambda found: repr(found[0])[1:-1], text)


def is_symlink(path: Path) -> bool:
    """Whether a path is a symbolic link; False if it cannot be read."""
    try:
        return path.is_symlink()
    except OSError:
        return False


def _read_signature(path: Path) -> FileSignature:
    try:
        return build_fingerprint(path.stat())
    except OSError as error:
        return (error.errno or 0,)


def _read_bytes(path: Path, symlink_policy: SymlinkPolicy | None, limit: int) -> tuple[bytes, int]:
    """Read one byte more than the limit at most; return also the total size."""
    if symlink_policy is None:
        opened = open_regular_file(path)
    else:
        real = _resolve_allowed_path(path, symlink_policy)
        opened = open_regular_file_within(real.anchor, str(real.relative_to(real.anchor)))
    with opened as file:
        return file.read(limit + 1), os.fstat(file.fileno()).st_size


def _resolve_allowed_path(path: Path, symlink_policy: SymlinkPolicy) -> Path:
    """Resolve a path. Raises OSError if the target is not allowed."""
    if (real := symlink_policy.resolve(path)) is None:
        raise OSError(errno.ELOOP, "it leads out of the workspace")
    return real


def _format_reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _is_utf8(name: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in name)


ROO_DIRECTORY = ".roo"
AGENTS_DIRECTORY = ".agents"
CLAUDE_DIRECTORY = ".claude"
"""Claude Code's; its commands and skills count where no other has the name."""
_SHARED_DIRECTORIES = ("rules", "commands", "skills")
"""Folders of the user's that links of a project may lead to; keys and tasks lie beside them."""
_SKIPPED_DIRECTORIES = frozenset({"node_modules", "__pycache__", "venv"})
MAX_DIRECTORY_DEPTH = 12
MAX_SEARCHED_DIRECTORIES = 5000


class ConfigScope(Struct, frozen=True):
    """A `.roo`, `.agents` or `.claude` directory."""

    directory: Path
    label: str
    """How people and the prompt name it: `.roo`, `~/.roo`, `packages/web/.roo`."""
    source: CustomizationSource
    symlink_policy: SymlinkPolicy | None
    """None: the user's own, who may link to anywhere."""


class ConfigScopes(Struct, frozen=True):
    """The directories to search."""

    workspace: Path
    symlink_policy: SymlinkPolicy
    user: ConfigScope
    project: ConfigScope | None
    """None when the workspace's folder is the person's own."""
    user_agents: ConfigScope
    project_agents: ConfigScope | None
    user_claude: ConfigScope
    project_claude: ConfigScope | None

    @property
    def command_scopes(self) -> tuple[ConfigScope, ...]:
        """The directories with slash commands, by ascending precedence."""
        scopes = (self.user_claude, self.user, self.project_claude, self.project)
        return tuple(scope for scope in scopes if scope is not None)

    @property
    def roo_scopes(self) -> tuple[ConfigScope, ...]:
        return (self.user,) if self.project is None else (self.user, self.project)


def locate_config_directories(
    *, workspace: Path, joey_home: Path, user_home: Path, is_hidden: Callable[[Path], bool]
) -> ConfigScopes:
    """Locate configuration directories; `joey_home` is the user's `.roo`, `user_home` the directory
    that usually contains it."""
    workspace = Path(os.path.realpath(workspace))
    owned = (joey_home, user_home / AGENTS_DIRECTORY, user_home / CLAUDE_DIRECTORY)
    shared = (path for directory in owned for path in _find_shared_directories(directory))
    fence = SymlinkPolicy((workspace, *shared), is_hidden)

    def user(directory: Path) -> ConfigScope:
        return ConfigScope(directory, _format_label(directory, user_home), "global", None)

    def project(name: str, own: Path) -> ConfigScope | None:
        directory = workspace / name
        if os.path.realpath(directory) == os.path.realpath(own):
            return None
        return ConfigScope(directory, name, "project", fence)

    return ConfigScopes(
        workspace=workspace,
        symlink_policy=fence,
        user=user(joey_home),
        project=project(ROO_DIRECTORY, joey_home),
        user_agents=user(user_home / AGENTS_DIRECTORY),
        project_agents=project(AGENTS_DIRECTORY, user_home / AGENTS_DIRECTORY),
        user_claude=user(user_home / CLAUDE_DIRECTORY),
        project_claude=project(CLAUDE_DIRECTORY, user_home / CLAUDE_DIRECTORY),
    )


def find_nested_scopes(
    scopes: ConfigScopes, reader: UntrustedFileReader
) -> tuple[ConfigScope, ...]:
    """Find the `.roo` directories below the workspace, alphabetically."""
    found: list[ConfigScope] = []
    pending = [(scopes.workspace, "", 0)]
    looked_at = 0
    while pending:
        directory, label, depth = pending.pop()
        looked_at += 1
        if looked_at > MAX_SEARCHED_DIRECTORIES:
            reader.warn(
                f"Not all folders were searched for {ROO_DIRECTORY}/: there are more than "
                f"{MAX_SEARCHED_DIRECTORIES}."
            )
            break
        for name in reader.list_subdirectories(directory):
            path = directory / name
            shown = f"{label}/{name}" if label else name
            if name == ROO_DIRECTORY and label:
                found.append(ConfigScope(path, shown, "project", scopes.symlink_policy))
            elif (
                not name.startswith(".")
                and name not in _SKIPPED_DIRECTORIES
                and depth < MAX_DIRECTORY_DEPTH
            ):
                pending.append((path, shown, depth + 1))
    return tuple(sorted(found, key=lambda scope: scope.label))


def _find_shared_directories(directory: Path) -> tuple[Path, ...]:
    """Find the user's directories to which links of a project may lead."""
    try:
        names = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    except OSError:
        return ()
    return tuple(
        Path(os.path.realpath(directory / name))
        for name in names
        if name in _SHARED_DIRECTORIES
        or name.startswith(tuple(f"{shared}-" for shared in _SHARED_DIRECTORIES))
    )


def _format_label(directory: Path, user_home: Path) -> str:
    if directory.is_relative_to(user_home):
        return f"~/{directory.relative_to(user_home).as_posix()}"
    return str(directory)


MAX_YAML_DEPTH = 50
MAX_YAML_EVENTS = 20_000


class YamlError(ValueError):
    """YAML is invalid; the text names the problem and the line."""


def parse_yaml(text: str) -> Any:
    """Parse YAML. Raises YamlError."""
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        _check_yaml_size(text, yaml, loader)
        return yaml.load(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise YamlError(f"{line}{error.problem or error.context or 'not valid YAML'}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise YamlError(str(error).partition("\n")[0] or "not valid YAML") from error


def _check_yaml_size(text: str, yaml: Any, loader: Any) -> None:
    depth = 0
    for number, event in enumerate(yaml.parse(text, Loader=loader)):
        if number > MAX_YAML_EVENTS:
            raise YamlError(f"line {event.start_mark.line + 1}: there are too many entries")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_YAML_DEPTH:
            raise YamlError(f"line {event.start_mark.line + 1}: nested too deeply")
