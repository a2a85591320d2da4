"""The machine as a task sees it: its time, system facts, and the initial workspace listing."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

from joey.errors import ToolError, WorkspaceError
from joey.ports.workspace import Clock, Environment, Files, Listing, Search

_LOCALTIME_PATH = Path("/etc/localtime")
_ZONEINFO_PATH_SEGMENT = "zoneinfo/"


class LocalEnvironment:
    """This machine, and the workspace that `files` is rooted in."""

    def __init__(self, files: Files, search: Search) -> None:
        self._files = files
        self._search = search
        self._prewarmed_listing: tuple[int, asyncio.Task[Listing]] | None = None

    def get_system_info(self) -> Mapping[str, str]:
        system = os.uname()
        name = "macOS (Darwin)" if system.sysname == "Darwin" else system.sysname
        return {
            "os": f"{name} {system.release}",
            "shell": "bash",
            "home": str(Path.home()),
            "workspace": str(self._files.root),
        }

    def get_time_zone(self) -> str:
        return format_time_zone(datetime.now().astimezone())

    def prewarm_listing(self, limit: int) -> None:
        listing = asyncio.get_running_loop().create_task(self._list_workspace(limit))
        # If the result is not needed, its failure does not matter.
        listing.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._prewarmed_listing = (limit, listing)

    async def list_workspace(self, limit: int) -> Listing:
        """List the relevant files of the workspace, at most `limit` entries. Raises WorkspaceError
        if the directory cannot be listed."""
        if self._prewarmed_listing is not None and self._prewarmed_listing[0] == limit:
            (_, listing), self._prewarmed_listing = self._prewarmed_listing, None
            return await listing
        return await self._list_workspace(limit)

    async def close(self) -> None:
        if self._prewarmed_listing is not None:
            _, listing = self._prewarmed_listing
            listing.cancel()
            await asyncio.wait((listing,))

    async def _list_workspace(self, limit: int) -> Listing:
        if limit <= 0:
            return Listing(entries=())
        try:
            return await self._search.list_directory(self._files.resolve("."), True, limit)
        except ToolError as error:
            root = self._files.root
            raise WorkspaceError(f"cannot list the workspace {root}: {error}") from error


def format_time_zone(now: datetime) -> str:
    """Format a time zone such as `Europe/Berlin, UTC+2:00`: its name, and its offset at `now`."""
    name = os.environ.get("TZ", "").lstrip(":") or _read_localtime_zone() or now.tzname() or "UTC"
    minutes = int((now.utcoffset() or timedelta()).total_seconds()) // 60
    return f"{name}, UTC{'-' if minutes < 0 else '+'}{abs(minutes) // 60}:{abs(minutes) % 60:02}"


def _read_localtime_zone() -> str:
    """Return the system's time zone, if `/etc/localtime` links to its file."""
    if not _LOCALTIME_PATH.is_symlink():
        return ""
    return str(_LOCALTIME_PATH.readlink()).partition(_ZONEINFO_PATH_SEGMENT)[2]


_protocol_check: type[Environment] = LocalEnvironment


class SystemClock:
    def now(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


_clock_protocol_check: type[Clock] = SystemClock
