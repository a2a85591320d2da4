"""The sandbox of one task's commands, at the best level that works on this machine.

Start reading at `LocalSandbox.confine`. The settings come from the user's session
(`SandboxConfig`); nothing in them comes from a model. The other modules of this package are loaded
when the first command is run or expected, so a task without commands does not load them.

`SandboxBoundary` tells file tools which directories they reach with `-y`: those that commands see,
and `$TMPDIR`. The sandbox's own file-system view decides, so that a tool never reads a file that a
command cannot. This also holds if no sandbox works, or if it is turned off for commands.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from joey.core.path_access import PathAccess
from joey.core.permissions.hosts import REGISTRIES, NetworkSetting, list_entries
from joey.core.protected_paths import is_protected
from joey.core.settings import Settings
from joey.errors import ToolError
from joey.ports.execution import ConfinedProcess, Sandbox, SandboxLevel, SandboxReport
from joey.ports.workspace import Boundary
from joey.system.subprocess import MARKER_VARIABLE

if TYPE_CHECKING:
    from joey.core.permissions.network import RegistryHost
    from joey.execution.registries import RegistryFinder
    from joey.execution.sandbox.filesystem import FilesystemLayout, PathView
    from joey.execution.sandbox.forkserver_client import ForkServerManager
    from joey.execution.sandbox.protected_files import ProtectedPaths
    from joey.execution.sandbox.protected_scan import ProtectedPathScanner, ScannedDirectory
    from joey.execution.sandbox.seatbelt import Seatbelt, SeatbeltProcess
    from joey.execution.sandbox.supervisor_client import (
        ControlGroup,
        SupervisorHandle,
        SupervisorTransport,
    )


log = logging.getLogger(__name__)

_TEMP_PREFIX = "joey-commands-"
CANARY_TEMP_PREFIX = "joey-canary-"
_OWN_WRITES_FILE = "written"
"""A list of what joey's own tools have written under protected names; commands do not see it."""
_STALE_TEMP_AGE_S = 24 * 3600


class SandboxBackend(Protocol):
    """Sandboxes commands by means of a supervisor, as on Linux."""

    @property
    def level(self) -> SandboxLevel: ...

    @property
    def gaps(self) -> tuple[str, ...]: ...

    @property
    def is_precheck_reliable(self) -> bool:
        """Whether a successful pre-check means that it works; others may still fail."""

    def explain_unavailable(self) -> str | None: ...

    def build_plan(
        self,
        layout: FilesystemLayout,
        protected_paths: ProtectedPaths,
        shell: Sequence[bytes],
        has_network: bool,
    ) -> dict[str, Any]: ...

    def build_environment(self, layout: FilesystemLayout) -> dict[str, str]: ...


class SandboxProbeResult(Struct, frozen=True):
    report: SandboxReport
    backend: SandboxBackend | Seatbelt | None


class SandboxProbe(Protocol):
    def find_likely_level(self) -> SandboxLevel:
        """Estimate what works without probing; NONE if possibly nothing does."""

    def find_available(self) -> SandboxProbeResult:
        """Probe, or return the remembered result; may take a while the first time."""


