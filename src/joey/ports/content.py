"""Ports of content beyond plain files: outlines, documents, code index, diagnostics, web pages.

The browser is one page of one task, controlled with the help of screenshots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from joey.core.diagnostics import Diagnostic
from joey.core.path_access import ResolvedPath
from joey.core.structured_output import JsonSchema


class Definition(Struct, frozen=True):
    """A class, a function or a heading: its place, with decorators, and its first line."""

    start_line: int
    end_line: int
    first_line: str
    """Without decorators."""


class Outlines(Protocol):
    def supports(self, name: str) -> bool:
        """Whether files of this name are in a supported language."""

    async def build_outline(self, name: str, data: bytes) -> Sequence[Definition]: ...


class Documents(Protocol):
    """Text inside of binary documents: PDF, DOCX, spreadsheets, notebooks."""

    def supports(self, name: str) -> bool: ...

    async def extract_text(self, path: ResolvedPath) -> str:
        """Extract the text. Raises ToolError if the file is damaged, locked or too big."""


class SchemaValidator(Protocol):
    """JSON Schemas: both methods are bounded in time, and follow no reference out of a document."""

    async def check_schema(self, document: object) -> JsonSchema:
        """Check a schema. Raises ConfigError, which names the place and what is wrong or not
        supported there."""

    async def find_problems(self, schema: JsonSchema, value: object) -> Sequence[str]:
        """Return the problems of a value, one sentence each."""

    async def find_argument_problems(
        self, document: dict[str, Any], arguments: dict[str, Any]
    ) -> Sequence[str]:
        """Find problems for a third-party schema; empty if it cannot be checked."""


class CodeSearchHit(Struct, frozen=True):
    """Lines from `start_line` to `end_line` of a file, counted from 1."""

    path: str
    score: float
    """0 to 1."""
    start_line: int
    end_line: int
    text: str


class CodeSearchResult(Struct, frozen=True):
    hits: tuple[CodeSearchHit, ...]
    note: str = ""
    """What the reader should know: changes not taken in yet, no search by meaning."""


class CodeIndexState(Struct, frozen=True):
    is_ready: bool
    """It answers; it may still be taking in what changed."""
    indexed_file_count: int = 0
    total_file_count: int = 0
    """Files of the round that is going on, or of the latest."""
    error: str = ""


class CodeIndex(Protocol):
    """A search by meaning or words over the whole workspace."""

    @property
    def state(self) -> CodeIndexState: ...

    async def search(
        self, query: str, directory: ResolvedPath | None, limit: int
    ) -> CodeSearchResult:
        """Search, best first; small changes since the last search are indexed before. Raises
        ToolError, which says how far it is, if there is no index yet or it is broken."""

    async def close(self) -> None: ...


class Diagnostics(Protocol):
    async def check_files(self, paths: Sequence[ResolvedPath]) -> Sequence[Diagnostic]:
        """Check these files with the available checkers; bounded in time."""

    async def check_workspace(self, limit: int) -> Sequence[Diagnostic]:
        """Check the workspace."""


class PageFetcher(Protocol):
    async def fetch_text(self, url: str) -> str:
        """Fetch a page as Markdown. Raises ToolError if it is unreachable, refused or not text."""


BrowserActionName = Literal[
    "launch",
    "click",
    "hover",
    "type",
    "press",
    "scroll_down",
    "scroll_up",
    "resize",
    "screenshot",
    "close",
]


class BrowserStep(Struct, frozen=True, omit_defaults=True):
    action: BrowserActionName
    url: str = ""
    x: int = 0
    y: int = 0
    """A point of the page; with `resize`, the new size."""
    text: str = ""
    """To type; the key to press; with `screenshot`, the format (`png`, `jpeg`, `webp`)."""


class BrowserObservation(Struct, frozen=True, omit_defaults=True):
    """The state of the page after a step."""

    screenshot: str | None = None
    """Data URI."""
    console: str = ""
    """New lines of the page's console."""
    url: str = ""
    cursor: tuple[int, int] | None = None
    note: str = ""
    """What else there is to say: the page is still loading, a download was refused."""


class Browser(Protocol):
    """One page of one task; nothing is kept between launches."""

    @property
    def is_open(self) -> bool: ...

    @property
    def viewport(self) -> tuple[int, int]: ...

    async def perform(self, step: BrowserStep) -> BrowserObservation:
        """Perform a step. Raises ToolError if no page is open, the address cannot be reached, or
        the step failed."""

    async def close(self) -> None: ...
