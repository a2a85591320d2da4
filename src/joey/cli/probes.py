"""What `joey doctor` looks at on this machine: each probe tries one thing, and says how it went."""

from __future__ import annotations

import locale
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from joey import __version__
from joey.app.check_up import find_chromium
from joey.app.sandboxing import sandbox_report
from joey.errors import UserError
from joey.ports import Level

OLDEST_PYTHON = (3, 11)
OLDEST_GIT = (2, 17)
"""Older ones have no `worktree remove`."""
A_DAY = 86_400
FIX = "joey doctor --fix sets this right."
_HERE = Path(__file__).parent.parent
_INSTALL = "Install {0}: apt install {0}, dnf install {0}, brew install {0}."


class Status(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


def here() -> Path:
    """The folder that joey would work in. Raises UserError."""
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise UserError("the current folder is gone; go to another") from error


class Finding(Struct, frozen=True, omit_defaults=True):
    name: str
    status: Status
    found: str
    advice: str = ""
    """What to do about it."""
    fixed: tuple[str, ...] = ()
    """What `--fix` did about it."""


class Probe(Struct, frozen=True):
    name: str
    look: Callable[[], Finding]
    repair: Callable[[], Iterator[str]] | None = None
    """Sets right what is safe to set right; a sentence about each thing."""
    asks_around: bool = False
    """It opens connections, if only to this machine."""


def probe_python() -> Finding:
    found = f"{'.'.join(map(str, sys.version_info[:3]))} ({sys.executable})"
    if sys.version_info < OLDEST_PYTHON:
        return Finding("Python", Status.FAIL, found, "Install Python 3.11 or newer.")
    return Finding("Python", Status.OK, found)


def probe_installs() -> Finding:
    """Another joey that comes first on the path is a riddle to whoever has just upgraded."""
    folders = [Path(each) for each in os.environ.get("PATH", os.defpath).split(os.pathsep) if each]
    programs = [each / "joey" for each in folders if os.access(each / "joey", os.X_OK)]
    found = list(dict.fromkeys(path for path in programs if path.is_file()))
    places = {os.path.realpath(path): path for path in reversed(found)}
    own = f"joey {__version__} in {_HERE}"
    if len(places) < 2:
        return Finding("joey", Status.OK, own)
    listed = ", ".join(str(path) for path in found)
    advice = f"Only {found[0]} is started. Remove the others, or put theirs first on the PATH."
    return Finding("joey", Status.WARN, f"{own}; {len(places)} on the PATH: {listed}", advice)


def probe_bash() -> Finding:
    path = shutil.which("bash")
    if path is None:
        advice = f"Commands run with it. {_INSTALL.format('bash')}"
        return Finding("bash", Status.FAIL, "not found", advice)
    return Finding("bash", Status.OK, path)


def probe_ripgrep() -> Finding:
    """Comes with joey; one that is installed otherwise does as well."""
    beside = Path(sys.executable).parent / "rg"
    path = str(beside) if beside.exists() else shutil.which("rg")
    if path is None:
        advice = f"Reinstall joey, which brings it along. Or: {_INSTALL.format('ripgrep')}"
        return Finding("ripgrep", Status.FAIL, "not found", advice)
    said = _first_line([path, "--version"])
    if not said:
        return Finding("ripgrep", Status.FAIL, f"{path} does not run", "Reinstall ripgrep.")
    return Finding("ripgrep", Status.OK, said)


def probe_git() -> Finding:
    path = shutil.which("git")
    if path is None:
        advice = f"Checkpoints and subtasks of their own need it. {_INSTALL.format('git')}"
        return Finding("git", Status.WARN, "not found", advice)
    said = _first_line([path, "--version"])
    numbers = [int(each) for each in said.rpartition(" ")[2].split(".")[:2] if each.isdigit()]
    if not numbers:
        return Finding("git", Status.WARN, f"{path} does not tell its version", "Reinstall git.")
    if tuple(numbers) < OLDEST_GIT:
        oldest = ".".join(map(str, OLDEST_GIT))
        return Finding("git", Status.WARN, said, f"Install git {oldest} or newer.")
    return Finding("git", Status.OK, said)


def probe_sandbox() -> Finding:
    """What confines commands, found out by running a hostile one."""
    report = sandbox_report()
    reasons = "; ".join(f"{level}: {reason}" for level, reason in report.reasons.items())
    if report.level is Level.NONE:
        advice = "Every command will be asked for. Install bubblewrap, or see --no-sandbox."
        return Finding("Sandbox", Status.WARN, f"none works ({reasons})", advice)
    if not reasons:
        return Finding("Sandbox", Status.OK, str(report.level), " ".join(report.gaps))
    better = "For the strongest one install bubblewrap, and allow user namespaces."
    advice = " ".join((*report.gaps, better))
    return Finding("Sandbox", Status.OK, f"{report.level} ({reasons})", advice)


def probe_browser() -> Finding:
    path = find_chromium(os.environ)
    if path is None:
        advice = "Only browser_action needs it: install Chromium, and joey with playwright."
        return Finding("Browser", Status.OK, "none; the browser tool is not offered", advice)
    if not os.access(path, os.X_OK):
        advice = "Correct JOEY_CHROMIUM, or unset it."
        return Finding("Browser", Status.WARN, f"{path} cannot be run", advice)
    return Finding("Browser", Status.OK, path)


def probe_terminal() -> Finding:
    term = os.environ.get("TERM", "")
    encoding = locale.getpreferredencoding(do_setlocale=False).lower().replace("-", "")
    colours = "no colours (NO_COLOR)" if os.environ.get("NO_COLOR") else _colours(term)
    found = f"TERM={term or '(not set)'}, {colours}, {encoding}"
    if encoding != "utf8":
        advice = "Letters beyond English will be wrong: set LANG to a UTF-8 locale (C.UTF-8)."
        return Finding("Terminal", Status.WARN, found, advice)
    if sys.stdout.isatty() and term in ("", "dumb"):
        advice = "The screen needs a terminal that can do more: set TERM (xterm-256color)."
        return Finding("Terminal", Status.WARN, found, advice)
    return Finding("Terminal", Status.OK, found)


def probe_clock() -> Finding:
    """Certificates and the times of tasks go by it."""
    now, own = time.time(), (_HERE / "__init__.py").stat().st_mtime
    found = datetime.fromtimestamp(now).astimezone().isoformat(" ", "seconds")
    if now < own - A_DAY:
        advice = "It is behind joey's own files, and certificates will not be trusted: set it."
        return Finding("Clock", Status.WARN, found, advice)
    return Finding("Clock", Status.OK, found)


def _colours(term: str) -> str:
    if os.environ.get("COLORTERM") in ("truecolor", "24bit"):
        return "true colours"
    return "256 colours" if "256" in term else "few colours"


def _first_line(command: list[str]) -> str:
    env = {"PATH": os.environ.get("PATH", os.defpath)}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=5, check=False, env=env
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.partition("\n")[0]
