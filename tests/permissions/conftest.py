from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.engine.engine_harness import EngineHarness


@pytest.fixture
async def workshop(tmp_path: Path) -> AsyncIterator[EngineHarness]:
    shop = EngineHarness(tmp_path)
    yield shop
    await shop.engine.close()
