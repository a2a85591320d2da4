"""Options of a task that is opened and not set to work."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import structs

from joey.config.home import joey_home
from joey.config.settings import load_settings
from joey.core.settings import Profile
from joey.engine.engine import TaskOptions


def idle_options(
    workspace: str, home: Path | None = None, env: Mapping[str, str] | None = None
) -> TaskOptions:
    """Nobody is asked for a key, and nothing is started: the model is never talked to, and what
    the task remembers of its own stays.

    Raises:
        ConfigError
    """
    settings = load_settings(home or joey_home(os.environ if env is None else env))
    quiet = structs.replace(
        settings,
        mcp_enabled=False,
        codebase_index_enabled=False,
        browser_tool_enabled=False,
        image_profile="",
    )
    return TaskOptions(
        workspace=Path(workspace) if workspace else Path.cwd(), profile=Profile(), settings=quiet
    )
