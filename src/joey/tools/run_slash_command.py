"""The `run_slash_command` tool: returns the text of a slash command, as if the user typed it."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from joey.core.modes import SlashCommand, ToolGroup, find_mode
from joey.core.task_types import Answer
from joey.errors import ToolError
from joey.ports.tool_context import ToolContext
from joey.tools.base import (
    Access,
    AvailabilityContext,
    ChangeMode,
    Claim,
    Outcome,
    PreparedToolCall,
    Tool,
)
from joey.tools.skill import format_guidance


class RunSlashCommandParams(Struct, frozen=True):
    command: Annotated[str, Meta(description="Name of the command, without the slash.")]
    args: Annotated[str | None, Meta(description="Arguments for it; or null.")] = None


class PreparedSlashCommand(PreparedToolCall, frozen=True, kw_only=True):
    command: SlashCommand
    args: str
    target_mode: str | None
    """The mode to switch to, where the command wants one that is there."""


class RunSlashCommand(Tool[RunSlashCommandParams, PreparedSlashCommand]):
    name: ClassVar[str] = "run_slash_command"
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS
    params: ClassVar[type[Struct]] = RunSlashCommandParams

    def is_offered(self, context: AvailabilityContext) -> bool:
        customizations = context.capabilities.customizations
        return customizations is not None and any(
            command.source != "built-in" for command in customizations.list_commands()
        )

    async def prepare(
        self, params: RunSlashCommandParams, ctx: ToolContext
    ) -> PreparedSlashCommand:
        command = _find_command(params.command.strip().removeprefix("/"), ctx)
        args = params.args or ""
        mode = command.mode if find_mode(command.mode or "", ctx.modes) else None
        switch = (Claim(Access.SWITCH_MODE),) if mode and mode != ctx.mode.slug else ()
        return PreparedSlashCommand(
            claims=(
                Claim(Access.FETCH_INSTRUCTIONS, subject=f"the command /{command.name}"),
                *switch,
            ),
            row={
                "tool": "runSlashCommand",
                "command": command.name,
                "args": args,
                "source": command.source,
                "description": command.description,
                "mode": command.mode,
            },
            command=command,
            args=args,
            target_mode=mode if switch else None,
        )

    async def run_prepared(
        self, prepared: PreparedSlashCommand, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        command = prepared.command
        facts = {
            "Command": f"/{command.name}",
            "Description": command.description,
            "Argument hint": command.argument_hint,
            "Mode": command.mode or "",
            "Provided arguments": prepared.args,
            "Source": command.source,
        }
        return Outcome(
            format_guidance(facts, "Command Content", command.content),
            directive=ChangeMode(prepared.target_mode) if prepared.target_mode else None,
        )


def _find_command(name: str, ctx: ToolContext) -> SlashCommand:
    """A command of this name, else a skill of this name."""
    customizations = ctx.capabilities.customizations
    commands = (
        {command.name: command for command in customizations.list_commands()}
        if customizations
        else {}
    )
    if name in commands:
        return commands[name]
    skills = (
        {skill.name: skill for skill in customizations.list_skills(ctx.mode)}
        if customizations
        else {}
    )
    if customizations is not None and name in skills:
        skill = skills[name]
        return SlashCommand(
            name, customizations.read_skill(skill), skill.description, source=skill.source
        )
    known = ", ".join(sorted({*commands, *skills})) or "(none)"
    raise ToolError(f"There is no command '{name}'. Available: {known}.")
