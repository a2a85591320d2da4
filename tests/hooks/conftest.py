"""A workshop whose tasks have hooks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.hooks.hook_harness import HookHarness


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[HookHarness]:
    harness = HookHarness(tmp_path)
    yield harness
    await harness.engine.close()
