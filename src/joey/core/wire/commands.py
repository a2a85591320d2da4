"""Commands of the WebSocket API: arguments, response data, whether a task is needed.

The first twenty are those of the original API; old clients are not affected by the others.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from joey.core.file_state import FileDiff
from joey.core.models import ModelInfo
from joey.core.permissions.granted_rules import GrantedRule, RuleSetting
from joey.core.permissions.hosts import NetworkSetting
from joey.core.permissions.policy import SandboxStatus
from joey.core.rewind import RewindPreview
from joey.core.settings import Limits
from joey.core.task_types import ApprovalLevel, AskView, Response, RuleScope, Todo
from joey.core.wire import recordings
from joey.core.wire.events import FailedPayload, QueuedMessage, UsageTotals


class _Arguments(Struct, frozen=True, rename="camel", kw_only=True):
    """Arguments; unknown fields are ignored."""


class _ResponseData(Struct, frozen=True, rename="camel", kw_only=True):
    """Data of a successful response."""


_ImageDataUri = Annotated[str, Meta(pattern=r"^data:image/[a-z0-9.+-]+;base64,[A-Za-z0-9+/]+=*$")]
_BoundedName = Annotated[str, Meta(min_length=1, max_length=200)]


class RewindTask(_Arguments, frozen=True):
    message_ts: int
    keep: bool = True
    """Whether the row itself stays."""
    files: bool = False
    force: bool = False
    """Give up what others changed in the files; a checkpoint keeps it."""
    preview: bool = False


class UndoRewind(_Arguments, frozen=True):
    force: bool = False
    preview: bool = False


class EditMessage(_Arguments, frozen=True):
    message_ts: int
    text: str
    images: tuple[_ImageDataUri, ...] | None = None


class ForkTask(_Arguments, frozen=True):
    message_ts: int | None = None
    """The last row that the new task has; all of them, without it."""
    keep: bool = True
    text: str | None = None
    """The new task goes on with it, else it rests."""
    images: tuple[_ImageDataUri, ...] | None = None
    profile: _BoundedName | None = None


class NoArguments(_Arguments, frozen=True):
    pass


class DiffCheckpoint(_Arguments, frozen=True):
    checkpoint: _BoundedName
    to: _BoundedName | None = None
    """Another checkpoint; the files as they are now, without it."""


class RestoreCheckpoint(_Arguments, frozen=True):
    checkpoint: _BoundedName
    force: bool = False
    preview: bool = False


class Revised(_ResponseData, frozen=True):
    done: bool
    """False when it was only looked at."""
    changes: RewindPreview


class Forked(_ResponseData, frozen=True):
    task_id: str


class CheckpointData(_ResponseData, frozen=True):
    id: str
    ts: int
    """Its row."""
    is_own_change: bool = field(name="own")
    """What differs from the one before is the task's own work."""
    previous_id: str | None = field(name="before")


class CheckpointList(_ResponseData, frozen=True):
    checkpoints: list[CheckpointData]


class FileDiffs(_ResponseData, frozen=True):
    files: list[FileDiff]


class TaskNeed(StrEnum):
    NONE = "none"
    OPTIONAL = "optional"
    """About one task when it is named, else about all."""
    CURRENT = "current"
    """The named task, else the current one."""
    NAMED = "named"


class CommandSpec(Struct, frozen=True):
    name: str
    arguments_type: type[Struct]
    response_data_type: type[Struct]
    task_need: TaskNeed


_NonNegativeInt = Annotated[int, Meta(ge=0, le=2**53)]
_Images = tuple[_ImageDataUri, ...]
_MessageRow = Annotated[Any, Meta(extra_json_schema={"$ref": "#/$defs/Row"})]
_Event = Annotated[Any, Meta(extra_json_schema={"$ref": "#/$defs/event"})]


# Arguments ------------------------------------------------------------------------------------


class Nothing(_Arguments, frozen=True):
    pass


class StartNewTask(_Arguments, frozen=True):
    configuration: dict[str, Any] | None = None
    text: str | None = None
    images: _Images | None = None
    new_tab: bool | None = None
    workspace: str | None = None
    mode: _BoundedName | None = None
    profile: _BoundedName | None = None
    task_id: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,128}$")] | UnsetType = UNSET
    limits: Limits | None = None


