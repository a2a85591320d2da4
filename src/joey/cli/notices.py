"""Notices about a task for the user: model, warnings, MCP servers, cost, commands left running.

All front ends of the command line print them. A task itself waits a few seconds for its MCP servers
before its first request, and continues without those that are not ready by then;
`McpStartupReporter` only reports that. Untrusted programs of a workspace are only looked for from
outside: most have none, and need not load `trust`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from joey import __version__
from joey.app.mcp_pool import list_mcp_config_problems
from joey.app.model_choice import is_local_provider
from joey.app.options import collect_settings_warnings
from joey.core.events import Event, RequestStarted, TokenUsage
from joey.core.mcp import McpServer, McpStatus
from joey.core.models import Prices
from joey.core.redaction import remove_secrets
from joey.core.settings import Limits, Settings
from joey.engine.engine import ResolvedTaskOptions
from joey.engine.task import Task
from joey.ports.execution import RunningCommand
from joey.ports.extensions import Mcp
from joey.presentation.text import get_terminal_width, to_one_line, wrap


def format_banner(options: ResolvedTaskOptions) -> str:
    """`joey 0.1.0 · some-model (provider) · ~/project`."""
    profile, workspace = options.profile, options.workspace
    where = f" at {_format_redacted_url(profile.base_url)}" if profile.base_url else ""
    model = f"{profile.model} ({profile.provider}{where})"
    return f"joey {__version__} · {model} · {format_directory(workspace)}"


_PROTOCOL_NAMES = {"anthropic": "Anthropic", "openai": "OpenAI", "ollama": "Ollama"}


def describe_endpoint(provider: str, base_url: str | None) -> str:
    """Describe the server that prompts are sent to, if it is not the provider's own."""
    if not base_url:
        return ""
    protocol = _PROTOCOL_NAMES.get(provider, provider)
    return f"{_format_redacted_url(base_url)} ({protocol} protocol)"


def _format_redacted_url(url: str) -> str:
    return to_one_line(str(remove_secrets(url)), 200)


def format_directory(directory: Path) -> str:
    home = Path.home()
    return f"~/{directory.relative_to(home)}" if directory.is_relative_to(home) else str(directory)


MCP_WAIT_MESSAGE_DELAY_S = 1.0


class McpStartupReporter:
    def __init__(self, mcp: Mcp | None, print_line: Callable[[str], None]) -> None:
        self._mcp = mcp
        self._print_line = print_line
        self._has_request_started = False
        """The model has been asked: nobody is waited for any more."""

    @contextmanager
    def announce_wait(self) -> Iterator[None]:
        """Announce what is waited for at the start of a task."""
        if self._mcp is None:
            yield
            return
        timer = asyncio.get_running_loop().call_later(MCP_WAIT_MESSAGE_DELAY_S, self.report_waiting)
        try:
            yield
        finally:
            timer.cancel()

    def handle(self, event: Event) -> None:
        if isinstance(event, RequestStarted) and not self._has_request_started:
            self._has_request_started = True
            for server in self._list_unready_servers():
                why = server.error or "it is still starting"
                self._print_line(
                    f"the MCP server {to_one_line(server.name)} is not ready; its tools are "
                    f"missing: {to_one_line(why, 300)}"
                )

    def report_waiting(self) -> None:
        names = [
            to_one_line(each.name)
            for each in self._list_unready_servers()
            if each.status is McpStatus.CONNECTING
        ]
        if names and not self._has_request_started:
            self._print_line(f"waiting for MCP servers: {', '.join(names)}…")

    def _list_unready_servers(self) -> list[McpServer]:
        """List expected servers that are not ready; disabled and untrusted ones are reported
        elsewhere."""
        servers = () if self._mcp is None else self._mcp.servers
        unready = (McpStatus.CONNECTING, McpStatus.DISCONNECTED)
        return [each for each in servers if each.status in unready]


MAX_COMMAND_CHARS = 200


def list_background_commands(task: Task) -> list[RunningCommand]:
    """List background commands that are still running."""
    return [each for each in task.runtime.terminal.background_commands if each.is_running]


def describe_ended_background_commands(task: Task) -> Iterator[str]:
    """Describe each background command that ends with joey, in a line."""
    for each in list_background_commands(task):
        yield (
            "ended, because it ran in the background: "
            f"{to_one_line(each.command, MAX_COMMAND_CHARS)}"
        )


