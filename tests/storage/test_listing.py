from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import msgspec
import pytest

from joey.ports.storage import TaskMetadata
from joey.storage.task_store import JsonFileStore
from tests.harness.paths import ROO_TASKS
from tests.harness.storage.records import TASK, created, opening, said


def put(home: Path, name: str, **files: str | bytes) -> Path:
    directory = home / "tasks" / name
    directory.mkdir(parents=True)
    for stem, content in files.items():
        data = content if isinstance(content, bytes) else content.encode()
        (directory / f"{stem}.json").write_bytes(data)
    return directory


def test_roo_tasks_are_listed_by_the_best_that_their_directories_tell(tmp_path: Path) -> None:
    shutil.copytree(ROO_TASKS, tmp_path / "tasks")
    tasks = {task.id: task for task in JsonFileStore(tmp_path).list_tasks()}
    assert {task_id: task.title for task_id, task in tasks.items()} == {
        "0198c0de-7a11-7000-8000-00000000aaaa": "Why does the login test fail?",
        "5f0c9b1e-xml": "Add a greeting to app.py",
        "1704067200000": "Add error handling to auth.ts",
    }
    known = tasks["0198c0de-7a11-7000-8000-00000000aaaa"]
    assert (known.workspace, known.mode, known.profile) == ("/home/ann/shop", "debug", "work")
    assert (known.tokens_in, known.total_cost, known.updated) == (18520, 0.0578, 1754300009100)
    assert tasks["1704067200000"].created == 1704067200000


def test_an_adopted_task_is_listed_like_before(tmp_path: Path) -> None:
    shutil.copytree(ROO_TASKS / "5f0c9b1e-xml", tmp_path / "tasks" / "x")
    log, _ = JsonFileStore(tmp_path).open("x")
    log.append(said(2))
    log.close()
    (task,) = JsonFileStore(tmp_path).list_tasks()
    assert (task.id, task.title) == ("x", "Add a greeting to app.py")
    assert (task.workspace, task.tool_protocol, task.status) == (
        "/home/ben/hello",
        "xml",
        "completed",
    )


def test_junk_among_the_tasks_is_passed_over(tmp_path: Path) -> None:
    put(tmp_path, "_archive", ui_messages="[]")
    put(tmp_path, ".hidden", ui_messages="[]")
    put(tmp_path, "empty")
    put(tmp_path, "not a name", ui_messages="[]")
    (tmp_path / "tasks" / "_index.json").write_text("{}")
    (tmp_path / "tasks" / "file").write_text("x")
    (tmp_path / "tasks" / "gone").symlink_to(tmp_path / "nowhere")
    (tmp_path / "tasks" / "loop").symlink_to("loop")
    pipe = put(tmp_path, "pipe", ui_messages="[]")
    os.mkfifo(pipe / "task_metadata.json")
    assert [task.id for task in JsonFileStore(tmp_path).list_tasks()] == ["pipe"]


@pytest.mark.parametrize(
    "metadata", ["", "{", "[]", '{"id": 5}', "\0", '{"files_in_context": []}', b"\xff"]
)
@pytest.mark.parametrize("item", ["", "{", "[1]", '{"ts": 1e999, "task": 7, "childIds": 3}'])
@pytest.mark.parametrize("rows", ["", "[", "[7]", "{}"])
def test_damaged_files_do_not_hide_a_task(
    tmp_path: Path, metadata: str | bytes, item: str, rows: str
) -> None:
    put(tmp_path, "t", task_metadata=metadata, history_item=item, ui_messages=rows)
    (task,) = JsonFileStore(tmp_path).list_tasks()
    assert (task.id, task.title) == ("t", "")


def test_the_name_of_the_directory_is_the_id(tmp_path: Path) -> None:
    put(tmp_path, "task_copy", task_metadata=msgspec.json.encode(TaskMetadata(id="original")))
    assert [task.id for task in JsonFileStore(tmp_path).list_tasks()] == ["copy"]


@pytest.mark.parametrize("name", ["again", "twice"])
def test_of_two_directories_for_one_task_the_one_that_opens_is_listed(
    tmp_path: Path, name: str
) -> None:
    rows = [{"ts": 1, "type": "say", "say": "text", "text": "prefixed"}]
    put(tmp_path, f"task_{name}", ui_messages=json.dumps(rows))
    rows[0]["text"] = "bare"
    put(tmp_path, name, ui_messages=json.dumps(rows))
    (task,) = JsonFileStore(tmp_path).list_tasks()
    assert task.title == "prefixed"
    log, _ = JsonFileStore(tmp_path).open(name)
    log.close()
    assert log.directory.name == f"task_{name}"


def test_a_first_row_longer_than_what_is_read_leaves_the_title_empty(tmp_path: Path) -> None:
    rows = [{"ts": 1, "type": "say", "say": "text", "text": "x" * 100_000}]
    put(tmp_path, "long", ui_messages=json.dumps(rows))
    (task,) = JsonFileStore(tmp_path).list_tasks()
    assert (task.id, task.title) == ("long", "")


def test_a_journal_of_a_newer_version_is_still_listed(tmp_path: Path) -> None:
    log = JsonFileStore(tmp_path).create(TASK)
    for record in opening():
        log.append(record)
    log.close()
    with (log.directory / "journal.jsonl").open("ab") as journal:
        journal.write(b'{"seq":9,"event":{"event":"new","ts":1}}\n')
    assert [task.id for task in JsonFileStore(tmp_path).list_tasks()] == [TASK]


def test_a_task_at_work_is_listed_while_another_process_holds_it(tmp_path: Path) -> None:
    log = JsonFileStore(tmp_path).create(TASK)
    log.append(created())
    assert [task.id for task in JsonFileStore(tmp_path).list_tasks()] == [TASK]
    log.close()
