"""Settings of the user, of the project and of a task.

- The user's `settings.json` holds the defaults of all tasks. Unknown keys are mostly typos and get
  a warning. They are not errors, since files are shared with Roo Code, whose own settings get no
  warning.
- `.roo/settings.json` of a project may make rules stricter, and nothing else. That needs no
  trust. What would loosen anything is ignored with a warning. If the file cannot be understood,
  it is unknown what it forbids, so everything needs approval.
- Settings that were given to one task are laid over the user's when the task is opened again.
  Instructions, limits of size and the like are kept. What they permit only counts where the
  user's settings permit it as well: they were given at another time, and may come from another
  machine.
"""

from __future__ import annotations

import logging
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from joey.config.json_documents import convert_document, load_document, read_document
from joey.config.profiles import PROFILES_FILE
from joey.config.untrusted_files import ConfigScopes, UntrustedFileReader
from joey.core.permissions.hosts import (
    REGISTRIES,
    NetworkSetting,
    check_network,
    intersect_hosts,
)
from joey.core.settings import Settings
from joey.core.suggest import find_closest_name
from joey.errors import ConfigError

SETTINGS_FILE = "settings.json"


def load_settings(home: Path) -> Settings:
    """Load the user's settings, or the defaults if there is no file. Raises ConfigError."""
    return load_document(home / SETTINGS_FILE, Settings)


log = logging.getLogger(__name__)

_KNOWN_KEYS = frozenset({*Settings.__struct_encode_fields__, "$schema"})


def describe_unknown_settings(home: Path) -> tuple[str, ...]:
    """Describe each unknown key in a sentence, with the closest match."""
    path = home / SETTINGS_FILE
    try:
        document = read_document(path) or {}
    except ConfigError:
        return ()  # code that needs the settings reports it
    foreign = [key for key in document if key not in _KNOWN_KEYS]
    if not foreign:
        return ()
    from joey.config.roo_settings import PROFILE_KEYS, UNUSED_KEYS  # few files have such keys

    unknown = (key for key in foreign if key in PROFILE_KEYS or key not in UNUSED_KEYS)
    return tuple(f"{path}: `{key}` {_explain_unknown_key(key)}" for key in unknown)


def check_key_spelling(values: Iterable[str]) -> None:
    """Check keys that a program sends. They may be for Roo Code or a later version of joey: only a
    near match of a setting's name is rejected. Raises ConfigError."""
    from joey.config.roo_settings import PROFILE_KEYS, UNUSED_KEYS

    for key in values:
        if key in UNUSED_KEYS:
            log.info("the setting %r means nothing here: %s", key, UNUSED_KEYS[key])
            continue
        if key in _KNOWN_KEYS or key in PROFILE_KEYS:
            continue
        if find_closest_name(key, _KNOWN_KEYS) is not None:
            raise ConfigError(f"`{key}` {_explain_unknown_key(key)}")
        log.info("the setting %r was sent, which nothing reads", key)


def _explain_unknown_key(key: str) -> str:
    from joey.config.roo_settings import PROFILE_KEYS

    if key in PROFILE_KEYS:
        return f"is not used: it belongs in a profile of {PROFILES_FILE}."
    near = find_closest_name(key, _KNOWN_KEYS)
    meant = f" Did you mean `{near}`?" if near else ""
    return f"is not used: there is no such setting.{meant}"


PROJECT_SETTINGS_FILE = "settings.json"
_FIELDS_BY_KEY = dict(
    zip(Settings.__struct_encode_fields__, Settings.__struct_fields__, strict=True)
)
DISABLEABLE_FIELDS = {
    name: field
    for name, field in _FIELDS_BY_KEY.items()
    if field.startswith("always_allow")
    or field in ("auto_approval_enabled", "mcp_enabled", "browser_tool_enabled")
}
"""Switches that may be turned off."""
EXTENDABLE_FIELDS = {"deniedCommands": "denied_commands", "disabledTools": "disabled_tools"}
LOWERABLE_FIELDS = {
    "allowedMaxRequests": "allowed_max_requests",
    "allowedMaxCost": "allowed_max_cost",
}
_STRICTEST_VALUES = {"sandbox": "required"}
_NETWORK_KEY = "sandboxNetwork"


