"""Probes of what belongs to the person: their folder, tasks, settings, and this workspace."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from joey.app import check_up, joey_home
from joey.app.customs import open_customs
from joey.app.hooks import hooks_here
from joey.app.personal_settings import PersonalSettings
from joey.app.servers import problems_of_servers
from joey.cli.probes import FIX, Finding, Status, here
from joey.errors import ConfigError, UserError
from joey.presentation.text import one_line

ENOUGH_DISK = 1024**3
LITTLE_DISK = 100 * 1024**2
_MOST = 5
"""Things that are named; the rest is counted."""


def probe_home() -> Finding:
    """The folder for tasks and settings must exist, or be possible, and be writable."""
    home = _home()
    for folder in (home, home / "tasks"):
        nearest = _nearest(folder)
        try:
            with tempfile.TemporaryFile(dir=nearest):
                pass
        except OSError as error:
            advice = f"Make {nearest} a folder that is writable, or set JOEY_HOME to another."
            return Finding("Home", Status.FAIL, f"{folder}: {error.strerror}", advice)
    state = "" if home.exists() else " (made when the first task begins)"
    return Finding("Home", Status.OK, f"{home}{state}")


def probe_disk() -> Finding:
    free = shutil.disk_usage(_nearest(_home())).free
    found = f"{free / 1024**3:.1f} GB free where tasks are kept"
    advice = "Make room: a full disk stops every task."
    if free < LITTLE_DISK:
        return Finding("Disk", Status.FAIL, found, advice)
    if free < ENOUGH_DISK:
        return Finding("Disk", Status.WARN, found, advice)
    return Finding("Disk", Status.OK, found)


def probe_privacy() -> Finding:
    found = check_up.exposures(_home())
    if not found:
        return Finding("Privacy", Status.OK, "only you can read what joey keeps")
    listed = _listed([f"{each.path} {each.why}" for each in found])
    foreign = any(each.mode is None for each in found)
    advice = "What belongs to another user: chown it, or choose another JOEY_HOME." * foreign
    fixable = FIX * any(each.mode is not None for each in found)
    return Finding("Privacy", Status.WARN, listed, " ".join(filter(None, (advice, fixable))))


def make_private() -> Iterator[str]:
    yield from check_up.close_to_others(check_up.exposures(_home()))


def probe_tasks() -> Finding:
    state = check_up.store_state(_home())
    troubles = [f"{name}: {why}" for name, why in state.broken]
    troubles += [f"{path} could not be read and was moved aside" for path in state.damaged]
    untidy = [f"{folder.name} was left by a process that is gone" for folder in state.stale]
    untidy += [f"{path.name} is a copy that was never finished" for path in state.leftovers]
    count = f"{state.tasks:,} tasks"
    if troubles:
        advice = "Such tasks cannot go on, or lost a part: joey tasks delete ID, or keep them."
        return Finding("Tasks", Status.WARN, f"{count}; {_listed(troubles + untidy)}", advice)
    if untidy:
        return Finding("Tasks", Status.WARN, f"{count}; {_listed(untidy)}", FIX)
    return Finding("Tasks", Status.OK, count)


def tidy_tasks() -> Iterator[str]:
    yield from check_up.tidy(check_up.store_state(_home()))


def probe_leftovers() -> Finding:
    """What may still be wanted is told, and never removed by itself."""
    home = _home()
    aside, orphans = check_up.files_aside(home), check_up.orphaned_worktrees(home)
    told = [f"{len(aside)} folders in {home / 'put-aside'}"] if aside else []
    told += [f"{path}: of a task that is no more" for path in orphans]
    if not told:
        return Finding("Leftovers", Status.OK, "none")
    advice = "Look at them, and remove what you do not want (git worktree remove, rm -r)."
    return Finding("Leftovers", Status.WARN, _listed(told), advice)


def probe_index() -> Finding:
    trouble = check_up.index_trouble(_home())
    if not trouble:
        return Finding("Index of tasks", Status.OK, "well")
    return Finding("Index of tasks", Status.WARN, f"damaged: {trouble}", f"It is a copy. {FIX}")


def renew_index() -> Iterator[str]:
    if check_up.index_trouble(_home()):
        yield check_up.drop_index(_home())


def probe_settings() -> Finding:
    settings = PersonalSettings(here())
    try:
        settings.states()
    except ConfigError as error:
        advice = "joey config edit opens it; joey config unset KEY removes a key."
        return Finding("Settings", Status.FAIL, str(error), advice)
    remarks = settings.remarks()
    if remarks:
        advice = "joey config unset KEY removes a key that is not used."
        return Finding("Settings", Status.WARN, _listed(list(remarks)), advice)
    return Finding("Settings", Status.OK, f"{settings.path}{_unless(settings.path)}")


def probe_customs() -> Finding:
    """Modes, rules, commands and skills that count here."""
    try:
        customs = open_customs(here())
        modes, warnings = customs.modes, customs.warnings
    except UserError as error:
        return Finding("Modes and rules", Status.WARN, "could not be read", str(error))
    told = set(PersonalSettings(here()).remarks())
    if problems := [each for each in warnings if each not in told]:
        advice = "Correct the file; joey modes list shows what is understood."
        return Finding("Modes and rules", Status.WARN, _listed(problems), advice)
    return Finding("Modes and rules", Status.OK, f"{len(modes)} modes, and all of it is understood")


def probe_servers() -> Finding:
    problems = problems_of_servers(here())
    if problems:
        advice = "Correct the file; joey mcp list shows what is understood of it."
        return Finding("MCP servers", Status.WARN, _listed(list(problems)), advice)
    return Finding("MCP servers", Status.OK, "their files are well")


def probe_hooks() -> Finding:
    """Yours, and what this folder would add."""
    try:
        hooks, untrusted = hooks_here(here())
    except UserError as error:
        return Finding("Hooks", Status.WARN, "could not be read", str(error))
    listed = "; ".join(f"{hook.event}: {hook.shown}" for hook in hooks) or "none"
    if not untrusted:
        return Finding("Hooks", Status.OK, listed)
    found = f"{listed}; {untrusted} of this folder not used"
    return Finding("Hooks", Status.WARN, found, "Look at them with joey trust.")


def probe_trust() -> Finding:
    missing = check_up.untrusted(here())
    if not missing:
        return Finding("This folder", Status.OK, "nothing in it waits for your trust")
    found = f"not used, because you have not trusted it: {_listed(list(missing))}"
    return Finding("This folder", Status.WARN, found, "Look at it with joey trust --show.")


def _home() -> Path:
    return joey_home(os.environ)


def _nearest(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def _unless(path: Path) -> str:
    return "" if path.exists() else " (not there: everything is as it comes)"


def _listed(things: Sequence[str]) -> str:
    more = f"; and {len(things) - _MOST} more" if len(things) > _MOST else ""
    return "; ".join(one_line(each, 300) for each in things[:_MOST]) + more
