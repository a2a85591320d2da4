"""`joey tasks rewind` and `joey tasks fork`: back to an earlier message, in place or in a copy.

The description of what a rewind changes (`describe`) is used by the REPL and the app too.
"""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from operator import itemgetter
from typing import Any

import msgspec

from joey.app import open_engine
from joey.app.options import idle_options
from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.launch import find_task, short_id
from joey.cli.output import write_out
from joey.cli.task_views import find_row, is_told
from joey.core.protected_paths import is_protected
from joey.core.rewind import RewindPreview, before_last_words
from joey.engine.engine import Engine
from joey.engine.task import Task
from joey.errors import UserError
from joey.ports import TaskMetadata
from joey.ports.storage import TaskIndex
from joey.presentation.phrases import FATES, STAYING
from joey.presentation.text import one_line

_YES = frozenset({"y", "yes"})
_CONFLICT = (
    "somebody else has changed files that would be brought back; nothing was changed."
    " --force gives up their changes (a checkpoint keeps them)"
)

_PROTECTED = (
    "protected files would be restored, which -y does not allow; nothing was changed: {}."
    " Leave -y out to be asked, or set alwaysAllowWriteProtected"
)
MOST_NAMED = 10


def rewind_task(index: TaskIndex, arguments: Namespace) -> ExitCode:
    """Raises UserError."""
    if arguments.undo and (arguments.message or arguments.before or arguments.with_files):
        raise UsageError("--undo takes back the latest rewind as it was; name nothing else")
    task = find_task(index.starting(arguments.id), arguments.id)
    return asyncio.run(_rewind(task, arguments))


def fork_task(index: TaskIndex, arguments: Namespace) -> ExitCode:
    """Raises UserError."""
    if arguments.before and not arguments.message:
        raise UsageError("--before needs the message before which the copy ends")
    task = find_task(index.starting(arguments.id), arguments.id)
    return asyncio.run(_fork(task, arguments))


async def _rewind(metadata: TaskMetadata, arguments: Namespace) -> ExitCode:
    async with _opened(metadata) as (engine, task):
        rows = [msgspec.to_builtins(row) for row in task.rows]
        target, keep = _target(task, rows, arguments)
        changes = await _preview(task, target, keep, arguments)
        if arguments.preview:
            _tell(changes, arguments, rows, done=False)
            return ExitCode.DONE
        if problem := _problem(task, changes, arguments):
            if arguments.json:
                _tell_json(changes, done=False, error=problem)
            else:
                _tell_lines(changes, rows)
            raise UserError(problem)
        if not arguments.yes and not _agreed(changes, arguments, rows):
            print("nothing was changed", file=sys.stderr)
            return ExitCode.NEEDS_PERSON
        if target is None:
            await task.undo_rewind(force=arguments.force)
        else:
            files = arguments.with_files
            await task.rewind(target, keep=keep, files=files, force=arguments.force)
        known = all_rows(rows, [msgspec.to_builtins(row) for row in task.rows])
        _tell(changes, arguments, known, done=True)
        if not arguments.json:
            short = short_id(task.id, engine.ids())
            print(f"to undo it: joey tasks rewind {short} --undo", file=sys.stderr)
            print(f"to go on: joey -r {short}", file=sys.stderr)
    return ExitCode.DONE


@asynccontextmanager
async def _opened(metadata: TaskMetadata) -> AsyncIterator[tuple[Engine, Task]]:
    async with open_engine() as engine:
        options = idle_options(metadata.workspace)
        yield engine, await engine.open(metadata.id, options=options)


def _target(
    task: Task, rows: list[dict[str, Any]], arguments: Namespace
) -> tuple[int | None, bool]:
    """The row to go back to, and whether it stays; no row where a rewind is undone."""
    if arguments.undo:
        return None, True
    if arguments.message:
        return find_row(rows, arguments.message, task.id), not arguments.before
    last = before_last_words(rows)
    if last is None:
        raise UsageError("nothing was said in this task yet")
    return last, True


def _problem(task: Task, changes: RewindPreview, arguments: Namespace) -> str:
    """Why nothing is restored. A user who is asked sees the protected files among the others."""
    if changes.conflicts and not arguments.force:
        return _CONFLICT
    if not arguments.yes or task.settings.always_allow_write_protected:
        return ""
    protected = [each.path for each in changes.files if is_protected(each.path)]
    named = ", ".join(protected[:MOST_NAMED])
    return _PROTECTED.format(named) if protected else ""


async def _preview(
    task: Task, target: int | None, keep: bool, arguments: Namespace
) -> RewindPreview:
    if target is None:
        return await task.preview_undo()
    return await task.preview_rewind(target, keep=keep, files=arguments.with_files)


def _agreed(changes: RewindPreview, arguments: Namespace, rows: Rows) -> bool:
    if arguments.json or not sys.stdin.isatty():
        raise UsageError("nobody is there to ask; agree with --yes, or look with --preview")
    _tell_lines(changes, rows)
    try:
        answer = input("Undo the rewind? [y/N] " if arguments.undo else "Rewind? [y/N] ")
    except EOFError:
        print()
        return False
    return answer.strip().lower() in _YES


