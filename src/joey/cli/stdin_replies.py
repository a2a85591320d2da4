"""What is answered to commands on standard input: control lines, and lines about the queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from joey.cli.stream_json import Line
from joey.core.events import MessageQueued

CAPABILITIES = ("start", "message", "cancel", "ping", "shutdown")
_SHOWN = 180
_CONTENT = {
    "accepted": "accepted",
    "task_completed": "the task is completed",
    "task_aborted": "the task was cancelled",
    "task_failed": "the task failed",
    "responded": "the words go to the task",
    "resumed": "the task goes on with these words",
    "queued": "the words wait for the model's next turn",
    "cancel_requested": "the task is being stopped",
    "no_active_task": "there is no active task",
    "pong": "pong",
    "shutdown_requested": "joey ends",
}


class About(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What a control line belongs to, as far as that is known."""

    command: str | None = None
    request_id: str | None = None
    task_id: str | None = None


def accepted(about: About) -> Line:
    return _control("ack", "accepted", about, _CONTENT["accepted"], success=True)


def done(about: About, code: str) -> Line:
    success = code not in ("task_aborted", "task_failed")
    return _control("done", code, about, _CONTENT[code], success=success)


def refused(about: About, code: str, problem: str) -> Line:
    return _control("error", code, about, problem, success=False)


def _control(subtype: str, code: str, about: About, content: str, *, success: bool) -> Line:
    line: Line = {"type": "control", "subtype": subtype, **msgspec.to_builtins(about)}
    return line | {"content": content, "code": code, "success": success}


class _Waiting(Struct, frozen=True):
    message: MessageQueued
    request_id: str | None
    is_told: bool
    """Words that set a task at rest to work only pass through the queue."""


class QueueLines:
    """The words that wait, and whose they are."""

    def __init__(self) -> None:
        self._expected: list[tuple[str, bool]] = []
        self._waiting: dict[str, _Waiting] = {}

    def expect(self, request_id: str, *, is_told: bool) -> None:
        """The next message that is queued came with this command."""
        self._expected.append((request_id, is_told))

    def adopt(self, messages: Sequence[MessageQueued]) -> Iterator[Line]:
        """Words that have waited since an earlier run."""
        self._waiting = {each.id: _Waiting(each, None, True) for each in messages}
        if messages:
            yield self._line("snapshot")

    def queued(self, message: MessageQueued) -> Iterator[Line]:
        known = self._waiting.get(message.id)
        if known is not None:
            self._waiting[message.id] = _Waiting(message, known.request_id, known.is_told)
            yield self._line("updated")
            return
        request_id, is_told = self._expected.pop(0) if self._expected else (None, True)
        self._waiting[message.id] = _Waiting(message, request_id, is_told)
        if is_told:
            yield self._line("enqueued")

    def find(self, text: str, images: tuple[str, ...]) -> str | None:
        """The message that waits with these words; the one that has waited longest."""
        for each in self._waiting.values():
            if (each.message.text, each.message.images) == (text, images):
                return each.message.id
        return None

    def owner(self, message_id: str) -> str | None:
        """The command that it came with."""
        waiting = self._waiting.get(message_id)
        return waiting.request_id if waiting is not None else None

    def dequeued(self, message_id: str) -> Iterator[Line]:
        gone = self._waiting.pop(message_id, None)
        if gone is not None and gone.is_told:
            yield self._line("dequeued" if self._told else "drained")

    @property
    def _told(self) -> list[_Waiting]:
        return [each for each in self._waiting.values() if each.is_told]

    def _line(self, subtype: str) -> Line:
        told = self._told
        items = f"{len(told)} item{'' if len(told) == 1 else 's'}"
        return {
            "type": "queue",
            "subtype": subtype,
            "content": "queue drained" if subtype == "drained" else f"queue {subtype} ({items})",
            "queueDepth": len(told),
            "queue": [_item(each.message) for each in told],
        }


def _item(message: MessageQueued) -> Line:
    text = " ".join(message.text.split())
    item: Line = {"id": message.id, "imageCount": len(message.images), "timestamp": message.ts}
    if text:
        item["text"] = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
    return item