class LocalSandbox:
    def __init__(
        self, config: SandboxConfig, settings: Settings, create_probe: Callable[[], SandboxProbe]
    ) -> None:
        """`create_probe` is called for the first command."""
        self._config = config
        self._settings = settings
        self._create_probe = create_probe
        self._probe_result: SandboxProbeResult | None = None
        self._temp_directory: Path | None = None
        self._has_temp_directory = False
        self._control_group: ControlGroup | None = None
        self._cached_layout: FilesystemLayout | None = None
        self._layout_expires_at = 0.0
        self._lazy_state_lock = threading.Lock()
        self._scanner: ProtectedPathScanner | None = None
        self._registry_finder: RegistryFinder | None = None
        self._has_warned_incomplete_scan = False
        self._fork_server_manager: ForkServerManager | None = None
        self._prewarm_task: asyncio.Task[None] | None = None
        self._confine_tasks: set[asyncio.Task[ConfinedProcess]] = set()

    def prewarm(self) -> None:
        if self._prewarm_task is None or self._prewarm_task.done():
            self._prewarm_task = asyncio.get_running_loop().create_task(self._prewarm())

    async def _prewarm(self) -> None:
        """Prepare everything that the first command would wait for."""
        try:
            found = await self._find_available()
        except OSError as error:
            log.info("the sandbox could not be tried beforehand: %s", error)
            return  # The first command reports errors.
        if found.backend is None:
            return
        if found.report.level is not SandboxLevel.SEATBELT:
            from joey.execution.sandbox import supervisor_client

            assert supervisor_client  # loaded
            self._get_fork_server_manager().prewarm()
        await asyncio.to_thread(self._prewarm_scan)

    async def probe(self) -> SandboxReport:
        return (await self._find_available()).report

    def is_hidden(self, path: Path) -> bool:
        from joey.execution.sandbox.filesystem import VISIBLE_VIEWS  # loaded on need

        # The path itself may be a link, as interpreters of virtual environments are.
        place = Path(os.path.realpath(path.parent), path.name)
        return os.path.lexists(path) and self._get_layout().find_view(place) not in VISIBLE_VIEWS

    def is_private(self, path: Path) -> bool:
        probed = self._probe_result
        if not self._has_temp_directory or probed is None or probed.backend is None:
            return False
        layout = self._get_layout()
        temp = Path(probed.backend.build_environment(layout)["TMPDIR"])
        if not path.is_relative_to(temp) or any(each.is_relative_to(path) for each in layout.views):
            return False  # A directory above the workspace is there only to contain it.
        place = layout.temp_directory / "tmp"
        for part in path.relative_to(temp).parts:
            place /= part
            if not os.path.lexists(place):
                return False
            if place.is_symlink():
                return True  # Commands resolve it themselves.
        return True

    async def find_registries(self) -> tuple[RegistryHost, ...]:
        if self._registry_finder is None:
            from joey.execution.registries import RegistryFinder  # loaded on need
            from joey.execution.sandbox.filesystem import PathView

            views = self._get_layout().views
            writable = [path for path, view in views.items() if view is PathView.WRITE]
            self._registry_finder = RegistryFinder(
                self._config.workspace, self._config.env, writable
            )
        return await self._registry_finder.find_hosts()

    async def confine(
        self,
        shell: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        network: NetworkSetting | None = None,
    ) -> ConfinedProcess | None:
        found = await self._find_available()
        if found.backend is None:
            if self._settings.sandbox == "required":
                raise ToolError(
                    f"Commands may run in a sandbox only. {explain_no_sandbox(found.report)}"
                )
            return None
        network = self._settings.sandbox_network if network is None else network
        if REGISTRIES in list_entries(network):
            from joey.core.permissions.network import expand_registries

            network = expand_registries(network, await self.find_registries())
        prepare = self._choose_preparation(found.backend)
        preparation = asyncio.to_thread(prepare, shell, cwd, env, network)
        task = asyncio.get_running_loop().create_task(preparation)
        self._confine_tasks.add(task)
        task.add_done_callback(self._confine_tasks.discard)
        # A cancelled caller does not retrieve its exception.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    def _choose_preparation(
        self, backend: SandboxBackend | Seatbelt
    ) -> Callable[[Sequence[str], Path, Mapping[str, str], NetworkSetting], ConfinedProcess]:
        from joey.execution.sandbox.seatbelt import Seatbelt

        if isinstance(backend, Seatbelt):
            return partial(self.prepare_seatbelt, backend)
        fork_server = self._get_fork_server_manager()
        fork_server.start_server()

        def prepare(
            shell: Sequence[str], cwd: Path, env: Mapping[str, str], network: NetworkSetting
        ) -> ConfinedProcess:
            start = fork_server.start_command
            return self.prepare_command(backend, shell, cwd, env, start, network)

        return prepare

    def prepare_command(
        self,
        backend: SandboxBackend,
        shell: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        start_command: Callable[[dict[str, Any]], Awaitable[SupervisorTransport]],
        network: NetworkSetting = "off",
    ) -> SupervisorHandle:
        """Prepare to start `shell` in this sandbox, by a waiting supervisor."""
        # Not needed by tasks without commands.
        from joey.execution.sandbox.command_setup import (
            build_environment,
            build_resource_limits,
            encode_arguments,
        )
        from joey.execution.sandbox.supervisor_client import SupervisorHandle

        layout, where, protected_paths = self._prepare_directories(cwd)
        arguments = encode_arguments(shell)
        plan = backend.build_plan(layout, protected_paths, arguments, network == "all")
        given = backend.build_environment(layout)
        plan["sandbox"] |= {
            "workspace": str(layout.workspace),
            "processes": max(self._settings.sandbox_max_processes, 0),
            "limits": build_resource_limits(self._settings),
            "env": {**build_environment(env, given, network), MARKER_VARIABLE: ""},
        }
        plan["command"] |= {
            "shell": arguments,
            "cwd": str(where),
            "env": {MARKER_VARIABLE: env.get(MARKER_VARIABLE, "")},
            "folders": protected_paths.scanned_directories,
            "left_out": list(protected_paths.excluded),
            "written": str(layout.temp_directory / _OWN_WRITES_FILE),
            "aside": str(self._config.joey_home / "put-aside" / str(time.time_ns())),
        }
        if isinstance(network, str):
            return SupervisorHandle(plan, start_command)
        from joey.execution.sandbox.network_proxy import ProxiedSupervisorHandle

        return ProxiedSupervisorHandle(plan, start_command, network, self._config.env)

    def prepare_seatbelt(
        self,
        backend: Seatbelt,
        shell: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        network: NetworkSetting = "off",
    ) -> SeatbeltProcess:
        """Prepare to start `shell` with `sandbox-exec`."""
        from joey.execution.sandbox.command_setup import build_environment, encode_arguments
        from joey.execution.sandbox.seatbelt import SeatbeltProcess

        layout, where, protected_paths = self._prepare_directories(cwd)
        wrapper = backend.build_wrapper(layout, protected_paths, network)
        variables = build_environment(env, backend.build_environment(layout), network)
        return SeatbeltProcess([*wrapper, *encode_arguments(shell)], where, variables)

    def _prepare_directories(self, cwd: Path) -> tuple[FilesystemLayout, Path, ProtectedPaths]:
        """Prepare layout, resolved working directory and protected paths for the next command."""
        from joey.execution.sandbox.filesystem import PathView, find_visible_protected_paths

        layout = self._get_layout()
        try:
            self._create_temp_directory(layout.temp_directory)
        except OSError as error:
            raise build_setup_error(f"{layout.temp_directory}: {error.strerror}") from error
        where = Path(os.path.realpath(cwd))
        if not where.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(cwd))
        if layout.find_view(where) in (PathView.HIDDEN, PathView.PRIVATE):
            raise ToolError(
                f"{cwd} is outside of what the sandbox shows to commands. Work in the workspace,"
                " or ask the user to name the folder in sandboxReadable or sandboxWritable."
            )
        protected_paths = find_visible_protected_paths(
            self._config, layout, self._scan_protected_names(layout.workspace)
        )
        return layout, where, protected_paths

    def mark_own_write(self, path: Path) -> None:
        if not self._has_temp_directory or not is_protected(str(path)):
            return
        assert self._temp_directory is not None
        found = path.lstat()
        with (self._temp_directory / _OWN_WRITES_FILE).open("a", encoding="ascii") as record:
            record.write(f"{found.st_ino} {found.st_ctime_ns}\n")

    async def close(self) -> None:
        if self._prewarm_task is not None:
            self._prewarm_task.cancel()
            await asyncio.wait((self._prewarm_task,))
        # A task that continues needs a new one.
        fork_server, self._fork_server_manager = self._fork_server_manager, None
        if fork_server is not None:
            await fork_server.close()
        if self._confine_tasks:  # a thread continues after its caller is cancelled
            await asyncio.wait(self._confine_tasks)
        if self._has_temp_directory or self._control_group is not None:
            await asyncio.to_thread(self.remove_resources)

    def remove_resources(self) -> None:
        """Remove the task's resources."""
        if self._has_temp_directory and self._temp_directory is not None:
            shutil.rmtree(self._temp_directory, ignore_errors=True)
            self._has_temp_directory = False
        if self._control_group is not None:
            self._control_group.close()
            self._control_group = None

    async def _find_available(self) -> SandboxProbeResult:
        if self._probe_result is None:
            self._probe_result = await asyncio.to_thread(
                lambda: self._create_probe().find_available()
            )
        return self._probe_result

    def _get_control_group(self) -> ControlGroup | None:
        """Return the control group of the task's processes, if the kernel would not count them
        otherwise."""
        from joey.execution.sandbox.supervisor_client import create_control_group

        if self._control_group is None and self._settings.sandbox_max_processes > 0:
            self._control_group = create_control_group(self._settings.sandbox_max_processes)
        return self._control_group

    def _get_fork_server_manager(self) -> ForkServerManager:
        from joey.execution.sandbox.forkserver_client import ForkServerManager

        if self._fork_server_manager is None:
            self._fork_server_manager = ForkServerManager(self._get_control_group)
        return self._fork_server_manager

    def _prewarm_scan(self) -> None:
        """Scan ahead: the first scan takes longest."""
        from joey.execution.sandbox import filesystem

        assert filesystem  # loaded
        self._scan_protected_names(Path(os.path.realpath(self._config.workspace)))
        self._get_layout()

    def _scan_protected_names(self, workspace: Path) -> dict[str, ScannedDirectory]:
        from joey.execution.sandbox import protected_scan

        with self._lazy_state_lock:
            if self._scanner is None:
                self._scanner = protected_scan.ProtectedPathScanner(str(workspace))
            found = self._scanner.scan()
        most = protected_scan.MAX_SCANNED_DIRECTORIES
        if len(found) >= most and not self._has_warned_incomplete_scan:
            self._has_warned_incomplete_scan = True
            log.warning(
                "the workspace has more than %d folders: protected names in those that lie"
                " deepest are not held against commands",
                most,
            )
        return found

    def _get_layout(self) -> FilesystemLayout:
        from joey.execution.sandbox.filesystem import VIEW_CACHE_TTL_S, build_layout

        with self._lazy_state_lock:
            if self._cached_layout is None or time.monotonic() > self._layout_expires_at:
                if self._temp_directory is None:
                    name = f"{_TEMP_PREFIX}{os.getpid()}-{token_hex(8)}"
                    self._temp_directory = Path(os.path.realpath(tempfile.gettempdir()), name)
                self._cached_layout = build_layout(self._config, self._temp_directory)
                self._layout_expires_at = time.monotonic() + VIEW_CACHE_TTL_S
            return self._cached_layout

    def _create_temp_directory(self, place: Path) -> None:
        """It holds what is put in place of others' folders."""
        with self._lazy_state_lock:
            if not self._has_temp_directory:
                _remove_stale_temp_directories(place.parent)
                try:
                    for each in (place, place / "tmp", place / "home"):
                        each.mkdir(mode=0o700)
                except OSError:
                    shutil.rmtree(place, ignore_errors=True)
                    raise
                self._has_temp_directory = True


