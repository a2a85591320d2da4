"""`/permissions`: what joey may do without asking, and who says so."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from joey.app.customs import open_customs
from joey.app.permission_overview import Judgement, PermissionOverview
from joey.app.permissions import scope_of
from joey.app.setting_sources import SettingSources
from joey.cli.permissions import flags_of
from joey.core.modes import usual_mode
from joey.core.permissions.policy import Confinement
from joey.core.settings import Settings
from joey.engine.task import Task
from joey.ports import Level
from joey.presentation.text import one_line

LONGEST = 2000
"""Characters of rules: they are shown whole, unless there are hundreds."""
_GROUPS = (
    ("Runs unasked", "allow", "✓", "green"),
    ("Is asked about", "ask", "?", "yellow"),
    ("Is refused", "deny", "✗", "red"),
)


def permissions_card(
    task: Task | None, arguments: Namespace, workspace: Path, level: Level | None
) -> Text:
    """Of a task, or of one that would begin now.

    Raises:
        ConfigError, WorkspaceError
    """
    flags = flags_of(arguments)
    sources = SettingSources(workspace, flags)
    if task is None:
        scope = scope_of(flags)
        settings, edits_granted = sources.settings, False
        mode = usual_mode(arguments.mode or settings.mode, open_customs(workspace).modes)
    else:
        settings, edits_granted, mode = task.settings, task.granted.edits, task.mode
        scope = task.bench.scope
    sandbox: Confinement = "off" if settings.sandbox == "off" else level.value if level else "none"
    overview = PermissionOverview(
        sources, settings, mode, sandbox, workspace, edits_granted=edits_granted, scope=scope
    )
    text = listed(overview.judgements())
    if edits_granted:
        text.append("/permissions ask: edits are asked about again\n", "dim")
    chosen = sources.of_value("sandbox", settings.sandbox)
    text.append(f"{_held(sandbox, settings, chosen)}\n")
    return text.append("joey permissions explain says why for any command or file", "dim")


def listed(judgements: Sequence[Judgement]) -> Text:
    text = Text()
    for title, decision, mark, colour in _GROUPS:
        judged = [each for each in judgements if each.decision == decision]
        if judged:
            text.append(f"{title}\n", "bold")
        for each in judged:
            text.append(f"  {mark} ", colour).append(one_line(each.about, LONGEST))
            said = f"{each.rule} ({each.source})" if each.source else each.rule
            text.append(f"  {one_line(said, LONGEST)}\n", "dim")
    return text


def _held(sandbox: Confinement, settings: Settings, source: str) -> str:
    """How far commands are held, and what they reach."""
    match sandbox:
        case "off":
            return f"Sandbox: switched off ({source})"
        case "none":
            return "Sandbox: none works here; joey doctor says why"
    hosts = settings.sandbox_network
    network = hosts if isinstance(hosts, str) else one_line(", ".join(hosts), LONGEST)
    return f"Sandbox: {sandbox}; network: {network or 'off'}"
