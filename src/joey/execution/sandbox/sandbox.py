"""The sandbox of one task's commands, at the best level that works on this machine.

Start reading at `LocalSandbox.confine`. The settings come from the user's session
(`SandboxConfig`); nothing in them comes from a model. The other modules of this package are loaded
when the first command is run or expected: a task without commands does without them.

`SandboxBoundary` tells file tools which directories they reach with `-y`: those that commands see,
and `$TMPDIR`. The sandbox's own file-system view decides, so that a tool never reads a file that a
command cannot. This also holds where no sandbox works, or where it is switched off for commands.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import shutil
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from joey.core.paths import PathAccess
from joey.core.protected_paths import is_protected
from joey.core.settings import Settings
from joey.errors import ToolError
from joey.ports import Boundary
from joey.ports.execution import Sandbox, SandboxLevel, SandboxReport

if TYPE_CHECKING:
    from joey.execution.sandbox.filesystem import FilesystemLayout, PathView
    from joey.execution.sandbox.forkserver_client import ForkServerManager
    from joey.execution.sandbox.network_proxy import HostProxy
    from joey.execution.sandbox.protected_files import ProtectedPaths
    from joey.execution.sandbox.protected_scan import ProtectedPathScanner, ScannedDirectory
    from joey.execution.sandbox.supervisor_client import (
        ControlGroup,
        SupervisorHandle,
        SupervisorTransport,
    )


log = logging.getLogger(__name__)

_MAX_ARGUMENT_BYTES = 128 * 1024
"""What the kernel takes as one argument."""
_CACHE_VARIABLES = {"npm_config_cache": "npm", "GOCACHE": "go-build", "UV_CACHE_DIR": "uv"}
"""Caches that tools cannot do without writing: they get one of the task's own."""
_BYTES_PER_MB = 1024**2
_TEMP_PREFIX = "joey-commands-"
CANARY_TEMP_PREFIX = "joey-canary-"
_OWN_WRITES_FILE = "written"
"""A list of what joey's own tools have written under protected names; commands do not see it."""
_STALE_TEMP_AGE_S = 24 * 3600


class SandboxBackend(Protocol):
    """One way of confining."""

    @property
    def level(self) -> SandboxLevel: ...

    @property
    def gaps(self) -> tuple[str, ...]: ...

    @property
    def is_dependable(self) -> bool:
        """Works where there is no obstacle; others may turn out not to."""
        ...

    def obstacle(self) -> str | None: ...

    def plan(
        self,
        layout: FilesystemLayout,
        protected_paths: ProtectedPaths,
        shell: Sequence[bytes],
        cwd: Path,
        network: str,
    ) -> dict[str, Any]: ...

    def environment(self, layout: FilesystemLayout) -> dict[str, str]: ...


class AvailableSandbox(Struct, frozen=True):
    """What works in this process, and how."""

    report: SandboxReport
    confinement: SandboxBackend | None


class SandboxProbe(Protocol):
    def expects_one(self) -> bool:
        """Whether something works, as far as that can be told without trying."""
        ...

    def find(self) -> AvailableSandbox:
        """Try, or remember; may take a while the first time."""
        ...


