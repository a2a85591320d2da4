"""Slash commands of the REPL.

Some commands need an idle task. At another moment they are refused with a note: a command is
never a message for the model, and never the answer to a question. `/rewind`, `/undo` and `/fork`
can be undone, so they do not ask for confirmation.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from joey.cli.exit_codes import UsageError
from joey.cli.launch import earlier_task, options_for, short_id
from joey.cli.notices import describe_cost
from joey.cli.repl.renderer import TaskRenderer
from joey.cli.task_views import MAX_LISTED_ITEMS, Rows, all_rows, describe, find_row
from joey.core.events import AskOpened
from joey.core.rewind import RewindPreview, find_row_before_last_message
from joey.core.task import APPROVAL_ASKS
from joey.engine.engine import Engine
from joey.engine.task import Task
from joey.errors import UserError
from joey.presentation.slash_commands import (
    COMMANDS_BY_NAME,
    LISTED_COMMANDS,
    BuiltInCommand,
    named,
    parse,
)
from joey.presentation.text import cells, one_line
from joey.tui.host import PickerEntry, named_mode, withdraw_edits

if TYPE_CHECKING:
    from joey.cli.screen.host import LocalAppHost


TASK_COMMANDS = frozenset({"cost", "export", "mcp", "mode", "model", "permissions"})
"""Commands that tell or choose something of the task at hand."""
MAX_LISTED_ENTRIES = 40


class ReplCommands:
    def __init__(self, engine: Engine, arguments: Namespace, renderer: TaskRenderer) -> None:
        self._engine = engine
        self._arguments = arguments
        self._renderer = renderer
        self._made: LocalAppHost | None = None

    async def close(self) -> None:
        """The next command looks at everything anew."""
        made, self._made = self._made, None
        if made is not None:
            await made.close()

    @property
    def _host(self) -> LocalAppHost:
        """Made for the first command that needs it: most conversations have none."""
        if self._made is None:
            from joey.cli.screen.host import LocalAppHost

            self._made = LocalAppHost(self._engine, self._arguments, needs_model=False)
        return self._made

    @property
    def names(self) -> list[str]:
        """All that may stand behind a slash."""
        return [offer.name for offer in self._host.commands()]

    async def run(self, command: BuiltInCommand, rest: str, task: Task | None) -> Task | None:
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
                await self._mode(rest, task)
            case "model":
                return await self._model(rest, task)
            case "permissions" if rest:
                self._note(withdraw_edits(self._host, task, rest))
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
        others = {offer.name: offer.about for offer in offers if offer.name not in COMMANDS_BY_NAME}
        self._note("\n".join(filter(None, (command_help(), slash_help(others)))))

    async def _mode(self, slug: str, task: Task | None) -> None:
        modes = self._host.modes(task)
        if not slug:
            self._list(modes, "/mode MODE chooses one")
            return
        await self._host.choose_mode(task, named_mode(modes, slug).key)
        if task is None or not task.running:
            self._note(f"now in {slug} mode")
        elif task.pending is not None:  # else it is drawn at once, with all that the task does
            self._note(f"{slug} mode counts from joey's next step on")

    async def _model(self, key: str, task: Task | None) -> Task | None:
        if not key:
            self._list(await self._host.models(task), "/model MODEL chooses one, listed or not")
            return task
        after = await self._host.choose_model(task, key)
        assert after is None or isinstance(after, Task)
        self._note(f"from now on with {self._host.get_status(after).model}")
        return after

    async def _list_tasks(self) -> None:
        tasks = await self._host.tasks()
        if not tasks:
            self._note("there are no earlier tasks in this folder")
            return
        ids = self._engine.ids()
        listed = [PickerEntry(short_id(each.key, ids), each.label, each.about) for each in tasks]
        self._list(listed, "/resume ID goes on with one", with_labels=True)

    def _list(
        self, entries: Sequence[PickerEntry], hint: str, *, with_labels: bool = False
    ) -> None:
        lines = []
        for entry in entries[:MAX_LISTED_ENTRIES]:
            label = f"  {one_line(entry.label, 70)}" if with_labels else ""
            about = f"  {one_line(entry.about, 200)}" if entry.about else ""
            lines.append(f"{'*' if entry.is_current else ' '} {entry.key}{label}{about}")
        if len(entries) > MAX_LISTED_ENTRIES:
            lines.append(f"  and {len(entries) - MAX_LISTED_ENTRIES} more")
        self._note("\n".join((*lines, hint)))

    def _note(self, text: str) -> None:
        self._renderer.note(text)


EXIT_COMMANDS = frozenset({"/exit", "/quit"})
REWIND_COMMANDS = frozenset({"rewind", "undo", "fork"})
_HELP_TEXT = """\
Write what you want and press Enter; a line that ends with \\ goes on in the next one.
While joey works you may write too: it reads your words before its next step.
Ctrl-C stops joey at work; words that it has not read yet come back to you.
/rewind takes your latest words back, /rewind N all after the N-th message from the end; with
`files` behind it the files of that moment come back too, and `force` gives up what others have
changed in them since."""


def small_command(text: str) -> tuple[BuiltInCommand, str] | None:
    """The command that a line is, and the words behind it; None when it is words."""
    match named(text):
        case (command, rest) if command.in_lines or command.name in REWIND_COMMANDS:
            return command, rest
    return parse(text)


def command_help() -> str:
    heads = {command: f"/{command.name} {command.in_lines}".rstrip() for command in LISTED_COMMANDS}
    room = max(map(len, heads.values()))
    lines = (f"  {head:{room}}  {command.about}" for command, head in heads.items())
    return "\n".join((_HELP_TEXT, *lines))


def too_early(command: BuiltInCommand, ask: AskOpened | None) -> str | None:
    """Why a command must wait while a task works or asks; None when it need not."""
    if not command.at_rest:
        return None
    first = "answer first" if ask is not None else "Ctrl-C stops it"
    return f"/{command.name} works when joey waits for your words; {first}"


def is_no_answer(text: str, ask: AskOpened) -> bool:
    """A name with a slash never decides about a call; to a question it may be a path."""
    is_bare = text.startswith("/") and not any(char in text[1:] for char in " /\n")
    return ask.ask in APPROVAL_ASKS and is_bare


def slash_help(names: dict[str, str]) -> str:
    """One line each, below a heading; empty when there are none."""
    if not names:
        return ""
    room = min(24, max(map(cells, names)))
    lines = (f"  /{name:{room}}  {one_line(about, 200)}".rstrip() for name, about in names.items())
    return "\n".join(("Commands of this folder and yours:", *lines))


PrintLine = Callable[[str], None]


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


async def revise(engine: Engine, task: Task | None, argv: list[str], print_line: PrintLine) -> Task:
    """Carry out one of the commands; the task that the conversation goes on with.

    Raises:
        UserError
    """
    if task is None:
        raise UserError("nothing was said yet")
    match argv:
        case ["/rewind", *rest]:
            await _rewind(task, rest, print_line)
        case ["/undo"] | ["/undo", "force"]:
            await _undo(task, print_line, force="force" in argv)
        case ["/fork"]:
            fork = await engine.fork(task.id)
            left = short_id(task.id, engine.ids())
            await engine.release(task)
            print_line(f"this is a copy now, task {short_id(fork.id, engine.ids())}; {left} stays")
            return fork
        case [name, *_]:
            raise UsageError(f"{name} stands alone; see /help")
    return task


async def _rewind(task: Task, rest: list[str], print_line: PrintLine) -> None:
    files, force = "files" in rest, "force" in rest
    named = [word for word in rest if word not in ("files", "force")]
    if len(named) > 1:
        raise UsageError("/rewind takes one number, and `files` to bring the files back too")
    if force and not files:
        raise UsageError("`force` goes with `files`: it gives up what others changed in them")
    rows = _rows(task)
    target = find_row(rows, named[0], task.id) if named else find_row_before_last_message(rows)
    if target is None:
        raise UserError("nothing was said yet")
    said = [row for row in rows if row["ts"] > target and row.get("say") == "user_feedback"]
    if files and not force:
        _check(await task.preview_rewind(target, files=True), f"/rewind {' '.join(rest)}")
    _describe(await task.rewind(target, files=files, force=force), rows, print_line)
    if said:
        print_line(f"you had said: {one_line(str(said[0].get('text') or ''), 400)}")
    print_line("rewound; /undo takes it back")


async def _undo(task: Task, print_line: PrintLine, *, force: bool) -> None:
    rows = _rows(task)
    if not force:
        _check(await task.preview_undo(), "/undo")
    _describe(await task.undo_rewind(force=force), all_rows(rows, _rows(task)), print_line)
    print_line("the rewind is undone")


def _check(changes: RewindPreview, command: str) -> None:
    """Raises UserError for what others changed, with how to give that up."""
    if not changes.conflicts:
        return
    more = len(changes.conflicts) - MAX_LISTED_ITEMS
    named = ", ".join(map(one_line, changes.conflicts[:MAX_LISTED_ITEMS])) + f" and {more} more" * (
        more > 0
    )
    raise UserError(
        f"of the files that would be brought back somebody else has changed: {named}. Nothing was"
        f" done; `{command} force` gives up their changes (a checkpoint keeps them)"
    )


def _rows(task: Task) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(row) for row in task.rows]


def _describe(changes: RewindPreview, rows: Rows, print_line: PrintLine) -> None:
    print_line("\n".join(line.removeprefix("  ") for line in describe(changes, rows)))


CONDENSE_COMMANDS = frozenset({"compact", "condense"})


async def condense(task: Task | None, instructions: str, renderer: TaskRenderer) -> None:
    """Sum the conversation up; cancelling the task stops it."""
    if task is None:
        renderer.note("there is nothing to condense yet")
        return
    renderer.passing("condensing the conversation…")
    try:
        renderer.show(await task.condense(instructions))
    except UserError as error:
        renderer.note(f"not condensed: {one_line(str(error), 400)}")


def begin_condensing(task: Task | None, instructions: str, renderer: TaskRenderer) -> None:
    """The same for a task at work: how it went is drawn with all else."""
    if task is None:
        return
    try:
        task.begin_condensing(instructions)
    except UserError as error:
        renderer.note(f"not condensed: {one_line(str(error), 400)}")
    else:
        renderer.note("(joey condenses the conversation before its next step)")
