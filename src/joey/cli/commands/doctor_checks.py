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
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path

from msgspec import Struct, field

from joey import __version__
from joey.app import doctor, resolve_joey_home
from joey.app.customizations import list_active_hooks, open_customizations
from joey.app.doctor import find_keys
from joey.app.features import find_chromium
from joey.app.local_models import MEASURE_TIMEOUT_S, ServerReport, inspect_local_servers
from joey.app.mcp_pool import list_mcp_config_problems
from joey.app.models import (
    HTTP_NOT_FOUND,
    LOCAL_PROVIDERS,
    find_missing_endpoint,
    request_models,
)
from joey.app.options import make_options
from joey.app.profiles import ProfileAdmin
from joey.app.sandbox import detect_sandbox
from joey.app.settings import SettingsAdmin
from joey.cli.arguments import EDIT_SETTINGS_COMMAND
from joey.core.models import MIN_WINDOW_TOKENS, SMALL_WINDOW_TOKENS, ModelFacts, ServedModel
from joey.core.redaction import remove_secrets
from joey.core.settings import Profile
from joey.errors import ConfigError, NoModelError, UserError
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
    WARN = "warn"
    FAIL = "fail"


def resolve_current_directory() -> Path:
    """The folder that joey would work in. Raises UserError."""
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


_ok = partial(Finding, "", FindingStatus.OK)
_warn = partial(Finding, "", FindingStatus.WARN)
_fail = partial(Finding, "", FindingStatus.FAIL)


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
    return _ok(found) if is_new else _fail(found, "Install Python 3.11 or newer.")


def check_joey() -> Finding:
    return _ok(f"joey {__version__} in {_PACKAGE_DIRECTORY}")


def check_bash() -> Finding:
    path = shutil.which("bash")
    if path is None:
        advice = f"Commands run with it. {_INSTALL_ADVICE.format('bash')}"
        return _fail("not found", advice)
    return _ok(path)


def check_ripgrep() -> Finding:
    """Comes with joey; one that is installed otherwise does as well."""
    bundled = Path(sys.executable).parent / "rg"
    path = str(bundled) if bundled.exists() else shutil.which("rg")
    if path is None:
        advice = f"Reinstall joey, which includes it. Or: {_INSTALL_ADVICE.format('ripgrep')}"
        return _fail("not found", advice)
    said = _read_first_output_line([path, "--version"])
    if not said:
        return _fail(f"{path} does not run", "Reinstall ripgrep.")
    return _ok(said)


def check_git() -> Finding:
    path = shutil.which("git")
    if path is None:
        advice = f"Checkpoints and isolated subtasks need it. {_INSTALL_ADVICE.format('git')}"
        return _warn("not found", advice)
    said = _read_first_output_line([path, "--version"])
    numbers = [int(each) for each in said.rpartition(" ")[2].split(".")[:2] if each.isdigit()]
    if not numbers:
        return _warn(f"{path} does not print its version", "Reinstall git.")
    if tuple(numbers) < MIN_GIT_VERSION:
        oldest = ".".join(map(str, MIN_GIT_VERSION))
        return _warn(said, f"Install git {oldest} or newer.")
    return _ok(said)


def check_sandbox() -> Finding:
    """What confines commands, found out by running a hostile one."""
    report = detect_sandbox()
    reasons = "; ".join(
        f"{level}: {reason}" for level, reason in report.unavailable_reasons.items()
    )
    if report.level is SandboxLevel.NONE:
        advice = "Every command needs your approval. Install bubblewrap, or see --no-sandbox."
        return _warn(f"none works ({reasons})", advice)
    if not reasons:
        return _ok(str(report.level), " ".join(report.confinement_gaps))
    better = "For the strongest one, install bubblewrap and allow user namespaces."
    advice = " ".join((*report.confinement_gaps, better))
    return _ok(f"{report.level} ({reasons})", advice)


def check_browser() -> Finding:
    path = find_chromium(os.environ)
    if path is None:
        advice = "Only browser_action needs it: install Chromium, and joey with playwright."
        return _ok("none; the browser tool is not offered", advice)
    if not os.access(path, os.X_OK):
        advice = "Correct JOEY_CHROMIUM, or unset it."
        return _warn(f"{path} cannot be run", advice)
    return _ok(path)


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
            advice = f"Make {nearest} a writable folder, or set JOEY_HOME to another one."
            return _fail(f"{directory}: {error.strerror}", advice)
    state = "" if home.exists() else " (created with the first task)"
    return _ok(f"{home}{state}")


