"""The hub of the server: one engine, one feed per open task, and all listeners.

Front ends of every kind send it commands with `execute` or `dispatch` and subscribe with
`add_listener`. It is independent of sockets. `ServerCounters` holds its metrics.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from msgspec import Struct

from joey.app.application import Application
from joey.core.task_types import IDLE_STATES
from joey.core.wire.commands import Done
from joey.core.wire.event_encoder import FrameEncoder, build_created_payload
from joey.core.wire.frames import (
    ErrorCode,
    EventFrame,
    ParsedCommand,
    ResponseFrame,
    build_failure,
    build_success,
)
from joey.engine.engine import Engine, TaskOptions
from joey.engine.task import Task
from joey.errors import JoeyError, TaskNotFoundError
from joey.ports.storage import Store
from joey.presentation.questions import build_ask_view
from joey.server.commands import HANDLERS
from joey.server.commands.call import (
    AnyCall,
    CommandCall,
    CommandError,
    ReplayScheduler,
    make_argument_error,
    make_not_found_error,
)
from joey.server.feed import Broadcast, BroadcastCallback, ReplaySource, StoredTaskFrames, TaskFeed

IDLE_TASK_RELEASE_S = 300.0
"""A task at rest that nobody works with is let go of after this: others may open it then."""

log = logging.getLogger(__name__)


class ServerHub:
    def __init__(self, engine: Engine, store: Store, services: Application) -> None:
        self.engine = engine
        self.store = store
        self.services = services
        self.counters = ServerCounters()
        self.is_ready = True
        self._feeds: dict[str, TaskFeed] = {}
        self._listeners: set[BroadcastCallback] = set()
        self._focus_order: list[str] = []
        """Open tasks, the current one last."""
        self._pending_releases: set[asyncio.Task[None]] = set()
        engine.on_subtask_opened = self._ensure_feed

    # Listening --------------------------------------------------------------------------------

    def add_listener(self, listener: BroadcastCallback) -> None:
        """Add a listener for every event of every task from now on; it must not block."""
        self._listeners.add(listener)

    def remove_listener(self, listener: BroadcastCallback) -> None:
        self._listeners.discard(listener)

    def broadcast(self, broadcast_event: Broadcast) -> None:
        self.counters.event_count += 1
        for listener in list(self._listeners):
            listener(broadcast_event)

    def announce(self, name: str, payload: Struct, task_id: str | None = None) -> None:
        """Announce an event that is not in a task's journal."""
        self.broadcast(
            Broadcast(EventFrame(event_name=name, task_id=task_id, payload=payload, seq=0))
        )

    def find_feed(self, task_id: str) -> TaskFeed | None:
        return self._feeds.get(task_id)

    @property
    def feeds(self) -> Sequence[TaskFeed]:
        return list(self._feeds.values())

    # Commands ---------------------------------------------------------------------------------

    async def execute(
        self, command: ParsedCommand, schedule_replay: ReplayScheduler | None = None
    ) -> ResponseFrame:
        """Run a command from a client; there is a response in any case."""
        name, request_id = command.spec.name, command.request_id
        try:
            call = CommandCall(command.task_id, command.arguments, schedule_replay)
            data = await self.dispatch(name, call)
        except CommandError as error:
            code, message = error.code, error.message
        except TaskNotFoundError:
            code = ErrorCode.TASK_NOT_FOUND
            message = make_not_found_error(command.task_id or "").message
        except JoeyError as error:
            code, message = ErrorCode.EXECUTION_ERROR, str(error)
        except Exception:
            log.exception("command failed because of a bug", extra={"command": name})
            code, message = (
                ErrorCode.SERVER_ERROR,
                "The server failed because of a bug; see its log.",
            )
        else:
            self.counters.commands_by_outcome[name, "success"] += 1
            return build_success(request_id, name, data)
        self.counters.commands_by_outcome[name, code.value] += 1
        return build_failure(request_id, name, code, message)

    async def dispatch(self, name: str, call: AnyCall) -> Struct:
        """Run a command and return the data of its response. Raises CommandError, JoeyError."""
        if not self.is_ready and name not in ("isReady", "ping"):
            raise CommandError(ErrorCode.API_NOT_READY, "The server is shutting down.")
        return await HANDLERS[name](self, call) or Done()

    # Tasks ------------------------------------------------------------------------------------

    async def start_task(
        self, text: str, images: tuple[str, ...], options: TaskOptions, task_id: str | None
    ) -> Task:
        task = await self.engine.start(text, images=images, options=options, task_id=task_id)
        self.adopt_task(task)
        return task

    async def resume_task(
        self,
        task_id: str,
        text: str | None = None,
        images: tuple[str, ...] = (),
        *,
        queue: bool = False,
        options: TaskOptions | None = None,
    ) -> Task:
        """Resume a task, opened from disk if needed. It keeps its directory, model, address and
        settings unless `options` say otherwise."""
        task = await self.engine.resume(task_id, text, images=images, queue=queue, options=options)
        self.adopt_task(task)
        return task

    async def load_task(self, task_id: str) -> Task:
        """Load a task without running it; after a while it is released for other processes."""
        task = await self.engine.open(task_id)
        self._ensure_feed(task)
        return task

    async def fork_task(
        self, task_id: str, row_ts: int | None, *, keep: bool, options: TaskOptions
    ) -> Task:
        """Create a task at rest with the history of another."""
        task = await self.engine.fork(task_id, row_ts, keep=keep, options=options)
        self.adopt_task(task)
        self.announce("taskCreated", build_created_payload(task.recorder.projection), task.id)
        return task

    def adopt_task(self, task: Task) -> None:
        """Make it the current task, and announce its events from its beginning."""
        if task.id in self._focus_order:
            self._focus_order.remove(task.id)
        self._focus_order.append(task.id)
        self._ensure_feed(task)

    def _ensure_feed(self, task: Task) -> None:
        feed = self._feeds.get(task.id)
        if feed is None or feed.task is not task:
            feed = self._feeds[task.id] = TaskFeed(task, self.broadcast)
            feed.start(lambda: self._remove_feed(task))
            self._schedule_idle_check(task)

    def _remove_feed(self, task: Task) -> None:
        """Remove the feed of a closed task after its last event."""
        feed = self._feeds.get(task.id)
        if feed is not None and feed.task is task:
            del self._feeds[task.id]
            if task.id in self._focus_order:
                self._focus_order.remove(task.id)

    @property
    def current_task(self) -> Task | None:
        """The open task that was started or resumed last. While it waits for subtasks, one of them:
        one with a question, else a running one."""
        opened = [
            task
            for each in reversed(self._focus_order)
            if (task := self.engine.find_open_task(each))
        ]
        # A subtask that has returned has ended, although its parent still waits for others.
        focused = next(
            (task for task in opened if _is_working(task) or not task.has_waiting_parent), None
        )
        if focused is None:
            return None
        working = list(self._iter_working_tasks(focused))
        return next((task for task in working if task.pending is not None), working[0])

    def _iter_working_tasks(self, task: Task) -> Iterator[Task]:
        """Iterate over the tasks of a tree that do not wait for others."""
        found = [self.engine.find_open_task(child_id) for child_id in task.pending_subtasks]
        below = [child for child in found if child is not None and _is_working(child)]
        if not below:
            yield task
        for child in below:
            yield from self._iter_working_tasks(child)

    def resolve_task_id(self, call: AnyCall) -> str:
        """Resolve the task of a command: the one it names, else the current one."""
        if call.task_id is not None:
            return call.task_id
        if self.current_task is None:
            raise make_argument_error("taskId", "missing, and there is no current task.")
        return self.current_task.id

    def find_open_task(self, call: AnyCall) -> Task | None:
        """Find the task of a command if it is open here."""
        return self.engine.find_open_task(self.resolve_task_id(call))

    def find_open_or_current_task(self, call: AnyCall) -> Task | None:
        """Find the named task if it is open here; without a name, the current one, if any."""
        if call.task_id is None:
            return self.current_task
        return self.engine.find_open_task(call.task_id)

    async def find_replay_source(self, task_id: str) -> ReplaySource:
        """Find the frames of a task, open or not. Raises TaskNotFoundError, StoreError."""
        if feed := self._feeds.get(task_id):
            return feed
        stored = await asyncio.to_thread(self._read_stored_task, task_id)
        return self._feeds.get(task_id) or stored

    def _read_stored_task(self, task_id: str) -> StoredTaskFrames:
        records = self.store.read_records(task_id)
        frames: list[EventFrame] = []
        seqs: list[int] = []
        encoder = FrameEncoder(task_id, build_ask_view)
        for record in records:
            fresh = encoder.encode(record.seq, record.event)
            frames += fresh
            seqs += [record.seq] * len(fresh)
        return StoredTaskFrames(frames, seqs, encoder.last_seq)

    async def release_task(self, task: Task) -> None:
        """Stop and release a task after publishing its last events."""
        if task.id in self._focus_order:
            self._focus_order.remove(task.id)
        await self.engine.release(task)
        feed = self._feeds.get(task.id)
        if feed is not None and feed.task is task:
            await feed.close()
            self._remove_feed(task)

    def _schedule_idle_check(self, task: Task) -> None:
        # A task that is closed before then is not kept in memory by its timer.
        check = partial(self._release_if_idle, weakref.ref(task), task.bus.last_seq)
        asyncio.get_running_loop().call_later(IDLE_TASK_RELEASE_S, check)

    def _release_if_idle(self, found: weakref.ref[Task], seq: int) -> None:
        task = found()
        feed = self._feeds.get(task.id) if task is not None else None
        if task is None or feed is None or feed.task is not task or not self.is_ready:
            return
        idle = task.state in IDLE_STATES and not task.is_running and task.bus.last_seq == seq
        is_in_use = (
            task.has_waiting_parent
            or task is self.current_task
            or task.runtime.terminal.background_commands
        )
        if idle and not is_in_use:
            release = asyncio.create_task(self.release_task(task))
            self._pending_releases.add(release)
            release.add_done_callback(self._pending_releases.discard)
        else:
            self._schedule_idle_check(task)

    async def close(self) -> None:
        """Stop all tasks so that they can be resumed, and publish their last events."""
        self.is_ready = False
        self._focus_order.clear()
        await self.engine.close()
        feeds, self._feeds = list(self._feeds.values()), {}
        await asyncio.gather(*(feed.close() for feed in feeds))


def _is_working(task: Task) -> bool:
    """Whether a task is working, which includes saving its last messages."""
    return task.is_running and task.state not in IDLE_STATES


class ServerCounters:
    def __init__(self) -> None:
        self.commands_by_outcome: Counter[tuple[str, str]] = Counter()
        """By name and outcome."""
        self.event_count = 0
        self.resync_count = 0
        self.refused_count = 0
        self.accepted_count = 0

    def render_metrics(self, **gauges: int) -> str:
        """Render the metrics in the text format of Prometheus."""
        metrics = [
            ("events_total", "counter", self.event_count),
            ("resyncs_total", "counter", self.resync_count),
            ("refused_total", "counter", self.refused_count),
            ("accepted_total", "counter", self.accepted_count),
            *((name, "gauge", value) for name, value in gauges.items()),
        ]
        lines = [f"# TYPE joey_{name} {kind}\njoey_{name} {value}" for name, kind, value in metrics]
        lines.append("# TYPE joey_commands_total counter")
        lines += [
            f'joey_commands_total{{command="{name}",outcome="{outcome}"}} {count}'
            for (name, outcome), count in sorted(self.commands_by_outcome.items())
        ]
        return "\n".join([*lines, ""])
