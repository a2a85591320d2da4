"""What every store does: kept, ephemeral, or in Postgres."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from joey.core.events import RowAdded
from joey.core.settings import TaskSecrets
from joey.errors import StoreError, TaskLockedError, TaskNotFoundError, TaskStateError
from joey.ports.storage import Store, TaskMetadata
from joey.storage.task_store import EphemeralStore, JsonFileStore
from tests.harness.postgres import create_store_url
from tests.harness.storage.records import TASK, created, opening, said


@pytest.fixture(params=["kept", "ephemeral", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    match request.param:
        case "kept":
            yield JsonFileStore(tmp_path)
        case "ephemeral":
            yield EphemeralStore(tmp_path)
        case _:
            from joey.storage.postgres.store import PostgresStore

            shared = PostgresStore(create_store_url(), tmp_path)
            yield shared
            shared.close()


@pytest.mark.contract("store:journal")
def test_a_task_comes_back_with_all_its_records(store: Store) -> None:
    log = store.create(TASK)
    for record in opening():
        log.append(record)
    log.close()
    log, records = store.open(TASK)
    log.close()
    assert list(records) == opening()


def test_records_go_on_where_the_last_process_stopped(store: Store) -> None:
    log = store.create(TASK)
    log.append(created())
    log.close()
    log, _ = store.open(TASK)
    log.append(said(2))
    log.close()
    assert [record.seq for record in store.open(TASK)[1]] == [1, 2]


def test_a_task_is_found_with_and_without_the_prefix_of_its_directory(store: Store) -> None:
    log = store.create(f"task_{TASK}")
    log.append(created())
    log.close()
    for name in (TASK, f"task_{TASK}"):
        log, records = store.open(name)
        log.close()
        assert len(records) == 1


def test_an_open_task_cannot_be_opened_again_until_it_is_closed(store: Store) -> None:
    log = store.create(TASK)
    log.append(created())
    with pytest.raises(TaskLockedError, match="already open in this process"):
        store.open(TASK)
    log.close()
    log.close()
    store.open(TASK)[0].close()


def test_a_task_is_held_while_it_is_open(store: Store) -> None:
    log = store.create(TASK)
    assert store.is_locked(TASK)
    log.append(created())
    log.close()
    assert not store.is_locked(TASK)


async def test_the_rows_of_the_last_snapshot_can_be_had_whoever_holds_the_task(
    store: Store,
) -> None:
    log = store.create(TASK)
    log.append(created())
    assert store.read_rows_json(TASK, 1000) == b""
    await log.write_snapshot([b'{"ts":1}', b'{"ts":2}'], [], TaskMetadata(id=TASK))
    assert msgspec.json.decode(store.read_rows_json(TASK, 1000)) == [{"ts": 1}, {"ts": 2}]
    assert store.read_rows_json(TASK, 10) == b"", "what is longer is not had at all"
    log.close()
    with pytest.raises(TaskNotFoundError, match="no task 'nobody'"):
        store.read_rows_json("nobody", 1000)


def test_a_task_that_does_not_exist_is_not_found(store: Store) -> None:
    with pytest.raises(TaskNotFoundError, match="no task 'nobody'"):
        store.open("nobody")


@pytest.mark.parametrize(
    "task_id", ["", "task_", ".", "..", "../x", "a/b", "a\0b", "a b", "x" * 129, "ä", "a\n"]
)
def test_an_id_that_is_no_plain_name_is_refused(store: Store, task_id: str) -> None:
    with pytest.raises(StoreError, match="cannot be the id"):
        store.create(task_id)
    with pytest.raises(TaskNotFoundError):
        store.open(task_id)


def test_a_task_is_created_once(store: Store) -> None:
    log = store.create(TASK)
    log.append(created())
    log.close()
    with pytest.raises(StoreError, match="exists already"):
        store.create(TASK)


def test_records_must_rise(store: Store) -> None:
    log = store.create(TASK)
    log.append(said(5))
    for seq in (5, 4):
        with pytest.raises(TaskStateError, match="cannot follow record 5"):
            log.append(said(seq))
    log.append(said(7))
    log.close()
    assert [record.seq for record in store.open(TASK)[1]] == [5, 7]


def test_text_that_is_not_unicode_is_refused_and_leaves_no_trace(store: Store) -> None:
    log = store.create(TASK)
    log.append(created())
    with pytest.raises(TaskStateError, match="lone surrogate"):
        log.append(said(2, "\udce9"))
    log.append(said(2, "é\u2028\n😀"))
    log.close()
    event = store.open(TASK)[1][-1].event
    assert isinstance(event, RowAdded)
    assert event.text == "é\u2028\n😀"


async def test_a_closed_task_takes_nothing_more(store: Store) -> None:
    log = store.create(TASK)
    log.append(created())
    log.close()
    with pytest.raises(TaskStateError, match="closed"):
        log.append(said(2))
    with pytest.raises(TaskStateError, match="closed"):
        await log.write_snapshot([], [], TaskMetadata(id=TASK))


async def test_a_task_that_recorded_nothing_cannot_be_resumed(store: Store) -> None:
    log = store.create(TASK)
    await log.sync()
    log.close()
    with pytest.raises(StoreError, match="nothing to resume"):
        store.open(TASK)


@pytest.mark.contract("store:listing")
async def test_the_list_shows_the_latest_first_and_what_snapshots_say(store: Store) -> None:
    assert list(store.list_tasks()) == []
    for name, updated in (("a", 10), ("b", 30), ("c", 20)):
        log = store.create(name)
        log.append(created(task_id=name))
        row = msgspec.json.encode({"ts": 1, "type": "say", "say": "text", "text": name})
        await log.write_snapshot(
            [row], [], TaskMetadata(id=name, title=name.upper(), updated=updated)
        )
        log.close()
    assert [(task.id, task.title) for task in store.list_tasks()] == [
        ("b", "B"),
        ("c", "C"),
        ("a", "A"),
    ]


def test_a_task_without_a_snapshot_is_listed_by_its_first_records(store: Store) -> None:
    log = store.create(TASK)
    for record in opening():
        log.append(record)
    (task,) = store.list_tasks()
    log.close()
    assert (task.id, task.title, task.workspace) == (TASK, "Fix the login test", "/home/ann/shop")
    assert (task.mode, task.tool_protocol, task.created) == ("code", "native", 1_000)


@pytest.mark.contract("store:layout")
def test_each_task_has_a_directory_for_the_output_of_its_commands(store: Store) -> None:
    log = store.create(TASK)
    output = log.directory / "command-output" / "cmd-1.txt"
    output.write_text("1 failing", encoding="utf-8")
    log.append(created())
    log.close()
    log, _ = store.open(TASK)
    assert output.read_text(encoding="utf-8") == "1 failing"
    log.close()


def test_secrets_of_a_task_go_to_its_forks_and_are_deleted_with_it(store: Store) -> None:
    secrets = TaskSecrets(
        provider="openai", base_url="http://h.test", api_key="k", has_own_key=True
    )
    log = store.create(TASK)
    log.append(created())
    assert store.load_secrets(TASK) is None
    store.save_secrets(TASK, secrets)
    assert store.load_secrets(f"task_{TASK}") == secrets
    store.create_with_records("fork", opening(), TASK)
    log.close()
    store.delete(TASK)
    assert store.load_secrets(TASK) is None
    assert store.load_secrets("fork") == secrets
