"""Database of the code index: passages in SQLite's full-text table, their vectors, their ranking.

Only a cache: a file with another layout, or a damaged one, is deleted and created again. WAL lets
others read during writes. Words are weighted by BM25, and count more in the path of a file and in
the first lines of definitions than in the text. The word score and the meaning score are combined,
neighbours are merged, and the number of hits per file is limited.

Vectors are compared without a numerical library. Multiplying twenty thousand vectors of 1,536
numbers takes Python more than a second. So candidates are first selected by the signs of their
numbers, stored as one long integer per vector: the number of equal signs is the number of zero bits
in an exclusive or, which takes a tenth of a microsecond. Only the few hundred best are multiplied.
"""

from __future__ import annotations

import math
import os
import sqlite3
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from heapq import nsmallest
from operator import mul
from pathlib import Path

from msgspec import Struct, structs

from joey.content.code_index_chunks import Passage, extract_name_parts, extract_query_terms
from joey.ports.content import CodeSearchHit
from joey.system.files import open_private_file
from joey.system.sqlite import enable_write_ahead_log, transaction

SCHEMA_VERSION = 1
MAX_POSTINGS = 20_000
"""How many occurrences of its words a query may have weighed: keeps the commonest from costing
more than they tell."""
_BM25_WEIGHTS = "bm25(3.0, 4.0, 1.0, 1.0)"
_BUSY_TIMEOUT_S = 5.0
_CORRUPTION_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_PRIMARY_CODE_MASK = 0xFF
_SCHEMA_SQL = f"""
    CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE files (
        id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE,
        modified INTEGER NOT NULL, changed INTEGER NOT NULL,
        size INTEGER NOT NULL, inode INTEGER NOT NULL, digest BLOB NOT NULL
    );
    CREATE TABLE places (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        file INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL
    );
    CREATE INDEX places_of_file ON places (file);
    CREATE VIRTUAL TABLE passages USING fts5(
        path, names, text, parts, tokenize = 'porter unicode61 remove_diacritics 2'
    );
    CREATE TABLE vectors (place INTEGER PRIMARY KEY, vector BLOB NOT NULL);
    CREATE TABLE signs (place INTEGER PRIMARY KEY, bits BLOB NOT NULL);
    PRAGMA user_version = {SCHEMA_VERSION};
"""
_IN_DIRECTORY_SQL = (
    "JOIN files ON files.id = places.file WHERE (files.path = ?1 OR files.path GLOB ?2)"
)


IndexedFileStamp = tuple[int, int, int, int]
"""When a file was modified and changed, its size and its inode."""


class PassageMatch(Struct, frozen=True):
    """A passage and its score, from 0 to 1."""

    passage_id: int
    score: float


class FoundPassage(Struct, frozen=True):
    path: str
    start_line: int
    end_line: int
    text: str
    score: float


class DatabaseDamagedError(Exception):
    """The database file is damaged."""


def has_full_text_search() -> bool:
    """Whether this Python's SQLite has full-text search."""
    with closing(sqlite3.connect(":memory:")) as memory:
        try:
            memory.execute("CREATE VIRTUAL TABLE probe USING fts5(text)")
        except sqlite3.OperationalError:
            return False
    return True


