"""`joey tasks`: list, search, show, export, rewind and delete what is kept of earlier tasks."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

import msgspec

from joey.app import open_store
from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.export_tasks import export_task
from joey.cli.launch import find_task, workspace_of
from joey.cli.outputs import write_out
from joey.cli.task_finding import opened_index, query_of
from joey.cli.task_removal import delete_tasks
from joey.cli.task_rows import listed_rows, row_table
from joey.cli.task_search import found_fields, found_lines, found_objects
from joey.cli.task_table import as_told, subtask_tree, task_table
from joey.cli.transcript import as_markdown, read_rows
from joey.ports import Store
from joey.ports.storage import TaskIndex, TaskPage
from joey.presentation.text import columns, sanitise


def run_tasks(arguments: Namespace) -> ExitCode:
    if arguments.action == "import":
        from joey.cli.import_tasks import import_tasks

        return import_tasks(arguments)
    store = open_store()
    with opened_index() as index:
        match arguments.action:
            case "list":
                _list(store, index, arguments)
            case "search":
                _search(store, index, arguments)
            case "show":
                _show(store, index, arguments)
            case "export":
                export_task(store, index, arguments)
            case "delete":
                return delete_tasks(store, index, arguments)
            case "rewind" | "fork":
                # They open an engine, which takes its time to load.
                from joey.cli.task_revisions import fork_task, rewind_task

                revise = fork_task if arguments.action == "fork" else rewind_task
                return revise(index, arguments)
    return ExitCode.DONE


def _list(store: Store, index: TaskIndex, arguments: Namespace) -> None:
    page = index.find(query_of(arguments, _place(arguments)), refresh=arguments.refresh)
    if arguments.json:
        _write_json([msgspec.to_builtins(as_told(each.task, store)) for each in page.found])
        return
    if page.found:
        width = columns(sys.stdout)
        _write_lines(task_table(page.found, store, with_folder=arguments.all, width=width))
    _tell_the_rest(page, arguments)


def _search(store: Store, index: TaskIndex, arguments: Namespace) -> None:
    words = " ".join(arguments.words)
    if not any(char.isalnum() for char in words):
        raise UsageError(f"there is no word in {words!r} to search for")
    page = index.find(query_of(arguments, _place(arguments), words), refresh=arguments.refresh)
    if arguments.json:
        _write_json(found_objects(page.found, store))
        return
    if page.found:
        width = columns(sys.stdout)
        if width is None:
            _write_lines(found_fields(page.found, store))
        else:
            _write_lines(found_lines(page.found, store, with_folder=arguments.all, width=width))
    _tell_the_rest(page, arguments)


def _place(arguments: Namespace) -> str | None:
    return None if arguments.all else str(workspace_of(arguments))


def _tell_the_rest(page: TaskPage, arguments: Namespace) -> None:
    if not page.found:
        narrowed = arguments.action == "search" or arguments.status or arguments.since is not None
        such = "such tasks" if narrowed else "tasks"
        elsewhere = "" if arguments.all else " in this folder; --all looks in all folders"
        print(f"there are no {such}{elsewhere}", file=sys.stderr)
    elif page.total > len(page.found):
        print(f"and {page.total - len(page.found):,} more (-n shows more of them)", file=sys.stderr)


def _show(store: Store, index: TaskIndex, arguments: Namespace) -> None:
    task = as_told(find_task(index.starting(arguments.id), arguments.id), store)
    rows = read_rows(store, task.id)
    if arguments.rows:
        listed = listed_rows(rows)
        if arguments.json:
            _write_json(listed)
        else:
            _write_lines(row_table(listed, columns(sys.stdout)))
    elif arguments.json:
        _write_json({**msgspec.to_builtins(task), "messages": rows})
    else:
        _write(sanitise(as_markdown(task, rows, subtask_tree(task, index, store))))


def _write_lines(lines: Sequence[str]) -> None:
    _write("".join(f"{line}\n" for line in lines))


def _write(text: str) -> None:
    write_out(text.encode("utf-8", "replace"))


def _write_json(value: object) -> None:
    write_out(_json(value))


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
