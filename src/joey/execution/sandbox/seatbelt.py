"""The sandbox level `seatbelt`: a profile for `sandbox-exec` of macOS.

The profile is written from the same layout as the sandboxes of Linux. It has been tested as text
only, not on a Mac; the probe decides on each machine whether it works. The last matching rule
decides, so parents are listed first. Paths are parameters: none of them can add a rule.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from joey.errors import ToolError
from joey.execution.sandbox.filesystem import VISIBLE_VIEWS, FilesystemLayout, PathView
from joey.execution.sandbox.protected_files import ProtectedPaths
from joey.ports.execution import ConfinedProcess, SandboxLevel
from joey.system.subprocess import STDOUT, Process, process_group_exists, send_signal_to_group

_PROGRAM = "/usr/bin/sandbox-exec"
"""Never looked for on the PATH."""
_BASE_RULES = """\
(version 1)
(deny default)
(allow process-fork)
(allow process-exec)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow ipc-posix-sem)
(allow mach-host*)
(allow mach-lookup
  (global-name "com.apple.bsd.dirhelper")
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.opendirectoryd.membership"))
(allow sysctl-read
  (sysctl-name-prefix "hw.")
  (sysctl-name-prefix "kern.os")
  (sysctl-name-prefix "kern.proc.pgrp.")
  (sysctl-name-prefix "kern.proc.pid.")
  (sysctl-name-prefix "machdep.cpu.")
  (sysctl-name-prefix "net.routetable.")
  (sysctl-name "kern.argmax")
  (sysctl-name "kern.boottime")
  (sysctl-name "kern.hostname")
  (sysctl-name "kern.maxfilesperproc")
  (sysctl-name "kern.maxproc")
  (sysctl-name "kern.ngroups")
  (sysctl-name "kern.secure_kernel")
  (sysctl-name "kern.usrstack64")
  (sysctl-name "kern.version")
  (sysctl-name "sysctl.proc_cputype")
  (sysctl-name "vm.loadavg"))
"""
"""What programs need to start at all. Services that hand out secrets or start programs (the
keychain, launch services, Apple events, the clipboard) are not among it."""
_NETWORK_RULES = """\
(allow system-socket)
(allow network-bind (local ip "*:*"))
(allow network-inbound (local ip "*:*"))
(allow network-outbound (remote ip "*:*"))
(allow network-outbound (literal "/private/var/run/mDNSResponder"))
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.DNSConfiguration")
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.networkd")
  (global-name "com.apple.trustd.agent"))
"""
"""No local sockets: the SSH agent and Docker listen at them."""
_DEVICE_RULES = """\
(deny file-read* file-write* (subpath "/dev"))
(allow file-read* (literal "/dev"))
(allow file-read* file-write-data (subpath "/dev/fd"))
(allow file-read* file-write-data file-ioctl
  (literal "/dev/null")
  (literal "/dev/zero")
  (literal "/dev/random")
  (literal "/dev/urandom")
  (literal "/dev/stdin")
  (literal "/dev/stdout")
  (literal "/dev/stderr")
  (literal "/dev/dtracehelper"))
"""


class Seatbelt:
    level = SandboxLevel.SEATBELT
    is_precheck_reliable = False
    gaps = (
        "Not yet tried on hardware: the profile is tested as text only.",
        "Protected names that do not exist yet can be made, apart from .git, .roo and .vscode in"
        " the root and the hooks of repositories.",
        "Processes, memory, CPU time and the size of files are not limited.",
        "Processes that leave their group can outlive the task.",
        "Local sockets, loopback and shared memory are refused.",
        "Single hosts cannot be allowed: with a list in sandboxNetwork no command runs.",
    )

    def __init__(self, program: str = _PROGRAM) -> None:
        self._program = program

    def explain_unavailable(self) -> str | None:
        """Explain why the sandbox cannot work here, without probing."""
        is_there = os.access(self._program, os.X_OK)
        return None if is_there else f"{self._program} is missing or cannot be run"

    def build_environment(self, layout: FilesystemLayout) -> dict[str, str]:
        return dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(layout.temp_directory / "tmp"))

    def build_wrapper(
        self,
        layout: FilesystemLayout,
        protected_paths: ProtectedPaths,
        network: str | Sequence[str],
    ) -> list[str]:
        """Build the arguments before a command's own. Raises ToolError."""
        if not isinstance(network, str):
            raise ToolError(
                "The sandbox of this machine (level seatbelt) cannot tell hosts apart, so commands"
                " do not run with a list in sandboxNetwork. The user can set it to off or all."
            )
        profile, parameters = build_profile(layout, protected_paths, has_network=network == "all")
        defined = (f"-D{name}={value}" for name, value in parameters.items())
        return [self._program, "-p", profile, *defined, "--"]


