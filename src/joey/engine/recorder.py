"""The recorder of a task: each event goes to the journal first, then into the histories."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import msgspec

from joey.core.events import TRANSIENT_EVENTS, Durable, Record, SubtaskSpawned, TaskRewound
from joey.core.history.api import ApiHistory
from joey.core.history.branch import find_live_branch
from joey.core.history.state import TaskProjection
from joey.core.history.ui import UiHistory
from joey.engine.bus import NumberedEvent, RecordCache
from joey.errors import StoreError
from joey.ports import TaskLog, TaskMetadata

log = logging.getLogger(__name__)

FIRST_SNAPSHOT_RECORDS = 64
"""Records after which a busy task is saved for the first time."""


class Recorder:
    def __init__(self, log: TaskLog, records: Sequence[Record] = ()) -> None:
        self.log = log
        self.api = ApiHistory()
        self.ui = UiHistory()
        self.facts = TaskProjection()
        self.records = RecordCache(log.records, records)
        self._seq = records[-1].seq if records else 0
        self._saved_seq = 0
        for record in records:
            self.facts.ledger.apply(record.event)
        self._follow(find_live_branch(records))

    def handle(self, numbered: NumberedEvent) -> None:
        event = numbered.event
        if type(event) in TRANSIENT_EVENTS:
            self.ui.apply(event)
            return
        durable: Durable = event  # type: ignore[assignment]
        self.facts.check_event(durable)
        record = Record(numbered.seq, durable)
        self.log.append(record)
        self._seq = numbered.seq
        self.facts.ledger.apply(durable)
        if not isinstance(durable, TaskRewound):
            self._fold(durable)
            return
        self.facts.reset()
        self.api, self.ui = ApiHistory(), UiHistory()
        self._follow(find_live_branch([*self.records.after(0), record]))

    def _follow(self, path: Sequence[Record]) -> None:
        for record in path:
            self._fold(record.event)

    def _fold(self, event: Durable) -> None:
        self.facts.apply_branch_event(event)
        self.api.protocol = self.facts.protocol
        self.api.apply(event)
        self.ui.apply(event)

    @property
    def path(self) -> Sequence[Record]:
        """The records that the history is made of now."""
        return find_live_branch(self.records.after(0))

    @property
    def delegated(self) -> Sequence[SubtaskSpawned]:
        """Calls of the latest reply whose subtasks have not returned."""
        waiting = {call.id for call in self.api.open_calls}
        return [child for child in self.facts.children.values() if child.call_id in waiting]

    async def commit(self) -> None:
        """Return when all that was heard so far would survive a power cut."""
        await self.log.sync()

    @property
    def snapshot_due(self) -> bool:
        """The journal has grown by half of what the snapshot holds: cost stays proportional."""
        return self._seq - self._saved_seq > max(FIRST_SNAPSHOT_RECORDS, self._saved_seq // 2)

    async def rest(self) -> None:
        """Write the two history files and the metadata, unless they are up to date."""
        seq = self._seq
        if seq == self._saved_seq:
            return
        rows, messages = self.ui.iter_stored(), self.api.iter_stored()
        await self.log.snapshot(_encoded(rows), _encoded(messages), self.metadata())
        self._saved_seq = max(seq, self._saved_seq)

    async def close(self) -> None:
        """Let go of the task; who waits for a `commit` gets it before."""
        try:
            await self.commit()
        except StoreError as error:
            log.warning("task %s: its last events may be lost: %s", self.facts.task_id, error)
        finally:
            self.log.close()

    def metadata(self) -> TaskMetadata:
        facts = self.facts
        return TaskMetadata(
            id=facts.task_id,
            title=facts.title[:200],
            workspace=facts.workspace,
            mode=facts.mode,
            protocol=facts.protocol,
            profile=facts.route.profile,
            provider=facts.route.provider,
            base_url=facts.route.base_url,
            model=facts.route.model,
            has_own_key=facts.route.has_own_key,
            parent_id=facts.parent_id,
            child_ids=facts.child_ids,
            status=facts.status,
            created=facts.created,
            updated=facts.updated,
            tokens_in=facts.usage.total_tokens_in,
            tokens_out=facts.usage.total_tokens_out,
            cache_writes=facts.usage.total_cache_writes,
            cache_reads=facts.usage.total_cache_reads,
            total_cost=facts.usage.total_cost,
            seq=self._seq,
        )


def _encoded(elements: Iterator[object]) -> Iterator[bytes]:
    """One after the other: all of them at once would be a second history in memory."""
    encode = msgspec.json.Encoder().encode
    return (encode(element) for element in elements)
