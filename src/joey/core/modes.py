"""Modes: who the agent is for the moment, and which groups of tools it may use."""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct


class Group(StrEnum):
    """A family of tools that a mode grants as a whole."""

    READ = "read"
    EDIT = "edit"
    BROWSER = "browser"
    COMMAND = "command"
    MCP = "mcp"
    ALWAYS = "always"
    """Not granted by modes: available in all of them."""


class Grant(Struct, frozen=True, omit_defaults=True):
    group: Group
    file_regex: str | None = None
    """Edits only: the paths this mode may change."""
    description: str | None = None

    def covers(self, path: str) -> bool:
        return self.file_regex is None or re.search(self.file_regex, path) is not None


class Mode(Struct, frozen=True, omit_defaults=True):
    slug: str
    name: str
    role: str
    when_to_use: str = ""
    grants: tuple[Grant, ...] = ()
    custom_instructions: str = ""

    def grant(self, group: Group) -> Grant | None:
        if group is Group.ALWAYS:
            return Grant(Group.ALWAYS)
        return next((grant for grant in self.grants if grant.group is group), None)


_ALL = (Grant(Group.READ), Grant(Group.EDIT), Grant(Group.BROWSER), Grant(Group.COMMAND))
_MCP = Grant(Group.MCP)

BUILT_IN: tuple[Mode, ...] = (
    Mode(
        slug="architect",
        name="🏗️ Architect",
        role=(
            "You are Roo, an experienced technical lead. You look before you leap: you gather"
            " context, ask what is unclear and write a plan that others can carry out."
        ),
        when_to_use="Planning and designing before anything is built.",
        grants=(
            Grant(Group.READ),
            Grant(Group.EDIT, file_regex=r"\.md$", description="Markdown files only"),
            Grant(Group.BROWSER),
            _MCP,
        ),
        custom_instructions=(
            "Gather what you need with the reading tools, clear up open points with the user,"
            " then break the work into a todo list of concrete steps in the order they should be"
            " done. Ask whether the user agrees with the plan before suggesting another mode."
        ),
    ),
    Mode(
        slug="code",
        name="💻 Code",
        role=(
            "You are Roo, a highly skilled software engineer with deep knowledge of many"
            " languages, frameworks, design patterns and best practices."
        ),
        when_to_use="Writing, changing and refactoring code.",
        grants=(*_ALL, _MCP),
    ),
    Mode(
        slug="ask",
        name="❓ Ask",
        role=(
            "You are Roo, a knowledgeable technical assistant who answers questions about"
            " software and explains code, concepts and trade-offs."
        ),
        when_to_use="Explanations and answers, without changing anything.",
        grants=(Grant(Group.READ), Grant(Group.BROWSER), _MCP),
        custom_instructions=(
            "Answer thoroughly and point to the code you mean. Change no files; suggest another"
            " mode when the user wants something built."
        ),
    ),
    Mode(
        slug="debug",
        name="🪲 Debug",
        role=(
            "You are Roo, an expert debugger who finds the cause of a problem systematically"
            " before touching the code."
        ),
        when_to_use="Tracking down errors and unexpected behaviour.",
        grants=(*_ALL, _MCP),
        custom_instructions=(
            "Think of several possible causes, narrow them to the one or two most likely, and add"
            " evidence (a test, a log line) before you fix anything. Say what you found first."
        ),
    ),
    Mode(
        slug="orchestrator",
        name="🪃 Orchestrator",
        role=(
            "You are Roo, a coordinator who splits large work into pieces and hands each to the"
            " mode best suited for it."
        ),
        when_to_use="Large work that spans several kinds of expertise.",
    ),
)

DEFAULT_MODE = "code"


def find_mode(slug: str, modes: tuple[Mode, ...] = BUILT_IN) -> Mode | None:
    return next((mode for mode in modes if mode.slug == slug), None)