class CodeIndexStore:
    """One connection, used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Raises OSError, sqlite3.Error or DatabaseDamagedError."""
        os.close(open_private_file(path))
        self._connection = sqlite3.connect(
            path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        self._stamps: dict[str, IndexedFileStamp] = {}
        self._stamps_version = 0
        try:
            with _translate_damage():
                enable_write_ahead_log(self._connection, _BUSY_TIMEOUT_S)
                self._connection.execute("PRAGMA synchronous = NORMAL")
                self._ensure_schema()
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block as one transaction."""
        with _translate_damage(), transaction(self._connection):
            yield

    # What is known about files

    def get_property(self, name: str) -> str:
        with _translate_damage():
            row = self._connection.execute("SELECT value FROM facts WHERE name = ?", (name,))
            return next((value for (value,) in row), "")

    def set_properties(self, facts: Mapping[str, str]) -> None:
        self._connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())

    def load_stamps(self) -> Mapping[str, IndexedFileStamp]:
        """Load stamps by path: the state of each file when it was read. Read again when another
        connection has written, so use a connection that only reads."""
        with _translate_damage():
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
            if version != self._stamps_version:
                sql = "SELECT modified, changed, size, inode, path FROM files"
                self._stamps = {row[4]: row[:4] for row in self._connection.execute(sql)}
                self._stamps_version = version
            return self._stamps

    def update_stamp_if_unchanged(self, path: str, stamp: IndexedFileStamp, digest: bytes) -> bool:
        """Update the stamp if the content is unchanged; False otherwise. Inside `transaction`."""
        sql = (
            "UPDATE files SET modified = ?, changed = ?, size = ?, inode = ?"
            " WHERE path = ? AND digest = ?"
        )
        return self._connection.execute(sql, (*stamp, path, digest)).rowcount > 0

    def replace_file(
        self, path: str, stamp: IndexedFileStamp, digest: bytes, passages: Iterable[Passage]
    ) -> None:
        """Replace a file. Inside `transaction`."""
        self.remove_file(path)
        run = self._connection.execute
        sql = (
            "INSERT INTO files (path, modified, changed, size, inode, digest)"
            " VALUES (?, ?, ?, ?, ?, ?)"
        )
        file = run(sql, (path, *stamp, digest)).lastrowid
        path_text = f"{path} {extract_name_parts(path)}"
        for passage in passages:
            lines = (file, passage.start_line, passage.end_line)
            passage_id = run(
                "INSERT INTO places (file, first, last) VALUES (?, ?, ?)", lines
            ).lastrowid
            row = (passage_id, path_text, passage.definitions, passage.text, passage.name_parts)
            run("INSERT INTO passages (rowid, path, names, text, parts) VALUES (?,?,?,?,?)", row)

    def remove_file(self, path: str) -> None:
        """Remove a file. Inside `transaction`."""
        of_file = "SELECT places.id FROM places JOIN files ON files.id = file WHERE path = ?"
        for table, key in (("vectors", "place"), ("signs", "place"), ("passages", "rowid")):
            self._connection.execute(f"DELETE FROM {table} WHERE {key} IN ({of_file})", (path,))
        self._connection.execute(
            "DELETE FROM places WHERE file = (SELECT id FROM files WHERE path = ?)", (path,)
        )
        self._connection.execute("DELETE FROM files WHERE path = ?", (path,))

    # What is found

    def search_text(self, query: str, directory: str, limit: int) -> list[PassageMatch]:
        """Find passages with words of the query, best first; the best scores 1."""
        with _translate_damage():
            terms = self._select_rarest_terms(extract_query_terms(query))
            if not terms:
                return []
            sql = "SELECT rowid, rank FROM passages WHERE passages MATCH ?3 AND rank MATCH ?4"
            if directory:
                sql += f" AND rowid IN (SELECT places.id FROM places {_IN_DIRECTORY_SQL})"
            sql += " ORDER BY rank LIMIT ?5"
            rows = self._connection.execute(
                sql,
                (
                    directory,
                    _build_directory_glob(directory),
                    " OR ".join(terms),
                    _BM25_WEIGHTS,
                    limit,
                ),
            ).fetchall()
        # SQLite's ranks are negative, the best the lowest.
        return [
            PassageMatch(passage_id, rank / rows[0][1]) for passage_id, rank in rows if rank < 0
        ]

    def load_passages(self, matches: Iterable[PassageMatch]) -> Iterator[FoundPassage]:
        """Load the places and texts of matches; deleted ones are left out."""
        sql = (
            "SELECT files.path, first, last, text FROM places JOIN files ON files.id = file"
            " JOIN passages ON passages.rowid = places.id WHERE places.id = ?"
        )
        with _translate_damage():
            for match in matches:
                for path, first, last, text in self._connection.execute(sql, (match.passage_id,)):
                    yield FoundPassage(path, first, last, text, match.score)

    def _select_rarest_terms(self, terms: Sequence[str]) -> list[str]:
        """Select the rarest terms in FTS5 syntax, up to the limit."""
        count = "SELECT count(*) FROM passages WHERE passages MATCH ?"
        quoted = [f'"{word}"' for word in terms]
        seen = {word: self._connection.execute(count, (word,)).fetchone()[0] for word in quoted}
        kept: list[str] = []
        total = 0
        for word in sorted((word for word in quoted if seen[word]), key=lambda word: seen[word]):
            total += seen[word]
            if kept and total > MAX_POSTINGS:
                break
            kept.append(word)
        return kept

    # Vectors

    def iter_vector_signs(self, directory: str) -> Iterator[tuple[int, bytes]]:
        """Iterate over the vectors of all passages that have one."""
        sql = "SELECT place, bits FROM signs"
        if directory:
            sql += f" WHERE place IN (SELECT places.id FROM places {_IN_DIRECTORY_SQL})"
        with _translate_damage():
            yield from self._connection.execute(
                sql, (directory, _build_directory_glob(directory)) if directory else ()
            )

    def iter_vectors(self, passage_ids: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        sql = "SELECT place, vector FROM vectors WHERE place = ?"
        with _translate_damage():
            for passage_id in passage_ids:
                yield from self._connection.execute(sql, (passage_id,))

    def list_passages_without_vectors(self, after: int, limit: int) -> list[tuple[int, str, str]]:
        """List (place, path, text) of passages without vectors, ordered by place."""
        sql = (
            "SELECT places.id, files.path, text FROM places JOIN files ON files.id = file JOIN "
            "passages ON passages.rowid = places.id WHERE places.id > ? AND places.id NOT IN "
            "(SELECT place FROM vectors) ORDER BY places.id LIMIT ?"
        )
        with _translate_damage():
            return self._connection.execute(sql, (after, limit)).fetchall()

    def save_vectors(self, vectors: Sequence[tuple[int, tuple[bytes, bytes]]]) -> None:
        """Save signs and numbers by place, except for deleted passages. Inside `transaction`."""
        sql = "INSERT OR REPLACE INTO {} SELECT id, ? FROM places WHERE id = ?"
        run = self._connection.executemany
        run(sql.format("signs"), ((signs, passage_id) for passage_id, (signs, _) in vectors))
        run(sql.format("vectors"), ((numbers, passage_id) for passage_id, (_, numbers) in vectors))

    def clear_vectors(self) -> None:
        """Delete all vectors. Inside `transaction`."""
        self._connection.execute("DELETE FROM vectors")
        self._connection.execute("DELETE FROM signs")

    def count_passages_and_vectors(self) -> tuple[int, int]:
        with _translate_damage():
            sql = "SELECT (SELECT count(*) FROM places), (SELECT count(*) FROM vectors)"
            passages, vectors = self._connection.execute(sql).fetchone()
            return passages, vectors

    def _ensure_schema(self) -> None:
        with self.transaction():
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            if version == SCHEMA_VERSION:
                return
            if version or self._connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise DatabaseDamagedError(f"layout {version} instead of {SCHEMA_VERSION}")
            for statement in _SCHEMA_SQL.split(";"):
                self._connection.execute(statement)


def _build_directory_glob(directory: str) -> str:
    """Build the pattern of everything in a directory."""
    escaped = directory.replace("[", "[[]").replace("*", "[*]").replace("?", "[?]")
    return f"{escaped}/*"


@contextmanager
def _translate_damage() -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", None) or 0
        if code & _PRIMARY_CODE_MASK in _CORRUPTION_CODES:
            raise DatabaseDamagedError(str(error)) from error
        raise


SEMANTIC_WEIGHT = 0.6
"""What likeness of meaning counts for, where it is known; the words count for the rest."""
MIN_SCORE = 0.2
"""What fits less than this, beside the best, is not worth reading."""
MAX_HITS_PER_FILE = 3
MAX_HIT_LINES = 120
"""Up to here neighbours are joined."""
MAX_HIT_CHARS = 12_000
"""The same for what is in the lines."""
_MAX_GAP_LINES = 3
"""So few lines between two passages are empty ones: no passage is that short."""


def combine_scores(
    text_matches: Sequence[PassageMatch], cosines: Mapping[int, float]
) -> list[PassageMatch]:
    """Combine scores by words and by meaning, best first. Passages without an embedding count by
    words alone."""
    text_scores = {match.passage_id: match.score for match in text_matches}
    best = max(cosines.values(), default=0.0) or 1.0
    matches = []
    for passage_id in {**text_scores, **cosines}:
        score = text_scores.get(passage_id, 0.0)
        if passage_id in cosines:
            score = (1 - SEMANTIC_WEIGHT) * score + SEMANTIC_WEIGHT * cosines[passage_id] / best
        matches.append(PassageMatch(passage_id, score))
    return sorted(matches, key=lambda match: (-match.score, match.passage_id))


def merge_hits(found: Iterable[FoundPassage], limit: int) -> list[CodeSearchHit]:
    """Merge hits, best first: neighbours in a file become one hit, and hits per file are
    limited."""
    hits: list[CodeSearchHit] = []
    of_file: dict[str, list[int]] = {}
    for passage in found:
        if passage.score < MIN_SCORE or len(hits) == limit:
            break
        own = of_file.setdefault(passage.path, [])
        hit = CodeSearchHit(
            passage.path, passage.score, passage.start_line, passage.end_line, passage.text
        )
        for at in own:
            if (joined := _join_hits(hits[at], hit)) is not None:
                hits[at] = joined
                break
        else:
            if len(own) < MAX_HITS_PER_FILE:
                own.append(len(hits))
                hits.append(hit)
    return hits


def _join_hits(hit: CodeSearchHit, other: CodeSearchHit) -> CodeSearchHit | None:
    """Join two hits if they are adjacent; the better score is kept."""
    first, second = (hit, other) if hit.start_line <= other.start_line else (other, hit)
    gap = second.start_line - first.end_line - 1
    end = max(first.end_line, second.end_line)
    if gap > _MAX_GAP_LINES or end - first.start_line >= MAX_HIT_LINES:
        return None
    if end > first.end_line and len(first.text) + len(second.text) > MAX_HIT_CHARS:
        return None
    rest = second.text.split("\n")[max(0, -gap) :]
    lines = [*first.text.split("\n"), *[""] * max(0, gap), *rest]
    return structs.replace(hit, start_line=first.start_line, end_line=end, text="\n".join(lines))


MAX_COMPARED_VECTORS = 250
"""Vectors that are compared number by number."""
_FLOAT32_TYPECODE = "f"

# Python 3.12 has it in C, and five times as fast.
_dot_product: Callable[[Iterable[float], Iterable[float]], float] = getattr(
    math, "sumprod", lambda left, right: sum(map(mul, left, right))
)


def pack_vector(values: Sequence[float]) -> tuple[bytes, bytes]:
    """Normalize a vector and pack it as signs and float32 numbers; a zero vector matches
    nothing."""
    length = math.sqrt(_dot_product(values, values))
    if not math.isfinite(length) or length == 0:
        values, length = [0.0] * len(values), 1.0
    bits = "".join("1" if value > 0 else "0" for value in values)
    signs = int(bits, 2).to_bytes((len(bits) + 7) // 8, "big")
    return signs, array(_FLOAT32_TYPECODE, (value / length for value in values)).tobytes()


def find_most_similar(signs: bytes, others: Iterable[tuple[int, bytes]]) -> list[int]:
    """Find the keys of those `others` that share the most signs."""
    wanted = int.from_bytes(signs, "big")
    apart = (((int.from_bytes(bits, "big") ^ wanted).bit_count(), key) for key, bits in others)
    return [key for _, key in nsmallest(MAX_COMPARED_VECTORS, apart)]


def compute_cosines(vector: bytes, others: Iterable[tuple[int, bytes]]) -> dict[int, float]:
    """Compute similarities by key: 1 for the same direction, 0 for nothing in common or less.
    Vectors of another dimension are left out."""
    wanted = array(_FLOAT32_TYPECODE, vector)
    return {
        key: min(1.0, max(0.0, _dot_product(wanted, array(_FLOAT32_TYPECODE, values))))
        for key, values in others
        if len(values) == len(vector)
    }