PROJECT_PERMISSIONS = {
    **dict.fromkeys(DISABLEABLE_FIELDS, "may turn it off"),
    **dict.fromkeys(EXTENDABLE_FIELDS, "may add to it"),
    **dict.fromkeys(LOWERABLE_FIELDS, "may lower it"),
    _NETWORK_KEY: "may ask for `off`, `registries` or fewer hosts",
    **{key: f"may ask for `{value}`" for key, value in _STRICTEST_VALUES.items()},
}
"""What a project may do about a setting; all others are the user's alone."""


class ProjectRestrictions(Struct, frozen=True):
    """The project's restrictions, by field names of `Settings`."""

    disabled_switches: frozenset[str] = frozenset()
    added_entries: dict[str, tuple[str, ...]] = {}
    lowered_limits: dict[str, float] = {}
    strictest_values: dict[str, str] = {}
    allowed_network: NetworkSetting | None = None
    """The only hosts that commands shall reach."""


RESTRICTIONS_IF_UNREADABLE = ProjectRestrictions(
    disabled_switches=frozenset({"auto_approval_enabled"})
)


def read_restrictions(scopes: ConfigScopes, reader: UntrustedFileReader) -> ProjectRestrictions:
    scope = scopes.project
    if scope is None:
        return ProjectRestrictions()
    label = f"{scope.label}/{PROJECT_SETTINGS_FILE}"
    known = len(reader.warnings)
    found = reader.read(scope.directory / PROJECT_SETTINGS_FILE, label, scope.symlink_policy)
    if found is None:
        is_missing = len(reader.warnings) == known
        return ProjectRestrictions() if is_missing else RESTRICTIONS_IF_UNREADABLE
    try:
        document = msgspec.json.decode(found.text or "{}", type=dict[str, Any])
        return _parse_restrictions(document, label, reader)
    except (msgspec.MsgspecError, RecursionError) as error:
        reader.warn(f"{label} cannot be parsed, so everything needs approval: {error}.")
        return RESTRICTIONS_IF_UNREADABLE


def restrict_settings(settings: Settings, project: ProjectRestrictions) -> Settings:
    """Apply restrictions to flags and settings: the stricter value always wins."""
    changes: dict[str, Any] = dict.fromkeys(project.disabled_switches, False)
    for field, more in project.added_entries.items():
        changes[field] = tuple(dict.fromkeys((*getattr(settings, field), *more)))
    for field, limit in project.lowered_limits.items():
        known = getattr(settings, field)
        changes[field] = limit if known is None else min(known, limit)
    if project.allowed_network is not None:
        hosts = intersect_hosts(settings.sandbox_network, project.allowed_network)
        changes["sandbox_network"] = hosts
    return structs.replace(settings, **changes, **project.strictest_values)


def _parse_restrictions(
    document: Mapping[str, Any], label: str, reader: UntrustedFileReader
) -> ProjectRestrictions:
    """Parse restrictions. Raises msgspec.ValidationError."""
    off: set[str] = set()
    added: dict[str, tuple[str, ...]] = {}
    lowered: dict[str, float] = {}
    strictest: dict[str, str] = {}
    network: NetworkSetting | None = None
    for key, value in document.items():
        if key in DISABLEABLE_FIELDS and not msgspec.convert(value, bool):
            off.add(DISABLEABLE_FIELDS[key])
        elif key in EXTENDABLE_FIELDS:
            added[EXTENDABLE_FIELDS[key]] = msgspec.convert(value, tuple[str, ...])
        elif key in LOWERABLE_FIELDS:
            kind = int if key == "allowedMaxRequests" else float
            lowered[LOWERABLE_FIELDS[key]] = msgspec.convert(value, kind)
        elif key in _STRICTEST_VALUES and value == _STRICTEST_VALUES[key]:
            strictest[_FIELDS_BY_KEY[key]] = value
        elif key == _NETWORK_KEY and value != "all":
            network = _parse_network(value)
        elif key != "$schema":
            reader.warn(f"{label}: `{key[:60]}` is not used: {_explain_ignored_key(key)}.")
    return ProjectRestrictions(frozenset(off), added, lowered, strictest, network)


def _parse_network(value: object) -> NetworkSetting:
    """Parse the network restriction. Raises msgspec.ValidationError."""
    if value == "off":
        return "off"
    if value == REGISTRIES:
        return REGISTRIES
    hosts = msgspec.convert(value, tuple[str, ...])
    try:
        check_network(hosts)
    except ValueError as error:
        raise msgspec.ValidationError(str(error)) from error
    return hosts


