"""What may be written with a slash in a conversation beside joey's own small commands."""

from __future__ import annotations

from pathlib import Path

from joey.app.customs import open_customs
from joey.presentation.text import cells, one_line


def slash_names(workspace: Path) -> dict[str, str]:
    """Commands and skills that files bring along, each with a description.

    Raises:
        ConfigError, WorkspaceError
    """
    customs = open_customs(workspace)
    skills = (skill for mode in customs.modes for skill in customs.skills(mode))
    named = {skill.name: skill.description for skill in skills}
    for command in customs.commands():
        hint = f" {command.argument_hint}" if command.argument_hint else ""
        named[command.name] = f"{command.description}{hint}".strip()
    return dict(sorted(named.items()))


def slash_help(names: dict[str, str]) -> str:
    """One line each, below a heading; empty when there are none."""
    if not names:
        return ""
    room = min(24, max(map(cells, names)))
    lines = (f"  /{name:{room}}  {one_line(about, 200)}".rstrip() for name, about in names.items())
    return "\n".join(("Commands of this folder and yours:", *lines))
