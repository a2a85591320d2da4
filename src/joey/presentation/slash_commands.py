"""Built-in slash commands: their table, and the parser of the lines that name them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from joey.core.suggest import find_closest_name
from joey.presentation.text import to_one_line


class BuiltInCommand(Struct, frozen=True):
    name: str
    summary: str
    requires_idle: bool = False
    """It changes what a task at work stands on."""
    takes_argument: bool = False
    arguments_hint: str = ""
    """What may stand behind it line by line, where there is no list to choose from."""
    is_replaceable: bool = False
    """A command of this name in the user's or the project's files counts instead."""


BUILT_IN_COMMANDS: tuple[BuiltInCommand, ...] = (
    BuiltInCommand("help", "keys and commands"),
    BuiltInCommand("new", "begin another task", requires_idle=True),
    BuiltInCommand("clear", "the same as /new", requires_idle=True, is_replaceable=True),
    BuiltInCommand("resume", "continue an earlier task", requires_idle=True, arguments_hint="[ID]"),
    BuiltInCommand(
        "tasks", "earlier tasks of this folder", requires_idle=True, arguments_hint="[ID]"
    ),
    BuiltInCommand(
        "rewind",
        "go back to an earlier message of yours",
        requires_idle=True,
        arguments_hint="[N] [files] [force]",
    ),
    BuiltInCommand("undo", "take the rewind back", requires_idle=True, arguments_hint="[force]"),
    BuiltInCommand("fork", "continue in a copy of this task", requires_idle=True),
    BuiltInCommand(
        "compact",
        "summarize the conversation to free context",
        takes_argument=True,
        arguments_hint="[words]",
    ),
    BuiltInCommand("condense", "the same as /compact", takes_argument=True),
    BuiltInCommand("mode", "choose the mode", takes_argument=True, arguments_hint="[MODE]"),
    BuiltInCommand(
        "model",
        "choose the model",
        requires_idle=True,
        takes_argument=True,
        arguments_hint="[MODEL]",
    ),
    BuiltInCommand("cost", "what this task has used so far"),
    BuiltInCommand("context", "what fills the context window", is_replaceable=True),
    BuiltInCommand("diff", "uncommitted changes in this directory", is_replaceable=True),
    BuiltInCommand("copy", "copy the latest answer to the clipboard", is_replaceable=True),
    BuiltInCommand("init", "let joey write AGENTS.md for this folder", requires_idle=True),
    BuiltInCommand("export", "write this task to a Markdown file"),
    BuiltInCommand("status", "model, directory, permissions, cost", is_replaceable=True),
    BuiltInCommand("config", "settings that you have changed", is_replaceable=True),
    BuiltInCommand("mcp", "MCP servers"),
    BuiltInCommand(
        "permissions",
        "what joey may do without asking; what you allowed, to revoke it",
        takes_argument=True,
        arguments_hint="[ask|edits|all|revoke]",
    ),
    BuiltInCommand("skills", "skills, and commands of your own"),
    BuiltInCommand("doctor", "what is found, what is missing"),
    BuiltInCommand("exit", "leave"),
    BuiltInCommand("quit", "leave"),
)
COMMANDS_BY_NAME = {command.name: command for command in BUILT_IN_COMMANDS}
UNLISTED_COMMAND_NAMES = frozenset({"condense", "quit"})
LISTED_COMMANDS = tuple(
    command for command in BUILT_IN_COMMANDS if command.name not in UNLISTED_COMMAND_NAMES
)

_EQUIVALENTS = {
    "agents": "/mode chooses a mode",
    "approvals": "/permissions says what joey may do",
    "effort": "start joey with --reasoning-effort",
    "login": "/model sets up a provider and its key",
    "logout": "/model sets up another provider or key",
    "memory": "joey reads AGENTS.md, which /init writes",
    "plan": "/mode architect plans without editing code",
    "sandbox": "/permissions says what the sandbox allows",
    "settings": "/config shows what you have changed, and joey config set changes it",
    "usage": "/cost shows it",
}
"""What joey has in place of commands of other agents."""
_MAX_ARGUMENTS = 2
"""Behind the name of a command; more of them are a sentence."""
INIT_PROMPT_PATH = Path(__file__).with_name("init_prompt.md")


def match_command(text: str) -> tuple[BuiltInCommand, str] | None:
    """Return the command that a line begins with, and its arguments; None if there is none."""
    name, _, arguments = text.strip().partition(" ")
    command = COMMANDS_BY_NAME.get(name.removeprefix("/")) if name.startswith("/") else None
    return None if command is None else (command, arguments.strip())


def parse_command(text: str) -> tuple[BuiltInCommand, str] | None:
    """Parse a line as a command with its arguments; None if it is not a built-in one."""
    match match_command(text):
        case (command, arguments) if command.takes_argument or not arguments:
            return command, arguments
    return None


def explain_bad_command(
    text: str, names: Iterable[str], *, may_be_path: bool = False
) -> str | None:
    """Explain a line that begins with an unknown name, or an incomplete one; None if it is valid,
    may be a path (`/tmp` too, if `may_be_path`) or a sentence."""
    name, *arguments = text.strip().split(" ")
    known = list(names)
    if not name.startswith("/") or any(char in text.strip()[1:] for char in "/\n"):
        return None
    if len(arguments) > _MAX_ARGUMENTS:
        return None
    ours = COMMANDS_BY_NAME.get(name[1:])
    if ours is not None and arguments and not ours.takes_argument:
        return f"{name} takes no arguments"
    if name[1:] in known:
        return None
    near = find_closest_name(name[1:], (*known, "quit"))
    equivalent = None if may_be_path else _EQUIVALENTS.get(name[1:])
    if near is None and equivalent is None and (arguments or may_be_path):
        return None
    meant = equivalent or (f"did you mean /{near}?" if near else "see /help")
    return f"there is no command {to_one_line(name, 80)}; {meant}"
