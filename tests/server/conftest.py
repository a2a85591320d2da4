"""Foreign clients of the WebSocket API, a browser for the page, and a place for its images."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.harness.counts import daily
from tests.harness.server.packages import installed
from tests.harness.server.websocket_clients import JS, Client

if TYPE_CHECKING:
    from tests.harness.server.browsing import Browser


@pytest.fixture(scope="session")
def ws_packages() -> Path:
    """The folder with the package `ws`."""
    return installed(JS)


@pytest.fixture(params=daily(["websockets"], ["websockets", "ws"]), scope="session")
def client(request: pytest.FixtureRequest) -> Client:
    return Client(request.getfixturevalue("ws_packages") if request.param == "ws" else None)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    from tests.harness.server.browsing import chromium

    async with chromium() as launched:
        yield launched


@pytest.fixture(scope="module")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where tests of the page leave images of its views."""
    directory = tmp_path_factory.mktemp("pictures")
    print(f"\npictures of the page: {directory}")  # noqa: T201
    return directory
