"""The `run_slash_command` tool: returns the text of a slash command, as if the user typed it."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from joey.core.mentions import fill_arguments
from joey.core.modes import SlashCommand, ToolGroup, find_mode
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
    args: Annotated[str | None, Meta(description="Arguments for it.")] = None


class RunSlashCommand(Tool[RunSlashCommandParams, PreparedToolCall]):
    name: ClassVar[str] = "run_slash_command"
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS
    params: ClassVar[type[Struct]] = RunSlashCommandParams

    def is_offered(self, context: AvailabilityContext) -> bool:
        customizations = context.capabilities.customizations
        return customizations is not None and any(
            command.source != "built-in" for command in customizations.list_commands()
        )

    async def prepare(self, params: RunSlashCommandParams, ctx: ToolContext) -> PreparedToolCall:
        command = _find_command(params.command.strip().removeprefix("/"), ctx)
        args = params.args or ""
        mode = command.mode if find_mode(command.mode or "", ctx.modes) else None
        switch = (Claim(Access.SWITCH_MODE),) if mode and mode != ctx.mode.slug else ()
        facts = {
            "Command": f"/{command.name}",
            "Description": command.description,
            "Argument hint": command.argument_hint,
            "Mode": command.mode or "",
            "Provided arguments": args,
            "Source": command.source,
        }
        return PreparedToolCall(
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
            outcome=Outcome(
                format_guidance(
                    facts, "Command Content", fill_arguments(command.content, args.strip())
                ),
                directive=ChangeMode(mode) if mode and switch else None,
            ),
        )


def _find_command(name: str, ctx: ToolContext) -> SlashCommand:
    """Find a command of this name, else a skill of this name."""
    customizations = ctx.capabilities.customizations
    known_names: set[str] = set()
    if customizations is not None:
        commands = {command.name: command for command in customizations.list_commands()}
        if name in commands:
            return commands[name]
        skills = {skill.name: skill for skill in customizations.list_skills(ctx.mode)}
        if skill := skills.get(name):
            text = customizations.read_skill(skill)
            return SlashCommand(name, text, skill.description, source=skill.source)
        known_names = {*commands, *skills}
    known = ", ".join(sorted(known_names)) or "(none)"
    raise ToolError(f"There is no command '{name}'. Available: {known}.")
