"""What was said and done, from the first row of a task to the word that is just being written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from joey.core.events import Event, ReplyReceived, Said, ToolAnnounced, UserSaid
from joey.core.messages import TextPart
from joey.display.cards import card
from joey.display.sanitise import sanitise

if TYPE_CHECKING:
    from joey.client.session import Session


class Conversation(ScrollView, can_focus=True):
    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._session: Session | None = None
        self._strips: list[Strip] = []

    def begin(self, session: Session) -> None:
        """Show a task that is opened, from its past to its end."""
        self._session = session
        self.clear()

    def hear(self, teller: Session, event: Event) -> None:
        match event:
            case UserSaid(text=text):
                self.card(Text(f"› {sanitise(text)}", "bold"))
            case ReplyReceived(parts=parts):
                for placed in parts:
                    if isinstance(placed.part, TextPart):
                        self.card(Text(sanitise(placed.part.text)))
            case ToolAnnounced():
                self.card(card(event.tool, event.text, event.path, event.diff, asked=False))
            case Said(text=text):
                self.card(Text(sanitise(text)))

    def note(self, text: str) -> None:
        self.card(Text(sanitise(text), "dim"))

    def error(self, text: str) -> None:
        self.card(Text(f"! {sanitise(text)}", "red"))

    def card(self, renderable: Text) -> None:
        lines = renderable.wrap(self.app.console, max(20, self.size.width or 80))
        self._strips += [Strip(line.render(self.app.console)) for line in lines]
        self.virtual_size = Size(self.size.width, len(self._strips))
        self.scroll_end(animate=False, immediate=True)

    def clear(self) -> None:
        self._strips.clear()
        self.virtual_size = Size(self.size.width, 0)

    def rewound(self) -> None:
        """The task went back to an earlier row."""
        self.clear()

    def toggle_details(self) -> None:
        """Show thinking, long outputs and long changes whole, or folded again."""

    def render_line(self, y: int) -> Strip:
        y += self.scroll_offset.y
        strip = self._strips[y] if y < len(self._strips) else Strip.blank(self.size.width)
        return strip.crop_extend(0, self.size.width, self.rich_style)
