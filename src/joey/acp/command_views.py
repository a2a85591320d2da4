"""Which commands of a session are shown in which terminals of the editor."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from acp.exceptions import RequestError

from joey.acp.narration import Narrator
from joey.acp.terminals import Terminals, View
from joey.acp.tool_calls import COMMAND_TOOL
from joey.client.local import Task
from joey.client.session import Session as Teller
from joey.core.events import (
    CommandGrew,
    Event,
    TaskAborted,
    TaskFailed,
    TaskFinished,
    ToolFinished,
)
from joey.presentation.phrases import ended_by

log = logging.getLogger(__name__)


class CommandViews:
    def __init__(self, terminals: Terminals, session_id: Callable[[], str]) -> None:
        self._terminals = terminals
        self._session_id = session_id
        self._is_wanted = True
        """The editor has not refused one yet, or had one that shows nothing."""
        self._views: dict[str, View] = {}
        """By task: commands of one task run one after the other."""
        self._late: set[asyncio.Task[View | None]] = set()
        """Terminals that come too late, if at all."""
        self._releases: set[asyncio.Task[None]] = set()

    async def follow(
        self, teller: Teller, narrator: Narrator, event: Event, stopped: asyncio.Event
    ) -> None:
        """Show what a command prints, before the narrator tells of it. Once it is `stopped`, the
        editor is not waited for."""
        if not self._terminals.are_offered:
            return
        match event:
            case CommandGrew(output=output):
                view = self._views.get(teller.id) or await self._open(teller, narrator, stopped)
                if view is not None:
                    view.print(output)
            case ToolFinished(tool=tool) if tool == COMMAND_TOOL:
                view = self._end(teller.id, _code_of(event))
                if view is not None and not await view.has_come():
                    log.warning("the editor's terminal shows nothing, so output comes as text")
                    self._is_wanted = False
                    narrator.show_running_in(None)
            case TaskAborted() | TaskFailed() | TaskFinished():
                self._end(teller.id, None)

    async def close(self) -> None:
        """What still runs is not shown any more."""
        for task_id in list(self._views):
            self._end(task_id, None)
        for opening in self._late:
            opening.cancel()
        await asyncio.gather(*self._releases)

    async def _open(
        self, teller: Teller, narrator: Narrator, stopped: asyncio.Event
    ) -> View | None:
        command = narrator.running_command
        if not self._is_wanted or command is None or not isinstance(teller, Task):
            return None
        if stopped.is_set():
            return None
        shown = self._terminals.show(
            self._session_id(),
            command,
            teller.bench.workspace,
            teller.bench.terminal.kill_running,
        )
        opening = asyncio.create_task(self._opened(shown))
        await _either(opening, stopped)
        if not opening.done():
            self._late.add(opening)
            self._begin(self._let_go(opening))
            return None
        view = opening.result()
        if view is not None:
            narrator.show_running_in(view.terminal_id)
            self._views[teller.id] = view
        return view

    async def _opened(self, shown: Awaitable[View]) -> View | None:
        try:
            return await shown
        except (RequestError, TimeoutError, OSError) as error:
            reason = str(error) or "it does not answer"
            log.warning("the editor shows no terminal, so output comes as text: %s", reason)
            self._is_wanted = False
            return None

    async def _let_go(self, opening: asyncio.Task[View | None]) -> None:
        """Of a terminal that nobody waits for any more, when there is one."""
        await asyncio.wait((opening,))
        self._late.discard(opening)
        view = None if opening.cancelled() else opening.result()
        if view is not None:
            view.end(None)
            await self._terminals.drop(self._session_id(), view)

    def _begin(self, release: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(release)
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)

    def _end(self, task_id: str, code: int | None) -> View | None:
        view = self._views.pop(task_id, None)
        if view is None:
            return None
        view.end(code)
        self._begin(self._terminals.release(self._session_id(), view))
        return view


def _code_of(event: ToolFinished) -> int | None:
    """As a shell tells it."""
    name = ended_by(event)
    return 128 + signal.Signals[name] if name in signal.Signals.__members__ else event.exit_code


async def _either(task: asyncio.Task[Any], event: asyncio.Event) -> None:
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
