"""Text of the task index: searchable text of a conversation, queries, snippets.

Scripts without spaces between words (Chinese, Japanese) are split at every character with an
invisible mark, both in texts and in queries, and a run of them is searched as a phrase. Each part
of a query is a word, a phrase or the beginning of a word: each is quoted, so none of it is parsed
as SQLite's query syntax.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from joey.core.task_types import RowKind
from joey.core.text import compile_regex
from joey.ports.storage import HIGHLIGHT_MARKS
from joey.storage.roo_files import decode_lenient_json, get_text
from joey.storage.task_directory import UI_HISTORY_FILE
from joey.system.files import read_regular_file

MAX_SEARCHABLE_CHARS = 1024 * 1024
_MAX_READ_BYTES = 8 * 1024 * 1024
"""Characters indexed per conversation."""
_MAX_QUERY_TERMS = 32
_MAX_TERM_CHARS = 200
_UNSEARCHED_SAY_KINDS = frozenset(
    {RowKind.API_REQ_STARTED, RowKind.API_REQ_FINISHED, RowKind.CHECKPOINT_SAVED}
)
_UNSEARCHED_KEY = "id"
"""Within what a tool says: of an item, which nobody looks for."""
_INVISIBLE_BREAK = "\u200b"
_CJK_CHARACTER_CLASS = (
    "[\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]"
)
_CJK_BOUNDARY_RE = compile_regex(
    rf"(?<={_CJK_CHARACTER_CLASS})(?=\w)|(?<=\w)(?={_CJK_CHARACTER_CLASS})"
)
_QUERY_TERM_RE = compile_regex(r'"([^"]*)"(\*?)|([^\s"]+)')

TOKENIZER = "tokenize = 'unicode61 remove_diacritics 2'"
_PIECE_CHARS, _PIECE_STEP_CHARS = 1000, 900
_SNIPPET_SQL = """
    SELECT snippet(pieces, 0, ?, ?, '…', 24), rowid FROM pieces WHERE pieces MATCH ?
    ORDER BY rank LIMIT 1
"""
_HIGHLIGHT_REMOVAL_TABLE = str.maketrans(dict.fromkeys((*HIGHLIGHT_MARKS, "\0")))

_log = logging.getLogger(__name__)


class _SearchableRow(Struct, frozen=True):
    """The searchable parts of a row."""

    text: str | None = None
    say: str | None = None
    path: str | None = None


_rows_decoder = msgspec.json.Decoder(list[_SearchableRow])


def build_match_expression(query: str) -> str | None:
    """Build the expression that SQLite matches: all of the words; None if there is none."""
    return " ".join(_quote_terms(query)) or None


def _quote_terms(query: str) -> list[str]:
    """Quote each word and phrase, with a star if it is only a prefix."""
    return [f'"{text}"{"*" if is_prefix else ""}' for text, is_prefix in parse_query_terms(query)]


def parse_query_terms(query: str) -> list[tuple[str, bool]]:
    """Parse each word and phrase, and whether it is only a prefix."""
    terms: list[tuple[str, bool]] = []
    for phrase, star, word in _QUERY_TERM_RE.findall(query):
        bare = (phrase or word.rstrip("*"))[:_MAX_TERM_CHARS].replace("\0", " ")
        if any(char.isalnum() for char in bare):
            terms.append((insert_cjk_breaks(bare), bool(star or word.endswith("*"))))
    return terms[:_MAX_QUERY_TERMS]


def insert_cjk_breaks(text: str) -> str:
    if text.isascii():
        return text
    return _CJK_BOUNDARY_RE.sub(_INVISIBLE_BREAK, text.replace(_INVISIBLE_BREAK, ""))


def build_snippet(text: str, query: str) -> str:
    """Build a snippet: the part of a text with most of the words; empty if none is in it."""
    wanted = " OR ".join(_quote_terms(query))
    # In pieces: SQLite takes minutes for a long text in which a word is repeated.
    pieces = [text[at : at + _PIECE_CHARS] for at in range(0, len(text), _PIECE_STEP_CHARS)]
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(f"CREATE VIRTUAL TABLE pieces USING fts5(text, {TOKENIZER})")
        database.executemany("INSERT INTO pieces VALUES (?)", ((piece,) for piece in pieces))
        found = database.execute(_SNIPPET_SQL, (*HIGHLIGHT_MARKS, wanted)).fetchone()
    if found is None:
        return ""
    snippet, number = found
    start = "…" if number > 1 and not snippet.startswith("…") else ""
    end = "…" if number < len(pieces) and not snippet.endswith("…") else ""
    return f"{start}{snippet}{end}".replace(_INVISIBLE_BREAK, "")


def read_conversation_text(directory: Path) -> str:
    """Read the beginning of a task's conversation; empty if it cannot be read."""
    try:
        return extract_conversation_text(
            read_regular_file(directory / UI_HISTORY_FILE, _MAX_READ_BYTES) or b""
        )
    except (OSError, ValueError, RecursionError) as error:
        _log.info("the conversation in %s cannot be searched: %s", directory, error)
        return ""


def extract_conversation_text(data: bytes) -> str:
    """Extract the beginning of the conversation from a UI history. Raises ValueError,
    RecursionError."""
    if len(data) >= _MAX_READ_BYTES:
        # The start of a row that is cut off: within a string the quotes would be escaped.
        data = data[:_MAX_READ_BYTES]
        data = data[: data.rfind(b'{"ts":')].rstrip().removesuffix(b",") + b"]"
    rows = _decode_rows(data) if data else ()
    pieces: list[str] = []
    room = MAX_SEARCHABLE_CHARS
    for piece in _iter_searchable_texts(rows):
        pieces.append(piece[:room])
        room -= len(piece) + 1
        if room <= 0:
            break
    return to_storable_text("\n".join(filter(None, pieces)))


def to_storable_text(text: str) -> str:
    """Return the text for storage: without highlight marks, and without lone surrogates, which are
    not valid UTF-8."""
    clean = text.translate(_HIGHLIGHT_REMOVAL_TABLE)
    return insert_cjk_breaks(clean.encode("utf-8", "replace").decode("utf-8"))


def _decode_rows(data: bytes) -> Iterable[_SearchableRow]:
    try:
        return _rows_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = decode_lenient_json(data)
    rows = [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
    return [
        _SearchableRow(get_text(row, "text"), get_text(row, "say"), get_text(row, "path"))
        for row in rows
    ]


def _iter_searchable_texts(rows: Iterable[_SearchableRow]) -> Iterator[str]:
    for row in rows:
        if row.say in _UNSEARCHED_SAY_KINDS:
            continue
        value: Any = row.text or ""
        with suppress(msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            value = msgspec.json.decode(value) if value.startswith("{") else value
        yield from _iter_strings(value)
        yield row.path or ""


def _iter_strings(value: Any) -> Iterator[str]:
    """Iterate over every string within a JSON value."""
    match value:
        case str():
            yield value
        case dict():
            yield from _iter_strings([value[name] for name in value if name != _UNSEARCHED_KEY])
        case list():
            for part in value:
                yield from _iter_strings(part)
