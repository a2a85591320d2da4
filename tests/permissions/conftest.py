from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness.engine.engine_harness import EngineHarness


@pytest.fixture
async def engine_harness(tmp_path: Path) -> AsyncIterator[EngineHarness]:
    harness = EngineHarness(tmp_path)
    yield harness
    await harness.engine.close()
