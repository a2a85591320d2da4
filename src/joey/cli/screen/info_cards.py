"""Cards that the app shows on request: diagnostics, MCP servers, skills, permissions."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from joey.app import open_store, open_task_index
from joey.app.customizations import open_customizations
from joey.app.granted_permissions import list_granted_rules, open_rule_store
from joey.app.models import find_local_servers, list_known_providers
from joey.app.permission_overview import PermissionLine, PermissionOverview, SettingSources
from joey.app.provider_setup import get_key_page
from joey.app.trust import open_server_admin
from joey.cli.commands.doctor import HEALTH_CHECKS, run_checks
from joey.cli.commands.doctor_checks import FindingStatus
from joey.cli.commands.tasks import export_markdown
from joey.cli.task_launch import build_permission_flags
from joey.core.modes import choose_fallback_mode
from joey.core.permissions.granted_rules import GrantedRule
from joey.core.permissions.policy import SandboxStatus
from joey.core.settings import Settings
from joey.core.task_types import AnsweredBy, ApprovalLevel, RuleScope
from joey.engine.task import Task
from joey.ports.execution import SandboxLevel
from joey.ports.extensions import Mcp
from joey.ports.storage import TaskMetadata
from joey.presentation.text import Piece, sanitize, to_one_line
from joey.tui.app_services import PickerEntry, ProviderOption

_STATUS_MARKS = {
    FindingStatus.OK: ("✓", "green"),
    FindingStatus.NONE: ("-", "dim"),
    FindingStatus.WARN: ("!", "yellow"),
    FindingStatus.FAIL: ("✗", "red"),
}


def describe_task(task: TaskMetadata, status: str) -> str:
    """Describe a task, such as `interrupted · yesterday's date · $0.12`."""
    moment = datetime.fromtimestamp((task.updated or task.created) / 1000).astimezone()
    cost = f" · ${task.total_cost:.2f}" if task.total_cost else ""
    return f"{moment.strftime('%m-%d %H:%M')} · {status}{cost}"


def render_doctor_card() -> list[Piece]:
    text: list[Piece] = [("Doctor", "bold")]
    for finding in run_checks(HEALTH_CHECKS):
        mark, colour = _STATUS_MARKS[finding.status]
        said = f"{finding.name}: {_indent_text(finding.observation)}"
        text += [(f"\n{mark} ", colour), (said, "")]
        if finding.advice:
            text.append((f"\n    {_indent_text(finding.advice)}", "dim"))
    return text


def _indent_text(text: str) -> str:
    return sanitize(text).replace("\n", "\n    ")


def render_mcp_servers_card(workspace: Path, mcp: Mcp | None) -> list[Piece]:
    text: list[Piece] = [("MCP servers", "bold")]
    admin = open_server_admin(workspace)
    live = {} if mcp is None else {server.name: server for server in mcp.servers}
    listed = admin.list_servers()
    for server in listed:
        running = live.get(server.name)
        state = running.status if running is not None else server.state
        tools = f", {len(running.tools)} tools" if running is not None and running.tools else ""
        text.append((f"\n  {to_one_line(server.name, 40)}", "cyan"))
        text.append((f"  {state}{tools}  {to_one_line(server.reached_by, 120)}", "dim"))
        if running is not None and running.error:
            text.append((f"\n    {to_one_line(running.error, 300)}", "red"))
    if not listed:
        text.append(("\n  none; joey mcp add --help says how to add one", "dim"))
    for problem in admin.problems:
        text.append((f"\n  {sanitize(problem)}", "yellow"))
    return text


def render_skills_card(workspace: Path) -> list[Piece]:
    customizations = open_customizations(workspace)
    found = {
        skill.name: skill
        for mode in customizations.modes
        for skill in customizations.list_skills(mode)
    }
    text: list[Piece] = [("Skills", "bold")]
    for name, skill in sorted(found.items()):
        text.append((f"\n  {to_one_line(name, 40)}", "cyan"))
        text.append((f"  {to_one_line(skill.description, 300)}", "dim"))
    if not found:
        text.append(("\n  none; they are folders with a SKILL.md below .roo/skills", "dim"))
    text.append(("\n\nCommands of your own", "bold"))
    commands = customizations.list_commands()
    for command in commands:
        text.append((f"\n  /{to_one_line(command.name, 40)}", "cyan"))
        text.append((f"  {to_one_line(command.description, 300)}", "dim"))
    if not commands:
        text.append(("\n  none; they are Markdown files below .roo/commands", "dim"))
    return text


def export_task(task_id: str, workspace: Path) -> str:
    """Export the task. Raises UsageError."""
    index = open_task_index()
    try:
        path = workspace / f"joey-{index.shorten_id(task_id)}.md"
        export_markdown(open_store(), index, task_id, path)
    finally:
        index.close()
    return str(path)


async def list_providers(env: Mapping[str, str]) -> tuple[ProviderOption, ...]:
    """List local providers first, then those with a key."""
    found = await find_local_servers(env)
    here = [
        ProviderOption(
            server.provider,
            needs_key=False,
            local_url=server.base_url,
            models=server.models,
            start_hint=server.missing_model_hint,
        )
        for server in found
    ]
    names = {server.provider for server in found}
    others = [each for each in list_known_providers(env) if each.name not in names]
    others.sort(key=lambda each: not each.key_variable)
    remote = (
        ProviderOption(
            each.name,
            each.needs_key,
            models=each.models,
            key_page=get_key_page(each.name),
            start_hint=each.start_hint,
            key_variable=each.key_variable,
        )
        for each in others
    )
    return (*here, *remote)


MAX_PERMISSION_TEXT_CHARS = 2000
"""Rules are shown whole, unless there are hundreds."""
_DECISION_GROUPS = (
    ("Runs unasked", "allow", "✓", "green"),
    ("Is asked about", "ask", "?", "yellow"),
    ("Is refused", "deny", "✗", "red"),
)


def render_permissions_card(
    task: Task | None, arguments: Namespace, workspace: Path, sandbox_level: SandboxLevel | None
) -> list[Piece]:
    """Render the permissions of a task, or of one that would start now. Raises ConfigError,
    WorkspaceError."""
    flags = build_permission_flags(arguments)
    sources = SettingSources(workspace, flags)
    if task is None:
        scope = flags.build_file_scope()
        settings, edits_granted = sources.settings, False
        mode = choose_fallback_mode(
            arguments.mode or settings.mode, open_customizations(workspace).modes
        )
    else:
        settings, edits_granted, mode = task.settings, task.has_edit_grant, task.mode
        scope = task.runtime.file_scope
    sandbox: SandboxStatus = (
        "off" if settings.sandbox == "off" else sandbox_level.value if sandbox_level else "none"
    )
    overview = PermissionOverview(
        sources, settings, mode, sandbox, workspace, edits_granted=edits_granted, scope=scope
    )
    text = render_permission_lines(overview.build_lines())
    level = ApprovalLevel.ASK if task is None else task.grants.level
    if level is not ApprovalLevel.ASK or edits_granted:
        text.append(("/permissions ask: joey asks again\n", "dim"))
    store = open_rule_store(workspace)
    text += render_granted_rules(list_granted_rules(None if task is None else task.grants, store))
    chosen = sources.find_value_source("sandbox", settings.sandbox)
    text.append((f"{_describe_sandbox(sandbox, settings, chosen)}\n", ""))
    text.append(("joey permissions explain says why for any command or file", "dim"))
    return text


def summarize_permissions(settings: Settings, *, edits_granted: bool = False) -> str:
    """Summarize what joey may do without asking."""
    if not settings.auto_approval_enabled:
        return "asks for everything"
    if settings.always_allow_execute and "*" in settings.allowed_commands:
        return "allows everything"
    allowed = []
    if settings.always_allow_write or edits_granted:
        allowed.append("edits")
    if settings.always_allow_execute and settings.allowed_commands:
        allowed.append("some commands")
    return f"allows {', '.join(allowed)}" if allowed else "asks first"


def summarize_sandbox(settings: Settings, level: SandboxLevel | None) -> str:
    """Summarize whether commands are sandboxed; empty until the probe is done."""
    if settings.sandbox == "off" or level is SandboxLevel.NONE:
        return "no sandbox"
    if level is None:
        return ""
    network = settings.sandbox_network
    if isinstance(network, str):
        return f"sandboxed, network {'on' if network == 'all' else network}"
    reached = network[0] if len(network) == 1 else f"{len(network)} hosts"
    return f"sandboxed, network {reached}"


_SCOPE_TEXTS = {
    RuleScope.TASK: "this task",
    RuleScope.DIRECTORY: "this directory",
    RuleScope.EVERYWHERE: "every directory",
}
_RULE_KINDS = {
    "allowedCommands": "command",
    "allowedMcpTools": "MCP tool",
    "sandboxNetwork": "network to",
    "alwaysAllowWrite": "",
}


def describe_granted_rule(rule: GrantedRule) -> PickerEntry:
    label = f"{_RULE_KINDS[rule.setting]} {to_one_line(rule.text, 200)}".lstrip()
    parts = [f"in {_SCOPE_TEXTS[rule.scope]}"]
    if rule.added_at:
        moment = datetime.fromtimestamp(rule.added_at / 1000).astimezone()
        who = "you" if rule.by == AnsweredBy.USER else to_one_line(rule.by, 40) or "an answer"
        parts.append(f"allowed by {who} on {moment.strftime('%Y-%m-%d %H:%M')}")
    elif rule.scope is RuleScope.EVERYWHERE:
        parts.append("in your settings")
    return PickerEntry("\0".join(rule.key), label, ", ".join(parts))


def render_granted_rules(rules: Sequence[GrantedRule]) -> list[Piece]:
    if not rules:
        return []
    text: list[Piece] = [("Allowed by you\n", "bold")]
    for entry in map(describe_granted_rule, rules):
        text += [(f"  {entry.label}", ""), (f"  {entry.description}\n", "dim")]
    text.append(("/permissions revoke removes one\n", "dim"))
    return text


def render_permission_lines(judgements: Sequence[PermissionLine]) -> list[Piece]:
    text: list[Piece] = []
    for title, decision, mark, colour in _DECISION_GROUPS:
        judged = [each for each in judgements if each.decision == decision]
        if judged:
            text.append((f"{title}\n", "bold"))
        for each in judged:
            said = f"{each.rule} ({each.source})" if each.source else each.rule
            text += [
                (f"  {mark} ", colour),
                (to_one_line(each.subject, MAX_PERMISSION_TEXT_CHARS), ""),
                (f"  {to_one_line(said, MAX_PERMISSION_TEXT_CHARS)}\n", "dim"),
            ]
    return text


def _describe_sandbox(sandbox: SandboxStatus, settings: Settings, source: str) -> str:
    """Describe the restrictions of commands and their network access."""
    match sandbox:
        case "off":
            return f"Sandbox: off ({source})"
        case "none":
            return "Sandbox: none works here; joey doctor says why"
    hosts = settings.sandbox_network
    network = (
        hosts
        if isinstance(hosts, str)
        else to_one_line(", ".join(hosts), MAX_PERMISSION_TEXT_CHARS)
    )
    return f"Sandbox: {sandbox}; network: {network or 'off'}"
