"""Conversion of Roo's histories: API messages, UI rows, their timestamps.

Roo marks messages as hidden (condensed or truncated) instead of removing them, and so does joey:
they become visible again when a rewind removes what hides them. Calls and results are repaired when
they are shown. If one of the two history files is lost, its content is rebuilt from the other one.

A rewind cuts both histories at one moment, so every message needs a time on the clock of the rows.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import UNSET, UnsetType, ValidationError, convert, structs

from joey.core.messages import (
    Block,
    ImageBlock,
    ImageSource,
    Message,
    RedactedThinkingBlock,
    ReplySource,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnsignedReasoningBlock,
    extract_text,
    get_blocks,
)
from joey.core.prompts.environment import strip_environment_details
from joey.core.task_types import AskKind, RowKind
from joey.core.text import compile_regex
from joey.core.tool_calls import COMMAND_TOOL_NAME, parse_plain_text
from joey.storage.roo_files import RooRow, get_text, to_integer

_log = logging.getLogger(__name__)
_CONDENSE_AND_TRUNCATION_KEYS = frozenset(
    {"isSummary", "condenseParent", "isTruncationMarker", "truncationParent", "shownLength"}
)
_INVALID_BLOCK_TYPES: dict[str, frozenset[type]] = {
    "user": frozenset({ThinkingBlock, RedactedThinkingBlock, UnsignedReasoningBlock}),
    "assistant": frozenset({ImageBlock}),
}
"""Only people send images, and only models think."""


def convert_messages(rows: list[Any], deleted: range = range(0)) -> list[Message]:
    """Convert all messages, hidden or not. `deleted` are the indices of messages that Cline has
    permanently hidden."""
    kept = [row for place, row in enumerate(rows) if place not in deleted] if deleted else rows
    found = [row for row in kept if isinstance(row, dict)]
    if len(found) < len(kept):
        _log.warning("%s entries of the history are not messages", len(kept) - len(found))
    return _clear_invalid_parents(
        [message for message in map(_convert_message, found) if message is not None]
    )


def _clear_invalid_parents(messages: list[Message]) -> list[Message]:
    """Remove invalid references: what hides a message always comes after it. So the end of a
    history is always visible."""
    if not any(message.condense_parent or message.truncation_parent for message in messages):
        return messages
    later: set[str] = set()
    for place in reversed(range(len(messages))):
        message = messages[place]
        parents = (message.condense_parent, message.truncation_parent)
        if any(isinstance(parent, str) and parent not in later for parent in parents):
            condensed, truncated = (p if p in later else UNSET for p in parents)
            messages[place] = structs.replace(
                message, condense_parent=condensed, truncation_parent=truncated
            )
        later.update(n for n in (message.condense_id, message.truncation_id) if n)
    return messages


def _convert_message(row: dict[str, Any]) -> Message | None:
    role, content = row.get("role"), row.get("content")
    if role not in ("user", "assistant"):
        _log.warning("a message with the role %r was left out", role)
        return None
    if not isinstance(content, str):
        blocks = content if isinstance(content, list) else []
        content = tuple(filter(None, map(_convert_block, blocks)))
        if not _INVALID_BLOCK_TYPES[role].isdisjoint(map(type, content)):
            content = tuple(_replace_invalid_blocks(role, content))
    if not content or (isinstance(content, str) and not content.strip()):
        return None
    details, identity = row.get("reasoning_details"), row.get("id")
    ts = to_integer(row.get("ts"))
    message = Message(
        role=role,
        content=content,
        ts=UNSET if ts is None else ts,
        id=identity if isinstance(identity, str) else UNSET,
        reasoning_details=tuple(details) if isinstance(details, list) and details else UNSET,
        reasoning_content=_read_optional_text(row, "reasoning_content"),
        source=_read_source(row.get("source")),
    )
    if _CONDENSE_AND_TRUNCATION_KEYS.isdisjoint(row):
        return message
    return structs.replace(
        message,
        is_summary=bool(row.get("isSummary")),
        condense_id=_read_optional_text(row, "condenseId") if row.get("isSummary") else UNSET,
        condense_parent=_read_optional_text(row, "condenseParent"),
        is_truncation_marker=bool(row.get("isTruncationMarker")),
        truncation_id=_read_optional_text(row, "truncationId")
        if row.get("isTruncationMarker")
        else UNSET,
        truncation_parent=_read_optional_text(row, "truncationParent"),
        max_text_chars=to_integer(row.get("shownLength")) or UNSET,
    )


def _read_optional_text(row: dict[str, Any], key: str) -> str | UnsetType:
    return get_text(row, key) or UNSET


def _read_source(value: Any) -> ReplySource | UnsetType:
    """Read the source, which rows written by joey name."""
    try:
        return UNSET if value is None else convert(value, ReplySource)
    except ValidationError:
        return UNSET  # another program's value


def _replace_invalid_blocks(role: str, blocks: tuple[Block, ...]) -> Iterator[Block]:
    for block in blocks:
        if type(block) not in _INVALID_BLOCK_TYPES[role]:
            yield block
        elif role == "assistant":
            yield TextBlock("[image]")
        else:
            _log.warning("a thinking block in a user message was left out")


def _convert_block(raw: Any) -> Block | None:
    if not isinstance(raw, dict):
        return _convert_text({"text": raw})
    kind = raw.get("type")
    if isinstance(kind, str) and (made := _BLOCK_CONVERTERS.get(kind)) is not None:
        return made(raw)
    if (block := _convert_text(raw)) is None and not isinstance(raw.get("text"), str):
        _log.warning("a block of the kind %r was left out", kind)
    return block


def _convert_text(raw: dict[str, Any]) -> TextBlock | None:
    text = raw.get("text")
    return TextBlock(text) if isinstance(text, str) and text.strip() else None


def _convert_thinking(raw: dict[str, Any]) -> Block | None:
    text, signature = raw.get("thinking"), raw.get("signature")
    if not isinstance(text, str):
        return _convert_text(raw)
    if isinstance(signature, str) and signature:
        return ThinkingBlock(thinking=text, signature=signature)
    return UnsignedReasoningBlock(text=text)


def _convert_tool_use(raw: dict[str, Any]) -> Block | None:
    name, given = raw.get("name"), raw.get("input")
    if not isinstance(name, str):
        return _convert_text(raw)
    arguments = given if isinstance(given, dict) else {}
    extra = raw.get("extra_content")
    return ToolUseBlock(
        id=str(raw.get("id") or ""),
        name=name,
        input=arguments,
        extra_content=extra if isinstance(extra, dict) else None,
    )


def _convert_tool_result(raw: dict[str, Any]) -> Block:
    content = raw.get("content")
    if not isinstance(content, str):
        blocks = map(_convert_block, content) if isinstance(content, list) else ()
        content = [block for block in blocks if isinstance(block, TextBlock | ImageBlock)]
    return ToolResultBlock(
        tool_use_id=str(raw.get("tool_use_id") or ""),
        content=content,
        is_error=raw.get("is_error") is True,
    )


def _convert_image(raw: dict[str, Any]) -> ImageBlock | TextBlock | None:
    match raw.get("source"):
        case {"media_type": str(media_type), "data": str(data)}:
            return ImageBlock(ImageSource(media_type=media_type, data=data))
        case {"url": str(url)}:
            return TextBlock(f"[image: {url}]")
    _log.warning("an image without data was left out")
    return None


def _convert_reasoning(raw: dict[str, Any]) -> UnsignedReasoningBlock:
    summary, encrypted, identity = map(raw.get, ("summary", "encrypted_content", "id"))
    return UnsignedReasoningBlock(
        text=get_text(raw, "text"),
        summary=tuple(summary) if isinstance(summary, list) else (),
        encrypted_content=encrypted if isinstance(encrypted, str) else None,
        id=identity if isinstance(identity, str) else None,
    )


def iter_texts(messages: Iterable[Message], role: str) -> Iterator[str]:
    """Iterate over every text of one side, in order."""
    for message in messages:
        if message.role == role:
            for block in get_blocks(message):
                if isinstance(block, TextBlock):
                    yield block.text


_BLOCK_CONVERTERS: dict[str, Callable[[dict[str, Any]], Block | None]] = {
    "text": _convert_text,
    "image": _convert_image,
    "thinking": _convert_thinking,
    "redacted_thinking": lambda raw: (
        RedactedThinkingBlock(raw["data"])
        if isinstance(raw.get("data"), str)
        else _convert_text(raw)
    ),
    "reasoning": _convert_reasoning,
    "tool_use": _convert_tool_use,
    "tool_result": _convert_tool_result,
    # Only useful for the model that signed it.
    "thoughtSignature": lambda raw: None,
}


_DELETED_RANGE_KEY = "conversationHistoryDeletedRange"
_UNKNOWN_CONTEXT_TOKENS = {"prevContextTokens": 0, "newContextTokens": 0}
_SPOKEN_SAY_KINDS = (
    RowKind.CLINE_TASK,
    RowKind.TEXT,
    RowKind.USER_FEEDBACK,
    RowKind.COMPLETION_RESULT,
)
_RESUME_ASKS = (AskKind.RESUME_TASK, AskKind.RESUME_COMPLETED_TASK)
_USER_TAG_RE = compile_regex(
    r"\s*<(task|user_message|feedback|answer)>\n?(.*?)\n?</\1>\s*", re.DOTALL
)
_ENGINE_TEXT_RE = compile_regex(r"\[[^\n]*\] Result:|\[TASK RESUMPTION\]|\[ERROR\]")


def normalize_rows(raw: list[Any]) -> list[RooRow]:
    """Normalize rows: unique increasing `ts`, no streaming rows, and without the loose ends that
    Roo itself removes before resuming a task."""
    rows = [row for row in raw if isinstance(row, dict) and row.get("type") in ("ask", "say")]
    if len(rows) < len(raw):
        _log.warning("%s entries of the UI history are not rows", len(raw) - len(rows))
    return assign_row_timestamps(_trim_unfinished_rows(rows))


def to_roo_call_row(row: RooRow) -> RooRow:
    """Convert a call that the rules allowed into one that was asked and answered: Roo's chat shows
    few others."""
    if row.get("say") != RowKind.TOOL or row.get("approvalState") is None:
        return row
    tool, text = str(row.get("tool")), str(row.get("text") or "")
    plain, call = parse_plain_text(tool, text), _parse_json_text(row)
    ask = AskKind.USE_MCP_SERVER if "serverName" in call else AskKind.TOOL
    if plain != text:
        is_command = tool == COMMAND_TOOL_NAME
        ask = AskKind.COMMAND if is_command else AskKind.BROWSER_ACTION_LAUNCH
    elif tool == "browser_action":
        del call["tool"]
        return row | {"say": "browser_action", "text": json.dumps(call, ensure_ascii=False)}
    rest = {name: value for name, value in row.items() if name != "say"}
    return rest | {"type": "ask", "ask": ask, "text": plain, "isAnswered": True}


def pop_deleted_range(rows: list[RooRow]) -> range:
    """Return the indices of API messages that Cline no longer sends, from the latest row that has
    them, and remove them from the rows: they are only valid in Cline's file."""
    deleted = range(0)
    for place, row in enumerate(rows):
        if _DELETED_RANGE_KEY not in row:
            continue
        match row[_DELETED_RANGE_KEY]:
            case [int(first), int(last)] if 0 < first <= last:
                deleted = range(first, last + 1)
        rows[place] = {name: value for name, value in row.items() if name != _DELETED_RANGE_KEY}
    return deleted


