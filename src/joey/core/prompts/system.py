"""The system prompt: who the agent is, how it calls tools, how it works.

The same arguments give the same bytes, and nothing here changes from turn to turn, so that
providers can cache it. What does change goes into the environment details.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from joey.core.models import ToolSpec
from joey.core.modes import Mode
from joey.core.prompts.sections.capabilities import capabilities
from joey.core.prompts.sections.catalogue import catalogue
from joey.core.prompts.sections.instructions import custom_instructions as instructions
from joey.core.prompts.sections.markdown import markdown_rules
from joey.core.prompts.sections.modes import modes_list
from joey.core.prompts.sections.objective import objective
from joey.core.prompts.sections.rules import rules
from joey.core.prompts.sections.system_information import system_information
from joey.core.prompts.sections.tool_use import tool_use
from joey.core.protocol import ToolProtocol

_BETWEEN = "\n\n====\n\n"


class ToolDoc(Struct, frozen=True):
    """A tool as the prompt explains it."""

    spec: ToolSpec
    xml_usage: str | None = None
    """How it is called with tags, where that is not simply one tag per parameter."""


def system_prompt(
    *,
    mode: Mode,
    modes: Sequence[Mode],
    protocol: ToolProtocol,
    tools: Sequence[ToolDoc],
    facts: Mapping[str, str],
    custom_instructions: str = "",
) -> str:
    """The whole prompt. `facts` are `os`, `shell`, `home` and `workspace`."""
    names = frozenset(tool.spec.name for tool in tools)
    sections = [
        mode.role.strip(),
        markdown_rules(),
        tool_use(protocol, catalogue([(tool.spec, tool.xml_usage) for tool in tools])),
        capabilities(names),
        modes_list(modes, names),
        rules(mode, names, facts["workspace"]),
        system_information(facts),
        objective(names),
        instructions(custom_instructions, mode.custom_instructions),
    ]
    return _BETWEEN.join(section for section in sections if section)
