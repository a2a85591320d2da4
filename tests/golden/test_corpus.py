"""Task folders that an earlier joey wrote load to the same rows and messages.

`write_corpus.py` wrote the folders, once; they are never renewed because of a change in joey.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.golden import homes
from tests.golden.corpus import CORPUS, in_corpus
from tests.golden.formats import by_tag
from tests.golden.golden import check_json
from tests.golden.masks import masked
from tests.golden.program import reach
from tests.golden.scripts import finish

TASKS = sorted(path.name for path in (CORPUS / "tasks").iterdir())
JOURNALS = [name for name in TASKS if (CORPUS / "tasks" / name / "journal.jsonl").exists()]
SNAPSHOTS = ("api_conversation_history.json", "ui_messages.json", "task_metadata.json")
RESUMED = (
    *("condense-native", "condense-xml", "rewind-native", "rewind-xml", "truncate-native"),
    *("work-native", "work-xml", "5f0c9b1e-xml", "refused-native"),
)
SHOWN = ("rewind-native", "subtask-xml", "work-native")


def journal(name: str) -> bytes:
    return (CORPUS / "tasks" / name / "journal.jsonl").read_bytes()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A copy of the corpus that may be changed."""
    shutil.copytree(CORPUS, tmp_path / "home")
    return tmp_path / "home"


@pytest.mark.parametrize("name", TASKS)
def test_a_task_loads_to_the_same_rows_and_messages(home: Path, name: str) -> None:
    task = homes.StoredTask(home, name)
    loaded = {"rows": task.rows, "messages": task.messages, "metadata": task.metadata}
    if task.visible_messages != task.messages:
        loaded["messages that the model sees"] = task.visible_messages
    task.close()
    check_json(f"loaded/{name}.json", loaded)


@pytest.mark.parametrize("name", JOURNALS)
def test_a_journal_is_written_as_it_was_read(name: str) -> None:
    stored = journal(name)
    assert homes.journal_lines(stored) == stored.splitlines(keepends=True)


@pytest.mark.parametrize("name", JOURNALS)
def test_the_snapshots_of_a_task_are_written_as_they_were(home: Path, name: str) -> None:
    directory = home / "tasks" / name
    before = {each: (directory / each).read_bytes() for each in SNAPSHOTS}
    for each in SNAPSHOTS:
        (directory / each).unlink()
    task = homes.StoredTask(home, name)
    task.save()
    task.close()
    for each, stored in before.items():
        written = (directory / each).read_text(encoding="utf-8")
        # The version that wrote most of the corpus kept exit codes in the journal alone.
        # It gave results after which the task rested the time of the reply before them.
        both = stored.decode(), written
        later = r'"exitCode":\d+,' + (r'|"ts":\d+}]\n*$' if each.startswith("api") else "")
        older, newer = (re.sub(later, "", each) for each in both)
        assert newer == older


def test_every_durable_event_is_in_a_journal() -> None:
    lines = [line for name in JOURNALS for line in journal(name).splitlines()]
    found = {json.loads(line)["event"]["event"] for line in lines}
    assert sorted({*by_tag(homes.DURABLE_EVENTS)} - found) == []


@pytest.mark.parametrize("task_id", RESUMED)
async def test_a_resumed_task_tells_the_model_the_same(tmp_path: Path, task_id: str) -> None:
    program = in_corpus(tmp_path)
    protocol = "xml" if task_id.endswith("xml") else "native"
    async with homes.ModelServer([finish(protocol, 1)]) as server:
        flags = ("-p", "-r", task_id, "-w", str(program.workspace), *reach(server.url))
        run = await program.run(*flags, "Go on.")
    assert run.code == 0, run.err
    (request,) = server.requests
    messages = request.body["messages"]
    check_json(f"resumed/{task_id}.json", masked(messages, program.paths))


async def test_the_tasks_are_listed_the_same(tmp_path: Path) -> None:
    listed = await in_corpus(tmp_path).run("tasks", "list", "--all", "-n", "22", "--json")
    assert listed.code == 0, listed.err
    check_json("listed/all.json", listed.json)


@pytest.mark.parametrize("task_id", SHOWN)
async def test_a_task_is_shown_the_same(tmp_path: Path, task_id: str) -> None:
    shown = await in_corpus(tmp_path).run("tasks", "show", task_id, "--json")
    assert shown.code == 0, shown.err
    check_json(f"listed/{task_id}.json", shown.json)


async def test_a_task_is_exported_for_roo_the_same(tmp_path: Path) -> None:
    program = in_corpus(tmp_path)
    done = await program.run("tasks", "export", "work-xml", "--format", "roo", "-o", "out")
    assert done.code == 0, done.err
    files = sorted((program.workspace / "out").rglob("*.json"))
    exported = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in files}
    check_json("listed/exported_for_roo.json", exported)
