"""Home directory of joey: `JOEY_HOME`, with the user's tasks, settings and profiles."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def resolve_user_home(env: Mapping[str, str]) -> Path:
    return Path(env["HOME"]) if env.get("HOME") else Path.home()


def resolve_joey_home(env: Mapping[str, str]) -> Path:
    """Return `JOEY_HOME`, or `.roo` in the home directory."""
    home = resolve_user_home(env)
    chosen = env.get("JOEY_HOME", "").strip()
    if not chosen:
        return home / ".roo"
    if chosen == "~" or chosen.startswith("~/"):
        return home / chosen[2:]
    return Path(chosen).absolute()


def resolve_home_and_env(
    home: Path | None = None, env: Mapping[str, str] | None = None
) -> tuple[Path, Mapping[str, str]]:
    """Return these values; for None, joey's home and the environment of this process."""
    env = os.environ if env is None else env
    return home or resolve_joey_home(env), env
