"""Completion of slash commands and `@` mentions in the composer.

`Completer` decides which completions to offer and inserts the choice; `CompletionList` is the list
above the composer, in which the history search shows its results too.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from joey.errors import JoeyError
from joey.presentation.text import to_one_line
from joey.tui.app_services import CompletionItem, CompletionSource
from joey.tui.widgets.choice_list import ChoiceLine, ChoiceList
from joey.tui.widgets.text_area import TextEntry

_COMMAND_RE = re.compile(r"/([A-Za-z0-9_.-]*)$")
_MENTION_RE = re.compile(r"(?<!\S)@((?:\\.|[^\s\\])*)$")
_CHARACTER_TO_ESCAPE_RE = re.compile(r"[\s\\]")
_TRAILING_PUNCTUATION = ".,;:!?"
MENTION_KEYWORDS = (
    CompletionItem("problems", "what the checkers say about the files of the task"),
    CompletionItem("terminal", "the output of the latest command"),
    CompletionItem("git-changes", "what differs from the last commit"),
    CompletionItem("https://", "the words of a page"),
)


class CompletionRequest(Struct, frozen=True):
    is_command: bool
    typed_text: str
    """Without the sign that began it."""
    start_column: int
    """Its column, that of the sign."""


class CompletionChoice(Struct, frozen=True):
    label: str
    description: str
    inserted_text: str
    """What takes the place of all that was typed, sign included."""
    is_incomplete: bool = False
    """More has to be typed right behind it."""
    is_directory: bool = False


def parse_completion_request(row: int, before: str) -> CompletionRequest | None:
    """Parse the text before the cursor in its line."""
    if row == 0 and (match := _COMMAND_RE.match(before)):
        return CompletionRequest(True, match[1], 0)
    match = _MENTION_RE.search(before[-1_000:])
    if match is None or "://" in match[1]:
        return None
    return CompletionRequest(False, match[1], len(before) - len(match[0]))


def match_commands(typed: str, items: Sequence[CompletionItem]) -> list[CompletionChoice]:
    """Match commands: the exact name, then prefixes, then substrings."""
    word = typed.lower()

    def rank(offer: CompletionItem) -> tuple[bool, bool]:
        name = offer.name.lower()
        return name != word, not name.startswith(word)

    fitting = sorted((offer for offer in items if word in offer.name.lower()), key=rank)
    return [CompletionChoice(f"/{one.name}", one.description, f"/{one.name}") for one in fitting]


def match_mentions(typed: str, paths: Sequence[str]) -> list[CompletionChoice]:
    """Match paths, without the directory that was typed already."""
    within = unescape_path(typed) if typed.endswith("/") else None
    keywords = [
        CompletionChoice(f"@{word.name}", word.description, f"@{word.name}", word.name[-1] == "/")
        for word in MENTION_KEYWORDS
        if word.name.startswith(typed)
    ]
    return keywords + [_build_path_choice(path) for path in paths if path != within]


def unescape_path(typed: str) -> str:
    """Unescape a path for the search."""
    return re.sub(r"\\(.)", r"\1", typed).removeprefix("/")


def _build_path_choice(path: str) -> CompletionChoice:
    written = _CHARACTER_TO_ESCAPE_RE.sub(r"\\\g<0>", path)
    if written.endswith(tuple(_TRAILING_PUNCTUATION)):
        written = f"{written[:-1]}\\{written[-1]}"
    return CompletionChoice(path, "", f"@/{written}", is_directory=path.endswith("/"))


_MAX_VISIBLE_ROWS = 9


class CompletionList(ChoiceList):
    DEFAULT_CSS = """
    CompletionList { display: none; }
    CompletionList.-open { display: block; }
    """

    def __init__(self) -> None:
        super().__init__(max_lines=_MAX_VISIBLE_ROWS)
        self.choices: tuple[CompletionChoice, ...] = ()

    @property
    def is_open(self) -> bool:
        return self.has_class("-open")

    @property
    def current_choice(self) -> CompletionChoice | None:
        return self.choices[self.cursor_index] if self.choices else None

    def show_choices(self, choices: Sequence[CompletionChoice], title: str | None = None) -> None:
        """Show choices; with a title the list is open even if it is empty."""
        self.choices = tuple(choices)
        lines = [
            ChoiceLine(to_one_line(each.label, 300), to_one_line(each.description, 300))
            for each in choices
        ]
        self.set_lines(lines, title=None if title is None else to_one_line(title, 300))
        self.set_class(bool(choices) or title is not None, "-open")

    def close(self) -> None:
        self.show_choices(())


log = logging.getLogger(__name__)


class Completer:
    def __init__(
        self,
        source: CompletionSource,
        completion_list: CompletionList,
        text_entry: TextEntry,
        start_file_search: Callable[[CompletionRequest], object],
    ) -> None:
        """`start_file_search` calls `find_files` in the background, one at a time."""
        self._start_file_search = start_file_search
        self._source = source
        self._completion_list = completion_list
        self._text_entry = text_entry
        self._request: CompletionRequest | None = None
        self._loaded_text: str | None = None
        """A text that came as a whole: nothing is offered before it is changed."""
        self._listed_request: CompletionRequest | None = None
        self._is_dismissed = False
        """Nothing is offered for what is wanted now."""
        self._pending_key = ""
        """Pressed while the list was that of something typed before."""

    def update_choices(self, *, shell: bool) -> None:
        """Update the choices after every change of the text or the cursor."""
        if self._loaded_text != self._text_entry.text:
            self._loaded_text = None
        now = None if shell or self._loaded_text is not None else self._parse_request()
        if now == self._request:
            return
        self._request = now
        self._is_dismissed = False
        self._pending_key = ""
        match now:
            case None:
                self._completion_list.close()
            case CompletionRequest(is_command=True):
                self._show_choices(
                    now, match_commands(now.typed_text, self._source.list_commands())
                )
            case _:
                self._start_file_search(now)

    async def show_matching_files(self, request: CompletionRequest) -> str:
        """Show matching files; return a key pressed meanwhile that is not for the list, if any."""
        try:
            paths = await self._source.find_files(unescape_path(request.typed_text))
        except JoeyError as error:
            log.info("no files can be offered: %s", error)
            paths = ()
        if request != self._request or self._is_dismissed:
            return ""
        self._show_choices(request, match_mentions(request.typed_text, paths))
        key = self._pending_key
        return "" if not key or (self._completion_list.choices and self.handle_key(key)) else key

    def _show_choices(
        self, request: CompletionRequest, choices: Sequence[CompletionChoice]
    ) -> None:
        self._listed_request = request
        self._completion_list.show_choices(choices)

    def dismiss(self, *, is_text_loaded: bool = False) -> None:
        """Dismiss the list until something else is typed."""
        self._loaded_text = self._text_entry.text if is_text_loaded else None
        self._request = None if is_text_loaded else self._parse_request()
        self._is_dismissed = True
        self._completion_list.close()

    def _parse_request(self) -> CompletionRequest | None:
        row, _ = self._text_entry.cursor_location
        return parse_completion_request(row, self._text_entry.text_before_cursor)

    def handle_key(self, key: str) -> bool:
        self._pending_key = ""
        match key:
            case "tab" | "enter" if self._listed_request != self._request:
                self._pending_key = key
            case "up" | "ctrl+p":
                self._completion_list.move_cursor(-1)
            case "down" | "ctrl+n":
                self._completion_list.move_cursor(1)
            case "escape":
                self.dismiss()
            case "tab":
                self._insert_choice(into_directory=True)
            case "enter" if not self._is_choice_typed():
                self._insert_choice(into_directory=False)
            case _:
                return False
        return True

    def _is_choice_typed(self) -> bool:
        """Whether the choice was typed completely, so that Enter sends it."""
        chosen, request = self._completion_list.current_choice, self._request
        if chosen is None or request is None:
            return False
        return chosen.inserted_text[1:] == request.typed_text

    def _insert_choice(self, *, into_directory: bool) -> None:
        chosen, request = self._completion_list.current_choice, self._request
        if chosen is None or request is None:
            return
        goes_on = chosen.is_incomplete or (chosen.is_directory and into_directory)
        row, column = self._text_entry.cursor_location
        written = chosen.inserted_text if goes_on else f"{chosen.inserted_text} "
        self._text_entry.replace(written, (row, request.start_column), (row, column))
        self._text_entry.move_cursor((row, request.start_column + len(written)))
        self._request = None
        self._completion_list.close()
