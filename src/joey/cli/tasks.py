"""`joey tasks`: list, show and export what is kept of earlier tasks."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from joey.app import open_store
from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.launch import find_task, workspace_of
from joey.cli.outputs import write_out
from joey.cli.sanitise import one_line, sanitise
from joey.cli.transcript import as_markdown
from joey.core.history.ui import UiHistory
from joey.ports import Store, TaskMetadata


def run_tasks(arguments: Namespace) -> ExitCode:
    store = open_store()
    match arguments.action:
        case "list":
            _list(store, arguments)
        case "show":
            _show(store, arguments)
        case "export":
            _export(store, arguments)
    return ExitCode.DONE


def _list(store: Store, arguments: Namespace) -> None:
    tasks: Sequence[TaskMetadata] = store.list()
    if not arguments.all:
        workspace = workspace_of(arguments)
        tasks = [task for task in tasks if task.workspace and Path(task.workspace) == workspace]
    shown = tasks[: arguments.number]
    if arguments.json:
        _write_json([msgspec.to_builtins(task) for task in shown])
        return
    for task in shown:
        where = "" if not arguments.all else f"  {one_line(task.workspace, 60)}"
        print(f"{task.id}  {_when(task)}  {task.status:<9}{where}  {one_line(task.title, 60)}")
    if not shown:
        elsewhere = "" if arguments.all else " in this folder; --all lists those of all folders"
        print(f"there are no tasks{elsewhere}", file=sys.stderr)
    elif len(tasks) > len(shown):
        print(f"({len(tasks) - len(shown)} more; -n shows more of them)", file=sys.stderr)


def _show(store: Store, arguments: Namespace) -> None:
    task = find_task(store.list(), arguments.id)
    rows = read_rows(store, task.id)
    if arguments.json:
        _write_json({**msgspec.to_builtins(task), "messages": rows})
    else:
        _write(sanitise(as_markdown(task, rows)))


def _export(store: Store, arguments: Namespace) -> None:
    task = find_task(store.list(), arguments.id)
    rows = read_rows(store, task.id)
    if arguments.format == "json":
        data = _json({**msgspec.to_builtins(task), "messages": rows})
    else:
        data = as_markdown(task, rows).encode("utf-8", "replace")
    if arguments.output is None:
        write_out(data)
        return
    try:
        Path(arguments.output).write_bytes(data)
    except OSError as error:
        raise UsageError(f"{arguments.output} cannot be written: {error.strerror}") from error


def read_rows(store: Store, task_id: str) -> list[dict[str, Any]]:
    """The UI history of a task, from its journal."""
    history = UiHistory()
    for record in store.read(task_id):
        history.apply(record.event)
    return [msgspec.to_builtins(row) for row in history.rows]


def _when(task: TaskMetadata) -> str:
    moment = datetime.fromtimestamp((task.updated or task.created) / 1000).astimezone()
    return moment.strftime("%Y-%m-%d %H:%M")


def _write(text: str) -> None:
    write_out(text.encode("utf-8", "replace"))


def _write_json(value: object) -> None:
    write_out(_json(value))


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
