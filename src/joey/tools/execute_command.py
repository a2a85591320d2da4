"""Run a shell command, wait for it within bounds, and say how it went."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from joey.core.models import ToolProtocol
from joey.core.modes import Group
from joey.core.permissions.policy import Confinement
from joey.core.settings import Settings
from joey.core.task import Answer, AskKind
from joey.core.text import unescape_entities
from joey.errors import ToolError
from joey.ports import Place, Terminal, ToolContext
from joey.tools.arguments import convert, missing
from joey.tools.base import Access, Claim, Outcome, Prepared, Tool
from joey.tools.command_confinement import explained
from joey.tools.command_report import CommandReport, ended_or_running, killed_by_limit
from joey.tools.live_output import LiveOutput

log = logging.getLogger(__name__)


class ExecuteCommandParams(Struct, frozen=True):
    command: Annotated[str, Meta(description="The shell command to run.")]
    cwd: Annotated[
        str | None,
        Meta(description="Folder to run it in; null for the workspace folder."),
    ] = None
    timeout: Annotated[
        float | None,
        Meta(
            description="Seconds to wait for the end. After them the command goes on in the"
            " background and its output so far is returned. Null waits until it has ended."
        ),
    ] = None


class PreparedCommand(Prepared, frozen=True, kw_only=True):
    command: str
    cwd: Path
    timeout: float | None


class ExecuteCommand(Tool[ExecuteCommandParams, PreparedCommand]):
    name: ClassVar[str] = "execute_command"
    group: ClassVar[Group] = Group.COMMAND
    params: ClassVar[type[Struct]] = ExecuteCommandParams

    def parse(self, arguments: dict[str, Any]) -> ExecuteCommandParams:
        params = convert(arguments, ExecuteCommandParams, self.name)
        if not params.command.strip():
            raise missing(self.name, "command")
        return params

    def foresee(self, terminal: Terminal) -> None:
        terminal.expect()

    async def prepare(self, params: ExecuteCommandParams, ctx: ToolContext) -> PreparedCommand:
        command = params.command
        if ctx.protocol is ToolProtocol.XML:
            command = unescape_entities(command)
        place = ctx.files.resolve(params.cwd or ".")
        if place.inside and not (await ctx.files.stat(place)).is_dir:
            raise ToolError(f"Working directory '{place.path}' does not exist.")
        return PreparedCommand(
            claims=(
                Claim(
                    Access.EXECUTE,
                    place=place,
                    command=command,
                    sandbox=await _confinement(ctx),
                ),
                *await _reached(command, place, ctx),
            ),
            row={},
            row_text=command,
            ask=AskKind.COMMAND,
            path=place.shown if place.path != ctx.files.root else None,
            command=command,
            cwd=place.path,
            timeout=params.timeout if params.timeout and params.timeout > 0 else None,
        )

    async def run(
        self, prepared: PreparedCommand, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        artifact = ctx.artifacts / f"cmd-{ctx.row_ts}.txt"
        limit = time_limit(prepared.command, ctx.settings)
        live = LiveOutput(ctx.on_output)
        running = await ctx.terminal.start(prepared.command, prepared.cwd, artifact, live.feed)
        try:
            # Running into the limit cancels the wait, and that kills the command.
            async with asyncio.timeout(limit):
                end = await running.wait(prepared.timeout)
        except TimeoutError:
            return killed_by_limit(CommandReport(running, artifact, ctx.settings), ctx.settings)
        finally:
            live.close()
        outcome = ended_or_running(CommandReport(running, artifact, ctx.settings), end)
        return explained(outcome, await ctx.terminal.confinement(), ctx.settings)


async def _reached(command: str, cwd: Place, ctx: ToolContext) -> list[Claim]:
    """Where else the line leads; a fault in finding out is one more reason to ask."""
    # It knows many programs, which takes long to load; no request waits for it.
    from joey.tools.command_reach import Lookups, hidden_reads, reached_outside

    lookups = Lookups(ctx.files)
    try:
        hidden = await hidden_reads(command, cwd.path, lookups)
        outside = await reached_outside(command, cwd, ctx.settings.allowed_commands, lookups)
    except Exception:
        log.exception("where a command leads could not be found out")
        return [Claim(Access.EXECUTE, place=cwd)]
    return [*hidden, *outside]


async def _confinement(ctx: ToolContext) -> Confinement:
    report = await ctx.terminal.confinement()
    return "off" if report is None else report.level.value


def time_limit(command: str, settings: Settings) -> float | None:
    """Seconds after which the command is killed; the user's allow-list goes by whole words."""
    words = command.split()
    for exempt in settings.command_timeout_allowlist:
        prefix = exempt.split()
        if prefix and words[: len(prefix)] == prefix:
            return None
    return settings.command_execution_timeout if settings.command_execution_timeout > 0 else None
