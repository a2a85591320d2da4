"""One line that the person writes: a key that nobody shall read over their shoulder, or a name."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input, Static


class LinePicker(Widget):
    DEFAULT_CSS = """
    LinePicker { height: auto; padding: 0 1; border-top: solid ansi_bright_black; }
    LinePicker Static { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,ctrl+c", "leave", show=False)]

    def __init__(self, title: str, hint: str, *, secret: bool = False) -> None:
        super().__init__()
        self._title = title
        self._hint = hint
        self._secret = secret
        self._result: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    def compose(self) -> ComposeResult:
        yield Static(Text.assemble((self._title, "bold"), (f"  {self._hint}", "dim")), markup=False)
        yield Input(password=self._secret, compact=True)

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    async def chosen(self) -> str | None:
        return await self._result

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value.strip():
            self._settle(event.value.strip())

    def action_leave(self) -> None:
        self._settle(None)

    def on_unmount(self) -> None:
        self._settle(None)

    def _settle(self, words: str | None) -> None:
        if not self._result.done():
            self._result.set_result(words)
