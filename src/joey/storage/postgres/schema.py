"""Tables of a store in Postgres (schema `joey`), their version, and their permissions."""

from __future__ import annotations

from typing import Any

import psycopg
from msgspec import Struct

from joey.core.redaction import strip_url_password
from joey.errors import StoreError
from joey.storage.postgres.connection import connect, translate

SCHEMA_VERSION = 1
_MIGRATION_LOCK = 0x6A6F6579
"""Several processes may make the tables at once."""

_CREATE = """
create schema if not exists joey;
create table if not exists joey.schema (version int not null);
create table if not exists joey.task (
    id text collate "C" primary key, epoch bigint not null default 0, holder text,
    held_since timestamptz,
    seq bigint not null default 0, status text, workspace text, parent_id text, metadata jsonb,
    words tsvector, ui bytea, api bytea, files text, created timestamptz not null default now(),
    updated timestamptz not null default now());
create index if not exists task_words on joey.task using gin (words);
create index if not exists task_parent on joey.task (parent_id);
create index if not exists task_updated on joey.task (((metadata ->> 'updated')::bigint) desc, id);
create table if not exists joey.record (
    task_id text collate "C" not null references joey.task on delete cascade, seq bigint not null,
    epoch bigint not null, line bytea not null, primary key (task_id, seq));
create table if not exists joey.inbox (
    n bigserial primary key, task_id text not null, key text unique, command jsonb not null,
    at timestamptz not null default now(), taken_seq bigint);
create table if not exists joey.worker (
    id text primary key, host text not null, pid int not null, url text, width int not null,
    labels text[] not null default '{}', version text not null, seen timestamptz not null,
    draining bool not null default false);
create table if not exists joey.batch (
    id text primary key, options jsonb not null, items int not null, budget numeric,
    spent numeric not null default 0, deadline double precision, state text not null);
create table if not exists joey.item (
    batch_id text not null references joey.batch on delete cascade, id text not null,
    place int not null, hash text not null, spec text not null, attempt int not null default 1,
    task_id text, status text not null, result jsonb, runs int not null default 0,
    deaths int not null default 0, alone int not null default 0, failures int not null default 0,
    mark text not null default '', listed int not null default 1, changed int not null default 0,
    worker text, cost double precision not null default 0,
    earlier_cost double precision not null default 0, started double precision,
    primary key (batch_id, id));
create index if not exists item_status on joey.item (batch_id, status);
create index if not exists item_worker on joey.item (worker) where worker is not null;
create table if not exists joey.result (
    batch_id text not null references joey.batch on delete cascade, n int not null,
    item text not null, line text not null, primary key (batch_id, n));
create table if not exists joey.artifact (
    task_id text not null, name text not null, part int not null, data bytea not null,
    primary key (task_id, name, part));
create table if not exists joey.throttle (
    service text primary key, until timestamptz not null, at_once int);
"""

IS_ALIVE = """(w.seen > clock_timestamp() - interval '20 seconds' and (
    w.seen > clock_timestamp() - interval '1.5 seconds'
    or w.seen < pg_postmaster_start_time()
    or exists (select 1 from pg_locks l where l.locktype = 'advisory' and l.granted
               and l.objsubid = 1
               and l.database = (select oid from pg_database where datname = current_database())
               and ((l.classid::bigint << 32) | l.objid::bigint) = hashtextextended(w.id, 0))))"""
"""SQL: the process of a row `w` of `joey.worker` lives. Its lock goes with its connection; after a
restart of the server it has time to take it again."""


class SchemaState(Struct, frozen=True):
    server: str
    encoding: str
    version: int | None
    """None if there are no tables yet."""
    tasks: int = 0
    workers: int = 0
    batches: int = 0
    problem: str | None = None
    """Why the store cannot be used."""


def create_tables(url: str) -> None:
    """Create the tables unless they exist. Raises StoreError."""
    try:
        with connect(url) as connection, connection.transaction():
            connection.execute("select pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
            _check_encoding(connection, url)
            found = _read_version(connection)
            check_version(found, url)
            if found is None:
                connection.execute(_CREATE)
                connection.execute("insert into joey.schema values (%s)", (SCHEMA_VERSION,))
    except psycopg.Error as error:
        raise translate(error, url) from error


def read_state(url: str) -> SchemaState:
    """Read the state of a database. Raises StoreError."""
    try:
        with connect(url) as connection:
            server, encoding = _fetch_row(
                connection,
                "select current_setting('server_version'), current_setting('server_encoding')",
            )
            version = _read_version(connection)
            try:
                _check_encoding(connection, url)
                check_tables(connection, url)
            except StoreError as error:
                return SchemaState(server, encoding, version, problem=str(error))
            counts = _fetch_row(
                connection,
                f"""select (select count(*) from joey.task),
                    (select count(*) from joey.worker w where width > 0 and {IS_ALIVE}),
                    (select count(*) from joey.batch)""",
            )
            return SchemaState(server, encoding, version, *counts)
    except psycopg.Error as error:
        raise translate(error, url) from error


def check_version(found: int | None, url: str) -> None:
    """Check the version. Raises StoreError if a newer joey has created the tables."""
    if found is not None and found > SCHEMA_VERSION:
        raise StoreError(
            f"The store {strip_url_password(url)} was written by a newer joey (schema {found}, this"
            f" one knows {SCHEMA_VERSION}). Update joey on this machine."
        )


def check_tables(connection: psycopg.Connection[Any], url: str) -> None:
    """Check the tables. Raises StoreError if there are none, or those of a newer joey."""
    found = _read_version(connection)
    if found is None:
        address = strip_url_password(url)
        raise StoreError(f"{address} has no joey store yet. Run `joey store init {address}`.")
    check_version(found, url)


def _check_encoding(connection: psycopg.Connection[Any], url: str) -> None:
    (encoding,) = _fetch_row(connection, "select current_setting('server_encoding')")
    if encoding != "UTF8":
        raise StoreError(
            f"{strip_url_password(url)} has the encoding {encoding}. Create a database with UTF8:"
            " createdb --template template0 --encoding UTF8 NAME"
        )


def _read_version(connection: psycopg.Connection[Any]) -> int | None:
    if _fetch_row(connection, "select to_regclass('joey.schema')") == (None,):
        return None
    row = connection.execute("select version from joey.schema").fetchone()
    return None if row is None else row[0]


def _fetch_row(connection: psycopg.Connection[Any], sql: str) -> tuple[Any, ...]:
    row = connection.execute(sql).fetchone()
    assert row is not None
    return tuple(row)
