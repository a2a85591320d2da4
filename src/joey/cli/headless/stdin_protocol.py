"""The protocol of `--input-format stream-json`: commands on stdin, reply lines on stdout.

One JSON object per line, in the format of Roo's command line:

    {"command": "start", "requestId": "1", "prompt": "fix the failing test"}

A line that is no valid command is answered with an error, and the next one is read. Reply lines
carry the id of the command that they belong to, in the order of events.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, Literal, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from joey.cli.headless.roo_stream_json import (
    JsonLine,
    StreamJsonEncoder,
    build_error_lines,
    build_result_line,
)
from joey.cli.headless.run import build_result
from joey.cli.prompt import MAX_PROMPT_BYTES
from joey.client.images import MAX_IMAGE_BYTES, MAX_IMAGES, ImageError, encode_image_data_uri
from joey.core import events as ev
from joey.core.history.api import COMPLETION_TOOL_NAME
from joey.core.task_types import APPROVAL_ASKS, Answer, AskKind, Response
from joey.core.wire.frames import TaskId, decode_json
from joey.engine.asks import Unattended
from joey.engine.outcomes import Completed, Failed
from joey.engine.task import Task

CommandName = Literal["start", "message", "cancel", "ping", "shutdown"]
COMMAND_NAMES: tuple[CommandName, ...] = get_args(CommandName)
MAX_LINE_BYTES = 32 * 1024 * 1024
_UUID_RE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_IMAGE_URI_RE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,")


class StdinCommand(Struct, frozen=True, rename="camel"):
    command: CommandName
    request_id: str
    prompt: str = ""
    images: tuple[str, ...] = ()
    """Data URIs."""
    task_id: TaskId | UnsetType = UNSET
    """Of a `start`: the new task's. Otherwise the task that the command is about; the active one,
    where it is absent."""
    configuration: dict[str, Any] | None = None
    response: Response = Response.MESSAGE
    """What a message means to a question: words, or also a yes or a no."""

    @property
    def answer(self) -> Answer:
        return Answer(self.response, text=self.prompt, images=self.images)


class InvalidLine(Struct, frozen=True):
    """A line is not a valid command."""

    problem: str
    request_id: str | None = None
    """As far as it could be understood."""
    command: str | None = None


class StdinCommandParser:
    """Parses bytes into commands; buffers at most one line."""

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        self._buffer = bytearray()
        self._line_number = 0
        self._is_skipping_line = False
        """The line that is being read is too long already."""

    def feed(self, data: bytes) -> Iterator[StdinCommand | InvalidLine]:
        *ended, rest = data.split(b"\n")
        for piece in ended:
            self._append_to_line(piece)
            yield from self._finish_line()
        self._append_to_line(rest)

    def close(self) -> Iterator[StdinCommand | InvalidLine]:
        """Parse the rest; the last line needs no newline."""
        yield from self._finish_line()

    def _append_to_line(self, piece: bytes) -> None:
        if self._is_skipping_line or len(self._buffer) + len(piece) > self._max_line_bytes:
            self._is_skipping_line = True
            self._buffer.clear()
        else:
            self._buffer += piece

    def _finish_line(self) -> Iterator[StdinCommand | InvalidLine]:
        self._line_number += 1
        line = bytes(self._buffer).removeprefix(b"\xef\xbb\xbf").strip()
        self._buffer.clear()
        is_too_long, self._is_skipping_line = self._is_skipping_line, False
        if is_too_long:
            yield self._build_invalid_line(f"it is longer than {self._max_line_bytes} bytes")
        elif line:
            yield self._parse_line(line)

    def _parse_line(self, line: bytes) -> StdinCommand | InvalidLine:
        try:
            said = decode_json(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return self._build_invalid_line(f"it is not JSON ({error})")
        except RecursionError:
            return self._build_invalid_line("it is nested too deeply")
        if not isinstance(said, dict):
            return self._build_invalid_line("it is not a JSON object")
        try:
            command = msgspec.convert(said, StdinCommand)
        except msgspec.ValidationError as error:
            return self._build_invalid_line(_explain_invalid_envelope(said) or str(error), said)
        command = structs.replace(command, request_id=command.request_id.strip())
        if problem := _explain_invalid_envelope(said) or _explain_invalid_command(command):
            return self._build_invalid_line(problem, said)
        return command

    def _build_invalid_line(self, problem: str, said: dict[str, Any] | None = None) -> InvalidLine:
        def text(name: str) -> str | None:
            value = (said or {}).get(name)
            return value.strip() if isinstance(value, str) else None

        problem = f"line {self._line_number} of stdin is not a command: {problem}"
        return InvalidLine(problem, text("requestId") or None, text("command") or None)


def _explain_invalid_envelope(said: dict[str, Any]) -> str | None:
    """Name the missing parts of a command."""
    name, request_id = said.get("command"), said.get("requestId")
    if name not in COMMAND_NAMES:
        return f'"command" must be one of {", ".join(COMMAND_NAMES)}'
    if not isinstance(request_id, str) or not request_id.strip():
        return '"requestId" must be text'
    return None


def _explain_invalid_command(command: StdinCommand) -> str | None:
    """Explain why a command of the right shape cannot be executed."""
    needs_prompt = command.command == "start" or command.response is Response.MESSAGE
    if command.command not in ("start", "message"):
        return None
    if needs_prompt and not command.prompt.strip():
        return f'"{command.command}" needs a "prompt"'
    if len(command.prompt.encode("utf-8", "replace")) > MAX_PROMPT_BYTES:
        return f'"prompt" is longer than {MAX_PROMPT_BYTES // 1024 // 1024} MB'
    if len(command.images) > MAX_IMAGES:
        return f'"images" may hold {MAX_IMAGES}'
    for image in command.images:
        if not _IMAGE_URI_RE.match(image) or len(image) > MAX_IMAGE_BYTES * 4 // 3 + 100:
            return (
                '"images" are data URIs (data:image/png;base64,… or jpeg, gif, webp) of at most'
                f" {MAX_IMAGE_BYTES // 1024 // 1024} MB"
            )
        if not _is_valid_image_uri(image):
            return f'"images": {image[:30]}… is not an image of the type that it names'
    task_id = command.task_id if command.command == "start" else UNSET
    if task_id is not UNSET and not _UUID_RE.fullmatch(task_id.lower()):
        return '"taskId" must be a UUID'
    return None


def _is_valid_image_uri(uri: str) -> bool:
    """Check an image URI: a service would reject an invalid one, and every later turn of the task
    with it."""
    kind, _, data = uri.partition(",")
    try:
        return encode_image_data_uri(base64.b64decode(data, validate=True), "").startswith(
            f"{kind},"
        )
    except (ValueError, ImageError):
        return False


CAPABILITIES = COMMAND_NAMES
_MAX_QUEUE_ITEM_TEXT_CHARS = 180


class ControlCode(StrEnum):
    """The state of a command, on a control line."""

    ACCEPTED = "accepted"
    TASK_COMPLETED = "task_completed"
    TASK_ABORTED = "task_aborted"
    TASK_FAILED = "task_failed"
    RESPONDED = "responded"
    RESUMED = "resumed"
    QUEUED = "queued"
    CANCEL_REQUESTED = "cancel_requested"
    NO_ACTIVE_TASK = "no_active_task"
    PONG = "pong"
    SHUTDOWN_REQUESTED = "shutdown_requested"
    INVALID_COMMAND = "invalid_command"
    TASK_NOT_FOUND = "task_not_found"
    TASK_BUSY = "task_busy"
    TASK_ERROR = "task_error"
    NO_PENDING_ASK = "no_pending_ask"
    CLIENT_ERROR = "client_error"


class QueueChange(StrEnum):
    """The subtype of a queue line."""

    SNAPSHOT = "snapshot"
    UPDATED = "updated"
    ENQUEUED = "enqueued"
    DEQUEUED = "dequeued"
    DRAINED = "drained"


_CONTROL_MESSAGES: dict[ControlCode, str] = {
    ControlCode.ACCEPTED: "accepted",
    ControlCode.TASK_COMPLETED: "the task is completed",
    ControlCode.TASK_ABORTED: "the task was cancelled",
    ControlCode.TASK_FAILED: "the task failed",
    ControlCode.RESPONDED: "the message goes to the task",
    ControlCode.RESUMED: "the task continues with this message",
    ControlCode.QUEUED: "the message waits for the model's next turn",
    ControlCode.CANCEL_REQUESTED: "the task is being stopped",
    ControlCode.NO_ACTIVE_TASK: "there is no active task",
    ControlCode.PONG: "pong",
    ControlCode.SHUTDOWN_REQUESTED: "joey ends",
}


def build_control_line(
    subtype: Literal["ack", "done", "error"],
    code: ControlCode,
    *,
    command: str | None = None,
    request_id: str | None = None,
    task_id: str | None = None,
    problem: str = "",
) -> JsonLine:
    """Build a control line about a command, with the ids that are known."""
    line: JsonLine = {"type": "control", "subtype": subtype}
    about = {"command": command, "requestId": request_id, "taskId": task_id}
    line |= {name: value for name, value in about.items() if value is not None}
    has_failed = code in (ControlCode.TASK_ABORTED, ControlCode.TASK_FAILED)
    success = subtype != "error" and not has_failed
    return line | {
        "content": problem or _CONTROL_MESSAGES[code],
        "code": code,
        "success": success,
    }


class _QueuedMessage(Struct, frozen=True):
    message: ev.MessageQueued
    request_id: str | None
    is_reported: bool
    """Words that set a task at rest to work only pass through the queue."""


class QueueReporter:
    """Tracks queued messages and the commands they came with."""

    def __init__(self) -> None:
        self._expected_requests: list[tuple[str, bool]] = []
        self._queued_messages: dict[str, _QueuedMessage] = {}

    def expect_message(self, request_id: str, *, is_reported: bool) -> None:
        """Expect the next queued message to belong to this command."""
        self._expected_requests.append((request_id, is_reported))

    def report_snapshot(self, messages: Sequence[ev.MessageQueued]) -> Iterator[JsonLine]:
        """Report messages queued in an earlier run."""
        self._queued_messages = {each.id: _QueuedMessage(each, None, True) for each in messages}
        if messages:
            yield self._build_queue_line(QueueChange.SNAPSHOT)

    def report_queued(self, message: ev.MessageQueued) -> Iterator[JsonLine]:
        known = self._queued_messages.get(message.id)
        if known is not None:
            self._queued_messages[message.id] = structs.replace(known, message=message)
            yield self._build_queue_line(QueueChange.UPDATED)
            return
        request_id, is_reported = (
            self._expected_requests.pop(0) if self._expected_requests else (None, True)
        )
        self._queued_messages[message.id] = _QueuedMessage(message, request_id, is_reported)
        if is_reported:
            yield self._build_queue_line(QueueChange.ENQUEUED)

    def find_message_id(self, text: str, images: tuple[str, ...]) -> str | None:
        """Return the id of a queued message with this text; the oldest if there are several."""
        for each in self._queued_messages.values():
            if (each.message.text, each.message.images) == (text, images):
                return each.message.id
        return None

    def find_request_id(self, message_id: str) -> str | None:
        """Return the id of the command that a message came with."""
        waiting = self._queued_messages.get(message_id)
        return waiting.request_id if waiting is not None else None

    def report_dequeued(self, message_id: str) -> Iterator[JsonLine]:
        removed = self._queued_messages.pop(message_id, None)
        if removed is not None and removed.is_reported:
            yield self._build_queue_line(QueueChange.DEQUEUED)

    def _build_queue_line(self, change: QueueChange) -> JsonLine:
        reported = [each for each in self._queued_messages.values() if each.is_reported]
        if change is QueueChange.DEQUEUED and not reported:
            change = QueueChange.DRAINED
        items = f" ({len(reported)} item{'' if len(reported) == 1 else 's'})"
        return {
            "type": "queue",
            "subtype": change,
            "content": f"queue {change}{'' if change is QueueChange.DRAINED else items}",
            "queueDepth": len(reported),
            "queue": [_build_queue_item(each.message) for each in reported],
        }


def _build_queue_item(message: ev.MessageQueued) -> JsonLine:
    text = " ".join(message.text.split())
    if len(text) > _MAX_QUEUE_ITEM_TEXT_CHARS:
        text = f"{text[: _MAX_QUEUE_ITEM_TEXT_CHARS - 3]}..."
    item: JsonLine = {"id": message.id, "imageCount": len(message.images), "timestamp": message.ts}
    return item | ({"text": text} if text else {})


class StdinAnswerPolicy(Unattended):
    """Lets the controlling program see results and questions, and allow calls, as long as it may
    send commands. Questions that it leaves open get no answer."""

    replaces_user = False

    def __init__(self, *, can_approve: bool) -> None:
        super().__init__()
        self._can_approve = can_approve
        self.is_stdin_open = True
        """Commands may still come."""

    def answer(self, ask: ev.AskOpened) -> Answer | None:
        is_for_program = ask.ask in (AskKind.COMPLETION_RESULT, AskKind.FOLLOWUP)
        if ask.ask in APPROVAL_ASKS:
            is_for_program = self._can_approve and ask.tool != COMPLETION_TOOL_NAME
        return None if self.is_stdin_open and is_for_program else super().answer(ask)


class JsonEmitter:
    def __init__(self, policy: StdinAnswerPolicy, start_id: str | None = None) -> None:
        self.policy = policy
        self.queue_reporter = QueueReporter()
        self.current_request_id = start_id
        """The command that the lines belong to now."""
        self.last_exit_code = 0
        """Of the latest result."""
        self._start_request_id = start_id
        """The `start` that has not been told its end."""
        self._answer_request_ids: dict[int, str] = {}
        self._encoder = StreamJsonEncoder()

    def register_answer(self, ask_ts: int, request_id: str) -> None:
        """Register that an answer to this question comes with this command."""
        self._answer_request_ids[ask_ts] = request_id

    def handle(self, task: Task, event: ev.Event) -> Iterator[JsonLine]:
        yield from map(self._add_request_id, self._handle_queue_event(event))
        if isinstance(event, ev.AskAnswered):
            self.current_request_id = self._answer_request_ids.pop(
                event.ask_ts, self.current_request_id
            )
        yield from map(self._add_request_id, self._encoder.encode(event))
        yield from self._handle_task_end(task, event)

    def handle_subtask_ask(self, task_id: str, ask: ev.AskOpened) -> Iterator[JsonLine]:
        """Pass on a question of a subtask, which the program may answer."""
        for line in StreamJsonEncoder().encode(ask):
            yield self._add_request_id({**line, "taskId": task_id})

    def _add_request_id(self, line: JsonLine) -> JsonLine:
        request_id = self.current_request_id
        return line if request_id is None else {**line, "requestId": request_id}

    def _handle_queue_event(self, event: ev.Event) -> Iterator[JsonLine]:
        match event:
            case ev.MessageQueued():
                yield from self.queue_reporter.report_queued(event)
            case ev.MessageUnqueued(id=message_id):
                yield from self.queue_reporter.report_dequeued(message_id)
            case ev.UserMessage(text=text, images=images, is_first=False):
                if found := self.queue_reporter.find_message_id(text, images):
                    yield from self._begin_queued_message(found)
            case ev.RequestStarted(dequeued_ids=dequeued):
                for message_id in dequeued:
                    yield from self._begin_queued_message(message_id)

    def _begin_queued_message(self, message_id: str) -> Iterator[JsonLine]:
        """Begin a queued message; output belongs to it from here on."""
        self.current_request_id = (
            self.queue_reporter.find_request_id(message_id) or self.current_request_id
        )
        yield from self.queue_reporter.report_dequeued(message_id)

    def _handle_task_end(self, task: Task, event: ev.Event) -> Iterator[JsonLine]:
        match event:
            case ev.TaskCompleted(result=result, is_plain_answer=answered):
                ending: Completed | Failed = Completed(result, answered=answered)
                code = ControlCode.TASK_COMPLETED
            case ev.TaskFailed(code=reason, message=message):
                ending, code = Failed(reason, message), ControlCode.TASK_FAILED
            case ev.TaskAborted():
                yield from self._finish_start_command(task.id, ControlCode.TASK_ABORTED)
                self.current_request_id = None
                return
            case _:
                return
        run = build_result(task, ending, refused=bool(self.policy.refused_asks))
        self.policy.refused_asks.clear()
        self.last_exit_code = run.exit_code
        yield from map(
            self._add_request_id,
            (*build_error_lines(run), build_result_line(run, self._encoder.last_text)),
        )
        yield from self._finish_start_command(task.id, code)
        self.current_request_id = None

    def _finish_start_command(self, task_id: str, code: ControlCode) -> Iterator[JsonLine]:
        start_id, self._start_request_id = self._start_request_id, None
        if start_id is not None:
            about = {"command": "start", "request_id": start_id, "task_id": task_id}
            yield build_control_line("done", code, **about)
