from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from joey.content import code_index_embeddings
from joey.content.code_index_embeddings import EMBED_LOCK_FILE
from joey.errors import ConfigError, ProviderError, ProviderFailureKind
from tests.harness.content.index_harness import IndexHarness, answer, paths, whole_answer

CONCEPTS = (
    ("login", "authenticate", "credentials", "password"),
    ("paint", "colour", "canvas", "brush"),
    ("invoice", "billing", "charge", "fee"),
)


class Concepts:
    """A model that knows a handful of words, and which of them mean the same."""

    def __init__(self, model: str = "concepts", dimension: int = 8) -> None:
        self.model_id = model
        self._dimension = dimension
        self.seen: list[str] = []
        self.error: Exception | None = None
        self.refusal: Exception | None = None
        """The trouble with passages alone."""
        self.held = asyncio.Event()
        self.held.set()
        self.closed = False

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        if self.error is not None:
            raise self.error
        if len(texts) > 1 or "\n" in texts[0]:
            await self.held.wait()
            if self.refusal is not None:
                raise self.refusal
        self.seen += texts
        return [self._vector(text.lower()) for text in texts]

    def _vector(self, text: str) -> list[float]:
        known = [0.1 + sum(text.count(word) for word in concept) for concept in CONCEPTS]
        return known + [0.01] * (self._dimension - len(known))

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def harness(tmp_path: Path) -> IndexHarness:
    harness = IndexHarness(tmp_path)
    harness.write("a.py", "def check_credentials(user):\n    return user.password\n")
    harness.write("b.py", "def draw(brush):\n    return brush.colour\n")
    harness.write("c.py", "def total(invoice):\n    return invoice.charge\n")
    return harness


async def informed(harness: IndexHarness, embedder: Concepts, query: str) -> list[str]:
    """What is found once all vectors are there."""
    async with harness.index(embedder) as index:
        return [hit.path for hit in (await whole_answer(index, query)).hits]


@pytest.mark.contract("index:search")
async def test_code_is_found_by_what_it_means(harness: IndexHarness) -> None:
    embedder = Concepts()
    assert (await informed(harness, embedder, "authenticate login"))[0] == "a.py"
    assert embedder.closed
    async with harness.index() as text_index:
        assert await paths(text_index, "authenticate login") == []


@pytest.mark.contract("index:search")
async def test_while_vectors_are_made_the_text_is_searched_and_the_answer_says_so(
    harness: IndexHarness,
) -> None:
    embedder = Concepts()
    embedder.held.clear()
    async with harness.index(embedder) as index:
        found = await answer(index, "brush")
        assert [hit.path for hit in found.hits] == ["b.py"]
        assert "0 of 3 passages" in found.note
        embedder.held.set()
        assert (await whole_answer(index, "canvas")).hits[0].path == "b.py"


@pytest.mark.contract("index:search")
async def test_only_what_changed_is_sent_again(harness: IndexHarness) -> None:
    embedder = Concepts()
    await informed(harness, embedder, "paint")
    embedder.seen.clear()
    harness.write("c.py", "def wall(paint):\n    return paint\n")
    assert {*(await informed(harness, embedder, "canvas"))} >= {"b.py", "c.py"}
    assert [text for text in embedder.seen if "\n" in text] == [
        "c.py\ndef wall(paint):\n    return paint"
    ]


@pytest.mark.contract("index:search")
@pytest.mark.parametrize("other", [Concepts("another"), Concepts(dimension=16)])
async def test_another_model_makes_all_vectors_anew(harness: IndexHarness, other: Concepts) -> None:
    await informed(harness, Concepts(), "paint")
    assert (await informed(harness, other, "canvas"))[0] == "b.py"
    assert sum("\n" in text for text in other.seen) == 3


@pytest.mark.contract("index:search")
@pytest.mark.parametrize(
    "error",
    [
        ProviderError("nobody listens at 127.0.0.1:1", failure=ProviderFailureKind.NETWORK),
        ConfigError("There is no profile 'x'."),
    ],
)
async def test_when_the_model_does_not_answer_the_text_is_searched_and_it_is_said(
    harness: IndexHarness, error: Exception
) -> None:
    embedder = Concepts()
    embedder.error = error
    async with harness.index(embedder) as index:
        found = await answer(index, "brush")
        assert [hit.path for hit in found.hits] == ["b.py"]
        assert found.note == f"Searched by words only, not by meaning. {error}"
        embedder.error = None
        assert (await whole_answer(index, "canvas")).hits[0].path == "b.py"


@pytest.mark.contract("index:search")
async def test_why_meanings_stay_unknown_is_said(harness: IndexHarness) -> None:
    embedder = Concepts()
    embedder.refusal = ProviderError(
        "too long for this model", failure=ProviderFailureKind.INVALID_REQUEST
    )
    async with harness.index(embedder) as index:
        while "too long for this model" not in (found := await answer(index, "brush")).note:
            pass
        assert [hit.path for hit in found.hits] == ["b.py"]
        assert "0 of 3 passages" in found.note
        embedder.refusal = None
        assert (await whole_answer(index, "canvas")).hits[0].path == "b.py"


@pytest.mark.contract("index:search")
async def test_no_text_is_sent_that_has_more_tokens_than_models_take(harness: IndexHarness) -> None:
    harness.write("d.py", ("漢" * 450 + "\n") * 40)
    embedder = Concepts()
    await informed(harness, embedder, "paint")
    assert max(len(text.encode()) for text in embedder.seen) <= 8_000


@pytest.mark.contract("index:search")
async def test_a_model_that_keeps_silent_is_not_waited_for_long(
    harness: IndexHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_index_embeddings, "QUERY_TIMEOUT_S", 0.01)

    class Silent(Concepts):
        async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            await asyncio.Event().wait()
            return []

    async with harness.index(Silent()) as index:
        found = await answer(index, "brush")
        assert [hit.path for hit in found.hits] == ["b.py"]
        assert "no answer within 0.01 seconds" in found.note


@pytest.mark.contract("index:search")
@pytest.mark.parametrize("vectors", [[], [[]], [[1.0], [2.0]]])
async def test_an_answer_without_the_vectors_that_were_asked_for_is_an_error(
    harness: IndexHarness, vectors: list[list[float]]
) -> None:
    class Odd(Concepts):
        async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            return vectors

    async with harness.index(Odd()) as index:
        assert "gave no vector" in (await answer(index, "brush")).note


@pytest.mark.contract("index:hidden")
async def test_nothing_that_is_hidden_is_sent_to_the_model(
    harness: IndexHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("joey.content.blocking_code_index._STAMP_SETTLING_NS", 0)
    harness.write("secret.py", "password = 'hunter2'\n")
    harness.write(".gitignore", "!secret.py\n")
    async with harness.index() as index:
        await answer(index, "anything")
    harness.write(".rooignore", "secret.py\n")
    embedder = Concepts()
    await informed(harness, embedder, "login")
    assert len(embedder.seen) > 3
    assert not any("hunter2" in text for text in embedder.seen)


@pytest.mark.contract("index:search")
async def test_two_processes_do_not_ask_for_the_same_vectors(harness: IndexHarness) -> None:
    harness.index_directory.create()
    embedder = Concepts()
    async with harness.index(embedder) as index:
        with harness.index_directory.try_lock(EMBED_LOCK_FILE):
            for _ in range(3):
                assert "0 of 3 passages" in (await answer(index, "brush")).note
        assert not any("\n" in text for text in embedder.seen)
