"""The recorder of a task: each event goes to the journal first, then into the histories."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from joey.core.events import (
    TRANSIENT_EVENTS,
    Durable,
    ProtocolChanged,
    Record,
    SubtaskSpawned,
    TaskRewound,
)
from joey.core.history.api import ApiHistory
from joey.core.history.branch import find_live_branch
from joey.core.history.state import TaskProjection
from joey.core.history.ui import UiHistory
from joey.core.task_types import IDLE_STATES
from joey.engine.bus import NumberedEvent, RecordCache
from joey.errors import StoreError
from joey.ports.storage import TaskLog, TaskMetadata

log = logging.getLogger(__name__)

FIRST_SNAPSHOT_RECORDS = 64


class Recorder:
    def __init__(self, log: TaskLog, records: Sequence[Record] = ()) -> None:
        self.task_log = log
        self.api_history = ApiHistory()
        self.ui_history = UiHistory()
        self.projection = TaskProjection()
        self.record_cache = RecordCache(log.read_records, records)
        self._last_seq = records[-1].seq if records else 0
        self._snapshot_seq = 0
        for record in records:
            self.projection.ledger.apply(record.event)
        self._apply_records(find_live_branch(records))

    def handle(self, numbered: NumberedEvent) -> None:
        event = numbered.event
        if type(event) in TRANSIENT_EVENTS:
            self.ui_history.apply(event)
            return
        durable: Durable = event  # type: ignore[assignment]
        self.projection.check_event(durable)
        record = Record(numbered.seq, durable)
        self.task_log.append(record)
        self._last_seq = numbered.seq
        self.projection.ledger.apply(durable)
        match durable:
            case TaskRewound():
                self.projection.reset()
                self.api_history, self.ui_history = ApiHistory(), UiHistory()
                self._apply_records(find_live_branch([*self.record_cache.list_after(0), record]))
            case ProtocolChanged():
                self._apply(durable)
                self.api_history = ApiHistory(self.projection.tool_protocol)
                for earlier in self.live_branch:
                    self.api_history.apply(earlier.event)
            case _:
                self._apply(durable)

    def _apply_records(self, path: Sequence[Record]) -> None:
        for record in path:
            self._apply(record.event)

    def _apply(self, event: Durable) -> None:
        self.projection.apply_branch_event(event)
        self.api_history.tool_protocol = self.projection.tool_protocol
        self.api_history.apply(event)
        self.ui_history.apply(event)

    @property
    def live_branch(self) -> Sequence[Record]:
        """The records that make up the current history."""
        return find_live_branch(self.record_cache.list_after(0))

    @property
    def pending_delegations(self) -> Sequence[SubtaskSpawned]:
        """Return calls of the latest reply whose subtasks have not returned."""
        waiting = {call.id for call in self.api_history.open_calls}
        return [
            child for child in self.projection.spawned_subtasks.values() if child.call_id in waiting
        ]

    async def commit(self) -> None:
        """Return when everything so far would survive a power cut."""
        await self.task_log.sync()

    @property
    def is_snapshot_due(self) -> bool:
        """Whether the journal has grown by half of the snapshot's size, which keeps the cost
        proportional."""
        return self._last_seq - self._snapshot_seq > max(
            FIRST_SNAPSHOT_RECORDS, self._snapshot_seq // 2
        )

    async def write_snapshots(self) -> None:
        """Write the two history files and the metadata, unless they are up to date."""
        seq = self._last_seq
        if seq == self._snapshot_seq:
            return
        # One by one: all at once would be a second history in memory.
        encode = msgspec.json.Encoder().encode
        is_idle = self.projection.state in IDLE_STATES
        await self.task_log.write_snapshot(
            map(encode, self.ui_history.iter_stored_rows()),
            map(encode, self.api_history.iter_stored_messages(with_interrupted=is_idle)),
            self.build_metadata(),
        )
        self._snapshot_seq = max(seq, self._snapshot_seq)

    async def close(self) -> None:
        """Release the task; pending `commit` calls are completed first."""
        try:
            await self.commit()
        except StoreError as error:
            log.warning("task %s: its last events may be lost: %s", self.projection.task_id, error)
        finally:
            self.task_log.close()

    def build_metadata(self) -> TaskMetadata:
        projection = self.projection
        return TaskMetadata(
            id=projection.task_id,
            title=projection.title[:200],
            workspace=projection.workspace,
            mode=projection.mode,
            tool_protocol=projection.tool_protocol,
            profile=projection.route.profile,
            provider=projection.route.provider,
            base_url=projection.route.base_url,
            model=projection.route.model,
            has_own_key=projection.route.has_own_key,
            parent_id=projection.parent_id,
            child_ids=projection.child_ids,
            status=projection.status,
            created=projection.created,
            updated=projection.updated,
            tokens_in=projection.usage.total_tokens_in,
            tokens_out=projection.usage.total_tokens_out,
            cache_writes=projection.usage.total_cache_writes,
            cache_reads=projection.usage.total_cache_reads,
            total_cost=projection.usage.total_cost,
            snapshot_seq=self._last_seq,
        )
