"""Custom modes: `.roomodes` in a project, `modes.yaml` of the user, trust in a project's modes.

Roo Code drops a whole file if one of its modes is broken. Here only the broken mode is dropped, and
the warning names the file, the mode and the field.

A mode decides which tools there are; the permission rules still judge each call. So a new mode is
harmless if the user is asked for approval. A project mode that replaces a built-in one and may do
more is not the mode that the user meant to choose, and without approvals no project mode is
harmless: such modes need the user's trust.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from joey.config.json_documents import replace_config_file
from joey.config.untrusted_files import (
    ConfigScopes,
    SymlinkPolicy,
    UntrustedFileReader,
    YamlError,
    parse_yaml,
)
from joey.core.js_regex_engine import PatternError, compile_path_pattern
from joey.core.modes import (
    BUILT_IN_MODES,
    CustomizationSource,
    Grant,
    Mode,
    ToolGroup,
    find_mode,
    grants_more_than,
)
from joey.core.permissions.policy import ALLOW_ALL_RULE
from joey.core.settings import Settings
from joey.core.text import compile_regex
from joey.errors import ConfigError
from joey.ports.extensions import TrustItem
from joey.system.files import read_regular_file
from joey.system.locks import lock_for_update

PROJECT_MODES_FILE = ".roomodes"
USER_MODES_FILES = ("modes.yaml", "custom_modes.yaml")
"""Ours, and Roo Code's."""
MAX_FILE_BYTES = 256_000
MAX_MODES = 100

_SLUG_RE = compile_regex(r"[A-Za-z0-9-]{1,100}", re.ASCII)
_GROUPS_BY_NAME = {str(group): group for group in ToolGroup if group is not ToolGroup.ALWAYS}
_IGNORED_GROUPS = frozenset({"modes"})
"""Roo's name for tools that every mode has."""
_EMPTY_VALUES = (None, "", "~", "null")
"""How files say that they say nothing."""
_INVISIBLE_CHARS_RE = compile_regex(
    "[\u200b\u200c\u2060\ufeff]|(?<![\u2190-\u2bff\ufe0f\U0001f000-\U0001faff])\u200d"
)
"""A joiner between emoji is part of what is seen."""
_TYPOGRAPHY_TABLE = str.maketrans(
    {
        "\u00a0": " ",
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u2018\u2019", "'"),
        **dict.fromkeys("\u201c\u201d", '"'),
    }
)


class InvalidModeError(ValueError):
    """A mode is invalid; the text names the field and the problem."""


def load_modes(scopes: ConfigScopes, reader: UntrustedFileReader) -> tuple[Mode, ...]:
    """Load custom modes, the project's before the user's; the first of a slug counts."""
    user = scopes.user
    files: list[tuple[Path, str, SymlinkPolicy | None]] = [
        (scopes.workspace / PROJECT_MODES_FILE, PROJECT_MODES_FILE, scopes.symlink_policy),
        *((user.directory / name, f"{user.label}/{name}", None) for name in USER_MODES_FILES),
    ]
    return tuple(mode for file in files for mode in _load_file_modes(reader, *file))


def read_user_mode_entries(home: Path) -> list[Any]:
    """Read the user's modes as stored in their files. Raises ConfigError."""
    return [entry for path in _list_user_files(home) for entry in _read_entries(path)]


def add_user_modes(home: Path, entries: Sequence[Mapping[str, Any]]) -> None:
    """Append modes to the user's file and keep its comments. Raises ConfigError."""
    import yaml

    path = next(iter(_list_user_files(home)), home / USER_MODES_FILES[-1])
    with lock_for_update(path):
        known = _read_entries(path)
        added = yaml.safe_dump(list(entries), sort_keys=False, allow_unicode=True, width=1000)
        try:
            text = path.read_text(encoding="utf-8").rstrip() + "\n" if known else "customModes:\n"
            appended = text + textwrap.indent(added, _find_list_indent(text))
            is_complete = get_mode_entries(parse_modes_text(appended)) == [*known, *entries]
        except (OSError, ValueError):
            is_complete = False
        if not is_complete:  # it is JSON, or something follows the list
            document = {"customModes": [*known, *entries]}
            appended = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=1000)
        replace_config_file(path, appended)


def _list_user_files(home: Path) -> list[Path]:
    return [home / name for name in USER_MODES_FILES if (home / name).is_file()]


