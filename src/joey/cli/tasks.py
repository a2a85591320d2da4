"""`joey tasks`: list, show and export what is kept of earlier tasks."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import msgspec

from joey.app import open_store
from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.launch import find_task, workspace_of
from joey.cli.outputs import write_out
from joey.cli.sanitise import sanitise
from joey.cli.task_table import subtask_tree, task_table
from joey.cli.transcript import as_markdown, read_rows
from joey.cli.wrapping import columns
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
    known = store.list()
    tasks: Sequence[TaskMetadata] = known
    if not arguments.all:
        workspace = workspace_of(arguments)
        tasks = [task for task in tasks if task.workspace and Path(task.workspace) == workspace]
    shown = tasks[: arguments.number]
    if arguments.json:
        _write_json([msgspec.to_builtins(task) for task in shown])
        return
    if not shown:
        elsewhere = "" if arguments.all else " in this folder; --all lists those of all folders"
        print(f"there are no tasks{elsewhere}", file=sys.stderr)
        return
    table = task_table(shown, store, with_folder=arguments.all, width=columns(sys.stdout))
    _write("".join(f"{line}\n" for line in table))
    if len(tasks) > len(shown):
        print(f"and {len(tasks) - len(shown)} more (-n shows more of them)", file=sys.stderr)


def _show(store: Store, arguments: Namespace) -> None:
    task = find_task(store.list(), arguments.id)
    rows = read_rows(store, task.id)
    if arguments.json:
        _write_json({**msgspec.to_builtins(task), "messages": rows})
    else:
        _write(sanitise(as_markdown(task, rows, subtask_tree(task, store))))


def _export(store: Store, arguments: Namespace) -> None:
    task = find_task(store.list(), arguments.id)
    rows = read_rows(store, task.id)
    if arguments.format == "json":
        data = _json({**msgspec.to_builtins(task), "messages": rows})
    else:
        text = as_markdown(task, rows, subtask_tree(task, store))
        data = text.encode("utf-8", "replace")
    if arguments.output is None:
        write_out(data)
        return
    try:
        Path(arguments.output).write_bytes(data)
    except OSError as error:
        raise UsageError(f"{arguments.output} cannot be written: {error.strerror}") from error


def _write(text: str) -> None:
    write_out(text.encode("utf-8", "replace"))


def _write_json(value: object) -> None:
    write_out(_json(value))


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
