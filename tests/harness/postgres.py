"""A private Postgres for the tests: one cluster per pytest process, a database per test.

Debian's package starts a cluster of its own when it is installed, which is never used. `fsync` is
on. Without the package, or as another user than root, the tests are skipped, by name.
"""

from __future__ import annotations

import atexit
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

SKIP_REASON = "Postgres is not installed, or this is not root"
IS_REQUIRED = bool(os.environ.get("JOEY_REQUIRE_POSTGRES"))
"""Set by `.ci/run`: a missing Postgres is then an error."""


class Cluster:
    """A running server, to be stopped and started by tests."""

    def __init__(self, programs: Path, *, fsync: bool = True) -> None:
        self._programs = programs
        self.directory = Path(tempfile.mkdtemp(prefix="joey-pg-", dir="/tmp"))
        shutil.chown(self.directory, "postgres")
        self.port = _find_free_port()
        self._fsync = "on" if fsync else "off"
        data = shlex.quote(str(self.directory / "data"))
        self._run(f"initdb -D {data} -A trust -U joey -E UTF8 --locale=C.UTF-8 --no-instructions")
        self.start()

    def start(self) -> None:
        options = (
            f"-c listen_addresses=127.0.0.1 -c port={self.port} -c fsync={self._fsync}"
            f" -c unix_socket_directories={self.directory} -c max_connections=200"
            " -c shared_buffers=32MB -c recovery_init_sync_method=syncfs"
        )
        self._control(f"-w -l {self.directory}/log -o {shlex.quote(options)} start")

    def stop(self, mode: str = "fast") -> None:
        self._control(f"-w -m {mode} stop")

    def restart(self, mode: str = "immediate") -> None:
        self.stop(mode)
        self.start()

    def build_url(self, database: str) -> str:
        return f"postgresql://joey@127.0.0.1:{self.port}/{database}"

    def create_database(self, template: str = "template1") -> str:
        """The address of a new one, which is empty unless it is the copy of another."""
        name = f"test_{secrets.token_hex(4)}"
        self.execute(f"create database {name} template {template}")
        return self.build_url(name)

    def execute(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(self.build_url("postgres"), autocommit=True) as connection:
            connection.execute(statement.encode())

    def destroy(self) -> None:
        with suppress(subprocess.CalledProcessError):
            self.stop("immediate")
        shutil.rmtree(self.directory, ignore_errors=True)

    def _control(self, arguments: str) -> None:
        self._run(f"pg_ctl -D {shlex.quote(str(self.directory / 'data'))} {arguments}")

    def _run(self, command: str) -> None:
        program, _, arguments = command.partition(" ")
        line = f"{shlex.quote(str(self._programs / program))} {arguments}"
        subprocess.run(
            ["su", "postgres", "-s", "/bin/sh", "-c", line],
            check=True, cwd="/", stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def find_programs() -> Path | None:
    """Where `initdb` is, if it can be used."""
    if os.geteuid() != 0 or shutil.which("su") is None:
        return None
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


def start_cluster() -> Cluster:
    """A cluster of its own, for a test that stops it."""
    programs = find_programs()
    if programs is None:
        if IS_REQUIRED:
            pytest.fail(SKIP_REASON)
        pytest.skip(SKIP_REASON)
    return Cluster(programs)


@cache
def get_cluster() -> Cluster:
    """The one that all tests of this process share."""
    cluster = start_cluster()
    atexit.register(cluster.destroy)
    return cluster


def create_store_url() -> str:
    """A database with the tables of a store."""
    return get_cluster().create_database(_create_store_template())


def create_batch_url() -> str:
    """A database with the tables of a store, and those of the queue."""
    return get_cluster().create_database(_create_batch_template())


@cache
def _create_store_template() -> str:
    from joey.storage.postgres.schema import create_tables

    url = get_cluster().create_database()
    create_tables(url)
    return url.rpartition("/")[2]


@cache
def _create_batch_template() -> str:
    from joey.batch.database import open_database
    from joey.batch.queue import migrate_queue

    url = create_store_url()
    engine = open_database(url)
    migrate_queue(engine)
    engine.dispose()
    return url.rpartition("/")[2]
