"""Checks and repairs of `joey doctor`: keys, home directory, tasks, trust, index."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from joey.app.model_choice import open_model_catalog
from joey.config.home import resolve_joey_home
from joey.config.profiles import PROFILES_FILE, load_profiles
from joey.config.settings import SETTINGS_FILE
from joey.errors import UserError
from joey.providers.catalog import PROVIDER_SPECS
from joey.storage.store_health import StoreHealth, check_store, clean_up_store
from joey.storage.task_directory import INDEX_FILE

__all__ = ["FoundKey", "StoreHealth", "clean_up_store"]

_PRIVATE_FILES = (
    PROFILES_FILE,
    SETTINGS_FILE,
    "server.token",
    "mcp.json",
    "mcp_settings.json",
    INDEX_FILE,
    "trust.json",
)
_PLACEHOLDER_MARKS = ("your", "xxx", "...", "…", "<", "changeme", "replace", "example")
_KEY_PREFIXES = {"anthropic": "sk-ant-", "openrouter": "sk-or-", "groq": "gsk_", "xai": "xai-"}


class FoundKey(Struct, frozen=True):
    source: str
    """The variable, or the profile."""
    provider: str
    error: str = ""
    """Why it cannot be right; never the key itself."""


def find_keys(env: Mapping[str, str]) -> list[FoundKey]:
    """Return every key that is found, by name. Raises ConfigError."""
    found = [
        FoundKey(name, kind.name, _explain_bad_key(env[name], kind.name))
        for kind in PROVIDER_SPECS
        for name in kind.key_variables
        if env.get(name)
    ]
    for name, profile in load_profiles(resolve_joey_home(env)).profiles.items():
        if profile.api_key:
            error = _explain_bad_key(
                profile.api_key, profile.provider, profile.base_url is not None
            )
            found.append(FoundKey(f"profile {name}", profile.provider, error))
    return found


def _explain_bad_key(key: str, provider: str, is_gateway: bool = False) -> str:
    text = key.strip()
    if not text:
        return "it is empty"
    if text != key:
        return "it has spaces or a line break around it"
    if not text.isascii() or not text.isprintable() or " " in text:
        return "it has characters that are not allowed in keys"
    if text[0] in "\"'" or text[-1] in "\"'":
        return "it has quotes around it"
    if any(mark in text.lower() for mark in _PLACEHOLDER_MARKS):
        return "it looks like a placeholder"
    if is_gateway:
        return ""  # keys of a gateway have no fixed format
    for other_provider, prefix in _KEY_PREFIXES.items():
        if other_provider != provider and text.startswith(prefix):
            return f"it looks like a key of {other_provider}"
    return ""


# Privacy ------------------------------------------------------------------------------------------


class FileExposure(Struct, frozen=True):
    path: Path
    reason: str
    required_mode: int | None
    """What it should be; None when that is not ours to change."""


def count_described_models(home: Path) -> int:
    """Count the models in the user's files, all of which are read. Raises ConfigError."""
    catalog = open_model_catalog(home)
    if catalog is None:
        return 0
    return sum(len(catalog.list_ids(kind.name)) for kind in PROVIDER_SPECS)


def find_exposures(home: Path) -> list[FileExposure]:
    """Find files of the user's directory that other users could read or change."""
    if not home.exists():
        return []
    named = [home, *(home / name for name in _PRIVATE_FILES), home / "tasks", home / "worktrees"]
    return [found for path in named if (found := _find_exposure(path)) is not None]


def _find_exposure(path: Path) -> FileExposure | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    if stat.S_ISLNK(status.st_mode):
        return None  # the target is the user's responsibility
    if status.st_uid != os.geteuid():
        return FileExposure(path, f"belongs to another user (uid {status.st_uid})", None)
    required = 0o700 if stat.S_ISDIR(status.st_mode) else 0o600
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        return FileExposure(path, f"can be read by others ({mode:04o})", required)
    return None


def make_private(found: Sequence[FileExposure]) -> Iterator[str]:
    """Make files private where possible; return a sentence about each."""
    for each in found:
        if each.required_mode is None:
            continue
        try:
            each.path.chmod(each.required_mode)
        except OSError as error:
            yield f"{each.path} could not be made private: {error.strerror}"
        else:
            yield f"{each.path} is now {each.required_mode:04o}"


# Tasks --------------------------------------------------------------------------------------------


def inspect_store(home: Path) -> StoreHealth:
    """Raises OSError."""
    return check_store(home / "tasks")


def explain_index_damage(home: Path) -> str:
    """Describe damage of the task index; empty if it is intact or does not exist yet."""
    path = home / INDEX_FILE
    if not path.exists():
        return ""
    try:
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=2)
        try:
            connection.execute("SELECT count(*) FROM tasks").fetchone()
            (check_result,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        finally:
            connection.close()
    except sqlite3.Error as error:
        return str(error)
    return "" if check_result == "ok" else str(check_result)


def delete_index(home: Path) -> str:
    """Delete the index. It only copies what the task directories hold, and is rebuilt when
    needed."""
    for name in (INDEX_FILE, f"{INDEX_FILE}-wal", f"{INDEX_FILE}-shm"):
        (home / name).unlink(missing_ok=True)
    return f"{home / INDEX_FILE} was removed; the next list of tasks rebuilds it"


def list_untrusted_titles(workspace: Path) -> tuple[str, ...]:
    """List what this directory would run if it were trusted. Raises UserError."""
    from joey.app.trust import WorkspaceTrust

    try:
        return tuple(item.title for item in WorkspaceTrust(workspace).untrusted_items)
    except OSError as error:
        raise UserError(f"{workspace} cannot be read: {error.strerror}") from error
