"""What holds for every test: no network beyond this machine, and a home of its own."""

from __future__ import annotations

import gc
import ipaddress
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from tests.harness.lanes import mark_end_to_end
from tests.harness.memory_disk import get_disk
from tests.harness.paths import ROOT

# Speed is measured by `make bench`; a busy machine must not fail a test. Nor must chance: what a
# change is judged by are the same examples each time. `make soak` looks for others.
settings.register_profile(
    "joey", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "chance",
    settings.get_profile("joey"),
    derandomize=False,
    database=DirectoryBasedExampleDatabase(ROOT / ".hypothesis"),
)
settings.load_profile("joey")

# In the background, or behind nohup, these are ignored here; what the tests start must not inherit
# that.
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)

FOREIGN_PREFIXES = ("JOEY_", "ANTHROPIC_", "OPENAI_", "OPENROUTER_", "OLLAMA_")
FOREIGN_SUFFIXES = ("_API_KEY", "_PROXY")
FOREIGN_NAMES = ("NO_COLOR", "FORCE_COLOR", "COLUMNS")


class NetworkClosedError(RuntimeError):
    """A test reached for an address outside this machine."""


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def guard(connect: Any) -> Any:
        def guarded(sock: socket.socket, address: Any) -> Any:
            if sock.family != socket.AF_UNIX and not _is_loopback(address[0]):
                raise NetworkClosedError(f"tests stay on this machine, not {address!r}")
            return connect(sock, address)

        return guarded

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, guard(getattr(socket.socket, name)))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_end_to_end(items)


def pytest_collection_finish() -> None:
    """Thousands of collected tests need not be looked through for garbage again and again."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what tests measured (`record_property("figures", …)`)."""
    for report in terminalreporter.getreports("passed"):
        for name, text in report.user_properties:
            if name == "figures":
                terminalreporter.write_line(f"{report.nodeid}: {text}")


@pytest.fixture
def on_disk() -> None:
    """Keep the files of the test on the disk, also where `make test` keeps others in memory."""


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    disk = get_disk()
    if disk is None or "on_disk" not in request.fixturenames:
        yield tmp_path
        return
    with TemporaryDirectory(prefix="joey-test-", dir=disk) as directory:
        yield Path(directory)


@pytest.fixture(autouse=True)
def _own_home(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    disk = get_disk()
    if disk is not None and "on_disk" in request.fixturenames:
        monkeypatch.setattr(tempfile, "tempdir", disk)
        monkeypatch.setenv("TMPDIR", disk)
    for name in list(os.environ):
        upper = name.upper()
        if (
            upper.startswith(FOREIGN_PREFIXES)
            or upper.endswith(FOREIGN_SUFFIXES)
            or upper in FOREIGN_NAMES
        ):
            monkeypatch.delenv(name)
    with TemporaryDirectory(prefix="joey-test-") as root:
        for name in ("home", "here"):
            Path(root, name).mkdir()
        monkeypatch.setenv("HOME", f"{root}/home")
        monkeypatch.setenv("JOEY_HOME", f"{root}/home/.roo")
        monkeypatch.chdir(f"{root}/here")
        yield


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