def _explain_ignored_key(key: str) -> str:
    if key == "hooks":
        return "hooks of a project belong in .roo/hooks.json"
    is_restrictable = key in DISABLEABLE_FIELDS or key in (*_STRICTEST_VALUES, _NETWORK_KEY)
    if is_restrictable or key.startswith("allowed"):
        return "a project may only make rules stricter"
    return "it is not allowed in project settings; set it in your own settings"


PRIVATE_KEYS = frozenset(
    {"hooks", "diagnosticCheckers", "checkpointMaxAgeDays", "checkpointMaxMegabytes"}
)
"""What runs programs or deletes files: kept outside the task folder (see `TaskSecrets`)."""
_CONFIGURATION_LABEL = Path("configuration")
_SANDBOX_LEVELS = ("off", "auto", "required")
_ALLOW_ALL_RULE = "*"


def overlay_settings(settings: Settings, given: Mapping[str, Any]) -> Settings:
    """Apply values to the settings; what is denied stays denied, also for rules longer than the
    denying one. Raises ConfigError, which names the invalid key."""
    laid_over = convert_document(
        {**msgspec.to_builtins(settings), **given}, Settings, _CONFIGURATION_LABEL
    )
    denials = [_compile_denial_pattern(command) for command in settings.denied_commands]
    allowed = tuple(
        entry
        for entry in laid_over.allowed_commands
        if entry in settings.allowed_commands or not any(each.search(entry) for each in denials)
    )
    denied = _merge_unique(settings.denied_commands, laid_over.denied_commands)
    return structs.replace(laid_over, denied_commands=denied, allowed_commands=allowed)


def _compile_denial_pattern(command: str) -> re.Pattern[str]:
    """Compile a pattern that finds a denied command anywhere in a rule."""
    pattern = r"\s+".join(map(re.escape, command.split()))
    return re.compile(rf"(?<![\w-]){pattern}(?![\w-])", re.IGNORECASE)


def resolve_reopened_settings(
    user: Settings, stored: Mapping[str, Any], private: Mapping[str, Any]
) -> Settings:
    """Resolve the settings of a reopened task; `stored` comes from the task directory, `private`
    from outside of it. Raises ConfigError."""
    portable = {name: value for name, value in stored.items() if name not in PRIVATE_KEYS}
    task = overlay_settings(user, {**portable, **private})
    strict = {
        field: rule(getattr(user, field), getattr(task, field))
        for field, rule in _STRICTER_MERGE_FUNCTIONS
    }
    return structs.replace(task, **strict)


def _merge_unique(one: Iterable[str], other: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*one, *other)))


def _intersect_allowed(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """Keep only rules that are in both: a longer rule is not narrower, since it may name something
    risky."""
    if _ALLOW_ALL_RULE in one:
        return other
    return one if _ALLOW_ALL_RULE in other else _intersect(one, other)


def _intersect(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(entry for entry in one if entry in other)


def _pick_lower_limit(one: float | None, other: float | None) -> float | None:
    return min((limit for limit in (one, other) if limit is not None), default=None)


def _pick_lower_nonzero(one: int, other: int) -> int:
    """Pick the lower value, with 0 for no limit."""
    return min(filter(None, (one, other)), default=0)


_STRICTER_MERGE_FUNCTIONS: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
    *((field, operator.and_) for field in DISABLEABLE_FIELDS.values()),
    *((field, _merge_unique) for field in EXTENDABLE_FIELDS.values()),
    *((field, _pick_lower_limit) for field in LOWERABLE_FIELDS.values()),
    ("allowed_commands", _intersect_allowed),
    ("allowed_mcp_tools", _intersect_allowed),
    ("sandbox", partial(max, key=_SANDBOX_LEVELS.index)),
    ("sandbox_network", intersect_hosts),
    ("sandbox_readable", _intersect),
    ("sandbox_writable", _intersect),
    ("sandbox_max_processes", _pick_lower_nonzero),
    ("sandbox_max_memory_mb", _pick_lower_nonzero),
    ("sandbox_max_file_mb", _pick_lower_nonzero),
    ("sandbox_max_cpu_seconds", _pick_lower_nonzero),
)