class LocalSandbox:
    def __init__(
        self, session: SandboxConfig, settings: Settings, prober: Callable[[], SandboxProbe]
    ) -> None:
        """`prober` is asked for when the first command comes."""
        self._session = session
        self._settings = settings
        self._prober = prober
        self._found: AvailableSandbox | None = None
        self._temp: Path | None = None
        self._has_temp = False
        self._group: ControlGroup | None = None
        self._known: FilesystemLayout | None = None
        self._known_until = 0.0
        self._looking = threading.Lock()
        self._survey: ProtectedPathScanner | None = None
        self._has_warned = False
        self._fork_server_manager: ForkServerManager | None = None
        self._readying: asyncio.Task[None] | None = None
        self._leading: set[asyncio.Task[SupervisorHandle]] = set()

    def expect(self) -> None:
        if self._readying is None or self._readying.done():
            self._readying = asyncio.get_running_loop().create_task(self._get_ready())

    async def _get_ready(self) -> None:
        """All that the first command would wait for."""
        try:
            found = await self._find()
        except OSError as error:
            log.info("the sandbox could not be tried beforehand: %s", error)
            return  # The first command tells.
        if found.confinement is not None:
            self._keepers().prepare()
            await asyncio.to_thread(self._look_around)

    async def probe(self) -> SandboxReport:
        return (await self._find()).report

    async def confine(
        self, shell: Sequence[str], cwd: Path, env: Mapping[str, str]
    ) -> SupervisorHandle | None:
        found = await self._find()
        if found.confinement is None:
            if self._settings.sandbox == "required":
                raise ToolError(f"Commands may run in a sandbox only. {why_none(found.report)}")
            return None
        fork_server, proxy = self._keepers(), self._proxy()
        fork_server.begin()
        led = asyncio.to_thread(
            self.lead, found.confinement, shell, cwd, env, fork_server.start, proxy
        )
        leading = asyncio.get_running_loop().create_task(led)
        self._leading.add(leading)
        leading.add_done_callback(self._have_led)
        return await asyncio.shield(leading)

    def _have_led(self, leading: asyncio.Task[SupervisorHandle]) -> None:
        self._leading.discard(leading)
        if not leading.cancelled():
            leading.exception()  # who was cancelled meanwhile does not ask

    def lead(
        self,
        confinement: SandboxBackend,
        shell: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        begin: Callable[[dict[str, Any]], Awaitable[SupervisorTransport]],
        proxy: HostProxy | None = None,
    ) -> SupervisorHandle:
        """How to start `shell` with this confinement, by a keeper that waits."""
        # A task that runs no command does without these.
        from joey.execution.sandbox.filesystem import PathView, find_visible_protected_paths
        from joey.execution.sandbox.supervisor_client import SupervisorHandle, failed

        layout = self._layout()
        try:
            self._make_temp(layout.temp)
        except OSError as error:
            raise failed(f"{layout.temp}: {error.strerror}") from error
        where = Path(os.path.realpath(cwd))
        if not where.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(cwd))
        if layout.view_of(where) in (PathView.HIDDEN, PathView.PRIVATE):
            raise ToolError(
                f"{cwd} is outside of what the sandbox shows to commands. Work in the workspace,"
                " or ask the user to name the folder in sandboxReadable or sandboxWritable."
            )
        network = "hosts" if proxy is not None else str(self._settings.sandbox_network)
        protected_paths = find_visible_protected_paths(
            self._session, layout, self._scan_and_warn(layout.workspace)
        )
        plan = confinement.plan(layout, protected_paths, _encoded(shell), where, network)
        plan |= {
            "workspace": str(layout.workspace),
            "folders": protected_paths.scanned_directories,
            "left_out": list(protected_paths.left_out),
            "written": str(layout.temp / _OWN_WRITES_FILE),
            "aside": str(self._session.joey_home / "put-aside" / str(time.time_ns())),
            "processes": max(self._settings.sandbox_max_processes, 0),
            "limits": _limits(self._settings),
        }
        caches = {name: f"/{place}" for name, place in _CACHE_VARIABLES.items() if name not in env}
        given = confinement.environment(layout)
        added = given | {name: given["TMPDIR"] + place for name, place in caches.items()}
        plan["env"] = {**env, **added, **(proxy.environment if proxy is not None else {})}
        return SupervisorHandle(plan, begin, proxy)

    def spare(self, path: Path) -> None:
        if not self._has_temp or not is_protected(str(path)):
            return
        assert self._temp is not None
        found = path.lstat()
        with (self._temp / _OWN_WRITES_FILE).open("a", encoding="ascii") as record:
            record.write(f"{found.st_ino} {found.st_ctime_ns}\n")

    async def close(self) -> None:
        if self._readying is not None:
            self._readying.cancel()
            await asyncio.wait((self._readying,))
        fork_server, self._fork_server_manager = (
            self._fork_server_manager,
            None,
        )  # a task that goes on needs new ones
        if fork_server is not None:
            await fork_server.close()
        if self._leading:
            await asyncio.wait(self._leading)  # a thread goes on when nobody waits for it any more
        if self._has_temp or self._group is not None:
            await asyncio.to_thread(self.tidy_up)

    def tidy_up(self) -> None:
        """Remove what belongs to the task."""
        if self._has_temp and self._temp is not None:
            shutil.rmtree(self._temp, ignore_errors=True)
            self._has_temp = False
        if self._group is not None:
            self._group.close()
            self._group = None

    async def _find(self) -> AvailableSandbox:
        if self._found is None:
            self._found = await asyncio.to_thread(lambda: self._prober().find())
        return self._found

    def _counted(self) -> ControlGroup | None:
        """The group of the task's processes, where the kernel would not count them otherwise."""
        from joey.execution.sandbox.supervisor_client import make_group

        if self._group is None and self._settings.sandbox_max_processes > 0:
            self._group = make_group(self._settings.sandbox_max_processes)
        return self._group

    def _keepers(self) -> ForkServerManager:
        from joey.execution.sandbox.forkserver_client import ForkServerManager

        if self._fork_server_manager is None:
            self._fork_server_manager = ForkServerManager(self._counted)
        return self._fork_server_manager

    def _proxy(self) -> HostProxy | None:
        """Who answers commands that may reach some hosts."""
        hosts = self._settings.sandbox_network
        if isinstance(hosts, str):
            return None
        from joey.execution.sandbox.network_proxy import make_proxy

        return make_proxy(hosts, self._session.env)

    def _look_around(self) -> None:
        """The first looks take longest."""
        from joey.execution.sandbox import filesystem, supervisor_client

        assert filesystem and supervisor_client  # loaded
        self._surveyed(Path(os.path.realpath(self._session.workspace)))
        self._layout()

    def _surveyed(self, workspace: Path) -> dict[str, ScannedDirectory]:
        from joey.execution.sandbox.protected_scan import ProtectedPathScanner

        with self._looking:
            if self._survey is None:
                self._survey = ProtectedPathScanner(str(workspace))
            return self._survey.look()

    def _scan_and_warn(self, workspace: Path) -> dict[str, ScannedDirectory]:
        from joey.execution.sandbox.protected_scan import MAX_SCANNED_DIRECTORIES

        found = self._surveyed(workspace)
        assert self._survey is not None
        if not self._survey.is_complete and not self._has_warned:
            self._has_warned = True
            log.warning(
                "the workspace has more than %d folders: protected names in those that lie"
                " deepest are not held against commands",
                MAX_SCANNED_DIRECTORIES,
            )
        return found

    def _layout(self) -> FilesystemLayout:
        from joey.execution.sandbox.filesystem import VIEW_CACHE_TTL_S, make_layout

        with self._looking:
            if self._known is None or time.monotonic() > self._known_until:
                self._known = make_layout(self._session, self._place())
                self._known_until = time.monotonic() + VIEW_CACHE_TTL_S
            return self._known

    def _place(self) -> Path:
        """Where the folder will be that belongs to the task."""
        if self._temp is None:
            directory = os.path.realpath(tempfile.gettempdir())
            self._temp = Path(directory, f"{_TEMP_PREFIX}{os.getpid()}-{token_hex(8)}")
        return self._temp

    def _make_temp(self, place: Path) -> None:
        """It holds what is put in place of others' folders."""
        with self._looking:
            if not self._has_temp:
                _sweep(place.parent)
                try:
                    for each in (place, place / "tmp", place / "home"):
                        each.mkdir(mode=0o700)
                except OSError:
                    shutil.rmtree(place, ignore_errors=True)
                    raise
                self._has_temp = True


