"""Everything else a task remembers, folded from the same events as its histories."""

from __future__ import annotations

from msgspec import Struct, structs

from joey.core.asks import APPROVALS, Answer, AskKind
from joey.core.events import (
    AskAnswered,
    AskOpened,
    AskWithdrawn,
    ChildSpawned,
    Durable,
    MessageQueued,
    MessageUnqueued,
    ModeSwitched,
    ReplyReceived,
    RequestEnded,
    RequestStarted,
    TaskAborted,
    TaskAdopted,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskFinished,
    TaskPaused,
    TaskStarted,
    TaskUnpaused,
    TodosChanged,
    TokenUsage,
    ToolAnnounced,
    ToolFailed,
    ToolFinished,
    ToolTally,
    UserSaid,
)
from joey.core.history.api import COMPLETION
from joey.core.messages import Usage
from joey.core.protocol import ToolProtocol
from joey.core.settings import Route
from joey.core.state import AT_REST, TaskState, check_transition
from joey.core.todos import Todo

STATE_AFTER: dict[type[object], TaskState] = {
    TaskStarted: TaskState.RUNNING,
    AskOpened: TaskState.WAITING,
    AskAnswered: TaskState.RUNNING,
    AskWithdrawn: TaskState.RUNNING,
    TaskPaused: TaskState.DELEGATED,
    TaskUnpaused: TaskState.RUNNING,
    TaskFinished: TaskState.COMPLETED,
    TaskAborted: TaskState.ABORTED,
    TaskFailed: TaskState.FAILED,
}


class Unheard(Struct, frozen=True):
    """Words that came with an answer, and that the model has not heard yet."""

    ts: int
    about: str | None
    """The call that was asked about."""
    answer: Answer