class ResumeTask(_Arguments, frozen=True):
    configuration: dict[str, Any] | None = None


class ClearCurrentTask(_Arguments, frozen=True):
    last_message: str | None = None


class SendMessage(_Arguments, frozen=True):
    message: str | None = None
    images: _Images | None = None
    queue: bool = False
    """Wait for the model's next turn even while a question is open."""


class Press(_Arguments, frozen=True):
    text: str | None = None


class ProfileName(_Arguments, frozen=True):
    name: _BoundedName


class ProfileEntry(_Arguments, frozen=True):
    name: _BoundedName
    profile: dict[str, Any] | None = None
    activate: bool = True


class SetConfiguration(_Arguments, frozen=True):
    values: dict[str, Any]


class Subscribe(_Arguments, frozen=True):
    since: _NonNegativeInt = 0
    part: _NonNegativeInt | None = None
    """The last event of the record `since` that was received; all of them, without it."""


class GetEvents(_Arguments, frozen=True):
    since: _NonNegativeInt = 0
    until: _NonNegativeInt | None = None
    """The last record whose events are wanted; all of them, without it."""


class ListTasks(_Arguments, frozen=True):
    workspace: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    offset: _NonNegativeInt = 0


class SearchTasks(_Arguments, frozen=True):
    query: str
    workspace: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class Respond(_Arguments, frozen=True):
    ask_ts: int
    response: Response
    text: str | None = None
    images: _Images | None = None
    always: bool = False
    """With a yes: add the rule that was told with the question."""
    scope: RuleScope | None = None
    """With `always`: how far the rule goes; without it, for this directory, else for the task."""
    network: bool = False
    """With a yes: this one command may use the network; where `network` of the question says so."""
    hosts: bool = False
    """With a yes: commands in this directory may reach the hosts of `network.offeredHosts`."""
    stop: bool = False
    """With a no without a message: end the run, as `cancelTask` does, and wait for a message."""


class GetPermissions(_Arguments, frozen=True):
    workspace: str | None = None
    """Without one and without a task, the server's."""


class RevokePermission(_Arguments, frozen=True):
    setting: RuleSetting
    text: str
    scope: RuleScope
    workspace: str | None = None


class SetApprovalLevel(_Arguments, frozen=True):
    level: ApprovalLevel


class CondenseTask(_Arguments, frozen=True):
    instructions: str | None = None
    """What the summary shall mind in particular."""


class SwitchMode(_Arguments, frozen=True):
    mode: _BoundedName


class GetModels(_Arguments, frozen=True):
    provider: str | None = None


class EditQueue(_Arguments, frozen=True):
    id: str
    text: str | None = None
    remove: bool = False


class KillProcess(_Arguments, frozen=True):
    pid: int


# Data -----------------------------------------------------------------------------------------


class Done(_ResponseData, frozen=True):
    result: Literal["success"] = "success"


class Authenticated(_ResponseData, frozen=True, omit_defaults=True):
    result: Literal["success"] = "success"
    token: str | None = None
    """In exchange for a code that logs in once."""


class TaskStartedData(_ResponseData, frozen=True):
    task_id: str


class TaskStack(_ResponseData, frozen=True):
    task_stack: list[str]


class InHistory(_ResponseData, frozen=True):
    in_history: bool


class Configuration(_ResponseData, frozen=True):
    configuration: dict[str, Any]


class ProfileId(_ResponseData, frozen=True):
    profile_id: str


class ProfileNames(_ResponseData, frozen=True):
    profiles: list[str]


class ActiveProfile(_ResponseData, frozen=True):
    active_profile: str | None


class ProfileData(_ResponseData, frozen=True):
    profile: dict[str, Any]


class Messages(_ResponseData, frozen=True):
    messages: list[_MessageRow]
    seq: int


class UsageData(_ResponseData, frozen=True):
    usage: UsageTotals


class Ready(_ResponseData, frozen=True):
    ready: bool


class Subscribed(_ResponseData, frozen=True, omit_defaults=True):
    task_id: str | None = None
    seq: int | UnsetType = UNSET
    tasks: dict[str, int] | UnsetType = UNSET


