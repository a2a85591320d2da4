"""Esc, Ctrl+C and Ctrl+D: each stops, clears or leaves the first thing that there is to."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from textual.actions import SkipAction

from joey.core.task import AskKind
from joey.errors import UserError

if TYPE_CHECKING:
    from joey.tui.app import JoeyApp

TWICE = 1.5
"""Seconds within which a key pressed again means more than once."""
INTERRUPTED = 130


class Interruptions:
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
            app.do(app.errands.rewind())

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
            app.exit(INTERRUPTED)
        else:
            app.status.hint("Ctrl+C again leaves")
            app.set_timer(TWICE, lambda: app.status.hint(""))

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
        waiting = [] if session is None else app.host.queue(session)
        if session is None or not waiting or app.dialogue.is_working:
            return
        last = waiting[-1]  # those before it go along
        await app.host.unqueue(session, last.id)
        try:
            await app.dialogue.say(last.text, last.images)
        except UserError:
            app.composer.put(last.text)
            raise
        finally:
            app.tell_standing()

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
        is_second = before == key and monotonic() - at < TWICE
        self._pressed = ("", 0.0) if is_second else (key, monotonic())
        return is_second
