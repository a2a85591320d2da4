"""The `execute_command` tool: runs a shell command, waits within limits, reports how it went.

Long output is previewed and the rest kept in a file for `read_command_output`. When a failure looks
like a restriction of the sandbox, the model is told what the sandbox forbids.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Meta, Struct, structs

from joey.core.check_commands import hides_failures
from joey.core.models import ToolProtocol
from joey.core.modes import ToolGroup
from joey.core.path_access import ResolvedPath
from joey.core.permissions.hosts import NetworkSetting, list_entries
from joey.core.permissions.policy import (
    Allow,
    SandboxStatus,
    is_read_unasked,
    is_reading_enabled,
)
from joey.core.settings import Settings
from joey.core.task_types import Answer, AskKind, CallEnding, RowKind
from joey.core.terminal_text import format_size
from joey.core.text import (
    compile_regex,
    is_escaped_as_markup,
    strip_code_fence,
    unescape_entities,
)
from joey.errors import ToolError
from joey.ports.execution import CommandExit, RunningCommand, SandboxLevel, SandboxReport, Terminal
from joey.ports.tool_context import ToolContext
from joey.tools.base import (
    Access,
    Claim,
    LiveOutput,
    Outcome,
    PreparedToolCall,
    Tool,
    suggest_paths,
)
from joey.tools.parameters import XML_ONLY

log = logging.getLogger(__name__)

DEFAULT_WAIT_S = 120.0
"""After which a command without a `timeout` goes to the background, unless a limit of the user's
would kill it."""

MIN_MILLISECONDS = 10_000
"""A `timeout` from here on is in milliseconds, which other agents' tools take."""


class ExecuteCommandParams(Struct, frozen=True):
    command: Annotated[str, Meta(description="The shell command to run.", extra=XML_ONLY)]
    cwd: Annotated[
        str | None,
        Meta(description="Folder to run it in; defaults to the workspace.", extra=XML_ONLY),
    ] = None
    timeout: Annotated[
        float | None,
        Meta(description="Seconds to wait; defaults to about two minutes.", extra=XML_ONLY),
    ] = None


class PreparedCommand(PreparedToolCall, frozen=True, kw_only=True):
    command: str
    cwd: Path
    timeout: float | None
    preamble: str = ""
    """Shell code before a command that only reads: it keeps git from starting programs."""


