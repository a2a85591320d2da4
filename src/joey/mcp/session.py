"""Session with an MCP server: handshake, lists of tools and resources, conversion of its answers.

Imports the MCP library at the top: load it with `connection.load_module("session")`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

import mcp.types as types  # noqa: PLR0402 (tests/mcp makes the other spelling look like ours)
import msgspec
from httpx2 import Auth
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.subscriptions import listen
from mcp.shared.exceptions import MCPError
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ReadResourceResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import Struct
from pydantic import BaseModel

from joey import __version__
from joey.core.mcp import McpResource, McpResult, McpTool
from joey.core.messages import detect_image_type
from joey.mcp.config import ServerConfig
from joey.mcp.message_limits import MessageLimiter, MessageStreams
from joey.mcp.process import StderrTail, make_default_cwd
from joey.mcp.transports import HttpState, open_http_streams, open_stdio_streams

MAX_PAGES = 100
MAX_LISTED_ITEMS = 1000
"""Tools, resources or templates of one server."""
MAX_DESCRIPTION_CHARS = 10_000
MAX_SCHEMA_BYTES = 64 * 1024
MAX_TOOL_LIST_CHARS = 1024 * 1024
"""All descriptions and schemas of one server: each request carries them."""
_MAX_NAME_CHARS = 500
_MAX_SHORT_TEXT_CHARS = 1000
_HANDSHAKE_FALLBACK_CODES = (types.METHOD_NOT_FOUND, types.UNSUPPORTED_PROTOCOL_VERSION)

PageT = TypeVar("PageT", bound=types.PaginatedResult)


class SessionContext(Struct, frozen=True):
    """How a server is reached, and the callbacks for its messages."""

    workspace: Path
    server_environment: Mapping[str, str]
    auth: Auth | None
    stderr_tail: StderrTail
    http_state: HttpState
    on_end: Callable[[str], None]
    on_list_changed: Callable[[], None]
    """What it offers is no longer what was listed."""


@asynccontextmanager
async def open_session(config: ServerConfig, context: SessionContext) -> AsyncIterator[McpSession]:
    """Connect and initialize; on exit, end the server or its session. Raises LaunchError, MCPError,
    httpx2.HTTPError, ExceptionGroup of these."""

    async def handle_message(message: IncomingMessage) -> None:
        if isinstance(
            message, types.ToolListChangedNotification | types.ResourceListChangedNotification
        ):
            context.on_list_changed()

    async with _open_streams(config, context) as streams:
        limiter = MessageLimiter(streams, context.on_end)
        client_info = types.Implementation(name="joey", version=__version__)
        session = ClientSession(
            limiter.reader, limiter.writer, message_handler=handle_message, client_info=client_info
        )
        async with session:
            yield McpSession(session)


def _open_streams(
    config: ServerConfig, context: SessionContext
) -> AbstractAsyncContextManager[MessageStreams]:
    if config.default_cwd is not None:
        make_default_cwd(config.default_cwd)
    if config.transport == "stdio":
        return open_stdio_streams(
            config.entry, context.workspace, context.server_environment, context.stderr_tail
        )
    return open_http_streams(config, context.auth, context.http_state)


class McpSession:
    def __init__(self, session: ClientSession) -> None:
        self._client_session = session

    async def initialize(self) -> None:
        """Perform the usual handshake; servers that only support the newer one are handled too."""
        try:
            await self._client_session.initialize()
        except MCPError as error:
            if error.code not in _HANDSHAKE_FALLBACK_CODES:
                raise
            await self._client_session.discover()

    @property
    def instructions(self) -> str:
        return (self._client_session.instructions or "")[:MAX_DESCRIPTION_CHARS]

    async def watch_changes(self, on_list_changed: Callable[[], None]) -> None:
        """Subscribe to changes, as newer servers require. Ends with the connection."""
        if self._client_session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        async with listen(
            self._client_session, tools_list_changed=True, resources_list_changed=True
        ) as changes:
            async for _ in changes:
                on_list_changed()

    async def list_tools(self) -> list[McpTool]:
        found: list[McpTool] = []
        if self._has_capability("tools"):
            async for page in _iter_pages(self._client_session.list_tools):
                found += (
                    _convert_tool(tool) for tool in page.tools if len(tool.name) <= _MAX_NAME_CHARS
                )
                if len(found) >= MAX_LISTED_ITEMS:
                    break
        sizes = (len(each.description) + len(msgspec.json.encode(each.schema)) for each in found)
        # As many of them as a request can carry.
        totals = zip(found[:MAX_LISTED_ITEMS], accumulate(sizes), strict=False)
        return [tool for tool, total in totals if total <= MAX_TOOL_LIST_CHARS]

    async def list_resources(self) -> list[McpResource]:
        """List resources, then templates; a server that announces some but fails has none."""
        if not self._has_capability("resources"):
            return []
        plain = await _try_list(
            self._client_session.list_resources,
            lambda page: [_convert_resource(item, item.uri) for item in page.resources],
        )
        # Most servers have none and do not support the request.
        templates = await _try_list(
            self._client_session.list_resource_templates,
            lambda page: [
                _convert_resource(item, item.uri_template, True) for item in page.resource_templates
            ],
        )
        return [*plain, *templates][:MAX_LISTED_ITEMS]

    def _has_capability(self, capability: str) -> bool:
        return getattr(self._client_session.server_capabilities, capability, None) is not None

    async def call_tool(
        self, tool: str, arguments: dict[str, Any], on_progress: Callable[[str], None] | None
    ) -> McpResult:
        """Call a tool. Raises MCPError, pydantic.ValidationError. Cancelling notifies the
        server."""

        async def report_progress(
            progress: float, total: float | None, message: str | None
        ) -> None:
            if on_progress is not None:
                amount = f"{progress:g} of {total:g}" if total else f"{progress:g}"
                on_progress(f"{amount}: {message[:_MAX_SHORT_TEXT_CHARS]}" if message else amount)

        request = types.CallToolRequest(
            params=types.CallToolRequestParams(name=tool, arguments=arguments)
        )
        # Not `call_tool`: that runs the server's own output schema over its results.
        result = await self._client_session.send_request(
            request, types.CallToolResult, progress_callback=report_progress
        )
        return convert_call_result(result)

    async def read_resource(self, uri: str) -> McpResult:
        return convert_read_result(await self._client_session.read_resource(uri))


async def _try_list(
    fetch: Callable[..., Awaitable[PageT]], convert: Callable[[PageT], list[McpResource]]
) -> list[McpResource]:
    found: list[McpResource] = []
    try:
        async for page in _iter_pages(fetch):
            found += convert(page)
            if len(found) >= MAX_LISTED_ITEMS:
                break
    except MCPError:
        return []
    return found


async def _iter_pages(fetch: Callable[..., Awaitable[PageT]]) -> AsyncIterator[PageT]:
    """Iterate over the pages of a list, up to a limit."""
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        params = None if cursor is None else types.PaginatedRequestParams(cursor=cursor)
        page = await fetch(params=params)
        yield page
        if not page.next_cursor or page.next_cursor == cursor:
            return
        cursor = page.next_cursor


def _convert_tool(found: types.Tool) -> McpTool:
    schema = found.input_schema
    if len(msgspec.json.encode(schema)) > MAX_SCHEMA_BYTES:
        schema = {"type": "object"}
    return McpTool(found.name, (found.description or "")[:MAX_DESCRIPTION_CHARS], schema)


def _convert_resource(
    found: types.Resource | types.ResourceTemplate, uri: str, is_template: bool = False
) -> McpResource:
    return McpResource(
        uri=uri[:_MAX_SHORT_TEXT_CHARS],
        name=found.name[:_MAX_NAME_CHARS],
        description=(found.description or "")[:_MAX_SHORT_TEXT_CHARS],
        mime_type=(found.mime_type or "")[:_MAX_NAME_CHARS],
        is_template=is_template,
    )


_SIGNATURE_BYTES = 12


def convert_call_result(result: CallToolResult) -> McpResult:
    given = (block.data for block in result.content if isinstance(block, ImageContent))
    images = tuple(filter(None, map(_to_image_data_uri, given)))
    text = "\n\n".join(filter(None, map(_render_content_block, result.content)))
    if not text and not images and result.structured_content is not None:
        text = _format_json(msgspec.json.encode(result.structured_content))
    if not text:
        text = f"[{len(images)} image(s) received]" if images else "(No response)"
    if result.is_error:
        text = f"Error:\n{text}"
    return McpResult(text, images, bool(result.is_error))


def convert_read_result(result: ReadResourceResult) -> McpResult:
    texts = [part.text for part in result.contents if isinstance(part, TextResourceContents)]
    blobs = [part.blob for part in result.contents if isinstance(part, BlobResourceContents)]
    images = tuple(filter(None, map(_to_image_data_uri, blobs)))
    text = "\n\n".join(filter(None, texts))
    if not text and images:
        text = f"[{len(images)} image(s) received]"
    return McpResult(text or "(Empty response)", images)


def _render_content_block(block: ContentBlock) -> str:
    match block:
        case TextContent(text=text):
            return text
        case EmbeddedResource(resource=resource):
            return _format_model(resource, {"blob"})
        case ResourceLink():
            return _format_model(block, {"icons"})
        case AudioContent(mime_type=kind):
            return f"[audio of type {kind}, which cannot be passed on]"
        case ImageContent(mime_type=kind, data=data) if _to_image_data_uri(data) is None:
            return f"[an image of type {kind}, which cannot be passed on]"
    return ""


def _to_image_data_uri(data: str) -> str | None:
    """Return a data URI by the detected type, not the declared one. An image that a model's service
    does not accept would make every later request of the task fail."""
    try:
        start = base64.b64decode(data, validate=True)[:_SIGNATURE_BYTES]
    except (binascii.Error, ValueError):
        return None
    kind = detect_image_type(start)
    return f"data:{kind};base64,{data}" if kind else None


def _format_model(model: BaseModel, excluded: set[str]) -> str:
    text = model.model_dump_json(by_alias=True, exclude_none=True, exclude=excluded)
    return _format_json(text.encode())


def _format_json(data: bytes) -> str:
    return msgspec.json.format(data, indent=2).decode()
