"""Shell completion values: tasks, modes, profiles, models, servers, settings.

A shell asks while the user waits, so every function loads only what it needs. On errors there are
no candidates; the command itself will report the error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from joey.config.home import resolve_joey_home
from joey.errors import UserError

Candidate = tuple[str, str]
"""What to insert, and a few words about it."""
MAX_TASKS = 200
SHORT_ID_CHARS = 13
"""Shown where they are enough."""


def list_tasks(env: Mapping[str, str], start: str, workspace: Path) -> list[Candidate]:
    """List the tasks of this directory, or all if it has none."""
    from joey.storage.task_directory import list_recent_tasks

    found = list_recent_tasks(resolve_joey_home(env) / "tasks", start, MAX_TASKS)
    here = [task for task in found if task.workspace == str(workspace)] or found
    shorts = [task.id[:SHORT_ID_CHARS] for task in found]
    return [(_shorten_id(task.id, shorts, start), task.title) for task in here]


def _shorten_id(task_id: str, shorts: list[str], start: str) -> str:
    short = task_id[:SHORT_ID_CHARS]
    return task_id if len(start) > SHORT_ID_CHARS or shorts.count(short) > 1 else short


def list_modes(env: Mapping[str, str], workspace: Path) -> list[Candidate]:
    from joey.core.modes import BUILT_IN_MODES

    home = resolve_joey_home(env)
    mode_files = (workspace / ".roomodes", home / "modes.yaml", home / "custom_modes.yaml")
    found = BUILT_IN_MODES
    if any(path.exists() for path in mode_files):
        from joey.app.customizations import load_modes
        from joey.core.settings import Settings

        found = load_modes(workspace, home, env, Settings())
    return [(mode.slug, mode.description or mode.purpose) for mode in found]


def list_profiles(env: Mapping[str, str]) -> list[Candidate]:
    from joey.config.profiles import load_profiles

    known = load_profiles(resolve_joey_home(env)).profiles
    return [(name, f"{each.provider} {each.model}".strip()) for name, each in known.items()]


def list_providers() -> list[Candidate]:
    from joey.providers.catalog import PROVIDER_SPECS

    return [
        (kind.name, "on this machine" if kind.is_local else kind.preferred_key_variable or "")
        for kind in PROVIDER_SPECS
    ]


def list_models(env: Mapping[str, str], provider: str | None) -> list[Candidate]:
    """List the models of the named provider, or of the one in use; for a local server, those that
    it offers now."""
    from joey.app.model_choice import list_catalogued_ids, open_model_catalog
    from joey.config.profiles import choose_profile, load_profiles
    from joey.providers.catalog import PROVIDER_SPECS, find_provider_spec

    if provider is None:
        known = load_profiles(resolve_joey_home(env))
        active = known.profiles.get(known.active_name)
        chosen = active or choose_profile(profiles=known, env=env, kinds=PROVIDER_SPECS)
        provider = chosen.provider
    kind = find_provider_spec(provider)
    if kind.is_local:
        import asyncio

        from joey.app.models import find_local_servers

        servers = asyncio.run(find_local_servers(env))
        return [
            (m, kind.name) for each in servers if each.provider == kind.name for m in each.models
        ]
    listed = list_catalogued_ids(kind.name, open_model_catalog(resolve_joey_home(env)))
    named = dict.fromkeys(filter(None, (kind.default_model, *listed)))
    return [(model, kind.name) for model in named]


def list_mcp_servers(env: Mapping[str, str], workspace: Path) -> list[Candidate]:
    """MCP servers, by the names in the files."""
    from joey.mcp.config_files import ConfigFiles

    files = ConfigFiles(resolve_joey_home(env), workspace, env)
    files.refresh()
    return [(name, "") for name in files.configs]


def list_setting_names() -> list[Candidate]:
    from joey.config.config_keys import describe_setting_keys

    return [(name, key.description) for name, key in describe_setting_keys().items()]


def list_profile_keys() -> list[Candidate]:
    from joey.config.config_keys import describe_profile_keys

    return [(name, key.description) for name, key in describe_profile_keys().items()]


def list_setting_values(
    name: str, given: int, env: Mapping[str, str], workspace: Path
) -> list[Candidate]:
    """List the values of a setting that is a choice; `given` values are already on the command
    line."""
    from joey.config.config_keys import describe_setting_keys, find_key

    key = describe_setting_keys()[find_key(name, describe_setting_keys())]
    if given and not key.is_list:
        return []
    if key.name == "mode":
        return list_modes(env, workspace)
    if key.name.endswith("Profile"):
        return list_profiles(env)
    return [(choice, "") for choice in key.choices]


def list_profile_values(name: str, env: Mapping[str, str]) -> list[Candidate]:
    from joey.config.config_keys import describe_profile_keys, find_key

    key = describe_profile_keys()[find_key(name, describe_profile_keys(), "key of a profile")]
    if key.name == "provider":
        return list_providers()
    if key.name == "model":
        return list_models(env, None)
    return [(choice, "") for choice in key.choices]


def list_setting_items(name: str, env: Mapping[str, str]) -> list[Candidate]:
    """List the items of a list setting."""
    from joey.config.json_documents import read_document
    from joey.config.settings import SETTINGS_FILE

    document: dict[str, Any] = read_document(resolve_joey_home(env) / SETTINGS_FILE) or {}
    items = document.get(name)
    if not isinstance(items, list):
        raise UserError(f"{name} has no items")
    return [(item if isinstance(item, str) else json.dumps(item), "") for item in items]
