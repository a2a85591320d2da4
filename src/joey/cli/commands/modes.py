"""`joey modes`: the modes of a workspace, with their permissions and instructions."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from joey.app.customizations import check_mode, open_customizations
from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.output import emit, format_columns, print_warning
from joey.cli.task_lookup import resolve_workspace_argument
from joey.core.modes import Grant, Mode, RuleFile, find_mode
from joey.errors import ConfigError
from joey.ports.extensions import Customizations
from joey.presentation.text import get_terminal_width, sanitize, to_one_line, wrap

_SOURCE_LABELS = {"built-in": "built-in", "project": "project", "global": "yours"}


def run_modes(arguments: Namespace) -> ExitCode:
    customizations = open_customizations(resolve_workspace_argument(arguments))
    if arguments.action == "show":
        _print_mode(customizations, arguments.slug, as_json=arguments.json)
    else:
        modes = customizations.modes
        emit([_to_json_fields(mode) for mode in modes], _format_modes(modes), arguments.json)
    for warning in customizations.warnings:
        print_warning(warning)
    return ExitCode.DONE


def _format_modes(modes: Iterable[Mode]) -> list[str]:
    rows = []
    for mode in modes:
        limited = {grant.group: "*" if grant.file_regex else "" for grant in mode.grants}
        may = " ".join(f"{group}{mark}" for group, mark in limited.items()) or "-"
        about = to_one_line(mode.description or mode.purpose, 1000)
        source = _SOURCE_LABELS[mode.source]
        rows.append([mode.slug, to_one_line(mode.name, 30), source, may, about])
    return format_columns(["mode", "name", "from", "may", "use it for"], rows, {0, 2})


def _print_mode(customizations: Customizations, slug: str, *, as_json: bool) -> None:
    try:
        check_mode(slug, lambda: customizations.modes)
    except ConfigError as error:
        raise UsageError(str(error)) from error
    mode = find_mode(slug, customizations.modes)
    assert mode is not None
    instructions = customizations.get_instructions(mode)
    rules = [*instructions.mode_rules, *instructions.agent_rules, *instructions.rules]
    skills = [skill.name for skill in customizations.list_skills(mode)]
    own_prompt = instructions.system_prompt_override is not None
    extra = {"rules": [file.label for file in rules], "skills": skills}
    value = {**_to_json_fields(mode), **extra, "ownSystemPrompt": own_prompt}
    width = get_terminal_width(sys.stdout)
    lines = _describe_mode(mode, rules, skills, has_prompt=own_prompt)
    emit(value, (wrap(line, width) for line in lines), as_json)


def _describe_mode(
    mode: Mode, rules: Sequence[RuleFile], skills: Sequence[str], *, has_prompt: bool
) -> Iterator[str]:
    facts = [
        ("from", _SOURCE_LABELS[mode.source]),
        (
            "may",
            ", ".join(map(_format_grant, mode.grants)) or "ask, plan, and hand work to other modes",
        ),
        ("for", mode.description or mode.purpose),
        ("rules", ", ".join(file.label for file in rules)),
        ("skills", ", ".join(skills)),
        ("prompt", f".roo/system-prompt-{mode.slug}" if has_prompt else ""),
    ]
    yield f"{mode.slug} · {to_one_line(mode.name)}"
    yield from (f"{name + ':':8} {to_one_line(text, 2000)}" for name, text in facts if text)
    yield from ("", sanitize(mode.role))
    if mode.custom_instructions:
        yield from ("", sanitize(mode.custom_instructions))


def _format_grant(grant: Grant) -> str:
    if not grant.file_regex:
        return str(grant.group)
    about = f", {grant.description}" if grant.description else ""
    return f"{grant.group} ({grant.file_regex}{about})"


def _to_json_fields(mode: Mode) -> dict[str, Any]:
    """Encode a mode in the format of a mode file."""
    fields: dict[str, Any] = {
        "slug": mode.slug,
        "name": mode.name,
        "roleDefinition": mode.role,
        "whenToUse": mode.when_to_use,
        "description": mode.description,
        "customInstructions": mode.custom_instructions,
        "groups": [_to_json_group(grant) for grant in mode.grants],
        "source": mode.source,
    }
    return {name: value for name, value in fields.items() if value != ""}


def _to_json_group(grant: Grant) -> Any:
    options = {"fileRegex": grant.file_regex, "description": grant.description}
    given = {name: value for name, value in options.items() if value is not None}
    return [str(grant.group), given] if given else str(grant.group)
