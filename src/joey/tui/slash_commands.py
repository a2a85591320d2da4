"""joey's own commands with a slash: which a line names, and when they can be carried out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from joey.core.near_names import nearest
from joey.display.sanitise import one_line
from joey.tui.offers import Offer


class SlashCommand(Struct, frozen=True):
    name: str
    about: str
    at_rest: bool = False
    """It changes what a task at work stands on."""
    takes_words: bool = False


COMMANDS: tuple[SlashCommand, ...] = (
    SlashCommand("help", "keys and commands"),
    SlashCommand("new", "begin another task", at_rest=True),
    SlashCommand("resume", "go on with an earlier task", at_rest=True),
    SlashCommand("tasks", "earlier tasks of this folder", at_rest=True),
    SlashCommand("rewind", "go back to earlier words of yours", at_rest=True),
    SlashCommand("undo", "take the rewind back", at_rest=True),
    SlashCommand("fork", "go on in a copy of this task", at_rest=True),
    SlashCommand("compact", "sum the conversation up, to make room", takes_words=True),
    SlashCommand("condense", "the same as /compact", takes_words=True),
    SlashCommand("mode", "choose the mode", takes_words=True),
    SlashCommand("model", "choose the model", at_rest=True, takes_words=True),
    SlashCommand("cost", "what this task has used so far"),
    SlashCommand("init", "let joey write AGENTS.md for this folder", at_rest=True),
    SlashCommand("export", "write this task to a Markdown file"),
    SlashCommand("mcp", "MCP servers"),
    SlashCommand("permissions", "what joey may do without asking", takes_words=True),
    SlashCommand("skills", "skills, and commands of your own"),
    SlashCommand("doctor", "what is found, what is missing"),
    SlashCommand("exit", "leave"),
    SlashCommand("quit", "leave"),
)
_BY_NAME = {command.name: command for command in COMMANDS}
UNLISTED = frozenset({"condense", "quit"})

_FEW_WORDS = 2
"""Behind the name of a command; more of them are a sentence."""
INIT_PROMPT = Path(__file__).with_name("init_prompt.md")


def own_offers() -> list[Offer]:
    return [Offer(one.name, one.about) for one in COMMANDS if one.name not in UNLISTED]


def parse(text: str) -> tuple[SlashCommand, str] | None:
    """The command that a line is, and the words behind it; None when it is none of ours."""
    name, _, words = text.strip().partition(" ")
    command = _BY_NAME.get(name.removeprefix("/")) if name.startswith("/") else None
    if command is None or (words.strip() and not command.takes_words):
        return None
    return command, words.strip()


def guess_at(text: str, offers: Sequence[Offer]) -> str | None:
    """What to say of a line that begins with a name which nobody knows; None when it is known, or
    may be a path or a sentence."""
    name, *words = text.strip().split(" ")
    names = [offer.name for offer in offers]
    if not name.startswith("/") or any(char in text.strip()[1:] for char in "/\n"):
        return None
    if name[1:] in names or len(words) > _FEW_WORDS:
        return None
    near = nearest(name[1:], names)
    if words and near is None:
        return None
    meant = f"did you mean /{near}?" if near else "see /help"
    return f"there is no command {one_line(name, 80)}; {meant}"
