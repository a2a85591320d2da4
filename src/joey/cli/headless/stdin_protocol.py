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
from typing import Any, Literal, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType

from joey.cli.headless.run import result_of
from joey.cli.headless.stream_json import JsonLine, StreamJsonEncoder, error_lines, result_line
from joey.cli.prompt import MAX_PROMPT_BYTES
from joey.client.images import MAX_IMAGE_BYTES, MAX_IMAGES, ImageError, encode_image
from joey.core.events import (
    AskAnswered,
    AskOpened,
    Event,
    MessageQueued,
    MessageUnqueued,
    RequestStarted,
    TaskAborted,
    TaskCompleted,
    TaskFailed,
    UserMessage,
)
from joey.core.history.api import COMPLETION_TOOL
from joey.core.task import APPROVAL_ASKS, Answer, AskKind, Response
from joey.core.wire.frames import TaskId
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


class InvalidLine(Struct, frozen=True):
    """A line that is no command."""

    problem: str
    request_id: str | None = None
    """As far as it could be understood."""
    command: str | None = None


class StdinCommandParser:
    """Bytes in, commands out. Holds no more than one line."""

    def __init__(self, longest: int = MAX_LINE_BYTES) -> None:
        self._longest = longest
        self._rest = bytearray()
        self._number = 0
        self._skips = False
        """The line that is being read is too long already."""

    def feed(self, data: bytes) -> Iterator[StdinCommand | InvalidLine]:
        *ended, rest = data.split(b"\n")
        for piece in ended:
            self._take(piece)
            yield from self._end()
        self._take(rest)

    def close(self) -> Iterator[StdinCommand | InvalidLine]:
        """The last line need not have an end."""
        yield from self._end()

    def _take(self, piece: bytes) -> None:
        if self._skips or len(self._rest) + len(piece) > self._longest:
            self._skips = True
            self._rest.clear()
        else:
            self._rest += piece

    def _end(self) -> Iterator[StdinCommand | InvalidLine]:
        self._number += 1
        line, skips = bytes(self._rest).removeprefix(b"\xef\xbb\xbf").strip(), self._skips
        self._rest.clear()
        self._skips = False
        if skips:
            yield self._bad(f"it is longer than {self._longest} bytes")
        elif line:
            yield self._understand(line)

    def _understand(self, line: bytes) -> StdinCommand | InvalidLine:
        try:
            said = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return self._bad(f"it is not JSON ({error})")
        except RecursionError:
            return self._bad("it is nested too deeply")
        if not isinstance(said, dict):
            return self._bad("it is not a JSON object")
        try:
            command = msgspec.convert(said, StdinCommand)
        except msgspec.ValidationError as error:
            return self._bad(_fault(said) or str(error), said)
        command = msgspec.structs.replace(command, request_id=command.request_id.strip())
        if problem := _fault(said) or _unusable(command):
            return self._bad(problem, said)
        return command

    def _bad(self, problem: str, said: dict[str, Any] | None = None) -> InvalidLine:
        def text(name: str) -> str | None:
            value = (said or {}).get(name)
            return value.strip()[:200] if isinstance(value, str) else None

        problem = f"line {self._number} of stdin is no command: {problem}"
        return InvalidLine(problem, text("requestId") or None, text("command") or None)


def _fault(said: dict[str, Any]) -> str | None:
    """What is missing of every command."""
    name, request_id = said.get("command"), said.get("requestId")
    if name not in COMMAND_NAMES:
        return f'"command" must be one of {", ".join(COMMAND_NAMES)}'
    if not isinstance(request_id, str) or not request_id.strip():
        return '"requestId" must be text'
    return None


def _unusable(command: StdinCommand) -> str | None:
    """Why a command of the right shape cannot be carried out."""
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
        if not _is_image(image):
            return f'"images": {image[:30]}… is not a picture of the kind that it names'
    task_id = command.task_id if command.command == "start" else UNSET
    if task_id is not UNSET and not _UUID_RE.fullmatch(task_id.lower()):
        return '"taskId" must be a UUID'
    return None