class PendingAsk(_ResponseData, frozen=True, omit_defaults=True):
    ts: int
    ask: str
    view: AskView | None = None
    """What to show, and what may be answered."""


class TaskInfo(_ResponseData, frozen=True, omit_defaults=True):
    id: str
    title: str
    workspace: str
    mode: str
    protocol: str
    profile: str
    model: str
    status: str
    created: int
    updated: int
    tokens_in: int
    tokens_out: int
    cache_writes: int
    cache_reads: int
    total_cost: float
    live: bool
    parent_id: str | None = None
    context_tokens: int | None = None
    context_window: int | None = None
    ask: PendingAsk | None = None
    queue: tuple[QueuedMessage, ...] = ()
    """Words that the model has not heard yet. This and what follows is told of one task alone."""
    failure: FailedPayload | None = None
    waits_for: tuple[str, ...] = ()
    """Subtasks; while they work its status is `delegated`."""


class TaskList(_ResponseData, frozen=True):
    tasks: list[TaskInfo]
    total: int


class FoundTasks(_ResponseData, frozen=True):
    tasks: list[TaskInfo]


class TaskData(_ResponseData, frozen=True):
    task: TaskInfo


class Accepted(_ResponseData, frozen=True):
    accepted: bool


class Permissions(_ResponseData, frozen=True, omit_defaults=True):
    workspace: str
    rules: list[GrantedRule]
    """What runs without asking by the user's leave: of the task, of the directory, everywhere."""
    network: NetworkSetting = "off"
    """What sandboxed commands reach."""
    sandbox: SandboxStatus | None = None
    level: ApprovalLevel | None = None
    """Of a task that is open."""


class Revoked(_ResponseData, frozen=True):
    revoked: bool
    """False when there was no such rule."""


class Events(_ResponseData, frozen=True):
    events: list[_Event]
    seq: int


class ModeInfo(_ResponseData, frozen=True):
    slug: str
    name: str
    description: str


class Modes(_ResponseData, frozen=True):
    modes: list[ModeInfo]


class Models(_ResponseData, frozen=True):
    models: dict[str, ModelInfo]


class Commands(_ResponseData, frozen=True):
    commands: list[dict[str, Any]]


class Todos(_ResponseData, frozen=True):
    todos: list[Todo]


class ProcessInfo(_ResponseData, frozen=True):
    task_id: str
    pid: int
    command: str
    cwd: str
    running: bool


class Processes(_ResponseData, frozen=True):
    processes: list[ProcessInfo]


class Pong(_ResponseData, frozen=True):
    pong: int
    """The server's clock, in milliseconds."""


class Welcome(_ResponseData, frozen=True):
    version: str
    protocol: int
    capabilities: list[str]
    sandbox: str
    workspace: str
    home: str


# The table ------------------------------------------------------------------------------------

_NO_TASK, _OPTIONAL_TASK, _CURRENT_TASK, _NAMED_TASK = (
    TaskNeed.NONE,
    TaskNeed.OPTIONAL,
    TaskNeed.CURRENT,
    TaskNeed.NAMED,
)

