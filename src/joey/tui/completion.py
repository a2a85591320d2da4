"""What can be completed where the cursor stands, and what is written when it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum

from msgspec import Struct

from joey.tui.offers import Offer

_COMMAND = re.compile(r"/([A-Za-z0-9_.-]*)$")
_MENTION = re.compile(r"(?<!\S)@((?:\\.|[^\s\\])*)$")
_ESCAPED = re.compile(r"[\s\\]")
_PUNCTUATION = ".,;:!?"
WORDS = (
    Offer("problems", "what the checkers say about the files of the task"),
    Offer("terminal", "the output of the latest command"),
    Offer("git-changes", "what differs from the last commit"),
    Offer("https://", "the words of a page"),
)


class Kind(StrEnum):
    COMMAND = "command"
    MENTION = "mention"


class Wanted(Struct, frozen=True):
    """Something that is being typed and may be completed."""

    kind: Kind
    typed: str
    """Without the sign that began it."""
    start: int
    """Its column, that of the sign."""


class Choice(Struct, frozen=True):
    shown: str
    about: str
    written: str
    """What takes the place of all that was typed, sign included."""
    goes_on: bool = False
    """More has to be typed right behind it."""
    is_folder: bool = False


def wanted(row: int, before: str) -> Wanted | None:
    """Judged by what stands before the cursor in its line."""
    if row == 0 and (match := _COMMAND.match(before)):
        return Wanted(Kind.COMMAND, match[1], 0)
    match = _MENTION.search(before[-1_000:])
    if match is None or "://" in match[1]:
        return None
    return Wanted(Kind.MENTION, match[1], len(before) - len(match[0]))


def command_choices(typed: str, offers: Sequence[Offer]) -> list[Choice]:
    """The one of this name, those that begin so, then those that have it somewhere."""
    word = typed.lower()

    def rank(offer: Offer) -> tuple[bool, bool]:
        name = offer.name.lower()
        return name != word, not name.startswith(word)

    fitting = sorted((offer for offer in offers if word in offer.name.lower()), key=rank)
    return [Choice(f"/{one.name}", one.about, f"/{one.name}") for one in fitting]


def mention_choices(typed: str, paths: Sequence[str]) -> list[Choice]:
    """Without the folder in which somebody already is."""
    within = searched_path(typed) if typed.endswith("/") else None
    return [*_words(typed), *(_path_choice(path) for path in paths if path != within)]


def searched_path(typed: str) -> str:
    """What is looked for among paths."""
    return re.sub(r"\\(.)", r"\1", typed).removeprefix("/")


def _words(typed: str) -> Iterator[Choice]:
    for word in WORDS:
        if word.name.startswith(typed):
            yield Choice(f"@{word.name}", word.about, f"@{word.name}", word.name.endswith("/"))


def _path_choice(path: str) -> Choice:
    written = _ESCAPED.sub(r"\\\g<0>", path)
    if written.endswith(tuple(_PUNCTUATION)):
        written = f"{written[:-1]}\\{written[-1]}"
    return Choice(path, "", f"@/{written}", is_folder=path.endswith("/"))
