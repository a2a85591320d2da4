"""`joey tasks rewind` and `fork`: return to an earlier message, in place or in a copy."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from typing import Any

import msgspec

from joey.app import open_engine
from joey.app.options import make_inspect_options
from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.output import confirm, encode_json, write_stdout
from joey.cli.task_lookup import find_indexed_task, shorten_task_id
from joey.cli.task_views import (
    Rows,
    describe_rewind,
    find_last_visible_ts,
    find_row_ts,
    merge_rows,
    summarize_row,
)
from joey.core.protected_paths import is_protected
from joey.core.rewind import RewindPreview, find_row_ts_before_last_message
from joey.engine.task import Task
from joey.errors import UserError
from joey.ports.storage import TaskIndex, TaskMetadata

_CONFLICT_MESSAGE = (
    "some files were modified outside joey; nothing was restored."
    " --force restores anyway (a checkpoint keeps those changes)"
)

_PROTECTED_MESSAGE = (
    "protected files would be restored, which -y does not allow; nothing was changed: {}."
    " Leave out -y to be asked, or set alwaysAllowWriteProtected"
)
MAX_NAMED_FILES = 10


def rewind_task(index: TaskIndex, arguments: Namespace) -> ExitCode:
    """Raises UserError."""
    if arguments.undo and (arguments.message or arguments.before or arguments.with_files):
        raise UsageError("--undo undoes the latest rewind; it takes no other arguments")
    task = find_indexed_task(index, arguments.id)
    return asyncio.run(_run_rewind(task, arguments))


def fork_task(index: TaskIndex, arguments: Namespace) -> ExitCode:
    """Raises UserError."""
    if arguments.before and not arguments.message:
        raise UsageError("--before needs the number of a message")
    task = find_indexed_task(index, arguments.id)
    return asyncio.run(_run_fork(task, arguments))


async def _run_rewind(metadata: TaskMetadata, arguments: Namespace) -> ExitCode:
    async with open_engine() as engine:
        options = make_inspect_options(metadata.workspace)
        task = await engine.open(metadata.id, options=options)
        rows = [msgspec.to_builtins(row) for row in task.rows]
        target, keep = _resolve_target(task, rows, arguments)
        changes = (
            await task.preview_undo()
            if target is None
            else await task.preview_rewind(target, keep=keep, files=arguments.with_files)
        )
        if arguments.preview:
            _print_result(changes, arguments, rows, done=False)
            return ExitCode.DONE
        if problem := _find_problem(task, changes, arguments):
            if arguments.json:
                _write_json(changes, done=False, error=problem)
            else:
                _print_changes(changes, rows)
            raise UserError(problem)
        if not arguments.yes and not _confirm_rewind(changes, arguments, rows):
            print("nothing was changed", file=sys.stderr)
            return ExitCode.NEEDS_USER
        if target is None:
            await task.undo_rewind(force=arguments.force)
        else:
            files = arguments.with_files
            await task.rewind(target, keep=keep, files=files, force=arguments.force)
        known = merge_rows(rows, [msgspec.to_builtins(row) for row in task.rows])
        _print_result(changes, arguments, known, done=True)
        if not arguments.json:
            short = shorten_task_id(task.id, engine.list_task_ids())
            print(f"to undo it: joey tasks rewind {short} --undo", file=sys.stderr)
            print(f"to continue: joey -r {short}", file=sys.stderr)
    return ExitCode.DONE


def _resolve_target(
    task: Task, rows: list[dict[str, Any]], arguments: Namespace
) -> tuple[int | None, bool]:
    """Return the row to rewind to, and whether it is kept; no row if a rewind is undone."""
    if arguments.undo:
        return None, True
    if arguments.message:
        return find_row_ts(rows, arguments.message, task.id), not arguments.before
    last = find_row_ts_before_last_message(rows)
    if last is None:
        raise UsageError("this task has no messages yet")
    return last, True


def _find_problem(task: Task, changes: RewindPreview, arguments: Namespace) -> str:
    """Return why nothing is restored. A user who is asked sees the protected files among the
    others."""
    if changes.conflicting_paths and not arguments.force:
        return _CONFLICT_MESSAGE
    if not arguments.yes or task.settings.always_allow_write_protected:
        return ""
    protected = [each.path for each in changes.files if is_protected(each.path)]
    named = ", ".join(protected[:MAX_NAMED_FILES])
    return _PROTECTED_MESSAGE.format(named) if protected else ""


def _confirm_rewind(changes: RewindPreview, arguments: Namespace, rows: Rows) -> bool:
    otherwise = "confirm with --yes, or use --preview"
    if arguments.json:
        raise UsageError(f"no user is there to ask; {otherwise}")
    question = "Undo the rewind?" if arguments.undo else "Rewind?"
    return confirm(question, otherwise, describe_rewind(changes, rows))


def _print_result(changes: RewindPreview, arguments: Namespace, rows: Rows, *, done: bool) -> None:
    if arguments.json:
        _write_json(changes, done=done)
        return
    if done and not arguments.yes:
        print("done")
        return
    ts = find_last_visible_ts(changes, rows)
    text = summarize_row(rows, ts)
    last = f"message {ts}" + (f" ({text})" if text else "")
    print(f"the last message {'is' if done else 'would be'} {last}")
    _print_changes(changes, rows)


def _write_json(changes: RewindPreview, **facts: object) -> None:
    write_stdout(encode_json(facts | {"changes": changes}))


def _print_changes(changes: RewindPreview, rows: Rows) -> None:
    for line in describe_rewind(changes, rows):
        print(line)


async def _run_fork(metadata: TaskMetadata, arguments: Namespace) -> ExitCode:
    async with open_engine() as engine:
        row = None
        if arguments.message:
            from joey.app import open_store
            from joey.cli.task_views import read_rows

            row = find_row_ts(read_rows(open_store(), metadata.id), arguments.message, metadata.id)
        options = make_inspect_options(metadata.workspace)
        task = await engine.fork(metadata.id, row, keep=not arguments.before, options=options)
        short = shorten_task_id(task.id, engine.list_task_ids())
    if arguments.json:
        write_stdout(msgspec.json.encode({"taskId": task.id}) + b"\n")
    else:
        print(task.id)
        print(f"to continue it: joey -r {short}", file=sys.stderr)
    return ExitCode.DONE
