"""Commands typed into the composer: `/command` of the app, `!command` of the user's shell.

`SlashCommandRunner.run` is the dispatcher. The functions below it prepare the lists that `/rewind`
offers: the user's earlier messages, and whether files are restored too.

Shell commands run without the model. Their output is attached to the next message, so that "fix
that" has a meaning.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.text import Text

from joey.client.session import Session
from joey.core.history.ui import Row, get_ts
from joey.core.rewind import RewindPreview, get_row_say
from joey.core.task_types import Answer, ApprovalLevel, AskKind, Response, RowKind
from joey.errors import UserError
from joey.presentation.phrases import RESTORED_FILE_CHANGE_TEXTS
from joey.presentation.slash_commands import INIT_PROMPT_PATH, BuiltInCommand
from joey.presentation.text import sanitize, to_one_line
from joey.tui.app_services import (
    BUILTIN_COMMANDS,
    REVOKE_ARGUMENT,
    Host,
    PickerEntry,
    change_approval_level,
    find_mode,
)
from joey.tui.blocks.block_layout import Block, BlockPart, WrappedLine
from joey.tui.blocks.calls import OutputLines
from joey.tui.blocks.text import summarize_shell_output
from joey.tui.keys import render_command_help, render_key_help
from joey.tui.onboarding import set_up_provider
from joey.tui.widgets.conversation import ConversationView
from joey.tui.widgets.dialog_area import ListPicker
from joey.tui.widgets.task_status import StatusLine

if TYPE_CHECKING:
    from joey.tui.app import JoeyApp


_IDLE_TASK_ASKS = (AskKind.COMPLETION_RESULT, AskKind.RESUME_COMPLETED_TASK, AskKind.RESUME_TASK)


_OTHER_PROVIDER_ENTRY = PickerEntry(
    "other", "another provider or server…", "with its key, or running on this machine"
)


class SlashCommandRunner:
    def __init__(self, app: JoeyApp) -> None:
        self._app = app

    async def run(self, command: BuiltInCommand, argument: str) -> None:
        """Raises UserError."""
        is_remedy = command.name == "model" and self._has_request_failed
        if command.requires_idle and not is_remedy and not await self._try_to_become_idle():
            self._show_note(f"/{command.name} works when joey waits for your message; Esc stops it")
            return
        app, session = self._app, self._app.controller.session
        match command.name:
            case "compact" | "condense":
                await self._condense(argument)
            case "mode":
                await self._switch_mode(argument)
            case "model":
                await self._switch_model(argument)
            case "permissions" if argument:
                await self._change_permissions(argument)
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
                if card == "doctor":
                    self._show_note("looking…")
                app.conversation.show_rich_text(await app.host.render_card(card, session))
            case "help":
                self._show_help()
            case "cost":
                self._show_note("nothing yet" if session is None else app.host.format_cost(session))
            case "export":
                self._show_note(f"written to {await app.host.export_task(self._require_session())}")
            case "copy":
                self._copy_latest_answer()
            case "exit" | "quit":
                app.exit(0)
            case name:
                await {
                    "clear": self._clear_for_new_task,
                    "fork": self._fork_task,
                    "init": self._run_init_prompt,
                    "new": self._clear_for_new_task,
                    "resume": self._resume_task,
                    "rewind": self.rewind,
                    "tasks": self._resume_task,
                    "undo": self._undo_rewind,
                }[name]()

    @property
    def _has_request_failed(self) -> bool:
        """Whether the task waits for a decision about a failed request."""
        question = self._app.controller.question
        return (
            question is not None
            and question.ask.ask is AskKind.API_REQ_FAILED
            and question.session is self._app.controller.session
        )

    async def _try_to_become_idle(self) -> bool:
        """Become idle if only a result waits to be accepted, by continuing with something else."""
        controller = self._app.controller
        question = controller.question
        if question is not None and question.ask.ask in _IDLE_TASK_ASKS:
            is_result = question.ask.ask is AskKind.COMPLETION_RESULT
            await controller.answer(question, Answer(Response.YES if is_result else Response.NO))
            await controller.wait_until_idle()
        return not controller.is_working

    # Tasks

    async def _clear_for_new_task(self) -> None:
        app = self._app
        if app.controller.session is not None:
            await app.host.release_session(app.controller.session)
        app.controller.detach()
        app.conversation.clear()
        app.terminal_window.set_title("")
        self._show_note("A new task. What should I do?")

    async def _resume_task(self) -> None:
        app = self._app
        tasks = await app.host.list_tasks()
        if not tasks:
            self._show_note("there are no earlier tasks in this folder")
            return
        chosen = await app.dialog_area.pick(ListPicker("Continue with", tasks))
        session = app.controller.session
        if chosen is None or (session is not None and session.id == chosen.key):
            return
        opened = await app.host.open_task(chosen.key)
        if session is not None:
            await app.host.release_session(session)
        app.controller.show_session(opened)

    async def _fork_task(self) -> None:
        app = self._app
        session = self._require_session()
        left = app.host.get_short_id(session)
        fork = await app.host.fork_task(session.id)
        await app.host.release_session(session)
        app.controller.show_session(fork)
        self._show_note(f"this is a copy now, task {app.host.get_short_id(fork)}; {left} stays")

    async def rewind(self) -> None:
        app = self._app
        if not await self._try_to_become_idle():
            return
        session = app.controller.session
        messages = [] if session is None else list(iter_user_messages(session.rows))
        if session is None or not messages:
            self._show_note("there are no messages yet")
            return
        entries = [
            PickerEntry(str(ts), to_one_line(summarize_shell_output(text), 300), format_time(ts))
            for ts, text in reversed(messages)
        ]
        chosen = await app.dialog_area.pick(
            ListPicker("Go back to", entries, "Enter looks at what would change")
        )
        if chosen is not None:
            ts, text = next(message for message in messages if str(message[0]) == chosen.key)
            await self._rewind_to(session, ts, text, is_first=chosen is entries[-1])

    async def _rewind_to(self, session: Session, ts: int, text: str, *, is_first: bool) -> None:
        """Rewind; the first message stays until another replaces it: a task is never empty."""
        app = self._app
        plain = await session.preview_rewind(ts, keep=is_first)
        try:
            files = await session.preview_rewind(ts, keep=is_first, files=True)
        except UserError:
            files = plain  # there is no checkpoint of that moment
        self._show_rewind(session, files)
        choice = await app.dialog_area.pick(
            ListPicker("Go back", list_rewind_choices(files), "what was run stays done")
        )
        with_files = choice is not None and choice.key == "files"
        force = with_files and bool(files.conflicting_paths)
        if (
            choice is None
            or choice.key == "leave"
            or (force and not await self._confirm_overwriting_conflicts(files))
        ):
            self._show_note("nothing was changed")
            return
        await session.rewind(ts, keep=is_first, files=with_files, force=force)
        app.controller.replaced_row_ts = ts if is_first else None
        app.conversation.reload()
        app.refresh_status()
        app.composer.set_text(text)
        sent = "; your next message replaces your first one" if is_first else ""
        self._show_note(f"rewound{sent}; /undo undoes it")

    async def _confirm_overwriting_conflicts(self, changes: RewindPreview) -> bool:
        """Ask whether to overwrite files that others have changed."""
        count = len(changes.conflicting_paths)
        title = f"Give up {count} {'file' if count == 1 else 'files'} not joey's?"
        answers = [
            PickerEntry("no", "no, change nothing"),
            PickerEntry("yes", "yes, go back all the same"),
        ]
        picker = ListPicker(title, answers, describe_conflicts(changes))
        answer = await self._app.dialog_area.pick(picker)
        return answer is not None and answer.key == "yes"

    async def _undo_rewind(self) -> None:
        app = self._app
        session = self._require_session()
        changes = await session.undo_rewind()
        app.controller.replaced_row_ts = None
        app.conversation.reload()
        app.refresh_status()
        self._show_rewind(session, changes)
        self._show_note("the rewind is undone")

    def _show_rewind(self, session: Session, changes: RewindPreview) -> None:
        lines = self._app.host.describe_rewind(session, changes)
        self._app.conversation.show_rich_text(Text("\n".join(lines), "dim"))

    async def _condense(self, instructions: str) -> None:
        app, session = self._app, self._require_session()
        is_followed = app.controller.is_working
        app.status_line.set_activity("condensing")
        try:
            event = await app.host.condense(session, instructions)
            if not is_followed:
                app.conversation.handle_task_event(session, event)
        except UserError as error:
            self._show_note(f"not condensed: {error}")
        finally:
            app.status_line.set_activity("working" if app.controller.is_working else "")
            app.refresh_status()

    def _copy_latest_answer(self) -> None:
        answer = find_latest_answer(self._require_session().rows)
        if answer is None:
            raise UserError("there is no answer yet")
        self._app.copy_to_clipboard(answer)
        self._show_note("copied to the clipboard")

    async def _run_init_prompt(self) -> None:
        if self._app.controller.session is not None:
            await self._clear_for_new_task()
        await self._app.send_message(INIT_PROMPT_PATH.read_text(encoding="utf-8").strip())

    def _require_session(self) -> Session:
        session = self._app.controller.session
        if session is None:
            raise UserError("there are no messages yet")
        return session

    # Choices

    async def _change_permissions(self, argument: str) -> None:
        app = self._app
        session = app.controller.session
        if argument != REVOKE_ARGUMENT:
            if argument == ApprovalLevel.ALL.value:
                argument = await self._confirm_allowing_everything()
            self._show_note(change_approval_level(app.host, session, argument))
        elif not (entries := list(await app.host.list_granted_rules(session))):
            self._show_note("nothing was allowed that could be revoked")
        elif chosen := await app.dialog_area.pick(
            ListPicker("Revoke", entries, "Enter revoke · Esc cancel")
        ):
            is_revoked = await app.host.revoke_granted_rule(session, chosen.key)
            outcome = "is asked about again" if is_revoked else "was not allowed any more"
            self._show_note(f"{chosen.label} {outcome}")
        app.refresh_status()

    async def _confirm_allowing_everything(self) -> str:
        """Ask which level to use; without an answer, the current one stays."""
        level = self._app.host.approval_level
        if level is ApprovalLevel.ALL:
            return level.value
        choices = [
            PickerEntry("ask", "no, ask as before"),
            PickerEntry("edits", "no, only accept edits"),
            PickerEntry("all", "yes, allow everything", "commands stay in the sandbox"),
        ]
        chosen = await self._app.dialog_area.pick(
            ListPicker("Allow everything without asking, until you leave?", choices)
        )
        return level.value if chosen is None else chosen.key

    async def switch_to_next_level(self) -> None:
        match self._app.host.approval_level:
            case ApprovalLevel.ASK:
                level = ApprovalLevel.EDITS
            case ApprovalLevel.EDITS:
                level = ApprovalLevel.ALL
            case _:
                level = ApprovalLevel.ASK
        await self._change_permissions(level.value)

    async def switch_to_next_mode(self) -> None:
        app = self._app
        modes = app.host.list_modes(app.controller.session)
        at = next((n for n, mode in enumerate(modes) if mode.is_current), -1)
        await self._apply_mode(modes[(at + 1) % len(modes)])

    async def _switch_mode(self, slug: str) -> None:
        app = self._app
        modes = app.host.list_modes(app.controller.session)
        if slug:
            await self._apply_mode(find_mode(modes, slug))
        elif chosen := await app.dialog_area.pick(ListPicker("Mode", modes)):
            await self._apply_mode(chosen)

    async def _apply_mode(self, mode: PickerEntry) -> None:
        await self._app.host.switch_mode(self._app.controller.session, mode.key)
        self._app.refresh_status()

    async def _switch_model(self, argument: str) -> None:
        app = self._app
        before = app.controller.session
        key = argument
        if not argument:
            models = list(await app.host.list_models(before))
            models.insert(1, _OTHER_PROVIDER_ENTRY)
            hint = "or write the name of another one · Enter select"
            chosen = await app.dialog_area.pick(
                ListPicker("Model", models, hint, allow_free_text=True)
            )
            if chosen is None:
                return
            key = chosen.key
            if chosen is _OTHER_PROVIDER_ENTRY:
                key = await set_up_provider(app) or ""
            if not key:
                return
        after = await app.host.switch_model(before, key)
        if after is not None and after is not before:
            app.controller.show_session(after)
        app.refresh_status()
        model = app.host.get_status(app.controller.session).model
        notes = (f"from now on with {model}", app.host.describe_price())
        self._show_note("; ".join(filter(None, notes)))

    # Cards

    def _show_help(self) -> None:
        commands = self._app.host.list_commands()
        custom = [command for command in commands if command not in BUILTIN_COMMANDS]
        self._app.conversation.show_rich_text(
            render_key_help().append("\n\n").append_text(render_command_help(custom))
        )

    def _show_note(self, text: str) -> None:
        self._app.conversation.show_note(text)


RowSequence = Sequence[Row | dict[str, Any]]
MAX_NAMED_CONFLICTS = 4
"""Files of others that are named before they are given up."""


def list_rewind_choices(changes: RewindPreview) -> list[PickerEntry]:
    """List whether files are restored too."""
    choices = [PickerEntry("talk", "the conversation", "files stay as they are")]
    if changes.files:
        kinds: Counter[str] = Counter(each.kind for each in changes.files)
        about = ", ".join(
            f"{kinds[kind]} {'file' if kinds[kind] == 1 else 'files'} {fate}"
            for kind, fate in RESTORED_FILE_CHANGE_TEXTS.items()
            if kinds[kind]
        )
        if changes.conflicting_paths:
            about = f"{len(changes.conflicting_paths)} not joey's (asks); {about}"
        choices.append(PickerEntry("files", "the conversation and the files", about))
    return [*choices, PickerEntry("leave", "not at all")]


def describe_conflicts(changes: RewindPreview) -> str:
    """Describe which files that others have changed are affected, and how."""
    fates = {each.path: RESTORED_FILE_CHANGE_TEXTS[each.kind] for each in changes.files}
    paths = changes.conflicting_paths[:MAX_NAMED_CONFLICTS]
    named = [f"{to_one_line(path)} ({fates[path]})" for path in paths]
    if more := len(changes.conflicting_paths) - len(named):
        named.append(f"and {more} more")
    return f"modified outside joey: {', '.join(named)}"


def iter_user_messages(rows: RowSequence) -> Iterator[tuple[int, str]]:
    for number, row in enumerate(rows):
        if number == 0 or get_row_say(row) == RowKind.USER_FEEDBACK:
            text = row.get("text") if isinstance(row, dict) else row.text
            yield get_ts(row), str(text or "")


def find_latest_answer(rows: RowSequence) -> str | None:
    """Find the last text of the model or the last result, whichever came later."""
    for row in reversed(rows):
        if get_row_say(row) in (RowKind.TEXT, RowKind.COMPLETION_RESULT):
            text = row.get("text") if isinstance(row, dict) else row.text
            if text and row is not rows[0]:
                return str(text)
    return None


def format_time(ts: int) -> str:
    try:
        return datetime.fromtimestamp(ts / 1000).astimezone().strftime("%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return ""


USER_COMMAND_ACTIVITY = "running your command"
MAX_ATTACHED_OUTPUT_CHARS = 16_000
"""Of more, the end."""


class UserShell:
    def __init__(self, host: Host, conversation: ConversationView, status: StatusLine) -> None:
        self._host = host
        self._status_line = status
        self._conversation = conversation
        self.unsent_transcripts: list[str] = []
        self._running_command: asyncio.Task[str] | None = None

    async def run(self, command: str) -> None:
        """Raises UserError."""
        self.stop()
        output, block = [], UserCommandBlock(command)
        self._conversation.add_or_refresh_block(block)

        def tell(text: str) -> None:
            output.append(text)
            block.feed(text)
            self._conversation.add_or_refresh_block(block)

        before = self._status_line.activity
        self._status_line.set_activity(USER_COMMAND_ACTIVITY)
        self._running_command = asyncio.ensure_future(self._host.run_shell_command(command, tell))
        try:
            end = await self._running_command
        except asyncio.CancelledError:
            end = "stopped"
        finally:
            self._running_command = None
            if self._status_line.activity == USER_COMMAND_ACTIVITY:
                self._status_line.set_activity(before)
        if end:
            self._conversation.show_note(end)
        printed = sanitize("".join(output))[-MAX_ATTACHED_OUTPUT_CHARS:].strip("\n")
        outcome = f"\n({end})" if end else ""
        self.unsent_transcripts.append(f"$ {command}\n{printed}{outcome}")

    def stop(self) -> bool:
        """Stop the task; False if there was nothing to stop."""
        if self._running_command is None:
            return False
        self._running_command.cancel()
        return True


class UserCommandBlock(Block):
    def __init__(self, command: str) -> None:
        self._command_line = WrappedLine(
            [("! ", "warning bold"), (to_one_line(command), "bold")], 4
        )
        self._output = OutputLines()

    def feed(self, text: str) -> None:
        self._output.feed(text)
        self.mark_grown()

    def estimate_chars_and_line_breaks(self) -> tuple[int, int]:
        return 0, 2

    def build_stable_parts(self, *, expanded: bool) -> Sequence[BlockPart]:
        return [self._command_line, *self._output.build_stable_parts(expanded=expanded)]

    def build_open_parts(self, *, expanded: bool) -> Sequence[BlockPart]:
        return self._output.build_open_parts(expanded=expanded)
