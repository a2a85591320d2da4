"""joey's own small commands in a conversation: which a line names, and when they can be done.

Some of them need the task at rest. Typed at another moment they are refused with a note: they are
never words for the model, and never the answer to a question.
"""

from __future__ import annotations

from joey.core.asks import APPROVALS
from joey.core.events import AskOpened

LEAVING = frozenset({"/exit", "/quit"})
REVISING = frozenset({"/rewind", "/undo", "/fork"})
_ALONE = LEAVING | {"/help", "/cost", "/new"}
_AT_REST = REVISING | {"/new"}


def small_command(words: str) -> str | None:
    """The command that a line is; None when it is words."""
    words = words.strip()
    name = words.split(maxsplit=1)[0] if words else ""
    if name in REVISING or compact_wish(words) is not None:
        return name
    return words if words in _ALONE else None


def compact_wish(words: str) -> str | None:
    """What the summary shall mind; None when none is asked for."""
    name, _, wish = words.partition(" ")
    return wish.strip() if name in ("/compact", "/condense") else None


def is_bare(words: str) -> bool:
    """`/name`, and nothing that could be a path or a sentence."""
    return words.startswith("/") and not any(char in words[1:] for char in " /\n")


def too_early(name: str, ask: AskOpened | None) -> str | None:
    """Why a command must wait while a task works or asks; None when it need not."""
    if name not in _AT_REST:
        return None
    first = "answer first" if ask is not None else "Ctrl-C stops it"
    return f"{name} works when joey waits for your words; {first}"


def is_no_answer(words: str, ask: AskOpened) -> bool:
    """A name with a slash never decides about a call; to a question it may be a path."""
    return ask.ask in APPROVALS and is_bare(words.strip())
