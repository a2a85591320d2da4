"""The `read_command_output` tool: stored output of commands, and control of background commands."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, BinaryIO, ClassVar

from msgspec import Meta, Struct, structs

from joey.core.modes import ToolGroup
from joey.core.task_types import Answer, CallEnding
from joey.core.terminal_text import count_incomplete_utf8_bytes, format_size
from joey.core.text import compile_regex, number_lines
from joey.errors import TargetNotFoundError, ToolError
from joey.ports.execution import RunningCommand
from joey.ports.tool_context import ToolContext
from joey.ports.workspace import LineMatches
from joey.tools.base import (
    Access,
    Claim,
    Outcome,
    PreparedToolCall,
    Tool,
)
from joey.tools.execute_command import format_exit_status
from joey.tools.parameters import XML_ONLY

MAX_WAIT_S = 600.0
DEFAULT_LIMIT_BYTES = 40 * 1024
MAX_LIMIT_BYTES = 512 * 1024

_MAX_LISTED_ARTIFACTS = 3
_ARTIFACT_ID_RE = compile_regex(r"cmd-[0-9]{1,20}\.txt")
_CHUNK_BYTES = 64 * 1024


class ReadCommandOutputParams(Struct, frozen=True):
    artifact_id: Annotated[
        str, Meta(description="ID from the command's result, e.g. cmd-1706119234567.txt.")
    ]
    search: Annotated[
        str | None,
        Meta(description="Only lines that match this regular expression.", extra=XML_ONLY),
    ] = None
    offset: Annotated[int | None, Meta(description="First byte; defaults to 0.")] = None
    limit: Annotated[int | None, Meta(description="Number of bytes; defaults to 40960.")] = None
    wait: Annotated[
        float | None,
        Meta(description="Seconds to wait for the end, up to 600."),
    ] = None
    stop: Annotated[bool | None, Meta(description="true: end the command.", extra=XML_ONLY)] = None


class PreparedOutputRead(PreparedToolCall, frozen=True, kw_only=True):
    running: RunningCommand | None = None
    """The command to wait for or to stop; None where the output is only read."""
    wait_s: float = 0.0
    stops: bool = False


class ReadCommandOutput(Tool[ReadCommandOutputParams, PreparedOutputRead]):
    name: ClassVar[str] = "read_command_output"
    group: ClassVar[ToolGroup] = ToolGroup.COMMAND
    params: ClassVar[type[Struct]] = ReadCommandOutputParams
    can_run_in_parallel: ClassVar[bool] = True

    async def prepare(
        self, params: ReadCommandOutputParams, ctx: ToolContext
    ) -> PreparedOutputRead:
        matching = (
            command
            for command in ctx.terminal.background_commands
            if command.artifact is not None and command.artifact.name == params.artifact_id
        )
        running = next(matching, None)
        is_silent = running is not None and not running.output_bytes
        if running is not None and (params.wait or params.stop or is_silent):
            return _prepare_control(running, params)
        path, size = await asyncio.to_thread(
            _find_artifact, ctx.artifacts_directory, params.artifact_id
        )
        read = await self._prepare_read(params, ctx, path, size)
        if not (params.wait or params.stop):
            return read
        assert read.outcome is not None
        text = f"The command is not running any more.\n{read.outcome.text}"
        return structs.replace(read, outcome=Outcome(text))

    async def run_prepared(
        self, prepared: PreparedOutputRead, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        running = prepared.running
        if running is None:
            return await super().run_prepared(prepared, ctx, answer)
        if prepared.stops:
            was_running, shell_exit = running.is_running, running.exit
            await running.kill()
            state = "left" if shell_exit is not None else "stopped"
            return _build_control_outcome(running, state if was_running else "ended")
        await running.wait_for_processes(prepared.wait_s)
        return _build_control_outcome(running, "running" if running.is_running else "ended")

    async def _prepare_read(
        self, params: ReadCommandOutputParams, ctx: ToolContext, path: Path, size: int
    ) -> PreparedOutputRead:
        offset = params.offset or 0
        if offset and not 0 <= offset < size:
            raise ToolError(
                f"Error: offset {offset} is not in the output, which is {size} bytes long (0 to"
                f" {size - 1} can be read)."
            )
        if params.limit is not None and params.limit <= 0:
            raise ToolError(f"Error: limit must be a positive number of bytes, not {params.limit}.")
        limit = min(params.limit or DEFAULT_LIMIT_BYTES, MAX_LIMIT_BYTES)
        if params.search:
            found = await ctx.search.search_lines(path, params.search, limit, offset)
            return _render_search(path, size, params.search, found, offset)
        return await asyncio.to_thread(_read_range, path, size, offset, limit)


def _prepare_control(
    running: RunningCommand, params: ReadCommandOutputParams
) -> PreparedOutputRead:
    wait_s = min(max(params.wait or 0.0, 0.0), MAX_WAIT_S)
    row: dict[str, object] = {"tool": "readCommandOutput", "command": running.command}
    row |= {"stop": True} if params.stop else {"wait": wait_s}
    return PreparedOutputRead(
        claims=(Claim(Access.NONE),),
        row=row,
        running=running,
        wait_s=wait_s,
        stops=bool(params.stop),
    )


def _build_control_outcome(running: RunningCommand, state: str) -> Outcome:
    output = running.read_new_output()
    shown = f"New output:\n{output}" if output else "No new output."
    if state == "running":
        text = (
            f"The command is still running ({running.running_s:.0f} s so far).\n{shown}\n\n"
            "Call this again with `wait` to wait longer, or with `stop` to end it."
        )
        return Outcome(text, ending=CallEnding.RUNNING)
    assert running.exit is not None
    running.is_end_recorded = True
    if state == "left":
        return Outcome(
            "The processes that the command left in the background were stopped. Before that:"
            f" {format_exit_status(running.exit)}\n{shown}"
        )
    if state == "stopped":
        end = running.exit
        status = f"exit code {end.exit_code}" if end.signal is None else f"signal {end.signal}"
        return Outcome(f"The command and all its processes were stopped ({status}).\n{shown}")
    return Outcome(
        f"The command has ended. {format_exit_status(running.exit)}\n{shown}",
        exit_code=running.exit.exit_code,
        signal=running.exit.signal,
    )


def _find_artifact(artifacts: Path, artifact_id: str) -> tuple[Path, int]:
    if not _ARTIFACT_ID_RE.fullmatch(artifact_id):
        raise ToolError(
            f'Error: "{artifact_id}" is not an artifact ID. Expected format: cmd-<digits>.txt, as'
            " named in the result of execute_command."
        )
    path = artifacts / artifact_id
    if path.is_symlink() or not path.is_file():
        kept = sorted(each.name for each in artifacts.glob("cmd-*.txt"))[-_MAX_LISTED_ARTIFACTS:]
        listed = f" The latest are: {', '.join(kept)}." if kept else ""
        raise TargetNotFoundError(
            f"Error: there is no artifact {artifact_id}. Short outputs are not kept: they were"
            f" shown whole in the result of their command.{listed}"
        )
    return path, path.stat().st_size


def _read_range(path: Path, size: int, offset: int, limit: int) -> PreparedOutputRead:
    with path.open("rb") as file:
        first_line = _count_newlines(file, offset) + 1
        data = file.read(limit)
    if offset + len(data) < size:
        data = data[: len(data) - count_incomplete_utf8_bytes(data)] or data
    end = offset + len(data)
    state = "TRUNCATED" if end < size else "COMPLETE"
    lines = number_lines(data.decode("utf-8", errors="replace"), first_line).removesuffix("\n")
    return PreparedOutputRead(
        claims=(Claim(Access.NONE),),
        row={"tool": "readCommandOutput", "readStart": offset, "readEnd": end, "totalBytes": size},
        outcome=Outcome(
            f"[Command Output: {path.name}]\nTotal size: {format_size(size, ' bytes')}"
            f" | Showing bytes {offset}-{end} | {state}\n{lines}"
        ),
    )


def _count_newlines(file: BinaryIO, stop: int) -> int:
    """Count the newlines before the byte `stop`, where the file is then positioned."""
    count = 0
    while stop > 0 and (chunk := file.read(min(stop, _CHUNK_BYTES))):
        count += chunk.count(b"\n")
        stop -= len(chunk)
    return count


def _render_search(
    path: Path, size: int, pattern: str, found: LineMatches, offset: int
) -> PreparedOutputRead:
    header = f'[Command Output: {path.name}] (search: "{pattern}")'
    total = f"Total size: {format_size(size, ' bytes')}"
    if found.lines:
        shown = "\n".join(f"{number:>5} | {line}" for number, line in found.lines)
        first = found.skipped_count
        numbers = f"{first + 1} to {first + len(found.lines)}" if first else len(found.lines)
        counts = (
            f"Total matches: {found.match_count} | Showing {'' if first else 'first '}{numbers}"
        )
        text = f"{header}\n{counts}\n{shown}"
        if found.next_offset is not None:
            left = found.match_count - first - len(found.lines)
            text += f"\n[{left} more; continue with offset {found.next_offset}.]"
    else:
        where = f" from byte {offset} on" if offset else ""
        text = f"{header}\n{total}\nNo line matches{where}."
    row = {
        "tool": "readCommandOutput",
        "readStart": 0,
        "readEnd": size,
        "totalBytes": size,
        "searchPattern": pattern,
        "matchCount": found.match_count,
    }
    return PreparedOutputRead(claims=(Claim(Access.NONE),), row=row, outcome=Outcome(text))
