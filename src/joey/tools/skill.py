"""The `skill` tool: fetches the instructions of a skill."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from joey.core.modes import Skill, ToolGroup
from joey.core.task_types import Answer
from joey.errors import ToolError
from joey.ports.tool_context import ToolContext
from joey.tools.base import (
    Access,
    AvailabilityContext,
    Claim,
    Outcome,
    PreparedToolCall,
    Tool,
)


class SkillParams(Struct, frozen=True):
    skill: Annotated[str, Meta(description="Name of the skill, as the list of skills gives it.")]
    args: Annotated[str | None, Meta(description="What to apply the skill to.")] = None


class PreparedSkill(PreparedToolCall, frozen=True, kw_only=True):
    skill: Skill
    args: str


class SkillTool(Tool[SkillParams, PreparedSkill]):
    name: ClassVar[str] = "skill"
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS
    params: ClassVar[type[Struct]] = SkillParams

    def is_offered(self, context: AvailabilityContext) -> bool:
        customizations = context.capabilities.customizations
        return customizations is not None and any(
            customizations.list_skills(mode) for mode in customizations.modes
        )

    async def prepare(self, params: SkillParams, ctx: ToolContext) -> PreparedSkill:
        skill = _find_skill(params.skill.strip(), ctx)
        args = params.args or ""
        return PreparedSkill(
            claims=(Claim(Access.SKILL, subject=f"the skill {skill.name}"),),
            row={
                "tool": "skill",
                "skill": skill.name,
                "args": args,
                "source": skill.source,
                "description": skill.description,
            },
            skill=skill,
            args=args,
        )

    async def run_prepared(
        self, prepared: PreparedSkill, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        skill, customizations = prepared.skill, ctx.capabilities.customizations
        assert customizations is not None
        facts = {
            "Skill": skill.name,
            "Description": skill.description,
            "Provided arguments": prepared.args,
            "Source": skill.source,
        }
        return Outcome(
            format_guidance(facts, "Skill Instructions", customizations.read_skill(skill))
        )

    def describe_call(self, arguments: dict[str, Any]) -> str:
        return f"[{self.name} for '{arguments.get('skill')}']"


def _find_skill(name: str, ctx: ToolContext) -> Skill:
    customizations = ctx.capabilities.customizations
    listed = () if customizations is None else customizations.list_skills(ctx.mode)
    skills = {skill.name: skill for skill in listed}
    if name in skills:
        return skills[name]
    known = ", ".join(sorted(skills)) or "(none)"
    raise ToolError(f"There is no skill '{name}' in {ctx.mode.slug} mode. Available: {known}.")


def format_guidance(facts: Mapping[str, str], title: str, text: str) -> str:
    """Format the guidance; facts without a value are left out."""
    lines = [f"{name}: {value}" for name, value in facts.items() if value]
    return "\n".join([*lines, "", f"--- {title} ---", "", text.strip()])
