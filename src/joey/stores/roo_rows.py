"""Roo's UI rows: put in order, and made from the API messages or turned into them when one of the
two files is lost."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Sequence
from typing import Any

from joey.core.messages import Message, TextBlock, ToolUseBlock, blocks_of, plain_text
from joey.core.prompts.environment import strip_environment
from joey.core.regex import regex
from joey.stores.roo_files import whole_number

Row = dict[str, Any]

_log = logging.getLogger(__name__)
_DELETED = "conversationHistoryDeletedRange"
_NO_TOKENS = {"prevContextTokens": 0, "newContextTokens": 0}
_RESUME_ASKS = ("resume_task", "resume_completed_task")
_WRAPPED = regex(r"\s*<(task|user_message|feedback|answer)>\n?(.*?)\n?</\1>\s*", re.DOTALL)
_ENGINE_SPOKE = regex(r"\[[^\n]*\] Result:|\[TASK RESUMPTION\]|\[ERROR\]")


def convert_rows(raw: list[Any]) -> list[Row]:
    """The rows with unique rising `ts`, nothing streaming any more, and without the loose ends
    that Roo itself takes off before it goes on with a task."""
    rows = [row for row in raw if isinstance(row, dict) and row.get("type") in ("ask", "say")]
    if len(rows) < len(raw):
        _log.warning("%s entries of the UI history are no rows", len(raw) - len(rows))
    return _number(_without_loose_ends(rows))


def is_finished(rows: Sequence[Row]) -> bool:
    """Whether a task came to rest with a result: nothing was said after it was presented."""
    return bool(rows) and rows[-1].get("ask") == "completion_result"


def take_deleted_range(rows: list[Row]) -> range:
    """The places of API messages that Cline no longer sends, after the latest row that tells.

    The rows forget them: they are places in Cline's file, and mean nothing in any other.
    """
    deleted = range(0)
    for place, row in enumerate(rows):
        if _DELETED not in row:
            continue
        match row[_DELETED]:
            case [int(first), int(last)] if 0 < first <= last:
                deleted = range(first, last + 1)
        rows[place] = {name: value for name, value in row.items() if name != _DELETED}
    return deleted


def messages_from_rows(rows: list[Row]) -> list[Any]:
    """What the two sides said, as plain messages: the best there is without the API history."""
    messages: list[Any] = []
    for place, row in enumerate(rows):
        text = _spoken(row)
        if not text:
            continue
        person = place == 0 or row.get("say") == "user_feedback"
        role = "user" if person else "assistant"
        content = [{"type": "text", "text": text}]
        messages.append({"role": role, "ts": row["ts"], "content": content})
    return messages


def rows_from_messages(messages: list[Message]) -> list[Row]:
    """Rows for what was said and called: the best there is without the UI history."""
    rows: list[Row] = []
    for message in messages:
        for row in _rows_of(message, first=not rows):
            rows.append(row | ({"ts": message.ts} if isinstance(message.ts, int) else {}))
    return _number(rows)


def _without_loose_ends(rows: list[Row]) -> list[Row]:
    rows = list(rows)
    while rows and rows[-1].get("ask") in _RESUME_ASKS:
        rows.pop()
    while rows and rows[-1].get("say") == "reasoning":
        rows.pop()
    requests = [place for place, row in enumerate(rows) if row.get("say") == "api_req_started"]
    if requests and not _has_ended(rows[requests[-1]]):
        del rows[requests[-1]]
    return rows


def _has_ended(request: Row) -> bool:
    facts = _json_text(request)
    return facts.get("cost") is not None or facts.get("cancelReason") is not None


def _number(rows: list[Row]) -> list[Row]:
    last = 0
    numbered: list[Row] = []
    for row in rows:
        stamp = row.get("ts")
        last = max(whole_number(stamp) or 0, last + 1)
        if type(stamp) is int and stamp == last and not row.get("partial"):
            numbered.append(row)
        else:
            whole = {"partial": False} if row.get("partial") else {}
            numbered.append(row | {"ts": last} | whole)
    return numbered


def _spoken(row: Row) -> str:
    text = row.get("text")
    if not isinstance(text, str):
        return ""
    match row:
        case {"ask": "followup"}:
            return str(_json_text(row).get("question") or text).strip()
        case {"ask": "plan_mode_respond"}:
            return str(_json_text(row).get("response") or text).strip()
        case {"say": "task" | "text" | "user_feedback" | "completion_result"}:
            return text.strip()
        case {"ask": "request_limit_reached"}:
            return text.strip()
    return ""


def _json_text(row: Row) -> dict[str, Any]:
    """The JSON object that some kinds of row carry as their text; empty if it is not one."""
    try:
        value = json.loads(row.get("text") or "{}")
    except (TypeError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _rows_of(message: Message, first: bool) -> Iterator[Row]:
    if message.is_summary or message.is_truncation_marker:
        yield _hiding_row(message)
        return
    if message.role == "user":
        for words in _words(message):
            yield {"type": "say", "say": "text" if first else "user_feedback", "text": words}
            first = False
        return
    for block in blocks_of(message):
        match block:
            case TextBlock(text=text) if text.strip():
                yield {"type": "say", "say": "text", "text": text}
            case ToolUseBlock(name="attempt_completion", input=arguments):
                result = str(arguments.get("result", ""))
                yield {"type": "say", "say": "completion_result", "text": result}
            case ToolUseBlock(name=name, input=arguments):
                yield _tool_row(name, arguments)


def _hiding_row(message: Message) -> Row:
    """The row that a rewind has to take away for what is hidden to come back."""
    if message.is_truncation_marker:
        truncation = {"truncationId": message.truncation_id or "", "messagesRemoved": 0}
        told: Row = {"contextTruncation": truncation | _NO_TOKENS}
        return {"type": "say", "say": "sliding_window_truncation"} | told
    summary = plain_text(blocks_of(message))
    condensed = {"condenseId": message.condense_id or "", "summary": summary, "cost": 0}
    return {"type": "say", "say": "condense_context", "contextCondense": condensed | _NO_TOKENS}


def _words(message: Message) -> Iterator[str]:
    """What the person wrote, without the tags around it and without what the engine added.

    Where the engine put results into the text (XML tasks), only tagged words are the person's.
    """
    blocks = strip_environment(blocks_of(message))
    said = [block.text for block in blocks if isinstance(block, TextBlock) and block.text.strip()]
    mixed = any(_ENGINE_SPOKE.match(text) for text in said)
    for text in said:
        if match := _WRAPPED.fullmatch(text):
            yield match[2]
        elif not mixed:
            yield text


def _tool_row(name: str, arguments: dict[str, Any]) -> Row:
    row: Row = {"type": "say", "say": "tool", "tool": name, "approvalState": "approved"}
    shown: Row = {"tool": name}
    if isinstance(path := arguments.get("path"), str):
        row["path"] = shown["path"] = path
    return row | {"text": json.dumps(shown, ensure_ascii=False)}
