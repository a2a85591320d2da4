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

from joey.core.task import AskKind
from joey.errors import UserError
from joey.tui.host import CompletionItem

if TYPE_CHECKING:
    from joey.tui.app import JoeyApp


BINDINGS: list[BindingType] = [
    Binding("escape", "escape", show=False),
    Binding("ctrl+c", "interrupt", show=False, priority=True),
    Binding("ctrl+d", "leave", show=False, priority=True),
    Binding("ctrl+q", "nothing", show=False, priority=True),
    Binding("shift+tab", "next_mode", show=False, priority=True),
    Binding("tab", "change_focus", show=False, priority=True),
    Binding("up", "take_back", show=False, priority=True),
    Binding("enter", "send_waiting", show=False, priority=True),
    Binding("ctrl+o", "details", show=False, priority=True),
    Binding("ctrl+t", "todos", show=False, priority=True),
    Binding("ctrl+b", "leave_running", show=False, priority=True),
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
    ("Enter", "send; joey at work reads it before its next step"),
    ("Ctrl+J, Shift+Enter", "a new line; also \\ and Enter"),
    ("Esc", "stop joey, close a list, clear your words"),
    ("Esc Esc", "go back to earlier words (/rewind)"),
    ("Ctrl+C", "stop joey, or clear; twice leaves"),
    ("Ctrl+D", "leave"),
    ("Shift+Tab", "the next mode"),
    ("Up, Down", "earlier words; first those that still wait"),
    ("Ctrl+R", "search in earlier words"),
    ("Tab", "complete; from a question to your words and back"),
    ("@, /, !", "a file, a command, a line for your own shell"),
    ("Ctrl+O", "thinking, long outputs and changes whole"),
    ("Ctrl+T", "show or hide the plan"),
    ("Ctrl+B", "leave the running command in the background"),
    ("Ctrl+G", "write in your own editor"),
    ("PgUp, PgDn", "scroll; End goes to the end, Ctrl+End also while you write"),
    ("Ctrl+L", "draw everything anew"),
)


def key_help() -> Text:
    return _table("Keys", KEY_DESCRIPTIONS)


def command_help(own: list[CompletionItem], others: list[CompletionItem]) -> Text:
    text = _table("Commands", [(f"/{offer.name}", offer.about) for offer in own])
    if others:
        rows = [(f"/{offer.name}", offer.about) for offer in others]
        text.append("\n\n").append_text(
            _table("Commands and skills of this folder and yours", rows)
        )
    return text


def _table(title: str, rows: list[tuple[str, str]] | tuple[tuple[str, str], ...]) -> Text:
    lead = min(30, max(cell_len(name) for name, _ in rows))
    text = Text(title, "bold")
    for name, about in rows:
        text.append(f"\n  {name}", "cyan")
        text.append(" " * (max(0, lead - cell_len(name)) + 2) + about, "dim")
    return text


DOUBLE_PRESS_TIMEOUT_S = 1.5
"""Seconds within which a key pressed again means more than once."""
INTERRUPTED_EXIT_CODE = 130


class InterruptHandler:
    def __init__(self, app: JoeyApp) -> None:
        self._app = app
        self._pressed: tuple[str, float] = ("", 0.0)

    def escape(self) -> None:
        app = self._app
        if app.shell.stop():
            return
        if app.dialogue.is_working and app.dialogue.asked is None:
            app.do(self._stop_and_listen())
        elif not app.composer.is_empty or self._must_be_answered:
            self._clear()
        elif self._pressed_twice("escape"):
            app.do(app.command_runner.rewind())

    def interrupt(self) -> None:
        app = self._app
        if selected := app.screen.get_selected_text():
            app.copy_to_clipboard(selected)
            app.screen.clear_selection()
        elif app.front.leave_picker() or app.shell.stop():
            return
        elif app.dialogue.is_working and not self._asks_for_acceptance:
            app.do(app.dialogue.stop())
        elif not app.composer.is_empty:
            self._clear()
        elif self._pressed_twice("ctrl+c"):
            app.exit(INTERRUPTED_EXIT_CODE)
        else:
            app.status.hint("Ctrl+C again leaves")
            app.set_timer(DOUBLE_PRESS_TIMEOUT_S, lambda: app.status.hint(""))

    def leave(self) -> None:
        """Where words are written, it is a key for the words."""
        app = self._app
        if app.composer.has_focus_within or not app.front.is_silent:
            raise SkipAction
        if not app.front.leave_picker() and app.composer.is_empty:
            app.exit(0)

    async def _stop_and_listen(self) -> None:
        """What waited for the next step need not wait any longer."""
        await self._app.dialogue.stop()
        await self._app.dialogue.rest()
        await self.send_waiting()

    async def send_waiting(self) -> None:
        """The task goes on with the words that it had not read when it stopped."""
        app, session = self._app, self._app.dialogue.session
        waiting = [] if session is None else app.host.list_queued_messages(session)
        if session is None or not waiting or app.dialogue.is_working:
            return
        last = waiting[-1]  # those before it go along
        await app.host.remove_queued_message(session, last.id)
        try:
            await app.dialogue.say(last.text, last.images)
        except UserError:
            app.composer.put(last.text)
            raise
        finally:
            app.refresh_status()

    def _clear(self) -> None:
        self._app.composer.clear()
        self._app.front.settle_focus()

    @property
    def _must_be_answered(self) -> bool:
        return self._app.front.panel is not None and not self._asks_for_acceptance

    @property
    def _asks_for_acceptance(self) -> bool:
        asked = self._app.dialogue.asked
        return asked is not None and asked.ask.ask is AskKind.COMPLETION_RESULT

    def _pressed_twice(self, key: str) -> bool:
        before, at = self._pressed
        is_second = before == key and monotonic() - at < DOUBLE_PRESS_TIMEOUT_S
        self._pressed = ("", 0.0) if is_second else (key, monotonic())
        return is_second
