"""The sandbox level `full`: namespaces made by bubblewrap.

The rest of the machine is not visible in them. Listening sockets of other programs are masked one
by one, since a socket can be used even on a read-only mount.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from joey.execution.sandbox import seccomp
from joey.execution.sandbox.filesystem import (
    VISIBLE_VIEWS,
    FilesystemLayout,
    PathView,
    is_root_in_foreign_workspace,
)
from joey.execution.sandbox.protected_files import ProtectedPaths
from joey.ports.execution import SandboxLevel

_BINARY_PATHS = (
    *("/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"),
    "/run/current-system/sw/bin/bwrap",
)
"""Never looked for on the PATH: whatever confines commands is not to be found by accident."""
INIT_SCRIPT = r"""
echo ready >&9
. /proc/self/fd/8 || exit
exec 2>/dev/null 8<&-
"$@" 2>&1 9>&-
echo $? >&9
exec >/dev/null 9>&-
while kill -s 0 -- -1; do sleep 0.1; done
"""
"""The first process inside. It waits for a script that sets its arguments to those of the command,
and ends when none comes. It lives as long as anything does that the command has started: when it
ends, or whoever watches over it, the kernel ends all the others."""
SANDBOX_TEMP_DIRECTORY = "/tmp"
_SHARED_MEMORY_MOUNT_OPTIONS = (
    *("--perms", "1777", "--size", str(1024**3), "--tmpfs", "/dev/shm"),
    *("--remount-ro", "/dev"),
)
"""What is shared between processes is memory, and needs a bound."""


_GAP_TEXTS = (
    "Protected names that are absent, but for .git, .roo and .vscode in the root, can be made while"
    " a command runs, and links of such names replaced; that is undone when it ends.",
    "This version of bubblewrap does not limit what is put in /dev/shm.",
)


class Bubblewrap:
    level = SandboxLevel.FULL
    is_precheck_reliable = False
    """Systems and containers have many ways to forbid namespaces."""

    def __init__(self, binaries: Sequence[str] = _BINARY_PATHS) -> None:
        self._binary_paths = binaries

    def explain_unavailable(self) -> str | None:
        """Explain why the sandbox cannot work here, without probing."""
        if self._find_binary() is None:
            return "bubblewrap is not installed (look for a package called bubblewrap)"
        if not seccomp.is_supported_machine():
            return f"the system calls of this processor ({os.uname().machine}) are not known"
        return None

    @property
    def gaps(self) -> tuple[str, ...]:
        binary = self._find_binary()
        is_measured = binary is None or self._supports_size_option(binary)
        return _GAP_TEXTS[:1] if is_measured else _GAP_TEXTS

    def build_plan(
        self,
        layout: FilesystemLayout,
        protected_paths: ProtectedPaths,
        shell: Sequence[bytes],
        has_network: bool,
    ) -> dict[str, Any]:
        """Build the plan for the supervisor."""
        binary = self._find_binary()
        assert binary is not None
        shell_options = ["--noprofile", "--norc"] if b"--norc" in shell else []
        # A visible socket of another program can be connected to, even on a read-only mount.
        sockets = find_unix_socket_paths(protected_paths.scanned_directories, layout.workspace)
        sandbox = {
            "level": "full",
            "program": [binary, *_build_namespace_options(layout)],
            "own_network": [] if has_network else ["--unshare-net"],
            "shares_network": not has_network,
            "views": [*_build_mount_options(layout, self._supports_size_option(binary))],
            "first": ["--", shell[0], *shell_options, "-c", INIT_SCRIPT],
            "seccomp": _build_seccomp_filter(local_sockets=not has_network),
        }
        command = {
            "keep": list(protected_paths.pinned_directories),
            "hold": list(protected_paths.read_only),
            "mask": [str(path) for path in sockets if layout.find_view(path) in VISIBLE_VIEWS],
            "absent": list(protected_paths.placeholder_paths),
            "guarded": list(protected_paths.restored_afterwards),
            "pinned": [],
        }
        return {"sandbox": sandbox, "command": command}

    def build_environment(self, layout: FilesystemLayout) -> dict[str, str]:
        return dict.fromkeys(("TMPDIR", "TMP", "TEMP"), SANDBOX_TEMP_DIRECTORY)

    @cache  # noqa: B019 (there is one for the whole process)
    def _supports_size_option(self, binary: str) -> bool:
        completed = subprocess.run(
            [binary, "--help"], capture_output=True, check=False, timeout=10, env={}
        )
        return b"--size" in completed.stdout + completed.stderr

    def _find_binary(self) -> str | None:
        for each in self._binary_paths:
            try:
                found = Path(each).stat()
            except OSError:
                continue
            if stat.S_ISREG(found.st_mode) and found.st_uid == 0 and not found.st_mode & 0o022:
                return os.path.realpath(each)
        return None


@cache
def _build_seccomp_filter(*, local_sockets: bool) -> bytes:
    return seccomp.compile_filter(
        seccomp.build_denied_calls(internet=True, local_sockets=local_sockets, shared_memory=True)
    )


def _build_namespace_options(layout: FilesystemLayout) -> list[str]:
    options = ["--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
    options += ["--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL"]
    if not is_root_in_foreign_workspace(layout.workspace):
        # Listed explicitly, because a process that has joined another sandbox's network is root
        # there.
        user = ("--uid", str(os.getuid()), "--gid", str(os.getgid()))
        return [*options, "--unshare-user", *user]
    for capability in ("CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_CHOWN"):
        options += ["--cap-add", capability]
    return options


@lru_cache(8)
def _build_mount_options(layout: FilesystemLayout, is_measured: bool) -> tuple[str, ...]:
    options: list[str] = []
    for path, view in layout.views.items():
        options += _build_path_mount_options(path, view, layout)
        if path == Path("/"):
            # root may write its files below /proc/sys without any capability.
            options += ["--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev"]
            options += _SHARED_MEMORY_MOUNT_OPTIONS if is_measured else ()
    # The owner of an empty file system may change its mode, and fill the memory with files.
    hidden = [path for path, view in layout.views.items() if view is PathView.HIDDEN]
    options += (
        word for path in filter(Path.is_dir, hidden) for word in ("--remount-ro", str(path))
    )
    return tuple(options)


def _build_path_mount_options(path: Path, view: PathView, layout: FilesystemLayout) -> list[str]:
    place = str(path)
    match view:
        case PathView.READ:
            return ["--ro-bind", place, place]
        case PathView.WRITE:
            return ["--bind", place, place]
        case PathView.PRIVATE:
            source = layout.temp_directory / ("home" if path == layout.home else "tmp")
            return ["--bind", str(source), place]
    # For each bind, bubblewrap reads the list of all mounts; an empty file system is cheap.
    return (
        ["--perms", "0555", "--tmpfs", place]
        if path.is_dir()
        else ["--ro-bind", "/dev/null", place]
    )


_UNIX_SOCKET_TABLE_PATH = Path("/proc/net/unix")
_PATH_COLUMN = 7


def find_unix_socket_paths(directories: Iterable[str], workspace: Path) -> list[Path]:
    """Find the Unix sockets of this network namespace; sockets of another command are in that
    command's."""
    try:
        lines = _UNIX_SOCKET_TABLE_PATH.read_text(
            encoding="utf-8", errors="surrogateescape"
        ).splitlines()[1:]
    except OSError:
        return []  # They are not listed here.
    rows = (line.split(None, _PATH_COLUMN) for line in lines)
    names = {row[_PATH_COLUMN] for row in rows if len(row) > _PATH_COLUMN}
    names = {os.path.normpath(name) for name in names if not name.startswith("@")}
    found = [Path(name) for name in sorted(names) if name.startswith("/")]
    near = [name for name in sorted(names) if not name.startswith(("/", ".."))]
    if near:
        # Bound by a relative path from an unknown directory, possibly in the workspace.
        found += (workspace / directory / name for directory in directories for name in near)
    return [
        path
        for path in dict.fromkeys(Path(os.path.realpath(path.parent), path.name) for path in found)
        if _is_socket(path)
    ]


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:
        return False  # It is gone, or not reachable from here.
