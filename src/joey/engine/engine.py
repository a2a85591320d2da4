"""The engine: tasks started, resumed, forked, listed and closed in one process.

Tasks share nothing but code. A fork is a new task whose journal holds the records of the source's
live branch up to a row, renumbered after a first record of its own and closed by `TaskForked`.
Records that only concern the source are left out: its rewinds, subtasks and queued messages. The
journal of a fork is written completely or not at all (see `Store.create_with_records`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, structs

from joey.core import events as ev
from joey.core.history.branch import find_cut_point, find_live_branch
from joey.core.history.state import TaskProjection
from joey.core.messages import replace_lone_surrogates
from joey.core.models import ToolProtocol, choose_tool_protocol
from joey.core.modes import choose_fallback_mode
from joey.core.path_access import FileScope
from joey.core.permissions.hosts import NetworkOrigin
from joey.core.settings import Limits, ModelRoute, Profile, Settings, TaskSecrets
from joey.core.structured_output import JsonSchema
from joey.core.task_types import TaskState
from joey.engine.approval import TaskGrants
from joey.engine.asks import AnswerPolicy
from joey.engine.checkpoints import resume_interrupted_restore
from joey.engine.protocol import (
    apply_named_protocol,
    forget_refusal_if_native,
    has_native_tools,
)
from joey.engine.run_start import RunStart
from joey.engine.runtime import TaskRuntime, generate_task_id
from joey.engine.subtasks import Subtasks
from joey.engine.task import Task
from joey.errors import StoreError, TaskNotFoundError, TaskStateError, UserError
from joey.ports.extensions import FrontEndResources
from joey.ports.model import Provider, RequestGate
from joey.ports.storage import Store, TaskMetadata
from joey.ports.workspace import Clock

T = TypeVar("T")


class TaskOptions(Struct, frozen=True, kw_only=True):
    """Options of one task; settings decide about those left out."""

    workspace: Path | None = None
    profile: Profile | None = None
    settings: Settings | None = None
    mode: str | None = None
    protocol: ToolProtocol | None = None
    limits: Limits = Limits()
    policy: AnswerPolicy | None = None
    """Answers in place of a user; None waits for one."""
    system_prompt: str | None = None
    route: ModelRoute | None = None
    """What the task remembers of the profile."""
    secrets: TaskSecrets | None = None
    """What is remembered of it, and of the configuration, outside the task's folder."""
    configuration: dict[str, Any] = {}
    """Settings given to this task alone, by their names in the files; stored with the task."""
    grants: TaskGrants | None = None
    """Rules that the user has added in this task already; subtasks share them."""
    file_scope: FileScope = FileScope()
    """How far file tools reach without asking; subtasks have it too."""
    network_origin: NetworkOrigin | None = None
    """Where `sandboxNetwork` of the settings comes from; None: from whoever made them."""
    restrict_settings: Callable[[Settings], Settings] | None = None
    """What the project makes stricter, also of what answers add."""
    trust_root: Path | None = None
    """The workspace that this one is a worktree of, and whose trust counts here too."""
    result_schema: JsonSchema | None = None
    """The result must be JSON that fits; those of subtasks need not."""
    front_end_resources: FrontEndResources = FrontEndResources()
    request_gate: RequestGate | None = None


class ResolvedTaskOptions(TaskOptions, frozen=True, kw_only=True):
    """Complete options: directory, model and settings are chosen."""

    workspace: Path
    profile: Profile
    settings: Settings
    route: ModelRoute


class StoredTaskState(Struct, frozen=True, kw_only=True):
    """What a task remembers of itself, used if the options are silent. Empty for a new task."""

    workspace: Path | None = None
    """Where it worked, by its folder."""
    route: ModelRoute | None = None
    """The model that it worked with; of a new subtask, that of the task above it."""
    secrets: TaskSecrets | None = None
    """Those of the options included."""
    configuration: dict[str, Any] = {}
    """Settings that were given to it alone, and that the options do not name."""


RuntimeFactory = Callable[[TaskOptions, StoredTaskState], TaskRuntime]


