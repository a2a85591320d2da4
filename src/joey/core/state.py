"""The states of a task and the only ways from one to another.

    created ──▶ running ◀──▶ waiting
                 │  │ │         │
                 │  │ └─────────┼──▶ completed     the person accepted the result
                 │  └───────────┼──▶ failed        it cannot go on by itself (provider, limit…)
                 └──────────────┴──▶ aborted       somebody cancelled it

A task at rest (completed, failed, aborted, or created and never run) may be resumed, which
makes it running again. A running task becomes `delegated` while it sleeps until its subtasks
return, and is running again then.
"""

from __future__ import annotations

from enum import StrEnum

from joey.errors import TaskStateError


class TaskState(StrEnum):
    CREATED = "created"
    RUNNING = "running"
    WAITING = "waiting"
    DELEGATED = "delegated"
    COMPLETED = "completed"
    ABORTED = "aborted"
    FAILED = "failed"


TRANSITIONS: dict[TaskState, frozenset[TaskState]] = {
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

AT_REST = frozenset({TaskState.CREATED, TaskState.COMPLETED, TaskState.ABORTED, TaskState.FAILED})


def check_transition(old: TaskState, new: TaskState) -> None:
    """Raise unless `new` may follow `old`; staying put is always allowed."""
    if new is not old and new not in TRANSITIONS[old]:
        raise TaskStateError(f"a task cannot go from {old} to {new}")