def _remove_stale_temp_directories(directory: Path) -> None:
    """Remove directories left by processes that were killed long ago."""
    left = (directory.glob(f"{prefix}[0-9]*-*") for prefix in (_TEMP_PREFIX, CANARY_TEMP_PREFIX))
    for each in chain.from_iterable(left):
        try:
            found = each.lstat()
        except OSError:
            continue  # Another process is cleaning up too.
        owner = each.name.split("-")[2]
        is_old = time.time() - found.st_mtime > _STALE_TEMP_AGE_S
        if is_old and found.st_uid == os.getuid() and not _is_running(owner):
            shutil.rmtree(each, ignore_errors=True)


def _is_running(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, OverflowError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


def build_setup_error(reason: str) -> ToolError:
    return ToolError(
        f"The sandbox could not be set up, and the command was not run: {reason}. This is not a "
        "failure of the command. Tell the user; `joey doctor` says what works on this machine."
    )


def explain_no_sandbox(report: SandboxReport) -> str:
    """Explain why no sandbox works, in one or two sentences."""
    reasons = (f"{level}: {reason}" for level, reason in report.unavailable_reasons.items())
    return f"No sandbox works on this machine ({'; '.join(reasons)})."


_protocol_check: type[Sandbox] = LocalSandbox


class SandboxConfig(Struct, frozen=True):
    """The user's session settings for a task's commands; nothing in them comes from a model."""

    workspace: Path
    joey_home: Path
    env: Mapping[str, str]
    readable_paths: tuple[str, ...] = ()
    writable_paths: tuple[str, ...] = ()
    added_directories: tuple[Path, ...] = ()
    """Directories that count as part of the workspace, resolved."""

    @property
    def home(self) -> Path | None:
        named = self.env.get("HOME", "")
        found = Path(os.path.realpath(named)) if named else None
        return None if found in (None, Path("/")) else found


_JOEY_TEMP_PREFIX = "joey-"


class SandboxBoundary:
    def __init__(self, config: SandboxConfig, *, reads_all: bool = False) -> None:
        """`reads_all`: the user's settings allow reading everywhere."""
        self.roots = (Path(os.path.realpath(config.workspace)), *config.added_directories)
        self._root_prefixes = [(root, f"{str(root).rstrip('/')}/") for root in self.roots]
        self._config = config
        self._can_read_all = reads_all
        self._temp_directory = _find_temp_directory(config)
        self._views: dict[str, PathView] | None = None
        self._views_expire_at = 0.0

    def get_access(self, path: Path) -> PathAccess:
        from joey.execution.sandbox.filesystem import VISIBLE_VIEWS, PathView  # loaded on need

        # Compared as text, since searches check each file: see `filesystem.find_view`.
        views, place, whole = self._get_views(), str(path), f"{path}/"
        while (view := views.get(place)) is None:
            place = place.rpartition("/")[0] or "/"
        is_seen = view in VISIBLE_VIEWS
        root = next((root for root, start in self._root_prefixes if whole.startswith(start)), None)
        in_temp = self._is_in_temp_directory(path)
        return PathAccess(
            base_directory=root or (self._temp_directory if in_temp else None),
            is_inside=is_seen and root is not None,
            can_read_without_approval=is_seen or self._can_read_all,
            can_write_without_approval=view is PathView.WRITE or in_temp,
        )

    def _get_views(self) -> dict[str, PathView]:
        from joey.execution.sandbox.filesystem import (
            SANDBOX_PROVIDED_DIRECTORIES,
            VIEW_CACHE_TTL_S,
            PathView,
            build_views,
        )

        if self._views is None or time.monotonic() > self._views_expire_at:
            found = {str(path): view for path, view in build_views(self._config).items()}
            self._views = dict.fromkeys(SANDBOX_PROVIDED_DIRECTORIES, PathView.HIDDEN) | found
            self._views_expire_at = time.monotonic() + VIEW_CACHE_TTL_S
        return self._views

    def _is_in_temp_directory(self, path: Path) -> bool:
        """Whether a path is in `$TMPDIR`, except joey's own files: they determine what is restored
        after a command."""
        temp = self._temp_directory
        if temp is None or temp not in path.parents:
            return False
        if path.is_relative_to(os.path.realpath(self._config.joey_home)):
            return False
        return not path.parts[len(temp.parts)].startswith(_JOEY_TEMP_PREFIX)


def _find_temp_directory(config: SandboxConfig) -> Path | None:
    """Return `$TMPDIR` of joey's own environment, unless it is missing or contains the home
    directory."""
    named = config.env.get("TMPDIR", "")
    if not named.startswith("/"):
        return None
    temp, home = Path(os.path.realpath(named)), config.home
    is_wide = temp == Path("/") or (home is not None and home.is_relative_to(temp))
    return temp if temp.is_dir() and not is_wide else None


_boundary_protocol_check: type[Boundary] = SandboxBoundary
