"""The words in which exchanges with the WebSocket API are written down, and their player.

A pattern fits what has at least its fields; `...` fits anything. Words that begin with `$` were
kept from an earlier answer (`keep`), and are put in where they are used.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from joey.testing.script import Turn
from joey.testing.server import TurnSelector
from tests.harness.server.server_fixture import ServerFixture
from tests.harness.server.websocket_clients import ForeignClient

Pattern = Any


class SendFrame(Struct, frozen=True):
    """A frame, and the response to it."""

    frame: dict[str, Any] | str | bytes
    data: Pattern = ...
    error: str | None = None
    reason: str = ""
    """A part of the error's message."""
    keep: dict[str, str] = {}
    """Names for fields of the data."""


class ExpectEvent(Struct, frozen=True):
    """An event that comes now, or came since the last one of its task that was waited for."""

    name: str
    payload: Pattern = ...
    task: str | None = "$task"
    keep: dict[str, str] = {}


class RunAction(Struct, frozen=True):
    """Something happens at the server."""

    action: Callable[[ServerFixture], Awaitable[None]]


class PauseReading(Struct, frozen=True):
    """The client does not read while this happens."""

    action: Callable[[ServerFixture], Awaitable[None]]


Step = SendFrame | ExpectEvent | RunAction | PauseReading


class Exchange(Struct, frozen=True):
    name: str
    steps: tuple[Step, ...]
    turns: tuple[Turn | TurnSelector, ...] = ()
    settings: dict[str, Any] = {}


def command(
    name: str,
    data: Pattern = ...,
    /,
    *,
    task: str | None = None,
    keep: dict[str, str] | None = None,
    **arguments: Any,
) -> SendFrame:
    """A command that is carried out."""
    return SendFrame(_frame(name, task, arguments), data, keep=keep or {})


def refused(
    name: str, error: str, reason: str, /, *, task: str | None = None, **arguments: Any
) -> SendFrame:
    return SendFrame(_frame(name, task, arguments), error=error, reason=reason)


def _frame(name: str, task: str | None, arguments: dict[str, Any]) -> dict[str, Any]:
    frame: dict[str, Any] = {"type": "command", "commandName": name, "requestId": f"my-{name}"}
    if task is not None:
        frame["taskId"] = task
    if arguments:
        frame["arguments"] = arguments
    return frame


def started(text: str = "go") -> SendFrame:
    return command("startNewTask", {"taskId": ...}, text=text, keep={"task": "taskId"})


def asked(event: str, kind: str) -> ExpectEvent:
    return ExpectEvent(event, {"ask": kind}, keep={"ask": "askTs"})


def row(**fields: Any) -> dict[str, Any]:
    return {"message": fields}


# Playing --------------------------------------------------------------------------------------


class ExchangePlayer:
    def __init__(self, here: ServerFixture, client: ForeignClient) -> None:
        self._here = here
        self._client = client
        self._variables: dict[str, Any] = {}
        self._seen_event_counts: dict[str | None, int] = {}
        """Events of each task that were passed, by how many there were of all."""

    async def play(self, exchange: Exchange) -> None:
        for step in exchange.steps:
            match step:
                case SendFrame():
                    await self._send_frame(step)
                case ExpectEvent():
                    await self._expect_event(step)
                case RunAction(what):
                    await what(self._here)
                case PauseReading(what):
                    self._client.stop_reading()
                    await what(self._here)
                    self._client.read_on()

    async def _send_frame(self, step: SendFrame) -> None:
        frame = step.frame
        if isinstance(frame, dict):
            frame = json.dumps(self._substitute_variables(frame))
        response = await self._client.raw(frame)
        if isinstance(step.frame, dict) and step.frame["type"] == "command":
            assert response["commandName"] == step.frame["commandName"]
            assert response["requestId"] == step.frame["requestId"]
        if step.error is not None:
            assert response["status"] == "error", response
            assert response["error"]["code"] == step.error
            assert step.reason in response["error"]["message"]
            return
        assert response["status"] == "success", response
        assert fits(response["data"], self._substitute_variables(step.data)), (
            step.data,
            response["data"],
        )
        self._store_variables(step.keep, response["data"])

    async def _expect_event(self, step: ExpectEvent) -> None:
        payload, task = (
            self._substitute_variables(step.payload),
            self._substitute_variables(step.task),
        )
        event = await self._client.event(
            step.name,
            since=self._seen_event_counts.get(task, 0),
            where=lambda event: event.get("taskId") == task and fits(event["payload"], payload),
        )
        self._seen_event_counts[task] = (
            self._client.events.index(event, self._seen_event_counts.get(task, 0)) + 1
        )
        self._store_variables(step.keep, event["payload"])

    def _store_variables(self, names: dict[str, str], data: Any) -> None:
        for name, path in names.items():
            value = data
            for field in path.split("."):
                value = value[int(field)] if isinstance(value, list) else value[field]
            self._variables[f"${name}"] = value

    def _substitute_variables(self, value: Any) -> Any:
        match value:
            case str():
                return self._variables.get(value, value)
            case dict():
                return {
                    self._substitute_variables(key): self._substitute_variables(inner)
                    for key, inner in value.items()
                }
            case list():
                return [self._substitute_variables(inner) for inner in value]
            case _:
                return value


def fits(value: Any, pattern: Pattern) -> bool:
    match pattern:
        case _ if pattern is ...:
            return True
        case dict():
            return isinstance(value, dict) and all(
                key in value and fits(value[key], inner) for key, inner in pattern.items()
            )
        case list():
            return (
                isinstance(value, list)
                and len(value) == len(pattern)
                and all(map(fits, value, pattern))
            )
        case _:
            return bool(value == pattern)
