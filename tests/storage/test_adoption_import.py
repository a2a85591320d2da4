"""Tasks of other programs are found where these keep them, copied, and gone on with."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest

from joey.app import make_options, open_engine
from joey.core.events import AskOpened, Record, UserMessage
from joey.core.models import ToolProtocol
from joey.core.task_types import AskKind
from joey.engine.asks import Unattended
from joey.errors import StoreError
from joey.storage.roo_import import (
    ForeignTask,
    TaskLocation,
    find_foreign_tasks,
    find_task_locations,
    find_task_locations_under,
    import_task,
    inspect_task,
    is_caused_by_full_disk,
)
from joey.storage.task_store import JsonFileStore
from joey.testing.script import Turn, call, say
from joey.testing.server import ModelServer
from tests.harness.storage import roo_task_directories
from tests.harness.storage.adoption import look
from tests.harness.storage.records import said
from tests.harness.storage.roo_task_directories import FORMS, ONLY_IMPORTED, START, XML_FORMS
from tests.service_rules import check_anthropic

ROO, ZOO = "rooveterinaryinc.roo-cline", "zoocodeorganization.zoo-code"
CLINE = "saoudrizwan.claude-dev"
ALL_FORMS = FORMS | ONLY_IMPORTED


def fill(tasks: Path, *names: str) -> None:
    for name in names:
        FORMS["april"](tasks / name)


def imported(tmp_path: Path, form: str) -> JsonFileStore:
    if not (tmp_path / "theirs").exists():
        ALL_FORMS[form](tmp_path / "theirs" / form)
    (task,) = find_foreign_tasks(
        find_task_locations_under(tmp_path / "theirs"), tmp_path / "home" / "tasks"
    )
    import_task(task, tmp_path / "home" / "tasks")
    return JsonFileStore(tmp_path / "home")


@pytest.mark.contract("adoption:read")
@pytest.mark.parametrize(
    ("storage", "program"),
    [
        (f".config/Code/User/globalStorage/{ROO}", "Roo Code"),
        (f".config/Code - Insiders/User/globalStorage/{ZOO}", "Zoo Code"),
        (f".config/VSCodium/User/globalStorage/{CLINE}", "Cline"),
        (f"Library/Application Support/Cursor/User/globalStorage/{ROO}", "Roo Code"),
        ("Library/Application Support/Code/User/globalStorage/ZooCodeOrganization.zoo-code",
         "Zoo Code"),
        (f"AppData/Roaming/Windsurf/User/globalStorage/{ROO}", "Roo Code"),
        (f".vscode-server/data/User/globalStorage/{ROO}", "Roo Code"),
        (f".cursor-server/data/User/globalStorage/{CLINE}", "Cline"),
        (f".config/Code/User/profiles/1a2b/globalStorage/{ROO}", "Roo Code"),
        (".vscode-mock/global-storage", "Roo Code CLI"),
        (".cline/data", "Cline CLI"),
    ],
)  # fmt: skip
def test_storage_is_found_for_every_editor_and_platform(
    tmp_path: Path, storage: str, program: str
) -> None:
    fill(tmp_path / storage / "tasks", "t1")
    (place,) = find_task_locations(tmp_path, {}, tmp_path / "mnt")
    assert place == TaskLocation(program, tmp_path / storage / "tasks")
    (task,) = find_foreign_tasks([place], tmp_path / "own")
    assert (task.program, task.id, task.modified_ms) == (program, "t1", START + 7000)


@pytest.mark.contract("adoption:read")
def test_storage_of_windows_of_other_directories_and_of_settings_is_found(tmp_path: Path) -> None:
    windows = tmp_path / "mnt/c/Users/ann/AppData/Roaming/Code/User/globalStorage" / ROO / "tasks"
    config = tmp_path / "config/Code/User/globalStorage" / ROO / "tasks"
    moved = tmp_path / "my tasks" / "tasks"
    for tasks in (windows, config, moved):
        fill(tasks, "t1")
    settings = tmp_path / "config/Code/User/settings.json"
    settings.write_text(
        '{ // mine\n  // "roo-cline.customStoragePath": "/nowhere",\n'
        f'  "roo-cline.customStoragePath": {json.dumps(str(moved.parent))},\n}}',
        encoding="utf-8",
    )
    env = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    places = find_task_locations(tmp_path, env, tmp_path / "mnt")
    assert {place.tasks_directory for place in places} == {windows, config, moved}
    assert {place.program for place in places} == {"Roo Code"}


@pytest.mark.contract("adoption:read")
def test_a_path_may_be_a_task_its_directory_or_one_above(tmp_path: Path) -> None:
    tasks = tmp_path / "old" / "disk" / ZOO / "tasks"
    fill(tasks, "t1", "t2")
    (tasks / "notes").mkdir()
    own = tmp_path / "own"
    for path in (tmp_path, tasks.parent, tasks):
        assert {task.id for task in find_foreign_tasks(find_task_locations_under(path), own)} == {
            "t1",
            "t2",
        }
    (alone,) = find_foreign_tasks(find_task_locations_under(tasks / "t2"), own)
    assert (alone.id, alone.program) == ("t2", "Zoo Code")
    assert find_foreign_tasks(find_task_locations_under(tasks), own_tasks=tasks) == []
    assert find_task_locations_under(tmp_path / "own") == []


def test_a_loop_of_links_is_not_followed(tmp_path: Path) -> None:
    fill(tmp_path / "a" / "tasks", "t1")
    (tmp_path / "a" / "again").symlink_to(tmp_path, target_is_directory=True)
    assert len(find_task_locations_under(tmp_path)) == 1


@pytest.mark.contract("adoption:read")
@pytest.mark.parametrize("form", ALL_FORMS)
def test_a_copy_opens_like_the_original_which_stays_as_it_is(tmp_path: Path, form: str) -> None:
    original = tmp_path / "theirs" / form
    ALL_FORMS[form](original)
    os.utime(original, (1_000_000, 1_000_000))
    before = look(original)
    store = imported(tmp_path, form)
    assert look(original) == before
    if form in FORMS:
        shutil.copytree(original, tmp_path / "tasks" / form)
        theirs = JsonFileStore(tmp_path).read_records(form)
        assert str(store.read_records(form)) == str(theirs)
    directory = tmp_path / "home" / "tasks" / f"task_{form}"
    for path in (directory, *directory.rglob("*")):
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted
    (listed,) = store.list_tasks()
    assert listed.tool_protocol == ("xml" if form in XML_FORMS else "native")
    assert "shop" in listed.title
    assert [path.name for path in directory.parent.iterdir()] == [directory.name]


async def resumed(tmp_path: Path, task_id: str, *turns: Turn) -> list[dict[str, Any]]:
    """What the model is sent when a task goes on; the last of `turns` ends it."""
    home, env = tmp_path / "home", {"HOME": str(tmp_path)}
    async with (
        asyncio.timeout(60),
        ModelServer(turns) as server,
        open_engine(home=home, env=env) as engine,
    ):
        options = make_options(
            workspace=tmp_path,
            home=home,
            env=env,
            provider="anthropic",
            base_url=server.url,
            model="scripted",
            policy=Unattended(),
        )
        task = await engine.resume(task_id, "Is it mended?", options=options)
        await task.wait()
        return [request.body for request in server.requests]


NATIVE_END = Turn(call("attempt_completion", {"result": "Now it is."}))
XML_END = Turn(say("<attempt_completion><result>Now it is.</result></attempt_completion>"))


@pytest.mark.contract("adoption:resumed")
@pytest.mark.parametrize("form", ALL_FORMS)
async def test_an_imported_task_goes_on_in_its_own_protocol(tmp_path: Path, form: str) -> None:
    imported(tmp_path, form)
    in_xml = form in XML_FORMS
    (body,) = await resumed(tmp_path, form, XML_END if in_xml else NATIVE_END)
    check_anthropic(body)
    assert ("tools" in body) is not in_xml
    assert "Is it mended?" in json.dumps(body["messages"][-1])
    store = JsonFileStore(tmp_path / "home")
    assert not any(
        isinstance(record.event, AskOpened) and record.event.ask is AskKind.API_REQ_FAILED
        for record in store.read_records(form)
    )
    (kept,) = store.list_tasks()
    assert (kept.status, kept.tool_protocol) == ("completed", "xml" if in_xml else "native")


@pytest.mark.contract("adoption:read", "adoption:resumed")
async def test_a_task_of_fifty_megabytes_is_summed_up_and_goes_on(tmp_path: Path) -> None:
    roo_task_directories.long_task(tmp_path / "theirs" / "large", turns=1_000, padding=50_000)
    imported(tmp_path, "large")
    summary = Turn(say("A thousand files were read."))
    asked, body = await resumed(tmp_path, "large", summary, NATIVE_END)
    check_anthropic(asked)
    check_anthropic(body)
    assert "A thousand files were read." in json.dumps(body["messages"][0])
    assert "Is it mended?" in json.dumps(body["messages"][-1])


def test_a_directory_that_joey_wrote_is_imported_with_its_journal(tmp_path: Path) -> None:
    log = JsonFileStore(tmp_path / "elsewhere").create("ours")
    log.append(Record(seq=1, event=UserMessage(ts=START, text="Mend the shop", is_first=True)))
    log.close()
    roo_task_directories.write(
        log.directory, roo_task_directories.rows(), roo_task_directories.native()
    )
    own = tmp_path / "home" / "tasks"
    (task,) = find_foreign_tasks(find_task_locations_under(tmp_path / "elsewhere"), own)
    import_task(task, own)
    before = JsonFileStore(tmp_path / "elsewhere").read_records("ours")
    assert JsonFileStore(tmp_path / "home").read_records("ours") == before


@pytest.mark.contract("adoption:resumed")
def test_the_lock_of_an_older_task_is_found_in_the_editors_database(tmp_path: Path) -> None:
    storage = tmp_path / "globalStorage" / ROO
    roo_task_directories.write(
        storage / "tasks" / "jan", roo_task_directories.rows(), roo_task_directories.native()
    )
    known = roo_task_directories.item(
        "jan", toolProtocol="xml", workspace="/home/ann/jan", mode="debug"
    )
    with sqlite3.connect(storage.parent / "state.vscdb") as database:
        database.execute("CREATE TABLE ItemTable (key TEXT UNIQUE, value BLOB)")
        state = json.dumps({"taskHistory": [known, "odd", {"id": 5}]})
        database.execute("INSERT INTO ItemTable VALUES ('RooVeterinaryInc.roo-cline', ?)", (state,))
    database.close()
    before = look(storage.parent)
    (task,) = find_foreign_tasks(find_task_locations_under(storage), tmp_path / "home" / "tasks")
    import_task(task, tmp_path / "home" / "tasks")
    assert look(storage.parent) == before
    (listed,) = JsonFileStore(tmp_path / "home").list_tasks()
    assert (listed.workspace, listed.mode, listed.tool_protocol) == (
        "/home/ann/jan",
        "debug",
        "xml",
    )
    (record,) = JsonFileStore(tmp_path / "home").read_records("jan")
    assert getattr(record.event, "tool_protocol", None) is ToolProtocol.XML


@pytest.mark.parametrize(
    "where", ["tasks/_index.json", "state/taskHistory.json", "global-state.json"]
)
def test_other_lists_of_tasks_are_read_too(tmp_path: Path, where: str) -> None:
    roo_task_directories.write(
        tmp_path / "tasks" / "t1", roo_task_directories.rows(), roo_task_directories.xml()
    )
    entry = {"id": "t1", "ts": START, "task": "Known", "cwdOnTaskInitialization": "/home/ann/cline"}
    lists: dict[str, Any] = {
        "tasks/_index.json": {"version": 1, "entries": [entry]},
        "state/taskHistory.json": [entry],
        "global-state.json": {"taskHistory": [entry]},
    }
    (tmp_path / where).parent.mkdir(exist_ok=True)
    (tmp_path / where).write_text(json.dumps(lists[where]), encoding="utf-8")
    own = tmp_path / "home" / "tasks"
    (task,) = find_foreign_tasks(find_task_locations_under(tmp_path / "tasks"), own)
    import_task(task, own)
    (listed,) = JsonFileStore(tmp_path / "home").list_tasks()
    assert (listed.title, listed.workspace, listed.updated) == ("Known", "/home/ann/cline", START)
    assert (listed.tokens_in, listed.total_cost) == (200, 0.5)


@pytest.mark.contract("adoption:read")
def test_a_damaged_task_is_reported_and_leaves_nothing_behind(tmp_path: Path) -> None:
    own = tmp_path / "home" / "tasks"
    roo_task_directories.write(tmp_path / "theirs" / "bad", b"{", b"null")
    (task,) = find_foreign_tasks(find_task_locations_under(tmp_path / "theirs"), own)
    seen = inspect_task(task, own)
    assert (seen.state, seen.row_count) == ("damaged", 0)
    assert "neither" in seen.problem
    with pytest.raises(StoreError, match="cannot be opened"):
        import_task(task, own)
    assert list(own.iterdir()) == []


def test_a_task_that_is_there_already_is_not_touched(tmp_path: Path) -> None:
    own = tmp_path / "home" / "tasks"
    fill(tmp_path / "theirs", "t1")
    fill(own, "t1")
    before = look(own)
    (task,) = find_foreign_tasks(find_task_locations_under(tmp_path / "theirs"), own)
    assert inspect_task(task, own).state == "imported"
    with pytest.raises(StoreError, match="already"):
        import_task(task, own)
    assert look(own) == before


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ("only-rows", f"{roo_task_directories.API} is unusable"),
        ("cut-rows", f"{roo_task_directories.UI} is cut off or damaged"),
    ],
)
def test_what_is_lost_of_a_task_that_opens_is_reported(
    tmp_path: Path, form: str, problem: str
) -> None:
    FORMS[form](tmp_path / "theirs" / "t1")
    (task,) = find_foreign_tasks(find_task_locations_under(tmp_path / "theirs"), tmp_path / "own")
    seen = inspect_task(task, tmp_path / "own")
    assert (seen.state, seen.problem) == ("incomplete", problem)


def test_a_full_disk_is_no_fault_of_the_task() -> None:
    error = StoreError("full")
    error.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    assert is_caused_by_full_disk(error)
    assert not is_caused_by_full_disk(StoreError("broken"))


def test_a_copy_can_be_deleted_and_the_original_stays(tmp_path: Path) -> None:
    store = imported(tmp_path, "april")
    store.delete("april")
    assert store.list_tasks() == ()
    assert (tmp_path / "theirs" / "april" / roo_task_directories.UI).exists()


def test_a_directory_whose_name_cannot_be_an_id_is_damaged(tmp_path: Path) -> None:
    fill(tmp_path / "theirs", "what is this")
    (task,) = find_foreign_tasks(find_task_locations_under(tmp_path / "theirs"), tmp_path / "own")
    assert isinstance(task, ForeignTask)
    assert inspect_task(task, tmp_path / "own").state == "damaged"
    with pytest.raises(StoreError, match="id"):
        import_task(task, tmp_path / "own")


def test_a_finished_task_is_listed_as_such_before_and_after_it_is_opened(tmp_path: Path) -> None:
    store = imported(tmp_path, "april")
    (listed,) = store.list_tasks()
    assert listed.status == "completed"
    (tmp_path / "home/tasks/task_april/history_item.json").unlink()
    log, _ = store.open("april")
    log.append(said(2))
    log.close()
    (listed,) = store.list_tasks()
    assert listed.status == "completed"
