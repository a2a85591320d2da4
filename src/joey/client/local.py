"""Sessions with tasks of this very process: a task is already all that a session must be."""

from __future__ import annotations

from joey.client.session import Session
from joey.engine.asks import Unattended
from joey.engine.bus import Subscription
from joey.engine.engine import Engine, TaskOptions
from joey.engine.outcomes import Aborted, Completed, Ending, Failed
from joey.engine.runtime import new_task_id
from joey.engine.task import Task

_fits: type[Session] = Task

__all__ = [
    "Aborted",
    "Completed",
    "Ending",
    "Engine",
    "Failed",
    "Subscription",
    "Task",
    "TaskOptions",
    "Unattended",
    "new_task_id",
]
