"""A provider that plays a script; the engine uses it like any other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence

from joey.core import messages as msg
from joey.core.models import ModelInfo, ModelRequest
from joey.errors import ProviderError, ProviderFailureKind
from joey.ports.model import Provider
from joey.testing import script

ScriptItem = script.Step | msg.Chunk | Exception
ScriptedTurn = script.Turn | Sequence[ScriptItem]
"""A turn, or a bare list in which chunks and exceptions stand as they are."""

_FAILURE_BY_STATUS = {
    400: ProviderFailureKind.INVALID_REQUEST,
    401: ProviderFailureKind.AUTH,
    402: ProviderFailureKind.QUOTA,
    403: ProviderFailureKind.AUTH,
    404: ProviderFailureKind.NOT_FOUND,
    413: ProviderFailureKind.INVALID_REQUEST,
    422: ProviderFailureKind.INVALID_REQUEST,
    429: ProviderFailureKind.RATE_LIMIT,
}


class ScriptEndedError(AssertionError):
    """There were more requests than the script has turns."""


class ScriptedProvider:
    """Answers each request with the next turn, and records the requests."""

    def __init__(
        self,
        turns: Iterable[ScriptedTurn | Callable[[ModelRequest], ScriptedTurn]],
        model: ModelInfo | None = None,
        api_protocol: str = "anthropic",
    ) -> None:
        self._turns = list(turns)
        self.model = model or ModelInfo(id="scripted", context_window=200_000)
        self.api_protocol = api_protocol
        self.address = "scripted:0"
        self.window_advice = ""
        self.requests: list[ModelRequest] = []
        self.open_stream_count = 0
        """Answers that were begun and neither ended nor closed."""
        self.is_closed = False

    async def prepare(self) -> None:
        """Do nothing: its model is known."""

    def learn_window(self, tokens: int) -> None:
        self.model = self.model.limit_window(tokens)

    def shrink_window(self) -> bool:
        return False

    def doubt_window(self) -> None:
        """Do nothing: its model is known."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[msg.Chunk, None]:
        self.requests.append(request)
        turn = self._take_next_turn(request)
        self.open_stream_count += 1
        try:
            for item in _iter_items(turn):
                match item:
                    case Exception():
                        raise item
                    case script.Pause():
                        await asyncio.sleep(item.seconds)
                    case script.Gate():
                        await item.event.wait()
                    case _:
                        for chunk in _build_chunks(item):
                            yield chunk
        finally:
            self.open_stream_count -= 1

    async def close(self) -> None:
        self.is_closed = True

    def _take_next_turn(self, request: ModelRequest) -> ScriptedTurn:
        number = len(self.requests)
        if number > len(self._turns):
            last = request.messages[-1].content if request.messages else ""
            raise ScriptEndedError(
                f"The script has {len(self._turns)} turns, and this is request {number}."
                f" It ends with: {str(last)[-300:]!r}"
            )
        turn = self._turns[number - 1]
        return turn(request) if callable(turn) else turn


def _iter_items(turn: ScriptedTurn) -> Iterable[ScriptItem]:
    """Iterate over a turn's steps with calls numbered and the usual ending; a plain list is
    unchanged."""
    if not isinstance(turn, script.Turn):
        yield from turn
        return
    for index, step in enumerate(turn.steps):
        match step:
            case script.Call():
                yield from _iter_call_chunks(step, index)
            case script.Tokens() | script.Stop():
                continue
            case _:
                yield step
    yield _build_usage_chunk(turn.tokens)
    yield msg.StopChunk(turn.stop or ("tool_use" if turn.calls else "end_turn"))


def _build_chunks(item: script.Step | msg.Chunk) -> Iterable[msg.Chunk]:
    match item:
        case script.Say():
            return [msg.TextChunk(piece) for piece in script.split_text(item.text, item.chunk)]
        case script.Think():
            thoughts: list[msg.Chunk] = [
                msg.ReasoningChunk(piece) for piece in script.split_text(item.text, item.chunk)
            ]
            if item.signature is not None:
                thoughts.append(msg.ReasoningChunk(signature=item.signature))
            return thoughts
        case script.Redacted():
            return [msg.ReasoningChunk(redacted=item.data)]
        case script.Call():
            return list(_iter_call_chunks(item, 0))
        case script.Tokens():
            return [_build_usage_chunk(item)]
        case script.Stop():
            return [msg.StopChunk(item.reason)]
        case script.Fail():
            raise _build_provider_error(item)
        case script.Disconnect():
            raise ProviderError("The connection was lost.", failure=ProviderFailureKind.NETWORK)
        case script.Raw() | script.Pause() | script.Gate():
            raise TypeError(f"{type(item).__name__} is for servers, or for a list of its own")
        case _:
            return [item]


def _iter_call_chunks(step: script.Call, index: int) -> Iterable[msg.CallChunk | msg.CallEndChunk]:
    yield msg.CallChunk(index, id=step.id, name=step.name)
    for piece in script.split_text(step.arguments, step.chunk):
        yield msg.CallChunk(index, arguments=piece)
    yield msg.CallEndChunk(index)


def _build_usage_chunk(tokens: script.Tokens) -> msg.UsageChunk:
    return msg.UsageChunk(
        msg.Usage(
            input=tokens.input + tokens.cache_writes + tokens.cache_reads,
            output=tokens.output,
            cache_writes=tokens.cache_writes,
            cache_reads=tokens.cache_reads,
        )
    )


def _build_provider_error(step: script.Fail) -> ProviderError:
    failure = _FAILURE_BY_STATUS.get(step.status, ProviderFailureKind.OVERLOAD)
    if step.code == "context_length_exceeded" or "prompt is too long" in step.message:
        failure = ProviderFailureKind.CONTEXT_OVERFLOW
    return ProviderError(
        step.message,
        failure=failure,
        status=step.status,
        code=step.code,
        retry_after=step.retry_after,
    )


_protocol_check: type[Provider] = ScriptedProvider
