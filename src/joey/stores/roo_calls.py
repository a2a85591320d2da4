"""Calls and results of an adopted history, made to fit each other.

A provider refuses a history in which a call has no result right after it, a result has no call,
or two calls share an id. Roo's files may hold all three (a kill between two saves, models that
count their ids from one in each reply).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

from msgspec import structs

from joey.core.messages import Block, Message, TextBlock, ToolResultBlock, ToolUseBlock, plain_text
from joey.core.prompts.replies import interrupted, result_header
from joey.stores.roo_messages import blocks_of


def pair_calls(messages: list[Message]) -> list[Message]:
    """Give each call its one result; the last reply may stay unanswered."""
    paired: list[Message] = []
    known: set[str] = set()
    waiting: dict[str, str] = {}
    for message in messages:
        if isinstance(message.content, str) and not waiting:
            paired.append(message)
        elif message.role == "assistant":
            waiting = _unique_ids(message, known)
            blocks: Iterator[Block] = _rename(message, waiting)
            paired.append(structs.replace(message, content=tuple(blocks)))
        else:
            blocks = _answer(message, waiting)
            paired.append(structs.replace(message, content=tuple(blocks)))
            waiting = {}
    return paired


def calls_as_text(messages: list[Message]) -> list[Message]:
    """The same history for a task that speaks XML: calls and results inside the text."""
    names: dict[str, str] = {}
    return [
        message
        if isinstance(message.content, str)
        else structs.replace(
            message, content=tuple(_as_text(block, names) for block in message.content)
        )
        for message in messages
    ]


def _unique_ids(message: Message, known: set[str]) -> dict[str, str]:
    """The ids of a reply's calls, each with the one it gets: its own unless that was taken."""
    ids: dict[str, str] = {}
    for block in blocks_of(message):
        if isinstance(block, ToolUseBlock) and block.id not in ids:
            numbered = (f"{block.id}_{number}" for number in itertools.count(2))
            candidates = itertools.chain((block.id,), numbered)
            ids[block.id] = next(name for name in candidates if name and name not in known)
            known.add(ids[block.id])
    return ids


def _rename(message: Message, ids: dict[str, str]) -> Iterator[Block]:
    left = dict(ids)
    for block in blocks_of(message):
        match block:
            case ToolUseBlock() if block.id in left:
                yield structs.replace(block, id=left.pop(block.id))
            case ToolUseBlock():
                yield TextBlock(_call_text(block))
            case ToolResultBlock():
                yield TextBlock(_result_text(block, {}))
            case _:
                yield block


def _answer(message: Message, waiting: dict[str, str]) -> Iterator[Block]:
    """The results first, in the order of the calls; then whatever else the message says."""
    results: dict[str, ToolResultBlock] = {}
    rest: list[Block] = []
    for block in blocks_of(message):
        match block:
            case ToolResultBlock() if block.tool_use_id in waiting.keys() - results.keys():
                results[block.tool_use_id] = block
            case ToolResultBlock() | ToolUseBlock():
                rest.append(_as_text(block, {}))
            case _:
                rest.append(block)
    for stored, kept in waiting.items():
        result = results.get(stored) or ToolResultBlock(stored, interrupted())
        yield structs.replace(result, tool_use_id=kept)
    yield from rest


def _as_text(block: Block, names: dict[str, str]) -> Block:
    match block:
        case ToolUseBlock():
            names[block.id] = block.name
            return TextBlock(_call_text(block))
        case ToolResultBlock():
            return TextBlock(_result_text(block, names))
        case _:
            return block


def _call_text(call: ToolUseBlock) -> str:
    parameters = (f"<{name}>{_shown(value)}</{name}>" for name, value in call.input.items())
    return "\n".join((f"<{call.name}>", *parameters, f"</{call.name}>"))


def _result_text(result: ToolResultBlock, names: dict[str, str]) -> str:
    content = result.content
    text = content if isinstance(content, str) else plain_text(content)
    tool = names.get(result.tool_use_id, "tool")
    return f"{result_header(f'[{tool}]')}\n{text}"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
