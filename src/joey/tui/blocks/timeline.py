"""A task and its subtasks as a list of blocks, built from stored rows and from live events.

Both ways lead to the same result: an event is turned into the row that it creates, and a row into
its block. Only streamed text goes directly into the block that it extends. The view asks for the
positions that have changed since its last call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from joey.client.session import Session
from joey.core.events import (
    ArgumentsDelta,
    AskAnswered,
    AskWithdrawn,
    CommandOutputDelta,
    Event,
    ModeSwitched,
    ReplyReceived,
    RequestStarted,
    RetryCountdown,
    RowAdded,
    RowDelta,
    RowOpened,
    SubtaskSpawned,
    TaskAborted,
    TaskFailed,
    ToolFinished,
    ToolStarted,
    UserMessage,
)
from joey.core.history.ui import Row, build_complete_row, build_row
from joey.core.messages import CallPart, ReasoningPart
from joey.presentation.phrases import describe_provider_error, describe_retry
from joey.presentation.text import to_one_line
from joey.tui.blocks.block import DEFAULT_MARGIN, Block
from joey.tui.blocks.calls import CallBlock, CommandBlock, StreamingCallBlock, ended
from joey.tui.blocks.row_blocks import TaskBlocks, as_row, block_of, kind_of
from joey.tui.blocks.styled_text import Spans
from joey.tui.blocks.text import (
    MarkdownBlock,
    ModelThinkingBlock,
    StaticBlock,
    StreamingResultBlock,
    TransientBlock,
    UserMessageBlock,
    error,
    note,
)

MAX_TITLE_CHARS = 70
_SUBTASK_MARGIN: Spans = ((" ┊ ", "muted"),)


FullOutputReader = Callable[[str, int], str | None]
"""The output of a command that was too long for its row, by the task and the row of the call."""


class Timeline:
    def __init__(self, kept: FullOutputReader | None = None) -> None:
        self._kept = kept
        self.blocks: list[Block] = []
        self._changed: set[int] = set()
        self._root = ""
        self._blocks_by_task: dict[str, TaskBlocks] = {}
        self._front = ""
        """Who spoke last."""

    def begin(self, session: Session) -> None:
        """The past of a task, from its first row on."""
        self.blocks, self._changed = [], set()
        self._root = self._front = session.id
        self._blocks_by_task = {session.id: TaskBlocks("the task goes on")}
        task_blocks = self._blocks_by_task[session.id]
        for number, stored in enumerate(session.rows):
            row = as_row(stored)
            if number == 0 and kind_of(row) == "text":
                self._show(session.id, row, UserMessageBlock(row.text or "", len(row.images)))
            else:
                self._put(session.id, row)
        self._report_interruption(session.id, task_blocks)

    def clear(self) -> None:
        self.blocks, self._changed = [], set()
        self._front = self._root
        self._blocks_by_task = {self._root: TaskBlocks("the task goes on")} if self._root else {}

    def add(self, block: Block) -> None:
        """Something that belongs to no task; or that is there already, and has grown."""
        if 0 <= block.place < len(self.blocks) and self.blocks[block.place] is block:
            self._changed.add(block.place)
        else:
            self._append(block, DEFAULT_MARGIN)

    def take_changes(self) -> set[int]:
        """The places of blocks that look different since this was last asked."""
        changed, self._changed = self._changed, set()
        return changed

    def handle(self, teller: Session, event: Event) -> None:
        who = teller.id
        task_blocks = self._ensure_task_blocks(who)
        match event:
            case RowDelta():
                self._grow(who, task_blocks, event)
            case ArgumentsDelta():
                self._feed(task_blocks, event)
            case CommandOutputDelta():
                self._touch(self._append_command_output(task_blocks, event))
            case RowOpened():
                self._open(who, task_blocks, event)
            case RetryCountdown():
                self._count_down(who, task_blocks, event)
            case ReplyReceived():
                self._reply(who, task_blocks, event)
            case AskAnswered() if event.answer.approves:
                task_blocks.begin_call(event.ask_ts, event.ts)
                self._touch(task_blocks.settle_ask(event.ask_ts, "approved", answered=True))
            case AskAnswered():
                self._touch(task_blocks.settle_ask(event.ask_ts, "rejected", answered=True))
            case AskWithdrawn():
                self._touch(task_blocks.settle_ask(event.ask_ts, "rejected", answered=False))
            case ToolFinished(row_ts=int(row_ts)):
                self._touch(task_blocks.finish_call(row_ts, event.content, event.ts))
            case _:
                self._handle_lifecycle(who, task_blocks, event)

    def _handle_lifecycle(self, who: str, task_blocks: TaskBlocks, event: Event) -> None:
        match event:
            case UserMessage(is_first=True) if who != self._root:
                task_blocks.name = f"{task_blocks.name}: {to_one_line(event.text, MAX_TITLE_CHARS)}"
            case UserMessage(is_first=True):
                first = Row(ts=event.ts, type="say", say="text", text=event.text)
                self._show(who, first, UserMessageBlock(event.text, len(event.images)))
            case SubtaskSpawned(child_id=child_id):
                self._ensure_task_blocks(child_id)
            case ModeSwitched(mode=mode):
                if task_blocks.call is None or task_blocks.call.row.tool != "switch_mode":
                    self._append_of(who, note(f"now in {to_one_line(mode)} mode"))
            case TaskAborted():
                self._drop_unfinished(task_blocks)
                if who == self._root:
                    self.add(note("interrupted"))
            case TaskFailed(message=message):
                self._drop_unfinished(task_blocks)
                if message != task_blocks.reported_error:
                    self._append_of(who, error(message))
            case RowAdded(say="subtask_result", subtask_id=str(child_id)) if (
                child_id in self._blocks_by_task
            ):
                return  # its own words say it
            case _:
                if isinstance(event, RequestStarted):
                    self._drop_unfinished(task_blocks)
                if isinstance(event, ToolStarted):
                    task_blocks.begin_call(event.ts, event.ts)
                if (row := build_row(event)) is not None:
                    self._put(who, row)

    # Rows

    def _put(self, who: str, row: Row) -> None:
        """A row that is whole, or as whole as it is now."""
        task_blocks, kind = self._ensure_task_blocks(who), kind_of(row)
        if kind not in ("checkpoint_saved", "command_output"):
            self._touch(task_blocks.end_thought(row.ts))
        match kind:
            case "command_output":
                if (call := task_blocks.call_of_output(row.ts)) is not None:
                    call.set_output(row.text or "")
                    self._touch(call)
            case "mcp_server_response" if (call := task_blocks.call) is not None:
                call.append_output(ended(row.text or ""))
                self._touch(call)
            case "api_req_started":
                self._report_interruption(who, task_blocks)
                task_blocks.was_interrupted = '"user_cancelled"' in (row.text or "")
            case "user_feedback" | "resume_task":
                self._report_interruption(who, task_blocks)
                self._show(who, row, block_of(row))
            case "api_req_failed":
                task_blocks.reported_error = row.text or ""
                self._show(who, row, block_of(row))
            case _:
                self._show(who, row, block_of(row))

    def _show(self, who: str, row: Row, block: Block | None) -> None:
        task_blocks = self._ensure_task_blocks(who)
        if isinstance(block, CommandBlock) and self._kept is not None:
            block.keep(partial(self._kept, who, row.ts))
        known = task_blocks.blocks.get(row.ts)
        if isinstance(known, StreamingResultBlock) and kind_of(row) == "completion_result":
            known.finish(row.text or "")
            self._touch(known)
            return
        if known is not None:
            self._replace(known, block or StaticBlock(()))
        elif block is not None:
            self._append_of(who, block)
        if block is not None:
            task_blocks.keep(row, block)

    def _report_interruption(self, who: str, task_blocks: TaskBlocks) -> None:
        if task_blocks.was_interrupted:
            task_blocks.was_interrupted = False
            self._append_of(who, note("interrupted"))

    # What streams

    def _open(self, who: str, task_blocks: TaskBlocks, event: RowOpened) -> None:
        self._touch(task_blocks.end_thought(event.ts))
        task_blocks.opened[event.ts] = event.say
        if event.tool == "attempt_completion":
            self._begin(who, task_blocks, event.ts, StreamingResultBlock())
        elif event.tool is not None:
            self._begin(who, task_blocks, event.ts, StreamingCallBlock(event.tool))
        elif event.say == "condense_context":
            self._begin(who, task_blocks, event.ts, TransientBlock("condensing the conversation…"))

    def _begin(self, who: str, task_blocks: TaskBlocks, ts: int, block: Block) -> None:
        task_blocks.opened.pop(ts, None)
        task_blocks.keep(Row(ts=ts, type="say"), block)
        self._append_of(who, block)

    def _grow(self, who: str, task_blocks: TaskBlocks, event: RowDelta) -> None:
        if event.ts in task_blocks.opened and event.delta.strip():
            block = (
                ModelThinkingBlock()
                if task_blocks.opened[event.ts] == "reasoning"
                else MarkdownBlock()
            )
            self._begin(who, task_blocks, event.ts, block)
        match task_blocks.blocks.get(event.ts):
            case MarkdownBlock() | ModelThinkingBlock() as block:
                block.feed(event.delta)
                self._touch(block)

    def _feed(self, task_blocks: TaskBlocks, event: ArgumentsDelta) -> None:
        match task_blocks.blocks.get(event.ts):
            case StreamingCallBlock() | StreamingResultBlock() as block:
                block.feed(event.delta)
                self._touch(block)

    def _append_command_output(
        self, task_blocks: TaskBlocks, event: CommandOutputDelta
    ) -> CallBlock | None:
        call = task_blocks.call_of_output(event.ts)
        if call is not None:
            call.append_output(event.output)
        return call

    def _reply(self, who: str, task_blocks: TaskBlocks, event: ReplyReceived) -> None:
        self._touch(task_blocks.end_thought(event.ts))
        for placed in event.parts:
            match placed.part:
                case CallPart():
                    continue
                case ReasoningPart(text=text):
                    say = "reasoning"
                case part:
                    say, text = "text", part.text
            known = task_blocks.blocks.get(placed.ts)
            # What was shown as text may turn out to be reasoning.
            kind = ModelThinkingBlock if say == "reasoning" else MarkdownBlock
            if isinstance(known, kind) and not isinstance(known, StreamingResultBlock):
                known.finish(text)
                self._touch(known)
            elif text.strip():
                self._put(who, build_complete_row(placed.ts, say, text))
        called = {placed.ts for placed in event.parts}
        self._drop_unfinished(task_blocks, but=called)

    def _count_down(self, who: str, task_blocks: TaskBlocks, event: RetryCountdown) -> None:
        text = (
            f"{describe_retry(event)}: {describe_provider_error(event.message)}"
            if event.seconds
            else ""
        )
        known = task_blocks.blocks.get(event.ts)
        if isinstance(known, TransientBlock):
            known.set_text(text)
            self._touch(known)
        elif text:
            self._begin(who, task_blocks, event.ts, TransientBlock(text))

    def _drop_unfinished(self, task_blocks: TaskBlocks, but: set[int] | None = None) -> None:
        for ts, block in task_blocks.unfinished():
            if ts not in (but or ()):
                del task_blocks.blocks[ts]
                self._replace(block, StaticBlock(()))

    # Blocks

    def _ensure_task_blocks(self, who: str) -> TaskBlocks:
        if who not in self._blocks_by_task:
            self._blocks_by_task[who] = TaskBlocks(f"subtask {len(self._blocks_by_task)}")
        return self._blocks_by_task[who]

    def _append_of(self, who: str, block: Block) -> None:
        """Who speaks is said when it changes."""
        if who != self._front:
            self._front = who
            self._append(note(f"┄┄ {self._ensure_task_blocks(who).name}"), DEFAULT_MARGIN)
        self._append(block, DEFAULT_MARGIN if who == self._root else _SUBTASK_MARGIN)

    def _append(self, block: Block, margin: Spans) -> None:
        above = self.blocks[-1] if self.blocks else None
        block.place, block.margin = len(self.blocks), margin
        block.gap = _gap(above, block)
        self.blocks.append(block)
        self._changed.add(block.place)

    def _replace(self, old: Block, new: Block) -> None:
        new.place, new.margin = old.place, old.margin
        above = self.blocks[old.place - 1] if old.place else None
        new.gap = _gap(above, new)
        self.blocks[old.place] = new
        self._changed.add(new.place)

    def _touch(self, block: Block | None) -> None:
        if block is not None:
            self._changed.add(block.place)


def _gap(above: Block | None, block: Block) -> int:
    if above is None or (above.is_brief and block.is_brief):
        return 0
    return 1
