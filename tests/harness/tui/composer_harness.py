"""A composer in an app of its own, with keys to press and a clipboard to paste from."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from textual import events
from textual.app import App, ComposeResult
from textual.keys import _character_to_key
from textual.message import Message
from textual.pilot import Pilot
from textual.widgets import Static

from joey.tui.app_services import CompletionItem, CompletionSource
from joey.tui.widgets.completion import CompletionList
from joey.tui.widgets.composer import Composer
from joey.tui.widgets.draft import to_visible_text
from joey.tui.widgets.prompt_history import PromptHistory
from joey.tui.widgets.text_area import TextEntry

_LETTERS = {"space": " ", "backslash": "\\"}
COMMANDS = (
    CompletionItem("help", "keys and commands"),
    CompletionItem("new", "begin another task"),
)
PATHS = ("src/", "src/app.py", "src/a b.py", "docs/what?.md")


class FixedCompletions:
    """Offers that are known beforehand."""

    def list_commands(self) -> Sequence[CompletionItem]:
        return COMMANDS

    async def find_files(self, typed: str) -> Sequence[str]:
        return [path for path in PATHS if typed in path]


class ComposerApp(App[None]):
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, offers: CompletionSource, past: PromptHistory) -> None:
        super().__init__()
        self.composer = Composer(offers, past)
        self.received_messages: list[Message] = []
        self.escaped = 0

    def compose(self) -> ComposeResult:
        yield self.composer
        yield Static("below", id="below")

    def on_mount(self) -> None:
        self.composer.focus()

    def on_composer_submitted(self, event: Composer.Submitted) -> None:
        self.received_messages.append(event)

    def on_composer_shell_submitted(self, event: Composer.ShellSubmitted) -> None:
        self.received_messages.append(event)

    def on_composer_exit_requested(self, event: Composer.ExitRequested) -> None:
        self.received_messages.append(event)

    def on_composer_key_help_requested(self, event: Composer.KeyHelpRequested) -> None:
        self.received_messages.append(event)

    def on_key(self, event: events.Key) -> None:
        self.escaped += event.key == "escape"


class ComposerUser:
    """Somebody who sits at the desk."""

    def __init__(self, app: ComposerApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.composer = app.composer
        self._pilot = pilot

    async def press(self, *keys: str) -> None:
        self.press_without_waiting(*keys)
        await self.wait_until_idle()

    def press_without_waiting(self, *keys: str) -> None:
        """Press them as fast as a terminal can bring them, and wait for nothing."""
        for key in keys:
            letter = _LETTERS.get(key, key)
            is_letter = len(letter) == 1
            name = _character_to_key(letter) if is_letter else key
            self.app.post_message(events.Key(name, letter if is_letter else None))

    async def write(self, text: str) -> None:
        await self.press(*("ctrl+j" if letter == "\n" else letter for letter in text))

    async def paste(self, text: str) -> None:
        self.app.post_message(events.Paste(text))
        await self.wait_until_idle()

    async def click_choice(self, row: int) -> None:
        await self._pilot.click(CompletionList, offset=(4, row))
        await self.wait_until_idle()

    async def resize(self, width: int, height: int) -> None:
        await self._pilot.resize_terminal(width, height)
        await self.wait_until_idle()

    async def wait_until_idle(self) -> None:
        """Until everything is done that was begun."""
        await self._pilot.pause()
        while not all(worker.is_finished for worker in self.app.workers):
            await self._pilot.pause()
        await self._pilot.pause()

    @property
    def entry(self) -> TextEntry:
        return self.app.query_one(TextEntry)

    @property
    def text(self) -> str:
        """As it is seen."""
        return to_visible_text(self.entry.text)

    @property
    def offered(self) -> list[str]:
        return [choice.label for choice in self.app.query_one(CompletionList).choices]

    @property
    def hint(self) -> str:
        return str(self.app.query_one(".composer--hint", Static).content)

    @property
    def mark(self) -> str:
        return str(self.app.query_one(".composer--mark", Static).content)

    @property
    def sent(self) -> list[str]:
        return [
            one.text for one in self.app.received_messages if isinstance(one, Composer.Submitted)
        ]

    @property
    def images(self) -> list[tuple[str, ...]]:
        return [
            one.images for one in self.app.received_messages if isinstance(one, Composer.Submitted)
        ]

    @property
    def commands(self) -> list[str]:
        return [
            one.command
            for one in self.app.received_messages
            if isinstance(one, Composer.ShellSubmitted)
        ]

    def has_received(self, kind: type[Message]) -> bool:
        return any(isinstance(one, kind) for one in self.app.received_messages)


@asynccontextmanager
async def open_composer(
    past: PromptHistory | None = None,
    offers: CompletionSource | None = None,
    size: tuple[int, int] = (80, 24),
) -> AsyncIterator[ComposerUser]:
    app = ComposerApp(offers or FixedCompletions(), past or PromptHistory(None, Path("/work")))
    async with app.run_test(size=size) as pilot:
        yield ComposerUser(app, pilot)
