"""Roo's IPC socket during a run: programs follow the task of `joey -p`, send to it and cancel it.

A separate module because it loads the server, and few runs have a socket.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from joey.app import Application
from joey.cli.task_lookup import resolve_workspace_argument
from joey.engine.engine import Engine
from joey.engine.task import Task
from joey.errors import ConfigError
from joey.server.hub import ServerHub
from joey.server.ipc import serve_ipc


@asynccontextmanager
async def serve_run(
    engine: Engine, arguments: Namespace, warn: Callable[[str], None]
) -> AsyncIterator[Callable[[Task], None]]:
    """Serve clients of the socket; yield a function that takes the task. If the socket cannot be
    created, warn and run without it."""
    hub = ServerHub(
        engine, engine.store, Application(workspace=resolve_workspace_argument(arguments))
    )
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(serve_ipc(hub, None, announces_task=True))
        except ConfigError as error:
            warn(f"joey: {error}")
        stack.push_async_callback(hub.close)
        yield hub.adopt_task