def build_messages_from_rows(rows: list[RooRow]) -> list[Any]:
    """Build plain messages of both sides: the best possible without the API history."""
    messages: list[Any] = []
    for place, row in enumerate(rows):
        if not (text := _extract_spoken_text(row)):
            continue
        user = place == 0 or row.get("say") == RowKind.USER_FEEDBACK
        role = "user" if user else "assistant"
        content = [{"type": "text", "text": text}]
        messages.append({"role": role, "ts": row["ts"], "content": content})
    return messages


def build_rows_from_messages(messages: list[Message]) -> list[RooRow]:
    """Build rows for messages and calls: the best possible without the UI history."""
    rows: list[RooRow] = []
    for message in messages:
        for row in _derive_rows_from_message(message, first=not rows):
            rows.append(row | ({"ts": message.ts} if isinstance(message.ts, int) else {}))
    return assign_row_timestamps(rows)


def _trim_unfinished_rows(rows: list[RooRow]) -> list[RooRow]:
    rows = list(rows)
    while rows and rows[-1].get("ask") in _RESUME_ASKS:
        rows.pop()
    while rows and rows[-1].get("say") == RowKind.REASONING:
        rows.pop()
    for place in reversed(range(len(rows))):
        if rows[place].get("say") == RowKind.API_REQ_STARTED:
            facts = _parse_json_text(rows[place])
            if facts.get("cost") is None and facts.get("cancelReason") is None:
                del rows[place]
            break
    return rows


