"""The commands of the server: one handler each, in modules by subject."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from joey.server.commands import messages, revisions, settings, task_queries, tasks
from joey.server.commands.call import CommandCall

if TYPE_CHECKING:
    from joey.server.hub import ServerHub

CommandHandler = Callable[["ServerHub", CommandCall], Awaitable[Struct]]

HANDLERS: dict[str, CommandHandler] = {
    **tasks.HANDLERS,
    **messages.HANDLERS,
    **task_queries.HANDLERS,
    **revisions.HANDLERS,
    **settings.HANDLERS,
    **tasks.PROCESS_HANDLERS,
}
