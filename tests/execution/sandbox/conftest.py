"""Every test of confinement runs at each level that works here, as root and as somebody else."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from joey.core.settings import Settings
from joey.execution.sandbox.bubblewrap import Bubblewrap
from joey.execution.sandbox.landlock import Landlock
from joey.execution.sandbox.probe import probe_backend
from joey.execution.sandbox.sandbox import SandboxBackend
from joey.execution.terminal import LocalTerminal
from tests.harness.execution.fork_servers import list_fork_servers, made
from tests.harness.execution.sandbox import LEVELS, USERS, SandboxHarness, launcher


@pytest.fixture(autouse=True)
def _everything_on_disk(on_disk: None) -> None:
    """A tmpfs may be in /dev, of which the sandbox shows another one."""


@pytest.fixture(params=USERS)
def user(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if not launcher(name):
        pytest.skip(f"nothing can be run as {name} user here")
    return name


@pytest.fixture(params=LEVELS)
def harness(request: pytest.FixtureRequest, user: str) -> Iterator[SandboxHarness]:
    # Not in pytest's own folder, which is closed to other users.
    root = Path(tempfile.mkdtemp(prefix="joey-scene-"))
    root.chmod(0o755)
    yield SandboxHarness(root, str(request.param), user)
    shutil.rmtree(root)


@pytest.fixture(params=[Bubblewrap(), Landlock()], ids=lambda each: str(each.level))
def confinement(request: pytest.FixtureRequest) -> SandboxBackend:
    found: SandboxBackend = request.param
    if reason := found.explain_unavailable() or probe_backend(found):
        pytest.skip(reason)
    return found


@pytest.fixture
async def terminal(tmp_path: Path, confinement: SandboxBackend) -> AsyncIterator[LocalTerminal]:
    before = list_fork_servers()
    found = made(tmp_path, confinement, Settings())
    yield found
    await found.close()
    assert list_fork_servers() == before
