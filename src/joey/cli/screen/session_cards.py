"""Cards about the session: its state, its context window, changed settings and files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from joey import __version__
from joey.app.settings import SettingOrigin, SettingsAdmin
from joey.cli.notices import describe_endpoint, describe_price, format_usage
from joey.engine.condense import ContextUsage
from joey.engine.engine import ResolvedTaskOptions
from joey.engine.runtime import build_system_prompt_and_tools
from joey.engine.task import Task
from joey.presentation.text import Piece, sanitize, to_one_line
from joey.tui.app_services import StatusInfo

_MAX_VALUE_CHARS = 200
_MAX_GIT_HEAD_CHARS = 1000
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def render_status_card(
    status: StatusInfo, task: Task | None, options: ResolvedTaskOptions | None
) -> list[Piece]:
    """Render the status of the task, or of the one that the next message starts."""
    profile = None if options is None else options.profile
    provider, address = (profile.provider, profile.base_url) if profile else ("", None)
    price, instructions = "", ""
    if task is not None:
        provider, address = task.runtime.route.provider, task.runtime.base_url
        price = describe_price(task.provider.model.id, task.provider.model.prices)
        if (customizations := task.runtime.capabilities.customizations) is not None:
            instructions = ", ".join(customizations.get_instructions(task.mode).labels)
    facts = {
        "model": f"{status.model} ({provider})" if provider else status.model,
        "address": describe_endpoint(provider, address),
        "price": price,
        "directory": status.directory,
        "branch": status.git_branch,
        "mode": status.mode,
        "permissions": ", ".join(filter(None, (status.permissions_text, status.sandbox_text))),
        "instructions": instructions,
        "task": "none yet" if task is None else f"{task.id}, {format_usage(task.total_usage)}",
    }
    return [(f"joey {__version__}", "bold"), *_render_facts(facts)]


def render_context_card(task: Task | None) -> list[Piece]:
    """Render the estimated share of the context window that each part takes. What the service
    counts beyond the estimates belongs to the conversation."""
    if task is None:
        about = "there are no messages yet; joey prompt --tokens shows what a task begins with"
        return [(about, "dim")]
    context = ContextUsage(task)
    tools = task.token_estimator.estimate_tools(build_system_prompt_and_tools(task)[1])
    window = task.provider.model.context_window
    used = max(context.estimated_tokens, task.usage.context_tokens)
    parts = {
        "system prompt": context.system_tokens - tools,
        "tools": tools,
        "conversation": used - context.system_tokens,
        "free": max(0, window - used),
    }
    share = f"{100 * used / window:.0f}% of " if window else ""
    text: list[Piece] = [(f"Context: {used:,} tokens, {share}{window:,}", "bold")]
    text += _render_facts({name: f"{count:>9,}" for name, count in parts.items()})
    text.append(("\n/compact makes room; joey prompt --tokens lists every section", "dim"))
    return text


def render_config_card(workspace: Path) -> list[Piece]:
    """Render the settings that differ from their defaults. Raises ConfigError."""
    admin = SettingsAdmin(workspace)
    text: list[Piece] = [("Settings that differ from their defaults", "bold")]
    changed = [each for each in admin.list_settings() if each.origin is not SettingOrigin.DEFAULT]
    for state in changed:
        value = to_one_line(msgspec.json.encode(state.value).decode(), _MAX_VALUE_CHARS)
        where = " (project)" if state.origin is SettingOrigin.PROJECT else ""
        text += [(f"\n  {state.key.name}", "cyan"), (f"  {value}{where}", "")]
    if not changed:
        text.append(("\n  none", "dim"))
    hint = "joey config list has all of them; joey config set KEY VALUE changes one"
    return [*text, (f"\n{hint}", "dim"), (f"\n{admin.path}", "dim")]


def render_diff_card(changes: str) -> list[Piece]:
    """Render a unified diff with a heading."""
    return [
        (
            f"{sanitize(line)}\n",
            "bold" if line.startswith("diff ") else _DIFF_STYLES.get(line[:1], ""),
        )
        for line in changes.splitlines()
    ]


def _render_facts(facts: dict[str, str]) -> Sequence[Piece]:
    width = max(map(len, facts))
    return [
        piece
        for name, value in facts.items()
        if value
        for piece in ((f"\n  {name:{width}}  ", "dim"), (to_one_line(value, 400), ""))
    ]


def read_git_branch(directory: Path) -> str:
    """Read the checked-out branch from git's files; empty outside of a repository."""
    for candidate in (directory, *directory.parents):
        if (head := _read_git_head(candidate / ".git")) is not None:
            reference = head.removeprefix("ref: ").removeprefix("refs/heads/")
            return reference if head.startswith("ref: ") else reference[:8]
    return ""


def _read_git_head(git: Path) -> str | None:
    try:
        if git.is_file():  # a worktree, or a submodule
            target = git.read_text(encoding="utf-8")[:_MAX_GIT_HEAD_CHARS].partition("gitdir: ")[2]
            git = git.parent / target.strip()
        return (git / "HEAD").read_text(encoding="utf-8")[:_MAX_GIT_HEAD_CHARS].strip()
    except (OSError, UnicodeDecodeError):
        return None
