"""`joey tasks`: list, search, show, export and delete stored tasks.

Importing, rewinding and forking are in modules of their own, imported late because of what they
load. Nothing is deleted that was not named and confirmed.
"""

from __future__ import annotations

import os
import re
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from joey.app import open_store
from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.output import (
    confirm,
    emit,
    encode_json,
    print_warning,
    write_lines,
    write_stdout,
)
from joey.cli.task_lookup import find_task_by_prefix, resolve_workspace_argument
from joey.cli.task_views import (
    determine_status,
    format_row_table,
    format_task_table,
    is_locked,
    number_rows,
    read_rows,
    render_markdown,
    render_subtask_tree,
    with_current_status,
)
from joey.core.redaction import remove_secrets
from joey.ports.storage import HIGHLIGHT_MARKS, FoundTask, Store, TaskIndex, TaskMetadata, TaskPage
from joey.presentation.text import get_terminal_width, measure_width, sanitize, to_one_line

if TYPE_CHECKING:
    from joey.ports.storage import TaskQuery


def run_tasks(arguments: Namespace) -> ExitCode:
    if arguments.action == "import":
        from joey.cli.commands.tasks_import import import_tasks

        return import_tasks(arguments)
    store = open_store()
    with open_index() as index:
        match arguments.action:
            case "list":
                _print_tasks(store, index, arguments)
            case "search":
                _search_tasks(store, index, arguments)
            case "show":
                _print_task(store, index, arguments)
            case "export":
                export_task(store, index, arguments)
            case "delete":
                return delete_tasks(store, index, arguments)
            case "rewind" | "fork":
                # They open an engine, which takes its time to load.
                from joey.cli.commands.tasks_rewind import fork_task, rewind_task

                revise = fork_task if arguments.action == "fork" else rewind_task
                return revise(index, arguments)
    return ExitCode.DONE


def _print_tasks(store: Store, index: TaskIndex, arguments: Namespace) -> None:
    page = index.search(
        build_query(arguments, _resolve_workspace_filter(arguments)), refresh=arguments.refresh
    )
    if arguments.json:
        write_stdout(encode_json([with_current_status(each.task, store) for each in page.matches]))
        return
    if page.matches:
        width = get_terminal_width(sys.stdout)
        write_lines(
            format_task_table(page.matches, store, with_directory=arguments.all, width=width)
        )
    _print_empty_or_more_note(page, arguments)


def _search_tasks(store: Store, index: TaskIndex, arguments: Namespace) -> None:
    text = " ".join(arguments.query)
    if not any(char.isalnum() for char in text):
        raise UsageError(f"there is no word in {text!r} to search for")
    page = index.search(
        build_query(arguments, _resolve_workspace_filter(arguments), text),
        refresh=arguments.refresh,
    )
    if arguments.json:
        write_stdout(encode_json(build_search_results_json(page.matches, store)))
        return
    if page.matches:
        width = get_terminal_width(sys.stdout)
        if width is None:
            write_lines(format_search_results_tsv(page.matches, store))
        else:
            write_lines(
                format_search_results_table(
                    page.matches, store, with_directory=arguments.all, width=width
                )
            )
    _print_empty_or_more_note(page, arguments)


def _resolve_workspace_filter(arguments: Namespace) -> str | None:
    return None if arguments.all else str(resolve_workspace_argument(arguments))


def _print_empty_or_more_note(page: TaskPage, arguments: Namespace) -> None:
    if not page.matches:
        narrowed = arguments.action == "search" or arguments.status or arguments.since is not None
        such = "such tasks" if narrowed else "tasks"
        elsewhere = "" if arguments.all else " in this folder; --all looks in all folders"
        print(f"there are no {such}{elsewhere}", file=sys.stderr)
    elif page.total > len(page.matches):
        print(
            f"and {page.total - len(page.matches):,} more (-n shows more of them)", file=sys.stderr
        )


def _print_task(store: Store, index: TaskIndex, arguments: Namespace) -> None:
    task = with_current_status(
        find_task_by_prefix(index.find_by_prefix(arguments.id), arguments.id), store
    )
    rows = read_rows(store, task.id)
    if arguments.rows:
        listed = number_rows(rows)
        emit(listed, format_row_table(listed, get_terminal_width(sys.stdout)), arguments.json)
    elif arguments.json:
        write_stdout(encode_json({**msgspec.to_builtins(task), "messages": rows}))
    else:
        text = sanitize(render_markdown(task, rows, render_subtask_tree(task, index, store)))
        write_stdout(text.encode("utf-8", "replace"))


