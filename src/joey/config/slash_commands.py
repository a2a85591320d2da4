"""Slash commands: `commands/<name>.md`, whose text stands for `/name` in a message."""

from __future__ import annotations

import re
from collections.abc import Iterator

from joey.config.front_matter import split_front_matter
from joey.config.scopes import Scope, Scopes
from joey.config.sightings import Sightings
from joey.core.customs import SlashCommand
from joey.core.regex import regex

FOLDER = "commands"
_NAME = regex(r"[A-Za-z0-9_.-]+", re.ASCII)
_ENDING = ".md"

INIT = SlashCommand(
    name="init",
    description="Study the code base and write AGENTS.md for those who work on it",
    source="built-in",
    content="""\
Write a file AGENTS.md in the root of this workspace: what an agent that sees the project for \
the first time must know to work on it well, and would not find out quickly by itself.

1. Look at what is there already: AGENTS.md, README, CONTRIBUTING, .roo/rules, and files of \
other agents such as CLAUDE.md or .cursorrules. What they say and is still true belongs into the \
new file; an existing AGENTS.md is improved, not replaced.
2. Study the project: manifests, lock files and build files, the layout of its folders, the \
entry points, the tests, the CI configuration. Read enough of the code to see how its parts work \
together and which conventions it really follows.
3. Check the commands that you are going to name, as far as they are harmless: how to install, \
build, lint, run, run all tests and run a single one.
4. Write the file. It says, briefly: what the project is; the commands; how it is laid out and \
how a request or a piece of data goes through it; conventions that differ from what is usual; \
traps. Leave out what every developer knows, what a look at the folders shows, and whatever you \
have not verified. Less than a hundred lines are nearly always enough.

Finish by telling in a few sentences what you have put into the file, and what you could not find \
out.""",
)


def load_commands(scopes: Scopes, sightings: Sightings) -> tuple[SlashCommand, ...]:
    """One for each name: the project's, else the person's, else ours."""
    found = {INIT.name: INIT}
    for scope in scopes.roo:
        for command in _commands_of(scope, sightings):
            found[command.name] = command
    return tuple(found[name] for name in sorted(found))


def _commands_of(scope: Scope, sightings: Sightings) -> Iterator[SlashCommand]:
    folder, label = scope.folder / FOLDER, f"{scope.label}/{FOLDER}"
    for file in sightings.names(folder, label, scope.fence):
        if not file.lower().endswith(_ENDING):
            continue
        shown = f"{label}/{file}"
        name = file[: -len(_ENDING)]
        if not _NAME.fullmatch(name):
            sightings.warn(
                f"{shown} cannot be called: a command's name has letters, digits, `_`, `.`, `-`."
            )
            continue
        text = sightings.read(folder / file, shown, scope.fence)
        if text is None:
            continue
        matter = split_front_matter(text.text)
        if matter.problem:
            sightings.warn(f"{shown}: {matter.problem}.")
        yield SlashCommand(
            name=name,
            content=matter.body,
            description=matter.text("description"),
            argument_hint=matter.text("argument-hint"),
            mode=matter.text("mode") or None,
            source=scope.source,
        )