def check_disk_space() -> Finding:
    free = shutil.disk_usage(_find_existing_parent(_resolve_joey_home())).free
    found = f"{free / 1024**3:.1f} GB free where tasks are stored"
    advice = "Free some space: a full disk stops every task."
    if free < CRITICAL_DISK_BYTES:
        return _fail(found, advice)
    if free < LOW_DISK_BYTES:
        return _warn(found, advice)
    return _ok(found)


def check_file_privacy() -> Finding:
    found = doctor.find_exposures(_resolve_joey_home())
    if not found:
        return _ok("only you can read joey's files")
    listed = _join_items([f"{each.path} {each.reason}" for each in found])
    foreign = any(each.required_mode is None for each in found)
    advice = "Files of another user: chown them, or choose another JOEY_HOME." * foreign
    fixable = FIX_ADVICE * any(each.required_mode is not None for each in found)
    return _warn(listed, " ".join(filter(None, (advice, fixable))))


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
    count = f"{state.task_count:,} tasks"
    if problems:
        advice = "They cannot be resumed, or lost a part. joey tasks delete ID removes one."
        return _warn(f"{count}; {_join_items(problems + untidy)}", advice)
    if untidy:
        return _warn(f"{count}; {_join_items(untidy)}", FIX_ADVICE)
    return _ok(count)


def repair_tasks() -> Iterable[str]:
    return doctor.clean_up_store(doctor.inspect_store(_resolve_joey_home()))


def check_task_index() -> Finding:
    problem = doctor.explain_index_damage(_resolve_joey_home())
    if not problem:
        return _ok("ok")
    return _warn(f"damaged: {problem}", f"It can be rebuilt. {FIX_ADVICE}")


def repair_task_index() -> Iterator[str]:
    if doctor.explain_index_damage(_resolve_joey_home()):
        yield doctor.delete_index(_resolve_joey_home())


def check_settings() -> Finding:
    settings = SettingsAdmin(resolve_current_directory())
    try:
        settings.list_settings()
    except ConfigError as error:
        advice = f"{EDIT_SETTINGS_COMMAND} opens it; joey config unset KEY removes a key."
        return _fail(str(error), advice)
    remarks = settings.collect_warnings()
    if remarks:
        advice = "joey config unset KEY removes a key that is not used."
        return _warn(_join_items(list(remarks)), advice)
    missing = "" if settings.path.exists() else " (does not exist: all settings are defaults)"
    return _ok(f"{settings.path}{missing}")


def check_customizations() -> Finding:
    """Modes, rules, commands and skills that count here."""
    try:
        customizations = open_customizations(resolve_current_directory())
        modes, warnings = customizations.modes, customizations.warnings
    except UserError as error:
        return _warn("could not be read", str(error))
    reported = set(SettingsAdmin(resolve_current_directory()).collect_warnings())
    if problems := [each for each in warnings if each not in reported]:
        advice = "Correct the file; joey modes list shows the modes that could be read."
        return _warn(_join_items(problems), advice)
    return _ok(f"{len(modes)} modes, no problems")


def check_mcp_servers() -> Finding:
    problems = list_mcp_config_problems(resolve_current_directory())
    if problems:
        advice = "Correct the file; joey mcp list shows the servers that could be read."
        return _warn(_join_items(list(problems)), advice)
    return _ok("no problems")


def check_hooks() -> Finding:
    """Yours, and what this folder would add."""
    try:
        hooks, untrusted = list_active_hooks(resolve_current_directory())
    except UserError as error:
        return _warn("could not be read", str(error))
    listed = "; ".join(f"{hook.event}: {hook.short_command}" for hook in hooks) or "none"
    if not untrusted:
        return _ok(listed)
    found = f"{listed}; {untrusted} from this folder not used"
    return _warn(found, "Review them with joey trust.")