_MIN_TASKS_FOR_PROGRESS = 200
"""Fewer are read before anybody could read about it."""


def build_query(arguments: Namespace, workspace: str | None, text: str | None = None) -> TaskQuery:
    # Every command reads this file for its flags; only those that look for tasks come here.
    from joey.ports.storage import TaskQuery

    return TaskQuery(
        text=text,
        workspace=workspace,
        status=arguments.status,
        updated_since=arguments.since,
        limit=arguments.number,
    )


@contextmanager
def open_index() -> Iterator[TaskIndex]:
    """The index of tasks; a user sees how it is filled, and hears what was wrong with it."""
    from joey.app import open_task_index

    line = _IndexProgressLine(sys.stderr)
    index = open_task_index(progress=line.update if get_terminal_width(sys.stderr) else None)
    try:
        yield index
    finally:
        line.clear()
        index.close()
        for notice in index.warnings:
            print_warning(notice)


class _IndexProgressLine:
    """`indexing 1,200 of 100,000…`, drawn over itself."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_drawn = False

    def update(self, done: int, total: int) -> None:
        if total < _MIN_TASKS_FOR_PROGRESS:
            return
        self._is_drawn = True
        self._stream.write(f"\r\x1b[Kindexing {done:,} of {total:,}…")
        self._stream.flush()
        if done == total:
            self.clear()

    def clear(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            self._stream.write("\r\x1b[K")
            self._stream.flush()


_HIGHLIGHT_RE = re.compile(f"({HIGHLIGHT_MARKS[0]}[^{HIGHLIGHT_MARKS[1]}]*{HIGHLIGHT_MARKS[1]})")
_HIGHLIGHT_REMOVAL_TABLE = str.maketrans(dict.fromkeys(HIGHLIGHT_MARKS))
_SNIPPET_INDENT = "    "
_MAX_FIELD_CHARS = 400


def format_search_results_table(
    found: Sequence[FoundTask], store: Store, *, with_directory: bool, width: int
) -> list[str]:
    """The table of tasks, each with its snippet below."""
    heading, *lines = format_task_table(found, store, with_directory=with_directory, width=width)
    shown = [heading]
    for each, line in zip(found, lines, strict=True):
        shown.append(line)
        if each.snippet:
            shown.append(
                _SNIPPET_INDENT + render_highlights(each.snippet, width - len(_SNIPPET_INDENT))
            )
    return shown


def format_search_results_tsv(found: Sequence[FoundTask], store: Store) -> list[str]:
    """Id, time, status, folder, title and snippet, with tabs between them."""
    lines: list[str] = []
    for each in found:
        task = each.task
        changed = datetime.fromtimestamp((task.updated or task.created) / 1000).astimezone()
        texts = (task.workspace, task.title, strip_highlights(each.snippet))
        fields = [task.id, changed.isoformat(timespec="seconds"), determine_status(task, store)]
        lines.append("\t".join([*fields, *(to_one_line(text, _MAX_FIELD_CHARS) for text in texts)]))
    return lines


def build_search_results_json(found: Sequence[FoundTask], store: Store) -> list[dict[str, Any]]:
    return [
        {
            **msgspec.to_builtins(with_current_status(each.task, store)),
            "snippet": strip_highlights(each.snippet),
        }
        for each in found
    ]


def strip_highlights(snippet: str) -> str:
    return snippet.translate(_HIGHLIGHT_REMOVAL_TABLE)


def render_highlights(snippet: str, width: int) -> str:
    """On one line of a terminal, the found words bright."""
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    line, remaining = "", width
    for piece in _HIGHLIGHT_RE.split(" ".join(snippet.split())):
        is_found = piece.startswith(HIGHLIGHT_MARKS[0])
        text = to_one_line(f"|{strip_highlights(piece)}|", len(piece) + 2)[1:-1]
        while text and measure_width(text) > remaining:
            text = text[:-1]
        line += f"\x1b[1;33m{text}\x1b[0m" if text and is_found and coloured else text
        remaining -= measure_width(text)
    return line


def export_task(store: Store, index: TaskIndex, arguments: Namespace) -> None:
    """Secrets are left out: fields of that name, keys in use, and what looks like one. Raises
    UsageError: it cannot be written there."""
    task = find_task_by_prefix(index.find_by_prefix(arguments.id), arguments.id)
    if arguments.format == "roo":
        _export_roo_directory(store, task, arguments)
        return
    data = _build_redacted_document(store, index, task, arguments.format)
    if arguments.output is None:
        write_stdout(data)
        return
    _write_file(data, Path(arguments.output), force=arguments.force)


def export_markdown(store: Store, index: TaskIndex, task_id: str, path: Path) -> None:
    """A task as a document, in the place of an earlier one of it. Raises UsageError: it cannot be
    written there."""
    task = find_task_by_prefix(index.find_by_prefix(task_id), task_id)
    _write_file(_build_redacted_document(store, index, task, "markdown"), path, force=True)


def _write_file(data: bytes, path: Path, *, force: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if force else os.O_EXCL)
    try:
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            file.write(data)
    except FileExistsError as error:
        raise UsageError(f"{path} is there already; --force replaces it") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def _build_redacted_document(
    store: Store, index: TaskIndex, task: TaskMetadata, form: str
) -> bytes:
    from joey.app.known_secrets import collect_all_secrets

    blot = collect_all_secrets().redact
    facts = remove_secrets(msgspec.to_builtins(with_current_status(task, store)), blot)
    rows = remove_secrets(read_rows(store, task.id), blot)
    if form == "json":
        return encode_json({**facts, "messages": rows})
    shown = msgspec.convert(facts, TaskMetadata)
    text = render_markdown(shown, rows, render_subtask_tree(task, index, store))
    return blot(text).encode("utf-8", "replace")


def _export_roo_directory(store: Store, task: TaskMetadata, arguments: Namespace) -> None:
    from joey.app.known_secrets import collect_all_secrets
    from joey.app.task_exchange import write_roo_directory

    if arguments.output is None:
        raise UsageError("--format roo writes a folder; say with -o DIR where to put it")
    records = store.read_records(task.id)
    directory = write_roo_directory(
        task,
        records,
        Path(arguments.output),
        force=arguments.force,
        redactor=collect_all_secrets().redact,
    )
    write_stdout(f"{directory}\n".encode())


def delete_tasks(store: Store, index: TaskIndex, arguments: Namespace) -> ExitCode:
    """The task, and its subtasks where that was asked for. Raises StoreError: one of them is open,
    or is not joey's to delete; those named before are gone."""
    import asyncio

    from joey.app.features import remove_worktree

    task = find_task_by_prefix(index.find_by_prefix(arguments.id), arguments.id)
    subtasks = index.list_descendants(task.id)
    doomed = [task, *subtasks] if arguments.with_subtasks else [task]
    lines = ["To be deleted, with everything in the folder of each:"]
    lines += [f"  {_format_task(each)}" for each in doomed]
    if subtasks and len(doomed) == 1:
        lines.append(_describe_remaining_subtasks(subtasks))
    if not arguments.yes and not confirm("Delete for good?", "agree with --yes", lines):
        print("nothing was deleted", file=sys.stderr)
        return ExitCode.NEEDS_USER
    # Open ones first: they refuse, while everything is still there. Subtasks before their parent,
    # which keeps naming those that are left when something goes wrong.
    locked = [each for each in doomed if is_locked(each, store)]
    for each in (*locked, *(each for each in reversed(doomed) if each not in locked)):
        store.delete(each.id)
        asyncio.run(remove_worktree(each.id))
        print(f"deleted {_format_task(each)}")
    if subtasks and not arguments.with_subtasks:
        print(_describe_remaining_subtasks(subtasks), file=sys.stderr)
    return ExitCode.DONE


def _describe_remaining_subtasks(subtasks: Sequence[TaskMetadata]) -> str:
    names = "".join(f"\n  {_format_task(each)}" for each in subtasks)
    return f"Its subtasks are tasks of their own, and stay (--with-subtasks names them too):{names}"


def _format_task(task: TaskMetadata) -> str:
    return f"{task.id}  {to_one_line(task.title, 60)}".rstrip()
