"""`joey config`: the settings, their sources and meaning, and how to change them."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterable
from typing import Any

import msgspec

from joey.app.settings import ConfigKey, SettingOrigin, SettingsAdmin, SettingState
from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.output import (
    emit,
    encode_json,
    format_columns,
    format_table,
    print_warning,
    write_lines,
    write_stdout,
)
from joey.cli.task_lookup import resolve_workspace_argument
from joey.errors import ConfigError, UserError
from joey.presentation.text import get_terminal_width, sanitize, to_one_line, wrap

MIN_WIDE_LAYOUT_COLUMNS = 120
"""From here on the meanings stand beside the values; else they stand below."""
_SettingRow = tuple[str, Any, str, str]
"""Name, value, where it comes from, what it means."""
_ORIGIN_LABELS = {
    SettingOrigin.DEFAULT: "default",
    SettingOrigin.USER: "yours",
    SettingOrigin.PROJECT: "project",
}


def run_config(arguments: Namespace) -> ExitCode:
    settings = SettingsAdmin(resolve_workspace_argument(arguments))
    match arguments.action:
        case "list":
            _print_settings(settings, arguments)
        case "get":
            value = _find_setting_state(settings, arguments.key).value
            if isinstance(value, str) and not arguments.json:
                write_lines([sanitize(value) if sys.stdout.isatty() else value])
            else:
                write_lines([json.dumps(value, ensure_ascii=False)])
        case "set":
            _set_value(settings, arguments)
        case "unset":
            _unset_value(settings, arguments.key)
        case "describe":
            _print_description(settings, arguments)
        case "path":
            write_lines([str(settings.path)])
    return ExitCode.DONE


def _print_settings(settings: SettingsAdmin, arguments: Namespace) -> None:
    states = settings.list_settings()
    if arguments.changed:
        states = [state for state in states if state.origin is not SettingOrigin.DEFAULT]
    model = _list_profile_rows()
    if arguments.json:
        reached = [{"key": key, "value": value, "from": origin} for key, value, origin, _ in model]
        write_stdout(encode_json([*map(_to_json_fields, states), *reached]))
    elif states or model:
        rows = [
            (state.key.name, state.value, _ORIGIN_LABELS[state.origin], state.key.description)
            for state in states
        ]
        write_lines(_format_settings([*rows, *model]))
    else:
        print("every setting has its default", file=sys.stderr)
    for remark in settings.collect_warnings():
        print_warning(remark)


def _list_profile_rows() -> list[_SettingRow]:
    """List the profile that a task would use, or the environment's."""
    from joey.app.profiles import ProfileAdmin  # with the catalogue of providers

    admin = ProfileAdmin()
    try:
        facts = admin.describe_profile()
    except UserError:
        return []  # no complete model choice yet: joey doctor explains
    about = admin.find_config_key
    return [
        (f"profile.{fact.name}", fact.value, fact.origin, about(fact.name).description)
        for fact in facts
        if fact.origin != "default" or fact.name in ("provider", "model")
    ]


def _format_settings(rows: Iterable[_SettingRow]) -> list[str]:
    width = get_terminal_width(sys.stdout)
    cells = [[name, _format_value(value), origin, about] for name, value, origin, about in rows]
    if width is None or width >= MIN_WIDE_LAYOUT_COLUMNS:
        return format_columns(["setting", "value", "from", "what it is"], cells, {0, 2})
    heading, *lines = format_table(
        [["setting", "value", "from"], *(cell[:3] for cell in cells)], width, fixed_columns={0, 2}
    )
    meanings = (wrap(f"    {about}", width) for *_, about in cells)
    return [heading, *(part for pair in zip(lines, meanings, strict=True) for part in pair)]


def _set_value(settings: SettingsAdmin, arguments: Namespace) -> None:
    changes = bool(arguments.add or arguments.remove)
    if changes == bool(arguments.value):
        raise UsageError(
            "give a value, or for a list --add or --remove:"
            f" joey config set {arguments.key} VALUE (joey config describe {arguments.key})"
        )
    key = _find_config_key(settings, arguments.key)
    try:
        if changes:
            value: Any = settings.update_list(key.name, arguments.add, arguments.remove)
        else:
            value = settings.set_value(key.name, arguments.value)
    except ConfigError as error:
        if error.field:
            raise UsageError(f"{error} (see joey config describe {key.name})") from error
        raise
    print(f"{key.name} is now {_format_value(value)}", file=sys.stderr)
    state = settings.find_setting(key.name)
    if state.origin is SettingOrigin.PROJECT:
        shown = _format_value(state.value)
        print_warning(f"in this folder it stays {shown}: .roo/settings.json makes it stricter")


def _unset_value(settings: SettingsAdmin, name: str) -> None:
    try:
        done = settings.unset_value(name)
    except ConfigError as error:
        if error.field:
            raise UsageError(str(error)) from error
        raise
    print(f"{name} reset to its default" if done else f"{name} was not set", file=sys.stderr)


def _print_description(settings: SettingsAdmin, arguments: Namespace) -> None:
    state = _find_setting_state(settings, arguments.key)
    key = state.key
    facts = [
        ("what", key.description),
        ("may be", key.type_description),
        ("default", _format_value(key.default)),
        ("now", f"{_format_value(state.value)} ({_ORIGIN_LABELS[state.origin]})"),
        ("project", key.project_permission or "has no say"),
        ("set it", f"joey config set {key.name} {_format_example_value(key)}"),
    ]
    lines = (
        wrap(f"  {name + ':':9} {text}", get_terminal_width(sys.stdout)) for name, text in facts
    )
    emit(_to_json_fields(state), (key.name, *lines), arguments.json)


def _format_example_value(key: ConfigKey) -> str:
    if key.is_list:
        return "--add ITEM"
    if key.may_be_list:
        return f"{key.choices[-1]}, or: {key.name} ITEM ITEM"
    others = [choice for choice in key.choices if choice != _format_value(key.default)]
    return others[0] if others else "VALUE"


def _find_setting_state(settings: SettingsAdmin, name: str) -> SettingState:
    _find_config_key(settings, name)
    return settings.find_setting(name)


def _find_config_key(settings: SettingsAdmin, name: str) -> ConfigKey:
    try:
        return settings.find_config_key(name)
    except ConfigError as error:
        raise UsageError(f"{error} joey config list names all.") from error


def _to_json_fields(state: SettingState) -> dict[str, Any]:
    described: dict[str, Any] = msgspec.to_builtins(state.key)
    name, about, kind = described.pop("name"), described.pop("about"), described.pop("kind")
    for note in ("isList", "mayBeList"):
        described.pop(note, None)
    return {
        "key": name,
        "value": state.value,
        "from": state.origin,
        "type": kind,
        **described,
        "description": about,
    }


def _format_value(value: Any) -> str:
    if value in (None, ""):
        return "-"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return to_one_line(text, 200)
