"""One request to the model: stream it, assemble it, show it as it grows, commit it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING

from joey.core.events import (
    CallGrew,
    Placed,
    ReplyReceived,
    RequestEnded,
    RowGrew,
    RowOpened,
    Said,
    UsageChanged,
)
from joey.core.messages import CallPart, ReasoningPart, Reply, TextPart
from joey.core.models import ModelRequest, ToolProtocol
from joey.core.parsing.assembler import Assembler, PartEnded, PartEvent, PartGrew, PartStarted
from joey.errors import ProviderError, ToolError, Trouble
from joey.ports import Provider

if TYPE_CHECKING:
    from joey.engine.task import Task


class LiveReply:
    """A reply while it streams: which part is shown in which row."""

    def __init__(self, task: Task, request_ts: int, provider: Provider) -> None:
        self._task = task
        self._provider = provider
        self._request_ts = request_ts
        self._rows: list[int] = []
        self._is_call: list[bool] = []
        bench, facts = task.bench, task.recorder.facts
        self.assembler = Assembler(
            protocol=facts.protocol,
            tools=bench.toolbox.xml_tools() if facts.protocol is ToolProtocol.XML else {},
            taken_ids=task.recorder.api.knows_call,
            understand_text_calls=bench.settings.understand_text_calls,
            make_id=lambda: f"call_{task.now()}",
        )

    def show(self, events: Iterable[PartEvent]) -> None:
        publish = self._task.publish
        for event in events:
            match event:
                case PartGrew(index, delta):
                    grew = CallGrew if self._is_call[index] else RowGrew
                    publish(grew(ts=self._rows[index], delta=delta))
                case PartStarted():
                    self._open_row(event)
                case PartEnded():
                    pass

    def _open_row(self, started: PartStarted) -> None:
        ts = self._task.now()
        is_call = started.kind == "call"
        self._rows.append(ts)
        self._is_call.append(is_call)
        say = "tool" if is_call else started.kind
        self._task.publish(RowOpened(ts=ts, say=say, tool=started.name, call_id=started.call_id))
        if started.name is not None:
            self._foresee(started.name)

    def _foresee(self, name: str) -> None:
        """The model is still writing the arguments: what their tool needs can be made ready."""
        bench, toolbox = self._task.bench, self._task.bench.toolbox
        try:
            tool = toolbox.find(name)
            toolbox.check_allowed(tool, self._task.mode, bench.settings)
        except ToolError:
            return  # The model is told when the call is whole.
        tool.foresee(bench.terminal)

    def commit(self, *, interrupted: bool) -> tuple[Placed, ...]:
        """Write the reply down; nothing acts on it before."""
        reply = self.assembler.reply
        parts = self._placed(reply)
        if interrupted:
            parts = tuple(placed for placed in parts if not _is_cut_off(placed))
        self._task.publish(
            ReplyReceived(
                ts=self._task.now(),
                parts=parts,
                raw=reply.raw,
                response_id=reply.response_id,
                stop_reason=reply.stop_reason,
                interrupted=interrupted,
            )
        )
        return parts

    def keep_what_was_shown(self) -> None:
        """The stream broke: its words stay on the screen, but are no part of the conversation."""
        for placed in self._placed(self.assembler.reply):
            match placed.part:
                case TextPart(text=text) | ReasoningPart(text=text) if text.strip():
                    say = "text" if isinstance(placed.part, TextPart) else "reasoning"
                    self._task.publish(Said(ts=placed.ts, say=say, text=text))

    def _placed(self, reply: Reply) -> tuple[Placed, ...]:
        return tuple(
            Placed(ts=ts, part=part) for ts, part in zip(self._rows, reply.parts, strict=True)
        )

    def end(self, *, cancel_reason: str | None = None, error: str | None = None) -> None:
        usage = self.assembler.reply.usage
        cost = self._provider.model.cost(usage) if usage is not None else None
        self._task.publish(
            RequestEnded(
                ts=self._task.now(),
                request_ts=self._request_ts,
                usage=usage,
                cost=cost,
                cancel_reason=cancel_reason,
                error=error,
            )
        )
        self._task.publish(UsageChanged(ts=self._task.now(), usage=self._task.usage))


async def take_turn(task: Task, request: ModelRequest, request_ts: int) -> tuple[Placed, ...]:
    """The parts of one committed reply.

    Raises:
        ProviderError: the service failed or said nothing; nothing was committed.
        CancelledError: what had arrived is committed as an interrupted reply.
    """
    provider = task.provider
    live = LiveReply(task, request_ts, provider)
    assembler = live.assembler
    try:
        async with aclosing(provider.stream(request)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                live.show(assembler.feed(chunk))
        live.show(assembler.close(complete=True))
        if assembler.reply.is_empty:
            raise ProviderError("The model's reply was empty.", trouble=Trouble.EMPTY)
    except asyncio.CancelledError:
        live.show(assembler.close(complete=False))
        live.commit(interrupted=True)
        live.end(cancel_reason="user_cancelled")
        raise
    except Exception as error:
        live.show(assembler.close(complete=False))
        live.keep_what_was_shown()
        live.end(cancel_reason="streaming_failed", error=str(error))
        raise
    parts = live.commit(interrupted=False)
    live.end()
    await task.recorder.commit()
    return parts


def _is_cut_off(placed: Placed) -> bool:
    return isinstance(placed.part, CallPart) and placed.part.call.problem is not None
