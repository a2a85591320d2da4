"""The meaning of passages: vectors of a model, made in the background and asked for a query.

When the model's service does not answer, the search goes by words and says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from joey.errors import ProviderError, Trouble, UserError
from joey.knowledge.index_folder import EMBEDDING, IndexFolder
from joey.ports import Embedder

if TYPE_CHECKING:
    from joey.knowledge.index_work import IndexWork

log = logging.getLogger(__name__)

QUERY_SECONDS = 10.0
BATCH = 128
"""Passages between two writes to disk."""
_PROBE = "code"

Packed = tuple[bytes, bytes]
"""The signs of a vector, and its numbers."""


class Wanted(Struct, frozen=True):
    """What a query means, as far as it can be compared."""

    vector: Packed | None = None
    """None when the words have to do; the note says why."""
    model: str = ""
    note: str = ""


class Meaning:
    def __init__(self, embedder: Embedder, folder: IndexFolder, work: IndexWork) -> None:
        self._embedder = embedder
        self._folder = folder
        self._work = work
        self._replaced = False
        """Vectors of another model were thrown away once. Two processes with different models
        must not go on doing that to each other."""
        self._trouble = ""
        """Why vectors are missing, as far as nobody has had them since."""

    async def of_query(self, query: str) -> Wanted:
        try:
            async with asyncio.timeout(QUERY_SECONDS):
                (packed,), model = await self._vectors([query])
        except (UserError, TimeoutError) as error:
            reason = str(error) or f"no answer within {QUERY_SECONDS:g} seconds."
            return Wanted(note=f"Searched by words only, not by meaning. {reason}")
        return Wanted(packed, model)

    async def standing(self, wanted: Wanted) -> Wanted:
        """The same with a note on the passages whose meaning is not known now; without the vector
        when that is all of them."""
        if wanted.vector is None:
            return wanted
        passages, vectors, model = await asyncio.to_thread(self._work.vector_counts)
        if model != wanted.model:
            vectors = 0
        if vectors >= passages:
            return wanted
        note = f"The meaning of {vectors} of {passages} passages is known so far. {self._trouble}"
        note = note.rstrip()
        return Wanted(wanted.vector if vectors else None, wanted.model, note)

    async def complete(self) -> None:
        """Ask for the vectors that are missing, until the service fails or work is stopped."""
        with self._folder.locked(EMBEDDING) as ours:
            if not ours:
                return
            try:
                await self._adopt_model()
                await self._fill()
                self._trouble = ""
            except UserError as error:
                if str(error) != self._trouble:
                    log.warning("no vectors for the code index: %s", error)
                self._trouble = str(error)

    async def _adopt_model(self) -> None:
        """See to it that the vectors on disk are of this model, as it is now."""
        _, model = await self._vectors([_PROBE])
        _, _, kept = await asyncio.to_thread(self._work.vector_counts)
        if kept == model:
            return
        if self._replaced:
            raise UserError("another process keeps vectors of another model.")
        self._replaced = True
        await asyncio.to_thread(self._work.keep_vectors_of, model)

    async def _fill(self) -> None:
        after = 0
        while not self._work.stop.is_set():
            after, texts = await asyncio.to_thread(self._work.without_vector, after, BATCH)
            if not after:
                return
            if texts:
                vectors, _ = await self._vectors([text for _, text in texts])
                places = [place for place, _ in texts]
                pairs = list(zip(places, vectors, strict=True))
                await asyncio.to_thread(self._work.put_vectors, pairs)

    async def _vectors(self, texts: Sequence[str]) -> tuple[list[Packed], str]:
        """Of each text one, and which model they are of: one that gives longer or shorter vectors
        than before is another model."""
        from joey.knowledge.index_vectors import pack

        vectors = await self._embedder.embed(texts)
        lengths = {len(vector) for vector in vectors}
        if len(vectors) != len(texts) or len(lengths) != 1 or lengths == {0}:
            raise ProviderError(
                f"{self._embedder.model} gave no vector, or vectors of different lengths. Check"
                " that the embedding profile names a model for embeddings.",
                trouble=Trouble.MALFORMED,
            )
        packed = await asyncio.to_thread(lambda: [pack(vector) for vector in vectors])
        return packed, f"{self._embedder.model} ({lengths.pop()})"
