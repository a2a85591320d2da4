"""The Textual app: layout, key actions, and routing between the task and the widgets.

It shows one task at a time: the conversation fills the screen; questions, the composer and the
status line are below it. `task_controller` follows the task, `commands` runs slash commands;
the app only connects them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
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
from joey.core.events import TRANSIENT_EVENTS, Event, MessageQueued, RetryCountdown, UsageChanged
from joey.core.task_types import Answer, AskKind
from joey.errors import UserError
from joey.presentation.questions import parse_answer
from joey.presentation.slash_commands import COMMANDS_BY_NAME, explain_bad_command, parse_command
from joey.tui.app_services import Host, is_replaced
from joey.tui.blocks.text import attach_shell_output
from joey.tui.commands import SlashCommandRunner, UserShell
from joey.tui.keys import BINDINGS, InterruptHandler, render_key_help
from joey.tui.onboarding import Startup, replace_refused_key
from joey.tui.task_controller import PendingQuestion, TaskController
from joey.tui.terminal_window import TerminalWindow
from joey.tui.widgets.completion import CompletionList
from joey.tui.widgets.composer import Composer
from joey.tui.widgets.conversation import ConversationView
from joey.tui.widgets.dialog_area import DialogArea
from joey.tui.widgets.prompt_history import PromptHistory
from joey.tui.widgets.question_panel import QuestionPanel, RemedyAction
from joey.tui.widgets.task_status import (
    RUNNING_COMMAND_ACTIVITY,
    QueuedMessageList,
    StatusLine,
    TodoList,
    describe_activity,
)

BACKGROUND_COMMAND_POLL_INTERVAL_S = 1.0
"""Nobody tells when a command in the background has ended."""


class JoeyApp(App[int]):
    CSS_PATH = "screen.tcss"
    ENABLE_COMMAND_PALETTE = False
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (14, "-small"), (20, "-roomy")]  # noqa: RUF012 - theirs
    BINDINGS = BINDINGS

    def __init__(self, host: Host, history: PromptHistory, startup: Startup) -> None:
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.host = host
        self._startup = startup
        self.conversation = ConversationView(host.read_full_output, id="conversation")
        self.composer = Composer(host, history, id="composer")
        self.dialog_area = DialogArea(self.composer)
        self.todo_list = TodoList()
        self.queued_message_list = QueuedMessageList()
        self.status_line = StatusLine()
        self.controller = TaskController(self)
        self.user_shell = UserShell(host, self.conversation, self.status_line)
        self.terminal_window = TerminalWindow(self)
        self.command_runner = SlashCommandRunner(self)
        self._interrupt_handler = InterruptHandler(self)
        self._watch_mcp_servers: Callable[[Event], None] | None = None
        self._jobs: set[asyncio.Task[None]] = set()
        self.startup_error: UserError | None = None
        """Why the screen could not even begin."""

    def get_default_screen(self) -> MainScreen:
        return MainScreen(id="_default")

    def compose(self) -> ComposeResult:
        yield from (self.conversation, self.todo_list, self.queued_message_list)
        yield from (self.dialog_area, self.composer, self.status_line)

    def on_mount(self) -> None:
        self.terminal_window.setup()
        self.app_resume_signal.subscribe(self, lambda _: self.action_redraw())
        self.composer.focus()
        self._background_timer = self.set_interval(
            BACKGROUND_COMMAND_POLL_INTERVAL_S, self.refresh_status, pause=True
        )
        self.refresh_status()
        self.start_job(self._startup.run(self))

    # Background jobs

    def start_job(self, job: Coroutine[Any, Any, None]) -> None:
        """Start a background job, whose errors are shown to the user, or end the app as a bug."""
        task = asyncio.ensure_future(job)
        self._jobs.add(task)
        task.add_done_callback(self._handle_job_done)

    def _handle_job_done(self, job: asyncio.Task[None]) -> None:
        self._jobs.discard(job)
        if not job.cancelled() and (error := job.exception()) is not None:
            self.report_error(error)

    def report_error(self, error: BaseException) -> None:
        if isinstance(error, UserError):
            self.conversation.show_error(str(error))
        elif isinstance(error, Exception):
            self._handle_exception(error)

    def exit(self, *arguments: Any, **named: Any) -> None:
        self.terminal_window.restore_title()
        super().exit(*arguments, **named)

    def _fatal_error(self) -> None:
        """The error that ended the app, reported by its caller once the terminal is restored."""
        self.terminal_window.restore_title()
        self._close_messages_no_wait()

    @property
    def unhandled_error(self) -> Exception | None:
        return self._exception

    # Messages of the dialog area

    def show_task(self, session: Session) -> None:
        self.conversation.load_session(session)
        for warning in self.host.list_warnings(session):
            self.conversation.show_note(warning)
        self._watch_mcp_servers = self.host.watch_mcp_servers(session, self.conversation.show_note)
        self.terminal_window.set_title(self.host.get_title(session))
        self.refresh_status()

    def handle_task_event(self, session: Session, event: Event) -> None:
        self.conversation.handle_task_event(session, event)
        if self._watch_mcp_servers is not None and session is self.controller.session:
            self._watch_mcp_servers(event)
        if (activity := describe_activity(event)) is not None and self.controller.question is None:
            self.status_line.set_activity(activity, is_timed=not isinstance(event, RetryCountdown))
        if type(event) not in TRANSIENT_EVENTS or isinstance(event, UsageChanged):
            self.refresh_status()

    def show_question(self, question: PendingQuestion | None) -> None:
        session = self.controller.session
        is_subtask = question is not None and question.session is not session
        heading_suffix = "for a subtask" if is_subtask else ""
        if count := self.controller.additional_question_count:
            heading_suffix += f", {count} more behind it"
        is_new = self.dialog_area.show_question(question, heading_suffix)
        self.todo_list.set_class(self.dialog_area.question_panel is not None, "beside-question")
        self.composer.placeholder = choose_placeholder(self.controller)
        if question is None:
            if self.controller.is_working:
                self.status_line.set_activity("working")
            return
        self.status_line.set_activity("")
        if not is_new:
            return
        self.conversation.scroll_end()  # the subject of a decision must be visible
        if (panel := self.dialog_area.question_panel) is not None:
            self.terminal_window.notify(f"joey waits for you: {panel.ask_view.title}")

    def handle_idle(self) -> None:
        was_working = bool(self.status_line.activity)
        self.status_line.set_activity("")
        self.refresh_status()
        session = self.controller.session
        if session is not None and (error := self.host.describe_failure(session)):
            self.conversation.show_error(error)
        if was_working:
            self.terminal_window.notify("joey has stopped")

    def refresh_status(self) -> None:
        self.composer.placeholder = choose_placeholder(self.controller)
        status = self.host.get_status(self.controller.session)
        self.status_line.status = status
        timer = self._background_timer
        timer.resume() if status.background_command_count else timer.pause()
        self.todo_list.set_todos(status.todos)
        messages = [
            each
            for one in self.controller.message_targets
            for each in self.host.list_queued_messages(one)
        ]
        deferred = (text for text, _ in self.controller.deferred_messages)
        messages += [MessageQueued(ts=0, id="", text=text) for text in deferred]
        self.queued_message_list.set_messages(messages, is_task_working=self.controller.is_working)

    # Messages of the composer

    def on_composer_submitted(self, event: Composer.Submitted) -> None:
        self.start_job(self._handle_submitted_text(event.text, event.images))

    async def _handle_submitted_text(self, text: str, images: tuple[str, ...]) -> None:
        named = parse_command(text)
        if named is not None and not is_replaced(named[0], self.host):
            await self.command_runner.run(*named)
        elif (
            guess := explain_bad_command(text, (one.name for one in self.host.list_commands()))
        ) is not None:
            self.conversation.show_note(guess)
            self.composer.restore_sent()
        else:
            await self.send_message(text, images)

    async def send_message(self, text: str, images: tuple[str, ...] = ()) -> None:
        """Send a message: the answer to an open question, else a message for the next step."""
        self.conversation.scroll_end()
        text = attach_shell_output(text, self.user_shell.unsent_transcripts)
        question, previous_activity = self.controller.question, self.status_line.activity
        try:
            if question is None:
                self.status_line.set_activity(previous_activity or "working")
                await self.controller.send_message(text, images)
            elif self.dialog_area.is_asking_approval:
                self.controller.deferred_messages.append((text, images))
            elif (answer := parse_answer(question.ask, text)) is not None:
                await self.controller.answer(question, structs.replace(answer, images=images))
            else:
                self.composer.restore_sent()
        except UserError:
            self.status_line.set_activity(previous_activity)
            self.composer.restore_sent()
            raise
        self.user_shell.unsent_transcripts.clear()
        self.refresh_status()

    def on_composer_shell_submitted(self, event: Composer.ShellSubmitted) -> None:
        self.start_job(self.user_shell.run(event.command))

    def on_composer_exit_requested(self) -> None:
        self.exit(0)

    def on_composer_key_help_requested(self) -> None:
        self.conversation.show_rich_text(render_key_help())

    # Questions

    def on_question_panel_answered(self, event: QuestionPanel.Answered) -> None:
        self.start_job(self._answer_question(event.panel.pending_question, event.answer))

    def on_question_panel_action_chosen(self, event: QuestionPanel.ActionChosen) -> None:
        if event.action is RemedyAction.ENTER_KEY:
            self.start_job(replace_refused_key(self, event.panel.pending_question.session))
        else:
            self.start_job(self.command_runner.run(COMMANDS_BY_NAME["model"], ""))

    async def _answer_question(self, question: PendingQuestion, answer: Answer) -> None:
        await self.controller.answer(question, answer)
        is_command = question.ask.ask is AskKind.COMMAND
        if is_command and answer.approves and self.controller.question is None:
            self.status_line.set_activity(RUNNING_COMMAND_ACTIVITY)

    # Keys

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key) and not event.is_forwarded:
            if self.dialog_area.route_key(event):
                return
        elif isinstance(event, events.Paste) and not event.is_forwarded:
            self.dialog_area.return_to_composer()
        await super().on_event(event)

    def action_escape(self) -> None:
        self._interrupt_handler.handle_escape()

    def action_interrupt(self) -> None:
        self._interrupt_handler.handle_ctrl_c()

    def action_exit(self) -> None:
        self._interrupt_handler.handle_ctrl_d()

    def action_nothing(self) -> None:
        """Do nothing: not a key of joey."""

    def action_change_focus(self) -> None:
        completing = self.composer.query_one(CompletionList).is_open
        is_there = self.composer.has_focus_within or self.dialog_area.is_question_focused
        if self.dialog_area.question_panel is None or completing or not is_there:
            raise SkipAction
        self.dialog_area.toggle_focus()

    def action_unqueue_last(self) -> None:
        last = self.queued_message_list.last_message
        if last is None or not self.composer.is_empty or not self.composer.has_focus_within:
            raise SkipAction
        self.start_job(self._unqueue_message(last))

    def action_send_queued(self) -> None:
        is_free = self.dialog_area.is_composer_idle and not self.controller.is_working
        if self.queued_message_list.last_message is None or not is_free:
            raise SkipAction
        self.start_job(self._interrupt_handler.send_queued())

    async def _unqueue_message(self, last: MessageQueued) -> None:
        holders = [
            one
            for one in self.controller.message_targets
            if last in self.host.list_queued_messages(one)
        ]
        if not last.id:
            del self.controller.deferred_messages[-1:]
        elif holders:
            await self.host.remove_queued_message(holders[0], last.id)
        else:
            raise UserError("joey has read it already")
        self.composer.set_text(last.text)
        self.refresh_status()

    def action_next_level(self) -> None:
        self.start_job(self.command_runner.switch_to_next_level())

    def action_next_mode(self) -> None:
        self.start_job(self.command_runner.switch_to_next_mode())

    def action_toggle_details(self) -> None:
        self.conversation.toggle_details()

    def action_toggle_todos(self) -> None:
        if not self.todo_list.toggle_visibility():
            self.conversation.show_note("there is no plan yet")

    def action_move_command_to_background(self) -> None:
        if not any(map(self.host.move_command_to_background, self.controller.message_targets)):
            raise SkipAction
        self.conversation.show_note("the command continues in the background")

    def action_redraw(self) -> None:
        self.screen.refresh(repaint=True, layout=True)

    def action_scroll(self, pages: int) -> None:
        self.conversation.scroll_pages(pages)

    def action_scroll_home(self) -> None:
        self.conversation.action_scroll_home()

    def action_scroll_end(self) -> None:
        self.conversation.scroll_end()


_ANSWER_PLACEHOLDERS = {
    AskKind.FOLLOWUP: "your own answer",
    AskKind.COMPLETION_RESULT: "Enter accepts the result; or say what to change",
}


def choose_placeholder(controller: TaskController) -> str:
    if controller.question is not None:
        return _ANSWER_PLACEHOLDERS.get(controller.question.ask.ask, "")
    if controller.session is None:
        return "What should I do? (? shows the keys)"
    return "Type to queue a message" if controller.is_working else "what next?"


class MainScreen(Screen[None]):
    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        """Skip widgets removed since the last layout: Textual would start a selection in the
        parent that they no longer have."""
        widget, offset = super().get_widget_and_offset_at(x, y)
        return (None, None) if widget is not None and widget.parent is None else (widget, offset)

    def _forward_event(self, event: events.Event) -> None:
        if isinstance(event, events.MouseEvent) and not event.is_forwarded:
            self._release_stale_mouse_capture()
        super()._forward_event(event)

    def _release_stale_mouse_capture(self) -> None:
        """Release a stale mouse capture: a widget that was hidden or removed during a drag keeps
        the mouse captured, and Textual clears the focus at every event that it cannot deliver."""
        captor = self.app.mouse_captured
        if captor is None:
            return
        try:
            self.find_widget(captor)
        except NoWidget:
            self.app.capture_mouse(None)