def _read_entries(path: Path) -> list[Any]:
    try:
        data = read_regular_file(path, MAX_FILE_BYTES)
        return get_mode_entries(parse_modes_text((data or b"").decode()))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error


def _find_list_indent(text: str) -> str:
    found = re.search(r"^( *)- ", text, re.MULTILINE)
    return found[1] if found else "  "


def _load_file_modes(
    reader: UntrustedFileReader, path: Path, label: str, symlink_policy: SymlinkPolicy | None
) -> Iterator[Mode]:
    text = reader.read(path, label, symlink_policy, MAX_FILE_BYTES)
    if text is None or not text.text.strip():
        return
    if text.is_truncated:
        reader.warn(f"{label} is not used: it has more than {MAX_FILE_BYTES:,} bytes.")
        return
    try:
        entries = get_mode_entries(parse_modes_text(text.text))
    except ValueError as error:
        reader.warn(f"{label} is not used: {error}.")
        return
    source: CustomizationSource = "global" if symlink_policy is None else "project"
    seen: set[str] = set()
    if len(entries) > MAX_MODES:
        reader.warn(f"{label}: only the first {MAX_MODES} modes are used.")
    for number, entry in enumerate(entries[:MAX_MODES], start=1):
        where = f"{label}: mode {_describe_entry(entry, number)}"
        try:
            mode = parse_mode(
                entry, source, lambda note, where=where: reader.warn(f"{where}: {note}.")
            )
            if mode.slug in seen:
                raise InvalidModeError("`slug` is already used by an earlier mode")
        except InvalidModeError as error:
            reader.warn(f"{where} is not used: {error}.")
            continue
        seen.add(mode.slug)
        yield mode


def parse_modes_text(text: str) -> Any:
    """Parse YAML after replacing typographic characters; unchanged if that breaks it; else JSON."""
    visible = _INVISIBLE_CHARS_RE.sub("", text)
    plain = visible.translate(_TYPOGRAPHY_TABLE)
    problem = YamlError("not valid YAML")
    for attempt in (plain, visible):
        try:
            return parse_yaml(attempt)
        except YamlError as error:
            problem = error
    for attempt in (visible, plain):
        try:
            document = json.loads(attempt)
            json.dumps(document, ensure_ascii=False).encode()  # unpaired surrogates cannot be sent
        except (ValueError, RecursionError):
            continue
        return document
    raise problem


def get_mode_entries(document: Any) -> list[Any]:
    if document is None:
        return []
    entries = document.get("customModes") if isinstance(document, dict) else None
    if entries in _EMPTY_VALUES and isinstance(document, dict) and "customModes" in document:
        return []
    if not isinstance(entries, list):
        raise ValueError("it must have a list `customModes`")
    return entries


def _describe_entry(entry: Any, number: int) -> str:
    slug = entry.get("slug") if isinstance(entry, dict) else None
    if isinstance(slug, str) and slug not in _EMPTY_VALUES:
        return f"'{slug[:60]}'"
    return f"number {number}"


def parse_mode(entry: Any, source: CustomizationSource, warn: Any) -> Mode:
    if not isinstance(entry, dict):
        raise InvalidModeError("it must be an object")
    slug = _get_required_text(entry, "slug")
    if not _SLUG_RE.fullmatch(slug):
        raise InvalidModeError("`slug` may have letters, digits and dashes, at most 100")
    return Mode(
        slug=slug,
        name=" ".join(_get_required_text(entry, "name").split()),
        role=_get_required_text(entry, "roleDefinition"),
        when_to_use=_get_optional_text(entry, "whenToUse"),
        grants=tuple(_parse_grants(entry.get("groups"), warn)),
        custom_instructions=_get_optional_text(entry, "customInstructions"),
        description=_get_optional_text(entry, "description"),
        source=source,
    )


def _get_required_text(entry: dict[str, Any], field: str) -> str:
    if entry.get(field) in _EMPTY_VALUES:
        raise InvalidModeError(f"`{field}` is missing")
    if not (text := _get_optional_text(entry, field)):
        raise InvalidModeError(f"`{field}` must be text")
    return text


def _get_optional_text(entry: dict[str, Any], field: str) -> str:
    value = entry.get(field)
    if value in _EMPTY_VALUES:
        return ""
    if not isinstance(value, str):
        raise InvalidModeError(f"`{field}` must be text")
    return value.strip()


