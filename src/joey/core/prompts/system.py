"""The system prompt: who the agent is, how it calls tools, how it works.

The same arguments give the same bytes, and nothing here changes from turn to turn, so that
providers can cache it. What does change goes into the environment details.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from joey.core.customs import Instructions, Skill
from joey.core.mcp import McpServer
from joey.core.models import ToolSpec
from joey.core.modes import Mode
from joey.core.prompts.sections.capabilities import capabilities
from joey.core.prompts.sections.catalogue import catalogue
from joey.core.prompts.sections.instructions import custom_instructions as instructions_section
from joey.core.prompts.sections.markdown import markdown_rules
from joey.core.prompts.sections.mcp_servers import mcp_servers
from joey.core.prompts.sections.modes import modes_list
from joey.core.prompts.sections.objective import objective
from joey.core.prompts.sections.override import fill_in
from joey.core.prompts.sections.rules import rules
from joey.core.prompts.sections.skills import skills_list
from joey.core.prompts.sections.system_information import system_information
from joey.core.prompts.sections.tool_use import tool_use
from joey.core.protocol import ToolProtocol

_BETWEEN = "\n\n====\n\n"
NO_INSTRUCTIONS = Instructions()


class ToolDoc(Struct, frozen=True):
    """A tool as the prompt explains it."""

    spec: ToolSpec
    xml_usage: str | None = None
    """How it is called with tags, where that is not simply one tag per parameter."""


def system_prompt(  # noqa: PLR0913 (one argument per source, all by name)
    *,
    mode: Mode,
    modes: Sequence[Mode],
    protocol: ToolProtocol,
    tools: Sequence[ToolDoc],
    facts: Mapping[str, str],
    custom_instructions: str = "",
    language: str = "",
    instructions: Instructions = NO_INSTRUCTIONS,
    skills: Sequence[Skill] = (),
    servers: Sequence[McpServer] = (),
) -> str:
    """The whole prompt. `facts` are `os`, `shell`, `home` and `workspace`."""
    added = instructions_section(
        custom_instructions, mode.custom_instructions, language, instructions
    )
    if instructions.override is not None:
        own = fill_in(instructions.override, mode=mode.slug, language=language, facts=facts)
        return _joined([mode.role.strip(), own, added])
    names = frozenset(tool.spec.name for tool in tools)
    return _joined(
        [
            mode.role.strip(),
            markdown_rules(),
            tool_use(protocol, catalogue([(tool.spec, tool.xml_usage) for tool in tools])),
            mcp_servers(servers),
            capabilities(names),
            modes_list(modes, names),
            skills_list(skills, names),
            rules(mode, names, facts["workspace"]),
            system_information(facts),
            objective(names),
            added,
        ]
    )


def _joined(sections: Sequence[str]) -> str:
    return _BETWEEN.join(section for section in sections if section)
