"""The chunks of `/chat/completions` as ours, with patience for the many servers that speak it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from joey.core.chunks import (
    CallChunk,
    CallEndChunk,
    Chunk,
    ReasoningChunk,
    StopChunk,
    TextChunk,
    UsageChunk,
)
from joey.core.messages import Usage
from joey.providers import errors
from joey.providers.errors import Service
from joey.providers.sse import ServerEvent


class _Function(Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _Call(Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(Struct):
    content: str | list[Any] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    tool_calls: list[_Call] | None = None


class _Choice(Struct):
    delta: _Delta | None = None
    message: _Delta | None = None
    """From servers that answer in one piece."""
    finish_reason: str | None = None


class _Details(Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _CostDetails(Struct):
    upstream_inference_cost: float | None = None


class _Usage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    prompt_cache_hit_tokens: int | None = None
    cost: float | None = None
    cost_details: _CostDetails | None = None


class _Chunk(Struct):
    id: str | None = None
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode
_CUT_OFF = "length"
"""The reason that leaves the last call unfinished."""


class OpenAiStream:
    """The state of one answer."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._calls = _CallSlots()
        self._details = _ReasoningDetails()
        self.is_complete = False
        self.is_final = False

    def feed(self, event: ServerEvent) -> Iterable[Chunk]:
        if event.data == b"[DONE]":
            self.is_complete = self.is_final = True
            return self._details.take()
        said = self._parse(event)
        if said.error:
            raise errors.in_stream(self._service, said.error)
        chunks: list[Chunk] = []
        if said.choices:
            choice = said.choices[0]
            if (delta := choice.delta or choice.message) is not None:
                self._delta(delta, chunks)
            if choice.finish_reason:
                self._finish(choice.finish_reason, said.id, chunks)
        if said.usage is not None:
            chunks.append(UsageChunk(_count(said.usage)))
        return chunks

    def _parse(self, event: ServerEvent) -> _Chunk:
        if event.event == "error":
            raise errors.in_stream(self._service, _error_object(event.data))
        try:
            return _decode(event.data)
        except msgspec.ValidationError as error:
            raise errors.malformed(self._service, f"an odd chunk ({error})") from error
        except errors.NOT_JSON as error:
            raise errors.malformed(self._service, "a chunk that is not JSON") from error

    def _delta(self, delta: _Delta, chunks: list[Chunk]) -> None:
        if details := delta.reasoning_details:
            self._details.add(details)
        thought = delta.reasoning_content or delta.reasoning
        if thought or (details and (thought := _text_of(details))):
            chunks.append(ReasoningChunk(thought))
        if content := delta.content:
            if not isinstance(content, str):
                content = "".join(_text_of([part]) for part in content if isinstance(part, dict))
            if content:
                chunks.append(TextChunk(content))
        for call in delta.tool_calls or ():
            chunks.append(self._calls.piece(call))

    def _finish(self, reason: str, response_id: str | None, chunks: list[Chunk]) -> None:
        self.is_complete = True
        chunks += self._details.take()
        if reason != _CUT_OFF:
            chunks += [CallEndChunk(index) for index in self._calls.close()]
        chunks.append(StopChunk(reason, response_id))


class _CallSlots:
    """Which call a piece belongs to. Servers differ: most number their calls, some leave the
    number out, and some give all calls the number 0 and tell them apart by id."""

    def __init__(self) -> None:
        self._slots: dict[int, int] = {}
        self._ids: dict[int, str | None] = {}
        self._open: list[int] = []

    def piece(self, call: _Call) -> CallChunk:
        function = call.function or _Function()
        index = self._index(call, function)
        if call.id:
            self._ids[index] = call.id
        arguments = function.arguments
        if isinstance(arguments, dict):
            arguments = msgspec.json.encode(arguments).decode()
        return CallChunk(
            index, id=call.id or None, name=function.name or None, arguments=arguments or None
        )

    def close(self) -> list[int]:
        ended, self._open = self._open, []
        return ended

    def _index(self, call: _Call, function: _Function) -> int:
        number = call.index
        if number is None:
            is_known = not call.id or call.id in self._ids.values()
            number = max(self._slots, default=0) if is_known else len(self._ids)
        index = self._slots.get(number)
        begins_another = (
            index is not None
            and call.id
            and function.name
            and self._ids.get(index) not in (None, call.id)
        )
        if index is None or begins_another:
            taken = self._ids.keys()
            index = number if number not in taken else max(taken) + 1
            self._slots[number] = index
            self._ids.setdefault(index, None)
            self._open.append(index)
        return index


class _ReasoningDetails:
    """OpenRouter's reasoning items arrive in pieces and must go back whole."""

    def __init__(self) -> None:
        self._items: dict[tuple[Any, Any], dict[str, Any]] = {}

    def add(self, pieces: list[dict[str, Any]]) -> None:
        for piece in pieces:
            key = (str(piece.get("type")), str(piece.get("index", 0)))
            item = self._items.setdefault(key, {})
            for name, value in piece.items():
                if name in ("text", "summary", "data") and isinstance(value, str):
                    item[name] = item.get(name, "") + value
                elif value is not None or name not in item:
                    item[name] = value

    def take(self) -> list[Chunk]:
        items = [item for item in self._items.values() if _is_whole(item)]
        self._items = {}
        return [ReasoningChunk(details=tuple(items))] if items else []


def _is_whole(item: dict[str, Any]) -> bool:
    return item.get("type") != "reasoning.encrypted" or bool(item.get("data"))


def _text_of(parts: list[dict[str, Any]]) -> str:
    """The readable text in a list of parts, of reasoning or of content."""
    texts = [part.get("text") or part.get("summary") for part in parts]
    return "".join(text for text in texts if isinstance(text, str))


def _count(usage: _Usage) -> Usage:
    details = usage.prompt_tokens_details or _Details()
    cost = usage.cost
    if cost is not None and usage.cost_details is not None:
        cost += usage.cost_details.upstream_inference_cost or 0.0
    return Usage(
        input=usage.prompt_tokens or 0,
        output=usage.completion_tokens or 0,
        cache_writes=usage.cache_creation_input_tokens or details.cache_write_tokens or 0,
        cache_reads=usage.cache_read_input_tokens
        or details.cached_tokens
        or usage.prompt_cache_hit_tokens
        or 0,
        cost=cost,
    )


def _error_object(data: bytes) -> Any:
    try:
        parsed = msgspec.json.decode(data)
    except errors.NOT_JSON:
        return data.decode("utf-8", "replace")
    return parsed.get("error", parsed) if isinstance(parsed, dict) else parsed
