"""Rows of a task as blocks: what each kind of row looks like."""

from __future__ import annotations

from typing import Any

import msgspec

from joey.core.events import ContextCondensed, ContextTruncated
from joey.core.history.ui import Row
from joey.presentation.phrases import COMMAND_TOOL, mishap, shrinkage, trouble
from joey.presentation.questions import follow_up
from joey.presentation.text import one_line
from joey.presentation.tool_calls import row_facts
from joey.tui.blocks.block import Block
from joey.tui.blocks.calls import Call, Command, ToolCall
from joey.tui.blocks.words import Prose, Said, Thinking, error, note, question, result

LONGEST_ERROR = 2_000
_CALLS = frozenset({"tool", "command", "use_mcp_server", "browser_action_launch"})


def as_row(row: Row | dict[str, Any]) -> Row:
    """Rows that others wrote may have fields of another shape; then only their words count."""
    if isinstance(row, Row):
        return row
    try:
        return msgspec.convert(row, Row)
    except msgspec.ValidationError:
        plain = {key: value for key, value in row.items() if isinstance(value, str)}
        kind = {"type": "ask"} if "ask" in plain else {"type": "say"}
        words = {key: plain.get(key) for key in ("ask", "say", "text", "tool", "path", "diff")}
        ts = row.get("ts")
        return msgspec.convert(
            {"ts": int(ts) if isinstance(ts, int | float) else 0, **kind, **words}, Row
        )


def kind_of(row: Row) -> str:
    return row.ask or row.say or ""


def block_of(row: Row) -> Block | None:
    """What a row shows by itself; None when nothing."""
    text = row.text or ""
    match kind_of(row):
        case "user_feedback":
            return Said(text, len(row.images))
        case "text" if text.strip():
            return Prose(text)
        case "reasoning" if text.strip():
            return Thinking(text)
        case kind if kind in _CALLS:
            return call_of(row)
        case "completion_result" if row.say and text.strip():
            return result(text)
        case "subtask_result" if text.strip():
            return result(text, " of the subtask")
        case "followup":
            return question(follow_up(text).question)
        case "browser_action_result":
            return _page(text)
        case _:
            return _told(row, text)


def call_of(row: Row) -> Call:
    return Command(row) if row.tool == COMMAND_TOOL or row.ask == "command" else ToolCall(row)


def _told(row: Row, text: str) -> Block | None:
    """What joey says about the work."""
    match kind_of(row):
        case "error" | "diff_error" if text.strip():
            return error(_cut(mishap(text)))
        case "rooignore_error" if text:
            return error(f"{one_line(text)} is hidden by .rooignore")
        case "hook_message" if text:
            return note(_cut(text))
        case "condense_context_error" if text:
            return note(f"not condensed: {_cut(text)}")
        case "api_req_retry_delayed" if text:
            return note(one_line(mishap(trouble(text)), 400))
        case "condense_context" | "sliding_window_truncation":
            return _shrunk(row)
        case "api_req_failed" | "mistake_limit_reached" if text:
            return error(_cut(mishap(text)))
        case "auto_approval_max_req_reached":
            limit = row_facts(text)
            return note(f"the limit of {limit.get('count')} {limit.get('type')} is reached")
        case _:
            return None


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_ERROR else f"{text[:LONGEST_ERROR]}…"


def _shrunk(row: Row) -> Block | None:
    if (told := row.context_condense) is not None:
        condensed = ContextCondensed(
            ts=row.ts,
            condense_id=told.condense_id,
            summary="",
            content=(),
            tokens_before=told.prev_context_tokens,
            tokens_after=told.new_context_tokens,
            cost=told.cost,
        )
        return note(shrinkage(condensed))
    if (cut := row.context_truncation) is not None:
        truncated = ContextTruncated(
            ts=row.ts,
            truncation_id=cut.truncation_id,
            messages=cut.messages_removed,
            tokens_before=cut.prev_context_tokens,
            tokens_after=cut.new_context_tokens,
        )
        return note(shrinkage(truncated))
    return None


def _page(text: str) -> Block | None:
    """Where a browser is, and the last words of its console."""
    seen = row_facts(text)
    where = one_line(str(seen.get("currentUrl") or ""), 200)
    logs = str(seen.get("logs") or "").strip()
    lines = [f"  page: {where}"] if where else []
    lines += [f"  console: {one_line(logs, 400)}"] if logs else []
    return note("\n".join(lines)) if lines else None
