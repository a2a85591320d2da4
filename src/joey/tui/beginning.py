"""What the command line asks for, done once the screen stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from joey.errors import UserError
from joey.tui.keys import greeting
from joey.tui.welcome import welcome

if TYPE_CHECKING:
    from joey.tui.app import JoeyApp


class Beginning(Struct, frozen=True, kw_only=True):
    prompt: str = ""
    images: tuple[str, ...] = ()
    task_id: str | None = None
    fork: bool = False

    async def come_about(self, app: JoeyApp) -> None:
        """Raises UserError."""
        if app.host.needs_model() and not await welcome(app):
            app.exit(0)
            return
        app.tell_standing()
        if self.task_id is None:
            app.conversation.card(greeting())
        elif not await self._open(app, self.task_id):
            return
        if not self.prompt:
            return
        try:
            await app.say(self.prompt, self.images)
        except UserError:
            app.composer.put(self.prompt)
            raise

    async def _open(self, app: JoeyApp, task_id: str) -> bool:
        """Whoever named a task that cannot be had does not mean another one."""
        opening = app.host.fork(task_id) if self.fork else app.host.open(task_id)
        try:
            app.dialogue.show(await opening)
        except UserError as error:
            app.refusal = error
            app.exit()
            return False
        return True
