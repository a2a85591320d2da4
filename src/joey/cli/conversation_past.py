"""`/rewind`, `/undo` and `/fork` in a conversation: they can all be undone, so nothing is asked."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Any

import msgspec

from joey.cli.exit_codes import UsageError
from joey.cli.launch import earlier_task, options_for, short_id
from joey.cli.revision_text import MOST, Rows, all_rows, describe
from joey.cli.task_rows import find_row
from joey.core.rewind import RewindPreview, before_last_words
from joey.engine.engine import Engine
from joey.engine.task import Task
from joey.errors import UserError
from joey.presentation.text import one_line

Tell = Callable[[str], None]


async def open_earlier(engine: Engine, arguments: Namespace) -> Task:
    """The task that the conversation is to go on with.

    Raises:
        UserError
    """
    earlier = earlier_task(engine, arguments)
    if earlier is None:
        raise UserError("nothing was said yet")
    options = options_for(arguments, earlier, None)
    if arguments.fork:
        return await engine.fork(earlier.id, options=options)
    return await engine.open(earlier.id, options=options)


async def revise(engine: Engine, task: Task | None, words: list[str], tell: Tell) -> Task:
    """Carry out one of the commands; the task that the conversation goes on with.

    Raises:
        UserError
    """
    if task is None:
        raise UserError("nothing was said yet")
    match words:
        case ["/rewind", *rest]:
            await _rewind(task, rest, tell)
        case ["/undo"] | ["/undo", "force"]:
            await _undo(task, tell, force="force" in words)
        case ["/fork"]:
            fork = await engine.fork(task.id)
            left = short_id(task.id, engine.ids())
            await engine.release(task)
            tell(f"this is a copy now, task {short_id(fork.id, engine.ids())}; {left} stays")
            return fork
        case [name, *_]:
            raise UsageError(f"{name} stands alone; see /help")
    return task


async def _rewind(task: Task, rest: list[str], tell: Tell) -> None:
    files, force = "files" in rest, "force" in rest
    named = [word for word in rest if word not in ("files", "force")]
    if len(named) > 1:
        raise UsageError("/rewind takes one number, and `files` to bring the files back too")
    if force and not files:
        raise UsageError("`force` goes with `files`: it gives up what others changed in them")
    rows = _rows(task)
    target = find_row(rows, named[0], task.id) if named else before_last_words(rows)
    if target is None:
        raise UserError("nothing was said yet")
    said = [row for row in rows if row["ts"] > target and row.get("say") == "user_feedback"]
    if files and not force:
        _check(await task.preview_rewind(target, files=True), f"/rewind {' '.join(rest)}")
    _describe(await task.rewind(target, files=files, force=force), rows, tell)
    if said:
        tell(f"you had said: {one_line(str(said[0].get('text') or ''), 400)}")
    tell("rewound; /undo takes it back")


async def _undo(task: Task, tell: Tell, *, force: bool) -> None:
    rows = _rows(task)
    if not force:
        _check(await task.preview_undo(), "/undo")
    _describe(await task.undo_rewind(force=force), all_rows(rows, _rows(task)), tell)
    tell("the rewind is undone")


def _check(changes: RewindPreview, command: str) -> None:
    """Raises UserError for what others changed, with how to give that up."""
    if not changes.conflicts:
        return
    more = len(changes.conflicts) - MOST
    named = ", ".join(map(one_line, changes.conflicts[:MOST])) + f" and {more} more" * (more > 0)
    raise UserError(
        f"of the files that would be brought back somebody else has changed: {named}. Nothing was"
        f" done; `{command} force` gives up their changes (a checkpoint keeps them)"
    )


def _rows(task: Task) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(row) for row in task.rows]


def _describe(changes: RewindPreview, rows: Rows, tell: Tell) -> None:
    tell("\n".join(line.removeprefix("  ") for line in describe(changes, rows)))
