"""Completion of slash commands and `@` mentions in the composer.

`Completer` decides what is offered while the user types and inserts the choice; `CompletionList` is
the list above the composer, in which the history search shows its results too.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct
from rich.style import Style
from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from joey.errors import JoeyError
from joey.presentation.text import measure_width, to_one_line
from joey.tui.host import CompletionItem, CompletionSource
from joey.tui.widgets.choice_list import left_out
from joey.tui.widgets.text_area import TextEntry

_COMMAND_RE = re.compile(r"/([A-Za-z0-9_.-]*)$")
_MENTION_RE = re.compile(r"(?<!\S)@((?:\\.|[^\s\\])*)$")
_ESCAPED_CHARACTER_RE = re.compile(r"[\s\\]")
_TRAILING_PUNCTUATION = ".,;:!?"
MENTION_KEYWORDS = (
    CompletionItem("problems", "what the checkers say about the files of the task"),
    CompletionItem("terminal", "the output of the latest command"),
    CompletionItem("git-changes", "what differs from the last commit"),
    CompletionItem("https://", "the words of a page"),
)


class CompletionKind(StrEnum):
    COMMAND = "command"
    MENTION = "mention"


class CompletionRequest(Struct, frozen=True):
    """Something that is being typed and may be completed."""

    kind: CompletionKind
    typed: str
    """Without the sign that began it."""
    start: int
    """Its column, that of the sign."""


class CompletionChoice(Struct, frozen=True):
    shown: str
    about: str
    written: str
    """What takes the place of all that was typed, sign included."""
    goes_on: bool = False
    """More has to be typed right behind it."""
    is_directory: bool = False


def wanted(row: int, before: str) -> CompletionRequest | None:
    """Judged by what stands before the cursor in its line."""
    if row == 0 and (match := _COMMAND_RE.match(before)):
        return CompletionRequest(CompletionKind.COMMAND, match[1], 0)
    match = _MENTION_RE.search(before[-1_000:])
    if match is None or "://" in match[1]:
        return None
    return CompletionRequest(CompletionKind.MENTION, match[1], len(before) - len(match[0]))


def command_choices(typed: str, offers: Sequence[CompletionItem]) -> list[CompletionChoice]:
    """The one of this name, those that begin so, then those that have it somewhere."""
    word = typed.lower()

    def rank(offer: CompletionItem) -> tuple[bool, bool]:
        name = offer.name.lower()
        return name != word, not name.startswith(word)

    fitting = sorted((offer for offer in offers if word in offer.name.lower()), key=rank)
    return [CompletionChoice(f"/{one.name}", one.about, f"/{one.name}") for one in fitting]


def mention_choices(typed: str, paths: Sequence[str]) -> list[CompletionChoice]:
    """Without the folder in which somebody already is."""
    within = searched_path(typed) if typed.endswith("/") else None
    return [
        *_match_mention_keywords(typed),
        *(_path_choice(path) for path in paths if path != within),
    ]


def searched_path(typed: str) -> str:
    """What is looked for among paths."""
    return re.sub(r"\\(.)", r"\1", typed).removeprefix("/")


def _match_mention_keywords(typed: str) -> Iterator[CompletionChoice]:
    for word in MENTION_KEYWORDS:
        if word.name.startswith(typed):
            yield CompletionChoice(
                f"@{word.name}", word.about, f"@{word.name}", word.name.endswith("/")
            )


def _path_choice(path: str) -> CompletionChoice:
    written = _ESCAPED_CHARACTER_RE.sub(r"\\\g<0>", path)
    if written.endswith(tuple(_TRAILING_PUNCTUATION)):
        written = f"{written[:-1]}\\{written[-1]}"
    return CompletionChoice(path, "", f"@/{written}", is_directory=path.endswith("/"))


_MAX_VISIBLE_ROWS = 8


class CompletionList(Widget):
    DEFAULT_CSS = """
    CompletionList {
        height: auto;
        display: none;
        & > .choices--chosen { text-style: reverse; }
        & > .choices--about { color: $text-muted; }
        & > .choices--title { color: $text-muted; text-style: bold; }
    }
    CompletionList.-open { display: block; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"choices--chosen", "choices--about", "choices--title"}

    choices: reactive[tuple[CompletionChoice, ...]] = reactive((), layout=True)
    at: reactive[int] = reactive(0)
    title: reactive[str | None] = reactive(None, layout=True)
    """A line above them; with it the list is open even when it is empty."""

    @property
    def is_open(self) -> bool:
        return bool(self.choices) or self.title is not None

    @property
    def chosen(self) -> CompletionChoice | None:
        return self.choices[self.at] if self.choices else None

    def open(self, choices: Sequence[CompletionChoice], title: str | None = None) -> None:
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
        rows = max(1, min(_MAX_VISIBLE_ROWS, self.app.size.height // 3))
        first = max(0, min(self.at - rows // 2, len(self.choices) - rows))
        shown = self.choices[first : first + rows]
        room = min(
            width * 3 // 5, max((measure_width(choice.shown) for choice in shown), default=0)
        )
        title_style = self.get_component_rich_style("choices--title")
        lines = [] if self.title is None else [Text(to_one_line(self.title, width), title_style)]
        lines += [
            self._line(choice, chosen=first + number == self.at, room=room, width=width)
            for number, choice in enumerate(shown)
        ]
        if len(shown) < len(self.choices):
            in_sight = range(first, first + len(shown))
            lines.append(Text(left_out(in_sight, len(self.choices)), self._about))
        return Text("\n", no_wrap=True, overflow="ellipsis").join(lines)

    def _line(self, choice: CompletionChoice, *, chosen: bool, room: int, width: int) -> Text:
        line = Text("› " if chosen else "  ", no_wrap=True)
        name = to_one_line(choice.shown, width)
        if not choice.about:
            line.append(name)
        else:
            line.append(f"{name}{' ' * (room - measure_width(name))}  ")
            line.append(to_one_line(choice.about, width), "" if chosen else self._about)
        line.truncate(width, overflow="ellipsis")
        if chosen:
            line.pad_right(width - line.cell_len)
            line.stylize(self.get_component_rich_style("choices--chosen"))
        return line

    @property
    def _about(self) -> Style:
        return self.get_component_rich_style("choices--about")


log = logging.getLogger(__name__)


class Completer:
    def __init__(
        self,
        offers: CompletionSource,
        choices: CompletionList,
        entry: TextEntry,
        begin_finding: Callable[[CompletionRequest], object],
    ) -> None:
        """`begin_finding` has `find_files` called beside what else is done, once at a time."""
        self._begin_finding = begin_finding
        self._offers = offers
        self._choices = choices
        self._entry = entry
        self._wanted: CompletionRequest | None = None
        self._whole: str | None = None
        """A text that came as a whole: nothing is offered before it is changed."""
        self._found_for: CompletionRequest | None = None
        self._is_dismissed = False
        """Nothing is offered for what is wanted now."""
        self._key_to_do = ""
        """Pressed while the list was that of something typed before."""

    @property
    def is_open(self) -> bool:
        return bool(self._choices.choices)

    def offer(self, *, shell: bool) -> None:
        """Called after every change of the text or of the cursor's place."""
        if self._whole is not None and self._whole != self._entry.text:
            self._whole = None
        is_quiet = shell or self._whole is not None
        now = None if is_quiet else self._wanted_here()
        if now == self._wanted:
            return
        self._wanted = now
        self._is_dismissed = False
        self._key_to_do = ""
        match now:
            case None:
                self._choices.close()
            case CompletionRequest(kind=CompletionKind.COMMAND):
                self._open(now, command_choices(now.typed, self._offers.list_commands()))
            case _:
                self._begin_finding(now)

    async def find_files(self, sought: CompletionRequest) -> str:
        """A key that was pressed meanwhile and is not for the list, if there is one."""
        try:
            paths = await self._offers.find_files(searched_path(sought.typed))
        except JoeyError as error:
            log.info("no files can be offered: %s", error)
            paths = ()
        if sought != self._wanted or self._is_dismissed:
            return ""
        self._open(sought, mention_choices(sought.typed, paths))
        key = self._key_to_do
        return "" if not key or (self.is_open and self.handle(key)) else key

    def _open(self, sought: CompletionRequest, choices: Sequence[CompletionChoice]) -> None:
        self._found_for = sought
        self._choices.open(choices)

    def close(self, *, whole: bool = False) -> None:
        """Nothing is offered until something else is typed; `whole`: the text was just loaded."""
        self._whole = self._entry.text if whole else None
        self._wanted = None if whole else self._wanted_here()
        self._is_dismissed = True
        self._choices.close()

    def _wanted_here(self) -> CompletionRequest | None:
        row, _ = self._entry.cursor_location
        return wanted(row, self._entry.before)

    def handle(self, key: str) -> bool:
        self._key_to_do = ""
        match key:
            case "tab" | "enter" if self._found_for != self._wanted:
                self._key_to_do = key
            case "up" | "ctrl+p":
                self._choices.move(-1)
            case "down" | "ctrl+n":
                self._choices.move(1)
            case "escape":
                self.close()
            case "tab":
                self._take(into_directory=True)
            case "enter" if not self._is_complete():
                self._take(into_directory=False)
            case _:
                return False
        return True

    def _is_complete(self) -> bool:
        """Whether the chosen one stands there already, which Enter sends."""
        chosen, sought = self._choices.chosen, self._wanted
        if chosen is None or sought is None:
            return False
        return chosen.written[1:] == sought.typed

    def _take(self, *, into_directory: bool) -> None:
        chosen, sought = self._choices.chosen, self._wanted
        if chosen is None or sought is None:
            return
        goes_on = chosen.goes_on or (chosen.is_directory and into_directory)
        row, column = self._entry.cursor_location
        written = chosen.written if goes_on else f"{chosen.written} "
        self._entry.replace(written, (row, sought.start), (row, column))
        self._entry.move_cursor((row, sought.start + len(written)))
        self._wanted = None
        self._choices.close()
