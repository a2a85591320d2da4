"""How a conversation greets, and says which task it goes on with."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence

from joey.app import open_store
from joey.cli.launch import earlier_task, options_for, short_id
from joey.cli.opening import introduction, last_words
from joey.cli.transcript import rows_of
from joey.core.events import Record
from joey.core.history.ledger import Ledger
from joey.engine.engine import Engine
from joey.presentation.text import one_line


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
    records = open_store().read(earlier.id)
    if words := last_words(rows_of(records)):
        tell(f"it said last: {one_line(words, 400)}")
    if not arguments.fork and (waiting := _waiting(records)):
        said = "these words of yours were not read yet, and go along with the next"
        tell(f"{said}: {one_line(waiting, 400)}")
    return earlier.id


def _waiting(records: Sequence[Record]) -> str:
    """What was said to the task while it worked, and no request has carried to the model."""
    ledger = Ledger()
    for record in records:
        ledger.apply(record.event)
    return " / ".join(message.text for message in ledger.queue.values())
