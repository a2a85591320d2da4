"""Events of a task: the closed union that the engine emits and everything else observes.

Every event carries `ts`, an increasing number of milliseconds that identifies it within its task
(and its row, if it creates one). There are two kinds:

- *durable* events are numbered, written to the journal before anything acts on them, and enough to
  rebuild both histories and the rest of a task's state;
- *passing* events (`RowOpened`, `RowDelta`, `ArgumentsDelta`, `CommandOutputDelta`,
  `RetryCountdown`, `UsageChanged`) show work in progress. Their content arrives again, complete, in
  a durable event; a client that missed them has lost nothing.

Nothing is ever removed from a journal. A summary or a truncation marker hides messages, and a
rewind names the earlier record that the history continues from (see `history.branch`), so that it
can be undone in the same way.
"""

from __future__ import annotations

import warnings
from operator import add, sub
from typing import TYPE_CHECKING, Any, get_args

from msgspec import Struct, field, structs

from joey.core.diagnostics import Diagnostic
from joey.core.messages import Message, Part, ReplySource, TextBlock, Usage, UserBlock
from joey.core.models import ProtocolChangeReason, ToolProtocol
from joey.core.permissions.hosts import CommandNetwork
from joey.core.permissions.policy import SandboxStatus
from joey.core.permissions.reasons import Reason
from joey.core.settings import Limits, ModelRoute
from joey.core.task_types import Answer, AskKind, CallEnding, CancelReason, RuleScope, Todo
from joey.core.tool_calls import ToolCallSummary

_FORMER_FIELDS = {
    "always": "always_rule",
    "answered": "is_plain_answer",
    "attempts": "max_attempts",
    "before": "previous_id",
    "clean": "is_clean",
    "dequeued": "dequeued_ids",
    "files": "files_checkpoint",
    "files_before": "files_checkpoint_before",
    "first": "is_first",
    "header": "result_header",
    "longest": "max_text_chars",
    "messages": "hidden_message_count",
    "own": "is_own_change",
    "protected": "is_protected",
    "protocol": "tool_protocol",
    "row_ts": "last_row_ts",
    "run": "budget_id",
    "scopes": "always_scopes",
    "spent": "subtask_spending",
    "task_id": "subtask_id",
    "to": "to_seq",
    "undo": "is_undo",
    "usage": "subtask_usage",
    "worktree": "has_worktree",
}


class EventBase(Struct, frozen=True, omit_defaults=True, tag_field="event", kw_only=True):
    ts: int

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            now = _FORMER_FIELDS.get(name)
            if now not in self.__struct_fields__:
                raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
            message = f"{type(self).__name__}.{name} is {now} now"
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            return getattr(self, now)


