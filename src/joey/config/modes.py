"""Modes that people made: `.roomodes` in a project, `modes.yaml` of the person's own.

Roo Code drops a file as a whole when one of its modes is broken. Here the broken mode is dropped
alone, and the warning names the file, the mode and the field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from joey.config.scopes import Scopes
from joey.config.sightings import Fence, Sightings
from joey.config.yaml_text import YamlError, read_yaml
from joey.core.customs import Source
from joey.core.modes import Grant, Group, Mode
from joey.core.path_pattern import path_pattern
from joey.core.path_pattern_syntax import PatternError
from joey.core.regex import regex

PROJECT_FILE = ".roomodes"
USER_FILES = ("modes.yaml", "custom_modes.yaml")
"""Ours, and Roo Code's."""
LARGEST_FILE = 256_000
MOST_MODES = 100

_SLUG = regex(r"[A-Za-z0-9-]{1,100}", re.ASCII)
_GRANTED = {str(group): group for group in Group if group is not Group.ALWAYS}
_WITHOUT_EFFECT = frozenset({"modes"})
"""Roo's name for tools that every mode has."""
_NOTHING = (None, "", "~", "null")
"""How files say that they say nothing."""
_INVISIBLE = regex(
    "[\u200b\u200c\u2060\ufeff]|(?<![\u2190-\u2bff\ufe0f\U0001f000-\U0001faff])\u200d"
)
"""A joiner between emoji is part of what is seen."""
_TYPOGRAPHY = str.maketrans(
    {
        "\u00a0": " ",
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u2018\u2019", "'"),
        **dict.fromkeys("\u201c\u201d", '"'),
    }
)


class BrokenModeError(ValueError):
    """The text names the field and what is wrong with it."""


def load_modes(scopes: Scopes, sightings: Sightings) -> tuple[Mode, ...]:
    """Custom modes, the project's before the person's; of one slug the first counts."""
    modes = [*_file_modes(sightings, scopes.workspace / PROJECT_FILE, PROJECT_FILE, scopes.fence)]
    for name in USER_FILES:
        path, label = scopes.user.folder / name, f"{scopes.user.label}/{name}"
        modes += _file_modes(sightings, path, label, None)
    return tuple(modes)


def _file_modes(
    sightings: Sightings, path: Path, label: str, fence: Fence | None
) -> Iterator[Mode]:
    text = sightings.read(path, label, fence, LARGEST_FILE)
    if text is None or not text.text.strip():
        return
    if text.is_cut:
        sightings.warn(f"{label} is not used: it has more than {LARGEST_FILE:,} bytes.")
        return
    try:
        entries = _entries(_parse(text.text))
    except ValueError as error:
        sightings.warn(f"{label} is not used: {error}.")
        return
    source: Source = "global" if fence is None else "project"
    seen: set[str] = set()
    if len(entries) > MOST_MODES:
        sightings.warn(f"{label}: only the first {MOST_MODES} modes are used.")
    for number, entry in enumerate(entries[:MOST_MODES], start=1):
        where = f"{label}: mode {_name_of(entry, number)}"
        try:
            mode = _mode(
                entry, source, lambda note, where=where: sightings.warn(f"{where}: {note}.")
            )
            if mode.slug in seen:
                raise BrokenModeError("`slug` is that of another mode before it")
        except BrokenModeError as error:
            sightings.warn(f"{where} is not used: {error}.")
            continue
        seen.add(mode.slug)
        yield mode


def _parse(text: str) -> Any:
    """YAML with its typography made plain; as it stands where that spoils it; else JSON."""
    visible = _INVISIBLE.sub("", text)
    plain = visible.translate(_TYPOGRAPHY)
    problem = YamlError("not valid YAML")
    for attempt in (plain, visible):
        try:
            return read_yaml(attempt)
        except YamlError as error:
            problem = error
    for attempt in (visible, plain):
        try:
            document = json.loads(attempt)
            json.dumps(document, ensure_ascii=False).encode()  # halves of characters cannot be sent
        except (ValueError, RecursionError):
            continue
        return document
    raise problem


def _entries(document: Any) -> list[Any]:
    if document is None:
        return []
    entries = document.get("customModes") if isinstance(document, dict) else None
    if entries in _NOTHING and isinstance(document, dict) and "customModes" in document:
        return []
    if not isinstance(entries, list):
        raise ValueError("it must have a list `customModes`")
    return entries


def _name_of(entry: Any, number: int) -> str:
    slug = entry.get("slug") if isinstance(entry, dict) else None
    return (
        f"'{slug[:60]}'" if isinstance(slug, str) and slug not in _NOTHING else f"number {number}"
    )


def _mode(entry: Any, source: Source, note: Any) -> Mode:
    if not isinstance(entry, dict):
        raise BrokenModeError("it is not a list of fields")
    slug = _required(entry, "slug")
    if not _SLUG.fullmatch(slug):
        raise BrokenModeError("`slug` may have letters, digits and dashes, at most 100")
    return Mode(
        slug=slug,
        name=" ".join(_required(entry, "name").split()),
        role=_required(entry, "roleDefinition"),
        when_to_use=_optional(entry, "whenToUse"),
        grants=tuple(_grants(entry.get("groups"), note)),
        custom_instructions=_optional(entry, "customInstructions"),
        description=_optional(entry, "description"),
        source=source,
    )


def _required(entry: dict[str, Any], field: str) -> str:
    value = entry.get(field)
    if value in _NOTHING:
        raise BrokenModeError(f"`{field}` is missing")
    if not isinstance(value, str) or not value.strip():
        raise BrokenModeError(f"`{field}` must be text")
    return value.strip()


def _optional(entry: dict[str, Any], field: str) -> str:
    value = entry.get(field)
    if value in _NOTHING:
        return ""
    if not isinstance(value, str):
        raise BrokenModeError(f"`{field}` must be text")
    return value.strip()


def _grants(groups: Any, note: Any) -> Iterator[Grant]:
    if groups in _NOTHING:
        raise BrokenModeError("`groups` is missing (it may be empty: `groups: []`)")
    if not isinstance(groups, list):
        raise BrokenModeError("`groups` must be a list")
    seen: set[str] = set()
    for entry in groups:
        name, options = _group(entry)
        if name in seen:
            raise BrokenModeError(f"`groups` has {name!r} twice")
        seen.add(name)
        if name in _WITHOUT_EFFECT:
            continue
        if name not in _GRANTED:
            note(f"`groups` has {name[:40]!r}, which is not known and grants nothing")
            continue
        yield Grant(_GRANTED[name], *options)


def _group(entry: Any) -> tuple[str, tuple[str | None, str | None]]:
    match entry:
        case str():
            return entry.strip(), (None, None)
        case [str() as name]:
            return name.strip(), (None, None)
        case [str() as name, dict() as options]:
            return name.strip(), (_pattern(options), _optional(options, "description") or None)
    raise BrokenModeError("`groups` must hold names, or pairs of a name and its options")


def _pattern(options: dict[str, Any]) -> str | None:
    pattern = options.get("fileRegex")
    if pattern is None:
        return None
    if not isinstance(pattern, str):
        raise BrokenModeError("`fileRegex` must be text")
    try:
        path_pattern(pattern)
    except PatternError as error:
        raise BrokenModeError(f"`fileRegex` cannot be used: {error}") from error
    return pattern