def check_trust() -> Finding:
    missing = doctor.list_untrusted_titles(resolve_current_directory())
    if not missing:
        return _ok("nothing here needs your trust")
    found = f"not used, because you have not trusted it: {_join_items(list(missing))}"
    return _warn(found, "Review it with joey trust --show.")


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
        return _fail("profiles.json cannot be read", str(error))
    if not found and _is_local_model_chosen():
        return _ok("none; a local model needs none")
    if not found:
        advice = "Set a key, run joey profiles add, or use a local model server."
        return _warn("none in the environment or in a profile", advice)
    wrong = [f"{key.source}: {key.error}" for key in found if key.error]
    listed = ", ".join(key.source for key in found)
    if wrong:
        advice = f"Set it again, as the provider shows it: {'; '.join(wrong)}."
        return _warn(listed, advice)
    return _ok(listed)


def _is_local_model_chosen() -> bool:
    try:
        return ProfileAdmin().is_local(_load_profile().provider)
    except UserError:
        return False  # the finding about the model tells


def check_profiles() -> Finding:
    admin = ProfileAdmin()
    try:
        known, remark = admin.list_profiles(), admin.active_profile_warning
    except ConfigError as error:
        return _fail("cannot be read", str(error))
    if remark:
        advice = (
            FIX_ADVICE
            if admin.active_name in known
            else f"joey profiles use NAME: {', '.join(known)}."
        )
        return _warn(remark, advice)
    active = f" (active: {admin.active_name})" * (admin.active_name in known)
    return _ok(f"{', '.join(known) or 'none'}{active}")


def check_model_catalog() -> Finding:
    try:
        count = doctor.count_described_models(_resolve_joey_home())
    except ConfigError as error:
        return _fail(str(error))
    return _ok(f"built in, and {count:,} models in your files" if count else "built in")


def repair_profiles() -> Iterator[str]:
    if settled := ProfileAdmin().repair_active_profile():
        yield f"{settled} is the active profile"


def check_local_servers() -> Finding:
    """Servers at their default addresses and at those of profiles, with what they tell."""
    reports = asyncio.run(inspect_local_servers(measure=True))
    if not reports:
        looked = ", ".join(kind.name for kind in LOCAL_PROVIDERS)
        return _ok(f"none running (looked for {looked})")
    listed = "\n".join(line for report in reports for line in _describe_server(report))
    count = "1 server" if len(reports) == 1 else f"{len(reports)} servers"
    remarks = [remark for report in reports for remark in _collect_remarks(report)]
    is_usable = all((report.window or MIN_WINDOW_TOKENS) >= MIN_WINDOW_TOKENS for report in reports)
    make = _ok if is_usable else _warn
    return make(f"{count}\n{listed}", "\n".join(remarks))


def _describe_server(report: ServerReport) -> Iterator[str]:
    server, models = report.server, report.models
    profile = f" (profile {server.profile})" if server.profile else ""
    yield f"{report.kind or server.provider} at {remove_secrets(server.base_url)}{profile}"
    if server.is_loading:
        yield "  loading its model"
    elif not models:
        yield "  no model yet"
    else:
        for model in models[:_MAX_LISTED_ITEMS]:
            yield f"  {to_one_line(model.id)}: {'; '.join(_describe_model(model))}"
        if len(models) > _MAX_LISTED_ITEMS:
            yield f"  and {len(models) - _MAX_LISTED_ITEMS} more"
        yield f"  To use it: joey {shlex.join(report.flags)}"


def _describe_model(model: ModelFacts) -> Iterator[str]:
    served = model.served or ServedModel()
    if model.is_loaded is False:
        yield "not loaded"
    window, largest = served.context_window, served.max_context_window
    if window is None:
        yield "window unknown" if largest is None else f"window up to {largest:,} tokens"
    else:
        most = f" of at most {largest:,}" if largest is not None and largest > window else ""
        yield f"window {window:,}{most} tokens"
    abilities = {"images": served.images, "thinking": served.thinking}
    if served.native_tools is not None:
        yield "tools" if served.native_tools else "no tools: joey uses XML calls"
    if found := [name for name, has in abilities.items() if has]:
        yield ", ".join(found)
    if (speed := model.speed) is None:
        return
    if speed.is_timeout:
        yield f"too slow to measure (no reply in {MEASURE_TIMEOUT_S:g} seconds)"
    if speed.prompt is not None:
        yield f"prompt {speed.prompt:,.0f} tokens/s"
    if speed.output is not None:
        yield f"output {speed.output:,.1f} tokens/s"