def format_usage(usage: TokenUsage) -> str:
    """`12.5k tokens in, 1.9k out, $0.0312`."""
    tokens = (
        f"{_format_count(usage.total_tokens_in)} tokens in, "
        f"{_format_count(usage.total_tokens_out)} out"
    )
    return f"{tokens}, ${usage.total_cost:.4f}" if usage.total_cost else tokens


def format_total_usage(usage: TokenUsage) -> str:
    """`14.4k tokens in all requests, $0.0312`."""
    count = usage.total_tokens_in + usage.total_tokens_out
    tokens = f"{_format_count(count)} tokens in all requests"
    return f"{tokens}, ${usage.total_cost:.4f}" if usage.total_cost else tokens


def describe_price(model: str, prices: Prices | None) -> str:
    """Format a price, `some-model costs $2 in, $10 out per million tokens`; empty if free or not
    known."""
    if prices is None or not prices.input + prices.output:
        return ""
    return f"{model} costs ${prices.input:g} in, ${prices.output:g} out per million tokens"


def describe_missing_budget(task: Task) -> str:
    """Suggest how to limit the spending of an unattended run; empty if it is limited or free."""
    if _has_budget(task.run_limits.limits if task.run_limits else Limits(), task.settings):
        return ""
    if is_local_provider(task.runtime.route.provider):
        return ""
    flag, setting = ("--max-budget-usd", "allowedMaxCost")
    if task.provider.model.prices is None:
        flag, setting = ("--max-tokens", "allowedMaxRequests")
    return f"no budget is set: {flag} N limits this run, the setting {setting} every run"


def _has_budget(limits: Limits, settings: Settings) -> bool:
    """Whether a limit other than time ends an unattended run."""
    set_limits = (limits.max_cost, limits.max_tokens, limits.max_turns, limits.max_tool_calls)
    in_settings = settings.allowed_max_cost or settings.allowed_max_requests
    return bool(in_settings) or any(limit is not None for limit in set_limits)


def _format_count(count: int) -> str:
    return str(count) if count < 1000 else f"{count / 1000:.1f}k"


PROJECT_CONFIG_DIRECTORY = ".roo"
PROJECT_MODES_FILE = ".roomodes"


def offer_project_trust(workspace: Path) -> None:
    """Ask the user whether to trust the project, if there is anything to trust."""
    if _has_project_configuration(workspace):
        from joey.cli.commands.trust import offer_trust

        offer_trust(workspace)


def describe_untrusted_project(workspace: Path) -> str:
    """Name what is not used because it is not trusted; empty if nothing."""
    if not _has_project_configuration(workspace):
        return ""
    from joey.cli.commands.trust import describe_untrusted

    return describe_untrusted(workspace)


def _has_project_configuration(workspace: Path) -> bool:
    """Whether the directory has any configuration; most have none, and need not load the trust
    store."""
    return (workspace / PROJECT_CONFIG_DIRECTORY).is_dir() or (
        workspace / PROJECT_MODES_FILE
    ).exists()


MAX_WARNINGS = 5


def print_startup_warnings(task: Task) -> Task:
    """Print a line about each file of the user that could not be used."""
    customizations = task.runtime.capabilities.customizations
    line = summarize_warnings(customizations.warnings) if customizations is not None else None
    lines = [] if line is None else [line]
    if adopted := describe_adopted_rules(task):
        lines.append(f"joey: {adopted}")
    if task.runtime.capabilities.mcp is not None:
        problems = list_mcp_config_problems(task.runtime.workspace)
        lines += (f"joey: {to_one_line(problem, 400)}" for problem in problems)
    lines += (
        f"joey: {to_one_line(warning, 400)}"
        for warning in collect_settings_warnings()[:MAX_WARNINGS]
    )
    for line in lines:
        print(wrap(line, get_terminal_width(sys.stderr)), file=sys.stderr)
    return task


def describe_adopted_rules(task: Task) -> str:
    """Describe which instructions of other agents are followed; empty if none."""
    customizations = task.runtime.capabilities.customizations
    if customizations is None:
        return ""
    labels = customizations.get_instructions(task.mode).foreign_labels
    return f"following {' and '.join(map(to_one_line, labels))}" if labels else ""


def summarize_warnings(warnings: Sequence[str]) -> str | None:
    """Summarize warnings in one line; None without warnings."""
    if not warnings:
        return None
    more = f" (and {len(warnings) - 1} more, see joey doctor)" if len(warnings) > 1 else ""
    return f"joey: {to_one_line(warnings[0], 300)}{more}"
