"""Ports of task storage: the task store, and the index that searches large numbers of tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from joey.core.events import Record
from joey.core.settings import TaskSecrets


class TaskMetadata(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """`task_metadata.json`: the data for a list of tasks without opening them."""

    id: str
    title: str = ""
    workspace: str = ""
    mode: str = ""
    tool_protocol: str = field(default="", name="protocol")
    profile: str = "default"
    provider: str = ""
    base_url: str | None = None
    model: str = ""
    has_own_key: bool = field(default=False, name="ownKey")
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
    snapshot_seq: int = field(default=0, name="seq")
    """Last journal record that the snapshot files include."""
    files_in_context: tuple[dict[str, object], ...] = ()


class TaskLog(Protocol):
    """One task, open and held by this process."""

    directory: Path
    """For the output of its commands, on this host."""
    is_shared: bool
    """Processes on other hosts can take the task over: `confirm` has something to ask, and
    `safe_seq` may be behind."""

    @property
    def safe_seq(self) -> int:
        """The number of the last record that would survive this process."""

    @property
    def has_failed(self) -> bool:
        """Whether writing has failed for good, so that `safe_seq` stays unchanged."""

    def set_change_callback(self, callback: Callable[[], None]) -> None:
        """Set a callback that is called from any thread when `safe_seq` or `has_failed` has
        changed."""

    async def confirm(self) -> None:
        """Confirm that the task is still held here. Raises TaskLostError, StoreError."""

    def append(self, record: Record) -> None:
        """Append one line to the journal; it survives the process once `safe_seq` has reached
        it."""

    async def sync(self) -> None:
        """Return when everything appended so far would survive a power cut."""

    def read_records(self) -> Sequence[Record]:
        """Read all records ever appended from storage."""

    async def write_snapshot(
        self, ui: Iterable[bytes], api: Iterable[bytes], metadata: TaskMetadata
    ) -> None:
        """Replace the two history files (JSON arrays of these elements) and the metadata. Iterators
        are consumed in another thread."""

    def close(self) -> None:
        """Unlock and release the task."""


class Store(Protocol):
    is_shared: bool
    """Other hosts use it too; it is reached over a network, so that every call may wait."""

    def create(self, task_id: str) -> TaskLog: ...

    def load_secrets(self, task_id: str) -> TaskSecrets | None:
        """Load secrets that were given to the task and are not in its directory. The task need not
        exist. Raises StoreError."""

    def save_secrets(self, task_id: str, secrets: TaskSecrets) -> None:
        """Save secrets outside the task's directory until the task is deleted. Raises
        StoreError."""

    def create_with_records(self, task_id: str, records: Sequence[Record], source_id: str) -> None:
        """Create a task with all these records at once, and with the secrets and command output of
        the source task; after a crash, there is the whole task or none. No process holds it. Raises
        StoreError."""

    def open(self, task_id: str) -> tuple[TaskLog, Sequence[Record]]:
        """Lock a task and read its journal; a directory without one is adopted. Raises
        TaskNotFoundError, TaskLockedError, StoreError."""

    def read_records(self, task_id: str) -> Sequence[Record]:
        """Read the records of a task, even if another process holds it; nothing is locked or
        changed. Raises TaskNotFoundError, StoreError."""

    def read_rows_json(self, task_id: str, limit: int) -> bytes:
        """Read the UI history of the last snapshot as a JSON array; empty if there is none, or it
        is longer than `limit`. Raises TaskNotFoundError, StoreError."""

    def list_tasks(self) -> Sequence[TaskMetadata]:
        """List all tasks, the most recently changed first."""

    def list_ids(self) -> Sequence[str]:
        """List all task ids from the names of the directories only."""

    def is_locked(self, task_id: str) -> bool:
        """Whether a living process has the task open. Raises TaskNotFoundError, StoreError."""

    def delete(self, task_id: str) -> None:
        """Delete a task permanently. Raises TaskNotFoundError, TaskLockedError, StoreError."""


class SharedStore(Store, Protocol):
    """A store shared by many hosts: each process that uses it holds a lease, which others watch."""

    @property
    def process_id(self) -> str:
        """Identifies the lease of this process."""

    @property
    def lost_reason(self) -> str | None:
        """Why this process has lost everything it held, permanently."""

    def join(self, width: int) -> None:
        """Take the lease as a worker with this many slots. From then on it lasts only while
        `report_alive` is called. Raises StoreError."""

    def report_alive(self) -> None:
        """Report that the event loop of this process runs."""

    def check_lease(self) -> None:
        """Raises TaskLostError."""

    def remove_dead_processes(self) -> Sequence[str]:
        """Remove processes whose leases have expired; return their ids. Raises StoreError."""

    def close(self) -> None:
        """Commit pending writes, and release everything."""


HIGHLIGHT_MARKS = ("\x02", "\x03")
"""Around each found word of a snippet."""

IndexProgressCallback = Callable[[int, int], None]
"""Told how many tasks of how many have been read into the index."""


class TaskQuery(Struct, frozen=True, kw_only=True):
    """Which tasks to return; fields that are None do not matter."""

    text: str | None = None
    """All of them occur: words, "phrases in quotes", beginn* of words."""
    workspace: str | None = None
    status: str | None = None
    """As people are shown it: a task that no process has open is not `running`."""
    updated_since: int | None = None
    """Changed at or after this time, in milliseconds since 1970."""
    limit: int = 20


class FoundTask(Struct, frozen=True):
    task: TaskMetadata
    short_id: str
    """The beginning of its id that means this task and no other."""
    snippet: str = ""
    """Some words of the conversation, those that were searched within `HIGHLIGHT_MARKS`."""


class TaskPage(Struct, frozen=True):
    matches: tuple[FoundTask, ...]
    """The most recently changed first."""
    total: int
    """How many there are in all."""


class TaskIndex(Protocol):
    """Searches tasks. Every answer is brought up to date first. All methods raise StoreError."""

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings for the user, one line each."""

    def search(self, query: TaskQuery, *, refresh: bool = False) -> TaskPage:
        """Return one page. With `refresh` every directory is checked, however recently that was
        done. A `text` without letters or digits matches nothing."""

    def find_by_prefix(self, id_prefix: str) -> Sequence[TaskMetadata]:
        """Find tasks by the beginning of their id."""

    def list_descendants(self, task_id: str) -> Sequence[TaskMetadata]:
        """List the subtasks of a task and theirs, the latest first."""

    def shorten_id(self, task_id: str) -> str:
        """Return a short unique beginning of an id."""

    def close(self) -> None: ...
