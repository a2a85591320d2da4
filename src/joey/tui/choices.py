"""The short list above the composer: completions, or prompts that a search has found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from joey.presentation.text import cells, one_line
from joey.tui.choice_list import left_out
from joey.tui.completion import Choice

_ROWS = 8


class Choices(Widget):
    DEFAULT_CSS = """
    Choices {
        height: auto;
        display: none;
        & > .choices--chosen { text-style: reverse; }
        & > .choices--about { color: $text-muted; }
        & > .choices--title { color: $text-muted; text-style: bold; }
    }
    Choices.-open { display: block; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"choices--chosen", "choices--about", "choices--title"}

    choices: reactive[tuple[Choice, ...]] = reactive((), layout=True)
    at: reactive[int] = reactive(0)
    title: reactive[str | None] = reactive(None, layout=True)
    """A line above them; with it the list is open even when it is empty."""

    @property
    def is_open(self) -> bool:
        return bool(self.choices) or self.title is not None

    @property
    def chosen(self) -> Choice | None:
        return self.choices[self.at] if self.choices else None

    def open(self, choices: Sequence[Choice], title: str | None = None) -> None:
        self.title = title
        self.choices = tuple(choices)
        self.at = 0
        self.set_class(self.is_open, "-open")

    def close(self) -> None:
        self.open(())

    def move(self, steps: int) -> None:
        """Round and round."""
        if self.choices:
            self.at = (self.at + steps) % len(self.choices)

    def render(self) -> Text:
        """Only the lines around the chosen one, and how many others there are."""
        width = max(1, self.size.width)
        rows = max(1, min(_ROWS, self.app.size.height // 3))
        first = max(0, min(self.at - rows // 2, len(self.choices) - rows))
        shown = self.choices[first : first + rows]
        room = min(width * 3 // 5, max((cells(choice.shown) for choice in shown), default=0))
        title_style = self.get_component_rich_style("choices--title")
        lines = [] if self.title is None else [Text(one_line(self.title, width), title_style)]
        lines += [
            self._line(choice, chosen=first + number == self.at, room=room, width=width)
            for number, choice in enumerate(shown)
        ]
        if len(shown) < len(self.choices):
            in_sight = range(first, first + len(shown))
            lines.append(Text(left_out(in_sight, len(self.choices)), self._about))
        return Text("\n", no_wrap=True, overflow="ellipsis").join(lines)

    def _line(self, choice: Choice, *, chosen: bool, room: int, width: int) -> Text:
        line = Text("› " if chosen else "  ", no_wrap=True)
        name = one_line(choice.shown, width)
        if not choice.about:
            line.append(name)
        else:
            line.append(f"{name}{' ' * (room - cells(name))}  ")
            line.append(one_line(choice.about, width), "" if chosen else self._about)
        line.truncate(width, overflow="ellipsis")
        if chosen:
            line.pad_right(width - line.cell_len)
            line.stylize(self.get_component_rich_style("choices--chosen"))
        return line

    @property
    def _about(self) -> Style:
        return self.get_component_rich_style("choices--about")
