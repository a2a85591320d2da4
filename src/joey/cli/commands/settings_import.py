"""`joey import`: take over the settings that Roo Code, Zoo Code or Kilo Code has exported."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from joey.app.roo_import import ImportPlan, PlannedProfile, RooImport, find_exports, load_export
from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.output import confirm, emit, format_count, format_table
from joey.core.redaction import remove_secrets
from joey.presentation.text import get_terminal_width, to_one_line

_MAX_VALUE_CHARS = 60
_PERMISSION_KEYS = ("allowedCommands", "autoApprovalEnabled", "deniedCommands")
_EXPORT_ADVICE = "In Roo Code, choose Settings, About Roo Code, Export; then: joey import FILE"


def run_import(arguments: Namespace) -> ExitCode:
    path = _choose_file(arguments)
    roo_import = RooImport(load_export(path), with_keys=not arguments.no_keys)
    plan = roo_import.plan
    lines = list(_render_plan(plan))
    emit(plan, [f"{path}:", *lines], arguments.json)
    is_look = arguments.dry_run or (arguments.json and not arguments.yes)
    if plan.is_empty or is_look:
        return ExitCode.DONE
    keys = f", with {format_count(plan.secret_count, 'key')}," if plan.secret_count else ""
    question = f"Store this{keys} in {roo_import.home}?"
    if not arguments.yes and not confirm(question, "add -y to store it, or --dry-run to preview"):
        print("Nothing was stored.", file=sys.stderr)
        return ExitCode.DONE
    roo_import.apply()
    print("Stored. `joey doctor` checks the models.", file=sys.stderr)
    return ExitCode.DONE


def _choose_file(arguments: Namespace) -> Path:
    if arguments.file is not None:
        return Path(arguments.file)
    if not arguments.roo:
        raise UsageError(f"name the exported file, or let --roo find it. {_EXPORT_ADVICE}")
    found = find_exports(Path.home())
    if not found:
        raise UsageError(
            "no roo-code-settings.json was found in your home directory, Downloads, Documents and"
            f" Desktop. {_EXPORT_ADVICE}"
        )
    return found[0]


def _render_plan(plan: ImportPlan) -> Iterator[str]:
    permissions = [each for each in plan.settings if _is_permission(each.key)]
    others = [each for each in plan.settings if not _is_permission(each.key)]
    profiles = [_describe_profile(each, plan.active_profile) for each in plan.profiles]
    yield from _render_section("Profiles", profiles)
    for title, changes in (("Permissions", permissions), ("Settings", others)):
        rows = [(each.key, f"{_format(each.before)} → {_format(each.after)}") for each in changes]
        yield from _render_section(title, rows)
    yield from _render_section("Modes", [(slug,) for slug in plan.modes])
    if plan.is_empty:
        yield "Nothing to store: everything exists already, or has no use in joey."
    yield from _render_section("Left out", [(each.name, each.reason) for each in plan.left_out])


def _describe_profile(profile: PlannedProfile, active: str | None) -> tuple[str, ...]:
    notes = []
    if profile.secrets:
        notes.append(f"with {format_count(len(profile.secrets), 'key')}")
    if profile.changes_existing:
        notes.append("changes the one here")
    if profile.name != profile.name_in_file:
        notes.append(f"a different {profile.name_in_file} exists already")
    if profile.name == active:
        notes.append("becomes the active profile")
    return profile.name, profile.provider, profile.model or "", "; ".join(notes)


def _render_section(title: str, rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    if rows:
        yield title
        cells = [tuple(to_one_line(cell, 1000) for cell in row) for row in rows]
        width = get_terminal_width(sys.stdout)
        for line in format_table(cells, None if width is None else width - 2, fixed_columns={0}):
            yield f"  {line}"


def _is_permission(key: str) -> bool:
    return key.startswith("alwaysAllow") or key in _PERMISSION_KEYS


def _format(value: Any) -> str:
    shown = json.dumps(remove_secrets(value), ensure_ascii=False)
    return to_one_line(shown, _MAX_VALUE_CHARS)
