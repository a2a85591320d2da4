"""What one task says to a program that steers it by commands: lines that name the command which
they belong to, in the order in which things happen."""

from __future__ import annotations

from collections.abc import Iterator

from joey.cli.run_results import result_of
from joey.cli.stdin_replies import About, QueueLines, done
from joey.cli.stream_json import Line, StreamJson, error_lines, result_line
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
    UserSaid,
)
from joey.core.history.api import COMPLETION
from joey.core.task import APPROVALS, Answer, AskKind
from joey.engine.asks import Unattended
from joey.engine.outcomes import Completed, Failed
from joey.engine.task import Task


class StreamPolicy(Unattended):
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
        if ask.ask in APPROVALS:
            return self._approves and ask.tool != COMPLETION
        return ask.ask in (AskKind.COMPLETION_RESULT, AskKind.FOLLOWUP)


class Voice:
    def __init__(self, policy: StreamPolicy, start_id: str | None = None) -> None:
        self.policy = policy
        self.queue = QueueLines()
        self.owner = start_id
        """The command that the lines belong to now."""
        self.exit_code = 0
        """Of the latest result."""
        self._start_id = start_id
        """The `start` that has not been told its end."""
        self._answers: dict[int, str] = {}
        self._stream = StreamJson()

    def answers(self, ask_ts: int, request_id: str) -> None:
        """An answer to this question comes with this command."""
        self._answers[ask_ts] = request_id

    def hear(self, task: Task, event: Event) -> Iterator[Line]:
        yield from map(self._tagged, self._waiting_words(event))
        if isinstance(event, AskAnswered):
            self.owner = self._answers.pop(event.ask_ts, self.owner)
        yield from map(self._tagged, self._stream.feed(event))
        yield from self._ending(task, event)

    def hear_child(self, task_id: str, ask: AskOpened) -> Iterator[Line]:
        """A question of a subtask, which the program may answer."""
        for line in StreamJson().feed(ask):
            yield self._tagged({**line, "taskId": task_id})

    def _tagged(self, line: Line) -> Line:
        return line if self.owner is None else {**line, "requestId": self.owner}

    def _waiting_words(self, event: Event) -> Iterator[Line]:
        match event:
            case MessageQueued():
                yield from self.queue.queued(event)
            case MessageUnqueued(id=message_id):
                yield from self.queue.dequeued(message_id)
            case UserSaid(text=text, images=images, first=False):
                if found := self.queue.find(text, images):
                    yield from self._say(found)
            case RequestStarted(dequeued=dequeued):
                for message_id in dequeued:
                    yield from self._say(message_id)

    def _say(self, message_id: str) -> Iterator[Line]:
        """From here on it is about this message."""
        self.owner = self.queue.owner(message_id) or self.owner
        yield from self.queue.dequeued(message_id)

    def _ending(self, task: Task, event: Event) -> Iterator[Line]:
        match event:
            case TaskCompleted(result=result, answered=answered):
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

    def _done(self, task_id: str, code: str) -> Iterator[Line]:
        start_id, self._start_id = self._start_id, None
        if start_id is not None:
            yield done(About("start", start_id, task_id), code)
