"""Slash commands of the REPL.

Some commands need an idle task and are rejected with a note otherwise: a command is never sent to
the model, and never the answer to a question. `/rewind`, `/undo` and `/fork` can be undone, so they
do not ask for confirmation.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from joey.cli.exit_codes import UsageError
from joey.cli.line_renderer import LineWriter
from joey.cli.notices import format_usage
from joey.cli.task_launch import build_task_options, find_earlier_task
from joey.cli.task_lookup import shorten_task_id
from joey.cli.task_views import MAX_LISTED_ITEMS, Rows, describe_rewind, find_row_ts, merge_rows
from joey.core.events import AskOpened
from joey.core.rewind import RewindPreview, find_row_ts_before_last_message
from joey.core.task_types import APPROVAL_ASKS, RowKind
from joey.engine.engine import Engine
from joey.engine.task import Task
from joey.errors import UserError
from joey.presentation.phrases import describe_condense
from joey.presentation.slash_commands import (
    COMMANDS_BY_NAME,
    LISTED_COMMANDS,
    BuiltInCommand,
    match_command,
    parse_command,
)
from joey.presentation.text import measure_width, to_one_line
from joey.tui.app_services import (
    REVOKE_ARGUMENT,
    PickerEntry,
    change_approval_level,
    find_mode,
    is_replaced,
)

if TYPE_CHECKING:
    from joey.cli.screen.host import LocalAppHost


TASK_COMMANDS = frozenset(
    {"context", "cost", "export", "mcp", "mode", "model", "permissions", "status"}
)
MAX_LISTED_ENTRIES = 40


class ReplCommands:
    def __init__(self, engine: Engine, arguments: Namespace, writer: LineWriter) -> None:
        self._engine = engine
        self._arguments = arguments
        self._writer = writer
        self._cached_host: LocalAppHost | None = None

    async def close(self) -> None:
        """Close the host; the next command opens a new one."""
        host, self._cached_host = self._cached_host, None
        if host is not None:
            await host.close()

    @property
    def _host(self) -> LocalAppHost:
        """The host, created for the first command that needs it: most conversations have none."""
        if self._cached_host is None:
            from joey.cli.screen.host import LocalAppHost

            self._cached_host = LocalAppHost(self._engine, self._arguments, needs_model=False)
        return self._cached_host

    @property
    def command_names(self) -> list[str]:
        """The names of all slash commands."""
        return [offer.name for offer in self._host.list_commands()]

    def is_replaced(self, command: BuiltInCommand) -> bool:
        return command.is_replaceable and is_replaced(command, self._host)

    async def run(self, command: BuiltInCommand, rest: str, task: Task | None) -> Task | None:
        """Run a command and return the task to continue with. Raises UserError."""
        match command.name:
            case "help":
                offers = self._host.list_commands()
                own = {each.name: each.description for each in offers}
                for name in COMMANDS_BY_NAME:
                    own.pop(name, None)
                self._print_note(format_command_help() + format_custom_command_help(own))
            case "cost":
                self._print_note("nothing yet" if task is None else format_usage(task.total_usage))
            case "mode":
                await self._show_or_set_mode(rest, task)
            case "model":
                return await self._show_or_set_model(rest, task)
            case "permissions" if rest:
                await self._change_permissions(task, rest)
            case "copy":
                raise UserError(
                    "/copy works on the screen; here, /export writes the task to a file"
                )
            case (
                "config"
                | "context"
                | "diff"
                | "doctor"
                | "mcp"
                | "permissions"
                | "skills"
                | "status"
            ) as card:
                self._writer.print(*await self._host.render_card(card, task))
            case "export":
                if task is None:
                    raise UserError("there are no messages yet")
                self._print_note(f"written to {await self._host.export_task(task)}")
            case "resume" | "tasks":
                await self._print_tasks()
        return task

    async def _change_permissions(self, task: Task | None, argument: str) -> None:
        word, _, text = argument.partition(" ")
        if word != REVOKE_ARGUMENT:
            self._print_note(change_approval_level(self._host, task, argument))
            return
        entries = await self._host.list_granted_rules(task)
        beginning = text.strip()
        found = [each for each in entries if each.label == beginning] or [
            each for each in entries if beginning and each.label.startswith(beginning)
        ]
        if len({each.label for each in found}) != 1:
            self._print_entries(
                [PickerEntry(each.label, each.label, each.description) for each in entries],
                "/permissions revoke LINE revokes a rule; the beginning of a line is enough",
            )
            return
        for entry in found:  # of several scopes
            await self._host.revoke_granted_rule(task, entry.key)
        self._print_note(f"{found[0].label} is asked about again")

    async def _show_or_set_mode(self, slug: str, task: Task | None) -> None:
        modes = self._host.list_modes(task)
        if not slug:
            self._print_entries(modes, "/mode MODE chooses one")
            return
        await self._host.switch_mode(task, find_mode(modes, slug).key)
        if task is None or not task.is_running:
            self._print_note(f"now in {slug} mode")
        elif task.pending is not None:  # otherwise it is drawn with the task
            self._print_note(f"{slug} mode applies from joey's next step on")

    async def _show_or_set_model(self, key: str, task: Task | None) -> Task | None:
        if not key:
            self._print_entries(
                await self._host.list_models(task), "/model MODEL chooses one, listed or not"
            )
            return task
        after = await self._host.switch_model(task, key)
        assert after is None or isinstance(after, Task)
        self._print_note(f"from now on with {self._host.get_status(after).model}")
        return after

    async def _print_tasks(self) -> None:
        tasks = await self._host.list_tasks()
        if not tasks:
            self._print_note("there are no earlier tasks in this folder")
            return
        ids = self._engine.list_task_ids()
        listed = [
            PickerEntry(shorten_task_id(each.key, ids), each.label, each.description)
            for each in tasks
        ]
        self._print_entries(listed, "/resume ID continues one", with_labels=True)

    def _print_entries(
        self, entries: Sequence[PickerEntry], hint: str, *, with_labels: bool = False
    ) -> None:
        lines = []
        for entry in entries[:MAX_LISTED_ENTRIES]:
            label = f"  {to_one_line(entry.label, 70)}" if with_labels else ""
            about = f"  {to_one_line(entry.description, 200)}" if entry.description else ""
            lines.append(f"{'*' if entry.is_current else ' '} {entry.key}{label}{about}")
        if len(entries) > MAX_LISTED_ENTRIES:
            lines.append(f"  and {len(entries) - MAX_LISTED_ENTRIES} more")
        self._print_note("\n".join((*lines, hint)))

    def _print_note(self, text: str) -> None:
        self._writer.print_note(text)


EXIT_COMMANDS = frozenset({"/exit", "/quit"})
HISTORY_COMMANDS = frozenset({"rewind", "undo", "fork"})
_HELP_TEXT = """\
Write what you want and press Enter; a line that ends with \\ continues on the next one.
You can also write while joey works: it reads your message before its next step.
Ctrl-C stops joey; unread messages come back to you.
/rewind takes your latest words back, /rewind N all after the N-th message from the end; with
`files` behind it the files of that moment come back too, and `force` gives up what others have
changed in them since."""


def parse_repl_command(text: str) -> tuple[BuiltInCommand, str] | None:
    """Parse a line into a command and its arguments; None if it is a message."""
    match match_command(text):
        case (command, rest) if command.arguments_hint or command.name in HISTORY_COMMANDS:
            return command, rest
    return parse_command(text)


def format_command_help() -> str:
    heads = {
        command: f"/{command.name} {command.arguments_hint}".rstrip() for command in LISTED_COMMANDS
    }
    width = max(map(len, heads.values()))
    lines = (f"  {head:{width}}  {command.summary}" for command, head in heads.items())
    return "\n".join((_HELP_TEXT, *lines))


def explain_unavailable(command: BuiltInCommand, ask: AskOpened | None) -> str | None:
    """Explain why a command must wait while a task works or asks; None if it need not."""
    if not command.requires_idle:
        return None
    first = "answer first" if ask is not None else "Ctrl-C stops it"
    return f"/{command.name} works when joey waits for your message; {first}"


def is_stray_command(text: str, ask: AskOpened) -> bool:
    """Whether a slash name is a misspelt command: it never decides about a call; for a question it
    may be a path."""
    is_bare = text.startswith("/") and not any(char in text[1:] for char in " /\n")
    return ask.ask in APPROVAL_ASKS and is_bare


def format_custom_command_help(names: dict[str, str]) -> str:
    """Format custom commands, one per line, below a heading; empty without any."""
    heading = "\nCommands of this folder and yours:" if names else ""
    width = min(24, max(map(measure_width, names), default=0))
    lines = (
        f"\n  /{name:{width}}  {to_one_line(about, 200)}".rstrip() for name, about in names.items()
    )
    return heading + "".join(lines)


PrintLine = Callable[[str], None]


async def open_earlier_task(engine: Engine, arguments: Namespace) -> Task:
    """Open the task to continue. Raises UserError."""
    earlier = find_earlier_task(engine, arguments)
    if earlier is None:
        raise UserError("there are no messages yet")
    options = build_task_options(arguments, earlier, None)
    if arguments.fork:
        return await engine.fork(earlier.id, options=options)
    return await engine.open(earlier.id, options=options)


async def run_history_command(
    engine: Engine, task: Task | None, argv: list[str], print_line: PrintLine
) -> Task:
    """Run a history command and return the task to continue with. Raises UserError."""
    if task is None:
        raise UserError("there are no messages yet")
    match argv:
        case ["/rewind", *rest]:
            await _rewind(task, rest, print_line)
        case ["/undo"] | ["/undo", "force"]:
            await _undo_rewind(task, print_line, force="force" in argv)
        case ["/fork"]:
            fork = await engine.fork(task.id)
            left = shorten_task_id(task.id, engine.list_task_ids())
            await engine.release(task)
            print_line(
                f"this is a copy now, task {shorten_task_id(fork.id, engine.list_task_ids())}; "
                f"{left} stays"
            )
            return fork
        case [name, *_]:
            raise UsageError(f"{name} takes no arguments; see /help")
    return task


async def _rewind(task: Task, rest: list[str], print_line: PrintLine) -> None:
    files, force = "files" in rest, "force" in rest
    named = [word for word in rest if word not in ("files", "force")]
    if len(named) > 1:
        raise UsageError("/rewind takes one number, and `files` to bring the files back too")
    if force and not files:
        raise UsageError("`force` goes with `files`: it gives up what others changed in them")
    rows = _to_row_dicts(task)
    target = (
        find_row_ts(rows, named[0], task.id) if named else find_row_ts_before_last_message(rows)
    )
    if target is None:
        raise UserError("there are no messages yet")
    said = [row for row in rows if row["ts"] > target and row.get("say") == RowKind.USER_FEEDBACK]
    if files and not force:
        _check_conflicts(await task.preview_rewind(target, files=True), f"/rewind {' '.join(rest)}")
    _print_changes(await task.rewind(target, files=files, force=force), rows, print_line)
    if said:
        print_line(f"your message was: {to_one_line(str(said[0].get('text') or ''), 400)}")
    print_line("rewound; /undo undoes it")


async def _undo_rewind(task: Task, print_line: PrintLine, *, force: bool) -> None:
    rows = _to_row_dicts(task)
    if not force:
        _check_conflicts(await task.preview_undo(), "/undo")
    _print_changes(
        await task.undo_rewind(force=force), merge_rows(rows, _to_row_dicts(task)), print_line
    )
    print_line("the rewind is undone")


def _check_conflicts(changes: RewindPreview, command: str) -> None:
    """Check for files that others changed. Raises UserError, which says how to overwrite them."""
    if not changes.conflicting_paths:
        return
    more = len(changes.conflicting_paths) - MAX_LISTED_ITEMS
    named = ", ".join(
        map(to_one_line, changes.conflicting_paths[:MAX_LISTED_ITEMS])
    ) + f" and {more} more" * (more > 0)
    raise UserError(
        f"some files were modified outside joey: {named}. Nothing was restored;"
        f" `{command} force` restores anyway (a checkpoint keeps those changes)"
    )


def _to_row_dicts(task: Task) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(row) for row in task.rows]


def _print_changes(changes: RewindPreview, rows: Rows, print_line: PrintLine) -> None:
    print_line("\n".join(line.removeprefix("  ") for line in describe_rewind(changes, rows)))


CONDENSE_COMMANDS = frozenset({"compact", "condense"})


async def condense(task: Task | None, instructions: str, writer: LineWriter) -> None:
    """Condense the conversation; cancelling the task stops it."""
    if task is None:
        writer.print_note("there is nothing to condense yet")
        return
    writer.show_status("condensing the conversation…")
    try:
        writer.print_note(describe_condense(await task.condense(instructions)))
    except UserError as error:
        writer.print_note(f"not condensed: {to_one_line(str(error), 400)}")


def begin_condensing(task: Task | None, instructions: str, writer: LineWriter) -> None:
    """Begin condensing in a running task, whose output reports the outcome."""
    if task is None:
        return
    try:
        task.start_condensing(instructions)
    except UserError as error:
        writer.print_note(f"not condensed: {to_one_line(str(error), 400)}")
    else:
        writer.print_note("(joey condenses the conversation before its next step)")
