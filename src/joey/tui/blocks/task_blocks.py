"""Rows of a task as blocks.

`build_block` builds the block of a row by its kind; `TaskBlocks` keeps track of which block shows
which row of one task, and which are still incomplete.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec
from msgspec import structs

from joey.core.events import AskOpened, ContextCondensed, ContextTruncated, ToolFinished
from joey.core.history.ui import ApprovalState, Row, get_result_fields
from joey.core.task_types import AskKind, RowKind
from joey.core.tool_calls import COMMAND_TOOL_NAME, decode_row
from joey.presentation.phrases import describe_condense, describe_error, describe_provider_error
from joey.presentation.questions import build_ask_view, parse_follow_up
from joey.presentation.text import to_one_line
from joey.tui.blocks.block_layout import Block
from joey.tui.blocks.calls import CallBlock, CommandBlock, StreamingCallBlock, ToolCallBlock
from joey.tui.blocks.text import (
    MarkdownBlock,
    ModelThinkingBlock,
    StreamingResultBlock,
    TransientBlock,
    UserMessageBlock,
    build_error_block,
    build_note_block,
    build_question_block,
    build_result_block,
)

MAX_ERROR_CHARS = 2_000
_CALL_ROW_KINDS = frozenset(
    {RowKind.TOOL, AskKind.COMMAND, AskKind.USE_MCP_SERVER, AskKind.BROWSER_ACTION_LAUNCH}
)


def as_row(row: Row | dict[str, Any]) -> Row:
    """Convert a stored row; one from another program may have fields of another type, in which case
    only its text is used."""
    if isinstance(row, Row):
        return row
    try:
        return msgspec.convert(row, Row)
    except msgspec.ValidationError:
        plain = {key: value for key, value in row.items() if isinstance(value, str)}
        fields = {key: plain.get(key) for key in ("ask", "say", "text", "tool", "path", "diff")}
        ts = row.get("ts")
        return msgspec.convert(
            {
                "ts": int(ts) if isinstance(ts, int | float) else 0,
                "type": "ask" if "ask" in plain else "say",
                **fields,
            },
            Row,
        )


def get_row_kind(row: Row) -> str:
    return row.ask or row.say or ""


def is_dropped_call(row: Row) -> bool:
    """Whether the call was discarded; the reason has a separate row."""
    is_decided = row.approval_state is not None
    return row.say == RowKind.TOOL and row.partial is not None and not is_decided


def build_block(row: Row) -> Block | None:
    """Build the block of a row; None if it shows nothing."""
    text = row.text or ""
    match get_row_kind(row):
        case RowKind.USER_FEEDBACK:
            return UserMessageBlock(text, len(row.images))
        case RowKind.TEXT if text.strip():
            return MarkdownBlock(text)
        case RowKind.REASONING if text.strip():
            return ModelThinkingBlock(text)
        case kind if kind in _CALL_ROW_KINDS:
            return build_call_block(row)
        case RowKind.COMPLETION_RESULT if row.say and text.strip():
            return MarkdownBlock(text) if row.tool else build_result_block(text)
        case RowKind.SUBTASK_RESULT if text.strip():
            return build_result_block(text, " of the subtask")
        case AskKind.FOLLOWUP:
            return build_question_block(parse_follow_up(text).question)
        case RowKind.BROWSER_ACTION_RESULT:
            return _build_browser_block(text)
        case _:
            return _build_status_block(row, text)


def build_call_block(row: Row) -> CallBlock:
    return (
        CommandBlock(row)
        if row.tool == COMMAND_TOOL_NAME or row.ask == AskKind.COMMAND
        else ToolCallBlock(row)
    )


def _build_status_block(row: Row, text: str) -> Block | None:
    """Build a block for joey's messages about the task."""
    match get_row_kind(row):
        case RowKind.ERROR | RowKind.DIFF_ERROR if text.strip():
            return build_error_block(_truncate_error(describe_error(text)))
        case RowKind.ROOIGNORE_ERROR if text:
            return build_error_block(f"{to_one_line(text)} is hidden by .rooignore")
        case RowKind.HOOK_MESSAGE if text:
            return build_note_block(_truncate_error(text))
        case RowKind.CONDENSE_CONTEXT_ERROR if text:
            return build_note_block(f"not condensed: {_truncate_error(text)}")
        case RowKind.API_REQ_RETRY_DELAYED if text:
            return build_note_block(to_one_line(describe_error(describe_provider_error(text)), 400))
        case RowKind.CONDENSE_CONTEXT | RowKind.SLIDING_WINDOW_TRUNCATION:
            return _build_condense_block(row)
        case AskKind.API_REQ_FAILED | AskKind.MISTAKE_LIMIT_REACHED if text:
            return build_error_block(_truncate_error(describe_error(text)))
        case AskKind.LIMIT_REACHED:
            ask = AskOpened(ts=row.ts, ask=AskKind.LIMIT_REACHED, text=text)
            return build_note_block(build_ask_view(ask).text)
        case _:
            return None


def _truncate_error(text: str) -> str:
    return text if len(text) <= MAX_ERROR_CHARS else f"{text[:MAX_ERROR_CHARS]}…"


