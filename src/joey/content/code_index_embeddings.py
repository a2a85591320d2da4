"""Embeddings in the code index: the vectors of its passages, made in the background.

If the embedding service does not answer, only words are searched. A lock keeps two processes from
paying for the same embeddings.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from joey.errors import ProviderError, ProviderFailureKind, UserError
from joey.ports.model import Embedder

if TYPE_CHECKING:
    from joey.content.blocking_code_index import BlockingCodeIndex
    from joey.content.code_index import IndexDirectory

log = logging.getLogger(__name__)

EMBED_LOCK_FILE = "embed.lock"
QUERY_TIMEOUT_S = 10.0
EMBEDDING_BATCH_SIZE = 128
"""Passages between two writes to disk."""
_PROBE_TEXT = "code"

PackedVector = tuple[bytes, bytes]
"""The signs of a vector, and its numbers."""


class QueryVector(Struct, frozen=True):
    """The embedding of a query, as far as it can be compared."""

    vector: PackedVector | None = None
    """None when the words have to do; the note says why."""
    model: str = ""
    note: str = ""


class EmbeddingIndex:
    def __init__(
        self, embedder: Embedder, directory: IndexDirectory, work: BlockingCodeIndex
    ) -> None:
        self._embedder = embedder
        self._directory = directory
        self._blocking_index = work
        self._has_switched_embedding_model = False
        """Vectors of another model were thrown away once. Two processes with different models
        must not go on doing that to each other."""
        self._last_error = ""
        """Why vectors are missing, as far as nobody has had them since."""

    async def embed_query(self, query: str) -> QueryVector:
        try:
            async with asyncio.timeout(QUERY_TIMEOUT_S):
                (packed,), model = await self._embed_texts([query])
        except (UserError, TimeoutError) as error:
            reason = str(error) or f"no answer within {QUERY_TIMEOUT_S:g} seconds."
            return QueryVector(note=f"Searched by words only, not by meaning. {reason}")
        return QueryVector(packed, model)

    async def add_coverage_note(self, wanted: QueryVector) -> QueryVector:
        """Add a note about passages without embeddings; drop the vector if none has one."""
        if wanted.vector is None:
            return wanted
        passages, vectors, model = await asyncio.to_thread(self._blocking_index.get_vector_coverage)
        if model != wanted.model:
            vectors = 0
        if vectors >= passages:
            return wanted
        note = (
            f"The meaning of {vectors} of {passages} passages is known so far. {self._last_error}"
        )
        note = note.rstrip()
        return QueryVector(wanted.vector if vectors else None, wanted.model, note)

    async def embed_missing(self) -> None:
        """Embed missing passages until the service fails or work is stopped."""
        with self._directory.try_lock(EMBED_LOCK_FILE) as ours:
            if not ours:
                return
            try:
                await self._discard_outdated_vectors()
                await self._embed_passages()
                self._last_error = ""
            except UserError as error:
                if str(error) != self._last_error:
                    log.warning("no vectors for the code index: %s", error)
                self._last_error = str(error)

    async def _discard_outdated_vectors(self) -> None:
        """Discard stored vectors that are not of the model's current version."""
        _, model = await self._embed_texts([_PROBE_TEXT])
        _, _, kept = await asyncio.to_thread(self._blocking_index.get_vector_coverage)
        if kept == model:
            return
        if self._has_switched_embedding_model:
            raise UserError("another process keeps vectors of another model.")
        self._has_switched_embedding_model = True
        await asyncio.to_thread(self._blocking_index.switch_embedding_model, model)

    async def _embed_passages(self) -> None:
        after = 0
        while not self._blocking_index.stop_event.is_set():
            after, texts = await asyncio.to_thread(
                self._blocking_index.list_passages_without_vectors, after, EMBEDDING_BATCH_SIZE
            )
            if not after:
                return
            if texts:
                vectors, _ = await self._embed_texts([text for _, text in texts])
                passage_ids = [passage_id for passage_id, _ in texts]
                pairs = list(zip(passage_ids, vectors, strict=True))
                await asyncio.to_thread(self._blocking_index.save_vectors, pairs)

    async def _embed_texts(self, texts: Sequence[str]) -> tuple[list[PackedVector], str]:
        """Embed texts, and return the model's identity: other vector lengths than before mean
        another model."""
        from joey.content.code_index_store import pack_vector  # loads SQLite

        vectors = await self._embedder.embed(texts)
        lengths = {len(vector) for vector in vectors}
        if len(vectors) != len(texts) or len(lengths) != 1 or lengths == {0}:
            raise ProviderError(
                f"{self._embedder.model_id} gave no vector, or vectors of different lengths. Check"
                " that the embedding profile names a model for embeddings.",
                failure=ProviderFailureKind.MALFORMED_STREAM,
            )
        packed = await asyncio.to_thread(lambda: [pack_vector(vector) for vector in vectors])
        return packed, f"{self._embedder.model_id} ({lengths.pop()})"
