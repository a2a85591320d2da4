"""Tasks as a table for people: the shortest ids that mean one task, local times, what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from joey.cli.launch import short_id
from joey.cli.sanitise import one_line
from joey.cli.wrapping import cells
from joey.core.state import AT_REST, TaskState
from joey.ports import Store, TaskMetadata

LONGEST_TITLE = 60
LONGEST_MODEL = 24
_STATUS = {TaskState.ABORTED: "interrupted", TaskState.DELEGATED: "waiting"}


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
    titles = ["task", *(one_line(task.title, room) for task in tasks)]
    return [f"{front}  {title}" for front, title in zip(fronts, titles, strict=True)]


def status_of(task: TaskMetadata, store: Store) -> str:
    """What a task is doing now. What a process that is gone left unfinished was interrupted."""
    try:
        state = TaskState(task.status)
    except ValueError:
        return one_line(task.status, 12)
    if state not in AT_REST or state is TaskState.CREATED:
        if not store.is_held(task.id):
            return "interrupted"
        return "waiting" if state is TaskState.WAITING else "running"
    return _STATUS.get(state, str(state))


def _folder(task: TaskMetadata | None, wanted: bool) -> list[str]:
    if not wanted:
        return []
    return ["folder"] if task is None else [one_line(task.workspace, 40)]


def _when(task: TaskMetadata) -> str:
    moment = datetime.fromtimestamp((task.updated or task.created) / 1000).astimezone()
    return moment.strftime("%Y-%m-%d %H:%M")