def _is_image(uri: str) -> bool:
    """A service would refuse any other, and with it every later turn of the task."""
    kind, _, data = uri.partition(",")
    try:
        return encode_image(base64.b64decode(data, validate=True), "").startswith(f"{kind},")
    except (ValueError, ImageError):
        return False


CAPABILITIES = ("start", "message", "cancel", "ping", "shutdown")
_MAX_ITEM_TEXT_CHARS = 180
_CODE_MESSAGES = {
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


class ControlLineContext(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What a control line belongs to, as far as that is known."""

    command: str | None = None
    request_id: str | None = None
    task_id: str | None = None


def accepted(about: ControlLineContext) -> JsonLine:
    return _control("ack", "accepted", about, _CODE_MESSAGES["accepted"], success=True)


def done(about: ControlLineContext, code: str) -> JsonLine:
    success = code not in ("task_aborted", "task_failed")
    return _control("done", code, about, _CODE_MESSAGES[code], success=success)


def refused(about: ControlLineContext, code: str, problem: str) -> JsonLine:
    return _control("error", code, about, problem, success=False)


def _control(
    subtype: str, code: str, about: ControlLineContext, content: str, *, success: bool
) -> JsonLine:
    line: JsonLine = {"type": "control", "subtype": subtype, **msgspec.to_builtins(about)}
    return line | {"content": content, "code": code, "success": success}


class _QueuedMessage(Struct, frozen=True):
    message: MessageQueued
    request_id: str | None
    is_reported: bool
    """Words that set a task at rest to work only pass through the queue."""


class QueueReporter:
    """The words that wait, and whose they are."""

    def __init__(self) -> None:
        self._expected: list[tuple[str, bool]] = []
        self._waiting: dict[str, _QueuedMessage] = {}

    def expect(self, request_id: str, *, is_reported: bool) -> None:
        """The next message that is queued came with this command."""
        self._expected.append((request_id, is_reported))

    def adopt(self, messages: Sequence[MessageQueued]) -> Iterator[JsonLine]:
        """Words that have waited since an earlier run."""
        self._waiting = {each.id: _QueuedMessage(each, None, True) for each in messages}
        if messages:
            yield self._line("snapshot")

    def queued(self, message: MessageQueued) -> Iterator[JsonLine]:
        known = self._waiting.get(message.id)
        if known is not None:
            self._waiting[message.id] = _QueuedMessage(message, known.request_id, known.is_reported)
            yield self._line("updated")
            return
        request_id, is_reported = self._expected.pop(0) if self._expected else (None, True)
        self._waiting[message.id] = _QueuedMessage(message, request_id, is_reported)
        if is_reported:
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

    def dequeued(self, message_id: str) -> Iterator[JsonLine]:
        gone = self._waiting.pop(message_id, None)
        if gone is not None and gone.is_reported:
            yield self._line("dequeued" if self._reported_messages else "drained")

    @property
    def _reported_messages(self) -> list[_QueuedMessage]:
        return [each for each in self._waiting.values() if each.is_reported]

    def _line(self, subtype: str) -> JsonLine:
        reported = self._reported_messages
        items = f"{len(reported)} item{'' if len(reported) == 1 else 's'}"
        return {
            "type": "queue",
            "subtype": subtype,
            "content": "queue drained" if subtype == "drained" else f"queue {subtype} ({items})",
            "queueDepth": len(reported),
            "queue": [_item(each.message) for each in reported],
        }


def _item(message: MessageQueued) -> JsonLine:
    text = " ".join(message.text.split())
    item: JsonLine = {"id": message.id, "imageCount": len(message.images), "timestamp": message.ts}
    if text:
        item["text"] = (
            text if len(text) <= _MAX_ITEM_TEXT_CHARS else f"{text[: _MAX_ITEM_TEXT_CHARS - 3]}..."
        )
    return item


class StdinAnswerPolicy(Unattended):
    """A program is there, as long as it may send commands: it hears results and questions, and
    where it wants to, allows things. What it leaves open, nobody answers."""

    replaces_user = False

    def __init__(self, *, approves: bool) -> None:
        super().__init__()
        self._approves = approves
        self.is_open = True
        """Commands may still come."""

    def answer(self, ask: AskOpened) -> Answer | None:
        if self.is_open and self._is_for_program(ask):
            return None
        return super().answer(ask)

    def _is_for_program(self, ask: AskOpened) -> bool:
        if ask.ask in APPROVAL_ASKS:
            return self._approves and ask.tool != COMPLETION_TOOL
        return ask.ask in (AskKind.COMPLETION_RESULT, AskKind.FOLLOWUP)


class JsonEmitter:
    def __init__(self, policy: StdinAnswerPolicy, start_id: str | None = None) -> None:
        self.policy = policy
        self.queue = QueueReporter()
        self.owner = start_id
        """The command that the lines belong to now."""
        self.exit_code = 0
        """Of the latest result."""
        self._start_id = start_id
        """The `start` that has not been told its end."""
        self._answers: dict[int, str] = {}
        self._stream = StreamJsonEncoder()

    def answers(self, ask_ts: int, request_id: str) -> None:
        """An answer to this question comes with this command."""
        self._answers[ask_ts] = request_id

    def handle(self, task: Task, event: Event) -> Iterator[JsonLine]:
        yield from map(self._tagged, self._handle_queue_event(event))
        if isinstance(event, AskAnswered):
            self.owner = self._answers.pop(event.ask_ts, self.owner)
        yield from map(self._tagged, self._stream.feed(event))
        yield from self._ending(task, event)

    def handle_subtask_ask(self, task_id: str, ask: AskOpened) -> Iterator[JsonLine]:
        """A question of a subtask, which the program may answer."""
        for line in StreamJsonEncoder().feed(ask):
            yield self._tagged({**line, "taskId": task_id})

    def _tagged(self, line: JsonLine) -> JsonLine:
        return line if self.owner is None else {**line, "requestId": self.owner}

    def _handle_queue_event(self, event: Event) -> Iterator[JsonLine]:
        match event:
            case MessageQueued():
                yield from self.queue.queued(event)
            case MessageUnqueued(id=message_id):
                yield from self.queue.dequeued(message_id)
            case UserMessage(text=text, images=images, is_first=False):
                if found := self.queue.find(text, images):
                    yield from self._say(found)
            case RequestStarted(dequeued_ids=dequeued):
                for message_id in dequeued:
                    yield from self._say(message_id)

    def _say(self, message_id: str) -> Iterator[JsonLine]:
        """From here on it is about this message."""
        self.owner = self.queue.owner(message_id) or self.owner
        yield from self.queue.dequeued(message_id)

    def _ending(self, task: Task, event: Event) -> Iterator[JsonLine]:
        match event:
            case TaskCompleted(result=result, is_plain_answer=answered):
                ending: Completed | Failed = Completed(result, answered=answered)
                code = "task_completed"
            case TaskFailed(code=reason, message=message):
                ending, code = Failed(reason, message), "task_failed"
            case TaskAborted():
                yield from self._done(task.id, "task_aborted")
                self.owner = None
                return
            case _:
                return
        run = result_of(task, ending, refused=bool(self.policy.refused))
        self.policy.refused.clear()
        self.exit_code = run.exit_code
        yield from map(self._tagged, (*error_lines(run), result_line(run, self._stream.last_text)))
        yield from self._done(task.id, code)
        self.owner = None

    def _done(self, task_id: str, code: str) -> Iterator[JsonLine]:
        start_id, self._start_id = self._start_id, None
        if start_id is not None:
            yield done(ControlLineContext("start", start_id, task_id), code)
