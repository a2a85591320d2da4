"""How a conversation greets, and says which task it goes on with."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable

from joey.app import open_store
from joey.cli.launch import earlier_task, options_for, short_id
from joey.cli.opening import introduction, last_words
from joey.cli.transcript import read_rows
from joey.client.local import Engine
from joey.display.sanitise import one_line


def greet(engine: Engine, arguments: Namespace, tell: Callable[[str], None]) -> str | None:
    """The id of the task that is to go on, if one is.

    Raises:
        UserError
    """
    earlier = earlier_task(engine, arguments)
    tell(introduction(options_for(arguments, earlier, None)))
    if earlier is None:
        return None
    short = short_id(earlier.id, engine.ids())
    tell(f"going on with task {short}: {one_line(earlier.title, 200)}")
    if words := last_words(read_rows(open_store(), earlier.id)):
        tell(f"it said last: {one_line(words, 400)}")
    return earlier.id