def _parse_grants(groups: Any, warn: Any) -> Iterator[Grant]:
    if groups in _EMPTY_VALUES:
        raise InvalidModeError("`groups` is missing (it may be empty: `groups: []`)")
    if not isinstance(groups, list):
        raise InvalidModeError("`groups` must be a list")
    seen: set[str] = set()
    for entry in groups:
        name, options = _parse_group(entry)
        if name in seen:
            raise InvalidModeError(f"`groups` has {name!r} twice")
        seen.add(name)
        if name in _IGNORED_GROUPS:
            continue
        if name not in _GROUPS_BY_NAME:
            warn(f"`groups` has {name[:40]!r}, which is unknown and grants nothing")
            continue
        yield Grant(_GROUPS_BY_NAME[name], *options)


def _parse_group(entry: Any) -> tuple[str, tuple[str | None, str | None]]:
    match entry:
        case str():
            return entry.strip(), (None, None)
        case [str() as name]:
            return name.strip(), (None, None)
        case [str() as name, dict() as options]:
            description = _get_optional_text(options, "description") or None
            return name.strip(), (_parse_file_regex(options), description)
    raise InvalidModeError("`groups` must hold names, or pairs of a name and its options")


def _parse_file_regex(options: dict[str, Any]) -> str | None:
    pattern = options.get("fileRegex")
    if pattern is None:
        return None
    if not isinstance(pattern, str):
        raise InvalidModeError("`fileRegex` must be text")
    try:
        compile_path_pattern(pattern)
    except PatternError as error:
        raise InvalidModeError(f"`fileRegex` cannot be used: {error}") from error
    return pattern


TrustCheck = Callable[[Mapping[str, bytes]], bool]
"""Whether the user has agreed to these things of the project, byte for byte."""


def filter_usable_modes(
    found: tuple[Mode, ...], settings: Settings, is_trusted: TrustCheck, reader: UntrustedFileReader
) -> tuple[Mode, ...]:
    """Filter out project modes that lack the trust they need, with a warning for each."""
    writes = settings.auto_approval_enabled and settings.always_allow_write
    runs_all = settings.always_allow_execute and ALLOW_ALL_RULE in settings.allowed_commands
    unasked = writes and runs_all
    usable: list[Mode] = []
    for mode in found:
        why = _explain_required_trust(mode, found, unasked) if mode.source == "project" else None
        if why is None or is_trusted({f"mode:{mode.slug}": msgspec.json.encode(mode)}):
            usable.append(mode)
        else:
            reader.warn(
                f"{PROJECT_MODES_FILE}: mode '{mode.slug}' is not used: {why}; `joey trust` shows "
                "and asks."
            )
    return tuple(usable)


def build_mode_trust_items(found: Sequence[Mode]) -> tuple[TrustItem, ...]:
    """List the trust items of all project modes, and whether the user is asked about them first."""
    return tuple(
        TrustItem(
            name=f"mode:{mode.slug}",
            title=f"mode '{mode.slug}' of {PROJECT_MODES_FILE}",
            content=msgspec.json.encode(mode),
            details=tuple(_describe_mode(mode)),
            needs_trust_only_unattended=_find_stricter_original(mode, found) is None,
        )
        for mode in found
        if mode.source == "project"
    )


def _explain_required_trust(mode: Mode, found: Sequence[Mode], unasked: bool) -> str | None:
    if (known := _find_stricter_original(mode, found)) is not None:
        return f"it may do more than the {known.source} mode that it would replace"
    return "nothing needs approval (-y), and you have not trusted it" if unasked else None


def _find_stricter_original(mode: Mode, found: Sequence[Mode]) -> Mode | None:
    """Find the mode that a project's mode replaces, if that one may do less."""
    own = [each for each in found if each.slug == mode.slug and each.source == "global"]
    known = own[0] if own else find_mode(mode.slug, BUILT_IN_MODES)
    if known is None or find_mode(mode.slug, BUILT_IN_MODES) is None:
        return None
    return known if grants_more_than(mode, known) else None


def _describe_mode(mode: Mode) -> Iterator[str]:
    groups = (
        f"{grant.group} ({grant.file_regex})" if grant.file_regex else str(grant.group)
        for grant in mode.grants
    )
    yield f"may use   {', '.join(groups) or 'nothing'}"
    if find_mode(mode.slug, BUILT_IN_MODES) is not None:
        yield "in place of the built-in mode of this name"
