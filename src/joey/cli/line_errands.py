"""Commands that tell or choose something: done as on the screen, told in lines."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from joey.cli.launch import short_id
from joey.cli.progress import describe_cost
from joey.cli.render import Renderer
from joey.cli.slash_names import slash_help
from joey.cli.small_commands import command_help
from joey.engine.engine import Engine
from joey.engine.task import Task
from joey.errors import UserError
from joey.presentation.slash_commands import BY_NAME, SlashCommand
from joey.presentation.text import one_line
from joey.tui.host import Entry, named_mode, withdraw_edits

if TYPE_CHECKING:
    from joey.cli.screen_host import ScreenHost

ABOUT_TASK = frozenset({"cost", "export", "mcp", "mode", "model", "permissions"})
"""Commands that tell or choose something of the task at hand."""
MOST = 40
"""Entries of a list that are told."""


class LineErrands:
    def __init__(self, engine: Engine, arguments: Namespace, renderer: Renderer) -> None:
        self._engine = engine
        self._arguments = arguments
        self._renderer = renderer
        self._made: ScreenHost | None = None

    async def close(self) -> None:
        """The next command looks at everything anew."""
        made, self._made = self._made, None
        if made is not None:
            await made.close()

    @property
    def _host(self) -> ScreenHost:
        """Made for the first command that needs it: most conversations have none."""
        if self._made is None:
            from joey.cli.screen_host import ScreenHost

            self._made = ScreenHost(self._engine, self._arguments, needs_model=False)
        return self._made

    @property
    def names(self) -> list[str]:
        """All that may stand behind a slash."""
        return [offer.name for offer in self._host.commands()]

    async def run(self, command: SlashCommand, words: str, task: Task | None) -> Task | None:
        """The task to go on with.

        Raises:
            UserError
        """
        match command.name:
            case "help":
                self._help()
            case "cost":
                self._note("nothing yet" if task is None else describe_cost(task.total_usage))
            case "mode":
                await self._mode(words, task)
            case "model":
                return await self._model(words, task)
            case "permissions" if words:
                self._note(withdraw_edits(self._host, task, words))
            case "permissions":
                self._renderer.print(await self._host.permissions(task))
            case "mcp":
                self._renderer.print(await self._host.servers(task))
            case "skills":
                self._renderer.print(await self._host.skills())
            case "doctor":
                self._renderer.print(await self._host.doctor())
            case "export":
                if task is None:
                    raise UserError("nothing was said yet")
                self._note(f"written to {await self._host.export(task)}")
            case "resume" | "tasks":
                await self._list_tasks()
        return task

    def _help(self) -> None:
        offers = self._host.commands()
        others = {offer.name: offer.about for offer in offers if offer.name not in BY_NAME}
        self._note("\n".join(filter(None, (command_help(), slash_help(others)))))

    async def _mode(self, words: str, task: Task | None) -> None:
        modes = self._host.modes(task)
        if not words:
            self._list(modes, "/mode MODE chooses one")
            return
        await self._host.choose_mode(task, named_mode(modes, words).key)
        if task is None or not task.running:
            self._note(f"now in {words} mode")
        elif task.pending is not None:  # else it is drawn at once, with all that the task does
            self._note(f"{words} mode counts from joey's next step on")

    async def _model(self, words: str, task: Task | None) -> Task | None:
        if not words:
            self._list(await self._host.models(task), "/model MODEL chooses one, listed or not")
            return task
        after = await self._host.choose_model(task, words)
        assert after is None or isinstance(after, Task)
        self._note(f"from now on with {self._host.standing(after).model}")
        return after

    async def _list_tasks(self) -> None:
        tasks = await self._host.tasks()
        if not tasks:
            self._note("there are no earlier tasks in this folder")
            return
        ids = self._engine.ids()
        listed = [Entry(short_id(each.key, ids), each.label, each.about) for each in tasks]
        self._list(listed, "/resume ID goes on with one", with_labels=True)

    def _list(self, entries: Sequence[Entry], hint: str, *, with_labels: bool = False) -> None:
        lines = []
        for entry in entries[:MOST]:
            label = f"  {one_line(entry.label, 70)}" if with_labels else ""
            about = f"  {one_line(entry.about, 200)}" if entry.about else ""
            lines.append(f"{'*' if entry.is_current else ' '} {entry.key}{label}{about}")
        if len(entries) > MOST:
            lines.append(f"  and {len(entries) - MOST} more")
        self._note("\n".join((*lines, hint)))

    def _note(self, text: str) -> None:
        self._renderer.note(text)
