"""Imported API histories: repaired for the services, or cut at one of their rows.

A service rejects a history that begins with a reply, in which a call has no result right after it,
a result has no call, or two calls share an id. Roo's files may hold all of these (a kill between
two saves, models that count their ids from one in each reply), and Roo repairs them when it sends
them. So does joey: which messages are visible depends on the summaries and markers, and a rewind
may remove some. Hidden messages stay as they were written.

Rows and messages of an imported history have independent timestamps, in this order: the row of a
request, the message that the request carries, rows of the reply while it streams, the reply, rows
of its calls. So a cut that removes the rows of a reply removes the reply, one that removes a
request keeps the message it carried, and one that removes a user's message in the rows removes the
API message that contains it. Messages hidden by a summary or a marker are visible again when its
row is removed, because it is removed too.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Struct, structs

from joey.core import messages as msg
from joey.core.events import TaskImported
from joey.core.history.visible import find_visible_indices, merge_messages
from joey.core.models import ToolProtocol
from joey.core.prompts.environment import strip_environment_details
from joey.core.prompts.messages_to_model import (
    EMPTY_RESULT_TEXT,
    INTERRUPTED_CALL_TEXT,
    render_result_header,
)
from joey.core.task_types import RowKind
from joey.core.text import compile_regex

NO_ANSWER_TEXT = "[The model gave no answer.]"
_PORTABLE_ID_RE = compile_regex(r"[A-Za-z0-9_-]{1,64}")
_INVALID_ID_CHARS_RE = compile_regex(r"[^A-Za-z0-9_-]")
_RESULT_HEADER_RE = compile_regex(r"\[(\w+)[^\n]*\] Result:\s*")
_OPENING_TAG_RE = compile_regex(r"<(\w+)>")
_MAX_ID_STEM_CHARS = 56
"""With a number behind it, it must still fit where ids end at 64 characters."""


class RepairedHistory(Struct, frozen=True):
    messages: list[msg.Message]
    visible_indices: list[int]
    """Places of those that nothing hides; the last message is always one of them."""


def repair_history(
    messages: Sequence[msg.Message], protocol: ToolProtocol, first_message: msg.Message
) -> RepairedHistory:
    """Return the history with the visible messages repaired. `beginning` is inserted before a first
    reply."""
    visible = find_visible_indices(messages)
    seen = _merge_adjacent_messages(messages, visible)
    fixed = (
        _pair_calls_with_results(seen.values())
        if protocol is ToolProtocol.NATIVE
        else convert_calls_to_text(seen.values())
    )
    shown = dict(zip(seen, map(_ensure_reply_text, fixed), strict=True))
    mended = RepairedHistory([], [])

    def show(message: msg.Message) -> None:
        mended.visible_indices.append(len(mended.messages))
        mended.messages.append(message)

    if next((message.role for message in shown.values()), "user") == "assistant":
        show(first_message)
    joined_to_later = set(visible).difference(shown)
    for place, message in enumerate(messages):
        if place in shown:
            show(shown[place])
        elif place not in joined_to_later:
            mended.messages.append(message)
    return mended


def _merge_adjacent_messages(
    messages: Sequence[msg.Message], visible: Sequence[int]
) -> dict[int, msg.Message]:
    """Return the visible messages by index, with adjacent ones of the same side merged at the later
    index.

    Consecutive replies are merged, and so are messages of the user if a later one has the results.
    Summaries and markers are not merged: they may be removed on their own.
    """
    runs: dict[int, msg.Message] = {}
    before: int | None = None
    for place in visible:
        message = messages[place]
        if before is not None and _should_merge(last := runs[before], message):
            del runs[before]
            message = merge_messages(last, message)
        runs[place] = message
        before = place
    return runs


def _should_merge(first: msg.Message, second: msg.Message) -> bool:
    if first.role != second.role or any(
        message.is_summary
        or message.is_truncation_marker
        or isinstance(message.max_text_chars, int)
        for message in (first, second)
    ):
        return False
    return first.role == "assistant" or any(
        isinstance(block, msg.ToolResultBlock) for block in msg.get_blocks(second)
    )


def _ensure_reply_text(message: msg.Message) -> msg.Message:
    """Ensure that a reply has text: no service accepts one that ends with reasoning."""
    if message.role == "user" or isinstance(message.content, str):
        return message
    sent = [block for block in message.content if not isinstance(block, msg.UnsignedReasoningBlock)]
    if sent and not isinstance(sent[-1], msg.ThinkingBlock | msg.RedactedThinkingBlock):
        return message
    return structs.replace(message, content=(*message.content, msg.TextBlock(NO_ANSWER_TEXT)))


# Structured calls


def _pair_calls_with_results(messages: Iterable[msg.Message]) -> Iterator[msg.Message]:
    """Pair each call with one result right after it; the last reply may stay unanswered."""
    known: set[str] = set()
    waiting: dict[str, str] = {}
    every_message = tuple(messages)
    for message, after in zip(every_message, (*every_message[1:], None), strict=False):
        if message.role == "assistant":
            answered = after is None or after.role == "user"
            waiting = _assign_unique_ids(message, known) if answered else {}
            fits = _has_valid_calls(message, waiting)
            blocks = None if fits else _rename_calls(message, waiting)
        else:
            fits = _has_matching_results(message, waiting)
            blocks = None if fits else _reorder_results(message, waiting, known)
            waiting = {}
        yield message if blocks is None else structs.replace(message, content=tuple(blocks))


def _has_valid_calls(message: msg.Message, ids: dict[str, str]) -> bool:
    """Whether a reply is valid unchanged."""
    blocks = msg.get_blocks(message)
    calls = [block for block in blocks if isinstance(block, msg.ToolUseBlock)]
    return (
        len(calls) == len(ids)
        and all(stored == kept for stored, kept in ids.items())
        and all(_PORTABLE_ID_RE.fullmatch(call.name) for call in calls)
        and not any(isinstance(block, msg.ToolResultBlock) for block in blocks)
    )


def _has_matching_results(message: msg.Message, waiting: dict[str, str]) -> bool:
    """Whether a message begins with exactly the expected results, in order."""
    blocks = msg.get_blocks(message)
    results = [block.tool_use_id for block in blocks if isinstance(block, msg.ToolResultBlock)]
    return (
        results == list(waiting) == list(waiting.values())
        and not any(isinstance(block, msg.ToolUseBlock) for block in blocks)
        and all(isinstance(block, msg.ToolResultBlock) for block in blocks[: len(results)])
    )


def _assign_unique_ids(message: msg.Message, known: set[str]) -> dict[str, str]:
    """Assign an id to each call of a reply: its own unless it was used before, or is one that not
    every provider accepts."""
    ids: dict[str, str] = {}
    for block in msg.get_blocks(message):
        if isinstance(block, msg.ToolUseBlock) and block.id not in ids:
            ids[block.id] = _find_free_id(block.id, known)
            known.add(ids[block.id])
    return ids


def _find_free_id(stored: str, known: set[str]) -> str:
    if stored and stored not in known and _PORTABLE_ID_RE.fullmatch(stored):
        return stored
    stem = _INVALID_ID_CHARS_RE.sub("_", stored)[:_MAX_ID_STEM_CHARS] or "call"
    numbered = (f"{stem}_{number}" for number in itertools.count(2))
    return next(name for name in itertools.chain((stem,), numbered) if name not in known)


def _rename_calls(message: msg.Message, ids: dict[str, str]) -> Iterator[msg.Block]:
    left = dict(ids)
    for block in msg.get_blocks(message):
        match block:
            case msg.ToolUseBlock() if block.id in left:
                yield structs.replace(
                    block, id=left.pop(block.id), name=msg.sanitize_tool_name(block.name)
                )
            case msg.ToolUseBlock() | msg.ToolResultBlock():
                yield _to_text_block(block, {})
            case _:
                yield block


def _reorder_results(
    message: msg.Message, waiting: dict[str, str], known: set[str]
) -> Iterator[msg.Block]:
    """Put the results first, in the order of the calls, then the other blocks of the message."""
    results: dict[str, msg.ToolResultBlock] = {}
    rest: list[msg.Block] = []
    blocks = msg.get_blocks(message)
    meant = _pair_by_position(blocks, waiting, known)
    for block in blocks:
        match block:
            case msg.ToolResultBlock() if (
                call_id := meant.get(block.tool_use_id, block.tool_use_id)
            ) in waiting.keys() - results.keys():
                results[call_id] = block
            case _:
                rest += _to_text_blocks(block, {})
    for stored, kept in waiting.items():
        result = results.get(stored) or msg.ToolResultBlock(stored, INTERRUPTED_CALL_TEXT)
        yield structs.replace(result, tool_use_id=kept)
    yield from rest


def _pair_by_position(
    blocks: Iterable[msg.Block], waiting: dict[str, str], known: set[str]
) -> dict[str, str]:
    """Map ids of results without a call to the id of the call at the same position, if that has no
    result of its own."""
    ids = [block.tool_use_id for block in blocks if isinstance(block, msg.ToolResultBlock)]
    pairs = zip(ids, waiting, strict=False)
    return {given: stored for given, stored in pairs if given not in known and stored not in ids}


# Calls in the text


def convert_calls_to_text(messages: Iterable[msg.Message]) -> Iterator[msg.Message]:
    """Convert a history for the XML protocol: calls and results become part of the text."""
    names: dict[str, str] = {}
    for message in messages:
        if isinstance(message.content, str):
            yield message
            continue
        if message.role == "assistant":
            converted = tuple(_to_text_block(block, names) for block in message.content)
        else:
            converted = tuple(
                part for block in message.content for part in _to_text_blocks(block, names)
            )
        same = converted == message.content
        yield message if same else structs.replace(message, content=converted)


def _to_text_blocks(block: msg.Block, names: dict[str, str]) -> Iterator[msg.Block]:
    """Convert a block to text, with the images of a result."""
    yield _to_text_block(block, names)
    if isinstance(block, msg.ToolResultBlock) and not isinstance(block.content, str):
        yield from (part for part in block.content if isinstance(part, msg.ImageBlock))


def _to_text_block(block: msg.Block, names: dict[str, str]) -> msg.Block:
    match block:
        case msg.ToolUseBlock():
            names[block.id] = block.name
            parameters = (
                f"<{name}>{format_argument(v)}</{name}>" for name, v in block.input.items()
            )
            return msg.TextBlock("\n".join((f"<{block.name}>", *parameters, f"</{block.name}>")))
        case msg.ToolResultBlock():
            header = render_result_header(f"[{names.get(block.tool_use_id, 'tool')}]")
            return msg.TextBlock(f"{header}\n{msg.extract_text(block.content)}")
        case _:
            return block


def format_argument(value: object) -> str:
    """Format a value between the tags of a parameter."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def convert_text_to_calls(messages: Iterable[msg.Message]) -> Iterator[msg.Message]:
    """Convert a history for native calls: tags that have a result in the next message become
    calls."""
    every_message = tuple(messages)
    converted = list(every_message)
    for place, (reply, answer) in enumerate(itertools.pairwise(every_message)):
        if reply.role == "assistant" and answer.role == "user":
            converted[place : place + 2] = _convert_text_turn(reply, answer, f"imported_{place}")
    yield from converted


