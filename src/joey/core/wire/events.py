"""Event payloads of the WebSocket API, by event name."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, structs

from joey.core.events import TokenUsage, ToolTally
from joey.core.permissions.hosts import CommandNetwork
from joey.core.permissions.policy import SandboxStatus
from joey.core.permissions.reasons import Reason
from joey.core.task_types import ApprovalLevel, AskView, RuleScope, Todo


class _Payload(Struct, frozen=True, rename="camel", kw_only=True):
    pass


class Empty(_Payload, frozen=True):
    pass


class MessagePayload(_Payload, frozen=True):
    action: Literal["created", "updated"]
    message: Annotated[Any, Meta(extra_json_schema={"$ref": "#/$defs/Row"})]
    """A `Row`; of an adopted task, the row as its first writer left it."""


class CreatedPayload(_Payload, frozen=True, omit_defaults=True):
    workspace: str
    mode: str
    title: str
    protocol: str
    profile: str = "default"
    model: str = ""
    parent_id: str | None = None


class AskRespondedPayload(_Payload, frozen=True):
    ask_ts: int
    response: str
    by: str


class AskPayload(_Payload, frozen=True, omit_defaults=True):
    ask_ts: int
    ask: str
    always_rule: str | None = None
    """The rule that `respond` adds with `always`."""
    always_scopes: tuple[RuleScope, ...] = ()
    """How far it may go: the choices of `scope`."""
    network: CommandNetwork | None = None
    """Of a sandboxed command: what it may reach, and what an answer may add."""
    reason: str | None = None
    reasons: tuple[Reason, ...] = ()
    sandbox: SandboxStatus | None = None
    """Of a command: how far the operating system would hold it."""
    view: AskView | None = None
    """What to show, and what may be answered."""


class AbortedPayload(_Payload, frozen=True):
    reason: str


class FailedPayload(_Payload, frozen=True):
    code: str
    message: str


class SpawnedPayload(_Payload, frozen=True):
    child_task_id: str


class DelegationPayload(_Payload, frozen=True):
    child_task_id: str


class DelegationCompletedPayload(_Payload, frozen=True):
    child_task_id: str
    summary: str


class PausedPayload(_Payload, frozen=True):
    child_task_ids: tuple[str, ...]


class UsageTotals(_Payload, frozen=True):
    """`TokenUsage` with all numbers, including zeros: Roo's clients check for them."""

    total_tokens_in: int
    total_tokens_out: int
    total_cache_writes: int
    total_cache_reads: int
    total_cost: float
    context_tokens: int


def to_usage_totals(usage: TokenUsage) -> UsageTotals:
    return UsageTotals(**structs.asdict(usage))


class CompletedPayload(_Payload, frozen=True):
    usage: UsageTotals
    tool_usage: dict[str, ToolTally]
    is_subtask: bool


class UsagePayload(_Payload, frozen=True):
    usage: UsageTotals
    tool_usage: dict[str, ToolTally]


class ModeSwitchedPayload(_Payload, frozen=True):
    mode_slug: str


class ToolFailedPayload(_Payload, frozen=True, omit_defaults=True):
    tool_name: str
    error: str
    reason: Reason | None = None
    """Why it was refused, if a rule or a hook did."""


class QueuedMessage(_Payload, frozen=True, omit_defaults=True):
    id: str
    text: str
    timestamp: int
    images: tuple[str, ...] = ()


class QueuePayload(_Payload, frozen=True):
    queue: tuple[QueuedMessage, ...]


class TodosPayload(_Payload, frozen=True):
    todos: tuple[Todo, ...]


class RewoundPayload(_Payload, frozen=True):
    """A rewind; restored and changed rows follow, each as a `message`."""

    message_ts: int | None
    """The last row now."""
    removed: tuple[int, ...]


class CountdownPayload(_Payload, frozen=True):
    seconds: int
    message: str
    attempt: int


class ModePayload(_Payload, frozen=True):
    mode: str


class ProfilePayload(_Payload, frozen=True):
    name: str
    provider: str


class PermissionsPayload(_Payload, frozen=True, omit_defaults=True):
    """Rules were revoked, or the level of a task has changed."""

    level: ApprovalLevel | None = None
    """Of the task that the event names."""


class ResyncPayload(_Payload, frozen=True, omit_defaults=True):
    task_id: str | None = None


PAYLOAD_TYPES: dict[str, type[Struct]] = {
    # of the original API
    "message": MessagePayload,
    "taskStarted": Empty,
    "taskPaused": PausedPayload,
    "taskUnpaused": Empty,
    "taskAskResponded": AskRespondedPayload,
    "taskAborted": AbortedPayload,
    "taskSpawned": SpawnedPayload,
    "taskCompleted": CompletedPayload,
    "taskTokenUsageUpdated": UsagePayload,
    "taskCreated": CreatedPayload,
    "taskModeSwitched": ModeSwitchedPayload,
    "taskToolFailed": ToolFailedPayload,
    # added
    "taskDelegated": DelegationPayload,
    "taskDelegationCompleted": DelegationCompletedPayload,
    "taskDelegationResumed": DelegationPayload,
    "taskFinished": Empty,
    "taskFailed": FailedPayload,
    "taskActive": Empty,
    "taskInteractive": AskPayload,
    "taskResumable": AskPayload,
    "taskIdle": AskPayload,
    "taskUserMessage": Empty,
    "queuedMessagesUpdated": QueuePayload,
    "todosUpdated": TodosPayload,
    "countdown": CountdownPayload,
    "taskRewound": RewoundPayload,
    "taskDeleted": Empty,
    "modeChanged": ModePayload,
    "providerProfileChanged": ProfilePayload,
    "permissionsChanged": PermissionsPayload,
    "resync": ResyncPayload,
}
