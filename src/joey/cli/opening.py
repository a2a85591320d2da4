"""The first lines of a conversation: with whom it is, where, and where it was left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from joey import __version__
from joey.core.redaction import without_secrets
from joey.engine.engine import TaskOptions
from joey.presentation.text import one_line

_SPOKEN = ("completion_result", "text")


def introduction(options: TaskOptions) -> str:
    """`joey 0.1.0 · some-model (provider) · ~/project`."""
    profile, workspace = options.profile, options.workspace
    assert profile is not None
    assert workspace is not None
    spoken = f"{profile.provider} at {_address(profile.base_url)}" if profile.base_url else ""
    model = f"{profile.model} ({spoken or profile.provider})"
    return f"joey {__version__} · {model} · {_shown(workspace)}"


def destination(provider: str, base_url: str | None) -> str:
    """Where a task's words go, when that is not the provider's own address; else nothing."""
    if not base_url:
        return ""
    return f"talking to {_address(base_url)} as to {provider}"


def _address(url: str) -> str:
    return one_line(str(without_secrets(url)), 200)


def last_words(rows: Sequence[dict[str, Any]]) -> str:
    """What the assistant said last: its result, or its latest words."""
    for row in reversed(rows[1:]):
        if row.get("say") in _SPOKEN and (text := str(row.get("text") or "").strip()):
            return text
    return ""


def _shown(folder: Path) -> str:
    home = Path.home()
    return f"~/{folder.relative_to(home)}" if folder.is_relative_to(home) else str(folder)
