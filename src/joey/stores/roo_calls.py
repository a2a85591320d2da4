"""Calls and results of an adopted history, made to fit each other.

A provider refuses a history in which a call has no result right after it, a result has no call,
or two calls share an id. Roo's files may hold all three (a kill between two saves, models that
count their ids from one in each reply).
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

from msgspec import structs

from joey.core.messages import (
    Block,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    blocks_of,
    plain_text,
)
from joey.core.prompts.replies import interrupted, result_header

_TAKEN_BY_ALL = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ODD = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_STEM = 56
"""With a number behind it, it must still fit where ids end at 64 characters."""


def pair_calls(messages: list[Message]) -> list[Message]:
    """Give each call its one result; the last reply may stay unanswered."""
    paired: list[Message] = []
    known: set[str] = set()
    waiting: dict[str, str] = {}
    for message in messages:
        if message.role == "assistant":
            waiting = _unique_ids(message, known)
            fits = _fits_calls(message, waiting)
        else:
            fits = _fits_results(message, waiting)
        if fits:
            paired.append(message)
            continue
        fix = _rename if message.role == "assistant" else _answer
        paired.append(structs.replace(message, content=tuple(fix(message, waiting))))
    return paired


def _fits_calls(message: Message, ids: dict[str, str]) -> bool:
    """Whether a reply can stay as it is."""
    calls = 0
    for block in blocks_of(message):
        if isinstance(block, ToolUseBlock):
            calls += 1
        elif isinstance(block, ToolResultBlock):
            return False
    return calls == len(ids) and all(stored == kept for stored, kept in ids.items())


def _fits_results(message: Message, waiting: dict[str, str]) -> bool:
    """Whether a message holds just the results that are waited for, in order, before all else."""
    blocks = blocks_of(message)
    results = [block.tool_use_id for block in blocks if isinstance(block, ToolResultBlock)]
    if results != list(waiting) or any(stored != kept for stored, kept in waiting.items()):
        return False
    if any(isinstance(block, ToolUseBlock) for block in blocks):
        return False
    return all(isinstance(block, ToolResultBlock) for block in blocks[: len(results)])


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
    """The ids of a reply's calls, each with the one it gets: its own unless that was taken, or is
    one that not every provider takes."""
    ids: dict[str, str] = {}
    for block in blocks_of(message):
        if isinstance(block, ToolUseBlock) and block.id not in ids:
            ids[block.id] = _free_id(block.id, known)
            known.add(ids[block.id])
    return ids


def _free_id(stored: str, known: set[str]) -> str:
    if stored and stored not in known and _TAKEN_BY_ALL.fullmatch(stored):
        return stored
    stem = _ODD.sub("_", stored)[:_LONGEST_STEM] or "call"
    numbered = (f"{stem}_{number}" for number in itertools.count(2))
    return next(name for name in itertools.chain((stem,), numbered) if name not in known)


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
