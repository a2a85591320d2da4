"""The sandbox level `landlock`: the kernel's rules for files, signals and system calls.

Landlock can only grant access, and access to a directory covers everything below it. So readable
paths are listed down to the level of hidden ones. Protected names in a writable workspace cannot be
excluded: they are restored once the command has ended.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from joey.execution.sandbox import seccomp
from joey.execution.sandbox.filesystem import (
    FilesystemLayout,
    PathView,
    is_root_in_foreign_workspace,
)
from joey.execution.sandbox.protected_files import ProtectedPaths
from joey.ports.execution import SandboxLevel

MIN_ABI_VERSION = 3
"""Without version 3, files outside could be cut short."""
_SCOPES_MIN_ABI_VERSION = 6

_EXECUTE_RIGHT, _WRITE_FILE_RIGHT, _READ_FILE_RIGHT, _READ_DIR_RIGHT = 1, 2, 4, 8
_REMOVE_RIGHTS, _MAKE_DEVICE_RIGHTS = 0b11 << 4, 1 << 6 | 1 << 11
_MAKE_RIGHTS = 0b1111 << 7 | 1 << 12
"""To make anything but devices: directories, files, sockets, pipes, links."""
_REFER_RIGHT, _TRUNCATE_RIGHT, _IOCTL_DEV_RIGHT = 1 << 13, 1 << 14, 1 << 15
READ_RIGHTS = _EXECUTE_RIGHT | _READ_FILE_RIGHT | _READ_DIR_RIGHT
CHANGE_RIGHTS = _WRITE_FILE_RIGHT | _REMOVE_RIGHTS | _MAKE_RIGHTS | _REFER_RIGHT | _TRUNCATE_RIGHT
_FILE_RIGHTS = (
    _EXECUTE_RIGHT | _READ_FILE_RIGHT | _WRITE_FILE_RIGHT | _TRUNCATE_RIGHT | _IOCTL_DEV_RIGHT
)
_DEVICE_NAMES = ("null", "zero", "full", "random", "urandom")
_TCP_RIGHTS = 0b11
_SCOPE_FLAGS = 0b11
"""No abstract sockets of others, no signals to others."""
_FILE_OWNER_CAPABILITIES = 0b11111
"""CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID."""


class Landlock:
    level = SandboxLevel.LANDLOCK
    is_precheck_reliable = True

    def __init__(self, version: int | None = None) -> None:
        """`version` is the Landlock version to use; None means the kernel's newest."""
        self._requested_version = version

    @property
    def version(self) -> int:
        from joey.execution.sandbox.kernel import (
            get_landlock_version,  # ctypes takes its time to load
        )

        newest = get_landlock_version()
        return newest if self._requested_version is None else min(newest, self._requested_version)

    def explain_unavailable(self) -> str | None:
        """Explain why the sandbox cannot work here, without probing."""
        if not seccomp.is_supported_machine():
            return f"the system calls of this processor ({os.uname().machine}) are not known"
        if self.version < 1:
            return "this kernel has no Landlock, or it is switched off"
        if self.version < MIN_ABI_VERSION:
            return (
                f"Landlock of this kernel is of version {self.version}; {MIN_ABI_VERSION} is needed"
            )
        return None

    @property
    def gaps(self) -> tuple[str, ...]:
        found = [
            "Protected names of the workspace can be changed while a command runs; they are put"
            " back when it ends, but not what processes that it leaves behind change later.",
            "Modes, owners and times of your files outside the workspace can be changed.",
            "Local sockets, loopback and shared memory are refused.",
            "Single hosts cannot be allowed: with a list in sandboxNetwork no command runs.",
        ]
        if self.version < _SCOPES_MIN_ABI_VERSION:
            found.append("Other processes of yours, joey excepted, can be sent signals.")
        return tuple(found)

    def build_plan(
        self,
        layout: FilesystemLayout,
        protected_paths: ProtectedPaths,
        shell: Sequence[bytes],
        has_network: bool,
    ) -> dict[str, Any]:
        """Build the plan for the supervisor."""
        version = self.version
        is_scoped = version >= _SCOPES_MIN_ABI_VERSION
        spared = () if is_scoped else (os.getpid(),)
        foreign = is_root_in_foreign_workspace(layout.workspace)
        all_rights = READ_RIGHTS | CHANGE_RIGHTS | _MAKE_DEVICE_RIGHTS
        sandbox = {
            "level": "landlock",
            "files": all_rights | (_IOCTL_DEV_RIGHT if version >= 5 else 0),
            "tcp": _TCP_RIGHTS if version >= 4 and not has_network else 0,
            "scopes": _SCOPE_FLAGS if is_scoped else 0,
            "rules": _build_rules(layout),
            "seccomp": _build_seccomp_filter(internet=has_network, spared=spared),
            "capabilities": _FILE_OWNER_CAPABILITIES if foreign else 0,
        }
        command = {
            "absent": [],
            "guarded": [
                *protected_paths.read_only,
                *protected_paths.placeholder_paths,
                *protected_paths.restored_afterwards,
            ],
            "pinned": list(protected_paths.pinned_directories),
        }
        return {"sandbox": sandbox, "command": command}

    def build_environment(self, layout: FilesystemLayout) -> dict[str, str]:
        return dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(layout.temp_directory / "tmp"))


@cache
def _build_seccomp_filter(*, internet: bool, spared: tuple[int, ...]) -> bytes:
    return seccomp.compile_filter(
        seccomp.build_denied_calls(
            internet=internet, local_sockets=False, shared_memory=False, unsignalled_pids=spared
        )
    )


@lru_cache(8)
def _build_rules(layout: FilesystemLayout) -> list[tuple[str, int]]:
    """Build the paths and rights for the kernel."""
    found: list[tuple[str, int]] = []
    stricter = {
        above
        for each, view in layout.views.items()
        if view in (PathView.HIDDEN, PathView.PRIVATE)
        for above in each.parents
    }
    for path, view in layout.views.items():
        if view is PathView.READ or view is PathView.WRITE:
            rights = READ_RIGHTS | (CHANGE_RIGHTS if view is PathView.WRITE else 0)
            for place in _iter_allowed_paths(path, stricter, layout):
                found.append((str(place), rights if place.is_dir() else rights & _FILE_RIGHTS))
    found.append((str(layout.temp_directory / "tmp"), READ_RIGHTS | CHANGE_RIGHTS))
    if layout.workspace in stricter:
        # It holds secrets, which stay inaccessible; only their names are visible.
        found.append((str(layout.workspace), _READ_DIR_RIGHT))
    found += (
        (f"/dev/{name}", _READ_FILE_RIGHT | _WRITE_FILE_RIGHT | _IOCTL_DEV_RIGHT)
        for name in _DEVICE_NAMES
    )
    return found


def _iter_allowed_paths(
    path: Path, stricter: set[Path], layout: FilesystemLayout
) -> Iterator[Path]:
    """Iterate over the path itself, or its entries if something below it has fewer rights."""
    if path == Path("/dev"):
        return
    if path not in stricter and path != Path("/"):
        yield path
        return
    try:
        with os.scandir(path) as entries:
            names = sorted(entry.name for entry in entries if not entry.is_symlink())
    except OSError:
        return  # Not visible here either.
    for name in names:
        if path / name not in layout.views:
            yield from _iter_allowed_paths(path / name, stricter, layout)
