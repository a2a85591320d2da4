"""Checks of `joey doctor`: the machine, the user's files, keys and profiles.

Each check tests one thing and returns a finding; some can also make safe repairs.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path

from msgspec import Struct, field

from joey import __version__
from joey.app import doctor, resolve_joey_home
from joey.app.customizations import list_active_hooks, open_customizations
from joey.app.features import find_chromium
from joey.app.granted_permissions import load_network_setting
from joey.app.mcp_pool import list_mcp_config_problems
from joey.app.options import make_options
from joey.app.profiles import ProfileAdmin
from joey.app.sandbox import describe_remedy, detect_sandbox
from joey.app.settings import SettingsAdmin
from joey.cli.arguments import EDIT_SETTINGS_COMMAND
from joey.cli.output import format_count
from joey.core.permissions.hosts import format_network
from joey.core.permissions.policy import FILTERING_LEVELS
from joey.engine.engine import ResolvedTaskOptions
from joey.errors import ConfigError, UserError
from joey.ports.execution import SandboxLevel
from joey.presentation.text import to_one_line
from joey.system.subprocess import run

MIN_PYTHON_VERSION = (3, 11)
MIN_GIT_VERSION = (2, 17)
"""Older ones have no `worktree remove`."""
FIX_ADVICE = "joey doctor --fix repairs this."
_PACKAGE_DIRECTORY = Path(__file__).parent.parent.parent
_MAX_VERSION_BYTES = 4096
_INSTALL_ADVICE = "Install {0}: apt install {0}, dnf install {0}, brew install {0}."


class FindingStatus(StrEnum):
    OK = "ok"
    NONE = "none"
    """There is nothing to check, and nothing is missing."""
    WARN = "warn"
    FAIL = "fail"


def resolve_current_directory() -> Path:
    """Return the directory that joey would work in. Raises UserError."""
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise UserError("the current folder no longer exists; change to another one") from error


class Finding(Struct, frozen=True, omit_defaults=True):
    name: str
    status: FindingStatus
    observation: str = field(name="found")
    advice: str = ""
    """What to do about it."""
    applied_fixes: tuple[str, ...] = field(default=(), name="fixed")
    """What `--fix` did about it."""


report_ok = partial(Finding, "", FindingStatus.OK)
report_none = partial(Finding, "", FindingStatus.NONE)
report_warning = partial(Finding, "", FindingStatus.WARN)
report_failure = partial(Finding, "", FindingStatus.FAIL)


class HealthCheck(Struct, frozen=True):
    name: str
    run: Callable[[], Finding]
    """The finding gets the check's name."""
    repair: Callable[[], Iterable[str]] | None = None
    """Sets right what is safe to set right; a sentence about each thing."""
    needs_network: bool = False
    """It opens connections, if only to this machine."""
    run_offline: Callable[[], Finding] | None = None
    """What `--offline` runs instead."""


def check_python() -> Finding:
    found = f"{'.'.join(map(str, sys.version_info[:3]))} ({sys.executable})"
    is_new = sys.version_info >= MIN_PYTHON_VERSION
    return report_ok(found) if is_new else report_failure(found, "Install Python 3.11 or newer.")


def check_joey() -> Finding:
    return report_ok(f"joey {__version__} in {_PACKAGE_DIRECTORY}")


def check_bash() -> Finding:
    path = shutil.which("bash")
    if path is None:
        advice = f"Commands run with it. {_INSTALL_ADVICE.format('bash')}"
        return report_failure("not found", advice)
    return report_ok(path)


def check_ripgrep() -> Finding:
    """Check ripgrep, which comes with joey; another installed one works too."""
    bundled = Path(sys.executable).parent / "rg"
    path = str(bundled) if bundled.exists() else shutil.which("rg")
    if path is None:
        advice = f"Reinstall joey, which includes it. Or: {_INSTALL_ADVICE.format('ripgrep')}"
        return report_failure("not found", advice)
    said = _read_first_output_line([path, "--version"])
    if not said:
        return report_failure(f"{path} does not run", "Reinstall ripgrep.")
    return report_ok(said)


def check_git() -> Finding:
    path = shutil.which("git")
    if path is None:
        advice = f"Checkpoints and isolated subtasks need it. {_INSTALL_ADVICE.format('git')}"
        return report_warning("not found", advice)
    said = _read_first_output_line([path, "--version"])
    numbers = [int(each) for each in said.rpartition(" ")[2].split(".")[:2] if each.isdigit()]
    if not numbers:
        return report_warning(f"{path} does not print its version", "Reinstall git.")
    if tuple(numbers) < MIN_GIT_VERSION:
        oldest = ".".join(map(str, MIN_GIT_VERSION))
        return report_warning(said, f"Install git {oldest} or newer.")
    return report_ok(said)


