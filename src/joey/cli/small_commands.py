"""joey's own commands line by line: which a line names, and when they can be done.

Some of them need the task at rest. Typed at another moment they are refused with a note: they are
never words for the model, and never the answer to a question.
"""

from __future__ import annotations

from joey.core.events import AskOpened
from joey.core.task import APPROVALS
from joey.presentation.slash_commands import LISTED, SlashCommand, named, parse

LEAVING = frozenset({"/exit", "/quit"})
REVISING = frozenset({"rewind", "undo", "fork"})
_HELP = """\
Write what you want and press Enter; a line that ends with \\ goes on in the next one.
While joey works you may write too: it reads your words before its next step.
Ctrl-C stops joey at work; words that it has not read yet come back to you.
/rewind takes your latest words back, /rewind N all after the N-th message from the end; with
`files` behind it the files of that moment come back too, and `force` gives up what others have
changed in them since."""


def small_command(text: str) -> tuple[SlashCommand, str] | None:
    """The command that a line is, and the words behind it; None when it is words."""
    match named(text):
        case (command, words) if command.in_lines or command.name in REVISING:
            return command, words
    return parse(text)


def command_help() -> str:
    heads = {command: f"/{command.name} {command.in_lines}".rstrip() for command in LISTED}
    room = max(map(len, heads.values()))
    lines = (f"  {head:{room}}  {command.about}" for command, head in heads.items())
    return "\n".join((_HELP, *lines))


def too_early(command: SlashCommand, ask: AskOpened | None) -> str | None:
    """Why a command must wait while a task works or asks; None when it need not."""
    if not command.at_rest:
        return None
    first = "answer first" if ask is not None else "Ctrl-C stops it"
    return f"/{command.name} works when joey waits for your words; {first}"


def is_no_answer(words: str, ask: AskOpened) -> bool:
    """A name with a slash never decides about a call; to a question it may be a path."""
    is_bare = words.startswith("/") and not any(char in words[1:] for char in " /\n")
    return ask.ask in APPROVALS and is_bare
