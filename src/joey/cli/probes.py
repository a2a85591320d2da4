"""What `joey doctor` looks at: each probe tries one thing and says what it found."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from joey.app import joey_home, make_options
from joey.app.hooks import hooks_here
from joey.app.sandboxing import sandbox_report
from joey.core.secrets import without_secrets
from joey.errors import ConfigError, UserError
from joey.ports import Level

OLDEST_PYTHON = (3, 11)
ENOUGH_DISK = 1024**3
LITTLE_DISK = 100 * 1024**2
LOCAL_SERVERS = (("ollama", 11434), ("lmstudio", 1234), ("llamacpp", 8080))
"""Names of providers, and where they listen."""
CONNECT_TIMEOUT = 0.5
KEY_SUFFIX = "_API_KEY"


class Status(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(Struct, frozen=True, omit_defaults=True):
    name: str
    status: Status
    found: str
    advice: str = ""
    """What to do about it."""


def probe_python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST_PYTHON:
        return Finding("Python", Status.FAIL, found, "Install Python 3.11 or newer.")
    return Finding("Python", Status.OK, found)


def probe_home() -> Finding:
    """The folder for tasks and settings must exist, or be possible, and be writable."""
    home = _home()
    nearest = home
    while not nearest.exists():
        nearest = nearest.parent
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        advice = f"Make {nearest} writable, or set JOEY_HOME to another folder."
        return Finding("Home", Status.FAIL, f"{home}: {error.strerror}", advice)
    state = "" if home.exists() else " (made when the first task begins)"
    return Finding("Home", Status.OK, f"{home}{state}")


def probe_disk() -> Finding:
    nearest = _home()
    while not nearest.exists():
        nearest = nearest.parent
    free = shutil.disk_usage(nearest).free
    found = f"{free / 1024**3:.1f} GB free where tasks are kept"
    advice = "Make room: a full disk stops every task."
    if free < LITTLE_DISK:
        return Finding("Disk", Status.FAIL, found, advice)
    if free < ENOUGH_DISK:
        return Finding("Disk", Status.WARN, found, advice)
    return Finding("Disk", Status.OK, found)


def probe_bash() -> Finding:
    path = shutil.which("bash")
    if path is None:
        return Finding("bash", Status.FAIL, "not found", "Install bash: commands run with it.")
    return Finding("bash", Status.OK, path)


def probe_ripgrep() -> Finding:
    """Comes with joey; one that is installed otherwise does as well."""
    beside = Path(sys.executable).parent / "rg"
    path = str(beside) if beside.exists() else shutil.which("rg")
    if path is None:
        advice = "Install ripgrep, or reinstall joey, which brings it along."
        return Finding("ripgrep", Status.FAIL, "not found", advice)
    return Finding("ripgrep", Status.OK, _first_line([path, "--version"]) or path)


def probe_git() -> Finding:
    path = shutil.which("git")
    if path is None:
        advice = "Install git if the model is to look at versions of your files."
        return Finding("git", Status.WARN, "not found", advice)
    return Finding("git", Status.OK, _first_line([path, "--version"]) or path)


def probe_sandbox() -> Finding:
    """What confines commands, found out by running a hostile one."""
    report = sandbox_report()
    reasons = "; ".join(f"{level}: {reason}" for level, reason in report.reasons.items())
    if report.level is Level.NONE:
        advice = "Every command will be asked for. Install bubblewrap, or see --no-sandbox."
        return Finding("Sandbox", Status.WARN, f"none works ({reasons})", advice)
    found = f"{report.level} ({reasons})" if reasons else str(report.level)
    return Finding("Sandbox", Status.OK, found, " ".join(report.gaps))


def probe_hooks() -> Finding:
    """Yours, and what this folder would add."""
    try:
        hooks, untrusted = hooks_here(Path.cwd())
    except UserError as error:
        return Finding("Hooks", Status.WARN, "could not be read", str(error))
    listed = "; ".join(f"{hook.event}: {hook.shown}" for hook in hooks) or "none"
    if not untrusted:
        return Finding("Hooks", Status.OK, listed)
    found = f"{listed}; {untrusted} of this folder not used"
    return Finding("Hooks", Status.WARN, found, "Look at them with joey trust.")


def probe_keys() -> Finding:
    """Names only: a key is never shown."""
    found = sorted(
        name for name, value in os.environ.items() if name.endswith(KEY_SUFFIX) and value.strip()
    )
    if found:
        return Finding("Keys", Status.OK, ", ".join(found))
    return Finding("Keys", Status.WARN, "no …_API_KEY is set", "See the finding about the model.")


def probe_local_servers() -> Finding:
    with ThreadPoolExecutor(len(LOCAL_SERVERS)) as threads:
        answers = list(threads.map(_listens, (port for _, port in LOCAL_SERVERS)))
    pairs = zip(LOCAL_SERVERS, answers, strict=True)
    found = [(name, port) for (name, port), listens in pairs if listens]
    if found:
        listed = ", ".join(f"{name} (port {port})" for name, port in found)
        advice = f"To use it: joey --provider {found[0][0]} --model NAME."
        return Finding("Local models", Status.OK, listed, advice)
    looked = ", ".join(name for name, _ in LOCAL_SERVERS)
    return Finding("Local models", Status.OK, f"none running (looked for {looked})")


def probe_model() -> Finding:
    """Settings and profiles are read, and a model is chosen, exactly as for a task."""
    try:
        options = make_options(workspace=Path.cwd())
    except ConfigError as error:
        return Finding("Model", Status.FAIL, "none can be used", str(error))
    except UserError as error:
        return Finding("Model", Status.WARN, "could not be chosen", str(error))
    profile = options.profile
    assert profile is not None
    where = f" at {without_secrets(profile.base_url)}" if profile.base_url else ""
    return Finding("Model", Status.OK, f"{profile.model} of {profile.provider}{where}")


def _home() -> Path:
    return joey_home(os.environ)


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=CONNECT_TIMEOUT):
            return True
    except OSError:
        return False


def _first_line(command: list[str]) -> str:
    env = {"PATH": os.environ.get("PATH", os.defpath)}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=5, check=False, env=env
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.partition("\n")[0]
