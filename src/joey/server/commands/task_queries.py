"""Commands that read tasks, open or not: lists, details (why one failed), rows, events, search.

A search stores nothing between calls: it reads the UI histories of tasks one after another, newest
first, up to a total number of bytes. Bookkeeping rows (which request cost what) are not searched.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, structs

from joey.core.history.state import TaskProjection
from joey.core.history.ui import Row, add_row_summary
from joey.core.task_types import IDLE_STATES, RowKind, TaskState
from joey.core.wire import commands as wire
from joey.core.wire.event_encoder import (
    FrameEncoder,
    ReplayNormalizer,
    encode_records,
    list_queued_messages,
)
from joey.core.wire.events import FailedPayload, to_usage_totals
from joey.errors import ConfigError, StoreError, TaskNotFoundError
from joey.ports.storage import Store, TaskMetadata
from joey.presentation.questions import build_ask_view
from joey.server.commands.call import AnyCall, CommandCall, make_not_found_error
from joey.server.commands.tasks import is_known_task

if TYPE_CHECKING:
    from joey.server.hub import ServerHub


_SHARED_FIELDS = {*wire.TaskInfo.__struct_fields__} & {*TaskMetadata.__struct_fields__}

log = logging.getLogger(__name__)


async def is_task_in_history(hub: ServerHub, call: AnyCall) -> wire.InHistory:
    return wire.InHistory(in_history=await is_known_task(hub, hub.resolve_task_id(call)))


async def get_messages(hub: ServerHub, call: AnyCall) -> wire.Messages:
    if task := hub.find_open_task(call):
        rows = task.recorder.ui_history.rows_with_open
        return wire.Messages(messages=list(map(add_row_summary, rows)), seq=task.bus.last_seq)
    read = await _load_encoder(hub, call)
    return wire.Messages(messages=list(map(add_row_summary, read.ui.rows)), seq=read.last_seq)


async def get_token_usage(hub: ServerHub, call: AnyCall) -> wire.UsageData:
    return wire.UsageData(usage=to_usage_totals((await _load_projection(hub, call)).usage))


async def get_todos(hub: ServerHub, call: AnyCall) -> wire.Todos:
    return wire.Todos(todos=list((await _load_projection(hub, call)).todos))


async def get_events(hub: ServerHub, call: CommandCall[wire.GetEvents]) -> wire.Events:
    until = call.arguments.until
    source = await hub.find_replay_source(hub.resolve_task_id(call))
    first = source.find_index_after(call.arguments.since)
    end = None if until is None else source.find_index_after(until)
    frames = list(map(ReplayNormalizer().normalize, source.frames[first:end]))
    return wire.Events(events=frames, seq=source.seq)


async def subscribe(hub: ServerHub, call: CommandCall[wire.Subscribe]) -> wire.Subscribed:
    if call.task_id is None:
        return wire.Subscribed(tasks={feed.task.id: feed.seq for feed in hub.feeds})
    source = await hub.find_replay_source(call.task_id)
    if call.schedule_replay is not None:
        first = source.find_index_after(call.arguments.since, call.arguments.part)
        call.schedule_replay(call.task_id, source, first)
    return wire.Subscribed(task_id=call.task_id, seq=source.seq)


async def get_task(hub: ServerHub, call: AnyCall) -> wire.TaskData:
    task_id = hub.resolve_task_id(call)
    for metadata in await _list_all_tasks(hub):
        if metadata.id == task_id:
            return wire.TaskData(task=await _build_detailed_info(hub, metadata, call))
    raise make_not_found_error(task_id)


async def list_tasks(hub: ServerHub, call: CommandCall[wire.ListTasks]) -> wire.TaskList:
    arguments = call.arguments
    tasks = _filter_by_workspace(await _list_all_tasks(hub), arguments.workspace)
    page = tasks[arguments.offset : arguments.offset + arguments.limit]
    return wire.TaskList(tasks=[_build_task_info(hub, task) for task in page], total=len(tasks))


async def search_tasks(hub: ServerHub, call: CommandCall[wire.SearchTasks]) -> wire.FoundTasks:
    """Find tasks that have all the words in their title, id or conversation."""
    arguments = call.arguments
    tasks = _filter_by_workspace(await _list_all_tasks(hub), arguments.workspace)
    search = TaskSearch(
        arguments.query, hub.store, {task.id: task.rows for task in hub.engine.tasks}
    )
    found = await asyncio.to_thread(search.run, tasks, arguments.limit)
    return wire.FoundTasks(tasks=[_build_task_info(hub, task) for task in found])


async def _load_encoder(hub: ServerHub, call: AnyCall) -> FrameEncoder:
    task_id = hub.resolve_task_id(call)
    records = await asyncio.to_thread(hub.store.read_records, task_id)
    encoder, _ = await asyncio.to_thread(encode_records, task_id, records, build_ask_view)
    return encoder


async def _load_projection(hub: ServerHub, call: AnyCall) -> TaskProjection:
    task = hub.find_open_task(call)
    return task.recorder.projection if task else (await _load_encoder(hub, call)).projection


async def _list_all_tasks(hub: ServerHub) -> list[TaskMetadata]:
    """List all tasks, the latest first; open ones in their current state."""
    known = {task.id: task for task in await asyncio.to_thread(hub.engine.history)}
    known |= {task.id: task.recorder.build_metadata() for task in hub.engine.tasks}
    return sorted(known.values(), key=lambda task: (task.updated, task.id), reverse=True)


def _filter_by_workspace(
    tasks: Sequence[TaskMetadata], workspace: str | None
) -> Sequence[TaskMetadata]:
    if workspace is None:
        return tasks
    directory = Path(workspace).expanduser()
    return [task for task in tasks if task.workspace and Path(task.workspace) == directory]


async def _build_detailed_info(
    hub: ServerHub, metadata: TaskMetadata, call: AnyCall
) -> wire.TaskInfo:
    """Build details that a list does not include: open questions, failures, and a resting task's
    context."""
    info = _build_task_info(hub, metadata)
    projection = await _load_projection(hub, call)
    failure = projection.failure if projection.state is TaskState.FAILED else None
    return structs.replace(
        info,
        context_tokens=projection.usage.context_tokens,
        context_window=info.context_window or _find_context_window(hub, metadata),
        queue=list_queued_messages(projection),
        failure=FailedPayload(code=failure.code, message=failure.message) if failure else None,
        waits_for=projection.pending_subtask_ids if info.live else (),
    )


def _find_context_window(hub: ServerHub, metadata: TaskMetadata) -> int | None:
    try:
        model = hub.services.find_task_model(metadata)
    except ConfigError as error:
        log.info("task %s: its model is not known: %s", metadata.id, error)
        return None
    return model.context_window if model is not None else None


def _build_task_info(hub: ServerHub, metadata: TaskMetadata) -> wire.TaskInfo:
    task = hub.engine.find_open_task(metadata.id)
    shared = {name: getattr(metadata, name) for name in _SHARED_FIELDS}
    info = wire.TaskInfo(**shared, protocol=metadata.tool_protocol, live=task is not None)
    if task is None:
        return structs.replace(info, status=_resolve_closed_task_status(hub, metadata))
    ask = task.pending
    return structs.replace(
        info,
        context_tokens=task.usage.context_tokens,
        context_window=task.provider.model.context_window,
        ask=wire.PendingAsk(ts=ask.ts, ask=ask.ask.value, view=build_ask_view(ask))
        if ask is not None
        else None,
    )


def _resolve_closed_task_status(hub: ServerHub, metadata: TaskMetadata) -> str:
    """Resolve the status of a task that is not open here: if a dead process left it unfinished, it
    is aborted."""
    try:
        state = TaskState(metadata.status)
    except ValueError:
        return metadata.status
    if state in IDLE_STATES and state is not TaskState.CREATED:
        return str(state)
    try:
        is_locked = hub.store.is_locked(metadata.id)
    except TaskNotFoundError:
        is_locked = False  # just deleted, or only its metadata ever existed
    if not is_locked:
        return str(TaskState.ABORTED)
    return str(TaskState.RUNNING if state is TaskState.CREATED else state)


MAX_SEARCHED_TASK_BYTES = 32 * 1024 * 1024
"""The conversation of a larger task is not searched."""
MAX_SEARCH_BYTES = 256 * 1024 * 1024
"""Of all conversations that one search reads."""
_UNSEARCHED_ROW_KINDS = frozenset({RowKind.API_REQ_STARTED, RowKind.API_REQ_FINISHED})


class _RowText(Struct, frozen=True):
    """The searchable text of a row."""

    text: str | None = None
    say: str | None = None
    path: str | None = None


_rows_decoder = msgspec.json.Decoder(list[_RowText])


class TaskSearch:
    def __init__(
        self,
        query: str,
        store: Store,
        open_rows: Mapping[str, Sequence[Row | dict[str, Any]]],
    ) -> None:
        """`open_rows` are the current conversations of open tasks, which may not be on disk yet."""
        self._terms = frozenset(query.casefold().split())
        self._store = store
        self._open_task_rows = open_rows
        self._remaining_bytes = MAX_SEARCH_BYTES

    def run(self, tasks: Iterable[TaskMetadata], limit: int) -> list[TaskMetadata]:
        """Search at most `limit` of these tasks. Slow: call it in a thread."""
        return list(islice(filter(self._is_match, tasks), limit))

    def _is_match(self, task: TaskMetadata) -> bool:
        title = f"{task.title}\n{task.id}".casefold()
        missing = {word for word in self._terms if word not in title}
        if not missing:
            return True
        for row in self._load_rows(task.id):
            if row.say in _UNSEARCHED_ROW_KINDS:
                continue
            text = f"{row.text or ''}\n{row.path or ''}".casefold()
            missing = {word for word in missing if word not in text}
            if not missing:
                return True
        return False

    def _load_rows(self, task_id: str) -> Sequence[_RowText]:
        if (rows := self._open_task_rows.get(task_id)) is not None:
            return msgspec.convert(rows, list[_RowText], from_attributes=True, strict=False)
        try:
            data = self._store.read_rows_json(
                task_id, min(MAX_SEARCHED_TASK_BYTES, self._remaining_bytes)
            )
            self._remaining_bytes -= len(data)
            return _rows_decoder.decode(data) if data else ()
        except (StoreError, TaskNotFoundError, msgspec.DecodeError, UnicodeDecodeError) as error:
            log.info("task %s is not searched: %s", task_id, error)
            return ()
