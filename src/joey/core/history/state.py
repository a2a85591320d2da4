"""Facts of a task, folded from its events: state, mode, tool protocol, model, usage, asks.

    created ──▶ running ◀──▶ waiting
                 │  │ │         │
                 │  │ └─────────┼──▶ completed     the user accepted the result
                 │  └───────────┼──▶ failed        it cannot continue by itself (provider, limit…)
                 └──────────────┴──▶ aborted       it was cancelled

A task at rest (completed, failed, aborted, or created and never run) may be resumed, which makes
it running again. A running task becomes `delegated` while it waits for its subtasks, and is
running again when they return.
"""

from __future__ import annotations

from msgspec import Struct, structs

from joey.core import events as ev
from joey.core.history.api import COMPLETION_TOOL_NAME
from joey.core.history.completion_facts import CompletionFacts
from joey.core.history.usage_ledger import UsageLedger, find_context_tokens
from joey.core.messages import Usage
from joey.core.models import ProtocolChangeReason, ToolProtocol
from joey.core.settings import ModelRoute
from joey.core.task_types import (
    APPROVAL_ASKS,
    IDLE_STATES,
    Answer,
    AskKind,
    RowKind,
    TaskState,
    Todo,
    check_transition,
)
from joey.errors import TaskStateError

STATE_AFTER_EVENT: dict[type[object], TaskState] = {
    ev.TaskStarted: TaskState.RUNNING,
    ev.AskOpened: TaskState.WAITING,
    ev.AskAnswered: TaskState.RUNNING,
    ev.AskWithdrawn: TaskState.RUNNING,
    ev.TaskPaused: TaskState.DELEGATED,
    ev.TaskUnpaused: TaskState.RUNNING,
    ev.TaskFinished: TaskState.COMPLETED,
    ev.TaskAborted: TaskState.ABORTED,
    ev.TaskFailed: TaskState.FAILED,
}


MAX_RECENT_USER_MESSAGES = 50


class UnsentFeedback(Struct, frozen=True):
    """Text that came with an answer and was not sent to the model yet."""

    ts: int
    call_id: str | None
    answer: Answer


