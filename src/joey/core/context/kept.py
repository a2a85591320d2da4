"""What must not be lost when a conversation is summed up: taken from the record, not a model.

The person's own words stay as they were said: what was asked for first, what was said later (the
newest, as many as there is room for), and the slash commands of the first message. With them go
the open items of the todo list, the mode, and the files in play.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from joey.core.history.effective import cut_text
from joey.core.messages import Block, ImageBlock, Message, TextBlock, UserBlock, blocks_of
from joey.core.prompts import condense as words
from joey.core.prompts.environment import strip_environment
from joey.core.regex import regex
from joey.core.todos import Todo

MOST_OUTLINED = 50_000
_LEAST_OUTLINE = 200
_COMMAND = regex(r"<command name=")
_BROUGHT = regex(
    r"\[read_file for |<(?:command|url_content|workspace_diagnostics|git_working_state"
    r"|git_commit|terminal_output|environment_details)[ >]"
)


class Allotment(Struct, frozen=True):
    """Characters that each part of a summary may have, of all that the conversation may have."""

    summary: int
    task: int
    said: int
    commands: int
    files: int

    @classmethod
    def of(cls, characters: int) -> Allotment:
        twelfth = max(0, characters) // 12
        return cls(
            summary=3 * twelfth,
            task=twelfth,
            said=twelfth,
            commands=twelfth,
            files=min(MOST_OUTLINED, 2 * twelfth),
        )


class Kept(Struct, frozen=True, kw_only=True):
    task: str
    said: Sequence[str] = ()
    """Later words of the person, the oldest first."""
    commands: Sequence[str] = ()
    todos: Sequence[Todo] = ()
    mode: str = ""
    files: Sequence[str] = ()
    """Names, the latest first."""
    outlines: Sequence[str] = ()
    """What some of them define, in the same order."""


def summary_content(summary: str, kept: Kept, most: Allotment) -> tuple[TextBlock, ...]:
    """The message that takes the place of the conversation."""
    parts = [
        words.summary(cut_text(summary, most.summary)),
        words.task(cut_text(kept.task, most.task)),
        words.said(list(_newest(kept.said, most.said))),
        words.commands(list(_first(kept.commands, most.commands))),
        words.standing(kept.mode, [todo for todo in kept.todos if todo.status != "completed"]),
        words.files(_listed(kept.files, most.files), list(_first(kept.outlines, most.files))),
    ]
    return tuple(TextBlock(part) for part in parts if part)


def commands_in(message: Message | None) -> list[str]:
    """The slash commands that came with a message."""
    if message is None:
        return []
    texts = (block.text for block in blocks_of(message) if isinstance(block, TextBlock))
    return [text for text in texts if _COMMAND.match(text)]


def is_brought(block: Block) -> bool:
    """Whether a block is something that came along with the person's words: it may be cut."""
    return isinstance(block, TextBlock) and _BROUGHT.match(block.text) is not None


def words_in(message: Message) -> tuple[UserBlock, ...]:
    """What a message says beside results of calls and stale surroundings."""
    said = (block for block in blocks_of(message) if isinstance(block, TextBlock | ImageBlock))
    return strip_environment(said)


def _newest(texts: Sequence[str], most: int) -> Iterable[str]:
    """As many of the last as fit, in their order; of the first that does not, the beginning and
    the end."""
    taken: list[str] = []
    for text in reversed(texts):
        if len(text) > most:
            if most >= _LEAST_OUTLINE:
                taken.append(cut_text(text, most))
            break
        taken.append(text)
        most -= len(text)
    return reversed(taken)


def _first(texts: Iterable[str], most: int) -> Iterator[str]:
    for text in texts:
        if len(text) > most:
            if most >= _LEAST_OUTLINE:
                yield cut_text(text, most)
            return
        yield text
        most -= len(text)


def _listed(names: Sequence[str], most: int) -> list[str]:
    """Names for a quarter of the room that files have."""
    return list(_first(names, most // 4))
