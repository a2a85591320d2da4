"""Network access of commands: the state of an approval, the hosts of a command line, grants.

A user is offered to always allow a host only if every program reads the command's spelling of it
alike, and if the label shows all of it: a public name, in its ASCII form, with its port unless that
is a usual one. The proxy decides about every connection by name, so neither a redirect nor a proxy
option can make an offered host mean another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import Struct

from joey.core.permissions.hosts import (
    REGISTRIES,
    WEB_PORTS,
    NetworkSetting,
    is_local_name,
    list_entries,
    normalize_host,
    parse_address,
    parse_host,
)
from joey.core.permissions.shell import parse_plain_chain
from joey.core.text import compile_regex

MAX_OFFERED_HOSTS = 3
MAX_OFFERED_HOST_CHARS = 60
"""So that no front end shortens the label that says what is allowed."""


class RegistryFamily(StrEnum):
    """Programs that use the same registries."""

    NPM = "npm"
    PIP = "pip"
    GO = "go"
    GEM = "gem"
    CARGO = "cargo"
    GIT = "git"


class RegistryHost(Struct, frozen=True):
    host: str
    """An entry of a list of hosts."""
    family: RegistryFamily


_PROGRAM_FAMILIES = {
    **dict.fromkeys(("npm", "npx", "pnpm", "yarn", "bun"), RegistryFamily.NPM),
    **dict.fromkeys(("pip", "pip3", "pipx", "uv", "poetry"), RegistryFamily.PIP),
    **dict.fromkeys(("gem", "bundle"), RegistryFamily.GEM),
    "go": RegistryFamily.GO,
    "cargo": RegistryFamily.CARGO,
}
_REMOTE_GIT_COMMANDS = frozenset({"fetch", "pull", "push", "ls-remote", "clone", "remote"})
_PYTHON_RE = compile_regex(r"python3?(?:\.\d+)?")
_PLAIN_URL_RE = compile_regex(
    r"https?://([A-Za-z0-9](?:[A-Za-z0-9-]*\.)+[A-Za-z0-9-]+)(?::(\d{1,5}))?(?:/[!-~]*)?"
)
"""An address that all programs read alike: no user name, no other script, no escapes before the
path."""


def find_command_hosts(command: str, registries: Sequence[RegistryHost]) -> tuple[str, ...]:
    """Find the hosts that a command line will reach, as far as its words show; empty for a line
    that is not plain."""
    chain = parse_plain_chain(command)
    if chain is None:
        return ()
    found: list[str] = []
    for _, words in chain:
        found += filter(None, map(parse_url_host, words[1:]))
        family = _find_family(words)
        found += [each.host for each in registries if each.family is family]
    return tuple(dict.fromkeys(found))


def is_registry_command(command: str) -> bool:
    """Whether a program of the line uses registries or git remotes."""
    chain = parse_plain_chain(command)
    return chain is not None and any(_find_family(words) is not None for _, words in chain)


def _find_family(words: Sequence[str]) -> RegistryFamily | None:
    match [word.rpartition("/")[2] for word in words[:1]] + list(words[1:]):
        case ["git", *rest] if _REMOTE_GIT_COMMANDS.intersection(rest[:1]):
            return RegistryFamily.GIT
        case [python, "-m", "pip", *_] if _PYTHON_RE.fullmatch(python):
            return RegistryFamily.PIP
        case [program, *_]:
            return _PROGRAM_FAMILIES.get(program)
    return None


def parse_url_host(word: str) -> str | None:
    """Parse the host of a URL as a list entry; None unless the word is a plain URL."""
    match = _PLAIN_URL_RE.fullmatch(word)
    if match is None or "@" in match[0] or (name := normalize_host(match[1])) is None:
        return None
    port = int(match[2]) if match[2] else None
    return name if port is None or port in WEB_PORTS else f"{name}:{port}"


def select_offered_hosts(setting: NetworkSetting, hosts: Iterable[str]) -> tuple[str, ...]:
    """Select the hosts that a user may be offered to always allow."""
    allowed = [parse_host(each) for each in list_entries(setting) if each != REGISTRIES]
    offered = []
    for entry in dict.fromkeys(hosts):
        host = parse_host(entry)
        is_named = parse_address(host.name) is None and not is_local_name(host.name)
        is_new = not any(each.covers(host) for each in allowed)
        if is_named and is_new and not host.is_wildcard and len(entry) <= MAX_OFFERED_HOST_CHARS:
            offered.append(entry)
    return tuple(offered[:MAX_OFFERED_HOSTS])


def expand_registries(
    setting: NetworkSetting, registries: Iterable[RegistryHost]
) -> NetworkSetting:
    """Return the setting with `registries` replaced by the hosts that it means."""
    entries = list_entries(setting)
    if REGISTRIES not in entries:
        return setting
    found = [each.host for each in registries]
    return tuple(
        dict.fromkeys(
            host for entry in entries for host in (found if entry == REGISTRIES else (entry,))
        )
    )
