"""`!command`: the person's own act, in their own shell.

The model does not run it and is not asked. What it printed goes along with the next words that are
sent, so that "fix that" has a meaning.
"""

from __future__ import annotations

import asyncio

from joey.presentation.text import sanitise
from joey.tui.blocks.printed import Printed
from joey.tui.conversation import Conversation
from joey.tui.host import Host
from joey.tui.ran_before import with_ran
from joey.tui.status_line import StatusLine

OWN = "running your command"
MOST_TAKEN = 16_000
"""Characters of output that go along; of more, the end."""


class OwnShell:
    def __init__(self, host: Host, conversation: Conversation, status: StatusLine) -> None:
        self._host = host
        self._status = status
        self._conversation = conversation
        self._ran: list[str] = []
        self._running: asyncio.Task[str] | None = None

    async def run(self, command: str) -> None:
        """Raises UserError."""
        self.stop()
        output, shown = [], Printed(command)
        self._conversation.add(shown)

        def tell(text: str) -> None:
            output.append(text)
            shown.hear(text)
            self._conversation.add(shown)

        before = self._status.doing
        self._status.work(OWN)
        self._running = asyncio.ensure_future(self._host.run(command, tell))
        try:
            end = await self._running
        except asyncio.CancelledError:
            end = "stopped"
        finally:
            self._running = None
            if self._status.doing == OWN:
                self._status.work(before)
        if end:
            self._conversation.note(end)
        printed = sanitise("".join(output))[-MOST_TAKEN:].strip("\n")
        self._ran.append(f"$ {command}\n{printed}{f'{chr(10)}({end})' if end else ''}")

    def stop(self) -> bool:
        """Whether there was something to stop."""
        if self._running is None:
            return False
        self._running.cancel()
        return True

    def with_ran(self, words: str) -> str:
        """The words, with what was run before them."""
        return with_ran(words, self._ran)

    def forget(self) -> None:
        """It was told, and is not told again."""
        self._ran.clear()