def _sweep(directory: Path) -> None:
    """Remove what processes that were killed long ago have left."""
    left = (directory.glob(f"{prefix}[0-9]*-*") for prefix in (_TEMP_PREFIX, CANARY_TEMP_PREFIX))
    for each in chain.from_iterable(left):
        try:
            found = each.lstat()
        except OSError:
            continue  # Somebody else sweeps too.
        owner = each.name.split("-")[2]
        is_old = time.time() - found.st_mtime > _STALE_TEMP_AGE_S
        if is_old and found.st_uid == os.getuid() and not Path("/proc", owner).exists():
            shutil.rmtree(each, ignore_errors=True)


def why_none(report: SandboxReport) -> str:
    """Why nothing works, in one or two sentences."""
    reasons = "; ".join(f"{level}: {reason}" for level, reason in report.reasons.items())
    return f"No sandbox works on this machine ({reasons})."


def _encoded(shell: Sequence[str]) -> list[bytes]:
    """Raises OSError or ValueError, as starting a process would."""
    encoded = [os.fsencode(each) for each in shell]
    if any(b"\0" in each for each in encoded):
        raise ValueError("embedded null byte")
    if any(len(each) >= _MAX_ARGUMENT_BYTES for each in encoded):
        raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
    return encoded


def _limits(settings: Settings) -> list[tuple[int, int]]:
    found = {
        resource.RLIMIT_CPU: settings.sandbox_max_cpu_seconds,
        resource.RLIMIT_DATA: settings.sandbox_max_memory_mb * _BYTES_PER_MB,
        resource.RLIMIT_FSIZE: settings.sandbox_max_file_mb * _BYTES_PER_MB,
    }
    return [(resource.RLIMIT_CORE, 0), *((kind, most) for kind, most in found.items() if most > 0)]


