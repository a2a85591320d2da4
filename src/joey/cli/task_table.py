"""Tasks as a table for people: the shortest ids that mean one task, local times, what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from joey.cli.launch import short_id
from joey.cli.sanitise import one_line
from joey.cli.wrapping import cells
from joey.core.state import AT_REST, TaskState
from joey.ports import Store, TaskMetadata

LONGEST_TITLE = 60
LONGEST_MODEL = 24
_STATUS = {TaskState.ABORTED: "interrupted"}
_AT_WORK = {TaskState.WAITING: "waiting", TaskState.DELEGATED: "delegated"}
_BELOW = "↳ "
"""Before the title of a subtask."""


def task_table(
    tasks: Sequence[TaskMetadata], store: Store, *, with_folder: bool, width: int | None
) -> list[str]:
    """A heading and one line for each task; titles are cut where a terminal of `width` ends."""
    known = store.list()
    zone = datetime.now().astimezone().tzname()
    rows = [["id", f"changed ({zone})", "status", "model", "cost", *_folder(None, with_folder)]]
    for task in tasks:
        cost = f"${task.total_cost:.2f}" if task.total_cost else ""
        model = one_line(task.model, LONGEST_MODEL)
        facts = [short_id(task.id, known), _when(task), status_of(task, store), model, cost]
        rows.append([*facts, *_folder(task, with_folder)])
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    fronts = [
        "  ".join(text + " " * (size - cells(text)) for text, size in zip(row, widths, strict=True))
        for row in rows
    ]
    room = LONGEST_TITLE if width is None else max(LONGEST_TITLE // 3, width - cells(fronts[0]) - 2)
    titles = ["task", *(one_line(_title(task), room) for task in tasks)]
    return [f"{front}  {title}" for front, title in zip(fronts, titles, strict=True)]


def subtask_tree(task: TaskMetadata, store: Store) -> list[str]:
    """The subtasks of a task, and theirs, as lines of a Markdown list."""
    known = {each.id: each for each in store.list()}
    return list(_branches(task, known, store, 0, {task.id}))


def _branches(
    task: TaskMetadata, known: Mapping[str, TaskMetadata], store: Store, level: int, seen: set[str]
) -> Iterator[str]:
    # What a process that is gone had not written into the parent, the child still says.
    own = [each.id for each in known.values() if each.parent_id == task.id]
    for child_id in dict.fromkeys((*task.child_ids, *reversed(own))):
        if child_id in seen or child_id not in known:
            continue
        seen.add(child_id)
        child = known[child_id]
        facts = f"{short_id(child_id, known.values())} · {status_of(child, store)} · {child.mode}"
        yield f"{'  ' * level}- {facts} · {one_line(child.title, LONGEST_TITLE)}"
        yield from _branches(child, known, store, level + 1, seen)


def _title(task: TaskMetadata) -> str:
    return f"{_BELOW}{task.title}" if task.parent_id else task.title


def status_of(task: TaskMetadata, store: Store) -> str:
    """What a task is doing now. What a process that is gone left unfinished was interrupted."""
    try:
        state = TaskState(task.status)
    except ValueError:
        return one_line(task.status, 12)
    if state not in AT_REST or state is TaskState.CREATED:
        if not store.is_held(task.id):
            return "interrupted"
        return _AT_WORK.get(state, "running")
    return _STATUS.get(state, str(state))


def _folder(task: TaskMetadata | None, wanted: bool) -> list[str]:
    if not wanted:
        return []
    return ["folder"] if task is None else [one_line(task.workspace, 40)]


def _when(task: TaskMetadata) -> str:
    moment = datetime.fromtimestamp((task.updated or task.created) / 1000).astimezone()
    return moment.strftime("%Y-%m-%d %H:%M")
