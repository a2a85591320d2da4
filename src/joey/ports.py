"""What the engine and the tools need from the world. Adapters live beside the engine, not under it.

Each port is small and is proven to fit by a static line in its adapter
(``_fits: type[Files] = LocalFiles``).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from joey.core.chunks import Chunk
from joey.core.events import Record
from joey.core.models import ModelInfo, ModelRequest
from joey.core.modes import Mode
from joey.core.places import Place as Place  # noqa: PLC0414 (a name of this module too)
from joey.core.protocol import ToolProtocol
from joey.core.settings import Settings
from joey.core.todos import Todo

# The model ------------------------------------------------------------------------------------


class Provider(Protocol):
    @property
    def model(self) -> ModelInfo: ...

    @property
    def api_protocol(self) -> str:
        """`anthropic` or `openai`: how clients of the history name the wire."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """An async generator; closing it closes the request's socket.

        Raises:
            ProviderError: the service failed, before or in the middle of the stream.
        """
        ...

    async def close(self) -> None:
        """Let go of idle connections."""
        ...


# Time -----------------------------------------------------------------------------------------


class Clock(Protocol):
    def now(self) -> int:
        """Milliseconds since 1970."""
        ...

    async def sleep(self, seconds: float) -> None: ...


# Files ----------------------------------------------------------------------------------------


class Files(Protocol):
    root: Path

    def resolve(self, path: str) -> Place: ...

    async def read(self, place: Place, limit: int | None = None, offset: int = 0) -> bytes:
        """The bytes of a regular file from `offset` on, at most `limit` of them.

        Raises:
            ToolError: missing, a directory, special, or not readable; the text says which.
        """
        ...

    async def stat(self, place: Place) -> FileKind: ...

    async def write(self, place: Place, data: bytes) -> None:
        """Replace the file atomically, keeping its mode; parents are made."""
        ...


class FileKind(Struct, frozen=True):
    exists: bool
    is_file: bool = False
    is_dir: bool = False
    size: int = 0


class SearchHit(Struct, frozen=True):
    path: str
    """Relative to the workspace, with `/`."""
    lines: tuple[tuple[int, str, bool], ...]
    """(number, text, matched) in order; one hit is one run of adjacent lines."""


class SearchResult(Struct, frozen=True):
    hits: tuple[SearchHit, ...]
    truncated: bool = False


class Listing(Struct, frozen=True):
    entries: tuple[str, ...]
    """Relative to the listed folder, folders end with `/`."""
    truncated: bool = False


class Search(Protocol):
    async def grep(
        self, place: Place, regex: str, file_pattern: str | None, limit: int
    ) -> SearchResult:
        """Raises ToolError when the expression is not one."""
        ...

    async def list(self, place: Place, recursive: bool, limit: int) -> Listing: ...


# Commands -------------------------------------------------------------------------------------


class CommandEnd(Struct, frozen=True):
    exit_code: int | None
    signal: str | None = None
    left_running: bool = False
    """The shell has ended, but processes that it put in the background have not."""


class RunningCommand(Protocol):
    """A process group of our own. Output is collected whether or not anybody looks."""

    pid: int
    command: str
    cwd: Path

    @property
    def end(self) -> CommandEnd | None: ...

    @property
    def total_bytes(self) -> int: ...

    def preview(self, budget: int) -> str:
        """Decoded output within `budget` bytes: all of it, or head and tail around a note."""
        ...

    def take_new(self) -> str:
        """Output since the last call (for environment details), bounded."""
        ...

    async def wait(self, patience: float | None = None) -> CommandEnd | None:
        """The end, or None when `patience` seconds passed first (it keeps running)."""
        ...

    async def kill(self) -> CommandEnd:
        """SIGTERM to the group, SIGKILL to whatever is left, and reap it."""
        ...


class Terminal(Protocol):
    async def start(
        self,
        command: str,
        cwd: Path,
        artifact: Path | None,
        on_output: Callable[[str], None] | None = None,
    ) -> RunningCommand:
        """Run `command` with bash, stdin closed, both outputs merged.

        `artifact` receives every byte of the output. `on_output` gets decoded text as it comes.
        """
        ...

    @property
    def running(self) -> Sequence[RunningCommand]:
        """Commands of this task that were left in the background, finished or not."""
        ...

    async def close(self) -> None:
        """Kill everything that is still running."""
        ...


# What a tool may touch ------------------------------------------------------------------------


class ToolContext(Struct, frozen=True):
    """All a tool gets. Nothing of the engine, nothing of other tasks."""

    files: Files
    search: Search
    terminal: Terminal
    settings: Settings
    protocol: ToolProtocol
    model: ModelInfo
    modes: tuple[Mode, ...]
    mode: Mode
    todos: tuple[Todo, ...]
    artifacts: Path
    """The task's folder for command output (`command-output/`)."""
    call_id: str
    row_ts: int
    """The row that shows this call; names its command output."""
    output_ts: int
    """The row that shows a command's output while it comes."""
    on_output: Callable[[str], None]
    """Live output of a command."""


# Keeping tasks --------------------------------------------------------------------------------


class TaskMetadata(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """`task_metadata.json`: what a list of tasks shows without opening them."""

    id: str
    title: str = ""
    workspace: str = ""
    mode: str = ""
    protocol: str = ""
    profile: str = "default"
    provider: str = ""
    base_url: str | None = None
    model: str = ""
    parent_id: str | None = None
    child_ids: tuple[str, ...] = ()
    status: str = "created"
    created: int = 0
    updated: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cache_writes: int = 0
    cache_reads: int = 0
    total_cost: float = 0.0
    seq: int = 0
    """Last journal record that the snapshot files include."""
    files_in_context: tuple[dict[str, object], ...] = ()


class TaskLog(Protocol):
    """The open, locked folder of one task."""

    folder: Path

    def append(self, record: Record) -> None:
        """Write one line to the journal; it survives the process from here on."""
        ...

    async def sync(self) -> None:
        """Return when everything appended so far would survive a power cut."""
        ...

    async def snapshot(
        self, ui: Sequence[bytes], api: Sequence[bytes], metadata: TaskMetadata
    ) -> None:
        """Replace the two history files (JSON arrays of these elements) and the metadata."""
        ...

    def close(self) -> None:
        """Unlock and let go."""
        ...


class Store(Protocol):
    def create(self, task_id: str) -> TaskLog: ...

    def open(self, task_id: str) -> tuple[TaskLog, Sequence[Record]]:
        """Lock a task and read its journal; a folder without one is adopted.

        Raises:
            TaskNotFoundError, TaskLockedError, StoreError
        """
        ...

    def read(self, task_id: str) -> Sequence[Record]:
        """The records of a task, whoever holds it; nothing is locked or changed.

        Raises:
            TaskNotFoundError, StoreError
        """
        ...

    def list(self) -> Sequence[TaskMetadata]:
        """All tasks, the most recently changed first."""
        ...

    def is_held(self, task_id: str) -> bool:
        """Whether a living process has the task open.

        Raises:
            TaskNotFoundError, StoreError
        """
        ...

    def delete(self, task_id: str) -> None:
        """Remove a task for good.

        Raises:
            TaskNotFoundError, TaskLockedError, StoreError
        """
        ...


class Environment(Protocol):
    """What is told to the model about the machine and the workspace."""

    def system_facts(self) -> Mapping[str, str]:
        """`os`, `shell`, `home`, `workspace`."""
        ...

    def time_zone(self) -> str:
        """`Europe/Berlin, UTC+2:00`."""
        ...

    async def workspace_listing(self, limit: int) -> Listing: ...
