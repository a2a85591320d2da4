"""Values that describe a task: its state, the questions it asks, its todo list.

The model writes the todo list as a Markdown checklist; clients read the parsed items.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec
from msgspec import Struct, field

from joey.core.text import compile_regex
from joey.errors import TaskStateError


class TaskState(StrEnum):
    CREATED = "created"
    RUNNING = "running"
    WAITING = "waiting"
    DELEGATED = "delegated"
    COMPLETED = "completed"
    ABORTED = "aborted"
    FAILED = "failed"


STATE_TRANSITIONS: dict[TaskState, frozenset[TaskState]] = {
    TaskState.CREATED: frozenset({TaskState.RUNNING, TaskState.ABORTED}),
    TaskState.RUNNING: frozenset(
        {
            TaskState.WAITING,
            TaskState.DELEGATED,
            TaskState.COMPLETED,
            TaskState.ABORTED,
            TaskState.FAILED,
        }
    ),
    TaskState.WAITING: frozenset(
        {TaskState.RUNNING, TaskState.COMPLETED, TaskState.ABORTED, TaskState.FAILED}
    ),
    TaskState.DELEGATED: frozenset({TaskState.RUNNING, TaskState.ABORTED, TaskState.FAILED}),
    TaskState.COMPLETED: frozenset({TaskState.RUNNING}),
    TaskState.ABORTED: frozenset({TaskState.RUNNING}),
    TaskState.FAILED: frozenset({TaskState.RUNNING, TaskState.ABORTED}),
}

IDLE_STATES = frozenset(
    {TaskState.CREATED, TaskState.COMPLETED, TaskState.ABORTED, TaskState.FAILED}
)


def check_transition(old: TaskState, new: TaskState) -> None:
    """Check that `new` may follow `old`; staying in a state is always allowed. Raises
    TaskStateError."""
    if new is not old and new not in STATE_TRANSITIONS[old]:
        raise TaskStateError(f"a task cannot go from {old} to {new}")


TodoStatus = Literal["pending", "in_progress", "completed"]
_TODO_LINE_RE = compile_regex(r"(?:[-*+]\s*+|\d{1,9}[.)]\s*+)?\[\s{0,9}([xX~-]?)\s{0,9}\]\s++(.+)")
_STATUS_BY_MARK: dict[str, TodoStatus] = {
    "": "pending",
    "x": "completed",
    "X": "completed",
    "-": "in_progress",
    "~": "in_progress",
}


class Todo(Struct, frozen=True):
    id: str
    content: str
    status: TodoStatus


def parse_todos(markdown: str) -> tuple[Todo, ...]:
    """Parse the items of a checklist; other lines are ignored."""
    from hashlib import md5

    todos: list[Todo] = []
    for line in markdown.splitlines():
        if match := _TODO_LINE_RE.match(line.strip()):
            status = _STATUS_BY_MARK[match[1]]
            digest = md5(f"{match[2]}{status}".encode(), usedforsecurity=False)
            todos.append(Todo(id=digest.hexdigest(), content=match[2], status=status))
    return tuple(todos)


class AskKind(StrEnum):
    FOLLOWUP = "followup"
    COMMAND = "command"
    TOOL = "tool"
    USE_MCP_SERVER = "use_mcp_server"
    BROWSER_ACTION_LAUNCH = "browser_action_launch"
    COMPLETION_RESULT = "completion_result"
    API_REQ_FAILED = "api_req_failed"
    RESUME_TASK = "resume_task"
    RESUME_COMPLETED_TASK = "resume_completed_task"
    MISTAKE_LIMIT_REACHED = "mistake_limit_reached"
    LIMIT_REACHED = "auto_approval_max_req_reached"


class RowKind(StrEnum):
    """The kind of a row in the UI history; `say` in Roo's `ui_messages.json`."""

    TEXT = "text"
    REASONING = "reasoning"
    TOOL = "tool"
    USER_FEEDBACK = "user_feedback"
    USER_FEEDBACK_DIFF = "user_feedback_diff"
    COMPLETION_RESULT = "completion_result"
    SUBTASK_RESULT = "subtask_result"
    COMMAND_OUTPUT = "command_output"
    MCP_SERVER_REQUEST_STARTED = "mcp_server_request_started"
    MCP_SERVER_RESPONSE = "mcp_server_response"
    BROWSER_ACTION_RESULT = "browser_action_result"
    CODEBASE_SEARCH_RESULT = "codebase_search_result"
    IMAGE = "image"
    HOOK_MESSAGE = "hook_message"
    ERROR = "error"
    DIFF_ERROR = "diff_error"
    ROOIGNORE_ERROR = "rooignore_error"
    API_REQ_STARTED = "api_req_started"
    API_REQ_FINISHED = "api_req_finished"
    API_REQ_RETRIED = "api_req_retried"
    API_REQ_RETRY_DELAYED = "api_req_retry_delayed"
    API_REQ_RATE_LIMIT_WAIT = "api_req_rate_limit_wait"
    API_REQ_DELETED = "api_req_deleted"
    CONDENSE_CONTEXT = "condense_context"
    CONDENSE_CONTEXT_ERROR = "condense_context_error"
    SLIDING_WINDOW_TRUNCATION = "sliding_window_truncation"
    CHECKPOINT_SAVED = "checkpoint_saved"
    CLINE_TASK = "task"
    """The first words of a task, in the histories of Cline."""


