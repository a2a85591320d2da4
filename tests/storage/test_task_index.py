from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from joey.ports.storage import TaskMetadata, TaskPage, TaskQuery
from joey.storage import index_database
from joey.storage.task_index import SqliteTaskIndex
from joey.storage.task_list import list_tasks
from joey.storage.task_store import JsonFileStore
from tests.harness.paths import ROO_TASKS, ROOT
from tests.harness.storage.records import TASK, created


def put(home: Path, name: str, *texts: str, **facts: object) -> Path:
    """A task as some program may have written it: its metadata and what was said."""
    directory = home / "tasks" / name
    directory.mkdir(parents=True, exist_ok=True)
    rows = [{"ts": n, "type": "say", "say": "text", "text": text} for n, text in enumerate(texts)]
    (directory / "ui_messages.json").write_text(json.dumps(rows), encoding="utf-8")
    metadata = msgspec.convert({"id": name.removeprefix("task_"), **facts}, TaskMetadata)
    temporary = directory / "new"
    temporary.write_bytes(msgspec.json.encode(metadata))
    temporary.replace(directory / "task_metadata.json")
    return directory


def fill(home: Path, count: int) -> None:
    for number in range(count):
        put(home, f"task_t{number}", f"word word{number}", title=f"T{number}", updated=number)


def find(home: Path, *, refresh: bool = False, **query: object) -> TaskPage:
    index = SqliteTaskIndex(home)
    with closing(index):
        return index.search(msgspec.convert(query, TaskQuery), refresh=refresh)


def ids(page: TaskPage) -> list[str]:
    return [each.task.id for each in page.matches]


def search(home: Path, query: str) -> list[str]:
    return ids(find(home, text=query))


