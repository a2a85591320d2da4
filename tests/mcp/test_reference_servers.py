"""The servers that the protocol's own project publishes, as they come from npm."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psutil
import pytest

from joey.errors import ToolError
from tests.harness.mcp.hub_harness import TIMEOUT_S, HubHarness, names, server, until

Commands = dict[str, list[str]]


def entry(command: list[str], *more: str) -> dict[str, Any]:
    program, *args = command
    return {"command": program, "args": [*args, *more]}


@pytest.mark.contract("mcp:transports")
async def test_the_everything_server_shows_all_that_is_understood(
    harness: HubHarness, npm_servers: Commands
) -> None:
    lease = await harness.open(every=entry(npm_servers["server-everything"]))
    assert "Everything Server" in server(lease, "every").instructions
    assert (await lease.call_tool("every", "echo", {"message": "hi"})).text == "Echo: hi"
    image = await lease.call_tool("every", "get-tiny-image", {})
    assert image.images[0].startswith("data:image/png;base64,iVBOR")
    assert "image you requested" in image.text
    structured = await lease.call_tool("every", "get-structured-content", {"location": "Chicago"})
    assert "temperature" in structured.text
    reference = await lease.call_tool(
        "every", "get-resource-reference", {"resourceType": "Text", "resourceId": 1}
    )
    assert '"uri": "demo://resource/dynamic/text/1"' in reference.text
    blob = await lease.call_tool(
        "every", "get-resource-reference", {"resourceType": "Blob", "resourceId": 1}
    )
    assert '"blob"' not in blob.text
    await lease.close()


@pytest.mark.contract("mcp:transports")
async def test_its_resources_are_listed_and_read(
    harness: HubHarness, npm_servers: Commands
) -> None:
    lease = await harness.open(every=entry(npm_servers["server-everything"]))
    resources = server(lease, "every").resources
    direct = next(item for item in resources if not item.is_template)
    assert (await lease.read_resource("every", direct.uri)).text
    template = next(item for item in resources if item.is_template and "text" in item.uri)
    filled = template.uri.replace("{resourceId}", "3")
    assert "3" in (await lease.read_resource("every", filled)).text
    with pytest.raises(ToolError, match="every"):
        await lease.read_resource("every", "demo://nothing/here")
    await lease.close()


@pytest.mark.contract("mcp:calls")
async def test_a_long_operation_tells_its_progress_and_can_be_cancelled(
    harness: HubHarness, npm_servers: Commands
) -> None:
    lease = await harness.open(every=entry(npm_servers["server-everything"]))
    progress: list[str] = []
    short = {"duration": 0.2, "steps": 4}
    await lease.call_tool("every", "trigger-long-running-operation", short, progress.append)
    assert progress == ["1 of 4", "2 of 4", "3 of 4", "4 of 4"]
    begun = asyncio.Event()
    endless = {"duration": 1000, "steps": 10_000}
    calling = asyncio.create_task(
        lease.call_tool("every", "trigger-long-running-operation", endless, lambda _: begun.set())
    )
    async with asyncio.timeout(TIMEOUT_S):
        await begun.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
    assert (await lease.call_tool("every", "echo", {"message": "on"})).text == "Echo: on"
    await lease.close()


@pytest.mark.contract("mcp:calls")
async def test_a_failed_call_is_marked_and_prefixed(
    harness: HubHarness, npm_servers: Commands
) -> None:
    lease = await harness.open(
        files=entry(npm_servers["server-filesystem"], str(harness.workspace)),
        every=entry(npm_servers["server-everything"]),
    )
    answer = await lease.call_tool("files", "read_text_file", {"path": "/etc/passwd"})
    assert answer.is_error
    assert answer.text.startswith("Error:\nAccess denied")
    wrong = await lease.call_tool("every", "get-sum", {"a": "not a number"})
    assert wrong.is_error
    await lease.close()


@pytest.mark.contract("mcp:transports")
async def test_the_filesystem_server_works_on_the_workspace(
    harness: HubHarness, npm_servers: Commands
) -> None:
    lease = await harness.open(
        files=entry(npm_servers["server-filesystem"], "${workspaceFolder}"),
    )
    file = harness.workspace / "made.txt"
    await lease.call_tool("files", "write_file", {"path": str(file), "content": "by a server"})
    assert file.read_text() == "by a server"
    read = await lease.call_tool("files", "read_text_file", {"path": str(file)})
    assert "by a server" in read.text
    assert "read_text_file" in names(lease, "files")
    await lease.close()


@asynccontextmanager
async def everything_on_a_port(command: list[str], transport: str, port: int) -> AsyncIterator[int]:
    process = await asyncio.create_subprocess_exec(
        *command, transport, env=os.environ | {"PORT": str(port)}, stdout=DEVNULL, stderr=PIPE
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(TIMEOUT_S):
            while f"port {port}" not in (await process.stderr.readline()).decode():
                assert process.returncode is None
        drain = asyncio.create_task(process.stderr.read())
        yield process.pid
        process.send_signal(signal.SIGKILL)
        await process.wait()
        await drain
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@pytest.mark.contract("mcp:transports")
@pytest.mark.parametrize(
    ("argument", "kind", "path"), [("streamableHttp", "streamable-http", "mcp"), ("sse",) * 3]
)
async def test_the_everything_server_behind_an_address(
    harness: HubHarness, npm_servers: Commands, argument: str, kind: str, path: str
) -> None:
    port = free_port()
    command = npm_servers["server-everything"]
    async with everything_on_a_port(command, argument, port):
        lease = await harness.open(web={"type": kind, "url": f"http://127.0.0.1:{port}/{path}"})
        assert server(lease, "web").error == ""
        assert (await lease.call_tool("web", "echo", {"message": "hi"})).text == "Echo: hi"
        assert (await lease.call_tool("web", "get-tiny-image", {})).images
        progress: list[str] = []
        short = {"duration": 0.2, "steps": 2}
        await lease.call_tool("web", "trigger-long-running-operation", short, progress.append)
        assert progress == ["1 of 2", "2 of 2"]
    with pytest.raises(ToolError):
        await lease.call_tool("web", "echo", {"message": "anybody?"})
    await until(lambda: server(lease, "web").status == "disconnected")
    async with everything_on_a_port(command, argument, port):
        await until(lambda: server(lease, "web").status == "connected")
        assert (await lease.call_tool("web", "echo", {"message": "back"})).text == "Echo: back"
        await lease.close()


@pytest.mark.contract("mcp:transports")
async def test_a_reference_server_that_is_killed_comes_back(
    harness: HubHarness, npm_servers: Commands
) -> None:
    before = set(psutil.Process().children())
    lease = await harness.open(every=entry(npm_servers["server-everything"]))
    (process,) = set(psutil.Process().children()) - before
    process.kill()
    await until(lambda: server(lease, "every").status != "connected")
    await until(lambda: server(lease, "every").status == "connected")
    assert (await lease.call_tool("every", "echo", {"message": "again"})).text == "Echo: again"
    await lease.close()