def check_sandbox() -> Finding:
    """Check the sandbox by running a hostile command in it."""
    report = detect_sandbox()
    reasons = "; ".join(
        f"{level}: {reason}" for level, reason in report.unavailable_reasons.items()
    )
    if report.level is SandboxLevel.NONE:
        advice = f"Every command needs your approval. {describe_remedy(sys.platform)}"
        return report_warning(f"none works ({reasons})", advice)
    network = f"network: {_describe_network()}"
    if not reasons:
        return report_ok(f"{report.level}, {network}", " ".join(report.confinement_gaps))
    better = "For the strongest one, install bubblewrap and allow user namespaces."
    if report.level.value not in FILTERING_LEVELS:
        better = f"It cannot distinguish hosts: only off and all work for the network. {better}"
    advice = " ".join((*report.confinement_gaps, better))
    return report_ok(f"{report.level} ({reasons}), {network}", advice)


def _describe_network() -> str:
    """Describe the network access of commands by the user's settings."""
    try:
        return format_network(load_network_setting())
    except ConfigError:
        return "unknown, because the settings cannot be read"


def check_browser() -> Finding:
    path = find_chromium(os.environ)
    if path is None:
        advice = "Only browser_action needs it: install Chromium, and joey with playwright."
        return report_none("none; the browser tool is not offered", advice)
    if not os.access(path, os.X_OK):
        advice = "Correct JOEY_CHROMIUM, or unset it."
        return report_warning(f"{path} cannot be run", advice)
    return report_ok(path)


def _read_first_output_line(command: list[str]) -> str:
    env = {"PATH": os.environ.get("PATH", os.defpath)}
    try:
        done = asyncio.run(run(command, timeout_s=5, max_output_bytes=_MAX_VERSION_BYTES, env=env))
    except OSError:  # includes timeouts
        return ""
    return done.stdout.decode(errors="replace").partition("\n")[0]


LOW_DISK_BYTES = 1024**3
CRITICAL_DISK_BYTES = 100 * 1024**2
_MAX_LISTED_ITEMS = 5


def check_joey_home() -> Finding:
    """Check that the directory of tasks and settings exists, or can be created, and is writable."""
    home = _resolve_joey_home()
    for directory in (home, home / "tasks"):
        nearest = _find_existing_parent(directory)
        try:
            with tempfile.TemporaryFile(dir=nearest):
                pass
        except OSError as error:
            advice = f"Make {nearest} a writable folder, or set JOEY_HOME to another one."
            return report_failure(f"{directory}: {error.strerror}", advice)
    state = "" if home.exists() else " (created with the first task)"
    return report_ok(f"{home}{state}")


def check_disk_space() -> Finding:
    free = shutil.disk_usage(_find_existing_parent(_resolve_joey_home())).free
    found = f"{free / 1024**3:.1f} GB free where tasks are stored"
    advice = "Free some space: a full disk stops every task."
    if free < CRITICAL_DISK_BYTES:
        return report_failure(found, advice)
    if free < LOW_DISK_BYTES:
        return report_warning(found, advice)
    return report_ok(found)


def check_file_privacy() -> Finding:
    found = doctor.find_exposures(_resolve_joey_home())
    if not found:
        return report_ok("only you can read joey's files")
    listed = _join_items([f"{each.path} {each.reason}" for each in found])
    foreign = any(each.required_mode is None for each in found)
    advice = "Files of another user: chown them, or choose another JOEY_HOME." * foreign
    fixable = FIX_ADVICE * any(each.required_mode is not None for each in found)
    return report_warning(listed, " ".join(filter(None, (advice, fixable))))


def repair_file_privacy() -> Iterable[str]:
    return doctor.make_private(doctor.find_exposures(_resolve_joey_home()))


def check_tasks() -> Finding:
    state = doctor.inspect_store(_resolve_joey_home())
    problems = [f"{name}: {why}" for name, why in state.broken_tasks]
    problems += [
        f"{path} could not be read and was moved aside" for path in state.unreadable_journal_parts
    ]
    untidy = [
        f"{directory.name} is locked by a process that no longer exists"
        for directory in state.stale_locks
    ]
    untidy += [f"{path.name} is an unfinished copy" for path in state.unfinished_copies]
    count = format_count(state.task_count, "task")
    if problems:
        advice = "They cannot be resumed, or lost a part. joey tasks delete ID removes one."
        return report_warning(f"{count}; {_join_items(problems + untidy)}", advice)
    if untidy:
        return report_warning(f"{count}; {_join_items(untidy)}", FIX_ADVICE)
    return report_ok(count)


def repair_tasks() -> Iterable[str]:
    return doctor.clean_up_store(doctor.inspect_store(_resolve_joey_home()))


def check_task_index() -> Finding:
    problem = doctor.explain_index_damage(_resolve_joey_home())
    if not problem:
        return report_ok("ok")
    return report_warning(f"damaged: {problem}", f"It can be rebuilt. {FIX_ADVICE}")