def _tell(changes: RewindPreview, arguments: Namespace, rows: Rows, *, done: bool) -> None:
    if arguments.json:
        _tell_json(changes, done=done)
        return
    if done and not arguments.yes:
        print("done")
        return
    ts = last_told(changes, rows)
    words = words_of(rows, ts)
    last = f"message {ts}" + (f" ({words})" if words else "")
    print(f"the last message {'is' if done else 'would be'} {last}")
    _tell_lines(changes, rows)


def _tell_json(changes: RewindPreview, **facts: object) -> None:
    told = facts | {"changes": changes}
    write_out(msgspec.json.format(msgspec.json.encode(told), indent=2) + b"\n")


def _tell_lines(changes: RewindPreview, rows: Rows) -> None:
    for line in describe(changes, rows):
        print(line)


async def _fork(metadata: TaskMetadata, arguments: Namespace) -> ExitCode:
    async with open_engine() as engine:
        row = None
        if arguments.message:
            from joey.app import open_store
            from joey.cli.task_views import read_rows

            row = find_row(read_rows(open_store(), metadata.id), arguments.message, metadata.id)
        options = idle_options(metadata.workspace)
        task = await engine.fork(metadata.id, row, keep=not arguments.before, options=options)
        short = short_id(task.id, engine.ids())
    if arguments.json:
        write_out(msgspec.json.encode({"taskId": task.id}) + b"\n")
    else:
        print(task.id)
        print(f"to go on with it: joey -r {short}", file=sys.stderr)
    return ExitCode.DONE


Rows = Sequence[Mapping[str, Any]]
MOST = 10
"""Things of a kind that are named."""


def describe(changes: RewindPreview, rows: Rows) -> Iterator[str]:
    """One line for each thing that changes; nothing about what does not.

    Messages are counted as a person knows them. Those that would come back and are not among
    the rows yet are not counted.
    """
    yield from _counted("message goes", "messages go", _told(changes.rows, rows))
    if set(changes.returning) <= {row["ts"] for row in rows}:
        back = _told(changes.returning, rows)
        yield from _counted("message comes back", "messages come back", back)
    else:
        yield "  the messages come back"
    if changes.todos_before != changes.todos_after:
        yield f"  todos: {_todos(changes.todos_before)} → {_todos(changes.todos_after)}"
    if changes.mode_before != changes.mode_after:
        yield f"  mode: {changes.mode_before} → {changes.mode_after}"
    if changes.edits_asked:
        yield "  edits, which you accepted for this task, are asked about again"
    yield from _counted("summary is undone", "summaries are undone", changes.summaries)
    ran = ("command was run since, and stays done:", "commands were run since, and stay done:")
    yield from _named(*ran, changes.commands)
    begun = ("subtask was begun since, and stays:", "subtasks were begun since, and stay:")
    yield from _named(*begun, changes.subtasks)
    for kind, fate in FATES.items():
        paths = [each.path for each in changes.files if each.kind == kind]
        yield from _named(f"file is {fate}:", f"files are {fate}:", paths)
    others = "of these somebody else has changed:"
    yield from _named(others, others, changes.conflicts)
    for why, reason in STAYING.items():
        paths = [each.path for each in changes.files_left if each.why == why]
        is_left = f"taken back ({reason}):"
        yield from _named(f"file is not {is_left}", f"files are not {is_left}", paths)


def all_rows(before: Rows, after: Rows) -> list[Mapping[str, Any]]:
    """Those that were and those that are, in order of time."""
    return sorted({row["ts"]: row for row in (*before, *after)}.values(), key=itemgetter("ts"))


def last_told(changes: RewindPreview, rows: Rows) -> int | None:
    """The last message that stays, as a person knows them."""
    end = changes.message_ts
    if end is None or end not in (row["ts"] for row in rows):
        return end
    gone = set(changes.rows)
    told = [row["ts"] for row in rows if is_told(row) and row["ts"] not in gone]
    return max((ts for ts in told if ts <= end), default=end)


def words_of(rows: Rows, ts: int | None) -> str:
    """What a row says, in short."""
    row = next((row for row in rows if row["ts"] == ts), {})
    return one_line(str(row.get("path") or row.get("text") or ""), 60)


def _told(moments: Sequence[int], rows: Rows) -> int:
    wanted = set(moments)
    return sum(row["ts"] in wanted and is_told(row) for row in rows)


def _counted(one: str, many: str, count: int) -> Iterator[str]:
    if count:
        yield f"  {count} {one if count == 1 else many}"


def _named(one: str, many: str, things: Sequence[str]) -> Iterator[str]:
    yield from _counted(one, many, len(things))
    yield from (f"    {one_line(thing)}" for thing in things[:MOST])
    if len(things) > MOST:
        yield f"    and {len(things) - MOST} more"


def _todos(todos: Sequence[object]) -> str:
    done = sum(getattr(todo, "status", "") == "completed" for todo in todos)
    return f"{done} of {len(todos)} done" if todos else "none"
