"""One handler per command, in modules by what they are about."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from joey.server.calls import Call
from joey.server.commands import history, preferences, processes, revisions, talk, tasks

if TYPE_CHECKING:
    from joey.server.hub import Hub

Handler = Callable[["Hub", Call], Awaitable[Struct]]

HANDLERS: dict[str, Handler] = {
    **tasks.HANDLERS,
    **talk.HANDLERS,
    **history.HANDLERS,
    **revisions.HANDLERS,
    **preferences.HANDLERS,
    **processes.HANDLERS,
}
