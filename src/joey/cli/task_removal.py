"""`joey tasks delete`: nothing goes that was not named and agreed to."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Sequence

from joey.app.worktrees import remove_worktree
from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.launch import find_task
from joey.errors import TaskNotFoundError
from joey.ports import Store, TaskMetadata
from joey.ports.storage import TaskIndex
from joey.presentation.text import one_line

_YES = frozenset({"y", "yes"})


def delete_tasks(store: Store, index: TaskIndex, arguments: Namespace) -> ExitCode:
    """The task, and its subtasks where that was asked for.

    Raises:
        StoreError: one of them is open, or is not joey's to delete; those named before are gone.
    """
    task = find_task(index.starting(arguments.id), arguments.id)
    below = index.family(task.id)
    doomed = [task, *below] if arguments.with_subtasks else [task]
    if not arguments.yes and not _agreed(doomed, below):
        print("nothing was deleted", file=sys.stderr)
        return ExitCode.NEEDS_PERSON
    # Open ones first: they refuse, while everything is still there. Subtasks before their parent,
    # which keeps naming those that are left when something goes wrong.
    held = [each for each in doomed if _is_held(store, each)]
    for each in (*held, *(each for each in reversed(doomed) if each not in held)):
        store.delete(each.id)
        asyncio.run(remove_worktree(each.id))
        print(f"deleted {_named(each)}")
    if below and not arguments.with_subtasks:
        print(_left_behind(below), file=sys.stderr)
    return ExitCode.DONE


def _agreed(doomed: Sequence[TaskMetadata], below: Sequence[TaskMetadata]) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("nobody is there to ask; agree with --yes")
    print("To be deleted, with everything in the folder of each:")
    for each in doomed:
        print(f"  {_named(each)}")
    if below and len(doomed) == 1:
        print(_left_behind(below))
    try:
        answer = input("Delete for good? [y/N] ")
    except EOFError:
        print()
        return False
    return answer.strip().lower() in _YES


def _left_behind(below: Sequence[TaskMetadata]) -> str:
    names = "".join(f"\n  {_named(each)}" for each in below)
    return f"Its subtasks are tasks of their own, and stay (--with-subtasks names them too):{names}"


def _named(task: TaskMetadata) -> str:
    return f"{task.id}  {one_line(task.title, 60)}".rstrip()


def _is_held(store: Store, task: TaskMetadata) -> bool:
    try:
        return store.is_held(task.id)
    except TaskNotFoundError:
        return False
