"""Pieces that came together are one piece, and say the same."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joey.core.messages import (
    CallChunk,
    CallEndChunk,
    Chunk,
    ReasoningChunk,
    TextChunk,
    merge_chunks,
)
from joey.core.models import ToolProtocol
from tests.harness.core.streams import any_chunk, assemble


def test_neighbours_are_joined_and_nothing_else() -> None:
    chunks: list[Chunk] = [
        *(ReasoningChunk("th"), ReasoningChunk("ink"), ReasoningChunk(signature="s")),
        *(TextChunk("a"), TextChunk("b")),
        *(
            CallChunk(0, "id", "read_file", "{"),
            CallChunk(0, arguments='"p'),
            CallChunk(0, arguments='":'),
        ),
        *(
            CallChunk(1, arguments="{"),
            CallChunk(0, arguments="1"),
            CallEndChunk(0),
            TextChunk("c"),
        ),
    ]
    assert list(merge_chunks(chunks)) == [
        *(ReasoningChunk("think"), ReasoningChunk(signature="s"), TextChunk("ab")),
        *(CallChunk(0, "id", "read_file", "{"), CallChunk(0, arguments='"p":')),
        *(
            CallChunk(1, arguments="{"),
            CallChunk(0, arguments="1"),
            CallEndChunk(0),
            TextChunk("c"),
        ),
    ]


def test_what_came_before_an_error_comes_first() -> None:
    def cut_off() -> Iterator[Chunk]:
        yield from (TextChunk("a"), TextChunk("b"))
        raise ValueError("cut off")

    chunks = merge_chunks(cut_off())
    assert next(chunks) == TextChunk("ab")
    with pytest.raises(ValueError, match="cut off"):
        next(chunks)


@given(st.lists(any_chunk, max_size=25), st.sampled_from(ToolProtocol), st.booleans())
@settings(max_examples=200)
def test_the_reply_is_the_same(chunks: list[Chunk], protocol: ToolProtocol, complete: bool) -> None:
    together = list(merge_chunks(chunks))
    replies = [assemble(said, protocol, complete=complete)[0] for said in (chunks, together)]
    assert replies[0] == replies[1]
    texts = [type(chunk) is TextChunk for chunk in together]
    assert (True, True) not in pairwise(texts)
