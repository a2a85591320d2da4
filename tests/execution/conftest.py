from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from joey.execution.terminal import LocalTerminal
from tests.harness.execution.hook_harness import HookHarness


@pytest.fixture
async def terminal() -> AsyncIterator[LocalTerminal]:
    opened = LocalTerminal(kill_grace=1.5, exit_grace=0.1)
    yield opened
    await opened.close()


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[HookHarness]:
    """Tasks that have hooks."""
    harness = HookHarness(tmp_path)
    yield harness
    await harness.engine.close()
