"""Pieces of request bodies: cut where messages begin, so that a conversation is stored once.

Each request of a conversation repeats the messages of the one before it. Joined, the pieces give
the exact bytes of any body. A separate module: it knows nothing of the database.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from joey.core.text import compile_regex

MAX_CUT_BYTES = 16 * 1024 * 1024
"""Longer bodies are cut into equal pieces, without looking for messages."""
PIECE_BYTES = 1024 * 1024
_MIN_PIECE_BYTES = 64
_MESSAGE_DEPTH = 2
"""Array fields of the body that are stored per element: messages, tools, system prompt blocks."""
_TOKEN_RE = compile_regex(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{},]', re.DOTALL)


def cut_body(body: bytes) -> list[bytes]:
    """Cut `body` into pieces, most of which a longer body of the same conversation shares."""
    if len(body) > MAX_CUT_BYTES or body[:1] not in (b"{", b"["):
        return [body[start : start + PIECE_BYTES] for start in range(0, len(body), PIECE_BYTES)]
    borders = [0, *_find_borders(body), len(body)]
    return [body[start:end] for start, end in pairwise(borders) if start < end]


def _find_borders(body: bytes) -> Iterator[int]:
    """Find the offsets before and after the elements of arrays in a JSON object."""
    depth = 0
    last = 0
    for token in _TOKEN_RE.finditer(body):
        mark = body[token.start()]
        if mark in b"[{":
            depth += 1
            is_border = depth == _MESSAGE_DEPTH and mark == 0x5B
        elif mark in b"]}":
            is_border = depth == _MESSAGE_DEPTH and mark == 0x5D
            depth -= 1
        else:
            is_border = mark == 0x2C and depth == _MESSAGE_DEPTH
        at = token.end() if mark == 0x5B else token.start()
        if is_border and at - last >= _MIN_PIECE_BYTES:
            last = at
            yield at
