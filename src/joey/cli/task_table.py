"""Tasks as a table for people: the shortest ids that mean one task, local times, what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import structs

from joey.cli.table import table
from joey.core.task import AT_REST, TaskState
from joey.errors import TaskNotFoundError
from joey.ports import Store, TaskMetadata
from joey.ports.storage import FoundTask, TaskIndex
from joey.presentation.text import one_line

LONGEST_TITLE = 60
LONGEST_CELL = 1000
_STATUS = {TaskState.ABORTED: "interrupted"}
_AT_WORK = {TaskState.WAITING: "waiting", TaskState.DELEGATED: "delegated"}
_BELOW = "↳ "
"""Before the title of a subtask."""


def task_table(
    found: Sequence[FoundTask], store: Store, *, with_folder: bool, width: int | None
) -> list[str]:
    """A heading and one line for each task, all within a terminal of `width`; None cuts nothing."""
    zone = datetime.now().astimezone().tzname()
    folder = ["folder"] if with_folder else []
    rows = [["id", f"changed ({zone})", "status", "model", "cost", *folder, "task"]]
    for each in found:
        task = each.task
        cost = f"${task.total_cost:.2f}" if task.total_cost else ""
        texts = [task.model, cost, *([task.workspace] if with_folder else []), _title(task)]
        facts = [each.short_id, _when(task), status_of(task, store)]
        rows.append([*facts, *(one_line(text, LONGEST_CELL) for text in texts)])
    return table(rows, width, firm={0, 1, 2, 4})


def subtask_tree(task: TaskMetadata, index: TaskIndex, store: Store) -> list[str]:
    """The subtasks of a task, and theirs, as lines of a Markdown list."""
    family = {each.id: each for each in index.family(task.id)}
    short = {task_id: index.short_id(task_id) for task_id in family}
    return list(_branches(task, family, short, store, 0))


def _branches(
    task: TaskMetadata,
    family: dict[str, TaskMetadata],
    short: Mapping[str, str],
    store: Store,
    level: int,
) -> Iterator[str]:
    # What a process that is gone had not written into the parent, the child still says.
    own = [each.id for each in family.values() if each.parent_id == task.id]
    for child_id in dict.fromkeys((*task.child_ids, *reversed(own))):
        # Each is shown once, in whatever circle the files say they are.
        if (child := family.pop(child_id, None)) is None:
            continue
        facts = f"{short[child_id]} · {status_of(child, store)} · {child.mode}"
        yield f"{'  ' * level}- {facts} · {one_line(child.title, LONGEST_TITLE)}"
        yield from _branches(child, family, short, store, level + 1)


def _title(task: TaskMetadata) -> str:
    return f"{_BELOW}{task.title}" if task.parent_id else task.title


def status_of(task: TaskMetadata, store: Store) -> str:
    """What a task is doing now. What a process that is gone left unfinished was interrupted."""
    try:
        state = TaskState(task.status)
    except ValueError:
        return one_line(task.status, 12)
    if state not in AT_REST or state is TaskState.CREATED:
        if not _is_held(task, store):
            return "interrupted"
        return _AT_WORK.get(state, "running")
    return _STATUS.get(state, str(state))


def as_told(task: TaskMetadata, store: Store) -> TaskMetadata:
    """With the status that people read everywhere, in place of the one on disk."""
    return structs.replace(task, status=status_of(task, store))


def _is_held(task: TaskMetadata, store: Store) -> bool:
    try:
        return store.is_held(task.id)
    except TaskNotFoundError:
        # Deleted a moment ago, or nothing but its metadata was ever there.
        return False


def _when(task: TaskMetadata) -> str:
    moment = datetime.fromtimestamp((task.updated or task.created) / 1000).astimezone()
    return moment.strftime("%Y-%m-%d %H:%M")
