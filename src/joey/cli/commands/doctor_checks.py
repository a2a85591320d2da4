"""Checks of `joey doctor`: the machine, the user's files, the model connection.

Each check tries one thing and returns a finding; some can also repair what is safe to repair.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct, field

from joey import __version__
from joey.app import doctor, resolve_joey_home
from joey.app.customizations import list_active_hooks, open_customizations
from joey.app.doctor import find_keys
from joey.app.features import find_chromium
from joey.app.mcp_pool import list_mcp_config_problems
from joey.app.models import (
    HTTP_NOT_FOUND,
    LOCAL_PROVIDERS,
    LocalServer,
    find_local_servers,
    find_missing_endpoint,
    request_models,
)
from joey.app.options import make_options
from joey.app.profiles import ProfileAdmin
from joey.app.sandbox import detect_sandbox
from joey.app.settings import SettingsAdmin
from joey.cli.arguments import EDIT_SETTINGS_COMMAND
from joey.core.redaction import remove_secrets
from joey.core.settings import Profile
from joey.errors import ConfigError, NoModelError, UserError
from joey.ports.execution import SandboxLevel
from joey.presentation.text import to_one_line
from joey.system.subprocess import run

MIN_PYTHON_VERSION = (3, 11)
MIN_GIT_VERSION = (2, 17)
"""Older ones have no `worktree remove`."""
FIX_ADVICE = "joey doctor --fix sets this right."
_PACKAGE_DIRECTORY = Path(__file__).parent.parent.parent
_MAX_VERSION_BYTES = 4096
_INSTALL_ADVICE = "Install {0}: apt install {0}, dnf install {0}, brew install {0}."


class FindingStatus(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


def resolve_current_directory() -> Path:
    """The folder that joey would work in. Raises UserError."""
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise UserError("the current folder is gone; go to another") from error


class Finding(Struct, frozen=True, omit_defaults=True):
    name: str
    status: FindingStatus
    observation: str = field(name="found")
    advice: str = ""
    """What to do about it."""
    applied_fixes: tuple[str, ...] = field(default=(), name="fixed")
    """What `--fix` did about it."""


class HealthCheck(Struct, frozen=True):
    name: str
    run: Callable[[], Finding]
    repair: Callable[[], Iterator[str]] | None = None
    """Sets right what is safe to set right; a sentence about each thing."""
    needs_network: bool = False
    """It opens connections, if only to this machine."""


def check_python() -> Finding:
    found = f"{'.'.join(map(str, sys.version_info[:3]))} ({sys.executable})"
    if sys.version_info < MIN_PYTHON_VERSION:
        return Finding("Python", FindingStatus.FAIL, found, "Install Python 3.11 or newer.")
    return Finding("Python", FindingStatus.OK, found)


def check_joey() -> Finding:
    return Finding("joey", FindingStatus.OK, f"joey {__version__} in {_PACKAGE_DIRECTORY}")


def check_bash() -> Finding:
    path = shutil.which("bash")
    if path is None:
        advice = f"Commands run with it. {_INSTALL_ADVICE.format('bash')}"
        return Finding("bash", FindingStatus.FAIL, "not found", advice)
    return Finding("bash", FindingStatus.OK, path)


def check_ripgrep() -> Finding:
    """Comes with joey; one that is installed otherwise does as well."""
    bundled = Path(sys.executable).parent / "rg"
    path = str(bundled) if bundled.exists() else shutil.which("rg")
    if path is None:
        advice = f"Reinstall joey, which brings it along. Or: {_INSTALL_ADVICE.format('ripgrep')}"
        return Finding("ripgrep", FindingStatus.FAIL, "not found", advice)
    said = _read_first_output_line([path, "--version"])
    if not said:
        return Finding("ripgrep", FindingStatus.FAIL, f"{path} does not run", "Reinstall ripgrep.")
    return Finding("ripgrep", FindingStatus.OK, said)


def check_git() -> Finding:
    path = shutil.which("git")
    if path is None:
        advice = f"Checkpoints and subtasks of their own need it. {_INSTALL_ADVICE.format('git')}"
        return Finding("git", FindingStatus.WARN, "not found", advice)
    said = _read_first_output_line([path, "--version"])
    numbers = [int(each) for each in said.rpartition(" ")[2].split(".")[:2] if each.isdigit()]
    if not numbers:
        return Finding(
            "git", FindingStatus.WARN, f"{path} does not tell its version", "Reinstall git."
        )
    if tuple(numbers) < MIN_GIT_VERSION:
        oldest = ".".join(map(str, MIN_GIT_VERSION))
        return Finding("git", FindingStatus.WARN, said, f"Install git {oldest} or newer.")
    return Finding("git", FindingStatus.OK, said)


def check_sandbox() -> Finding:
    """What confines commands, found out by running a hostile one."""
    report = detect_sandbox()
    reasons = "; ".join(
        f"{level}: {reason}" for level, reason in report.unavailable_reasons.items()
    )
    if report.level is SandboxLevel.NONE:
        advice = "Every command will be asked for. Install bubblewrap, or see --no-sandbox."
        return Finding("Sandbox", FindingStatus.WARN, f"none works ({reasons})", advice)
    if not reasons:
        return Finding(
            "Sandbox", FindingStatus.OK, str(report.level), " ".join(report.confinement_gaps)
        )
    better = "For the strongest one install bubblewrap, and allow user namespaces."
    advice = " ".join((*report.confinement_gaps, better))
    return Finding("Sandbox", FindingStatus.OK, f"{report.level} ({reasons})", advice)


def check_browser() -> Finding:
    path = find_chromium(os.environ)
    if path is None:
        advice = "Only browser_action needs it: install Chromium, and joey with playwright."
        return Finding("Browser", FindingStatus.OK, "none; the browser tool is not offered", advice)
    if not os.access(path, os.X_OK):
        advice = "Correct JOEY_CHROMIUM, or unset it."
        return Finding("Browser", FindingStatus.WARN, f"{path} cannot be run", advice)
    return Finding("Browser", FindingStatus.OK, path)


def _read_first_output_line(command: list[str]) -> str:
    env = {"PATH": os.environ.get("PATH", os.defpath)}
    try:
        done = asyncio.run(run(command, timeout_s=5, max_output_bytes=_MAX_VERSION_BYTES, env=env))
    except OSError:  # a timeout as well
        return ""
    return done.stdout.decode(errors="replace").partition("\n")[0]


LOW_DISK_BYTES = 1024**3
CRITICAL_DISK_BYTES = 100 * 1024**2
_MAX_LISTED_ITEMS = 5


def check_joey_home() -> Finding:
    """The folder for tasks and settings must exist, or be possible, and be writable."""
    home = _resolve_joey_home()
    for directory in (home, home / "tasks"):
        nearest = _find_existing_parent(directory)
        try:
            with tempfile.TemporaryFile(dir=nearest):
                pass
        except OSError as error:
            advice = f"Make {nearest} a folder that is writable, or set JOEY_HOME to another."
            return Finding("Home", FindingStatus.FAIL, f"{directory}: {error.strerror}", advice)
    state = "" if home.exists() else " (made when the first task begins)"
    return Finding("Home", FindingStatus.OK, f"{home}{state}")


def check_disk_space() -> Finding:
    free = shutil.disk_usage(_find_existing_parent(_resolve_joey_home())).free
    found = f"{free / 1024**3:.1f} GB free where tasks are kept"
    advice = "Make room: a full disk stops every task."
    if free < CRITICAL_DISK_BYTES:
        return Finding("Disk", FindingStatus.FAIL, found, advice)
    if free < LOW_DISK_BYTES:
        return Finding("Disk", FindingStatus.WARN, found, advice)
    return Finding("Disk", FindingStatus.OK, found)


def check_file_privacy() -> Finding:
    found = doctor.find_exposures(_resolve_joey_home())
    if not found:
        return Finding("Privacy", FindingStatus.OK, "only you can read what joey keeps")
    listed = _join_items([f"{each.path} {each.reason}" for each in found])
    foreign = any(each.required_mode is None for each in found)
    advice = "What belongs to another user: chown it, or choose another JOEY_HOME." * foreign
    fixable = FIX_ADVICE * any(each.required_mode is not None for each in found)
    return Finding("Privacy", FindingStatus.WARN, listed, " ".join(filter(None, (advice, fixable))))


def repair_file_privacy() -> Iterator[str]:
    yield from doctor.make_private(doctor.find_exposures(_resolve_joey_home()))


def check_tasks() -> Finding:
    state = doctor.inspect_store(_resolve_joey_home())
    problems = [f"{name}: {why}" for name, why in state.broken_tasks]
    problems += [
        f"{path} could not be read and was moved aside" for path in state.unreadable_journal_parts
    ]
    untidy = [
        f"{directory.name} was left by a process that is gone" for directory in state.stale_locks
    ]
    untidy += [f"{path.name} is a copy that was never finished" for path in state.unfinished_copies]
    count = f"{state.task_count:,} tasks"
    if problems:
        advice = "Such tasks cannot go on, or lost a part: joey tasks delete ID, or keep them."
        return Finding(
            "Tasks", FindingStatus.WARN, f"{count}; {_join_items(problems + untidy)}", advice
        )
    if untidy:
        return Finding("Tasks", FindingStatus.WARN, f"{count}; {_join_items(untidy)}", FIX_ADVICE)
    return Finding("Tasks", FindingStatus.OK, count)


def repair_tasks() -> Iterator[str]:
    yield from doctor.clean_up_store(doctor.inspect_store(_resolve_joey_home()))


def check_task_index() -> Finding:
    problem = doctor.explain_index_damage(_resolve_joey_home())
    if not problem:
        return Finding("Index of tasks", FindingStatus.OK, "well")
    return Finding(
        "Index of tasks", FindingStatus.WARN, f"damaged: {problem}", f"It is a copy. {FIX_ADVICE}"
    )


def repair_task_index() -> Iterator[str]:
    if doctor.explain_index_damage(_resolve_joey_home()):
        yield doctor.delete_index(_resolve_joey_home())


def check_settings() -> Finding:
    settings = SettingsAdmin(resolve_current_directory())
    try:
        settings.list_settings()
    except ConfigError as error:
        advice = f"{EDIT_SETTINGS_COMMAND} opens it; joey config unset KEY removes a key."
        return Finding("Settings", FindingStatus.FAIL, str(error), advice)
    remarks = settings.collect_warnings()
    if remarks:
        advice = "joey config unset KEY removes a key that is not used."
        return Finding("Settings", FindingStatus.WARN, _join_items(list(remarks)), advice)
    missing = "" if settings.path.exists() else " (not there: everything is as it comes)"
    return Finding("Settings", FindingStatus.OK, f"{settings.path}{missing}")


def check_customizations() -> Finding:
    """Modes, rules, commands and skills that count here."""
    try:
        customizations = open_customizations(resolve_current_directory())
        modes, warnings = customizations.modes, customizations.warnings
    except UserError as error:
        return Finding("Modes and rules", FindingStatus.WARN, "could not be read", str(error))
    reported = set(SettingsAdmin(resolve_current_directory()).collect_warnings())
    if problems := [each for each in warnings if each not in reported]:
        advice = "Correct the file; joey modes list shows what is understood."
        return Finding("Modes and rules", FindingStatus.WARN, _join_items(problems), advice)
    return Finding(
        "Modes and rules", FindingStatus.OK, f"{len(modes)} modes, and all of it is understood"
    )


def check_mcp_servers() -> Finding:
    problems = list_mcp_config_problems(resolve_current_directory())
    if problems:
        advice = "Correct the file; joey mcp list shows what is understood of it."
        return Finding("MCP servers", FindingStatus.WARN, _join_items(list(problems)), advice)
    return Finding("MCP servers", FindingStatus.OK, "their files are well")


def check_hooks() -> Finding:
    """Yours, and what this folder would add."""
    try:
        hooks, untrusted = list_active_hooks(resolve_current_directory())
    except UserError as error:
        return Finding("Hooks", FindingStatus.WARN, "could not be read", str(error))
    listed = "; ".join(f"{hook.event}: {hook.short_command}" for hook in hooks) or "none"
    if not untrusted:
        return Finding("Hooks", FindingStatus.OK, listed)
    found = f"{listed}; {untrusted} of this folder not used"
    return Finding("Hooks", FindingStatus.WARN, found, "Look at them with joey trust.")


def check_trust() -> Finding:
    missing = doctor.list_untrusted_titles(resolve_current_directory())
    if not missing:
        return Finding("This folder", FindingStatus.OK, "nothing in it waits for your trust")
    found = f"not used, because you have not trusted it: {_join_items(list(missing))}"
    return Finding("This folder", FindingStatus.WARN, found, "Look at it with joey trust --show.")


def _resolve_joey_home() -> Path:
    return resolve_joey_home(os.environ)


def _find_existing_parent(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def _join_items(items: Sequence[str]) -> str:
    more = f"; and {len(items) - _MAX_LISTED_ITEMS} more" if len(items) > _MAX_LISTED_ITEMS else ""
    return "; ".join(to_one_line(each, 300) for each in items[:_MAX_LISTED_ITEMS]) + more


CONNECTION_TIMEOUT_S = 3.0
_PROXY_VARIABLES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
_AUTH_ERROR_STATUSES = (401, 403)


def check_api_keys() -> Finding:
    """Names only: a key is never shown."""
    try:
        found = find_keys(os.environ)
    except ConfigError as error:
        return Finding("Keys", FindingStatus.FAIL, "profiles.json cannot be read", str(error))
    if not found:
        advice = "Set a key, joey profiles add, or use a model server of this machine."
        return Finding("Keys", FindingStatus.WARN, "no key is set, and none in a profile", advice)
    wrong = [f"{key.source}: {key.error}" for key in found if key.error]
    listed = ", ".join(key.source for key in found)
    if wrong:
        advice = f"Set it again, as the provider shows it: {'; '.join(wrong)}."
        return Finding("Keys", FindingStatus.WARN, listed, advice)
    return Finding("Keys", FindingStatus.OK, listed)


def check_profiles() -> Finding:
    admin = ProfileAdmin()
    try:
        known, remark = admin.list_profiles(), admin.active_profile_warning
    except ConfigError as error:
        return Finding("Profiles", FindingStatus.FAIL, "they cannot be read", str(error))
    if remark:
        advice = (
            FIX_ADVICE
            if admin.active_name in known
            else f"joey profiles use NAME: {', '.join(known)}."
        )
        return Finding("Profiles", FindingStatus.WARN, remark, advice)
    active = f" ({admin.active_name} is the active one)" * (admin.active_name in known)
    return Finding("Profiles", FindingStatus.OK, f"{', '.join(known) or 'none'}{active}")


def repair_profiles() -> Iterator[str]:
    if settled := ProfileAdmin().repair_active_profile():
        yield f"{settled} is the active profile"


def check_local_servers() -> Finding:
    servers = asyncio.run(find_local_servers(os.environ))
    if not servers:
        looked = ", ".join(kind.name for kind in LOCAL_PROVIDERS)
        return Finding("Local models", FindingStatus.OK, f"none running (looked for {looked})")
    listed = "; ".join(
        f"{each.provider} at {each.base_url}: {_describe_models(each)}" for each in servers
    )
    usable = next((each for each in servers if each.models), servers[0])
    advice = f"To use it: joey {shlex.join(usable.flags)}"
    return Finding("Local models", FindingStatus.OK, listed, advice)


def _describe_models(server: LocalServer) -> str:
    models = server.models
    more = f" and {len(models) - 3} more" if len(models) > 3 else ""
    return ", ".join(models[:3]) + more if models else "no model is loaded yet"


def check_model() -> Finding:
    """Settings and profiles are read, and a model is chosen, exactly as for a task."""
    try:
        profile = _load_profile()
    except ConfigError as error:
        return Finding("Model", FindingStatus.FAIL, "none can be used", str(error))
    except UserError as error:
        return Finding("Model", FindingStatus.WARN, "could not be chosen", str(error))
    where = f" at {remove_secrets(profile.base_url)}" if profile.base_url else ""
    return Finding("Model", FindingStatus.OK, f"{profile.model} of {profile.provider}{where}")


def check_connection() -> Finding:
    """Name, connection, certificate, and an answer to the cheapest question there is."""
    try:
        profile = _load_profile()
    except NoModelError:
        return Finding("Connection", FindingStatus.OK, "not tried: no model is chosen yet")
    except UserError:
        return Finding("Connection", FindingStatus.OK, "not tried: see the finding about the model")
    started = time.monotonic()
    try:
        answer = asyncio.run(request_models(profile, os.environ, CONNECTION_TIMEOUT_S))
        silent = None
        if answer.status == HTTP_NOT_FOUND:
            silent = asyncio.run(find_missing_endpoint(profile, os.environ, CONNECTION_TIMEOUT_S))
    except ConfigError as error:
        return Finding("Connection", FindingStatus.FAIL, "there is no way to it", str(error))
    except UserError as error:
        advice = f"{error}{_describe_proxies()} joey doctor --offline leaves this out."
        return Finding(
            "Connection", FindingStatus.FAIL, f"{profile.provider} cannot be reached", advice
        )
    took = f"in {(time.monotonic() - started) * 1000:.0f} ms{_describe_proxies()}"
    return (
        _build_no_model_list_finding(silent, profile, took)
        if silent
        else _build_connection_finding(profile, answer.status, took)
    )


def _build_no_model_list_finding(url: str, profile: Profile, took: str) -> Finding:
    """Some servers know nothing but what a task sends them; others are at another address."""
    advice = (
        f"Only a task will tell whether it works: it asks {remove_secrets(url)}. If that fails,"
        " check the address, its path above all; joey profiles show names its source."
    )
    found = f"{profile.provider} answers, but does not list its models ({HTTP_NOT_FOUND}) {took}"
    return Finding("Connection", FindingStatus.WARN, found, advice)


def _build_connection_finding(profile: Profile, status: int, took: str) -> Finding:
    name = profile.provider
    if status in _AUTH_ERROR_STATUSES:
        advice = "The key is not accepted there: set another. joey profiles show names its source."
        return Finding("Connection", FindingStatus.FAIL, f"{name} answers {status} {took}", advice)
    if status >= 500 or status == 429:
        advice = "The service is in trouble or busy: try again later."
        return Finding("Connection", FindingStatus.WARN, f"{name} answers {status} {took}", advice)
    if 300 <= status < 400:
        advice = "It points elsewhere: set the base URL to where it answers itself."
        return Finding("Connection", FindingStatus.WARN, f"{name} answers {status} {took}", advice)
    # Some have no list of models to ask for; that they answer at all is what matters.
    return Finding("Connection", FindingStatus.OK, f"{name} answers ({status}) {took}")


def _describe_proxies() -> str:
    named = [
        name for name in _PROXY_VARIABLES if os.environ.get(name) or os.environ.get(name.lower())
    ]
    return f" ({', '.join(named)} is set)" if named else ""


def _load_profile() -> Profile:
    """Raises UserError."""
    return make_options(workspace=resolve_current_directory()).profile
