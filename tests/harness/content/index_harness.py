"""A workspace with a code index over it, both real."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from joey.content.code_index import IndexDirectory, WorkspaceIndexPool
from joey.errors import ToolError
from joey.ports.content import CodeIndex, CodeSearchResult
from joey.ports.model import Embedder
from joey.workspace.files import LocalFiles
from joey.workspace.listing import list_indexable_files

TIMEOUT_S = 30


class IndexHarness:
    def __init__(self, tmp_path: Path) -> None:
        self.root = tmp_path / "work"
        self.root.mkdir()
        self.home = tmp_path / "home"
        self.files = LocalFiles(self.root)
        self.index_directory = IndexDirectory(self.home / "index", self.root)

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def open(
        self, indexes: WorkspaceIndexPool | None = None, embedder: Embedder | None = None
    ) -> CodeIndex:
        indexes = indexes or WorkspaceIndexPool(self.home)
        return indexes.open(
            self.files, lambda stop: list_indexable_files(self.files, stop), embedder
        )

    @asynccontextmanager
    async def index(self, embedder: Embedder | None = None) -> AsyncIterator[CodeIndex]:
        index = self.open(embedder=embedder)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                yield index
        finally:
            await index.close()


async def answer(index: CodeIndex, query: str, limit: int = 10) -> CodeSearchResult:
    """What is found, once the index is filled."""
    while True:
        try:
            return await index.search(query, None, limit)
        except ToolError:
            if index.state.is_ready or index.state.error:
                raise


async def whole_answer(index: CodeIndex, query: str) -> CodeSearchResult:
    """What is found once there is nothing left to be said about it."""
    while (found := await answer(index, query)).note:
        pass
    return found


async def paths(index: CodeIndex, query: str) -> list[str]:
    return [hit.path for hit in (await answer(index, query)).hits]
