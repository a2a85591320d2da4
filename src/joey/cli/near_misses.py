"""Commands that were misspelt, told from prompts.

A prompt may be any words, so that only what nobody would say to a model is taken for a slip: one
word that is nearly a command, or one with nearly an action behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

from joey.core.suggest import nearest
from joey.core.text import regex

_MEANT = {
    "tasks": "joey tasks list",
    "modes": "joey modes list",
    "doctor": "joey doctor",
    "demo": "joey demo",
    "config": "joey config list",
    "profiles": "joey profiles list",
    "models": "joey models",
    "completion": "joey completion --help",
    "permissions": "joey permissions --help",
    "serve": "joey serve",
    "help": "joey --help",
    "version": "joey --version",
}
_ACTIONS = ("list", "show", "export")
_ID = regex(r"[0-9a-f-]{4,}")


def meant_command(words: Sequence[str]) -> str | None:
    """The command that these arguments probably stand for; None for a prompt."""
    if not 1 <= len(words) <= 3 or any(" " in word or word.startswith("-") for word in words):
        return None
    name = nearest(words[0], _MEANT)
    if name is None:
        return None
    match words[1:]:
        case []:
            return _MEANT[name]
        case [action] if name == "tasks" and (near := nearest(action, _ACTIONS)):
            return f"joey tasks {near}" if near == "list" else f"joey tasks {near} ID"
        case [("show" | "export") as action, task] if name == "tasks" and _ID.fullmatch(task):
            return f"joey tasks {action} {task}"
        case [command] if name == "help" and command in _MEANT:
            return f"joey {command} --help"
    return None


def is_about_a_command(words: Sequence[str]) -> bool:
    """`help` and one word behind it, which nobody would pay a model for."""
    return (
        len(words) == 2
        and words[0] == "help"
        and not words[1].startswith("-")
        and len(words[1].split()) == 1
    )
