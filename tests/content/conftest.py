from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness.engine.engine_harness import EngineHarness


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[EngineHarness]:
    engine_harness = EngineHarness(tmp_path)
    yield engine_harness
    await engine_harness.engine.close()