def _convert_text_turn(
    reply: msg.Message, answer: msg.Message, id_prefix: str
) -> tuple[msg.Message, msg.Message]:
    said = list(msg.get_blocks(reply))
    results: dict[str, msg.ToolResultBlock] = {}
    rest: list[msg.Block] = []
    answered = deque(msg.get_blocks(answer))
    while answered:
        block = answered.popleft()
        header = _RESULT_HEADER_RE.match(block.text) if isinstance(block, msg.TextBlock) else None
        call_id = f"{id_prefix}_{len(results)}"
        if header is None or not _extract_call(said, header[1], call_id):
            rest.append(block)
            continue
        text = header.string[header.end() :]
        following = strip_environment_details((answered[0],) if answered and not text else ())
        if following and isinstance(following[0], msg.TextBlock):
            text = following[0].text
            answered.popleft()
        results[call_id] = msg.ToolResultBlock(call_id, text or EMPTY_RESULT_TEXT)
    if not results:
        return reply, answer
    ordered = [results[block.id] for block in said if isinstance(block, msg.ToolUseBlock)]
    return (
        structs.replace(reply, content=tuple(said)),
        structs.replace(answer, content=(*ordered, *rest)),
    )


def _extract_call(blocks: list[msg.Block], tool: str, call_id: str) -> bool:
    """Replace the first call of this tool in the text; False if there is none."""
    for place, block in enumerate(blocks):
        if not isinstance(block, msg.TextBlock):
            continue
        before, opening, opened = block.text.partition(f"<{tool}>")
        inside, closing, after = opened.partition(f"</{tool}>")
        if opening and closing:
            around = (
                msg.TextBlock(before.rstrip()),
                msg.ToolUseBlock(call_id, tool, _parse_parameters(inside)),
                msg.TextBlock(after.lstrip()),
            )
            blocks[place : place + 1] = [each for each in around if each != msg.TextBlock("")]
            return True
    return False


