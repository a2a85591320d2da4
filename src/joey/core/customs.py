"""What people write for the agent, in files: rules, slash commands, skills."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Source = Literal["project", "global", "built-in"]


class SlashCommand(Struct, frozen=True, omit_defaults=True):
    """`/name` in a message stands for this text."""

    name: str
    content: str
    description: str = ""
    argument_hint: str = ""
    mode: str | None = None
    """The mode that the command wants to be carried out in."""
    source: Source = "project"


class Skill(Struct, frozen=True, omit_defaults=True):
    """Instructions that the model fetches when it needs them."""

    name: str
    description: str
    location: str
    """Where its `SKILL.md` is."""
    modes: tuple[str, ...] = ()
    """Empty: every mode."""
    source: Source = "project"


class RuleFile(Struct, frozen=True):
    label: str
    """How the prompt names it: `.roo/rules/style.md`."""
    text: str
    """Without white space around it, and with a note at its end where it was cut."""


class Instructions(Struct, frozen=True, omit_defaults=True):
    """Everything that files add to the system prompt of one mode, in the order they are told."""

    mode_rules: tuple[RuleFile, ...] = ()
    ignored: str = ""
    """The content of `.rooignore`."""
    agents: tuple[RuleFile, ...] = ()
    rules: tuple[RuleFile, ...] = ()
    override: str | None = None
    """`.roo/system-prompt-<mode>`: takes the place of our own sections, between the role and these
    instructions."""
