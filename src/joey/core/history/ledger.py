"""What has happened for good: a rewind takes words back, not money, time or who was told what."""

from __future__ import annotations

from msgspec import structs

from joey.core.event_base import TokenUsage, ToolTally
from joey.core.events import (
    Durable,
    MessageQueued,
    MessageUnqueued,
    RequestEnded,
    RequestStarted,
    ToolFailed,
    ToolFinished,
)
from joey.core.messages import Usage
from joey.core.revisions import CheckpointSaved, ContextCondensed, FilesRestored, TaskForked


class Ledger:
    """Folded from every record, on the path or not."""

    def __init__(self) -> None:
        self.updated = 0
        self.usage = TokenUsage()
        self.subtask_usage = TokenUsage()
        """Of the subtasks that have returned."""
        self.tools: dict[str, ToolTally] = {}
        self.requests = 0
        self.calls = 0
        """Calls that have an outcome."""
        self.queue: dict[str, MessageQueued] = {}
        """Words that the model has not been told yet."""
        self.checkpoint: str | None = None
        """The files of the workspace as this task last knew them."""

    def apply(self, event: Durable) -> None:
        self.updated = max(self.updated, event.ts)
        match event:
            case MessageQueued():
                self.queue[event.id] = event
            case MessageUnqueued():
                self.queue.pop(event.id, None)
            case RequestStarted():
                self.requests += 1
                for message_id in event.dequeued:
                    self.queue.pop(message_id, None)
            case RequestEnded(usage=Usage() as usage) | ContextCondensed(usage=Usage() as usage):
                self._add_usage(usage, event.cost or 0.0)
            case ToolFinished():
                self.calls += 1
                self.subtask_usage = self.subtask_usage.plus(event.usage or TokenUsage())
                self._tally(event.tool, failed=False)
            case ToolFailed():
                self._tally(event.tool, failed=True)
            case CheckpointSaved():
                self.checkpoint = event.id
            case FilesRestored():
                self.checkpoint = event.checkpoint
            case TaskForked():
                self._begin_anew()

    def _begin_anew(self) -> None:
        """What was taken over from another task was used, asked and queued there."""
        self.usage = self.subtask_usage = TokenUsage()
        self.tools, self.queue = {}, {}
        self.requests = self.calls = 0

    def _add_usage(self, usage: Usage, cost: float) -> None:
        self.usage = self.usage.plus(
            TokenUsage(
                total_tokens_in=usage.input,
                total_tokens_out=usage.output,
                total_cache_writes=usage.cache_writes,
                total_cache_reads=usage.cache_reads,
                total_cost=cost,
            )
        )

    def _tally(self, tool: str, *, failed: bool) -> None:
        tally = self.tools.get(tool, ToolTally())
        self.tools[tool] = (
            structs.replace(tally, failures=tally.failures + 1)
            if failed
            else structs.replace(tally, attempts=tally.attempts + 1)
        )
