"""A whole server in the process of the test, with a scripted model behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from joey.app import Application, open_engine, open_store
from joey.client.remote import RemoteEngine
from joey.server.auth import Token
from joey.server.hub import ServerHub
from joey.server.serve import ServeOptions, run_server
from joey.testing.script import Call, Turn, call
from joey.testing.server import ModelServer

TIMEOUT_S = 60.0
TOKEN = "a token that only tests know"
ALLOW_ALL = {
    "autoApprovalEnabled": True,
    "alwaysAllowReadOnly": True,
    "alwaysAllowWrite": True,
    "alwaysAllowExecute": True,
    "allowedCommands": ["*"],
}


class ServerHarness:
    """One home and one folder to work in; servers come and go."""

    def __init__(self, root: Path, model_url: str) -> None:
        self.home = root / "joey-home"
        self.workspace = root / "work"
        self.workspace.mkdir(exist_ok=True)
        self.env = {
            "HOME": str(root),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "ANTHROPIC_API_KEY": "any",
            "ANTHROPIC_BASE_URL": model_url,
        }

    def hub(self) -> ServerHub:
        setup = Application(workspace=self.workspace, home=self.home, env=self.env)
        engine = open_engine(home=self.home, env=self.env)
        return ServerHub(engine, open_store(self.home, self.env), setup)

    @asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator[Server]:
        """`allow_remote`: a way that leads here has another address."""
        hub = self.hub()
        options = ServeOptions(port=port, allow_remote=True)
        async with run_server(hub, Token(TOKEN), options) as listening:
            yield Server(hub, listening.port)


class Server:
    def __init__(self, hub: ServerHub, port: int) -> None:
        self.hub = hub
        self.port = port

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws"

    async def connect(self, **options: Any) -> RemoteEngine:
        return await RemoteEngine.connect(self.url, TOKEN, **options)


@asynccontextmanager
async def open_harness(
    root: Path, turns: Sequence[Turn | Callable[..., Turn]]
) -> AsyncIterator[tuple[ServerHarness, ModelServer]]:
    async with ModelServer(turns) as model:
        yield ServerHarness(root, model.url), model


def done(result: str = "all done") -> Call:
    return call("attempt_completion", {"result": result})


def write(path: str, content: str) -> Call:
    return call("write_to_file", {"path": path, "content": content})
