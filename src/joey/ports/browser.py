"""A browser that the model steers by sight."""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct

Action = Literal[
    "launch",
    "click",
    "hover",
    "type",
    "press",
    "scroll_down",
    "scroll_up",
    "resize",
    "screenshot",
    "close",
]


class BrowserStep(Struct, frozen=True, omit_defaults=True):
    action: Action
    url: str = ""
    x: int = 0
    y: int = 0
    """A point of the page; with `resize`, the new size."""
    text: str = ""
    """To type; the key to press; with `screenshot`, the format (`png`, `jpeg`, `webp`)."""


class BrowserLook(Struct, frozen=True, omit_defaults=True):
    """What is seen after a step."""

    screenshot: str | None = None
    """Data URI."""
    console: str = ""
    """New lines of the page's console."""
    url: str = ""
    cursor: tuple[int, int] | None = None
    note: str = ""
    """What else there is to say: the page is still loading, a download was refused."""


class Browser(Protocol):
    """One page of one task; nothing is kept between launches."""

    @property
    def is_open(self) -> bool: ...

    @property
    def viewport(self) -> tuple[int, int]: ...

    async def do(self, step: BrowserStep) -> BrowserLook:
        """Raises ToolError: no page is open, the address cannot be reached, a step failed."""
        ...

    async def close(self) -> None: ...
