"""The Textual app: layout, key actions, and routing between the task and the widgets.

It shows one task at a time: the conversation fills the screen; questions, the composer and the
status line are below it. `task_controller` follows the task, `list_commands` runs slash commands;
the app only connects them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from msgspec import structs
from textual import events
from textual.actions import SkipAction
from textual.app import App, ComposeResult
from textual.errors import NoWidget
from textual.geometry import Offset
from textual.screen import Screen
from textual.widget import Widget

from joey.client.session import Session
from joey.core.events import TRANSIENT_EVENTS, Event, RetryCountdown, TokenUsage, UsageChanged
from joey.core.task import Answer, AskKind
from joey.errors import UserError
from joey.presentation.questions import parse_answer
from joey.presentation.slash_commands import parse_command, suggest_command
from joey.tui.commands import SlashCommandRunner, UserShell
from joey.tui.host import Host, McpServerWatcher, PickerEntry, QueuedUserMessage
from joey.tui.keys import BINDINGS, InterruptHandler, key_help
from joey.tui.startup import Startup
from joey.tui.task_controller import PendingQuestion, TaskController
from joey.tui.terminal_window import TerminalWindow
from joey.tui.widgets.completion import CompletionList
from joey.tui.widgets.composer import Composer
from joey.tui.widgets.conversation import ConversationView
from joey.tui.widgets.dialog_area import DialogArea
from joey.tui.widgets.prompt_history import PromptHistory
from joey.tui.widgets.question_panel import QuestionPanel
from joey.tui.widgets.status import (
    RUNNING_COMMAND_ACTIVITY,
    QueuedMessageList,
    StatusLine,
    TodoList,
    doing_of,
)

BACKGROUND_POLL_INTERVAL_S = 1.0
"""Seconds: nobody tells when a command in the background has ended."""


class JoeyApp(App[int]):
    CSS_PATH = "screen.tcss"
    ENABLE_COMMAND_PALETTE = False
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (14, "-small"), (20, "-roomy")]  # noqa: RUF012 - theirs
    BINDINGS = BINDINGS

    def __init__(self, host: Host, past: PromptHistory, beginning: Startup) -> None:
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.host = host
        self._beginning = beginning
        self.conversation = ConversationView(host.read_full_output, id="conversation")
        self.composer = Composer(host, past, id="composer")
        self.front = DialogArea(self.composer)
        self.todos = TodoList()
        self.waiting = QueuedMessageList()
        self.status = StatusLine()
        self.dialogue = TaskController(host, self)
        self.shell = UserShell(host, self.conversation, self.status)
        self.terminal_window = TerminalWindow(self)
        self.command_runner = SlashCommandRunner(self)
        self._interruptions = InterruptHandler(self)
        self._servers: McpServerWatcher | None = None
        self._jobs: set[asyncio.Task[None]] = set()
        self.refusal: UserError | None = None
        """Why the screen could not even begin."""

    def get_default_screen(self) -> MainScreen:
        return MainScreen(id="_default")

    def compose(self) -> ComposeResult:
        yield self.conversation
        yield self.todos
        yield self.waiting
        yield self.front
        yield self.composer
        yield self.status

    def on_mount(self) -> None:
        self.terminal_window.arrive()
        self.app_resume_signal.subscribe(self, lambda _: self.action_redraw())
        self.composer.focus()
        self._background = self.set_interval(
            BACKGROUND_POLL_INTERVAL_S, self.refresh_status, pause=True
        )
        self.refresh_status()
        self.do(self._beginning.come_about(self))

    # Jobs that go on beside the drawing

    def do(self, job: Coroutine[Any, Any, None]) -> None:
        """Whatever goes wrong with it is told to the person, or ends the screen as a defect."""
        begun = asyncio.ensure_future(job)
        self._jobs.add(begun)
        begun.add_done_callback(self._end_job)

    def _end_job(self, job: asyncio.Task[None]) -> None:
        self._jobs.discard(job)
        if job.cancelled() or (error := job.exception()) is None:
            return
        self.troubled(error)

    def troubled(self, error: BaseException) -> None:
        if isinstance(error, UserError):
            self.conversation.error(str(error))
        elif isinstance(error, Exception):
            self._handle_exception(error)

    def exit(self, *arguments: Any, **named: Any) -> None:
        self.terminal_window.leave()
        super().exit(*arguments, **named)

    def _fatal_error(self) -> None:
        """A defect is told by who opened the screen, once the terminal is as it was."""
        self.terminal_window.leave()
        self._close_messages_no_wait()

    @property
    def defect(self) -> Exception | None:
        return self._exception

    # What the dialogue tells

    def opened(self, session: Session) -> None:
        self.conversation.begin(session)
        for warning in self.host.list_warnings(session):
            self.conversation.note(warning)
        self._servers = self.host.watch_mcp_servers(session, self.conversation.note)
        self.terminal_window.entitle(self.host.get_title(session))
        self.refresh_status()

    def handle_task_event(self, teller: Session, event: Event) -> None:
        self.conversation.handle_task_event(teller, event)
        if self._servers is not None and teller is self.dialogue.session:
            self._servers.handle(event)
        if (doing := doing_of(event)) is not None and self.dialogue.asked is None:
            self.status.work(doing, is_timed=not isinstance(event, RetryCountdown))
        if type(event) not in TRANSIENT_EVENTS or isinstance(event, UsageChanged):
            self.refresh_status()

    def asked(self, asked: PendingQuestion | None) -> None:
        session = self.dialogue.session
        who = "for a subtask" if asked is not None and asked.teller is not session else ""
        if self.dialogue.more_asked:
            who += f", {self.dialogue.more_asked} more behind it"
        is_new = self.front.show(asked, who)
        self.todos.set_class(self.front.panel is not None, "beside-question")
        self.composer.placeholder = placeholder_for(self.dialogue)
        if asked is None:
            if self.dialogue.is_working:
                self.status.work("working")
            return
        self.status.work("")
        if not is_new:
            return
        self.conversation.scroll_end()  # what is decided about has to be seen
        if self.front.panel is not None:
            self.terminal_window.call(f"joey waits for you: {self.front.panel.question.title}")

    def rested(self) -> None:
        was_working = bool(self.status.is_working)
        self.status.work("")
        self.refresh_status()
        session = self.dialogue.session
        if session is not None and (error := self.host.describe_failure(session)):
            self.conversation.error(error)
        if was_working:
            self.terminal_window.call("joey has stopped")

    def refresh_status(self) -> None:
        self.composer.placeholder = placeholder_for(self.dialogue)
        session = self.dialogue.session
        usage = TokenUsage() if session is None else self.host.get_usage(session)
        status = self.host.get_status(session)
        self.status.set_status(status, usage)
        self._background.resume() if status.background else self._background.pause()
        self.todos.set_todos(() if session is None else self.host.list_todos(session))
        queued = [
            each for one in self.dialogue.listeners for each in self.host.list_queued_messages(one)
        ]
        messages = [*queued, *(QueuedUserMessage("", text) for text in self.dialogue.held)]
        self.waiting.set_messages(messages, is_read=self.dialogue.is_working)

    # What is written

    def on_composer_submitted(self, event: Composer.Submitted) -> None:
        self.do(self._submit(event.text, event.images))

    async def _submit(self, text: str, images: tuple[str, ...]) -> None:
        if (named := parse_command(text)) is not None:
            await self.command_runner.run(*named)
        elif (
            guess := suggest_command(text, (one.name for one in self.host.list_commands()))
        ) is not None:
            self.conversation.note(guess)
            self.composer.put_back()
        else:
            await self.say(text, images)

    async def say(self, text: str, images: tuple[str, ...] = ()) -> None:
        """To the task: an answer to what it asks, else words for its next step."""
        self.conversation.scroll_end()
        text = self.shell.with_ran(text)
        asked, was_doing = self.dialogue.asked, self.status.doing
        try:
            if asked is None:
                self.status.work(was_doing or "working")
                await self.dialogue.say(text, images)
            elif self.front.approves:
                self.dialogue.hold(text, images)
            elif (answer := parse_answer(asked.ask, text)) is not None:
                await self.dialogue.answer(asked, structs.replace(answer, images=images))
            else:
                self.composer.put_back()
        except UserError:
            self.status.work(was_doing)
            self.composer.put_back()
            raise
        self.shell.forget()
        self.refresh_status()

    def on_composer_shell_wanted(self, event: Composer.ShellWanted) -> None:
        self.do(self.shell.run(event.command))

    def on_composer_emptied(self) -> None:
        self.exit(0)

    def on_composer_keys_wanted(self) -> None:
        self.conversation.card(key_help())

    # Questions

    def on_question_panel_answered(self, event: QuestionPanel.Answered) -> None:
        self.do(self._answer(event.panel.asked, event.answer))

    async def _answer(self, asked: PendingQuestion, answer: Answer) -> None:
        await self.dialogue.answer(asked, answer)
        if asked.ask.ask is AskKind.COMMAND and answer.approves and self.dialogue.asked is None:
            self.status.work(RUNNING_COMMAND_ACTIVITY)

    async def pick(
        self, title: str, entries: Sequence[PickerEntry], hint: str = "", *, takes_any: bool = False
    ) -> PickerEntry | None:
        """What the person chooses from a list; None when they leave it."""
        return await self.front.pick(title, entries, hint, takes_any=takes_any)

    async def ask_line(self, title: str, hint: str, *, secret: bool = False) -> str | None:
        return await self.front.ask_line(title, hint, secret=secret)

    # Keys

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key) and not event.is_forwarded:
            self.front.route(event)
        elif isinstance(event, events.Paste) and not event.is_forwarded:
            self.front.go_on_writing()
        await super().on_event(event)

    def action_escape(self) -> None:
        self._interruptions.escape()

    def action_interrupt(self) -> None:
        self._interruptions.interrupt()

    def action_leave(self) -> None:
        self._interruptions.leave()

    def action_nothing(self) -> None:
        """Not a key of ours."""

    def action_change_focus(self) -> None:
        completing = self.composer.query_one(CompletionList).is_open
        is_there = self.composer.has_focus_within or self.front.is_asking
        if self.front.panel is None or completing or not is_there:
            raise SkipAction
        self.front.change_focus()

    def action_take_back(self) -> None:
        last = self.waiting.last
        if last is None or not self.composer.is_empty or not self.composer.has_focus_within:
            raise SkipAction
        self.do(self._take_back(last))

    def action_send_waiting(self) -> None:
        is_free = self.front.is_unwritten and not self.dialogue.is_working
        if self.waiting.last is None or not is_free:
            raise SkipAction
        self.do(self._interruptions.send_waiting())

    async def _take_back(self, last: QueuedUserMessage) -> None:
        holders = [
            one for one in self.dialogue.listeners if last in self.host.list_queued_messages(one)
        ]
        if not last.id:
            self.dialogue.take_held()
        elif holders:
            await self.host.remove_queued_message(holders[0], last.id)
        else:
            raise UserError("joey has read it already")
        self.composer.put(last.text)
        self.refresh_status()

    def action_next_mode(self) -> None:
        self.do(self.command_runner.next_mode())

    def action_details(self) -> None:
        self.conversation.toggle_details()

    def action_todos(self) -> None:
        if not self.todos.toggle():
            self.conversation.note("there is no plan yet")

    def action_leave_running(self) -> None:
        if not any(map(self.host.move_command_to_background, self.dialogue.listeners)):
            raise SkipAction
        self.conversation.note("the command goes on in the background")

    def action_redraw(self) -> None:
        self.screen.refresh(repaint=True, layout=True)

    def action_scroll(self, pages: int) -> None:
        if pages < 0:
            self.conversation.action_page_up()
        else:
            self.conversation.action_page_down()

    def action_scroll_home(self) -> None:
        self.conversation.action_scroll_home()

    def action_scroll_end(self) -> None:
        self.conversation.action_scroll_end()


_ANSWER_PLACEHOLDERS = {
    AskKind.FOLLOWUP: "your own answer",
    AskKind.COMPLETION_RESULT: "Enter accepts the result; or say what to change",
}


def placeholder_for(dialogue: TaskController) -> str:
    if dialogue.asked is not None:
        return _ANSWER_PLACEHOLDERS.get(dialogue.asked.ask.ask, "")
    if dialogue.session is None:
        return "what shall be done? (? shows the keys)"
    return "joey reads what you write before its next step" if dialogue.is_working else "what next?"


class MainScreen(Screen[None]):
    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        """Skip widgets removed since the last layout: Textual would start a selection in the
        parent that they no longer have."""
        widget, offset = super().get_widget_and_offset_at(x, y)
        return (None, None) if widget is not None and widget.parent is None else (widget, offset)

    def _forward_event(self, event: events.Event) -> None:
        if isinstance(event, events.MouseEvent) and not event.is_forwarded:
            self._release_lost_mouse()
        super()._forward_event(event)

    def _release_lost_mouse(self) -> None:
        """A widget that was hidden or removed during a drag keeps the mouse captured, and Textual
        clears the focus at every event that it cannot deliver."""
        captor = self.app.mouse_captured
        if captor is None:
            return
        try:
            self.find_widget(captor)
        except NoWidget:
            self.app.capture_mouse(None)