_ORIGINAL_SPECS: tuple[tuple[str, type[Struct], type[Struct], TaskNeed], ...] = (
    ("startNewTask", StartNewTask, TaskStartedData, _NO_TASK),
    ("getCurrentTaskStack", Nothing, TaskStack, _NO_TASK),
    ("clearCurrentTask", ClearCurrentTask, Done, _CURRENT_TASK),
    ("cancelCurrentTask", Nothing, Done, _CURRENT_TASK),
    ("resumeTask", ResumeTask, Done, _NAMED_TASK),
    ("isTaskInHistory", Nothing, InHistory, _NAMED_TASK),
    ("cancelTask", Nothing, Done, _NAMED_TASK),
    ("getConfiguration", Nothing, Configuration, _NO_TASK),
    ("createProfile", ProfileEntry, ProfileId, _NO_TASK),
    ("getProfiles", Nothing, ProfileNames, _NO_TASK),
    ("setActiveProfile", ProfileName, ActiveProfile, _NO_TASK),
    ("getActiveProfile", Nothing, ActiveProfile, _NO_TASK),
    ("deleteProfile", ProfileName, Done, _NO_TASK),
    ("sendMessage", SendMessage, Done, _CURRENT_TASK),
    ("pressPrimaryButton", Press, Done, _CURRENT_TASK),
    ("pressSecondaryButton", Press, Done, _CURRENT_TASK),
    ("setConfiguration", SetConfiguration, Done, _NO_TASK),
    ("getMessages", Nothing, Messages, _CURRENT_TASK),
    ("getTokenUsage", Nothing, UsageData, _CURRENT_TASK),
    ("isReady", Nothing, Ready, _NO_TASK),
)
_ADDED_SPECS: tuple[tuple[str, type[Struct], type[Struct], TaskNeed], ...] = (
    ("subscribe", Subscribe, Subscribed, _OPTIONAL_TASK),
    ("listTasks", ListTasks, TaskList, _NO_TASK),
    ("searchTasks", SearchTasks, FoundTasks, _NO_TASK),
    ("getTask", Nothing, TaskData, _CURRENT_TASK),
    ("respond", Respond, Accepted, _CURRENT_TASK),
    ("getEvents", GetEvents, Events, _CURRENT_TASK),
    ("switchMode", SwitchMode, Done, _OPTIONAL_TASK),
    ("getModes", Nothing, Modes, _NO_TASK),
    ("getModels", GetModels, Models, _NO_TASK),
    ("getCommands", Nothing, Commands, _NO_TASK),
    ("getPermissions", GetPermissions, Permissions, _OPTIONAL_TASK),
    ("revokePermission", RevokePermission, Revoked, _OPTIONAL_TASK),
    ("setApprovalLevel", SetApprovalLevel, Done, _CURRENT_TASK),
    ("editQueue", EditQueue, Done, _CURRENT_TASK),
    ("condenseTask", CondenseTask, Done, _CURRENT_TASK),
    ("getTodos", Nothing, Todos, _CURRENT_TASK),
    ("getProfileEntry", ProfileName, ProfileData, _NO_TASK),
    ("updateProfile", ProfileEntry, ProfileId, _NO_TASK),
    ("upsertProfile", ProfileEntry, ProfileId, _NO_TASK),
    ("getProcesses", Nothing, Processes, _OPTIONAL_TASK),
    ("killProcess", KillProcess, Done, _OPTIONAL_TASK),
    ("deleteTask", Nothing, Done, _NAMED_TASK),
    ("ping", Nothing, Pong, _NO_TASK),
    ("rewindTask", RewindTask, Revised, _CURRENT_TASK),
    ("undoRewind", UndoRewind, Revised, _CURRENT_TASK),
    ("editMessage", EditMessage, Revised, _CURRENT_TASK),
    ("forkTask", ForkTask, Forked, _CURRENT_TASK),
    ("getCheckpoints", NoArguments, CheckpointList, _CURRENT_TASK),
    ("diffCheckpoint", DiffCheckpoint, FileDiffs, _CURRENT_TASK),
    ("restoreCheckpoint", RestoreCheckpoint, Revised, _CURRENT_TASK),
    ("getRecordings", recordings.GetRecordings, recordings.RecordedSessions, _NO_TASK),
    ("getRecording", recordings.GetRecording, recordings.RecordedConversation, _NO_TASK),
    (
        "compareRecordedRequests",
        recordings.CompareRecordedRequests,
        recordings.RecordedComparison,
        _NO_TASK,
    ),
)

COMMANDS: dict[str, CommandSpec] = {
    name: CommandSpec(name, arguments, data, task)
    for name, arguments, data, task in (*_ORIGINAL_SPECS, *_ADDED_SPECS)
}
ORIGINAL_COMMANDS = tuple(name for name, *_ in _ORIGINAL_SPECS)


def decode_response_data(command_name: str, data: Any) -> Any:
    """Decode and check the data of a response, for clients. Raises msgspec.ValidationError."""
    types: dict[str, type[Struct]] = {"welcome": Welcome, "auth": Done}
    data_type = types.get(command_name) or COMMANDS[command_name].response_data_type
    return msgspec.convert(data, data_type)