def _build_condense_block(row: Row) -> Block | None:
    if (details := row.context_condense) is not None:
        condensed = ContextCondensed(
            ts=row.ts,
            condense_id=details.condense_id,
            summary="",
            content=(),
            tokens_before=details.prev_context_tokens,
            tokens_after=details.new_context_tokens,
            cost=details.cost,
        )
        return build_note_block(describe_condense(condensed))
    if (cut := row.context_truncation) is not None:
        truncated = ContextTruncated(
            ts=row.ts,
            truncation_id=cut.truncation_id,
            hidden_message_count=cut.messages_removed,
            tokens_before=cut.prev_context_tokens,
            tokens_after=cut.new_context_tokens,
        )
        return build_note_block(describe_condense(truncated))
    return None


def _build_browser_block(text: str) -> Block | None:
    """Build a block for the browser's address and its last console messages."""
    seen = decode_row(text)
    where = to_one_line(str(seen.get("currentUrl") or ""), 200)
    logs = str(seen.get("logs") or "").strip()
    lines = [f"  page: {where}"] if where else []
    lines += [f"  console: {to_one_line(logs, 400)}"] if logs else []
    return build_note_block("\n".join(lines)) if lines else None


MAX_THINKING_S = 3_600
"""Longer pauses are not thinking: the user was away."""
MAX_SEARCHED_BLOCKS = 100
"""Those of one reply, and some more."""


class TaskBlocks:
    def __init__(self, task_id: str, label: str) -> None:
        self.task_id = task_id
        self.label = label
        self.blocks_by_ts: dict[int, Block] = {}
        self.pending_row_kinds: dict[int, str] = {}
        """Rows that began to stream and have shown nothing yet: what they are."""
        self.has_unreported_interruption = False
        """The last request was stopped, and that is still to be told."""
        self.reported_error = ""
        """Why a request failed last, as it was told already."""
        self.last_call: CallBlock | None = None
        self._calls_by_output_ts: dict[int, CallBlock] = {}
        """Whose output a row shows."""
        self._call_start_times: dict[int, int] = {}
        """When calls began to run."""
        self._previous_step_ts = 0
        """The end of what calls wait for: the reply, an answer of the user, the call before."""
        self._open_thinking: tuple[int, ModelThinkingBlock] | None = None

    def add_block(self, row: Row, block: Block) -> None:
        self.blocks_by_ts[row.ts] = block
        if isinstance(block, CallBlock):
            self.last_call = block
        if isinstance(block, ModelThinkingBlock):
            self._open_thinking = (row.ts, block)

    def find_call_for_output(self, ts: int) -> CallBlock | None:
        """Find the call whose output a row shows: the last one when the output began."""
        if self.last_call is not None:
            self._calls_by_output_ts.setdefault(ts, self.last_call)
        return self._calls_by_output_ts.get(ts)

    def record_approval(
        self, ts: int, approval: ApprovalState, *, answered: bool = True
    ) -> CallBlock | None:
        call = self.blocks_by_ts.get(ts)
        if not isinstance(call, CallBlock) or call.row.approval_state is None:
            return None
        said = True if answered else None
        call.update_row(structs.replace(call.row, approval_state=approval, is_answered=said))
        return call

    def record_step(self, ts: int) -> None:
        self._previous_step_ts = max(self._previous_step_ts, ts)

    def record_call_start(self, row_ts: int) -> None:
        """Record that a call is about to run; its row exists since the model began to write it."""
        self._call_start_times[row_ts] = max(row_ts, self._previous_step_ts)

    def record_answer(self, row_ts: int, ts: int) -> None:
        """Record an answer: the calls that waited for it have not run before."""
        self.record_step(ts)
        for waiting_row_ts in (*self._call_start_times, row_ts):
            self._call_start_times[waiting_row_ts] = ts

    def finish_call(self, row_ts: int, event: ToolFinished) -> CallBlock | None:
        call = self.blocks_by_ts.get(row_ts)
        if not isinstance(call, CallBlock):
            return None
        call.update_row(structs.replace(call.row, **get_result_fields(event)))
        self.record_step(event.ts)
        if (begun := self._call_start_times.pop(row_ts, None)) is not None:
            call.set_duration((event.ts - begun) / 1000)
        return call

    def mark_stopped_commands(self) -> list[CommandBlock]:
        """Mark the commands that can have no end any more, and return them."""
        latest = islice(reversed(self.blocks_by_ts.values()), MAX_SEARCHED_BLOCKS)
        return [each for each in latest if isinstance(each, CommandBlock) and each.mark_stopped()]

    def end_thinking(self, now: int) -> ModelThinkingBlock | None:
        """End the thinking because something else begins, so that its duration is known."""
        if self._open_thinking is None:
            return None
        (begun, block), self._open_thinking = self._open_thinking, None
        seconds = (now - begun) // 1000
        block.set_duration(seconds if 0 < seconds < MAX_THINKING_S else 0)
        return block

    def clear_pending_and_iter_unfinished(self) -> Iterator[tuple[int, Block]]:
        """Clear pending blocks, and iterate over those that will never be completed."""
        self.pending_row_kinds.clear()
        for ts, block in [*islice(reversed(self.blocks_by_ts.items()), MAX_SEARCHED_BLOCKS)]:
            coming = isinstance(block, StreamingResultBlock) and not block.is_finished
            if coming or isinstance(block, StreamingCallBlock | TransientBlock):
                yield ts, block
