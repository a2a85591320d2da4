"""`/compact` in a conversation."""

from __future__ import annotations

from joey.cli.render import Renderer
from joey.engine.task import Task
from joey.errors import UserError
from joey.presentation.text import one_line

COMPACTING = frozenset({"compact", "condense"})


async def condense(task: Task | None, wish: str, renderer: Renderer) -> None:
    """Sum the conversation up; cancelling the task stops it."""
    if task is None:
        renderer.note("there is nothing to condense yet")
        return
    renderer.passing("condensing the conversation…")
    try:
        renderer.show(await task.condense(wish))
    except UserError as error:
        renderer.note(f"not condensed: {one_line(str(error), 400)}")


def begin_condensing(task: Task | None, wish: str, renderer: Renderer) -> None:
    """The same for a task at work: how it went is drawn with all else."""
    if task is None:
        return
    try:
        task.begin_condensing(wish)
    except UserError as error:
        renderer.note(f"not condensed: {one_line(str(error), 400)}")
    else:
        renderer.note("(joey condenses the conversation before its next step)")