class TokenUsage(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Totals of a task, with the field names of the WebSocket API."""

    total_tokens_in: int = 0
    total_tokens_out: int = 0
    total_cache_writes: int = 0
    total_cache_reads: int = 0
    total_cost: float = 0.0
    context_tokens: int = 0
    """Tokens of the latest request and its reply: what the window holds now."""

    def plus(self, other: TokenUsage) -> TokenUsage:
        """Add the usage of both; the window is this task's own."""
        sums = TokenUsage(*map(add, structs.astuple(self), structs.astuple(other)))
        return structs.replace(sums, context_tokens=self.context_tokens)


class Spending(Struct, frozen=True, omit_defaults=True):
    """The amounts that limits apply to."""

    turns: int = 0
    """Replies."""
    requests: int = 0
    calls: int = 0
    """Calls in replies, but for those that hand over a result."""
    tokens: int = 0
    """Sent and received."""
    cost: float = 0.0

    def plus(self, other: Spending) -> Spending:
        return Spending(*map(add, structs.astuple(self), structs.astuple(other)))

    def minus(self, other: Spending) -> Spending:
        return Spending(*map(sub, structs.astuple(self), structs.astuple(other)))


class ToolTally(Struct, frozen=True):
    attempts: int = 0
    failures: int = 0


class RowPart(Struct, frozen=True):
    """A part of a reply with the `ts` of the row that shows it."""

    ts: int
    part: Part


# Life of a task ------------------------------------------------------------------------------


class TaskCreated(EventBase, frozen=True, tag="taskCreated"):
    """First event of every task that joey itself started."""

    task_id: str
    workspace: str
    mode: str
    tool_protocol: ToolProtocol = field(name="protocol")
    profile: str = "default"
    model: str = ""
    parent_id: str | None = None
    root_id: str | None = None
    depth: int = 0
    """How many tasks stand above it."""
    configuration: dict[str, Any] | None = None
    is_protocol_named: bool = field(default=False, name="protocol_named")
    """A flag or a profile named the protocol; it does not change by itself."""


class TaskImported(EventBase, frozen=True, tag="taskAdopted"):
    """First event of every task whose directory was written by another program."""

    task_id: str
    workspace: str
    mode: str
    tool_protocol: ToolProtocol = field(name="protocol")
    rows: tuple[dict[str, Any], ...]
    messages: tuple[Message, ...]
    """As they were written, those that are out of sight included."""
    parent_id: str | None = None
    child_ids: tuple[str, ...] = ()


class TaskConfigured(EventBase, frozen=True, tag="taskConfigured"):
    """All settings given only to this task, by their names in the files. No secrets."""

    configuration: dict[str, Any]


class TaskStarted(EventBase, frozen=True, tag="taskStarted"):
    """The loop starts to work, for the first time or again."""

    resumed: bool = False
    route: ModelRoute | None = None
    """The model it works with from here on."""
    budget_id: str = field(default="", name="run")
    """Whose limits count: the same for a task and its subtasks, and for a run that goes on after
    its process died."""
    limits: Limits | None = None
    """Those of the run; its subtasks do not repeat them."""


class BackgroundCommand(Struct, frozen=True, omit_defaults=True):
    """A command that was in the background when a result was presented: how it ended, or that it is
    running."""

    command: str
    is_running: bool = False
    exit_code: int | None = None
    signal: str | None = None


class TaskCompleted(EventBase, frozen=True, tag="taskCompleted"):
    """A result passed its checks and is presented; it may still be answered with feedback."""

    result: str
    usage: TokenUsage
    tool_usage: dict[str, ToolTally]
    is_plain_answer: bool = field(default=False, name="answered")
    """The result is an answer in plain text: no call presented it."""
    background_commands: tuple[BackgroundCommand, ...] = ()
    """The result ends with a sentence about each."""


class TaskFinished(EventBase, frozen=True, tag="taskFinished"):
    """The result was accepted; the loop has ended."""


class TaskAborted(EventBase, frozen=True, tag="taskAborted"):
    reason: str = CancelReason.USER_CANCELLED


class TaskFailed(EventBase, frozen=True, tag="taskFailed"):
    """The task cannot continue by itself; it may be resumed."""

    code: str
    """A `FailureCode`, or that of a `ProviderFailureKind`: `provider:…`."""
    message: str


# Requests and replies ------------------------------------------------------------------------


class UserMessage(EventBase, frozen=True, tag="userSaid"):
    """A message of the user: the task itself (`is_first`), or later feedback."""

    text: str
    images: tuple[str, ...] = ()
    is_first: bool = field(default=False, name="first")

    def matches_answer(self, answer: Answer) -> bool:
        """Whether this may be the message that came with an answer."""
        return (self.text, self.images) == (answer.text, answer.images)


class RequestStarted(EventBase, frozen=True, tag="requestStarted"):
    """A request is sent. `content` is what it adds after the results of the previous turn."""

    api_protocol: str
    content: tuple[UserBlock, ...] = ()
    dequeued_ids: tuple[str, ...] = field(default=(), name="dequeued")
    """Queued messages whose words are in `content`: from here on the model has them."""


class RequestEnded(EventBase, frozen=True, tag="requestEnded"):
    request_ts: int
    usage: Usage | None = None
    cost: float | None = None
    cancel_reason: str | None = None
    """One of `CancelReason`."""
    error: str | None = None


class ReplyReceived(EventBase, frozen=True, tag="replyReceived"):
    """The model's reply, committed before any of its calls runs."""

    parts: tuple[RowPart, ...]
    raw: str | None = None
    response_id: str | None = None
    stop_reason: str | None = None
    interrupted: bool = False
    source: ReplySource | None = None
    """Who made it; None in journals of versions that did not record it."""


# Tools and asks ------------------------------------------------------------------------------


class ToolStarted(EventBase, frozen=True, tag="toolAnnounced"):
    """A call allowed by the rules is about to run; `ts` is that of its row."""

    call_id: str
    tool: str
    text: str
    """What Roo's clients read: the row's JSON."""
    path: str | None = None
    diff: str | None = None
    rule: str | None = None
    """What allowed it."""
    sandbox: SandboxStatus | None = None
    """Of a command: how far the operating system holds it."""
    summary: ToolCallSummary | None = None
    """What users are shown; `get_summary` has one for events without."""


class AskOpened(EventBase, frozen=True, tag="askOpened"):
    """The task waits for an answer. `ts` identifies the question."""

    ask: AskKind
    text: str = ""
    call_id: str | None = None
    tool: str | None = None
    path: str | None = None
    diff: str | None = None
    is_protected: bool = field(default=False, name="protected")
    reason: str | None = None
    """Why a user has to look: the text of `reasons`."""
    reasons: tuple[Reason, ...] = ()
    """The same as values; none in journals that were written without them."""
    always_rule: str | None = field(default=None, name="always")
    """The rule that an answer may add, so that it is not asked again."""
    always_scopes: tuple[RuleScope, ...] = field(default=(), name="scopes")
    """How far it may go; none in old journals."""
    network: CommandNetwork | None = None
    """Of a sandboxed command: what it may reach, and what an answer may add."""
    sandbox: SandboxStatus | None = None
    """Of a command: how far the operating system would hold it."""
    summary: ToolCallSummary | None = None
    """Of an approval: the call, as in `ToolStarted`."""
    failure: str | None = None
    """Of a failed request: a `ProviderFailureKind`."""

    def accepts(self, answer: Answer) -> bool:
        """Whether a response answers it: a question of the model needs text or images, all others a
        button."""
        return self.ask is not AskKind.FOLLOWUP or bool(answer.text.strip() or answer.images)


class AskAnswered(EventBase, frozen=True, tag="taskAskResponded"):
    ask_ts: int
    answer: Answer

    @property
    def answered_by(self) -> str:
        """`person`, or the name of the policy that answered instead."""
        return self.answer.by


class AskWithdrawn(EventBase, frozen=True, tag="askWithdrawn"):
    """The task no longer waits for an answer (it was cancelled)."""

    ask_ts: int


class ToolFinished(EventBase, frozen=True, tag="toolFinished"):
    """The outcome of a call; joins its turn in the API history."""

    call_id: str
    tool: str
    content: str
    images: tuple[str, ...] = ()
    is_error: bool = False
    result_header: str | None = field(default=None, name="header")
    """XML protocol: the line that names the call before its result."""
    exit_code: int | None = None
    """Commands that ended: what they returned."""
    signal: str | None = None
    ending: CallEnding | None = None
    has_background_processes: bool = False
    """A command ended and left processes that still run."""
    new_errors: tuple[Diagnostic, ...] = ()
    """Errors that an edit introduced."""
    row_ts: int | None = None
    subtask_usage: TokenUsage | None = field(default=None, name="usage")
    """Of the subtask that did the work, its own subtasks included."""
    subtask_spending: Spending | None = field(default=None, name="spent")
    """What that subtask and those below it took of this run's limits."""


class CommandEnded(EventBase, frozen=True, tag="commandEnded"):
    """A background command has ended; recorded when this is reported to the model."""

    command: str
    exit_code: int | None = None
    signal: str | None = None


class CompletionSentBack(EventBase, frozen=True, tag="completionSentBack"):
    """A result was not presented because facts contradict it."""

    facts: tuple[str, ...]


class ToolFailed(EventBase, frozen=True, tag="taskToolFailed"):
    tool: str
    error: str
    call_id: str | None = None
    rule: str | None = None
    """The rule or the hook that refused it, when that is why."""
    reason: Reason | None = None
    """Why it was refused, if a rule or a hook did."""
    has_run: bool = False
    """The tool reported the error itself; a part of its work may be done."""


class RowAdded(EventBase, frozen=True, tag="said"):
    """A row of any other kind: `error`, `completion_result`, `command_output`, `diff_error`…"""

    say: str
    text: str = ""
    images: tuple[str, ...] = ()
    subtask_id: str | None = field(default=None, name="task_id")


class CallDropped(EventBase, frozen=True, tag="callDropped"):
    """A call was discarded: it was invalid, skipped or interrupted. `ts` is that of its row, which
    stays as it looked then."""

    tool: str
    text: str
    """That of its row: JSON, or a result that is not presented."""


class TodosChanged(EventBase, frozen=True, tag="todosChanged"):
    todos: tuple[Todo, ...]


class ModeSwitched(EventBase, frozen=True, tag="taskModeSwitched"):
    mode: str


class ProtocolChanged(EventBase, frozen=True, tag="protocolChanged"):
    """From here on, the model is shown the whole history in this tool protocol, whichever the turns
    were created in. A rewind does not undo this."""

    tool_protocol: ToolProtocol = field(name="protocol")
    reason: ProtocolChangeReason


class MessageQueued(EventBase, frozen=True, tag="messageQueued"):
    """A message that arrived while the task was busy; the model sees it at its next turn."""

    id: str
    text: str
    images: tuple[str, ...] = ()


class MessageUnqueued(EventBase, frozen=True, tag="messageUnqueued"):
    id: str


# Subtasks ------------------------------------------------------------------------------------


class SubtaskSpawned(EventBase, frozen=True, tag="taskSpawned"):
    """The subtask of a call, named before it exists: after any crash it is found or created
    again."""

    child_id: str
    call_id: str = ""
    row_ts: int = 0
    """The row of the call."""
    result_ts: int = 0
    """The row that its result will have; fixed beforehand, so that a crash adds it once."""
    mode: str = ""
    message: str = ""
    todos: tuple[Todo, ...] = ()
    has_worktree: bool = field(default=False, name="worktree")


class WorktreeMerged(EventBase, frozen=True, tag="worktreeMerged"):
    """The outcome of merging the changes in a subtask's worktree. They are not merged twice."""

    child_id: str
    report: str
    is_clean: bool = field(name="clean")
    """All is in the workspace, and the worktree may go."""


class TaskPaused(EventBase, frozen=True, tag="taskPaused"):
    """The task waits until these subtasks return. They exist by now."""

    child_ids: tuple[str, ...] = ()


class TaskUnpaused(EventBase, frozen=True, tag="taskUnpaused"):
    """The task's subtasks have returned, or were stopped with it."""


# Transient events ------------------------------------------------------------------------------


class RowOpened(EventBase, frozen=True, tag="rowOpened"):
    """A row begins to stream: `say` is `text`, `reasoning` or `tool`."""

    say: str
    tool: str | None = None
    call_id: str | None = None


class RowDelta(EventBase, frozen=True, tag="rowGrew"):
    """More text of the open row `ts`."""

    delta: str


class ArgumentsDelta(EventBase, frozen=True, tag="callGrew"):
    """More raw arguments of the open call whose row is `ts`."""

    delta: str


class CommandOutputDelta(EventBase, frozen=True, tag="commandGrew"):
    """More output of the command whose row is `ts`."""

    output: str


class RetryCountdown(EventBase, frozen=True, tag="countdown"):
    """Seconds until a failed request is retried; `seconds` 0 ends the wait."""

    seconds: int
    message: str
    attempt: int = 1
    max_attempts: int = field(default=0, name="attempts")
    """How many there will be at most; 0 when that is not known."""


class UsageChanged(EventBase, frozen=True, tag="taskTokenUsageUpdated"):
    usage: TokenUsage


class ContextCondensed(EventBase, frozen=True, tag="contextCondensed"):
    """From here on, a summary replaces everything so far for the model."""

    condense_id: str
    summary: str
    """What the model wrote."""
    content: tuple[TextBlock, ...]
    """What it is shown in place of the messages: the summary, and what must not be lost in it."""
    tokens_before: int
    tokens_after: int
    """How full the window was and is, by our own count."""
    usage: Usage | None = None
    """Of the request that made the summary."""
    cost: float | None = None


class ContextTruncated(EventBase, frozen=True, tag="contextTruncated"):
    """The oldest turns are hidden from the model; the first message stays."""

    truncation_id: str
    hidden_message_count: int = field(name="messages")
    """How many of the messages that were visible, after the first."""
    tokens_before: int
    tokens_after: int
    max_text_chars: int | None = field(default=None, name="longest")
    """Texts of what stays visible are cut to this many characters, where that was not enough."""


class CheckpointSaved(EventBase, frozen=True, tag="checkpointSaved"):
    """The files of the workspace at this moment can be restored."""

    id: str
    previous_id: str | None = field(default=None, name="before")
    is_own_change: bool = field(default=False, name="own")
    """What differs from the one before is this task's own work; else it is somebody's else."""


class TaskRewound(EventBase, frozen=True, tag="taskRewound"):
    """The history continues from an earlier record. Everything after that record is hidden."""

    to_seq: int = field(name="to")
    last_row_ts: int | None = field(default=None, name="row_ts")
    """The last row that stays, where the record made more than one; 0 when none does."""
    files_checkpoint: str | None = field(default=None, name="files")
    """The checkpoint that the files shall be brought back to; done when `FilesRestored` says so."""
    files_checkpoint_before: str | None = field(default=None, name="files_before")
    """The checkpoint of the files as they were when this was asked for."""
    is_undo: bool = field(default=False, name="undo")
    """It takes a rewind back; the next undo goes on with the one before that."""


class FilesRestored(EventBase, frozen=True, tag="filesRestored"):
    """The files were restored to a checkpoint."""

    checkpoint: str
    paths: tuple[str, ...] = ()
    """The files that were changed by it, or the first of them."""


class TaskForked(EventBase, frozen=True, tag="taskForked"):
    """The records before this one were copied from another task. Their usage and subtasks are not
    this task's."""

    source_id: str
    source_seq: int
    """The last record that was taken over, by its number there."""
    route: ModelRoute | None = None


Transient = (
    RowOpened | RowDelta | ArgumentsDelta | CommandOutputDelta | RetryCountdown | UsageChanged
)
Durable = (
    TaskCreated
    | TaskImported
    | TaskConfigured
    | TaskStarted
    | TaskCompleted
    | TaskFinished
    | TaskAborted
    | TaskFailed
    | UserMessage
    | RequestStarted
    | RequestEnded
    | ReplyReceived
    | ToolStarted
    | AskOpened
    | AskAnswered
    | AskWithdrawn
    | ToolFinished
    | ToolFailed
    | RowAdded
    | CallDropped
    | TodosChanged
    | ModeSwitched
    | ProtocolChanged
    | CommandEnded
    | CompletionSentBack
    | MessageQueued
    | MessageUnqueued
    | SubtaskSpawned
    | WorktreeMerged
    | TaskPaused
    | TaskUnpaused
    | ContextCondensed
    | ContextTruncated
    | CheckpointSaved
    | TaskRewound
    | FilesRestored
    | TaskForked
)
Event = Durable | Transient
TRANSIENT_EVENTS: frozenset[type[EventBase]] = frozenset(get_args(Transient))


class Record(Struct, frozen=True):
    """A line of the journal."""

    seq: int
    event: Durable


_FORMER_NAMES = {
    "CallGrew": "ArgumentsDelta",
    "ChildSpawned": "SubtaskSpawned",
    "CommandGrew": "CommandOutputDelta",
    "Countdown": "RetryCountdown",
    "PASSING": "TRANSIENT_EVENTS",
    "Passing": "Transient",
    "Placed": "RowPart",
    "RowGrew": "RowDelta",
    "Said": "RowAdded",
    "Spent": "Spending",
    "TaskAdopted": "TaskImported",
    "ToolAnnounced": "ToolStarted",
    "UserSaid": "UserMessage",
}


def __getattr__(name: str) -> object:
    if name not in _FORMER_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    now = _FORMER_NAMES[name]
    message = f"{__name__}.{name} is joey.events.{now} now; the old name goes with the next release"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return globals()[now]
