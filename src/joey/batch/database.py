"""Connections to the database of a store.

A separate module: commands that only read a batch do not load the queue's library.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

from joey.core.redaction import strip_url_password
from joey.errors import ConfigError, StoreError

_BUSY_TIMEOUT_MS = 60_000
_POOL_CONNECTIONS = 10
_DATABASE_LOCK = 0x6A6F6571
_LOCK_POLL_S = 0.1
_CONNECTION_OPTIONS = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""An unreachable server is noticed after about 11 seconds, as in the task store."""


@contextmanager
def translate_database_errors() -> Iterator[None]:
    """Translate database errors. Raises StoreError."""
    try:
        yield
    except sa.exc.SQLAlchemyError as error:
        reason = str(getattr(error, "orig", None) or error).strip() or type(error).__name__
        first_line = reason.splitlines()[0].rstrip(".")
        raise StoreError(f"The database of the batch cannot be used: {first_line}.") from error


def open_database(url: str) -> sa.Engine:
    """Return a factory of connections to a store's database. Raises ConfigError."""
    if not url.startswith("sqlite:"):
        return _open_postgres(url)
    engine = sa.create_engine(url)

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _: object) -> None:
        connection.isolation_level = "IMMEDIATE"
        connection.execute(f"pragma busy_timeout = {_BUSY_TIMEOUT_MS}")
        connection.execute("pragma journal_mode = wal")
        # Only journals and results are synced. A power cut may undo steps of the queue, which are
        # then repeated.
        connection.execute("pragma synchronous = normal")
        connection.execute("pragma foreign_keys = on")

    return engine


def _open_postgres(url: str) -> sa.Engine:
    from psycopg.types.numeric import FloatLoader
    from psycopg.types.string import TextLoader

    try:
        address = sa.make_url(url).set(drivername="postgresql+psycopg")
    except (sa.exc.ArgumentError, ValueError) as error:
        raise ConfigError(
            f"{strip_url_password(url)} is not a database address: use "
            f"postgresql://USER@HOST:PORT/DATABASE."
        ) from error
    engine = sa.create_engine(
        address,
        pool_pre_ping=True,
        pool_size=_POOL_CONNECTIONS,
        connect_args=_CONNECTION_OPTIONS,
    )

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _: object) -> None:
        # As in SQLite: JSON is text, amounts are floats.
        connection.adapters.register_loader("jsonb", TextLoader)
        connection.adapters.register_loader("numeric", FloatLoader)

    return engine


@contextmanager
def lock_database(engine: sa.Engine) -> Iterator[None]:
    """Lock the database; other callers wait.

    They do so without an open statement: the holder makes indexes concurrently, for which Postgres
    waits until every statement that began earlier has ended.
    """
    if engine.dialect.name == "sqlite":
        yield
        return
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        while not connection.scalar(sa.text(f"select pg_try_advisory_lock({_DATABASE_LOCK})")):
            time.sleep(_LOCK_POLL_S)
        try:
            yield
        finally:
            connection.execute(sa.text(f"select pg_advisory_unlock({_DATABASE_LOCK})"))
