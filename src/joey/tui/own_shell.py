"""`!command`: the person's own act, in their own shell.

The model does not run it and is not asked. What it printed goes along with the next words that are
sent, so that "fix that" has a meaning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from rich.text import Text

from joey.display.cards import CommandOutput
from joey.display.sanitise import sanitise
from joey.tui.conversation import Conversation
from joey.tui.host import Host

MOST_TAKEN = 16_000
"""Characters of output that go along; of more, the end."""


class OwnShell:
    def __init__(self, host: Host, conversation: Conversation) -> None:
        self._host = host
        self._conversation = conversation
        self._ran: list[str] = []
        self._running: asyncio.Task[str] | None = None

    async def run(self, command: str) -> None:
        """Raises UserError."""
        self.stop()
        heading = Text.assemble(("! ", "bold yellow"), (sanitise(command), "bold"))
        self._conversation.card(heading)
        output, shown = [], CommandOutput()

        def tell(text: str) -> None:
            output.append(text)
            self._show(shown.feed(text))

        self._running = asyncio.ensure_future(self._host.run(command, tell))
        try:
            end = await self._running
        except asyncio.CancelledError:
            end = "stopped"
        finally:
            self._running = None
            self._show(shown.close())
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
        if not self._ran:
            return words
        ran = "\n\n".join(self._ran)
        return f"{words}\n\nI have run this in my shell:\n\n{fenced(ran)}"

    def forget(self) -> None:
        """It was told, and is not told again."""
        self._ran.clear()

    def _show(self, lines: Iterable[str]) -> None:
        text = "\n".join(f"  {line}" for line in lines)
        if text:
            self._conversation.card(Text(text, "dim"))


def fenced(text: str) -> str:
    """A block of code with a fence that is in none of its lines."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
