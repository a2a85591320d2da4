"""`joey tasks`: list, search, show, export and delete stored tasks.

Importing, rewinding and forking are in separate modules, imported late because of what they load.
Only tasks that were named and confirmed are deleted.
"""

from __future__ import annotations

import os
import re
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import msgspec

from joey.app import open_store
from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.output import (
    colour,
    confirm,
    emit,
    encode_json,
    print_warning,
    show_progress,
    write_lines,
    write_stdout,
)
from joey.cli.task_lookup import find_indexed_task, resolve_workspace_argument
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
from joey.ports.storage import (
    HIGHLIGHT_MARKS,
    FoundTask,
    Store,
    TaskIndex,
    TaskMetadata,
    TaskPage,
    TaskQuery,
)
from joey.presentation.text import get_terminal_width, measure_width, sanitize, to_one_line


def run_tasks(arguments: Namespace) -> ExitCode:
    if arguments.action == "import":
        from joey.cli.commands.tasks_import import import_tasks

        return import_tasks(arguments)
    store = open_store()
    with open_index() as index:
        match arguments.action:
            case "list" | "search":
                _print_tasks(store, index, arguments)
            case "show":
                _print_task(store, index, arguments)
            case "export":
                export_task(store, index, arguments)
            case "delete":
                return delete_tasks(store, index, arguments)
            case "rewind" | "fork":
                # They open an engine, which is slow to load.
                from joey.cli.commands.tasks_rewind import fork_task, rewind_task

                revise = fork_task if arguments.action == "fork" else rewind_task
                return revise(index, arguments)
    return ExitCode.DONE


def _print_tasks(store: Store, index: TaskIndex, arguments: Namespace) -> None:
    """Print the tasks of a directory, or all; for a search, with the matching snippets."""
    text = " ".join(arguments.query) if arguments.action == "search" else None
    if text is not None and not any(char.isalnum() for char in text):
        raise UsageError(f"there is no word in {text!r} to search for")
    query = TaskQuery(
        text=text,
        workspace=None if arguments.all else str(resolve_workspace_argument(arguments)),
        status=arguments.status,
        updated_since=arguments.since,
        limit=arguments.number,
    )
    page = index.search(query, refresh=arguments.refresh)
    width = get_terminal_width(sys.stdout)
    if arguments.json:
        objects = [
            msgspec.to_builtins(with_current_status(each.task, store)) for each in page.matches
        ]
        if text is not None:
            for fields, each in zip(objects, page.matches, strict=True):
                fields["snippet"] = strip_highlights(each.snippet)
        write_stdout(encode_json(objects))
        return
    if text is not None and width is None:
        write_lines(format_search_results_tsv(page.matches, store))
    elif page.matches:
        heading, *lines = format_task_table(
            page.matches, store, with_directory=arguments.all, width=width
        )
        write_lines([heading, *_add_snippets(lines, page.matches, width)])
    _print_empty_or_more_note(page, arguments)


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
    task = with_current_status(find_indexed_task(index, arguments.id), store)
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


@contextmanager
def open_index() -> Iterator[TaskIndex]:
    """Open the index of tasks, with progress for a user while it is filled, and warnings about
    damage."""
    from joey.app import open_task_index

    def show(done: int, total: int) -> None:
        if total >= _MIN_TASKS_FOR_PROGRESS:
            show_progress(f"indexing {done:,} of {total:,}…")
            if done == total:
                show_progress("")

    index = open_task_index(progress=show)
    try:
        yield index
    finally:
        show_progress("")
        index.close()
        for notice in index.warnings:
            print_warning(notice)


_HIGHLIGHT_RE = re.compile(f"({HIGHLIGHT_MARKS[0]}[^{HIGHLIGHT_MARKS[1]}]*{HIGHLIGHT_MARKS[1]})")
_HIGHLIGHT_REMOVAL_TABLE = str.maketrans(dict.fromkeys(HIGHLIGHT_MARKS))
_SNIPPET_INDENT = "    "
_MAX_FIELD_CHARS = 400