def assign_row_timestamps(rows: list[RooRow]) -> list[RooRow]:
    """The rows with times that increase: Roo tells rows apart by them."""
    last = 0
    numbered: list[RooRow] = []
    for row in rows:
        last = max(to_integer(row.get("ts")) or 0, last + 1)
        numbered.append(row | {"ts": last} | ({"partial": False} if row.get("partial") else {}))
    return numbered


def _extract_spoken_text(row: RooRow) -> str:
    text = row.get("text")
    if not isinstance(text, str):
        return ""
    match row:
        case {"ask": AskKind.FOLLOWUP}:
            return str(_parse_json_text(row).get("question") or text).strip()
        case {"ask": "plan_mode_respond"}:
            return str(_parse_json_text(row).get("response") or text).strip()
        case {"ask": "request_limit_reached"}:
            return text.strip()
    return text.strip() if row.get("say") in _SPOKEN_SAY_KINDS else ""


def _parse_json_text(row: RooRow) -> dict[str, Any]:
    """Parse the JSON object in the text of some kinds of rows; empty if it is not one."""
    try:
        value = json.loads(row.get("text") or "{}")
    except (TypeError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _derive_rows_from_message(message: Message, first: bool) -> Iterator[RooRow]:
    if message.is_summary or message.is_truncation_marker:
        yield _build_condense_or_truncation_row(message)
        return
    if message.role == "user":
        for user_text in _extract_user_texts(message):
            kind = RowKind.TEXT if first else RowKind.USER_FEEDBACK
            yield {"type": "say", "say": kind, "text": user_text}
            first = False
        return
    for block in get_blocks(message):
        match block:
            case TextBlock(text=text) if text.strip():
                yield {"type": "say", "say": RowKind.TEXT, "text": text}
            case ToolUseBlock(name="attempt_completion", input=arguments):
                result = str(arguments.get("result", ""))
                yield {"type": "say", "say": RowKind.COMPLETION_RESULT, "text": result}
            case ToolUseBlock(name=name, input=arguments):
                named: RooRow = {"tool": name}
                if isinstance(path := arguments.get("path"), str):
                    named["path"] = path
                row: RooRow = {"type": "say", "say": RowKind.TOOL, "tool": name}
                row |= {"approvalState": "approved"} | named
                yield row | {"text": json.dumps(named, ensure_ascii=False)}


def _build_condense_or_truncation_row(message: Message) -> RooRow:
    """Build the row whose removal by a rewind makes the hidden messages visible again."""
    if message.is_truncation_marker:
        truncation = {"truncationId": message.truncation_id or "", "messagesRemoved": 0}
        details: RooRow = {"contextTruncation": truncation | _UNKNOWN_CONTEXT_TOKENS}
        return {"type": "say", "say": RowKind.SLIDING_WINDOW_TRUNCATION} | details
    summary = extract_text(get_blocks(message))
    condensed = {"condenseId": message.condense_id or "", "summary": summary, "cost": 0}
    details = {"contextCondense": condensed | _UNKNOWN_CONTEXT_TOKENS}
    return {"type": "say", "say": RowKind.CONDENSE_CONTEXT} | details


def _extract_user_texts(message: Message) -> Iterator[str]:
    """Extract the user's text, without tags and additions of the engine. If the engine put results
    into the text (XML tasks), only tagged text is the user's."""
    blocks = strip_environment_details(get_blocks(message))
    said = [block.text for block in blocks if isinstance(block, TextBlock) and block.text.strip()]
    mixed = any(_ENGINE_TEXT_RE.match(text) for text in said)
    for text in said:
        if match := _USER_TAG_RE.fullmatch(text):
            yield match[2]
        elif not mixed:
            yield text


def assign_message_timestamps(messages: list[Message], rows: list[RooRow]) -> list[Message]:
    """Give each message a time: its own, or that of the one before it. If none has one, or all are
    later than every row, times are derived from the rows."""
    own = [message.ts for message in messages if isinstance(message.ts, int)]
    if len(own) == len(messages) and min(own) <= rows[-1]["ts"]:
        return messages
    if not own or min(own) > rows[-1]["ts"]:
        return [
            structs.replace(m, ts=ts) for m, ts in _derive_timestamps_from_requests(messages, rows)
        ]
    known: list[Message] = []
    last = rows[0]["ts"]
    for message in messages:
        last = message.ts if isinstance(message.ts, int) else last
        known.append(structs.replace(message, ts=last))
    return known


def _derive_timestamps_from_requests(
    messages: list[Message], rows: list[RooRow]
) -> Iterator[tuple[Message, int]]:
    """Derive times: a request carries a user message, and the reply ends before the next
    request."""
    end = rows[-1]["ts"]
    requests = [row["ts"] for row in rows if row.get("say") == RowKind.API_REQ_STARTED]
    number, before = -1, "assistant"
    for message in messages:
        if message.role == "user":
            number += before == "assistant"
            ts = rows[0]["ts"] if number <= 0 else _get_request_timestamp(requests, number, end)
        else:
            ts = _get_request_timestamp(requests, max(number, 0) + 1, end + 1) - 1
        before = message.role
        yield message, ts


def _get_request_timestamp(requests: list[int], number: int, end: int) -> int:
    return requests[number] if number < len(requests) else end