class TaskProjection:
    """The identity and state of a task, and its totals (`ledger`)."""

    def __init__(self) -> None:
        self.ledger = UsageLedger()
        self.reset()

    def reset(self) -> None:
        """Reset everything except the ledger, before following another path."""
        self.task_id = ""
        self.prompt: ev.UserMessage | None = None
        self.workspace = ""
        self.mode = ""
        self._first_protocol = ToolProtocol.NATIVE
        self._is_first_protocol_named = False
        self._created_route = ModelRoute()
        self._run_route: ModelRoute | None = None
        self.parent_id: str | None = None
        self.root_id: str | None = None
        self.depth = 0
        self.spawned_subtasks: dict[str, ev.SubtaskSpawned] = {}
        self.imported_child_ids: tuple[str, ...] = ()
        """Subtasks from before it was adopted."""
        self.pending_subtask_ids: tuple[str, ...] = ()
        self.worktree_merges: dict[str, ev.WorktreeMerged] = {}
        """What became of the worktrees of its subtasks, by their ids."""
        self.created = 0
        self.state = TaskState.CREATED
        self.pending_ask: ev.AskOpened | None = None
        self.unsent_feedback: tuple[UnsentFeedback, ...] = ()
        """Answers with words that no result and no request has carried to the model yet, each
        with the call it is about."""
        self.unsent_messages: tuple[ev.UserMessage, ...] = ()
        """Words that are shown, but that no request has carried to the model: where a history
        ends with them, it goes on with them."""
        self.is_result_accepted = False
        """The latest result was accepted, and nothing was asked of the model since."""
        self.is_result_seen_by_user = True
        """The latest answer to a result was not given in the user's place."""
        self.is_result_unanswered = False
        """The latest result was shown, and whoever should have judged it went away."""
        self.result: str | None = None
        self.is_plain_answer = False
        self.background_commands: tuple[ev.BackgroundCommand, ...] = ()
        """With which the result ends."""
        self.failure: ev.TaskFailed | None = None
        self.todos: tuple[Todo, ...] = ()
        self.recent_user_messages: tuple[ev.UserMessage, ...] = ()
        """The latest words of the user after the first."""
        self.context_tokens = 0
        """How full the model's window is, by its own count or, after a change, by ours."""
        self.prompt_tokens: int | None = None
        """What the model counted in the latest request that it answered; None when it did not
        say, or is shown something else since."""
        self.checkpoints: tuple[ev.CheckpointSaved, ...] = ()
        self.pending_restore: ev.TaskRewound | None = None
        self.unattended_refusals: tuple[str, ...] = ()
        """What a policy refused in this run because nobody was there to allow it."""
        self.request_count = 0
        self.completion_facts = CompletionFacts()

    def apply(self, event: ev.Durable) -> None:
        """Apply the next record of a journal."""
        self.ledger.apply(event)
        self.apply_branch_event(event)

    def apply_branch_event(self, event: ev.Durable) -> None:
        """Apply a record of the path."""
        self.completion_facts.apply(event)
        match event:
            case ev.TaskCreated() | ev.TaskImported():
                self._apply_identity(event)
            case ev.UserMessage():
                self._add_user_message(event)
            case ev.TodosChanged():
                self.todos = event.todos
            case ev.ModeSwitched():
                self.mode = event.mode
            case ev.RequestStarted():
                self.request_count += 1
                self.unsent_feedback, self.unsent_messages = (), ()
                self.is_result_accepted = self.is_result_unanswered = False
                self.result, self.failure = None, None
            case ev.RequestEnded():
                self._update_token_counts(event)
            case ev.ContextCondensed() | ev.ContextTruncated():
                self.context_tokens, self.prompt_tokens = event.tokens_after, None
            case ev.ProtocolChanged():
                self.prompt_tokens = None
            case ev.ToolFinished():
                self.unsent_feedback = tuple(
                    u for u in self.unsent_feedback if u.call_id != event.call_id
                )
            case ev.CheckpointSaved():
                self.checkpoints += (event,)
            case ev.TaskRewound() | ev.FilesRestored() | ev.TaskForked():
                self._apply_rewind_or_fork(event)
            case _:
                self._apply_transition(event)

    def _update_token_counts(self, event: ev.RequestEnded) -> None:
        if event.error is not None:
            return  # what was shown before is shown again
        usage = event.usage or Usage()
        self.context_tokens = (usage.input + usage.output) or self.context_tokens
        self.prompt_tokens = (usage.input or None) if event.cancel_reason is None else None

    def _apply_identity(self, event: ev.TaskCreated | ev.TaskImported) -> None:
        self.task_id, self.workspace = event.task_id, event.workspace
        self.mode, self._first_protocol = event.mode, event.tool_protocol
        self.created = event.ts
        match event:
            case ev.TaskCreated():
                self._is_first_protocol_named = event.is_protocol_named
                self._created_route = ModelRoute(profile=event.profile, model=event.model)
                self.parent_id, self.root_id = event.parent_id, event.root_id
                self.depth = event.depth
            case ev.TaskImported(rows=rows):
                text = str(rows[0].get("text") or "") if rows else ""
                self.prompt = ev.UserMessage(ts=event.ts, text=text, is_first=True)
                later = [row for row in rows if row.get("say") == RowKind.USER_FEEDBACK]
                self.recent_user_messages = tuple(
                    ev.UserMessage(ts=event.ts, text=str(row.get("text") or ""))
                    for row in later[-MAX_RECENT_USER_MESSAGES:]
                )
                self.parent_id, self.imported_child_ids = event.parent_id, event.child_ids
                self.context_tokens = find_context_tokens(rows)
                self.is_result_accepted = (
                    bool(rows) and rows[-1].get("ask") == AskKind.COMPLETION_RESULT
                )
                self.state = TaskState.COMPLETED if self.is_result_accepted else TaskState.ABORTED

    def _add_user_message(self, event: ev.UserMessage) -> None:
        if event.is_first:
            self.prompt = event
            return
        self.recent_user_messages = (
            *self.recent_user_messages[1 - MAX_RECENT_USER_MESSAGES :],
            event,
        )
        if not any(event.matches_answer(said.answer) for said in self.unsent_feedback):
            self.unsent_messages += (event,)

    def _apply_rewind_or_fork(
        self, event: ev.TaskRewound | ev.FilesRestored | ev.TaskForked
    ) -> None:
        """Apply a rewind or fork: activities of that point in time are over."""
        match event:
            case ev.TaskRewound():
                self.pending_restore = event if event.files_checkpoint is not None else None
            case ev.FilesRestored():
                self.pending_restore = None
                return
            case ev.TaskForked():
                self.spawned_subtasks, self.imported_child_ids, self.pending_restore = {}, (), None
                self._run_route = event.route or self._run_route
        self.state = TaskState.ABORTED
        self.pending_ask, self.failure, self.pending_subtask_ids = None, None, ()

    @property
    def route(self) -> ModelRoute:
        """The model of the latest run; if the path ends before the first run, that of the first
        run."""
        return self._run_route or self.ledger.first_route or self._created_route

    @property
    def tool_protocol(self) -> ToolProtocol:
        """The protocol in which the whole history is shown to the model."""
        change = self.ledger.protocol_change
        return self._first_protocol if change is None else change.tool_protocol

    @property
    def is_protocol_named(self) -> bool:
        """Whether a user chose the protocol, so that it does not change automatically."""
        change = self.ledger.protocol_change
        return (
            self._is_first_protocol_named
            if change is None
            else change.reason is ProtocolChangeReason.USER
        )

    @property
    def usage(self) -> ev.TokenUsage:
        return structs.replace(self.ledger.usage, context_tokens=self.context_tokens)

    @property
    def child_ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.imported_child_ids, *self.spawned_subtasks)))

    @property
    def queued_messages(self) -> dict[str, ev.MessageQueued]:
        return self.ledger.queued_messages

    @property
    def updated(self) -> int:
        return self.ledger.updated

    @property
    def title(self) -> str:
        return extract_title(self.prompt.text) if self.prompt is not None else ""

    @property
    def status(self) -> TaskState:
        """The state for users: a task that has presented a result stays completed until the model
        is asked again, unless it lacked something that only a user could have allowed."""
        if self.is_result_accepted and self.state in IDLE_STATES:
            lacked = self.unattended_refusals and self.parent_id is None
            return TaskState.FAILED if lacked else TaskState.COMPLETED
        left = self.is_result_unanswered and self.state is TaskState.ABORTED
        return TaskState.COMPLETED if left else self.state

    def check_event(self, event: ev.Durable) -> None:
        """Check that the task's state allows this event. Raises TaskStateError if not."""
        if isinstance(event, ev.TaskRewound) and self.state not in IDLE_STATES:
            raise TaskStateError("a task has to rest before it is rewound")
        if (state := STATE_AFTER_EVENT.get(type(event))) is not None:
            check_transition(self.state, state)

    def _apply_transition(self, event: ev.Durable) -> None:
        self.state = STATE_AFTER_EVENT.get(type(event), self.state)
        match event:
            case ev.TaskStarted():
                self._run_route = event.route or self._run_route
                self.unattended_refusals = ()
                # The current state must not be overwritten by an earlier one.
                self.pending_restore = None
            case ev.AskOpened():
                self.pending_ask = event
            case ev.AskAnswered():
                self._apply_answer(event)
            case ev.AskWithdrawn():
                asked, self.pending_ask = self.pending_ask, None
                self.is_result_unanswered = (
                    asked is not None and asked.ask is AskKind.COMPLETION_RESULT
                )
            case ev.SubtaskSpawned():
                self.spawned_subtasks[event.child_id] = event
            case ev.WorktreeMerged():
                self.worktree_merges[event.child_id] = event
            case ev.TaskPaused():
                self.pending_subtask_ids = event.child_ids
            case ev.TaskUnpaused():
                self.pending_subtask_ids = ()
            case ev.ToolStarted(tool=tool) if tool == COMPLETION_TOOL_NAME:
                # The rules allow a subtask to return its result.
                self.is_result_accepted = True
            case ev.TaskCompleted():
                self.result, self.is_plain_answer = event.result, event.is_plain_answer
                self.background_commands = event.background_commands
            case ev.TaskFailed():
                self.failure = event

    def _apply_answer(self, event: ev.AskAnswered) -> None:
        asked, self.pending_ask = self.pending_ask, None
        if asked is None:
            return
        if not event.answer.is_by_user and asked.ask in APPROVAL_ASKS and not event.answer.approves:
            self.unattended_refusals += (asked.path or asked.text or asked.tool or asked.ask,)
        if event.answer.has_content:
            self.unsent_feedback += (UnsentFeedback(event.ts, asked.call_id, event.answer),)
        if asked.ask is AskKind.COMPLETION_RESULT or asked.tool == COMPLETION_TOOL_NAME:
            self.is_result_accepted = event.answer.approves
            self.is_result_seen_by_user = event.answer.is_by_user


def extract_title(prompt: str) -> str:
    """Extract the first paragraph as title: what follows is detail or piped input."""
    return prompt.strip().replace("\r\n", "\n").partition("\n\n")[0].rstrip()
