"""Isolated worker processes, and the text they extract from documents and web pages.

A parser may loop, crash or run out of memory on a hostile file: a PDF that expands forever, code
that makes a grammar overflow its stack. In a worker, that affects one process with limits, never
the engine with all its tasks. `worker_main` is the other side.

Documents are PDF, DOCX, spreadsheets and notebooks, read through the `Files` port. A web server may
send a byte a minute, send without end, or send text that takes a parser hours. So a page is fetched
and parsed in a separate process, which is killed when it takes too long or its caller is cancelled.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Struct

from joey.content.worker_main import MAX_CPU_S, REFUSED_EXIT_CODE
from joey.core.path_access import ResolvedPath
from joey.core.structured_output import JsonSchema
from joey.errors import ConfigError, ToolError
from joey.ports.content import Documents, PageFetcher, SchemaValidator
from joey.ports.workspace import Files
from joey.system.subprocess import run

_WORKER_TIMEOUT_S = MAX_CPU_S + 10


async def run_isolated(
    module: str, argument: str, data: bytes, timeout_s: float = _WORKER_TIMEOUT_S
) -> bytes:
    """Return the output of `python -m module argument` for `data`. Raises ToolError if it failed,
    crashed or took too long; the text is the reason, without a subject."""
    # Isolated: neither the current directory nor the environment affects imports.
    command = (sys.executable, "-I", "-m", module, argument)
    try:
        done = await run(command, input=data, env={}, cwd="/", timeout_s=timeout_s)
    except TimeoutError as error:
        raise ToolError(f"it took longer than {timeout_s:g} s to make sense of it.") from error
    match done.returncode:
        case 0:
            return done.stdout
        case code if code == REFUSED_EXIT_CODE:
            raise ToolError(done.stdout.decode(errors="replace"))
        case code if code == -signal.SIGXCPU:
            raise ToolError(f"it took longer than {MAX_CPU_S} s to make sense of it.")
    raise ToolError("it could not be made sense of: it is damaged, too deeply nested or too large.")


_DOCUMENT_KINDS = {
    ".pdf": "pdf",
    ".docx": "word",
    **dict.fromkeys((".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), "spreadsheet"),
    ".ipynb": "notebook",
}
_MAX_PARALLEL_WORKERS = 2


class IsolatedDocumentReader:
    """Reads documents through `files`; another process parses their content."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._worker_slots = asyncio.Semaphore(_MAX_PARALLEL_WORKERS)

    def supports(self, name: str) -> bool:
        return _get_suffix(name) in _DOCUMENT_KINDS

    async def extract_text(self, path: ResolvedPath) -> str:
        kind = _DOCUMENT_KINDS[_get_suffix(path.path.name)]
        async with self._worker_slots:
            data = await self._files.read(path)
            try:
                answer = await run_isolated("joey.content.document_worker", kind, data)
            except ToolError as error:
                raise ToolError(f"Cannot read {path.display_path}: {error}") from error
        return answer.decode(errors="replace")


def _get_suffix(name: str) -> str:
    return PurePath(name).suffix.lower()


_documents_protocol_check: type[Documents] = IsolatedDocumentReader


_SCHEMA_TIMEOUT_S = 10


class IsolatedSchemaValidator:
    """Validates in a separate process, because a schema or an expression in it may run forever on a
    value."""

    def __init__(self, timeout_s: float = _SCHEMA_TIMEOUT_S) -> None:
        self._timeout_s = timeout_s

    async def check_schema(self, document: object) -> JsonSchema:
        try:
            problem = await self._ask("schema", document)
        except ToolError as error:
            raise ConfigError(f"The JSON schema cannot be used: {error}") from error
        if problem:
            raise ConfigError(problem.decode())
        return msgspec.convert({"document": document}, JsonSchema)

    async def find_problems(self, schema: JsonSchema, value: object) -> list[str]:
        try:
            answer = await self._ask("value", [schema.document, value])
        except ToolError as error:
            return [f"It could not be checked: {error}"]
        return msgspec.json.decode(answer, type=list[str])

    async def find_argument_problems(
        self, document: dict[str, Any], arguments: dict[str, Any]
    ) -> list[str]:
        try:
            answer = await self._ask("arguments", [document, arguments])
        except ToolError:
            return []
        return msgspec.json.decode(answer, type=list[str])

    async def _ask(self, kind: str, request: object) -> bytes:
        data = await asyncio.to_thread(msgspec.json.encode, request)
        return await run_isolated("joey.content.json_schema_worker", kind, data, self._timeout_s)


_schemas_protocol_check: type[SchemaValidator] = IsolatedSchemaValidator


_PAGE_TIMEOUT_S = 30
_MAX_PAGE_CHARS = 200_000
_INHERITED_VARIABLES = (
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "ssl_cert_file",
    "ssl_cert_dir",
)


class PageRequest(Struct, frozen=True):
    """The request sent to the process."""

    url: str
    env: dict[str, str]
    """Proxies and certificates, as the engine's own environment names them."""


class WebPageFetcher:
    """Fetches web pages: only `http` and `https`, only text, at most a few megabytes."""

    async def fetch_text(self, url: str) -> str:
        scheme = url.partition(":")[0].lower()
        if scheme not in ("http", "https"):
            raise ToolError(f"only http and https pages can be fetched, not {scheme}")
        env = {
            name: value
            for name, value in os.environ.items()
            if name.lower() in _INHERITED_VARIABLES
        }
        asked = msgspec.json.encode(PageRequest(url, env))
        text = (
            await run_isolated("joey.content.web_page_worker", "text", asked, _PAGE_TIMEOUT_S)
        ).decode()
        if len(text) > _MAX_PAGE_CHARS:
            text = f"{text[:_MAX_PAGE_CHARS]}\n[...the rest of the page is left out...]"
        return text


_pages_protocol_check: type[PageFetcher] = WebPageFetcher