def build_profile(
    layout: FilesystemLayout, protected_paths: ProtectedPaths, *, has_network: bool
) -> tuple[str, dict[str, str]]:
    """Build the text of the profile and the values of its parameters."""
    held = [
        layout.workspace / name
        for name in (
            *protected_paths.read_only,
            *protected_paths.placeholder_paths,
            *protected_paths.restored_afterwards,
        )
    ]
    pinned = [layout.workspace / name for name in protected_paths.pinned_directories]
    rules = [
        *(rule for path, view in layout.views.items() for rule in _build_view_rules(path, view)),
        ("allow file-read* file-write*", "subpath", layout.temp_directory / "tmp"),
        *(("allow file-read-metadata", "literal", path) for path in _find_hidden_parents(layout)),
        *(("deny file-write*", "subpath", path) for path in held),
        *(
            ("deny file-write-unlink", "literal", path)
            for path in _find_pinned_directories(layout, (*held, *pinned), pinned)
        ),
    ]
    parameters: dict[str, str] = {}
    lines: list[str] = []
    for action, kind, path in rules:
        if path == Path("/") and kind == "subpath":
            lines.append(f"({action})\n")
            continue
        name = f"PATH_{len(parameters)}"
        parameters[name] = str(path)
        lines.append(f'({action} ({kind} (param "{name}")))\n')
    network = _NETWORK_RULES if has_network else ""
    return "".join((_BASE_RULES, network, *lines, _DEVICE_RULES)), parameters


_Rule = tuple[str, str, Path]
"""What is allowed or denied, the kind of the filter (`subpath`, `literal`), and its path."""


def _build_view_rules(path: Path, view: PathView) -> Iterator[_Rule]:
    match view:
        case PathView.WRITE:
            yield "allow file-read* file-write*", "subpath", path
        case PathView.READ:
            yield "allow file-read*", "subpath", path
            yield "deny file-write*", "subpath", path
        case PathView.HIDDEN | PathView.PRIVATE:  # nothing can be put in its place
            yield "deny file-read* file-write*", "subpath", path


def _find_hidden_parents(layout: FilesystemLayout) -> list[Path]:
    """Find hidden parents of visible paths: `realpath` reads them."""
    visible = [path for path, view in layout.views.items() if view in VISIBLE_VIEWS]
    parents = (each for path in (*visible, layout.temp_directory / "tmp") for each in path.parents)
    return [path for path in dict.fromkeys(parents) if layout.find_view(path) not in VISIBLE_VIEWS]


def _find_pinned_directories(
    layout: FilesystemLayout, held: Iterable[Path], pinned: Iterable[Path]
) -> list[Path]:
    """Find writable directories that contain protected paths: rules are about names, so renaming
    such a directory would bypass them."""
    stricter = (path for path, view in layout.views.items() if view is not PathView.WRITE)
    parents = (each for path in (*stricter, *held) for each in path.parents)
    return [
        path
        for path in dict.fromkeys((*pinned, *parents))
        if layout.find_view(path) is PathView.WRITE
    ]


class SeatbeltProcess:
    """A command started by `sandbox-exec`: a child of joey with its own process group."""

    def __init__(self, argv: Sequence[bytes | str], cwd: Path, env: Mapping[str, str]) -> None:
        self.argv = [os.fsdecode(each) for each in argv]
        self.cwd = cwd
        self.env = env
        self._process: Process | None = None

    async def start(self, protocol: asyncio.SubprocessProtocol) -> None:
        self._process = process = Process(
            self.argv, cwd=self.cwd, env=self.env, merge_stderr=True, reaps_at_exit=True
        )
        protocol.connection_made(process)
        process.relay(
            STDOUT,
            partial(protocol.pipe_data_received, STDOUT),
            partial(protocol.pipe_connection_lost, STDOUT, None),
        )
        process.add_exit_callback(protocol.process_exited)
        await asyncio.sleep(0)  # a cancelled caller is told here

    def take_denial_messages(self) -> list[str]:
        return []

    def has_no_processes(self) -> bool:
        process = self._process
        if process is not None and process.returncode is not None:
            if process_group_exists(process.pid):
                return False
            self._process = None  # its number may be given to another process
        return self._process is None

    def terminate(self) -> None:
        self._send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self._send_signal(signal.SIGKILL)

    def close(self) -> None:
        self.kill()

    def _send_signal(self, number: signal.Signals) -> None:
        if self._process is not None and not self.has_no_processes():
            send_signal_to_group(self._process.pid, number)


_protocol_check: type[ConfinedProcess] = SeatbeltProcess