class TaskFacts:
    """Who the task is, where it stands, and what it has used."""

    def __init__(self) -> None:
        self.task_id = ""
        self.prompt: UserSaid | None = None
        self.workspace = ""
        self.mode = ""
        self.protocol = ToolProtocol.NATIVE
        self.route = Route()
        self.parent_id: str | None = None
        self.root_id: str | None = None
        self.depth = 0
        self.children: dict[str, ChildSpawned] = {}
        """Its subtasks, by their ids."""
        self.waits_for: tuple[str, ...] = ()
        """Those that it waits for."""
        self.created = 0
        self.updated = 0
        self.state = TaskState.CREATED
        self.pending: AskOpened | None = None
        self.unheard: tuple[Unheard, ...] = ()
        """Answers with words that no result and no request has carried to the model yet, each
        with the call it is about."""
        self.accepted = False
        """The latest result was accepted, and nothing was asked of the model since."""
        self.result: str | None = None
        self.failure: TaskFailed | None = None
        self.todos: tuple[Todo, ...] = ()
        self.queue: dict[str, MessageQueued] = {}
        self.usage = TokenUsage()
        self.subtask_usage = TokenUsage()
        """Of the subtasks that have returned."""
        self.tools: dict[str, ToolTally] = {}
        self.refused: tuple[str, ...] = ()
        """What a policy refused in this run because nobody was there to allow it."""
        self.requests = 0
        self.replies = 0

    def apply(self, event: Durable) -> None:
        self.updated = max(self.updated, event.ts)
        match event:
            case TaskCreated() | TaskAdopted():
                self._identify(event)
            case UserSaid(first=True):
                self.prompt = event
            case TodosChanged():
                self.todos = event.todos
            case ModeSwitched():
                self.mode = event.mode
            case MessageQueued():
                self.queue[event.id] = event
            case MessageUnqueued():
                self.queue.pop(event.id, None)
            case RequestStarted():
                self.requests += 1
                self.unheard = ()
                self.accepted = False
                self.result, self.failure = None, None
                for message_id in event.dequeued:
                    self.queue.pop(message_id, None)
            case ReplyReceived():
                self.replies += 1
            case RequestEnded(usage=Usage() as usage):
                self._add_usage(usage, event.cost or 0.0)
            case ToolFinished():
                self.unheard = tuple(u for u in self.unheard if u.about != event.call_id)
                self.subtask_usage = self.subtask_usage.plus(event.usage or TokenUsage())
                self._tally(event.tool, failed=False)
            case ToolFailed():
                self._tally(event.tool, failed=True)
            case _:
                self._move(event)

    def _identify(self, event: TaskCreated | TaskAdopted) -> None:
        self.task_id, self.workspace = event.task_id, event.workspace
        self.mode, self.protocol = event.mode, event.protocol
        self.created = event.ts
        match event:
            case TaskCreated():
                self.route = Route(profile=event.profile, model=event.model)
                self.parent_id, self.root_id = event.parent_id, event.root_id
                self.depth = event.depth
            case TaskAdopted(rows=rows):
                text = str(rows[0].get("text") or "") if rows else ""
                self.prompt = UserSaid(ts=event.ts, text=text, first=True)
                self.accepted = bool(rows) and rows[-1].get("ask") == AskKind.COMPLETION_RESULT
                self.state = TaskState.COMPLETED if self.accepted else TaskState.ABORTED

    @property
    def title(self) -> str:
        return self.prompt.text.strip() if self.prompt is not None else ""

    @property
    def status(self) -> TaskState:
        """The state, for people: a task whose result was accepted stays completed until the
        model is asked again."""
        at_rest = self.state in AT_REST
        return TaskState.COMPLETED if self.accepted and at_rest else self.state

    def check(self, event: Durable) -> None:
        """Raise unless the task's state allows this event now."""
        if (state := STATE_AFTER.get(type(event))) is not None:
            check_transition(self.state, state)

    def _move(self, event: Durable) -> None:
        self.state = STATE_AFTER.get(type(event), self.state)
        match event:
            case TaskStarted():
                self.route = event.route or self.route
                self.refused = ()
            case AskOpened():
                self.pending = event
            case AskAnswered():
                self._answer(event)
            case AskWithdrawn():
                self.pending = None
            case ChildSpawned():
                self.children[event.child_id] = event
            case TaskPaused():
                self.waits_for = event.child_ids
            case TaskUnpaused():
                self.waits_for = ()
            case ToolAnnounced(tool=tool) if tool == COMPLETION:
                # The rules let a subtask hand over its result.
                self.accepted = True
            case TaskCompleted():
                self.result = event.result
            case TaskFailed():
                self.failure = event

    def _answer(self, event: AskAnswered) -> None:
        asked, self.pending = self.pending, None
        if asked is None:
            return
        if event.answer.by != "person" and asked.ask in APPROVALS and not event.answer.approves:
            self.refused += (asked.path or asked.text or asked.tool or asked.ask,)
        if event.answer.has_words:
            self.unheard += (Unheard(event.ts, asked.call_id, event.answer),)
        if asked.ask is AskKind.COMPLETION_RESULT or asked.tool == COMPLETION:
            self.accepted = event.answer.approves

    def _add_usage(self, usage: Usage, cost: float) -> None:
        total = self.usage
        self.usage = TokenUsage(
            total_tokens_in=total.total_tokens_in + usage.input,
            total_tokens_out=total.total_tokens_out + usage.output,
            total_cache_writes=total.total_cache_writes + usage.cache_writes,
            total_cache_reads=total.total_cache_reads + usage.cache_reads,
            total_cost=total.total_cost + cost,
            context_tokens=(usage.input + usage.output) or total.context_tokens,
        )

    def _tally(self, tool: str, *, failed: bool) -> None:
        tally = self.tools.get(tool, ToolTally())
        self.tools[tool] = (
            structs.replace(tally, failures=tally.failures + 1)
            if failed
            else structs.replace(tally, attempts=tally.attempts + 1)
        )
