"""Names of the engine for `acp`: a local task is used as a session directly."""

from __future__ import annotations

from joey.client.session import Session
from joey.engine.asks import Unattended
from joey.engine.bus import Subscription
from joey.engine.engine import Engine, ResolvedTaskOptions, TaskOptions
from joey.engine.outcomes import Aborted, Completed, Ending, Failed
from joey.engine.runtime import generate_task_id
from joey.engine.task import Task

_protocol_check: type[Session] = Task

__all__ = [
    "Aborted",
    "Completed",
    "Ending",
    "Engine",
    "Failed",
    "ResolvedTaskOptions",
    "Subscription",
    "Task",
    "TaskOptions",
    "Unattended",
    "generate_task_id",
]