class ExecuteCommand(Tool[ExecuteCommandParams, PreparedCommand]):
    name: ClassVar[str] = "execute_command"
    group: ClassVar[ToolGroup] = ToolGroup.COMMAND
    params: ClassVar[type[Struct]] = ExecuteCommandParams
    required_texts: ClassVar[tuple[str, ...]] = ("command",)

    def __init__(self, default_wait_s: float = DEFAULT_WAIT_S) -> None:
        self._default_wait_s = default_wait_s

    def prewarm(self, terminal: Terminal) -> None:
        terminal.prewarm()

    async def prepare(self, params: ExecuteCommandParams, ctx: ToolContext) -> PreparedCommand:
        command = params.command
        if ctx.protocol is ToolProtocol.XML and is_escaped_as_markup(command):
            command = unescape_entities(command)
        command = _clean_command(command)
        path = ctx.files.resolve(params.cwd or ".")
        if path.is_inside and not (await ctx.files.stat(path)).is_dir:
            near = await suggest_paths(ctx, path)
            raise ToolError(f"Working directory '{path.path}' does not exist.{near}")
        report = await ctx.terminal.get_sandbox_report()
        sandbox: SandboxStatus = "off" if report is None else report.level.value
        run = Claim(
            Access.EXECUTE,
            path,
            command=command,
            sandbox=sandbox,
            has_hidden_files=ctx.files.may_have_hidden_files(),
        )
        claims, inside_paths = await _find_path_claims(command, path, run, ctx)
        run = structs.replace(run, inside_paths=inside_paths)
        return PreparedCommand(
            claims=(run, *claims),
            row={},
            row_text=command,
            ask_kind=AskKind.COMMAND,
            path=path.display_path if path.path != ctx.files.root else None,
            command=command,
            cwd=path.path,
            timeout=_compute_wait_s(params.timeout),
            preamble=_build_preamble(run, ctx),
        )

    async def run_prepared(
        self, prepared: PreparedCommand, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        artifact = ctx.artifacts_directory / f"cmd-{ctx.row_ts}.txt"
        limit = get_kill_timeout(prepared.command, ctx.settings)
        live = LiveOutput(ctx.on_output)
        ctx.read_tracker.has_command_run = True
        network = ctx.settings.sandbox_network if ctx.read_network is None else ctx.read_network()
        if answer is not None and answer.network:
            network = "all"
        running = await ctx.terminal.start(
            prepared.command,
            prepared.cwd,
            artifact,
            live.write,
            network,
            preamble="" if answer is not None else prepared.preamble,
        )
        wait_s = prepared.timeout
        if wait_s is None and limit is None:
            wait_s = self._default_wait_s
        try:
            # Reaching the limit cancels the wait, which kills the command.
            async with asyncio.timeout(limit):
                end = await running.wait(wait_s)
        except TimeoutError:
            return build_timeout_outcome(CommandReport(running, artifact, ctx), ctx.settings)
        finally:
            live.close()
        running.is_expected_to_end = end is None and prepared.timeout is None
        running.is_end_recorded = end is not None
        outcome = build_command_outcome(CommandReport(running, artifact, ctx), end)
        report = await ctx.terminal.get_sandbox_report()
        if report is not None and report.level is not SandboxLevel.NONE:
            hidden = await asyncio.to_thread(find_hidden_paths, outcome.text, ctx.terminal)
            if hidden:
                return structs.replace(outcome, text=outcome.text + _render_hidden_paths(hidden))
            if report.level is SandboxLevel.FULL and os.geteuid() == 0:
                foreign = await asyncio.to_thread(
                    find_foreign_paths, outcome.text, prepared.cwd, ctx.files.root
                )
                if foreign:
                    return structs.replace(
                        outcome, text=outcome.text + _render_foreign_paths(foreign)
                    )
        is_known = ctx.terminal.is_sandbox_explained
        noted = add_sandbox_note(outcome, report, network, is_known=is_known)
        ctx.terminal.is_sandbox_explained |= noted is not outcome
        only_reads = bool(prepared.preamble) and answer is None
        if report is None or only_reads or not lacked_network(prepared.command, outcome, network):
            return noted
        return structs.replace(noted, lacked_network=report.level is not SandboxLevel.NONE)


def lacked_network(command: str, outcome: Outcome, network: NetworkSetting) -> bool:
    """Whether a failure looks like a lack of network access."""
    has_failed = bool(outcome.exit_code) or hides_failures(command)
    return (
        network != "all"
        and has_failed
        and outcome.exit_code is not None
        and _NETWORK_ERROR_RE.search(outcome.text) is not None
    )


def _build_preamble(claim: Claim, ctx: ToolContext) -> str:
    """Build the preamble of a line that runs only because it reads; empty for one that rules
    allow."""
    settings, command = ctx.settings, claim.command or ""
    if not is_read_unasked(claim, settings):
        return ""
    # Loaded already to judge the line.
    from joey.core.permissions.commands import judge_command
    from joey.core.permissions.reading_commands import build_reading_preamble

    is_allowed_by_rule = settings.always_allow_execute and isinstance(
        judge_command(
            command, settings.allowed_commands, settings.denied_commands, claim.inside_paths
        ),
        Allow,
    )
    return "" if is_allowed_by_rule else build_reading_preamble(command, ctx.files.root)


def _clean_command(command: str) -> str:
    """Strip the code fence, and the `$ ` prompts that models copy from documents."""
    if (body := strip_code_fence(command)) != command:
        command = body.strip("\n")
    lines = command.lstrip().split("\n")
    if not lines[0].startswith("$ "):
        return command
    count = len(lines) if all(line.startswith("$ ") for line in lines if line.strip()) else 1
    return "\n".join([*(line.removeprefix("$ ") for line in lines[:count]), *lines[count:]])


async def _find_path_claims(
    command: str, cwd: ResolvedPath, run: Claim, ctx: ToolContext
) -> tuple[list[Claim], frozenset[str] | None]:
    """Find where else the line leads, and which words stay inside; an error here is one more reason
    to ask."""
    # Their tables of programs are slow to load, and no request waits for them.
    from joey.core.permissions.reading_commands import READING_RULES
    from joey.tools.command_paths import (
        PathLookupCache,
        find_ignored_file_claims,
        find_outside_and_protected_claims,
    )

    lookups = PathLookupCache(ctx.files)
    readers = READING_RULES if is_reading_enabled(run, ctx.settings) else ()
    try:
        hidden = await find_ignored_file_claims(command, cwd.path, lookups)
        outside, inside_paths = await find_outside_and_protected_claims(
            command, cwd, (*ctx.settings.allowed_commands, *readers), lookups
        )
    except Exception:
        log.exception("where a command leads could not be found out")
        return [Claim(Access.EXECUTE, path=cwd)], None
    return [*hidden, *outside], inside_paths


def _compute_wait_s(timeout: float | None) -> float | None:
    if timeout is None or timeout <= 0:
        return None
    return timeout / 1000 if timeout >= MIN_MILLISECONDS else timeout


def get_kill_timeout(command: str, settings: Settings) -> float | None:
    """Return the seconds after which the command is killed; the user's allow-list matches whole
    words."""
    command_parts = command.split()
    for exempt in settings.command_timeout_allowlist:
        prefix = exempt.split()
        if prefix and command_parts[: len(prefix)] == prefix:
            return None
    return settings.command_execution_timeout if settings.command_execution_timeout > 0 else None


PREVIEW_BYTES_BY_SETTING = {"small": 5 * 1024, "medium": 10 * 1024, "large": 20 * 1024}

_CORE_DUMP_SIGNALS = frozenset({"SIGQUIT", "SIGILL", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSEGV"})


class CommandReport:
    """The reported output of a command: all of it, or a preview and the path of the rest."""

    def __init__(self, running: RunningCommand, artifact: Path, ctx: ToolContext) -> None:
        budget = PREVIEW_BYTES_BY_SETTING[ctx.settings.terminal_output_preview_size]
        self.artifact_path = artifact
        self.where = "" if running.cwd == ctx.files.root else f" in {running.cwd.as_posix()}"
        """Told if it is not the workspace."""
        self.total_bytes = running.output_bytes
        self.is_truncated = self.total_bytes > budget
        self.output = running.render_truncated(budget)
        # Later reports about the command do not repeat what this one shows.
        running.read_new_output()

    @property
    def rows(self) -> tuple[tuple[RowKind, str], ...]:
        return ((RowKind.COMMAND_OUTPUT, self.output),) if self.output else ()

    def format_persisted_output(self) -> str:
        """Format the part of a result that replaces output too long to show."""
        try:
            kept = self.artifact_path.stat().st_size
        except OSError:
            kept = 0  # It could not be written, which the terminal has logged.
        missing = (
            "" if kept >= self.total_bytes else f" (only the first {format_size(kept)} are kept)"
        )
        return (
            f"Output is {format_size(self.total_bytes)}; saved as {self.artifact_path.name}"
            f"{missing}\nPreview:\n{self.output}\n\n"
            "Read or search all of it with read_command_output."
        )


def build_command_outcome(report: CommandReport, end: CommandExit | None) -> Outcome:
    if end is None:
        return Outcome(_format_still_running(report), rows=report.rows, ending=CallEnding.RUNNING)
    text = f"{format_exit_status(end)}{report.where}\n"
    if report.is_truncated:
        text += report.format_persisted_output()
    else:
        text += f"Output:\n{report.output}"
        if not end.has_background_processes:
            _remove_file(report.artifact_path)
    if end.has_background_processes:
        text += (
            "\n\nProcesses that the command put in the background keep running. You will see their"
            " new output with the next messages. To end them, call read_command_output with"
            f" artifact_id {report.artifact_path.name} and `stop`."
        )
    return Outcome(
        text,
        rows=report.rows,
        exit_code=end.exit_code,
        signal=end.signal,
        has_background_processes=end.has_background_processes,
    )


def _format_still_running(report: CommandReport) -> str:
    shown = (
        report.format_persisted_output()
        if report.is_truncated
        else f"Output so far:\n{report.output or '(none yet)'}"
    )
    return (
        f"The command is still running{report.where}.\n{shown}\n\n"
        "It continues in the background; you will see new output with the next messages. Call"
        f" read_command_output with artifact_id {report.artifact_path.name} and `stop` to end it,"
        " or `wait` (seconds) to wait for its end."
    )


def build_timeout_outcome(report: CommandReport, settings: Settings) -> Outcome:
    problem = (
        f"The command was terminated because it ran longer than the"
        f" {settings.command_execution_timeout} s that the user allows. Do not run it again as it"
        " is; find a way that takes less time."
    )
    if report.is_truncated:
        shown = report.format_persisted_output()
    else:
        shown = f"Output:\n{report.output}"
        _remove_file(report.artifact_path)
    text = f"{problem}\n{shown}"
    return Outcome(text, is_error=True, rows=(*report.rows, (RowKind.ERROR, problem)))


def format_exit_status(end: CommandExit) -> str:
    if end.signal is not None:
        dump = " - core dump possible" if end.signal in _CORE_DUMP_SIGNALS else ""
        return f"Process terminated by signal {end.signal}{dump}"
    match end.exit_code:
        case None:
            return "Exit code: <undefined, notify user>"
        case code:
            return f"Exit code: {code}{_describe_likely_signal(code)}"


def _describe_likely_signal(code: int) -> str:
    """Describe the likely signal: shells report 128 plus its number."""
    try:
        return f" (128 + {code - 128}: perhaps {signal.Signals(code - 128).name})"
    except ValueError:
        return ""


def _remove_file(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s is not needed but could not be removed: %s", path, error)


_SANDBOX_ERROR_RE = compile_regex(
    "Read-only file system|Permission denied|Operation not permitted|resource busy|EROFS|EACCES"
    "|EPERM|ECONNREFUSED|Connection refused|Failed to connect"
)
_MISSING_FILE_RE = compile_regex("No such file|not found|cannot access|Permission denied")
_ABSOLUTE_PATH_RE = compile_regex(r"""(?<![\w.])/[^\s:;,'"`‘’()<>|&]+""")
_FORBIDDEN_RE = compile_regex("Permission denied|Operation not permitted|EACCES|EPERM")
_PATH_RE = compile_regex(r"""[^\s:;,'"`‘’()<>|&]+""")
_MAX_CHECKED_PATHS = 20
_NETWORK_ERROR_RE = compile_regex(
    "ENETUNREACH|EAI_AGAIN|ENOTFOUND|Network is unreachable|name resolution|resolve host"
    "|Name or service not known|no such host|dns error|No matching distribution found"
    r"|\[joey: network: refused "
)
"""Tells enough also where a pipe hides the exit code (`npm install | tail`)."""

_REFUSED_SOCKET_RE = compile_regex(
    r"(?s)socket.{0,200}Permission denied|(?:listen|connect|bind) EACCES|urlopen error \[Errno 13\]"
    r"|connect to (?:localhost|127\.0\.0\.1|::1)"
)
_NO_LOOPBACK_NOTE = (
    "\n\nThe sandbox of this machine (level landlock) lets commands open no sockets, not even on"
    " 127.0.0.1: servers can be neither started nor reached. Test the code without one, or tell the"
    " user that commands can use 127.0.0.1 once bubblewrap is installed."
)
_MAX_SHOWN_HOSTS = 20
_MAX_NOTED_CHARS = 200


def find_hidden_paths(output: str, terminal: Terminal) -> list[str]:
    """Find paths that the output calls missing although they exist, hidden from sandboxed
    commands."""
    lines = (line for line in output.splitlines() if _MISSING_FILE_RE.search(line))
    named = dict.fromkeys(path for line in lines for path in _ABSOLUTE_PATH_RE.findall(line))
    return [path for path in list(named)[:_MAX_CHECKED_PATHS] if terminal.is_hidden(Path(path))]


def _render_hidden_paths(paths: Sequence[str]) -> str:
    return (
        "\n\nThe command ran in a sandbox, in which these paths are not visible, although they"
        f" exist: {', '.join(paths)}. Only the user can change that, with the flag --add-dir"
        " DIRECTORY or the setting sandboxReadable. Find another way, or tell the user what is"
        " needed."
    )


def find_foreign_paths(output: str, cwd: Path, root: Path) -> list[str]:
    """Find workspace paths that the output calls forbidden and that belong to another user; for a
    missing one, its directory."""
    lines = (line for line in output.splitlines() if _FORBIDDEN_RE.search(line))
    names = (name for line in lines for name in _PATH_RE.findall(line))
    named = dict.fromkeys(Path(os.path.normpath(cwd / name)) for name in names)
    existing = dict.fromkeys(path if os.path.lexists(path) else path.parent for path in named)
    return [
        os.path.relpath(path, root)
        for path in list(existing)[:_MAX_CHECKED_PATHS]
        if path.is_relative_to(root) and os.path.lexists(path) and path.lstat().st_uid
    ]


def _render_foreign_paths(paths: Sequence[str]) -> str:
    return (
        "\n\nThe command ran in a sandbox, in which root can change only its own files. These"
        f" belong to another user: {', '.join(paths)}. Change files with the file tools instead,"
        " or tell the user to change their owner."
    )


def add_sandbox_note(
    outcome: Outcome,
    report: SandboxReport | None,
    network: NetworkSetting,
    *,
    is_known: bool = False,
) -> Outcome:
    """Describe what the sandbox forbids, for a failure that looks like it; if that `is_known`, only
    with the line that shows it."""
    level = SandboxLevel.NONE if report is None else report.level
    has_no_sockets = level is SandboxLevel.LANDLOCK and network == "off"
    if has_no_sockets and _REFUSED_SOCKET_RE.search(outcome.text):
        return structs.replace(outcome, text=outcome.text + _NO_LOOPBACK_NOTE)
    is_barred = bool(outcome.exit_code) and _SANDBOX_ERROR_RE.search(outcome.text)
    is_offline = network != "all" and _NETWORK_ERROR_RE.search(outcome.text)
    if level is SandboxLevel.NONE or not (is_barred or is_offline):
        return outcome
    if is_known:
        pattern = _NETWORK_ERROR_RE if is_offline else _SANDBOX_ERROR_RE
        line = next(line for line in outcome.text.splitlines() if pattern.search(line))
        barrier = "has no such network access" if is_offline else "may not allow this"
        note = f"\n\nThe sandbox {barrier}: {line.strip()[:_MAX_NOTED_CHARS]}"
        return structs.replace(outcome, text=outcome.text + note)
    match network:
        case "all":
            reach = ""
        case "off":
            reach = ", and it reaches no network" + (
                " but 127.0.0.1, where it finds servers of this task's other commands"
                if level is SandboxLevel.FULL
                else ""
            )
        case setting:
            hosts = list_entries(setting)
            shown = ", ".join(hosts[:_MAX_SHOWN_HOSTS]) + (
                ", …" if len(hosts) > _MAX_SHOWN_HOSTS else ""
            )
            reach = f", and by HTTP proxy it reaches only {shown or 'nobody'}"
    note = (
        "\n\nThe command ran in a sandbox: it can write only to the workspace (but not to files"
        " marked 🛡️, .git/hooks or .git/config) and $TMPDIR; of the home directory it sees only"
        f" installed tools{reach}. If that is why something failed, do not try to get around it:"
        " find another way, or tell the user what is needed."
    )
    return structs.replace(outcome, text=outcome.text + note)