class Engine:
    """Runs tasks. Open it with `joey.open_engine`; close it, or use it as an async context
    manager."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        build_runtime: RuntimeFactory,
        close_shared: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`close_shared` closes what the runtimes share, after all tasks are closed."""
        self.store = store
        self._close_shared = close_shared
        self._clock = clock
        self._build_runtime = build_runtime
        self._tasks: dict[str, Task] = {}
        self._closing_jobs: set[asyncio.Task[None]] = set()
        """Tasks that are being let go of, by their ids."""
        self.on_subtask_opened: Callable[[Task], None] | None = None
        """Told of every subtask that a task opens, before it is set to work."""

    async def start(
        self,
        text: str,
        *,
        images: tuple[str, ...] = (),
        options: TaskOptions | None = None,
        task_id: str | None = None,
    ) -> Task:
        """Start a task. It is on disk when this returns."""
        task_id = task_id or generate_task_id(self._clock.now())
        task = await self._create_task(task_id, options or TaskOptions())
        task.publish(
            ev.UserMessage(
                ts=task.next_ts(), text=replace_lone_surrogates(text), images=images, is_first=True
            )
        )
        # Its first request describes the workspace, which can be read while the disk is busy.
        task.runtime.environment.prewarm_listing(task.runtime.settings.max_workspace_files)
        await task.recorder.commit()
        task.start(RunStart.NEW)
        return task

    async def _create_task(
        self, task_id: str, options: TaskOptions, parent: Task | None = None
    ) -> Task:
        """Create a task with a name, a directory and a mode, but nothing to do yet."""
        route = parent.recorder.projection.route if parent is not None else None
        runtime = self._build_runtime(options, StoredTaskState(route=route))
        try:
            return await self._create_with_runtime(runtime, task_id, options, parent)
        except BaseException:
            await runtime.close()
            raise

    async def _call_store(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call the store, in a thread if it is reached over a network."""
        if self.store.is_shared:
            return await asyncio.to_thread(function, *arguments)
        return function(*arguments)

    async def _create_with_runtime(
        self, runtime: TaskRuntime, task_id: str, options: TaskOptions, parent: Task | None
    ) -> Task:
        first_mode = choose_fallback_mode(options.mode or runtime.settings.mode, runtime.modes)
        protocol = _choose_protocol(
            runtime, runtime.select_provider(first_mode), options.protocol, parent
        )
        subtasks = Subtasks(self, options)
        journal = await self._call_store(self.store.create, task_id)
        try:
            if (secrets := _extract_secrets(options)) is not None:
                self.store.save_secrets(task_id, secrets)
        except BaseException:
            journal.close()
            raise
        task = Task(journal, (), runtime, subtasks, options.policy, options.grants)
        self._tasks[task_id] = task
        lineage: dict[str, Any] = {}
        if parent is not None:
            above = parent.recorder.projection
            root_id = above.root_id or above.task_id
            lineage = {"parent_id": above.task_id, "root_id": root_id, "depth": above.depth + 1}
        task.publish(
            ev.TaskCreated(
                ts=task.next_ts(),
                task_id=task_id,
                workspace=str(runtime.workspace),
                mode=options.mode or runtime.settings.mode,
                tool_protocol=protocol,
                profile=options.profile.name if options.profile is not None else "default",
                model=runtime.provider.model.id,
                **lineage,
                configuration=options.configuration or None,
                is_protocol_named=options.protocol is not None,
            )
        )
        return task

    async def open_subtask(
        self, parent: Task, options: TaskOptions, spawned: ev.SubtaskSpawned, workspace: Path
    ) -> Task:
        """Open a subtask in its current state; create it, or complete an interrupted creation, if
        needed. Raises UserError."""
        await self._wait_until_released(spawned.child_id)
        child = self._tasks.get(spawned.child_id)
        if child is None:
            child = await self._reopen_or_create_subtask(parent, options, spawned, workspace)
        projection, message = child.recorder.projection, replace_lone_surrogates(spawned.message)
        if projection.prompt is None:
            child.publish(ev.UserMessage(ts=child.next_ts(), text=message, is_first=True))
        elif projection.prompt.text != message:
            raise UserError(f"the folder of task {child.id} holds another task.")
        if spawned.todos and not projection.todos and not projection.request_count:
            child.publish(ev.TodosChanged(ts=child.next_ts(), todos=spawned.todos))
        await child.recorder.commit()
        if self.on_subtask_opened is not None:
            self.on_subtask_opened(child)
        return child

    async def _reopen_or_create_subtask(
        self, parent: Task, options: TaskOptions, spawned: ev.SubtaskSpawned, workspace: Path
    ) -> Task:
        projection, runtime = parent.recorder.projection, parent.runtime
        inherited = structs.replace(
            options,
            workspace=workspace,
            trust_root=options.trust_root or (runtime.workspace if spawned.has_worktree else None),
            settings=runtime.settings,
            protocol=projection.tool_protocol if projection.is_protocol_named else None,
            mode=None,
            secrets=self.store.load_secrets(parent.id),
            configuration=projection.ledger.configuration,
            grants=parent.grants,
            result_schema=None,
        )
        try:
            return await self._reopen_task(spawned.child_id, inherited)
        except TaskNotFoundError:
            new_options = structs.replace(inherited, mode=spawned.mode)
            return await self._create_task(spawned.child_id, new_options, parent)

    async def resume(
        self,
        task_id: str,
        text: str | None = None,
        *,
        images: tuple[str, ...] = (),
        queue: bool = False,
        options: TaskOptions | None = None,
    ) -> Task:
        """Resume a stored task with this message, or ask the user whether to continue."""
        task = await self.open(task_id, options=options)
        if text is not None:
            await task.send(text, images, queue=queue)
        elif not task.is_running:
            task.start(RunStart.RESUME)
        return task

    async def open(self, task_id: str, *, options: TaskOptions | None = None) -> Task:
        """Open a task without running it. Raises TaskNotFoundError, TaskLockedError, StoreError."""
        await self._wait_until_released(task_id)
        task = self._tasks.get(task_id)
        return task or await self._reopen_task(task_id, options or TaskOptions())

    async def fork(
        self,
        task_id: str,
        row_ts: int | None = None,
        *,
        keep: bool = True,
        text: str | None = None,
        images: tuple[str, ...] = (),
        options: TaskOptions | None = None,
    ) -> Task:
        """Create a task with the history of another, which may be open elsewhere: up to a row, or
        with `keep` false up to the one before it. It continues with `text`, else it rests. Raises
        TaskNotFoundError, StoreError, UserError if there is no such task or row."""
        now = self._clock.now()
        fork_id = generate_task_id(now)
        read = await self._call_store(self.store.read_records, task_id)
        records = build_fork_records(read, fork_id, now, row_ts, keep=keep)
        await self._call_store(self.store.create_with_records, fork_id, records, task_id)
        try:
            task = await self._reopen_task(fork_id, options or TaskOptions())
        except BaseException:
            await self._call_store(self.store.delete, fork_id)
            raise
        await task.save()
        if text is not None:
            await task.send(text, images)
        return task

    async def _reopen_task(self, task_id: str, options: TaskOptions) -> Task:
        journal, records = await self._call_store(self.store.open, task_id)
        runtime: TaskRuntime | None = None
        try:
            runtime = self._build_runtime(options, self._load_state(task_id, records, options))
            subtasks = Subtasks(self, options)
            task = Task(journal, records, runtime, subtasks, options.policy, options.grants)
        except BaseException:
            journal.close()
            if runtime is not None:
                await runtime.close()
            raise
        if task.pending is not None:
            # The process that asked is gone, so the question can no longer be answered.
            task.publish(ev.AskWithdrawn(ts=task.next_ts(), ask_ts=task.pending.ts))
        if task.state is TaskState.DELEGATED:
            # Its subtasks ended with that process; they are resumed with it.
            task.publish(ev.TaskUnpaused(ts=task.next_ts()))
        if options.mode is not None and options.mode != task.mode.slug:
            task.publish(ev.ModeSwitched(ts=task.next_ts(), mode=options.mode))
        if options.protocol is not None:
            apply_named_protocol(task, options.protocol)
        stored = task.recorder.projection.ledger.configuration
        if (merged := {**stored, **options.configuration}) != stored:
            task.publish(ev.TaskConfigured(ts=task.next_ts(), configuration=merged))
            await task.recorder.commit()
        self._tasks[task.id] = task
        await resume_interrupted_restore(task)
        return task

    def _load_state(
        self, task_id: str, records: Sequence[ev.Record], options: TaskOptions
    ) -> StoredTaskState:
        """Load what the task remembers of itself, and store secrets from the options."""
        projection = _fold(records, find_live_branch(records))
        secrets = self.store.load_secrets(task_id)
        if (given := _extract_secrets(options)) is not None:
            stored = {} if secrets is None else secrets.settings
            secrets = structs.replace(given, settings={**stored, **given.settings})
            self.store.save_secrets(task_id, secrets)
        return StoredTaskState(
            workspace=Path(projection.workspace) if projection.workspace else None,
            route=projection.route,
            secrets=secrets,
            configuration={
                name: value
                for name, value in projection.ledger.configuration.items()
                if name not in options.configuration
            },
        )

    def find_open_task(self, task_id: str) -> Task | None:
        """Find a task that is open in this process."""
        return self._tasks.get(task_id)

    @property
    def tasks(self) -> Sequence[Task]:
        """Tasks open in this process."""
        return list(self._tasks.values())

    def list_task_ids(self) -> Sequence[str]:
        """List all tasks on disk; reads only the names of their directories."""
        return self.store.list_ids()

    def history(self) -> Sequence[TaskMetadata]:
        """List all tasks on disk, the most recently changed first."""
        return self.store.list_tasks()

    async def release(self, task: Task) -> None:
        """Stop and release a task, so that other processes may open it."""
        if self._tasks.get(task.id) is task:
            del self._tasks[task.id]
        closing = asyncio.create_task(task.close(), name=task.id)
        self._closing_jobs.add(closing)
        closing.add_done_callback(self._closing_jobs.discard)
        await asyncio.shield(closing)

    async def _wait_until_released(self, task_id: str) -> None:
        """Wait until a task that is being released is free."""
        if closing := [each for each in self._closing_jobs if each.get_name() == task_id]:
            await asyncio.wait(closing)

    async def close(self) -> None:
        tasks, self._tasks = self._tasks, {}
        closing = (*(task.close() for task in tasks.values()), *self._closing_jobs)
        problems = await asyncio.gather(*closing, return_exceptions=True)
        if self._close_shared is not None:
            await self._close_shared()
        for problem in problems:
            if isinstance(problem, BaseException):
                raise problem

    async def __aenter__(self) -> Engine:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


def _choose_protocol(
    runtime: TaskRuntime, provider: Provider, named: ToolProtocol | None, parent: Task | None
) -> ToolProtocol:
    """Choose the protocol of a new task. A subtask of an XML task uses XML."""
    forget_refusal_if_native(runtime, provider, named)
    if named is None and parent is not None and parent.protocol is ToolProtocol.XML:
        return ToolProtocol.XML
    return choose_tool_protocol(
        locked=named, detected=None, model_has_native_tools=has_native_tools(runtime, provider)
    )


def _extract_secrets(options: TaskOptions) -> TaskSecrets | None:
    """Extract secrets that must not be in the task's directory; programs that import joey pass them
    in a profile."""
    profile = options.profile
    if options.secrets is not None or profile is None or options.route is not None:
        return options.secrets
    if profile.base_url is None and not profile.secrets and not profile.credentials:
        return None
    return profile.task_secrets


EVENTS_NOT_FORKED = (
    ev.TaskConfigured,
    ev.ProtocolChanged,
    ev.TaskPaused,
    ev.TaskUnpaused,
    ev.SubtaskSpawned,
    ev.MessageQueued,
    ev.MessageUnqueued,
    ev.TaskRewound,
    ev.FilesRestored,
    ev.TaskForked,
)


def _fold(records: Sequence[ev.Record], path: Sequence[ev.Record]) -> TaskProjection:
    projection = TaskProjection()
    for record in records:
        projection.ledger.apply(record.event)
    for record in path:
        projection.apply_branch_event(record.event)
    return projection


def build_fork_records(
    source: Sequence[ev.Record],
    fork_id: str,
    now: int,
    row_ts: int | None = None,
    *,
    keep: bool = True,
) -> list[ev.Record]:
    path = _build_branch_to_row(source, row_ts, keep=keep)
    projection = _fold(source, path)
    ledger = projection.ledger
    events = list(_iter_fork_events(path, projection, fork_id, now))
    if ledger.configuration:
        events.append(ev.TaskConfigured(ts=events[-1].ts + 1, configuration=ledger.configuration))
    if (change := ledger.protocol_change) is not None:
        events.append(structs.replace(change, ts=events[-1].ts + 1))
    return [ev.Record(n, event) for n, event in enumerate(events, 1)]


def _build_branch_to_row(
    source: Sequence[ev.Record], row_ts: int | None, *, keep: bool
) -> Sequence[ev.Record]:
    path = find_live_branch(source)
    if row_ts is None:
        return path
    try:
        cut = find_cut_point(path, row_ts, keep=keep)
    except TaskStateError as error:
        raise UserError(f"The task cannot be forked there: {error}.") from error
    rewound = ev.TaskRewound(ts=0, to_seq=cut.last_seq, last_row_ts=cut.last_row_ts)
    return find_live_branch([*source, ev.Record(source[-1].seq + 1, rewound)])


def _iter_fork_events(
    path: Sequence[ev.Record], projection: TaskProjection, fork_id: str, now: int
) -> Iterator[ev.Durable]:
    first, *rest = path
    # No two events of a task share a `ts`: copied events keep theirs.
    now = max(now, *(record.event.ts + 1 for record in path))
    match first.event:
        case ev.TaskCreated() as created:
            top = {"parent_id": None, "root_id": None, "depth": 0, "configuration": None}
            yield structs.replace(created, ts=now, task_id=fork_id, **top)
        case ev.TaskImported() as adopted:
            yield structs.replace(adopted, ts=now, task_id=fork_id, parent_id=None, child_ids=())
        case _:
            raise StoreError(f"task {projection.task_id} has no beginning, so it cannot be forked.")
    yield from (record.event for record in rest if not isinstance(record.event, EVENTS_NOT_FORKED))
    remaining = [record for record in path if not isinstance(record.event, ev.TaskRewound)]
    yield ev.TaskForked(
        ts=now + 1,
        source_id=projection.task_id,
        source_seq=remaining[-1].seq,
        route=projection.route,
    )