def _collect_remarks(report: ServerReport) -> Iterator[str]:
    window = report.window
    if window is not None and window < SMALL_WINDOW_TOKENS:
        effect = (
            "is too small for joey"
            if window < MIN_WINDOW_TOKENS
            else "is small: joey sends a short prompt and few tools"
        )
        advice = f"; for a larger one, {report.window_advice}" if report.window_advice else ""
        yield f"The window of {report.models[0].id} ({window:,} tokens) {effect}{advice}."
    if report.tools_advice:
        yield report.tools_advice


def check_model() -> Finding:
    """As for a task; where nothing chooses a model, one of a local server can be named."""
    return _check_model(find_servers=True)


def check_model_offline() -> Finding:
    return _check_model(find_servers=False)


def _check_model(*, find_servers: bool) -> Finding:
    try:
        profile = _load_profile()
    except NoModelError as error:
        reports = asyncio.run(inspect_local_servers()) if find_servers else []
        usable = next((report for report in reports if report.models), None)
        return _fail("none can be used", str(error)) if usable is None else _offer_server(usable)
    except ConfigError as error:
        return _fail("none can be used", str(error))
    except UserError as error:
        return _warn("cannot be determined", str(error))
    where = f" at {remove_secrets(profile.base_url)}" if profile.base_url else ""
    return _ok(f"{profile.model} of {profile.provider}{where}")


def _offer_server(report: ServerReport) -> Finding:
    flags = shlex.join(report.flags)
    advice = (
        f"Type joey {flags}, or make it the default:"
        f" joey profiles add local {flags} --use, and then just joey."
    )
    return _warn("none is chosen yet, but a local server has one", advice)


def check_connection() -> Finding:
    """Name, connection, certificate, and an answer to the cheapest question there is."""
    try:
        profile = _load_profile()
    except NoModelError:
        return _ok("not tried: no model is chosen yet")
    except UserError:
        return _ok("not tried: see Model")
    started = time.monotonic()
    try:
        answer = asyncio.run(request_models(profile, os.environ, CONNECTION_TIMEOUT_S))
        silent = None
        if answer.status == HTTP_NOT_FOUND:
            silent = asyncio.run(find_missing_endpoint(profile, os.environ, CONNECTION_TIMEOUT_S))
    except ConfigError as error:
        return _fail("cannot be opened", str(error))
    except UserError as error:
        advice = f"{error}{_describe_proxies()} joey doctor --offline skips this check."
        return _fail(f"{profile.provider} cannot be reached", advice)
    took = f"in {(time.monotonic() - started) * 1000:.0f} ms{_describe_proxies()}"
    if silent is None:
        return _build_connection_finding(profile.provider, answer.status, took)
    # Some servers know nothing but what a task sends them; others are at another address.
    found = f"{profile.provider} answers, but does not list its models ({HTTP_NOT_FOUND}) {took}"
    advice = (
        f"It may still work: a task sends its requests to {remove_secrets(silent)}. If that fails,"
        " check the address and its path; joey profiles show tells where it comes from."
    )
    return _warn(found, advice)


def _build_connection_finding(name: str, status: int, took: str) -> Finding:
    found = f"{name} answers {status} {took}"
    if status in _AUTH_ERROR_STATUSES:
        advice = "The service rejects the key. joey profiles show tells where it comes from."
        return _fail(found, advice)
    if status >= 500 or status == 429:
        return _warn(found, "The service is busy or has problems; try again later.")
    if 300 <= status < 400:
        return _warn(found, "It redirects; set the base URL to the final address.")
    # Some have no list of models to ask for; that they answer at all is what matters.
    return _ok(f"{name} answers ({status}) {took}")


def _describe_proxies() -> str:
    named = [
        name for name in _PROXY_VARIABLES if os.environ.get(name) or os.environ.get(name.lower())
    ]
    return f" ({', '.join(named)} is set)" if named else ""


def _load_profile() -> Profile:
    """Raises UserError."""
    return make_options(workspace=resolve_current_directory()).profile
