"""Each known option before a word that leaves the workspace: should the option take no value after
all, here or in another version of its program, the word is a file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from joey.core.permissions.arguments import ProgramSpec
from joey.core.permissions.git_commands import READ_ONLY_SUBCOMMANDS, build_git_spec
from joey.core.permissions.program_tables import READ_ONLY_PROGRAMS

_LINE_TEMPLATES = ("{0} {1} ../outside/secret other", "{0} {1} link other", "{0} {1} x link")


def iter_option_value_lines() -> Iterator[str]:
    for form, name in product(_LINE_TEMPLATES, sorted(READ_ONLY_SUBCOMMANDS)):
        yield from (
            form.format(f"git {name}", each) for each in _list_options(build_git_spec(name))
        )
    for form, (name, sheet) in product(_LINE_TEMPLATES, READ_ONLY_PROGRAMS.items()):
        yield from (form.format(name, each) for each in _list_options(sheet))


def list_read_only_rules() -> tuple[str, ...]:
    """A rule for each program."""
    return ("git", *READ_ONLY_PROGRAMS)


def _list_options(sheet: ProgramSpec) -> list[str]:
    return [option.rstrip(":=#") for option in sheet.harmless_options.split()]