def assert_true(home: Path) -> None:
    """The index says what a look at all folders says."""
    expected = list_tasks(home / "tasks")
    page = find(home, limit=10_000)
    assert [each.task for each in page.matches] == list(expected)
    assert page.total == len(expected)


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of tasks counts as too many to look at each time."""
    monkeypatch.setattr(index_database, "ALWAYS_SCAN_MAX_TASKS", 0)


@contextmanager
def child(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.harness.storage.index_process", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.contract("tasks:index")
def test_the_index_lists_what_a_look_at_all_directories_lists(tmp_path: Path) -> None:
    shutil.copytree(ROO_TASKS, tmp_path / "tasks")
    fill(tmp_path, 3)
    log = JsonFileStore(tmp_path).create(TASK)
    log.append(created())
    log.close()
    put(tmp_path, "twice", title="bare")
    put(tmp_path, "task_twice", title="prefixed")
    put(tmp_path, "_archive", "word")
    (tmp_path / "tasks" / "empty").mkdir()
    (tmp_path / "tasks" / "file").write_text("x")
    assert_true(tmp_path)
    assert_true(tmp_path)


def test_a_home_without_tasks_has_an_empty_list_and_stays_as_it_is(tmp_path: Path) -> None:
    home = tmp_path / "none"
    assert find(home) == TaskPage((), 0)
    assert not home.exists()


@pytest.mark.contract("tasks:index")
def test_directories_changed_behind_its_back_are_read_again(tmp_path: Path) -> None:
    fill(tmp_path, 4)
    assert search(tmp_path, "word1") == ["t1"]
    put(tmp_path, "task_t1", "another text", title="new", updated=99)
    (tmp_path / "tasks" / "task_t2").rename(tmp_path / "moved away")
    put(tmp_path, "task_t9", "brand new")
    (tmp_path / "tasks" / "task_t3" / "task_metadata.json").unlink()
    assert_true(tmp_path)
    assert search(tmp_path, "word1") == search(tmp_path, "word2") == []
    assert search(tmp_path, "another") == ["t1"]
    assert search(tmp_path, "brand") == ["t9"]
    rows = [{"ts": 1, "type": "say", "say": "text", "text": "only the conversation"}]
    (tmp_path / "tasks" / "task_t0" / "ui_messages.json").write_text(json.dumps(rows))
    assert search(tmp_path, "conversation") == ["t0"]


@pytest.mark.contract("tasks:index")
def test_among_many_what_is_shown_is_true_to_its_directories(tmp_path: Path, many: None) -> None:
    fill(tmp_path, 10)
    find(tmp_path)
    put(tmp_path, "task_t9", title="changed", updated=9)
    (tmp_path / "tasks" / "task_t8").rename(tmp_path / "moved away")
    put(tmp_path, "task_new", title="new", updated=50)
    page = find(tmp_path, limit=3)
    assert [each.task.title for each in page.matches] == ["new", "changed", "T7"]
    assert page.total == 10


@pytest.mark.contract("tasks:index")
async def test_among_many_what_joey_writes_is_known_at_once(tmp_path: Path, many: None) -> None:
    fill(tmp_path, 10)
    log = JsonFileStore(tmp_path).create(TASK)
    log.append(created())
    await log.write_snapshot([], [], TaskMetadata(id=TASK, title="old", updated=0))
    find(tmp_path)
    await log.write_snapshot([], [], TaskMetadata(id=TASK, title="now the latest", updated=100))
    log.close()
    (latest,) = find(tmp_path, limit=1).matches
    assert latest.task.title == "now the latest"


@pytest.mark.contract("tasks:index")
def test_among_many_every_directory_is_looked_at_when_asked_for(tmp_path: Path, many: None) -> None:
    fill(tmp_path, 10)
    find(tmp_path)
    put(tmp_path, "task_t0", title="risen", updated=100)
    assert ids(find(tmp_path, limit=1)) == ["t9"]
    assert ids(find(tmp_path, limit=1, refresh=True)) == ["t0"]


@pytest.mark.contract("tasks:index")
@pytest.mark.parametrize("damage", ["noise", "empty", "torn", "foreign", "newer", "no table"])
def test_a_damaged_index_is_made_anew_and_that_is_reported_once(
    tmp_path: Path, damage: str
) -> None:
    fill(tmp_path, 300)
    find(tmp_path, text="word")
    path = tmp_path / "index.sqlite"
    data = path.read_bytes()
    match damage:
        case "noise":
            path.write_bytes(b"noise" * 4096)
        case "empty":
            path.write_bytes(b"")
        case "torn":
            path.write_bytes(data[: len(data) // 2])
        case "foreign":
            path.unlink()
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("CREATE TABLE theirs (x)")
        case "newer":
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("PRAGMA user_version = 999")
        case "no table":
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("DROP TABLE facts")
    index = SqliteTaskIndex(tmp_path)
    with closing(index):
        assert index.search(TaskQuery(text="word")).total == 300
        assert len(index.warnings) == (0 if damage == "empty" else 1)
        assert all("is rebuilt" in notice and "\n" not in notice for notice in index.warnings)
    assert_true(tmp_path)


@pytest.mark.contract("tasks:index")
def test_a_missing_index_is_made_anew_without_a_word(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    find(tmp_path)
    for path in tmp_path.glob("index.sqlite*"):
        path.unlink()
    index = SqliteTaskIndex(tmp_path)
    with closing(index):
        assert index.search(TaskQuery()).total == 3
        assert not index.warnings


@pytest.mark.contract("tasks:index")
def test_a_kill_while_it_is_built_leaves_an_index_that_goes_on(tmp_path: Path) -> None:
    fill(tmp_path, 1_200)
    for steps in (1, 2, 4):
        with child("build", str(tmp_path)) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            for _ in range(steps):
                process.stdout.readline()
                process.stdin.write("\n")
                process.stdin.flush()
            process.kill()
    assert_true(tmp_path)
    assert find(tmp_path, text="word").total == 1_200
    index = SqliteTaskIndex(tmp_path)
    with closing(index):
        index.search(TaskQuery(text="word"))
        assert not index.warnings


@pytest.mark.contract("tasks:index")
def test_processes_write_and_read_at_once(tmp_path: Path) -> None:
    fill(tmp_path, 5)
    find(tmp_path)
    names = ("anna", "ben")
    with child("write", str(tmp_path), "anna") as anna, child("write", str(tmp_path), "ben") as ben:
        for writer in (anna, ben) * 10:
            assert writer.stdout is not None
            written = writer.stdout.readline().strip()
            assert written in ids(find(tmp_path, text="word2", limit=1_000))
        assert [writer.wait(60) for writer in (anna, ben)] == [0, 0]
    assert_true(tmp_path)
    assert [find(tmp_path, text=name).total for name in names] == [20, 20]


@pytest.mark.contract("tasks:index")
@pytest.mark.parametrize("obstacle", ["folder", "link"])
def test_where_it_cannot_be_written_the_directories_are_read(tmp_path: Path, obstacle: str) -> None:
    fill(tmp_path, 3)
    path = tmp_path / "index.sqlite"
    if obstacle == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "elsewhere")
    index = SqliteTaskIndex(tmp_path)
    with closing(index):
        assert ids(index.search(TaskQuery(text="word1"))) == ["t1"]
        assert [task.id for task in index.find_by_prefix("t2")] == ["t2"]
        (notice,) = index.warnings
    assert "cannot be used" in notice
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.skipif(os.getuid() == 0, reason="nothing is read-only for root")
def test_in_a_read_only_home_the_directories_are_read(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    tmp_path.chmod(0o500)
    try:
        assert search(tmp_path, "word1") == ["t1"]
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.contract("tasks:index")
@pytest.mark.parametrize("damage", ["noise", "busy"])
async def test_a_task_is_saved_whatever_is_wrong_with_the_index(
    tmp_path: Path, damage: str
) -> None:
    fill(tmp_path, 3)
    find(tmp_path)
    log = JsonFileStore(tmp_path).create(TASK)
    log.append(created())
    metadata = TaskMetadata(id=TASK, title="saved", updated=100)
    if damage == "noise":
        (tmp_path / "index.sqlite").write_bytes(b"noise" * 4096)
        await log.write_snapshot([], [], metadata)
    else:
        with closing(sqlite3.connect(tmp_path / "index.sqlite")) as other:
            other.execute("BEGIN IMMEDIATE")
            await log.write_snapshot([], [], metadata)
    log.close()
    assert find(tmp_path).matches[0].task == metadata


@pytest.mark.contract("tasks:index")
def test_only_the_owner_can_read_the_index(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    old = os.umask(0)
    try:
        index = SqliteTaskIndex(tmp_path)
        with closing(index):
            index.search(TaskQuery(text="word"))
            files = list(tmp_path.glob("index.sqlite*"))
            assert len(files) == 3
            assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    finally:
        os.umask(old)


@pytest.mark.contract("tasks:search")
def test_terms_phrases_and_beginnings_are_found_in_titles_and_conversations(
    tmp_path: Path,
) -> None:
    put(tmp_path, "a", "Please repair the login test", title="Login", updated=2)
    tool = json.dumps({"tool": "readFile", "path": "src/authentication.ts", "content": "one\ntwo"})
    put(tmp_path, "b", "the test of the login", tool, updated=1)
    assert search(tmp_path, "LOGIN test") == ["a", "b"]
    assert search(tmp_path, '"login test"') == ["a"]
    assert search(tmp_path, "authent*") == search(tmp_path, "authentication.ts") == ["b"]
    assert search(tmp_path, "authent") == []
    assert search(tmp_path, '"the log"*') == ["a", "b"]
    assert search(tmp_path, "login repair missing") == []
    assert search(tmp_path, "two") == ["b"]
    (found,) = find(tmp_path, text="repair").matches
    assert found.snippet == "Please \x02repair\x03 the login test"
    (found,) = find(tmp_path, text="login repair", limit=1).matches
    assert found.snippet == "Please \x02repair\x03 the \x02login\x03 test"


def test_a_snippet_shows_the_place_with_most_of_the_terms(tmp_path: Path) -> None:
    far = "nothing to see " * 40
    put(tmp_path, "a", f"apple {far} pear {far} some apple and a pear {far}")
    (found,) = find(tmp_path, text="apple pear").matches
    assert "some \x02apple\x03 and a \x02pear\x03" in found.snippet
    assert found.snippet.startswith("…")
    assert found.snippet.endswith("…")
    assert len(found.snippet) < 250


@pytest.mark.contract("tasks:search")
def test_terms_are_found_in_any_script(tmp_path: Path) -> None:
    put(tmp_path, "fr", "Où est le café\u0301 crème ?")
    put(tmp_path, "zh", "请修复数据库连接的错误 in app.py")
    put(tmp_path, "ru", "Исправь ошибку 🐛 в коде", title="Ошибка")
    assert search(tmp_path, "cafe CREME") == ["fr"]
    assert search(tmp_path, "数据库") == search(tmp_path, "错误 app") == ["zh"]
    assert search(tmp_path, "据数") == []
    assert search(tmp_path, "ошибк*") == ["ru"]
    (found,) = find(tmp_path, text="数据库").matches
    assert "\u200b" not in found.snippet
    half = b'[{"ts":1,"type":"say","say":"text","text":"broken \\ud83d pair"}]'
    (tmp_path / "tasks" / "ru" / "ui_messages.json").write_bytes(half)
    assert search(tmp_path, "broken pair") == ["ru"]


@pytest.mark.contract("tasks:search")
def test_of_an_endless_conversation_the_beginning_is_searched(tmp_path: Path) -> None:
    filler = ["filler " * 1_000] * 1_500
    directory = put(tmp_path, "long", "needle", *filler, "haystack")
    assert (directory / "ui_messages.json").stat().st_size > 8 * 1024 * 1024
    assert search(tmp_path, "needle filler") == ["long"]
    assert search(tmp_path, "haystack") == []


HOSTILE = ['"', "-word1", "word1 NOT word", "NEAR(word1 word2)", "title:T1", "word1 AND", "^word1"]
HOSTILE += ["{title said}:word1", "word1 + word", "*", "(", "word1)", "a\0b", "'; DROP TABLE tasks"]


@pytest.mark.contract("tasks:search")
def test_nothing_that_is_searched_for_is_taken_for_syntax(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    put(tmp_path, "near", "NEAR NOT AND OR said title")
    assert [search(tmp_path, text) for text in HOSTILE[:2]] == [[], ["t1"]]
    assert search(tmp_path, "NEAR NOT") == ["near"]
    assert search(tmp_path, "word1 NOT word") == search(tmp_path, "word1 OR word2") == []
    index = SqliteTaskIndex(tmp_path)
    with closing(index):
        for text in HOSTILE:
            index.search(TaskQuery(text=text))
        assert not index.warnings


@pytest.mark.contract("tasks:search")
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=30) | st.text("\"*-():^+{} NEARORT'\\\0x数", max_size=30))
def test_whatever_is_typed_can_be_searched_for(tmp_path: Path, text: str) -> None:
    put(tmp_path, "task_t", "x", title="x")
    index = SqliteTaskIndex(tmp_path)
    with closing(index):
        index.search(TaskQuery(text=text))
        assert not index.warnings


def test_tasks_are_narrowed_by_directory_status_and_time(tmp_path: Path) -> None:
    put(tmp_path, "a", workspace="/home/ann/shop/", status="completed", updated=1)
    put(tmp_path, "b", "text", workspace="/home/ann/shop", status="running", updated=2)
    put(tmp_path, "c", workspace="/home/ann", status="aborted", updated=3)
    assert ids(find(tmp_path, workspace="/home/ann/shop")) == ["b", "a"]
    assert ids(find(tmp_path, status="completed")) == ["a"]
    assert ids(find(tmp_path, status="interrupted")) == ["c", "b"]
    assert ids(find(tmp_path, updated_since=2, workspace="/home/ann/shop")) == ["b"]
    log = JsonFileStore(tmp_path).open("b")[0]
    assert ids(find(tmp_path, status="running")) == ["b"]
    assert ids(find(tmp_path, status="interrupted")) == ["c"]
    log.close()


def test_subtasks_in_worktrees_belong_to_the_workspace_of_their_topmost_task(
    tmp_path: Path,
) -> None:
    trees = tmp_path.resolve() / "worktrees"
    put(tmp_path, "task_top", workspace="/w")
    put(tmp_path, "task_child", workspace=f"{trees}/child", parentId="top")
    put(tmp_path, "task_grandchild", workspace=f"{trees}/grandchild", parentId="child")
    put(tmp_path, "task_elsewhere", workspace="/v")
    put(tmp_path, "task_of_another", workspace=f"{trees}/of_another", parentId="elsewhere")
    put(tmp_path, "task_orphan", workspace=f"{trees}/orphan", parentId="gone")
    put(tmp_path, "task_ring", workspace=f"{trees}/ring", parentId="chain")
    put(tmp_path, "task_chain", workspace=f"{trees}/chain", parentId="ring")
    assert set(ids(find(tmp_path, workspace="/w"))) == {"top", "child", "grandchild"}
    assert set(ids(find(tmp_path, workspace="/v"))) == {"elsewhere", "of_another"}
    assert ids(find(tmp_path, workspace=f"{trees}/child")) == ["child"]


def test_ids_are_as_short_as_they_can_be_and_tasks_are_found_by_them(tmp_path: Path) -> None:
    for name in ("0123456789abcdef0", "0123456789abcdef1", "0123456789abcde00", "fedcba9876543210"):
        put(tmp_path, f"task_{name}")
    short = {each.task.id: each.short_id for each in find(tmp_path).matches}
    assert set(short.values()) == {
        *("0123456789abcdef0", "0123456789abcdef1", "0123456789abcde0", "fedcba9876543"),
    }
    index = SqliteTaskIndex(tmp_path)
    with closing(index):
        for task_id, start in short.items():
            assert [task.id for task in index.find_by_prefix(f"task_{start}")] == [task_id]
        assert len(index.find_by_prefix("0123")) == 3
        assert index.find_by_prefix("x") == []


def test_a_task_tree_is_known_by_what_parents_and_children_say(tmp_path: Path) -> None:
    put(tmp_path, "root", childIds=["named", "gone"])
    put(tmp_path, "named")
    put(tmp_path, "own", parentId="root")
    put(tmp_path, "below", parentId="own", childIds=["root"])
    put(tmp_path, "stranger")
    index = SqliteTaskIndex(tmp_path)
    with closing(index):
        assert {task.id for task in index.list_descendants("root")} == {"named", "own", "below"}
        assert index.list_descendants("stranger") == ()


def contents(directory: Path) -> list[bytes]:
    return [path.read_bytes() for path in directory.rglob("*") if path.is_file()]


@pytest.mark.contract("tasks:index")
async def test_of_a_deleted_task_nothing_is_left_on_the_disk(tmp_path: Path) -> None:
    fill(tmp_path, 200)
    store = JsonFileStore(tmp_path)
    log = store.create(TASK)
    log.append(created())
    row = {"ts": 1, "type": "say", "say": "text", "text": "xyzzyplugh and more"}
    await log.write_snapshot(
        [msgspec.json.encode(row)], [], TaskMetadata(id=TASK, title="quuxtitle")
    )
    log.close()
    assert search(tmp_path, "xyzzyplugh") == [TASK]
    store.delete(TASK)
    assert search(tmp_path, "xyzzyplugh") == []
    for data in contents(tmp_path):
        assert not any(word in data for word in (b"xyzzy", b"plugh", b"quux", TASK.encode()))
