"""Ports of task storage: the task store, and the index that searches very many tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from joey.core.events import Record
from joey.core.settings import TaskSecrets


class TaskMetadata(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """`task_metadata.json`: what a list of tasks shows without opening them."""

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
        """The last record that survives this process."""

    @property
    def has_failed(self) -> bool:
        """Nothing can be written any more, so `safe_seq` stays as it is."""

    def set_change_callback(self, callback: Callable[[], None]) -> None:
        """Called from any thread when `safe_seq` or `has_failed` has changed."""

    async def confirm(self) -> None:
        """Return if the task is still held here. Raises TaskLostError, StoreError."""

    def append(self, record: Record) -> None:
        """Add one line to the journal; it survives the process once `safe_seq` is there."""

    async def sync(self) -> None:
        """Return when everything appended so far would survive a power cut."""

    def read_records(self) -> Sequence[Record]:
        """All that was ever appended, read anew."""

    async def write_snapshot(
        self, ui: Iterable[bytes], api: Iterable[bytes], metadata: TaskMetadata
    ) -> None:
        """Replace the two history files (JSON arrays of these elements) and the metadata. Iterators
        are used up in another thread."""

    def close(self) -> None:
        """Unlock and let go."""


class Store(Protocol):
    is_shared: bool
    """Other hosts use it too; it is reached over a network, so that every call may wait."""

    def create(self, task_id: str) -> TaskLog: ...

    def load_secrets(self, task_id: str) -> TaskSecrets | None:
        """What the task was given and its folder does not hold. It need not exist. Raises
        StoreError."""

    def save_secrets(self, task_id: str, secrets: TaskSecrets) -> None:
        """Keep them, outside the task's folder, until the task is deleted. Raises StoreError."""

    def create_with_records(self, task_id: str, records: Sequence[Record], source_id: str) -> None:
        """A new task with all these records at once, and with the secrets and command output of the
        one that they were taken from; whatever dies, there is the whole task or none. Nobody holds
        it. Raises StoreError."""

    def open(self, task_id: str) -> tuple[TaskLog, Sequence[Record]]:
        """Lock a task and read its journal; a folder without one is adopted. Raises
        TaskNotFoundError, TaskLockedError, StoreError."""

    def read_records(self, task_id: str) -> Sequence[Record]:
        """The records of a task, whoever holds it; nothing is locked or changed. Raises
        TaskNotFoundError, StoreError."""

    def read_rows_json(self, task_id: str, limit: int) -> bytes:
        """The UI history of the last snapshot, a JSON array; nothing when there is none, or when it
        is longer than `limit`. Raises TaskNotFoundError, StoreError."""

    def list_tasks(self) -> Sequence[TaskMetadata]:
        """All tasks, the most recently changed first."""

    def list_ids(self) -> Sequence[str]:
        """Of all tasks, as their folders say; nothing else is looked at."""

    def is_locked(self, task_id: str) -> bool:
        """Whether a living process has the task open. Raises TaskNotFoundError, StoreError."""

    def delete(self, task_id: str) -> None:
        """Remove a task for good. Raises TaskNotFoundError, TaskLockedError, StoreError."""


class SharedStore(Store, Protocol):
    """A store of many hosts: each process that uses it holds a lease, which others watch."""

    @property
    def process_id(self) -> str:
        """Names the lease of this process."""

    @property
    def lost_reason(self) -> str | None:
        """Why this process holds nothing any more; for good."""

    def join(self, width: int) -> None:
        """Take the lease, as a worker that drives so many items. From then on it lasts only while
        `report_alive` is called. Raises StoreError."""

    def report_alive(self) -> None:
        """The event loop of this process runs."""

    def check_lease(self) -> None:
        """Raises TaskLostError."""

    def remove_dead_processes(self) -> Sequence[str]:
        """Forget processes whose leases are over; which ones. Raises StoreError."""

    def close(self) -> None:
        """Commit what is left, and let go of everything."""


HIGHLIGHT_MARKS = ("\x02", "\x03")
"""Around each found word of a snippet."""

IndexProgressCallback = Callable[[int, int], None]
"""Told how many tasks of how many have been read into the index."""


class TaskQuery(Struct, frozen=True, kw_only=True):
    """Which tasks are wanted; what is None does not matter."""

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
    """Raises StoreError; every answer is brought up to date first."""

    @property
    def warnings(self) -> Sequence[str]:
        """What the user should be told: one line each."""

    def search(self, query: TaskQuery, *, refresh: bool = False) -> TaskPage:
        """One page. With `refresh` every folder is looked at, however recently that was done. Of
        `text` without a letter or a digit nothing is found."""

    def find_by_prefix(self, id_prefix: str) -> Sequence[TaskMetadata]:
        """Tasks whose id begins like this."""

    def list_descendants(self, task_id: str) -> Sequence[TaskMetadata]:
        """The subtasks of a task and theirs, the latest first."""

    def shorten_id(self, task_id: str) -> str:
        """The beginning of an id that means this task and no other."""

    def close(self) -> None: ...
