"""`joey tasks export`: a task as a document, as JSON, or as a folder for Roo Code."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path

import msgspec

from joey.app.secrecy import learn_all
from joey.cli.exit_codes import UsageError
from joey.cli.launch import find_task
from joey.cli.outputs import write_out
from joey.cli.task_table import as_told, subtask_tree
from joey.cli.transcript import as_markdown, read_rows
from joey.core.redaction import without_secrets
from joey.ports import Store, TaskMetadata
from joey.ports.storage import TaskIndex


def export_task(store: Store, index: TaskIndex, arguments: Namespace) -> None:
    """Secrets are left out: fields of that name, keys in use, and what looks like one.

    Raises:
        UsageError: it cannot be written there.
    """
    task = find_task(index.starting(arguments.id), arguments.id)
    if arguments.format == "roo":
        _export_folder(store, task, arguments)
        return
    data = _document(store, index, task, arguments.format)
    if arguments.output is None:
        write_out(data)
        return
    _write(data, Path(arguments.output), force=arguments.force)


def write_markdown(store: Store, index: TaskIndex, task_id: str, path: Path) -> None:
    """A task as a document, in the place of an earlier one of it.

    Raises:
        UsageError: it cannot be written there.
    """
    task = find_task(index.starting(task_id), task_id)
    _write(_document(store, index, task, "markdown"), path, force=True)


def _write(data: bytes, path: Path, *, force: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if force else os.O_EXCL)
    try:
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            file.write(data)
    except FileExistsError as error:
        raise UsageError(f"{path} is there already; --force replaces it") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def _document(store: Store, index: TaskIndex, task: TaskMetadata, form: str) -> bytes:
    blot = learn_all().blot
    facts = without_secrets(msgspec.to_builtins(as_told(task, store)), blot)
    rows = without_secrets(read_rows(store, task.id), blot)
    if form == "json":
        whole = msgspec.json.encode({**facts, "messages": rows})
        return msgspec.json.format(whole, indent=2) + b"\n"
    shown = msgspec.convert(facts, TaskMetadata)
    text = as_markdown(shown, rows, subtask_tree(task, index, store))
    return blot(text).encode("utf-8", "replace")


def _export_folder(store: Store, task: TaskMetadata, arguments: Namespace) -> None:
    from joey.app.exchange import write_roo_folder

    if arguments.output is None:
        raise UsageError("--format roo writes a folder; say with -o DIR where to put it")
    records = store.read(task.id)
    folder = write_roo_folder(
        task, records, Path(arguments.output), force=arguments.force, blot=learn_all().blot
    )
    write_out(f"{folder}\n".encode())
