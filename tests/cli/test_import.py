"""`joey tasks import` and `export`, as a user uses them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from joey.testing.script import Turn, call, say
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach
from tests.harness.cli.terminal import terminal
from tests.harness.storage import roo_task_directories
from tests.harness.storage.adoption import look
from tests.harness.storage.roo_task_directories import FORMS, UI

ROO = ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/tasks"
CLINE = ".vscode-server/data/User/globalStorage/saoudrizwan.claude-dev/tasks"


@pytest.fixture
def theirs(joey: Joey) -> Path:
    """Three tasks in two programs, one of them damaged."""
    home = joey.home.parent
    FORMS["april"](home / ROO / "april")
    FORMS["january-xml"](home / CLINE / "1767600000000")
    roo_task_directories.write(home / ROO / "broken", b"[{", b"")
    return home


async def test_on_a_terminal_one_sees_how_far_it_has_come(joey: Joey, theirs: Path) -> None:
    async with terminal(joey, "tasks", "import", "--roo") as screen:
        assert await screen.ended() == 1
    assert "importing task 3 of 3" in screen.text
    assert not any("importing" in line for line in screen.lines)


@pytest.mark.contract("adoption:read")
async def test_what_would_be_imported_is_listed_and_nothing_changes(
    joey: Joey, theirs: Path
) -> None:
    before = look(theirs)
    listed = await joey.run("tasks", "import", "--roo", "--dry-run")
    assert listed.code == 0
    place, *_ = [line for line in listed.out.splitlines() if line.startswith("Roo Code: ")]
    assert place.endswith(ROO)
    (april,) = [line for line in listed.out.splitlines() if " april " in line]
    assert april.split("  ")[0] == "Roo Code"
    assert april.split()[-5:] == ["8", "ready", "Mend", "the", "shop"]
    assert "1 damaged" in listed.err
    assert "neither ui_messages.json nor" in listed.err
    dry_run = await joey.run("tasks", "import", "--roo", "--dry-run", "--json")
    found = {each["id"]: each for each in dry_run.json}
    assert {name: each["state"] for name, each in found.items()} == {
        "april": "ready",
        "1767600000000": "ready",
        "broken": "damaged",
    }
    assert found["1767600000000"]["program"] == "Cline"
    assert found["april"]["place"] == str(theirs / ROO)
    assert look(theirs) == before
    assert not (joey.home / "tasks").exists()


@pytest.mark.contract("adoption:read")
async def test_tasks_are_imported_once_listed_shown_and_the_damaged_one_is_reported(
    joey: Joey, theirs: Path
) -> None:
    before = look(theirs / ".config") | look(theirs / ".vscode-server")
    first = await joey.run("tasks", "import", "--roo")
    assert first.code == 1
    assert "2 imported, 1 damaged" in first.err
    assert [path.name for path in joey.tasks] == ["task_1767600000000", "task_april"]
    again = await joey.run("tasks", "import", "--roo", "--json")
    states = {each["id"]: each["state"] for each in again.json}
    assert states == {"april": "skipped", "1767600000000": "skipped", "broken": "damaged"}
    everything = await joey.run("tasks", "list", "--all")
    assert "Mend the shop" in everything.out
    assert len(everything.out.splitlines()) == 3
    shown = await joey.run("tasks", "show", "april")
    assert "# Mend the shop" in shown.out
    assert "Mended." in shown.out
    assert look(theirs / ".config") | look(theirs / ".vscode-server") == before


@pytest.mark.contract("adoption:resumed")
@pytest.mark.parametrize(("task_id", "native"), [("april", True), ("1767600000000", False)])
async def test_an_imported_task_is_resumed_in_its_protocol(
    joey: Joey, theirs: Path, task_id: str, native: bool
) -> None:
    await joey.run("tasks", "import", "--roo", "--only", task_id)
    turn = Turn(call("attempt_completion", {"result": "It holds."}))
    if not native:
        turn = Turn(say("<attempt_completion><result>It holds.</result></attempt_completion>"))
    async with ModelServer([turn]) as server:
        flags = ("-p", "-r", task_id, "-w", str(joey.workspace))
        done = await joey.run(*flags, *reach(server.url), "Does it hold?")
        (request,) = server.requests
    assert (done.code, done.out) == (0, "It holds.\n")
    assert ("tools" in request.body) is native
    assert "Mend the shop" in json.dumps(request.body["messages"][0])


async def test_only_the_tasks_that_are_asked_for_are_imported(joey: Joey, theirs: Path) -> None:
    await joey.run("tasks", "import", str(theirs / ROO), "--only", "apr")
    assert [path.name for path in joey.tasks] == ["task_april"]
    later = await joey.run("tasks", "import", "--roo", "--since", "2026-02-01", "--dry-run")
    assert "broken" in later.out
    assert "1767600000000" in later.out
    assert "april" not in later.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--roo"),
        (("nowhere",), "no task in"),
        (("--roo", "--only", "zzz"), "zzz"),
        (("--roo", "--since", "soon"), "soon"),
    ],
)
async def test_what_cannot_be_meant_is_a_clear_error(
    joey: Joey, theirs: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = await joey.run("tasks", "import", *arguments)
    assert done.code in (1, 2)
    assert message in done.err
    assert "Traceback" not in done.err


async def exported(joey: Joey, *flags: str) -> Any:
    return await joey.run("tasks", "export", "april", *flags)


@pytest.mark.contract("export:roo")
async def test_a_directory_for_roo_is_written_and_imported_again(joey: Joey, theirs: Path) -> None:
    await joey.run("tasks", "import", "--roo", "--only", "april")
    done = await exported(joey, "--format", "roo", "-o", "out")
    assert (done.code, done.out) == (0, "out/april\n")
    refused = await exported(joey, "--format", "roo", "-o", "out")
    assert refused.code != 0
    assert "--force" in refused.err
    assert (await exported(joey, "--format", "roo", "-o", "out", "--force")).code == 0
    assert "-o DIR" in (await exported(joey, "--format", "roo")).err
    other = Joey(home=joey.home.parent / "other", workspace=joey.workspace)
    assert (await other.run("tasks", "import", "out")).code == 0
    ours, theirs_again = [
        (await each.run("tasks", "show", "april", "--json")).json["messages"]
        for each in (joey, other)
    ]
    assert ours == theirs_again
    assert json.loads((joey.workspace / "out/april" / UI).read_bytes()) == ours


@pytest.mark.contract("export:roo")
async def test_a_document_has_no_secrets_and_replaces_nothing(joey: Joey) -> None:
    text = "clone https://ann:hunter2@example.org/shop"
    roo_task_directories.write(
        joey.home / "tasks" / "april",
        roo_task_directories.rows(text),
        roo_task_directories.native(),
    )
    document = await exported(joey)
    assert "clone https://example.org/shop" in document.out
    assert "## Result\n\nMended." in document.out
    assert "hunter2" not in document.out + (await exported(joey, "--format", "json")).out
    (joey.workspace / "mine.md").write_text("mine")
    refused = await exported(joey, "-o", "mine.md")
    assert refused.code == 2
    assert "--force" in refused.err
    assert (joey.workspace / "mine.md").read_text() == "mine"
    assert (await exported(joey, "-o", "mine.md", "--force")).code == 0
    assert (joey.workspace / "mine.md").read_text().startswith("# clone https://example.org/shop")
