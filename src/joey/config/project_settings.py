"""`.roo/settings.json` of a project: it may make rules stricter, and nothing else.

That needs no trust. What would loosen anything is passed over and told. If the file cannot be
understood, nobody knows what it forbids, so everything is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs

from joey.config.scopes import Scopes
from joey.config.sightings import Sightings
from joey.core.network_hosts import narrowed, read_host
from joey.core.settings import Settings

FILE = "settings.json"
_FIELDS = dict(zip(Settings.__struct_encode_fields__, Settings.__struct_fields__, strict=True))
OFF = {
    name: field
    for name, field in _FIELDS.items()
    if field.startswith("always_allow")
    or field in ("auto_approval_enabled", "mcp_enabled", "browser_tool_enabled")
}
"""Switches that may be turned off."""
ADDED = {"deniedCommands": "denied_commands", "disabledTools": "disabled_tools"}
LOWERED = {"allowedMaxRequests": "allowed_max_requests", "allowedMaxCost": "allowed_max_cost"}
_STRICTEST = {"sandbox": "required"}
_NETWORK = "sandboxNetwork"


class Tightening(Struct, frozen=True):
    """What a project makes stricter, by the names of fields of `Settings`."""

    off: frozenset[str] = frozenset()
    added: dict[str, tuple[str, ...]] = {}
    lowered: dict[str, float] = {}
    strictest: dict[str, str] = {}
    network: str | tuple[str, ...] | None = None
    """The only hosts that commands shall reach."""


UNCLEAR = Tightening(off=frozenset({"auto_approval_enabled"}))


def read_tightening(scopes: Scopes, sightings: Sightings) -> Tightening:
    scope = scopes.project
    if scope is None:
        return Tightening()
    label = f"{scope.label}/{FILE}"
    known = len(sightings.warnings)
    found = sightings.read(scope.folder / FILE, label, scope.fence)
    if found is None:
        return Tightening() if len(sightings.warnings) == known else UNCLEAR
    try:
        document = msgspec.json.decode(found.text or "{}", type=dict[str, Any])
        return _tightening(document, label, sightings)
    except (msgspec.MsgspecError, RecursionError) as error:
        sightings.warn(f"{label} cannot be understood, so that everything is asked: {error}.")
        return UNCLEAR


def tightened(settings: Settings, project: Tightening) -> Settings:
    """Flags and the person's settings first, then this: the stricter always counts."""
    changes: dict[str, Any] = dict.fromkeys(project.off, False)
    for field, more in project.added.items():
        changes[field] = tuple(dict.fromkeys((*getattr(settings, field), *more)))
    for field, limit in project.lowered.items():
        known = getattr(settings, field)
        changes[field] = limit if known is None else min(known, limit)
    if project.network is not None:
        changes["sandbox_network"] = narrowed(settings.sandbox_network, project.network)
    return structs.replace(settings, **changes, **project.strictest)


def _tightening(document: Mapping[str, Any], label: str, sightings: Sightings) -> Tightening:
    """Raises msgspec.ValidationError."""
    off: set[str] = set()
    added: dict[str, tuple[str, ...]] = {}
    lowered: dict[str, float] = {}
    strictest: dict[str, str] = {}
    network: str | tuple[str, ...] | None = None
    for key, value in document.items():
        if key in OFF and not msgspec.convert(value, bool):
            off.add(OFF[key])
        elif key in ADDED:
            added[ADDED[key]] = msgspec.convert(value, tuple[str, ...])
        elif key in LOWERED:
            kind = int if key == "allowedMaxRequests" else float
            lowered[LOWERED[key]] = msgspec.convert(value, kind)
        elif key in _STRICTEST and value == _STRICTEST[key]:
            strictest[_FIELDS[key]] = value
        elif key == _NETWORK and value != "all":
            network = _network(value)
        elif key != "$schema":
            sightings.warn(f"{label}: `{key[:60]}` is not used: {_why_not(key)}.")
    return Tightening(frozenset(off), added, lowered, strictest, network)


def _network(value: object) -> str | tuple[str, ...]:
    """Raises msgspec.ValidationError."""
    if value == "off":
        return "off"
    hosts = msgspec.convert(value, tuple[str, ...])
    try:
        for each in hosts:
            read_host(each)
    except ValueError as error:
        raise msgspec.ValidationError(str(error)) from error
    return hosts


def project_says(key: str) -> str:
    """What a project may do about a setting, in words; nothing for what is the person's alone."""
    if key in OFF:
        return "may turn it off"
    if key in ADDED:
        return "may add to it"
    if key in LOWERED:
        return "may lower it"
    if key == _NETWORK:
        return "may ask for `off`, or for fewer hosts"
    return f"may ask for `{_STRICTEST[key]}`" if key in _STRICTEST else ""


def _why_not(key: str) -> str:
    if key == "hooks":
        return "hooks of a project belong into .roo/hooks.json"
    if key in OFF or key in (*_STRICTEST, _NETWORK) or key.startswith("allowed"):
        return "a project may only make rules stricter"
    return "it is not a setting of a project; put it into your own settings"