def _add_snippets(
    lines: Iterable[str], found: Sequence[FoundTask], width: int | None
) -> Iterator[str]:
    for line, each in zip(lines, found, strict=True):
        yield line
        if each.snippet and width is not None:
            yield _SNIPPET_INDENT + render_highlights(each.snippet, width - len(_SNIPPET_INDENT))


def format_search_results_tsv(found: Sequence[FoundTask], store: Store) -> list[str]:
    """Format results as TSV: id, time, status, directory, title and snippet."""
    lines: list[str] = []
    for each in found:
        task = each.task
        changed = datetime.fromtimestamp((task.updated or task.created) / 1000).astimezone()
        texts = (task.workspace, task.title, strip_highlights(each.snippet))
        fields = [task.id, changed.isoformat(timespec="seconds"), determine_status(task, store)]
        lines.append("\t".join([*fields, *(to_one_line(text, _MAX_FIELD_CHARS) for text in texts)]))
    return lines


def strip_highlights(snippet: str) -> str:
    return snippet.translate(_HIGHLIGHT_REMOVAL_TABLE)


def render_highlights(snippet: str, width: int) -> str:
    """Render a snippet on one line of a terminal, with the matches highlighted."""
    line, remaining = "", width
    for piece in _HIGHLIGHT_RE.split(" ".join(snippet.split())):
        is_found = piece.startswith(HIGHLIGHT_MARKS[0])
        text = to_one_line(f"|{strip_highlights(piece)}|", len(piece) + 2)[1:-1]
        while text and measure_width(text) > remaining:
            text = text[:-1]
        line += colour(text, "1;33") if text and is_found else text
        remaining -= measure_width(text)
    return line


def export_task(store: Store, index: TaskIndex, arguments: Namespace) -> None:
    """Export a task without secrets: fields with such names, keys in use, and text that looks like
    one. Raises UsageError if the target is not writable."""
    task = find_indexed_task(index, arguments.id)
    if arguments.format == "roo":
        _export_roo_directory(store, task, arguments)
        return
    data = _build_redacted_document(store, index, task, arguments.format)
    if arguments.output is None:
        write_stdout(data)
    else:
        _write_file(data, Path(arguments.output), force=arguments.force)


def export_markdown(store: Store, index: TaskIndex, task_id: str, path: Path) -> None:
    """Export a task as a Markdown document, replacing an earlier export of it. Raises UsageError if
    the target is not writable."""
    task = find_indexed_task(index, task_id)
    _write_file(_build_redacted_document(store, index, task, "markdown"), path, force=True)


def _write_file(data: bytes, path: Path, *, force: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if force else os.O_EXCL)
    try:
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            file.write(data)
    except FileExistsError as error:
        raise UsageError(f"{path} exists; --force replaces it") from error
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
        raise UsageError("--format roo writes a folder; name its parent with -o DIR")
    directory = write_roo_directory(
        task,
        store.read_records(task.id),
        Path(arguments.output),
        force=arguments.force,
        redactor=collect_all_secrets().redact,
    )
    write_stdout(f"{directory}\n".encode())


def delete_tasks(store: Store, index: TaskIndex, arguments: Namespace) -> ExitCode:
    """Delete tasks, with their subtasks if asked. Raises StoreError if one is open or not joey's to
    delete; those named before it are already deleted."""
    import asyncio

    from joey.app.features import remove_worktree

    task = find_indexed_task(index, arguments.id)
    subtasks = index.list_descendants(task.id)
    doomed = [task, *subtasks] if arguments.with_subtasks else [task]
    lines = ["To be deleted, with everything in the folder of each:"]
    lines += [f"  {_format_task(each)}" for each in doomed]
    if subtasks and len(doomed) == 1:
        lines.append(_describe_remaining_subtasks(subtasks))
    if not arguments.yes and not confirm("Delete permanently?", "confirm with --yes", lines):
        print("nothing was deleted", file=sys.stderr)
        return ExitCode.NEEDS_USER
    # Open ones first, so that they fail while everything still exists. Subtasks before their
    # parent, which keeps naming those that are left when something goes wrong.
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
    return f"Its subtasks are separate tasks and stay (--with-subtasks deletes them too):{names}"


def _format_task(task: TaskMetadata) -> str:
    return f"{task.id}  {to_one_line(task.title, 60)}".rstrip()
