"""A task and its subtasks as a list of blocks, built from stored rows and from live events.

Both ways lead to the same result: an event is turned into the row that it creates, and a row into
its block. Only streamed text goes directly into the block that it extends. The view asks for the
positions that have changed since its last call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from joey.client.session import Session
from joey.core import events as ev
from joey.core.history.ui import Row, build_complete_row, build_row
from joey.core.messages import CallPart, ReasoningPart
from joey.core.task_types import AskKind, CancelReason, RowKind
from joey.presentation.phrases import describe_failed_attempt
from joey.presentation.text import to_one_line
from joey.tui.blocks.block_layout import DEFAULT_MARGIN, Block
from joey.tui.blocks.calls import CommandBlock, StreamingCallBlock, ensure_final_newline
from joey.tui.blocks.styled_text import Spans
from joey.tui.blocks.task_blocks import (
    TaskBlocks,
    as_row,
    build_block,
    get_row_kind,
    is_dropped_call,
)
from joey.tui.blocks.text import (
    MarkdownBlock,
    ModelThinkingBlock,
    StaticBlock,
    StreamingResultBlock,
    TransientBlock,
    UserMessageBlock,
    build_error_block,
    build_note_block,
)

MAX_SUBTASK_TITLE_CHARS = 70
_SUBTASK_MARGIN: Spans = ((" ┊ ", "muted"),)


FullOutputReader = Callable[[str, int], str | None]
"""The output of a command that was too long for its row, by the task and the row of the call."""


class Timeline:
    def __init__(self, read_full_output: FullOutputReader | None = None) -> None:
        self._read_full_output = read_full_output
        self.blocks: list[Block] = []
        self._changed_indexes: set[int] = set()
        self._root_task_id = ""
        self._blocks_by_task: dict[str, TaskBlocks] = {}
        self._last_task_id = ""
        """Who spoke last."""

    def load_session(self, session: Session) -> None:
        """Load the past of a task, from its first row on."""
        self._root_task_id = session.id
        self.clear()
        task_blocks = self._blocks_by_task[session.id]
        for number, stored in enumerate(session.rows):
            row = as_row(stored)
            if number == 0 and get_row_kind(row) == RowKind.TEXT:
                self._set_row_block(
                    task_blocks, row, UserMessageBlock(row.text or "", len(row.images))
                )
            elif not is_dropped_call(row):
                self._add_row(task_blocks, row)
        self._report_interruption(task_blocks)
        if not session.is_running:
            self._mark_stopped_commands(task_blocks)

    def clear(self) -> None:
        self.blocks, self._changed_indexes = [], set()
        self._last_task_id = self._root_task_id
        self._blocks_by_task = {}
        if self._root_task_id:
            self._ensure_task_blocks(self._root_task_id)

    def add_or_refresh_block(self, block: Block) -> None:
        """Add or refresh a block that belongs to no task, or that has grown."""
        if 0 <= block.index < len(self.blocks) and self.blocks[block.index] is block:
            self._changed_indexes.add(block.index)
        else:
            self._append_block(block, DEFAULT_MARGIN)

    def pop_changed_indexes(self) -> set[int]:
        """Return the indices of blocks that have changed since the last call."""
        changed, self._changed_indexes = self._changed_indexes, set()
        return changed

    def handle(self, session: Session, event: ev.Event) -> None:
        task_blocks = self._ensure_task_blocks(session.id)
        match event:
            case ev.RowDelta():
                self._append_row_delta(task_blocks, event)
            case ev.ArgumentsDelta():
                self._append_arguments_delta(task_blocks, event)
            case ev.CommandOutputDelta():
                if (call := task_blocks.find_call_for_output(event.ts)) is not None:
                    call.append_output(event.output)
                    self._mark_changed(call)
            case ev.RowOpened():
                self._open_streaming_row(task_blocks, event)
            case ev.RetryCountdown():
                self._show_countdown(task_blocks, event)
            case ev.ReplyReceived():
                task_blocks.record_step(event.ts)
                self._finish_reply(task_blocks, event)
            case ev.CallDropped(ts=ts, tool="attempt_completion", text=text):
                self._add_row(task_blocks, build_complete_row(ts, RowKind.TEXT, text))
            case ev.AskAnswered() if event.answer.approves:
                task_blocks.record_answer(event.ask_ts, event.ts)
                self._mark_changed(task_blocks.record_approval(event.ask_ts, "approved"))
            case ev.AskAnswered():
                self._mark_changed(task_blocks.record_approval(event.ask_ts, "rejected"))
            case ev.AskWithdrawn():
                self._mark_changed(
                    task_blocks.record_approval(event.ask_ts, "rejected", answered=False)
                )
            case ev.ToolFinished(row_ts=int(row_ts)):
                self._mark_changed(task_blocks.finish_call(row_ts, event))
            case _:
                self._handle_lifecycle(task_blocks, event)

    def _handle_lifecycle(self, task_blocks: TaskBlocks, event: ev.Event) -> None:
        match event:
            case ev.UserMessage(is_first=True) if task_blocks.task_id != self._root_task_id:
                task_blocks.label = (
                    f"{task_blocks.label}: {to_one_line(event.text, MAX_SUBTASK_TITLE_CHARS)}"
                )
            case ev.UserMessage(is_first=True):
                first = Row(ts=event.ts, type="say", say=RowKind.TEXT, text=event.text)
                self._set_row_block(
                    task_blocks, first, UserMessageBlock(event.text, len(event.images))
                )
            case ev.SubtaskSpawned(child_id=child_id):
                self._ensure_task_blocks(child_id)
            case ev.ModeSwitched(mode=mode):
                if task_blocks.last_call is None or task_blocks.last_call.row.tool != "switch_mode":
                    self._append_task_block(
                        task_blocks, build_note_block(f"now in {to_one_line(mode)} mode")
                    )
            case ev.TaskAborted():
                self._discard_unfinished(task_blocks)
                self._mark_stopped_commands(task_blocks)
                if task_blocks.task_id == self._root_task_id:
                    self.add_or_refresh_block(build_note_block("interrupted"))
            case ev.TaskFailed(message=message):
                self._discard_unfinished(task_blocks)
                if message != task_blocks.reported_error:
                    self._append_task_block(task_blocks, build_error_block(message))
            case ev.RowAdded(say=RowKind.SUBTASK_RESULT, subtask_id=str(child_id)) if (
                child_id in self._blocks_by_task
            ):
                return  # its own text says it
            case _:
                if isinstance(event, ev.RequestStarted):
                    self._discard_unfinished(task_blocks)
                if isinstance(event, ev.ToolStarted):
                    task_blocks.record_call_start(event.ts)
                if (row := build_row(event)) is not None:
                    self._add_row(task_blocks, row)

    # Rows

    def _add_row(self, task_blocks: TaskBlocks, row: Row) -> None:
        """Add a row in its current state."""
        kind = get_row_kind(row)
        if kind not in (RowKind.CHECKPOINT_SAVED, RowKind.COMMAND_OUTPUT):
            self._mark_changed(task_blocks.end_thinking(row.ts))
        match kind:
            case RowKind.COMMAND_OUTPUT:
                if (call := task_blocks.find_call_for_output(row.ts)) is not None:
                    call.set_output(row.text or "")
                    self._mark_changed(call)
            case RowKind.MCP_SERVER_RESPONSE if (call := task_blocks.last_call) is not None:
                call.append_output(ensure_final_newline(row.text or ""))
                self._mark_changed(call)
            case RowKind.API_REQ_STARTED:
                self._mark_stopped_commands(task_blocks)
                self._report_interruption(task_blocks)
                task_blocks.has_unreported_interruption = f'"{CancelReason.USER_CANCELLED}"' in (
                    row.text or ""
                )
            case _:
                if kind in (RowKind.USER_FEEDBACK, AskKind.RESUME_TASK):
                    self._report_interruption(task_blocks)
                if kind == AskKind.API_REQ_FAILED:
                    task_blocks.reported_error = row.text or ""
                self._set_row_block(task_blocks, row, build_block(row))

    def _set_row_block(self, task_blocks: TaskBlocks, row: Row, block: Block | None) -> None:
        if isinstance(block, CommandBlock) and self._read_full_output is not None:
            block.output_loader = partial(self._read_full_output, task_blocks.task_id, row.ts)
        known = task_blocks.blocks_by_ts.get(row.ts)
        is_result = get_row_kind(row) == RowKind.COMPLETION_RESULT
        if isinstance(known, StreamingResultBlock) and is_result:
            known.finish(row.text or "")
            self._mark_changed(known)
            return
        if known is not None:
            self._replace_block(known, block or StaticBlock(()))
        elif block is not None:
            self._append_task_block(task_blocks, block)
        if block is not None:
            task_blocks.add_block(row, block)

    def _mark_stopped_commands(self, task_blocks: TaskBlocks) -> None:
        for command in task_blocks.mark_stopped_commands():
            self._mark_changed(command)

    def _report_interruption(self, task_blocks: TaskBlocks) -> None:
        if task_blocks.has_unreported_interruption:
            task_blocks.has_unreported_interruption = False
            self._append_task_block(task_blocks, build_note_block("interrupted"))

    # Streaming

    def _open_streaming_row(self, task_blocks: TaskBlocks, event: ev.RowOpened) -> None:
        self._mark_changed(task_blocks.end_thinking(event.ts))
        task_blocks.pending_row_kinds[event.ts] = event.say
        if event.tool == "attempt_completion":
            self._begin_block(task_blocks, event.ts, StreamingResultBlock())
        elif event.tool is not None:
            self._begin_block(task_blocks, event.ts, StreamingCallBlock(event.tool))
        elif event.say == RowKind.CONDENSE_CONTEXT:
            self._begin_block(task_blocks, event.ts, TransientBlock("condensing the conversation…"))

    def _begin_block(self, task_blocks: TaskBlocks, ts: int, block: Block) -> None:
        task_blocks.pending_row_kinds.pop(ts, None)
        task_blocks.add_block(Row(ts=ts, type="say"), block)
        self._append_task_block(task_blocks, block)

    def _append_row_delta(self, task_blocks: TaskBlocks, event: ev.RowDelta) -> None:
        if event.ts in task_blocks.pending_row_kinds and event.delta.strip():
            block = (
                ModelThinkingBlock()
                if task_blocks.pending_row_kinds[event.ts] == RowKind.REASONING
                else MarkdownBlock()
            )
            self._begin_block(task_blocks, event.ts, block)
        match task_blocks.blocks_by_ts.get(event.ts):
            case MarkdownBlock() | ModelThinkingBlock() as block:
                block.feed(event.delta)
                self._mark_changed(block)

    def _append_arguments_delta(self, task_blocks: TaskBlocks, event: ev.ArgumentsDelta) -> None:
        match task_blocks.blocks_by_ts.get(event.ts):
            case StreamingCallBlock() | StreamingResultBlock() as block:
                block.feed(event.delta)
                self._mark_changed(block)

    def _finish_reply(self, task_blocks: TaskBlocks, event: ev.ReplyReceived) -> None:
        self._mark_changed(task_blocks.end_thinking(event.ts))
        for placed in event.parts:
            match placed.part:
                case CallPart():
                    continue
                case ReasoningPart(text=text):
                    say = RowKind.REASONING
                case part:
                    say, text = RowKind.TEXT, part.text
            known = task_blocks.blocks_by_ts.get(placed.ts)
            # What was shown as text may turn out to be reasoning.
            kind = ModelThinkingBlock if say == RowKind.REASONING else MarkdownBlock
            if isinstance(known, kind) and not isinstance(known, StreamingResultBlock):
                known.finish(text)
                self._mark_changed(known)
            elif text.strip():
                self._add_row(task_blocks, build_complete_row(placed.ts, say, text))
        self._discard_unfinished(task_blocks, except_ts={placed.ts for placed in event.parts})

    def _show_countdown(self, task_blocks: TaskBlocks, event: ev.RetryCountdown) -> None:
        text = describe_failed_attempt(event) if event.seconds else ""
        known = task_blocks.blocks_by_ts.get(event.ts)
        if isinstance(known, TransientBlock):
            known.set_text(text)
            self._mark_changed(known)
        elif text:
            self._begin_block(task_blocks, event.ts, TransientBlock(text))

    def _discard_unfinished(
        self, task_blocks: TaskBlocks, except_ts: set[int] | None = None
    ) -> None:
        for ts, block in task_blocks.clear_pending_and_iter_unfinished():
            if ts not in (except_ts or ()):
                del task_blocks.blocks_by_ts[ts]
                self._replace_block(block, StaticBlock(()))

    # Blocks

    def _ensure_task_blocks(self, task_id: str) -> TaskBlocks:
        if task_id not in self._blocks_by_task:
            number = len(self._blocks_by_task)
            is_root = task_id == self._root_task_id
            label = "the task continues" if is_root else f"subtask {number}"
            self._blocks_by_task[task_id] = TaskBlocks(task_id, label)
        return self._blocks_by_task[task_id]

    def _append_task_block(self, task_blocks: TaskBlocks, block: Block) -> None:
        """Append a block, after the name of its task if that changes."""
        if task_blocks.task_id != self._last_task_id:
            self._last_task_id = task_blocks.task_id
            self._append_block(build_note_block(f"┄┄ {task_blocks.label}"), DEFAULT_MARGIN)
        is_root = task_blocks.task_id == self._root_task_id
        self._append_block(block, DEFAULT_MARGIN if is_root else _SUBTASK_MARGIN)

    def _append_block(self, block: Block, margin: Spans) -> None:
        self.blocks.append(block)
        self._place_block(block, len(self.blocks) - 1, margin)

    def _replace_block(self, old: Block, new: Block) -> None:
        self.blocks[old.index] = new
        self._place_block(new, old.index, old.margin)

    def _place_block(self, block: Block, index: int, margin: Spans) -> None:
        block.index, block.margin = index, margin
        is_close = index > 0 and self.blocks[index - 1].is_compact and block.is_compact
        block.gap_lines = 0 if index == 0 or is_close else 1
        self._changed_indexes.add(index)

    def _mark_changed(self, block: Block | None) -> None:
        if block is not None:
            self._changed_indexes.add(block.index)
