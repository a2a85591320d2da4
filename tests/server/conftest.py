"""The foreign clients that tests of the WebSocket API are run with, and a place for images."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.counts import daily
from tests.server.packages import installed
from tests.server.websocket_clients import JS, Client


@pytest.fixture(scope="session")
def ws_packages() -> Path:
    """The folder with the package `ws`."""
    return installed(JS)


@pytest.fixture(params=daily(["websockets"], ["websockets", "ws"]), scope="session")
def client(request: pytest.FixtureRequest) -> Client:
    return Client(request.getfixturevalue("ws_packages") if request.param == "ws" else None)


@pytest.fixture(scope="module")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where tests of the page leave images of its views."""
    directory = tmp_path_factory.mktemp("pictures")
    print(f"\npictures of the page: {directory}")  # noqa: T201
    return directory
