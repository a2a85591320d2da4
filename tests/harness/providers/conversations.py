"""Conversations of the seed documents, as the engine would hand them to a provider."""

from __future__ import annotations

import base64
from typing import Any

from msgspec import structs

from joey.core.messages import (
    Chunk,
    ImageBlock,
    ImageSource,
    Message,
    TextBlock,
    TextChunk,
    ToolResultBlock,
    ToolUseBlock,
)
from joey.core.models import ModelRequest, ToolProtocol, ToolSpec
from joey.core.settings import Profile
from joey.ports.model import Provider
from joey.providers.factory import make_provider
from joey.providers.http_client import HttpClient
from joey.testing.script import Turn, say
from joey.testing.server import ModelServer, Request

TASK = "Create a simple Express.js server with a /hello endpoint that returns 'Hello World'"
DETAILS = "<environment_details>\nNo terminals running\n</environment_details>"
SYSTEM = "You are Roo, a highly skilled software engineer..."
CALL_ID = "toolu_01A7BcD3eFgH4iJkL5mNo6pQ"
IMAGE_BLOCK = ImageBlock(ImageSource("image/png", base64.b64encode(b"picture").decode()))

READ_FILE = ToolSpec(
    name="read_file",
    description="Read the contents of a file at the specified path...",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string", "description": "The path of the file"}},
        "required": ["path"],
        "additionalProperties": False,
    },
)


def make_first_turn() -> list[Message]:
    return [Message("user", (TextBlock(TASK), TextBlock(DETAILS)), ts=1)]


def make_second_turn() -> list[Message]:
    said = (TextBlock("First, package.json."), ToolUseBlock(CALL_ID, "read_file", {"path": "a"}))
    result = ToolResultBlock(CALL_ID, '{\n  "name": "my-project"\n}')
    return [
        *make_first_turn(),
        Message("assistant", said, ts=2, id="msg_1"),
        Message("user", (result,)),
    ]


def make_native_request(messages: list[Message]) -> ModelRequest:
    return ModelRequest(SYSTEM, messages, (READ_FILE,), ToolProtocol.NATIVE, "task")


def make_xml_request(messages: list[Message]) -> ModelRequest:
    return ModelRequest(SYSTEM, messages, (), ToolProtocol.XML, "task")


async def capture_requests(
    profile: Profile, *requests: ModelRequest, official: bool = False
) -> list[Request]:
    """The requests as they arrive at a server that the profile's base URL points to.

    With `official` the provider believes that it talks to its own service.
    """
    async with ModelServer([Turn(say("ok")) for _ in requests]) as server:
        base = server.url + ("/v1" if profile.provider != "anthropic" else "")
        url = profile.base_url or base
        if official:
            profile = structs.replace(profile, legacy_headers=False)
        http = HttpClient(environ={})
        provider = make_provider(structs.replace(profile, base_url=url), http)
        for request in requests:
            assert TextChunk("ok") in await collect_chunks(provider, request)
        await http.close()
        return server.requests


async def collect_chunks(provider: Provider, request: ModelRequest) -> list[Chunk]:
    return [chunk async for chunk in provider.stream(request)]


def get_messages(request: Request) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = request.body["messages"]
    return messages