_fits: type[Sandbox] = LocalSandbox


class SandboxConfig(Struct, frozen=True):
    """What a person's session says about a task's commands; nothing in it comes from a model."""

    workspace: Path
    joey_home: Path
    env: Mapping[str, str]
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    added: tuple[Path, ...] = ()
    """Directories that count as part of the workspace, resolved."""

    @property
    def home(self) -> Path | None:
        named = self.env.get("HOME", "")
        found = Path(os.path.realpath(named)) if named else None
        return None if found in (None, Path("/")) else found


_JOEY_TEMP_PREFIX = "joey-"
"""How the names of joey's own temporary directories begin."""


class SandboxBoundary:
    def __init__(self, session: SandboxConfig, *, reads_all: bool = False) -> None:
        """`reads_all`: the user's settings allow reading everywhere."""
        self.roots = (Path(os.path.realpath(session.workspace)), *session.added)
        self._starts = [(root, f"{str(root).rstrip('/')}/") for root in self.roots]
        self._session = session
        self._reads_all = reads_all
        self._temp = _temporary_directory(session)
        self._views: dict[str, PathView] | None = None
        self._views_expire = 0.0

    def get_access(self, path: Path) -> PathAccess:
        from joey.execution.sandbox.filesystem import VISIBLE_VIEWS, PathView  # loaded on need

        # By text, since searches ask this of each file: see `filesystem.view_at`.
        views, place = self._current_views(), str(path)
        while (view := views.get(place)) is None:
            place = place.rpartition("/")[0] or "/"
        is_seen = view in VISIBLE_VIEWS
        whole = f"{path}/"
        root = next((root for root, start in self._starts if whole.startswith(start)), None)
        in_temp = self._is_temporary(path)
        return PathAccess(
            base_directory=root or (self._temp if in_temp else None),
            is_inside=is_seen and root is not None,
            is_readable=is_seen or self._reads_all,
            is_writable=view is PathView.WRITE or in_temp,
        )

    def _current_views(self) -> dict[str, PathView]:
        from joey.execution.sandbox.filesystem import (
            SANDBOX_PROVIDED_DIRECTORIES,
            VIEW_CACHE_TTL_S,
            PathView,
            find_views,
        )

        if self._views is None or time.monotonic() > self._views_expire:
            found = {str(path): view for path, view in find_views(self._session).items()}
            self._views = dict.fromkeys(SANDBOX_PROVIDED_DIRECTORIES, PathView.HIDDEN) | found
            self._views_expire = time.monotonic() + VIEW_CACHE_TTL_S
        return self._views

    def _is_temporary(self, path: Path) -> bool:
        """In `$TMPDIR`, except joey's own files: they decide what is put back after a command."""
        temp = self._temp
        if temp is None or temp not in path.parents:
            return False
        if path.is_relative_to(os.path.realpath(self._session.joey_home)):
            return False
        return not path.parts[len(temp.parts)].startswith(_JOEY_TEMP_PREFIX)


def _temporary_directory(session: SandboxConfig) -> Path | None:
    """`$TMPDIR` of joey's own environment, unless it is missing or contains the home."""
    named = session.env.get("TMPDIR", "")
    if not named.startswith("/"):
        return None
    temp, home = Path(os.path.realpath(named)), session.home
    is_wide = temp == Path("/") or (home is not None and home.is_relative_to(temp))
    return temp if temp.is_dir() and not is_wide else None


_fits_boundary: type[Boundary] = SandboxBoundary