def repair_task_index() -> Iterator[str]:
    if doctor.explain_index_damage(_resolve_joey_home()):
        yield doctor.delete_index(_resolve_joey_home())


def check_settings() -> Finding:
    settings = SettingsAdmin(resolve_current_directory())
    try:
        settings.list_settings()
    except ConfigError as error:
        advice = f"{EDIT_SETTINGS_COMMAND} opens it; joey config unset KEY removes a key."
        return report_failure(str(error), advice)
    remarks = settings.collect_warnings()
    if remarks:
        advice = "joey config unset KEY removes a key that is not used."
        return report_warning(_join_items(list(remarks)), advice)
    missing = "" if settings.path.exists() else " (does not exist: all settings are defaults)"
    return report_ok(f"{settings.path}{missing}")


def check_customizations() -> Finding:
    """Check the modes, rules, commands and skills that apply here."""
    try:
        customizations = open_customizations(resolve_current_directory())
        modes, warnings = customizations.modes, customizations.warnings
    except UserError as error:
        return report_warning("could not be read", str(error))
    reported = set(SettingsAdmin(resolve_current_directory()).collect_warnings())
    if problems := [each for each in warnings if each not in reported]:
        advice = "Correct the file; joey modes list shows the modes that could be read."
        return report_warning(_join_items(problems), advice)
    return report_ok(f"{len(modes)} modes, no problems")


def check_mcp_servers() -> Finding:
    problems = list_mcp_config_problems(resolve_current_directory())
    if problems:
        advice = "Correct the file; joey mcp list shows the servers that could be read."
        return report_warning(_join_items(list(problems)), advice)
    return report_ok("no problems")


def check_hooks() -> Finding:
    """Check the user's hooks and those of this directory."""
    try:
        hooks, untrusted = list_active_hooks(resolve_current_directory())
    except UserError as error:
        return report_warning("could not be read", str(error))
    listed = "; ".join(f"{hook.event}: {hook.short_command}" for hook in hooks) or "none"
    if not untrusted:
        return report_ok(listed)
    found = f"{listed}; {untrusted} from this folder not used"
    return report_warning(found, "Review them with joey trust.")


def check_trust() -> Finding:
    missing = doctor.list_untrusted_titles(resolve_current_directory())
    if not missing:
        return report_ok("nothing here needs your trust")
    found = f"not used, because you have not trusted it: {_join_items(list(missing))}"
    return report_warning(found, "Review it with joey trust --show.")


def _resolve_joey_home() -> Path:
    return resolve_joey_home(os.environ)


def _find_existing_parent(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def _join_items(items: Sequence[str]) -> str:
    more = f"; and {len(items) - _MAX_LISTED_ITEMS} more" if len(items) > _MAX_LISTED_ITEMS else ""
    return "; ".join(to_one_line(each, 300) for each in items[:_MAX_LISTED_ITEMS]) + more


def check_api_keys() -> Finding:
    """Check the API keys; only names are shown, never a key."""
    try:
        found = doctor.find_keys(os.environ)
    except ConfigError as error:
        return report_failure("profiles.json cannot be read", str(error))
    if not found and _is_local_model_chosen():
        return report_none("none; a local model needs none")
    if not found:
        advice = "Set a key, run joey profiles add, or use a local model server."
        return report_warning("none in the environment or in a profile", advice)
    wrong = [f"{key.source}: {key.error}" for key in found if key.error]
    listed = ", ".join(key.source for key in found)
    if wrong:
        advice = f"Set it again, as the provider shows it: {'; '.join(wrong)}."
        return report_warning(listed, advice)
    return report_ok(listed)


def _is_local_model_chosen() -> bool:
    try:
        return ProfileAdmin().is_local(load_current_options().profile.provider)
    except UserError:
        return False  # the model check reports it


def check_profiles() -> Finding:
    admin = ProfileAdmin()
    try:
        known, remark = admin.list_profiles(), admin.active_profile_warning
    except ConfigError as error:
        return report_failure("cannot be read", str(error))
    if remark:
        advice = (
            FIX_ADVICE
            if admin.active_name in known
            else f"joey profiles use NAME: {', '.join(known)}."
        )
        return report_warning(remark, advice)
    if not known:
        return report_none("none")
    active = f" (active: {admin.active_name})" * (admin.active_name in known)
    return report_ok(f"{', '.join(known)}{active}")


def check_model_catalog() -> Finding:
    try:
        count = doctor.count_described_models(_resolve_joey_home())
    except ConfigError as error:
        return report_failure(str(error))
    own = f", and {format_count(count, 'model')} in your files" if count else ""
    return report_ok(f"built in{own}")


def repair_profiles() -> Iterator[str]:
    if settled := ProfileAdmin().repair_active_profile():
        yield f"{settled} is the active profile"


def load_current_options() -> ResolvedTaskOptions:
    """Raises UserError."""
    return make_options(workspace=resolve_current_directory())
