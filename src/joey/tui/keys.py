"""Keys of the app: bindings, help text, interrupt keys.

Esc, Ctrl+C and Ctrl+D: each stops, clears or closes the first thing that applies, in a fixed
order; pressed twice they mean more.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text
from textual.actions import SkipAction
from textual.binding import Binding, BindingType

from joey.core.task_types import AskKind
from joey.errors import UserError
from joey.tui.app_services import BUILTIN_COMMANDS, CompletionItem

if TYPE_CHECKING:
    from joey.tui.app import JoeyApp


BINDINGS: list[BindingType] = [
    Binding("escape", "escape", show=False),
    Binding("ctrl+c", "interrupt", show=False, priority=True),
    Binding("ctrl+d", "exit", show=False, priority=True),
    Binding("ctrl+q", "nothing", show=False, priority=True),
    Binding("shift+tab", "next_level", show=False, priority=True),
    Binding("f2", "next_mode", show=False, priority=True),
    Binding("tab", "change_focus", show=False, priority=True),
    Binding("up", "unqueue_last", show=False, priority=True),
    Binding("enter", "send_queued", show=False, priority=True),
    Binding("ctrl+o", "toggle_details", show=False, priority=True),
    Binding("ctrl+t", "toggle_todos", show=False, priority=True),
    Binding("ctrl+b", "move_command_to_background", show=False, priority=True),
    Binding("ctrl+l", "redraw", show=False, priority=True),
    Binding("ctrl+z", "suspend_process", show=False, priority=True),
    Binding("pageup", "scroll(-1)", show=False),
    Binding("pagedown", "scroll(1)", show=False),
    Binding("ctrl+home", "scroll_home", show=False),
    Binding("ctrl+end", "scroll_end", show=False, priority=True),
    Binding("home", "scroll_home", show=False),
    Binding("end", "scroll_end", show=False),
]

KEY_DESCRIPTIONS = (
    ("Enter", "send; while joey works, the message is queued for its next step"),
    ("Ctrl+J, Shift+Enter", "a new line; also \\ and Enter"),
    ("Esc", "stop joey, close a list, clear the draft"),
    ("Esc Esc", "go back to an earlier message (/rewind)"),
    ("Ctrl+C", "stop joey, or clear; twice leaves"),
    ("Ctrl+D", "leave"),
    ("Shift+Tab", "accept edits without asking; again: allow everything; again: ask"),
    ("F2", "the next mode"),
    ("Up, Down", "history; first your queued message"),
    ("Ctrl+R", "search the history"),
    ("Tab", "complete; switch between a question and your draft"),
    ("@, /, !", "a file, a command, a line for your own shell"),
    ("Ctrl+O", "thinking, long outputs and changes whole"),
    ("Ctrl+T", "show or hide the plan"),
    ("Ctrl+B", "leave the running command in the background"),
    ("Ctrl+G", "write in your own editor"),
    ("PgUp, PgDn", "scroll; End goes to the end, Ctrl+End also while you write"),
    ("Ctrl+L", "redraw everything"),
)


def render_key_help() -> Text:
    return _render_table("Keys", KEY_DESCRIPTIONS)


def render_command_help(custom: list[CompletionItem]) -> Text:
    built_in = [(f"/{offer.name}", offer.description) for offer in BUILTIN_COMMANDS]
    text = _render_table("Commands", built_in)
    if custom:
        rows = [(f"/{offer.name}", offer.description) for offer in custom]
        text.append("\n\n").append_text(
            _render_table("Commands and skills of this folder and yours", rows)
        )
    return text


def _render_table(title: str, rows: list[tuple[str, str]] | tuple[tuple[str, str], ...]) -> Text:
    lead = min(30, max(cell_len(name) for name, _ in rows))
    text = Text(title, "bold")
    for name, about in rows:
        text.append(f"\n  {name}", "cyan")
        text.append(" " * (max(0, lead - cell_len(name)) + 2) + about, "dim")
    return text


DOUBLE_PRESS_TIMEOUT_S = 1.5
INTERRUPTED_EXIT_CODE = 130


class InterruptHandler:
    def __init__(self, app: JoeyApp) -> None:
        self._app = app
        self._last_key_press: tuple[str, float] = ("", 0.0)

    def handle_escape(self) -> None:
        app = self._app
        if app.user_shell.stop():
            return
        if app.controller.is_working and app.controller.question is None:
            app.start_job(self._stop_and_send_queued())
        elif not app.composer.is_empty or (
            app.dialog_area.question_panel is not None and not self._is_result_awaiting_acceptance
        ):
            self._clear_composer()
        elif self._is_double_press("escape"):
            app.start_job(app.command_runner.rewind())

    def handle_ctrl_c(self) -> None:
        app = self._app
        if selected := app.screen.get_selected_text():
            app.copy_to_clipboard(selected)
            app.screen.clear_selection()
        elif app.dialog_area.cancel_picker() or app.user_shell.stop():
            return
        elif app.controller.is_working and not self._is_result_awaiting_acceptance:
            app.start_job(app.controller.stop())
        elif not app.composer.is_empty:
            self._clear_composer()
        elif self._is_double_press("ctrl+c"):
            app.exit(INTERRUPTED_EXIT_CODE)
        else:
            app.status_line.show_hint("Ctrl+C again leaves")
            app.set_timer(DOUBLE_PRESS_TIMEOUT_S, lambda: app.status_line.show_hint(""))

    def handle_ctrl_d(self) -> None:
        """Handle Ctrl+D, which edits text while the composer has some."""
        app = self._app
        if app.composer.has_focus_within or not app.dialog_area.is_input_empty:
            raise SkipAction
        if not app.dialog_area.cancel_picker() and app.composer.is_empty:
            app.exit(0)

    async def _stop_and_send_queued(self) -> None:
        """Stop the task and send queued messages at once."""
        await self._app.controller.stop()
        await self._app.controller.wait_until_idle()
        await self.send_queued()

    async def send_queued(self) -> None:
        """Continue the task with the messages that it had not read when it stopped."""
        app, session = self._app, self._app.controller.session
        waiting = [] if session is None else app.host.list_queued_messages(session)
        if session is None or not waiting or app.controller.is_working:
            return
        last = waiting[-1]  # earlier ones are included
        await app.host.remove_queued_message(session, last.id)
        try:
            await app.controller.send_message(last.text, last.images)
        except UserError:
            app.composer.set_text(last.text)
            raise
        finally:
            app.refresh_status()

    def _clear_composer(self) -> None:
        self._app.composer.clear()
        self._app.dialog_area.update_focus()

    @property
    def _is_result_awaiting_acceptance(self) -> bool:
        question = self._app.controller.question
        return question is not None and question.ask.ask is AskKind.COMPLETION_RESULT

    def _is_double_press(self, key: str) -> bool:
        before, at = self._last_key_press
        is_second = before == key and monotonic() - at < DOUBLE_PRESS_TIMEOUT_S
        self._last_key_press = ("", 0.0) if is_second else (key, monotonic())
        return is_second