class CancelReason(StrEnum):
    """Why a request or a run ended early."""

    USER_CANCELLED = "user_cancelled"
    STREAMING_FAILED = "streaming_failed"


class Response(StrEnum):
    YES = "yesButtonClicked"
    NO = "noButtonClicked"
    MESSAGE = "messageResponse"


class CallEnding(StrEnum):
    """How a call without an exit code ended."""

    RUNNING = "running"
    """The command was left running in the background."""
    SKIPPED = "skipped"


class AnsweredBy(StrEnum):
    """Who answers a question; a hook answers under its own name, which begins with `hook `."""

    USER = "person"
    TIMEOUT = "timeout"
    UNATTENDED = "unattended"
    EDITOR = "editor"
    DEMO = "demo"


HOOK_NAME_PREFIX = "hook "
"""How the name of a hook begins, where it answers or refuses."""


class RuleScope(StrEnum):
    """The scope of a rule that an answer adds."""

    TASK = "task"
    """The task and its subtasks; it is stored nowhere."""
    DIRECTORY = "directory"
    """All tasks of the workspace; it is kept in the user's home."""
    EVERYWHERE = "everywhere"
    """All tasks; it becomes a setting of the user."""


class ApprovalLevel(StrEnum):
    """What a user allows a task to do without asking, until the session ends."""

    ASK = "ask"
    """What settings and rules say."""
    EDITS = "edits"
    """Also edits of files in the workspace that are not protected."""
    ALL = "all"
    """Everything but what is denied, protected or outside the workspace."""


class Answer(Struct, frozen=True, omit_defaults=True):
    response: Response
    text: str = ""
    images: tuple[str, ...] = ()
    """Data URIs."""
    by: str = AnsweredBy.USER
    """Or the name of the policy or hook that answered in their place."""
    always: bool = False
    """With a yes: add the rule that was offered with the question."""
    scope: RuleScope | None = None
    """With `always`: how far the rule goes; None: for this directory, where that is offered. In old
    journals None means everywhere."""
    network: bool = False
    """With a yes: this one command may use the whole network."""
    hosts: bool = False
    """With a yes: commands in this directory may reach the hosts that were offered, for good."""
    stop: bool = False
    """With a no: end the run, and wait for the user's next message."""

    @property
    def approves(self) -> bool:
        return self.response is Response.YES

    @property
    def has_content(self) -> bool:
        return bool(self.text or self.images)

    @property
    def stops_run(self) -> bool:
        """Whether it is a rejection without a message; a message would be for the model."""
        return self.stop and self.response is Response.NO and not self.has_content

    @property
    def is_by_user(self) -> bool:
        return self.by == AnsweredBy.USER

    @property
    def is_by_hook(self) -> bool:
        return self.by.startswith(HOOK_NAME_PREFIX)


class AskChoice(Struct, frozen=True, omit_defaults=True):
    label: str
    answer: Answer
    word: str = ""
    """What a user may type instead, whole or its first letter: `yes`, `no`, `always`, `task`,
    `everywhere`, `online`, `hosts`."""
    rule: str = ""
    is_default: bool = field(default=False, name="isDefault")
    """An empty line means it."""

    @property
    def full_label(self) -> str:
        return f"{self.label} {self.rule}".rstrip()


class AskView(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A question as shown by every front end. All texts are safe to show in a terminal."""

    title: str
    choices: tuple[AskChoice, ...]
    text: str = ""
    """What is asked about: a question, a limit, a call on one line."""
    hint: str = ""
    """What a message instead of a choice means."""
    message_response: Response | None = Response.MESSAGE
    """How such a message answers; None: it does not."""
    message_label: str = "Send"
    is_approval: bool = False
    """A yes lets something happen: it is never given by keys meant for something else."""
    reason: str = ""
    confinement: str = ""
    """The sandbox that a command would run in, if it is not among the warnings."""
    warnings: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    """Of a command: what it would start, as far as that can be read from it."""


class Suggestion(Struct, frozen=True, omit_defaults=True):
    answer: str
    mode: str | None = None
    """The task continues in this mode with it."""

    @property
    def label(self) -> str:
        return f"{self.answer} [{self.mode} mode]" if self.mode else self.answer


class FollowUp(Struct, frozen=True):
    """The `text` of a `followup` question."""

    question: str = ""
    suggestions: tuple[Suggestion, ...] = field(default=(), name="suggest")


def get_first_suggestion(text: str) -> str | None:
    """Return the first suggestion of a follow-up question, if any."""
    suggestions = msgspec.json.decode(text, type=FollowUp).suggestions
    return suggestions[0].answer if suggestions else None


APPROVAL_ASKS = frozenset(
    {AskKind.COMMAND, AskKind.TOOL, AskKind.USE_MCP_SERVER, AskKind.BROWSER_ACTION_LAUNCH}
)
"""Asks where anything but *yes* means: do not run it."""
