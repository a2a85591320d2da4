"""The store in Postgres when processes, connections, the server or its disk fail."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from joey.errors import StoreError, TaskLockedError, TaskLostError
from joey.ports.storage import Store, TaskMetadata, TaskQuery
from joey.storage.journal import encode_record
from joey.storage.postgres import lease as lease_module
from joey.storage.postgres.index import PostgresTaskIndex
from joey.storage.postgres.lease import LEASE_S
from joey.storage.postgres.schema import create_tables
from joey.storage.postgres.store import PostgresStore
from joey.storage.task_store import JsonFileStore
from tests.harness.counts import daily
from tests.harness.paths import ROOT
from tests.harness.postgres import Cluster, create_store_url, get_cluster, start_cluster
from tests.harness.storage.records import TASK, created, opening, said
from tests.harness.storage.tcp_cut import open_relay

WAIT_S = 60


@pytest.fixture
def url() -> str:
    return create_store_url()


@contextmanager
def opened(url: str, home: Path) -> Iterator[PostgresStore]:
    store = PostgresStore(url, home)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def child(what: str, url: str, home: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.harness.storage.postgres_process", what, url, str(home)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def send_line(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def query(url: str, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(sql.encode(), values)
        return cursor.fetchall() if cursor.description else []


def until(condition: Callable[[], Any]) -> Any:
    """What the condition gives once it is true."""
    end = time.monotonic() + WAIT_S
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def take_over(store: Store) -> Any:
    """Open the task as soon as its holder is found dead."""

    def attempt() -> Any:
        try:
            return store.open(TASK)
        except TaskLockedError:
            return None

    return until(attempt)


def make_task(store: Store) -> None:
    log = store.create(TASK)
    log.append(created())
    log.close()


@pytest.mark.shortened
def test_every_record_reported_before_a_kill_is_there_and_another_goes_on(tmp_path: Path) -> None:
    for round_number in range(daily(4, 40)):
        url = create_store_url()
        with child("append", url, tmp_path) as process:
            reported = [next_line(process) for _ in range(1 + round_number * 7)]
            process.kill()
            assert process.stdout is not None
            reported += [line.strip() for line in process.stdout if line.endswith("\n")]
        with opened(url, tmp_path) as store:
            log, records = take_over(store)
            assert [record.seq for record in records] == list(range(1, len(records) + 1))
            assert len(records) >= int(reported[-1])
            log.append(said(len(records) + 1))
            log.close()
            assert len(store.read_records(TASK)) == len(records) + 1


def test_a_dead_holder_is_replaced_at_once_and_a_living_one_named(url: str, tmp_path: Path) -> None:
    with opened(url, tmp_path) as store:
        make_task(store)
        with child("hold", url, tmp_path) as process:
            assert next_line(process) == "holding 1"
            with pytest.raises(
                TaskLockedError, match=rf"process {process.pid} on .* since \d{{4}}"
            ):
                store.open(TASK)
            process.kill()
            process.wait()
            began = time.monotonic()
            take_over(store)
            assert time.monotonic() - began < LEASE_S, "it waited for the heartbeat to get old"


def test_a_stopped_process_is_replaced_and_writes_nothing_afterwards(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(url, tmp_path) as store:
        make_task(store)
        with child("hold", url, tmp_path) as process:
            assert next_line(process) == "holding 1"
            send_line(process)
            assert next_line(process) == "2"
            os.kill(process.pid, signal.SIGSTOP)
            log, records = take_over(store)
            assert len(records) == 2
            os.kill(process.pid, signal.SIGCONT)
            send_line(process)
            assert next_line(process).startswith("TaskLostError")
            log.append(said(3, "mine"))
            log.close()
        assert [record.seq for record in store.read_records(TASK)] == [1, 2, 3]
    assert query(
        url, "select epoch, min(seq), max(seq) from joey.record group by 1 order by 1"
    ) == [
        (1, 1, 1),
        (2, 2, 2),
        (3, 3, 3),
    ]


@pytest.mark.smoke
async def test_a_writer_of_an_old_epoch_is_refused_by_the_statement_itself(
    url: str, tmp_path: Path
) -> None:
    with opened(url, tmp_path) as store:
        log = store.create(TASK)
        log.append(created())
        await log.sync()
        await log.confirm()
        query(url, "update joey.task set epoch = epoch + 1")
        with pytest.raises(TaskLostError, match="epoch 1 is over"):
            await log.confirm()
        log.append(said(2))
        with pytest.raises(TaskLostError, match="epoch 1 is over"):
            await log.sync()
        with pytest.raises(TaskLostError):
            log.append(said(3))
        with pytest.raises(TaskLostError):
            await log.write_snapshot([], [], TaskMetadata(id=TASK))
        assert log.safe_seq == 1
        assert len(store.read_records(TASK)) == 1


async def test_terminated_connections_are_opened_again_and_nothing_is_lost_or_repeated(
    url: str, tmp_path: Path
) -> None:
    with opened(url, tmp_path) as store:
        log = store.create(TASK)
        log.append(created())
        for seq in range(2, 40):
            log.append(said(seq))
            if seq % 5 == 0:
                query(
                    url,
                    """select pg_terminate_backend(pid) from pg_stat_activity
                       where datname = current_database() and pid <> pg_backend_pid()""",
                )
            await log.sync()
        log.close()
        assert [each.seq for each in store.read_records(TASK)] == list(range(1, 40))
        until(lambda: query(url, "select count(*) from pg_locks where locktype = 'advisory'")[0][0])


async def test_a_commit_whose_answer_was_lost_is_looked_up(url: str, tmp_path: Path) -> None:
    with open_relay(url) as relay, opened(relay.url, tmp_path) as store:
        log = store.create(TASK)
        log.append(created())
        await log.sync()
        query(
            url,
            "create function joey.slow() returns trigger language plpgsql as "
            "'begin perform pg_sleep(0.5); return null; end'",
        )
        query(
            url,
            "create trigger slow after insert on joey.record "
            "for each statement execute function joey.slow()",
        )
        log.append(said(2))
        waiting = asyncio.create_task(log.sync())
        active = "select 1 from pg_stat_activity where wait_event = 'PgSleep'"
        await asyncio.to_thread(until, lambda: query(url, active))
        relay.cut()  # the statement goes on, and nobody hears its answer
        await asyncio.to_thread(until, lambda: len(query(url, "select 1 from joey.record")) == 2)
        relay.mend()
        async with asyncio.timeout(WAIT_S):
            await waiting
        assert [each.seq for each in store.read_records(TASK)] == [1, 2]


async def test_commits_wait_while_the_network_is_cut_for_a_moment(url: str, tmp_path: Path) -> None:
    with open_relay(url) as relay, opened(relay.url, tmp_path) as store:
        log = store.create(TASK)
        log.append(created())
        await log.sync()
        for interrupt, mend in ((relay.cut, relay.mend), (relay.freeze, relay.thaw)):
            interrupt()
            seq = log.safe_seq + 1
            log.append(said(seq))
            waiting = asyncio.create_task(log.sync())
            done, _ = await asyncio.wait([waiting], timeout=1)
            assert not done
            mend()
            async with asyncio.timeout(WAIT_S):
                await waiting
            assert log.safe_seq == seq
        assert [each.seq for each in store.read_records(TASK)] == [1, 2, 3]


async def test_a_process_that_is_cut_off_for_long_lets_go_of_its_tasks(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_module, "LEASE_S", 2.0)
    assert LEASE_S == 18.0
    with open_relay(url) as relay, opened(relay.url, tmp_path) as store:
        log = store.create(TASK)
        log.append(created())
        await log.sync()
        relay.freeze()
        log.append(said(2))
        with pytest.raises(TaskLostError, match="no contact with"):
            await log.sync()
        with pytest.raises(TaskLostError):
            log.append(said(3))
        relay.cut()


@contextmanager
def closing_cluster(cluster: Cluster) -> Iterator[None]:
    try:
        yield
    finally:
        cluster.destroy()


@pytest.mark.shortened
async def test_a_restart_of_the_server_loses_nothing(tmp_path: Path) -> None:
    cluster = start_cluster()
    url = cluster.create_database()
    create_tables(url)
    with (
        closing_cluster(cluster),
        opened(url, tmp_path) as store,
        opened(url, tmp_path / "other") as other,
    ):
        log = store.create(TASK)
        log.append(created())
        seq = 1
        for mode in ("immediate", "fast") * daily(1, 5):
            seq += 1
            log.append(said(seq))
            waiting = asyncio.create_task(log.sync())
            await asyncio.to_thread(cluster.restart, mode)
            with pytest.raises(TaskLockedError):  # who lost the lock has time to take it again
                await asyncio.to_thread(other.open, TASK)
            async with asyncio.timeout(WAIT_S):
                await waiting
        assert [each.seq for each in store.read_records(TASK)] == list(range(1, seq + 1))


@pytest.mark.usefixtures("on_disk")
def test_a_full_disk_of_the_server_stops_the_task_and_keeps_what_was_kept(tmp_path: Path) -> None:
    url, space = create_store_url(), tmp_path / "space"
    space.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(space)],
        check=False, capture_output=True,
    )  # fmt: skip
    if mounted.returncode != 0:
        pytest.skip("no file system can be mounted here")
    for directory in (tmp_path, *tmp_path.parents[:-1]):
        directory.chmod(directory.stat().st_mode | 0o011)
    try:
        place = space / "pg"
        place.mkdir()
        shutil.chown(place, "postgres")
        name = f"small_{os.getpid()}"
        query(url, f"create tablespace {name} location '{place}'")
        query(url, f"alter table joey.record set tablespace {name}")
        query(url, "alter table joey.record alter column line set storage external")
        with opened(url, tmp_path / "home") as store:
            log = store.create(TASK)
            log.append(created())
            seq = 1
            with pytest.raises(StoreError, match=r"is full: .* Free some space"):
                while seq < 5000:
                    seq += 1
                    log.append(said(seq, "x" * 20_000))
                    asyncio.run(log.sync())
            kept = log.safe_seq
            assert kept == seq - 1 > 1
            log.close()
            assert [each.seq for each in store.read_records(TASK)] == list(range(1, kept + 1))
        query(url, "drop schema joey cascade")
        query(url, f"drop tablespace {name}")
    finally:
        subprocess.run(["umount", "-l", str(space)], check=True)


def test_lines_are_the_same_bytes_as_in_files(url: str, tmp_path: Path) -> None:
    files = JsonFileStore(tmp_path / "files")
    with opened(url, tmp_path) as store:
        for each in (store, files):
            log = each.create(TASK)
            for record in opening():
                log.append(record)
            log.close()
        until(lambda: query(url, "select 1 from joey.record where seq = %s", len([*opening()])))
        rows = query(url, "select line from joey.record order by seq")
    journal = tmp_path / "files" / "tasks" / f"task_{TASK}" / "journal.jsonl"
    assert b"".join(row[0] + b"\n" for row in rows) == journal.read_bytes()
    assert journal.read_bytes() == b"".join(map(encode_record, opening()))


async def test_tasks_are_found_by_text_status_and_ids(url: str, tmp_path: Path) -> None:
    said_texts = {
        "a1": "the login page is broken",
        "a2": "verschieb das Postfach 日本語",
        "b1": "x",
    }
    with opened(url, tmp_path) as store:
        for number, (task_id, text) in enumerate(said_texts.items(), start=1):
            log = store.create(task_id)
            log.append(created(task_id=task_id))
            row = msgspec.json.encode({"ts": 1, "type": "say", "say": "text", "text": text})
            await log.write_snapshot(
                [row], [],
                TaskMetadata(
                    id=task_id, title="t\0", workspace="/w", status="completed",
                    updated=number, parent_id="a1" if task_id == "b1" else None,
                ),
            )  # fmt: skip
            log.close()
        assert len(store.list_tasks()) == 3
    index = PostgresTaskIndex(url)
    try:

        def find(text: str) -> list[str]:
            return [each.task.id for each in index.search(TaskQuery(text=text)).matches]

        assert find("login") == ["a1"]
        assert find('"page is" brok*') == ["a1"]
        assert find('"is page"') == []
        assert find("本語") == ["a2"]
        assert find("...") == []
        page = index.search(TaskQuery(text="page"))
        assert "\x02page\x03" in page.matches[0].snippet
        assert [each.id for each in index.find_by_prefix("task_a")] == ["a1", "a2"]
        assert [each.id for each in index.list_descendants("a1")] == ["b1"]
        assert index.search(TaskQuery(status="completed", limit=2)).total == 3
        assert index.search(TaskQuery(status="running")).total == 0
        assert index.search(TaskQuery(workspace="/w", updated_since=2)).total == 2
        assert index.shorten_id("a1") == "a1"
    finally:
        index.close()


def test_a_newer_schema_is_refused_with_a_sentence(url: str, tmp_path: Path) -> None:
    query(url, "update joey.schema set version = 99")
    refused = pytest.raises(StoreError, match=r"written by a newer joey \(schema 99")
    with opened(url, tmp_path) as store, refused:
        store.create(TASK)


def test_without_tables_the_command_that_makes_them_is_named(tmp_path: Path) -> None:
    url = get_cluster().create_database()
    with opened(url, tmp_path) as store:
        for attempt in (lambda: store.create(TASK), store.list_tasks):
            with pytest.raises(StoreError, match="joey store init postgresql://"):
                attempt()


@pytest.mark.parametrize("arguments", [["--version"], ["tasks", "list"], ["doctor", "--offline"]])
def test_without_a_store_its_library_is_not_loaded(arguments: list[str]) -> None:
    code = (
        "import sys; from joey.cli.main import main; main(sys.argv[1:]);"
        " sys.exit('psycopg' in sys.modules and 'psycopg was loaded')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=False, capture_output=True, text=True
    )
    assert "psycopg was loaded" not in ended.stderr


def test_without_the_library_the_extra_is_named(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None; from joey.cli.main import main;"
        " sys.exit(main(['tasks', 'list']))"
    )
    env = os.environ | {"JOEY_STORE": "postgresql://127.0.0.1/x"}
    ended = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, env=env
    )
    assert ended.returncode == 78
    assert "pip install 'joey[fleet]'" in ended.stderr
    assert "Traceback" not in ended.stderr
