"""Book of recorded exchanges: one SQLite file, read and written by any number of processes.

A request's body is stored in pieces (`body_pieces`), each once, so a conversation takes little more
space than its last request. Both bodies are restored byte for byte.

A `Book` belongs to the thread that opened it. The analysis (`book_schema` lists its columns and
tables) runs when a command reads the book, not when exchanges are filed: a long response is filed
after requests that arrived later, and only a reader sees them all in the order of arrival.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

import msgspec
from msgspec import Struct

from joey.config.home import resolve_joey_home
from joey.errors import StoreError
from joey.proxy.body_pieces import MAX_CUT_BYTES, PIECE_BYTES, cut_body
from joey.proxy.book_schema import connect
from joey.proxy.exchange import Exchange, ExchangeState, Header, Tick, Wire
from joey.system.sqlite import transaction

BOOK_FILE = "book.sqlite"
_COLUMNS = (
    "id, at, wire, method, path, upstream, status, state, request_headers, response_headers,"
    " request_bytes, response_bytes, has_bodies, first_byte, seconds, ticks, task_id, failure"
)
_INSERT_SQL = """
    INSERT INTO exchange (
        at, spool, wire, method, path, upstream, status, state, user_agent, task_id,
        request_headers, response_headers, request_bytes, response_bytes, has_bodies, sha,
        first_byte, seconds, ticks, failure
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (spool) DO NOTHING RETURNING id
"""
_Body = bytes | Iterable[bytes]
_ticks_decoder = msgspec.msgpack.Decoder(tuple[Tick, ...])
_headers_decoder = msgspec.json.Decoder(tuple[Header, ...])


def resolve_book_path(env: Mapping[str, str], chosen: str | None) -> Path:
    """Return the file that `--db` names, or the book in joey's home."""
    return Path(chosen).absolute() if chosen else resolve_joey_home(env) / "proxy" / BOOK_FILE


def open_book(path: Path) -> Book:
    """Open or create the book. Raises StoreError. Commands use `filing.open_filed_book`, which
    first files what dead processes have left."""
    return Book(path, connect(path))


class Expenses(Struct, frozen=True):
    requests: int
    dollars: float
    models_without_price: tuple[str, ...]


class Book:
    """An open book. Every method raises StoreError if the file cannot be used."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.connection = connection
        """Used by the analysis to run its statements; `transaction` groups them."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Write everything in the block or nothing; other writers wait. Must not be nested."""
        with self._translate_errors(), transaction(self.connection):
            yield self.connection

    def add(
        self,
        exchange: Exchange,
        request_body: _Body = b"",
        response_body: _Body = b"",
        *,
        spool: str | None = None,
    ) -> int | None:
        """File an exchange and return its id. Bodies in pieces are never in memory as a whole. None
        if the exchange of this spool file is already in the book."""
        request = [request_body] if isinstance(request_body, bytes) else request_body
        response = [response_body] if isinstance(response_body, bytes) else response_body
        with self.transaction() as connection:
            row = connection.execute(_INSERT_SQL, _build_row(exchange, spool)).fetchone()
            if row is None:
                return None
            (number,) = row
            self._add_request_body(number, request)
            answers = (
                (number, place, zlib.compress(data, 6))
                for place, data in enumerate(_iter_joined(response))
            )
            connection.executemany("INSERT INTO answer VALUES (?, ?, ?)", answers)
        return int(number)

    def exchanges(
        self, *, since: int = 0, session: int | None = None, limit: int = -1
    ) -> Iterator[Exchange]:
        """Iterate over the exchanges in order of arrival."""
        where, values = ("", ()) if session is None else ("AND session = ?", (session,))
        sql = f"SELECT {_COLUMNS} FROM exchange WHERE at >= ? {where} ORDER BY at, id LIMIT ?"
        with self._translate_errors():
            for row in self.connection.execute(sql, (since, *values, limit)):
                yield _parse_row(row)

    def exchange(self, number: int) -> Exchange:
        sql = f"SELECT {_COLUMNS} FROM exchange WHERE id = ?"
        rows = self.fetch_all(sql, (number,))
        if not rows:
            raise StoreError(f"There is no exchange {number} in {self.path}.")
        with self._translate_errors():
            return _parse_row(rows[0])

    def fetch_all(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query on the columns of the analysis."""
        with self._translate_errors():
            return self.connection.execute(sql, values).fetchall()

    def request_body(self, number: int) -> bytes:
        """Return the body as the client sent it, without chunk framing; secrets are masked."""
        return b"".join(self.iter_request_body(number))

    def response_body(self, number: int) -> bytes:
        """Return the body as the service sent it, without chunk framing and trailers; of an
        interrupted one, the part that arrived."""
        return b"".join(self.iter_response_body(number))

    def iter_request_body(self, number: int) -> Iterator[bytes]:
        sql = "SELECT data FROM part JOIN piece ON id = piece WHERE exchange = ? ORDER BY place"
        return self._iter_decompressed(sql, number)

    def iter_response_body(self, number: int) -> Iterator[bytes]:
        return self._iter_decompressed(
            "SELECT data FROM answer WHERE exchange = ? ORDER BY place", number
        )

    def sum_expenses(self, recorder: str) -> Expenses:
        """Sum the expenses of the exchanges that one process recorded, as far as analysed."""
        own = "FROM exchange WHERE spool GLOB ? || '/*'"
        priceless = f"SELECT DISTINCT model {own} AND input IS NOT NULL AND cost IS NULL"
        with self._translate_errors():
            sums = self.connection.execute(f"SELECT count(*), total(cost) {own}", (recorder,))
            count, cost = sums.fetchone()
            models = [model for (model,) in self.connection.execute(priceless, (recorder,))]
        return Expenses(count, cost, tuple(models))

    def forget(self, numbers: Iterable[int]) -> int:
        """Remove exchanges permanently, with pieces and sessions that no others use; return how
        many."""
        with self.transaction() as connection:
            removed = 0
            for number in numbers:
                found = connection.execute("DELETE FROM exchange WHERE id = ?", (number,))
                removed += found.rowcount
            connection.execute("DELETE FROM piece WHERE id NOT IN (SELECT piece FROM part)")
            connection.execute(
                "DELETE FROM session WHERE id NOT IN"
                " (SELECT session FROM exchange WHERE session IS NOT NULL)"
            )
        with self._translate_errors():
            # A script runs to its end; a statement without rows stops after one page.
            self.connection.executescript("PRAGMA incremental_vacuum")
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return removed

    def forget_before(self, at: int) -> int:
        """Remove exchanges whose requests arrived earlier; return how many."""
        with self._translate_errors():
            sql = "SELECT id FROM exchange WHERE at < ?"
            old = [number for (number,) in self.connection.execute(sql, (at,))]
        return self.forget(old) if old else 0

    def shrink(self, max_bytes: int) -> int:
        """Remove the oldest exchanges until the file is no larger than this; return how many."""
        removed = 0
        while (excess := self._size() - max_bytes) > 0:
            with self._translate_errors():
                sql = "SELECT id FROM exchange ORDER BY at, id"
                rows = self.connection.execute(sql).fetchall()
            if not rows:
                break
            # Most of a request is shared with others, so this takes several rounds.
            share = max(1, min(len(rows) // 20, excess * len(rows) // (excess + max_bytes) // 2))
            removed += self.forget(number for (number,) in rows[:share])
        return removed

    def _size(self) -> int:
        with self._translate_errors():
            return int(
                self.connection.execute(
                    "SELECT (page_count - freelist_count) * page_size"
                    " FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
                ).fetchone()[0]
            )

    def _add_request_body(self, number: int, body: Iterable[bytes]) -> None:
        digest = sha256()
        place = 0
        for data in _iter_joined(body, MAX_CUT_BYTES):
            digest.update(data)
            pieces = cut_body(data)
            if b"".join(pieces) != data:
                pieces = [data]
            for piece in pieces:
                key = (number, place, self._add_piece(piece))
                self.connection.execute("INSERT INTO part VALUES (?, ?, ?)", key)
                place += 1
        self.connection.execute(
            "UPDATE exchange SET sha = ? WHERE id = ?", (digest.digest(), number)
        )

    def _add_piece(self, data: bytes) -> int:
        key = sha256(data).digest()
        find = "SELECT id FROM piece WHERE hash = ?"
        if found := self.connection.execute(find, (key,)).fetchone():
            return int(found[0])
        made = self.connection.execute(
            "INSERT INTO piece (hash, size, data) VALUES (?, ?, ?) RETURNING id",
            (key, len(data), zlib.compress(data, 6)),
        )
        return int(made.fetchone()[0])

    def _iter_decompressed(self, sql: str, number: int) -> Iterator[bytes]:
        with self._translate_errors():
            for (data,) in self.connection.execute(sql, (number,)):
                yield zlib.decompress(data)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise StoreError(f"The book {self.path} cannot be used: {error}.") from error
        except (sqlite3.Error, zlib.error, msgspec.MsgspecError) as error:
            raise StoreError(
                f"The book {self.path} is damaged ({error}). Move it away and joey proxy creates "
                f"a new one, or name another file with --db."
            ) from error


def _build_row(exchange: Exchange, spool: str | None) -> tuple[Any, ...]:
    return (
        exchange.at,
        spool,
        exchange.wire.value,
        exchange.method,
        exchange.path,
        exchange.upstream,
        exchange.status,
        exchange.state.value,
        exchange.user_agent,
        exchange.task_id,
        msgspec.json.encode(exchange.request_headers).decode(),
        msgspec.json.encode(exchange.response_headers).decode(),
        exchange.request_bytes,
        exchange.response_bytes,
        exchange.has_bodies,
        b"",
        exchange.first_byte_ms,
        exchange.seconds,
        zlib.compress(msgspec.msgpack.encode(exchange.ticks), 6),
        exchange.error,
    )


def _parse_row(row: tuple[Any, ...]) -> Exchange:
    return Exchange(
        id=row[0],
        at=row[1],
        wire=Wire(row[2]),
        method=row[3],
        path=row[4],
        upstream=row[5],
        status=row[6],
        state=ExchangeState(row[7]),
        request_headers=_headers_decoder.decode(row[8]),
        response_headers=_headers_decoder.decode(row[9]),
        request_bytes=row[10],
        response_bytes=row[11],
        has_bodies=bool(row[12]),
        first_byte_ms=row[13],
        seconds=row[14],
        ticks=_ticks_decoder.decode(zlib.decompress(row[15])),
        task_id=row[16],
        error=row[17],
    )


def _iter_joined(pieces: Iterable[bytes], size: int = PIECE_BYTES) -> Iterator[bytes]:
    """Join small pieces into larger ones of about `size` bytes."""
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        if len(waiting) >= size:
            yield bytes(waiting)
            waiting.clear()
    if waiting:
        yield bytes(waiting)