def _parse_parameters(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    start = 0
    while tag := _OPENING_TAG_RE.search(text, start):
        end = text.find(f"</{tag[1]}>", tag.end())
        if end < 0:
            break  # not written by tools: what follows is not a parameter
        found[tag[1]] = text[tag.end() : end].removeprefix("\n").removesuffix("\n")
        start = end + len(tag[0])
    return found


_MISSING_START_TEXT = "[The beginning of this conversation is lost.]"
_USER_ROW_KINDS = (RowKind.USER_FEEDBACK, RowKind.USER_FEEDBACK_DIFF)

_Row = dict[str, Any]


def build_first_message(event: TaskImported) -> msg.Message:
    """Build the user message that must precede a history that begins with a reply."""
    first = event.rows[0] if event.rows else {}
    text = str(first.get("text") or "").strip() or _MISSING_START_TEXT
    return msg.Message(role="user", content=(msg.TextBlock(text),), ts=first.get("ts", UNSET))


def cut_imported_history(event: TaskImported, row_ts: int) -> TaskImported:
    """Return the event as if the history had ended with this row."""
    rows = [row for row in event.rows if row["ts"] <= row_ts]
    gone = event.rows[len(rows) :]
    if not gone:
        return event
    if not rows:
        return structs.replace(event, rows=(), messages=())
    telling = [row for row in gone if "contextCondense" in row or "contextTruncation" in row]
    messages = [
        message for message in event.messages if not _is_described_by_removed_row(message, telling)
    ]
    end = _find_cut_index(messages, rows, gone[0])
    kept = messages[:end]
    if gone[0].get("say") != RowKind.API_REQ_STARTED:
        kept += _trim_reply_to_rows(messages[end:], rows)
    return structs.replace(event, rows=tuple(rows), messages=tuple(kept))


def _find_cut_index(messages: Sequence[msg.Message], rows: Sequence[_Row], first_gone: _Row) -> int:
    """Find the index of the first removed message."""
    ts = first_gone["ts"]
    later = [place for place, message in enumerate(messages) if (message.ts or 0) >= ts]
    if not later:
        return len(messages)
    if first_gone.get("say") in _USER_ROW_KINDS:
        # The reply that they answer may have a later timestamp.
        exact = (place for place in later if messages[place].ts == ts)
        user = (place for place in later if _is_user_message(messages[place]))
        return next(exact, next(user, later[0]))
    end = later[0]
    requests = [
        row["ts"] for row in (*rows, first_gone) if row.get("say") == RowKind.API_REQ_STARTED
    ]
    before = (messages[end - 1].ts or 0) if end else 0
    if _is_user_message(messages[end]) and requests and requests[-1] > before:
        return end + 1
    return end


def _is_user_message(message: msg.Message) -> bool:
    return message.role == "user" and not message.is_summary and not message.is_truncation_marker


def _trim_reply_to_rows(
    going: Sequence[msg.Message], rows: Sequence[_Row]
) -> Sequence[msg.Message]:
    """Trim the first removed message to the parts that remaining rows still show."""
    if not going or going[0].role == "user" or going[0].is_summary:
        return ()
    reply = going[0]
    text = msg.extract_text(msg.get_blocks(reply))
    said: list[str] = []
    for row in reversed(rows[1:]):
        if row.get("say") == RowKind.API_REQ_STARTED:
            break
        row_text = str(row.get("text") or "").strip()
        if row.get("say") == RowKind.TEXT and row_text and row_text in text:
            said.insert(0, row_text)
    if not said:
        return ()
    return (structs.replace(reply, content=tuple(map(msg.TextBlock, said)), id=UNSET),)


def _is_described_by_removed_row(message: msg.Message, telling: Sequence[_Row]) -> bool:
    """Whether the message is a summary or a marker that a removed row shows."""
    if not message.is_summary and not message.is_truncation_marker:
        return False
    text = msg.extract_text(msg.get_blocks(message))
    for row in telling:
        match row:
            case {"contextCondense": {"condenseId": str(name)}}:
                undone = name == message.condense_id
            case {"contextTruncation": {"truncationId": str(name)}}:
                undone = name == message.truncation_id
            case {"contextCondense": {"summary": str(summary)}}:
                # Roo gives no id to summaries forced by a full window.
                undone = message.is_summary and bool(summary.strip()) and summary.strip() in text
            case _:
                undone = False
        if undone:
            return True
    return False
