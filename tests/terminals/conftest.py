from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from joey.execution.terminal import LocalTerminal


@pytest.fixture
async def terminal() -> AsyncIterator[LocalTerminal]:
    opened = LocalTerminal(kill_grace=1.5, exit_grace=0.1)
    yield opened
    await opened.close()
