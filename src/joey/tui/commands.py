"""Commands typed into the composer: `/command` of the app, `!command` of the user's shell.

`SlashCommandRunner.run` is the dispatcher. The functions below it prepare the lists that `/rewind`
offers: the user's earlier messages, and whether files are restored too.

The model does not run a shell command and is not asked. Its output is attached to the next message,
so that "fix that" has a meaning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.text import Text

from joey.client.session import Session
from joey.core.file_state import FileChange
from joey.core.history.ui import Row
from joey.core.rewind import USER_FEEDBACK_ROW_KIND, RewindPreview, get_say, get_ts
from joey.core.task import Answer, AskKind, Response
from joey.errors import UserError
from joey.presentation.phrases import FILE_CHANGE_TEXTS
from joey.presentation.slash_commands import INIT_PROMPT_PATH, BuiltInCommand
from joey.presentation.text import sanitize, to_one_line
from joey.tui.blocks.block import Block, BlockPart, WrappedLine
from joey.tui.blocks.calls import OutputLines
from joey.tui.blocks.text import in_short, with_ran
from joey.tui.host import Host, PickerEntry, named_mode, own_offers, withdraw_edits
from joey.tui.keys import command_help, key_help
from joey.tui.widgets.conversation import ConversationView
from joey.tui.widgets.status import StatusLine

if TYPE_CHECKING:
    from joey.tui.app import JoeyApp


_FINISHED_TASK_ASKS = (
    AskKind.COMPLETION_RESULT,
    AskKind.RESUME_COMPLETED_TASK,
    AskKind.RESUME_TASK,
)
"""Questions behind which a task only waits for what comes next."""


class SlashCommandRunner:
    def __init__(self, app: JoeyApp) -> None:
        self._app = app

    async def run(self, command: BuiltInCommand, argument: str) -> None:
        """Raises UserError."""
        if command.requires_idle and not await self._come_to_rest():
            self._note(f"/{command.name} works when joey waits for your words; Esc stops it")
            return
        with_argument: dict[str, Callable[[str], Coroutine[Any, Any, None]]] = {
            "compact": self._compact,
            "condense": self._compact,
            "mode": self._mode,
            "model": self._model,
            "permissions": self._permissions,
        }
        if command.name in with_argument:
            await with_argument[command.name](argument)
            return
        alone: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "help": self._help,
            "new": self._new,
            "resume": self._resume,
            "tasks": self._resume,
            "rewind": self.rewind,
            "undo": self._undo,
            "fork": self._fork,
            "cost": self._cost,
            "init": self._init,
            "export": self._export,
            "mcp": self._servers,
            "skills": self._skills,
            "doctor": self._doctor,
            "exit": self._exit,
            "quit": self._exit,
        }
        await alone[command.name]()

    async def _come_to_rest(self) -> bool:
        """A result that only waits to be accepted is, by going on with something else."""
        dialogue = self._app.dialogue
        asked = dialogue.asked
        if asked is not None and asked.ask.ask in _FINISHED_TASK_ASKS:
            accepted = asked.ask.ask is AskKind.COMPLETION_RESULT
            response = Response.YES if accepted else Response.NO
            await dialogue.answer(asked, Answer(response))
            await dialogue.rest()
        return not dialogue.is_working

    # Tasks

    async def _new(self) -> None:
        app = self._app
        if app.dialogue.session is not None:
            await app.host.release_session(app.dialogue.session)
        app.dialogue.leave()
        app.conversation.clear()
        app.terminal_window.entitle("")
        self._note("a new task; what shall be done?")

    async def _resume(self) -> None:
        app = self._app
        tasks = await app.host.list_tasks()
        if not tasks:
            self._note("there are no earlier tasks in this folder")
            return
        chosen = await app.pick("Go on with", tasks)
        session = app.dialogue.session
        if chosen is None or (session is not None and session.id == chosen.key):
            return
        opened = await app.host.open_task(chosen.key)
        if session is not None:
            await app.host.release_session(session)
        app.dialogue.show(opened)

    async def _fork(self) -> None:
        app = self._app
        session = self._session()
        left = app.host.get_short_id(session)
        fork = await app.host.fork_task(session.id)
        await app.host.release_session(session)
        app.dialogue.show(fork)
        self._note(f"this is a copy now, task {app.host.get_short_id(fork)}; {left} stays")

    async def rewind(self) -> None:
        app = self._app
        if not await self._come_to_rest():
            return
        session = app.dialogue.session
        entries = [] if session is None else list_rewind_targets(session.rows)
        if session is None or not entries:
            self._note("nothing was said yet")
            return
        chosen = await app.pick("Go back to", entries, "Enter looks at what would change")
        if chosen is None:
            return
        ts, text = int(chosen.key), find_user_message(session.rows, int(chosen.key))
        await self._rewind_to(session, ts, text, is_first=chosen is entries[-1])

    async def _rewind_to(self, session: Session, ts: int, text: str, *, is_first: bool) -> None:
        """The first words stay until others are sent in their place: a task is never empty."""
        app = self._app
        plain = await session.preview_rewind(ts, keep=is_first)
        try:
            files = await session.preview_rewind(ts, keep=is_first, files=True)
        except UserError:
            files = plain  # there is no checkpoint of that moment
        app.conversation.card(self._preview(app.host.describe_rewind(session, files)))
        how = await app.pick("Go back", rewind_choices(files), "what was run stays done")
        with_files = how is not None and how.key == "files"
        force = with_files and bool(files.conflicts)
        if how is None or how.key == "leave" or (force and not await self._give_up(files)):
            self._note("nothing was changed")
            return
        await session.rewind(ts, keep=is_first, files=with_files, force=force)
        app.dialogue.replaced = ts if is_first else None
        app.conversation.rewound()
        app.refresh_status()
        app.composer.put(text)
        sent = "; what you send takes the place of your first words" if is_first else ""
        self._note(f"rewound{sent}; /undo takes it back")

    async def _give_up(self, changes: RewindPreview) -> bool:
        """Whether also those files are meant that somebody else has changed."""
        count = len(changes.conflicts)
        title = f"Give up {count} {'file' if count == 1 else 'files'} not joey's?"
        answers = [
            PickerEntry("no", "no, change nothing"),
            PickerEntry("yes", "yes, go back all the same"),
        ]
        answer = await self._app.pick(title, answers, giving_up(changes))
        return answer is not None and answer.key == "yes"

    async def _undo(self) -> None:
        app = self._app
        session = self._session()
        changes = await session.undo_rewind()
        app.dialogue.replaced = None
        app.conversation.rewound()
        app.refresh_status()
        app.conversation.card(self._preview(app.host.describe_rewind(session, changes)))
        self._note("the rewind is undone")

    def _preview(self, lines: Any) -> Text:
        return Text("\n".join(lines), "dim")

    async def _compact(self, instructions: str) -> None:
        app, session = self._app, self._session()
        is_followed = app.dialogue.is_working
        app.status.work("condensing")
        try:
            event = await app.host.condense(session, instructions)
            if not is_followed:
                app.conversation.handle_task_event(session, event)
        except UserError as error:
            self._note(f"not condensed: {error}")
        finally:
            app.status.work("working" if app.dialogue.is_working else "")
            app.refresh_status()

    async def _init(self) -> None:
        if self._app.dialogue.session is not None:
            await self._new()
        await self._app.say(INIT_PROMPT_PATH.read_text(encoding="utf-8").strip())

    async def _export(self) -> None:
        self._note(f"written to {await self._app.host.export_task(self._session())}")

    def _session(self) -> Session:
        session = self._app.dialogue.session
        if session is None:
            raise UserError("nothing was said yet")
        return session

    # Choices

    async def next_mode(self) -> None:
        app = self._app
        modes = app.host.list_modes(app.dialogue.session)
        at = next((n for n, mode in enumerate(modes) if mode.is_current), -1)
        await self._choose_mode(modes[(at + 1) % len(modes)])

    async def _mode(self, slug: str) -> None:
        app = self._app
        modes = app.host.list_modes(app.dialogue.session)
        if chosen := named_mode(modes, slug) if slug else await app.pick("Mode", modes):
            await self._choose_mode(chosen)

    async def _choose_mode(self, mode: PickerEntry) -> None:
        await self._app.host.choose_mode(self._app.dialogue.session, mode.key)
        self._app.refresh_status()

    async def _model(self, argument: str) -> None:
        app = self._app
        before = app.dialogue.session
        key = argument
        if not argument:
            models = await app.host.list_models(before)
            hint = "or write the name of another one · Enter takes"
            chosen = await app.pick("Model", models, hint, takes_any=True)
            if chosen is None:
                return
            key = chosen.key
        after = await app.host.choose_model(before, key)
        if after is not None and after is not before:
            app.dialogue.show(after)
        app.refresh_status()
        self._note(f"from now on with {app.host.get_status(app.dialogue.session).model}")

    # Cards

    async def _help(self) -> None:
        own = own_offers()
        names = {offer.name for offer in own}
        others = [offer for offer in self._app.host.list_commands() if offer.name not in names]
        self._app.conversation.card(
            key_help().append("\n\n").append_text(command_help(own, others))
        )

    async def _cost(self) -> None:
        session = self._app.dialogue.session
        self._note("nothing yet" if session is None else self._app.host.format_cost(session))

    async def _servers(self) -> None:
        self._app.conversation.card(
            await self._app.host.render_mcp_servers(self._app.dialogue.session)
        )

    async def _permissions(self, argument: str) -> None:
        app, session = self._app, self._app.dialogue.session
        if not argument:
            app.conversation.card(await app.host.render_permissions(session))
            return
        self._note(withdraw_edits(app.host, session, argument))
        app.refresh_status()

    async def _skills(self) -> None:
        self._app.conversation.card(await self._app.host.render_skills())

    async def _doctor(self) -> None:
        self._note("looking…")
        self._app.conversation.card(await self._app.host.render_doctor_report())

    async def _exit(self) -> None:
        self._app.exit(0)

    def _note(self, text: str) -> None:
        self._app.conversation.note(text)


RowSequence = Sequence[Row | dict[str, Any]]
MAX_NAMED_CONFLICTS = 4
"""Files of others that are named before they are given up."""


def list_rewind_targets(rows: RowSequence) -> list[PickerEntry]:
    """What the person has said, the latest first; the task itself is the last."""
    said = reversed(list(_said(rows)))
    return [PickerEntry(str(ts), to_one_line(in_short(text), 300), _time(ts)) for ts, text in said]


def find_user_message(rows: RowSequence, wanted: int) -> str:
    return next((text for ts, text in _said(rows) if ts == wanted), "")


def rewind_choices(changes: RewindPreview) -> list[PickerEntry]:
    """Whether the files come along."""
    choices = [PickerEntry("talk", "the conversation", "files stay as they are")]
    if changes.file_changes:
        about = ", ".join(_fates(changes.file_changes))
        if changes.conflicts:
            about = f"{len(changes.conflicts)} not joey's (asks); {about}"
        choices.append(PickerEntry("files", "the conversation and the files", about))
    return [*choices, PickerEntry("leave", "not at all")]


def giving_up(changes: RewindPreview) -> str:
    """Which files that somebody else has changed go along, and what becomes of each."""
    fates = {each.path: FILE_CHANGE_TEXTS[each.kind] for each in changes.file_changes}
    paths = changes.conflicts[:MAX_NAMED_CONFLICTS]
    named = [f"{to_one_line(path)} ({fates[path]})" for path in paths]
    if more := len(changes.conflicts) - len(named):
        named.append(f"and {more} more")
    return f"somebody else has changed them: {', '.join(named)}"


def _fates(files: Sequence[FileChange]) -> Iterator[str]:
    for kind, fate in FILE_CHANGE_TEXTS.items():
        if count := sum(each.kind == kind for each in files):
            yield f"{count} {'file' if count == 1 else 'files'} {fate}"


def _said(rows: RowSequence) -> Iterator[tuple[int, str]]:
    for number, row in enumerate(rows):
        if number == 0 or get_say(row) == USER_FEEDBACK_ROW_KIND:
            text = row.get("text") if isinstance(row, dict) else row.text
            yield get_ts(row), str(text or "")


def _time(ts: int) -> str:
    try:
        return datetime.fromtimestamp(ts / 1000).astimezone().strftime("%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return ""


USER_COMMAND_ACTIVITY = "running your command"
MAX_ATTACHED_OUTPUT_CHARS = 16_000
"""Characters of output that go along; of more, the end."""


class UserShell:
    def __init__(self, host: Host, conversation: ConversationView, status: StatusLine) -> None:
        self._host = host
        self._status = status
        self._conversation = conversation
        self._ran: list[str] = []
        self._running: asyncio.Task[str] | None = None

    async def run(self, command: str) -> None:
        """Raises UserError."""
        self.stop()
        output, shown = [], UserCommandBlock(command)
        self._conversation.add(shown)

        def tell(text: str) -> None:
            output.append(text)
            shown.feed(text)
            self._conversation.add(shown)

        before = self._status.doing
        self._status.work(USER_COMMAND_ACTIVITY)
        self._running = asyncio.ensure_future(self._host.run_shell_command(command, tell))
        try:
            end = await self._running
        except asyncio.CancelledError:
            end = "stopped"
        finally:
            self._running = None
            if self._status.doing == USER_COMMAND_ACTIVITY:
                self._status.work(before)
        if end:
            self._conversation.note(end)
        printed = sanitize("".join(output))[-MAX_ATTACHED_OUTPUT_CHARS:].strip("\n")
        self._ran.append(f"$ {command}\n{printed}{f'{chr(10)}({end})' if end else ''}")

    def stop(self) -> bool:
        """Whether there was something to stop."""
        if self._running is None:
            return False
        self._running.cancel()
        return True

    def with_ran(self, message: str) -> str:
        """The words, with what was run before them."""
        return with_ran(message, self._ran)

    def forget(self) -> None:
        """It was told, and is not told again."""
        self._ran.clear()


class UserCommandBlock(Block):
    def __init__(self, command: str) -> None:
        self._command = WrappedLine([("! ", "warning bold"), (to_one_line(command), "bold")], 4)
        self._output = OutputLines()

    def feed(self, text: str) -> None:
        self._output.feed(text)
        self.grow()

    def size(self) -> tuple[int, int]:
        return 0, 2

    def settled(self, *, whole: bool) -> Sequence[BlockPart]:
        return [self._command, *self._output.settled(whole=whole)]

    def open(self, *, whole: bool) -> Sequence[BlockPart]:
        return self._output.open(whole=whole)
