"""Databases that several connections use."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path

from joey.system.sqlite import enable_write_ahead_log


def test_a_database_that_another_connection_has_just_begun_is_waited_for(tmp_path: Path) -> None:
    def connect() -> sqlite3.Connection:
        path = tmp_path / "new.sqlite"
        return sqlite3.connect(path, isolation_level=None, check_same_thread=False)

    with closing(connect()) as one, closing(connect()) as other, ThreadPoolExecutor() as pool:
        one.execute("CREATE TABLE facts (name TEXT)")
        one.execute("BEGIN IMMEDIATE")
        enabled = pool.submit(enable_write_ahead_log, other, 60)
        assert wait([enabled], 0.1).not_done
        one.execute("COMMIT")
        enabled.result()
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
