"""What users allowed, over a real socket: how far it goes, the list, taking it back, levels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from joey.testing.script import Turn, call
from tests.harness.server.server_fixture import CommandFailedError, Peer, done, open_server

YES = "yesButtonClicked"
pytestmark = pytest.mark.contract("permissions:always")


def command(line: str) -> Turn:
    return Turn(call("execute_command", {"command": line, "cwd": None}))


def write(path: str) -> Turn:
    return Turn(call("write_to_file", {"path": path, "content": "one\n"}))


async def start(peer: Peer) -> str:
    task_id: str = (await peer.ask("startNewTask", text="go"))["taskId"]
    return task_id


async def wait_for_ask(peer: Peer, kind: str) -> int:
    """The next question that was not waited for yet."""
    since = getattr(peer, "asks_seen_until", 0)
    names = ("taskInteractive", "taskIdle")
    event = await peer.event(*names, since=since, where=lambda e: bool(e["payload"]["ask"] == kind))
    peer.asks_seen_until = peer.events.index(event) + 1  # type: ignore[attr-defined]
    return int(event["payload"]["askTs"])


async def allow(peer: Peer, task_id: str, kind: str, **more: Any) -> None:
    ask_ts = await wait_for_ask(peer, kind)
    await peer.ask("respond", task_id, askTs=ask_ts, response=YES, **more)


async def list_rules(peer: Peer, task_id: str | None = None) -> list[tuple[str, str]]:
    data = await peer.ask("getPermissions", task_id)
    return [(rule["text"], rule["scope"]) for rule in data["rules"]]


async def test_a_rule_goes_as_far_as_the_answer_says_and_can_be_revoked(tmp_path: Path) -> None:
    turns = (command("touch a"), command("touch b"), command("touch c"), done())
    again = (command("touch a"), command("touch b"), command("touch c"), done())
    async with open_server(tmp_path, *turns, *again) as here, here.peer() as peer:
        first = await start(peer)
        for scope in ("task", "directory", "everywhere"):
            await allow(peer, first, "command", always=True, scope=scope)
        result_ts = await wait_for_ask(peer, "completion_result")
        expected = {("touch a", "task"), ("touch b", "directory"), ("touch c", "everywhere")}
        assert set(await list_rules(peer, first)) == expected
        data = await peer.ask("getPermissions", first)
        assert {rule.get("by") for rule in data["rules"]} == {"person"}
        assert {rule["taskId"] for rule in data["rules"]} == {first}
        stored = json.loads((here.home / "permissions.json").read_text())["directories"]
        assert list(stored) == [str(here.workspace)]
        assert json.loads((here.home / "settings.json").read_text())["allowedCommands"] == [
            "touch c"
        ]
        assert not list(here.workspace.glob("**/permissions.json"))
        await peer.ask("respond", first, askTs=result_ts, response=YES)
        second = await start(peer)
        await allow(peer, second, "command")  # only what was allowed for the task alone is asked
        await wait_for_ask(peer, "completion_result")
        rule = {"setting": "allowedCommands", "text": "touch b", "scope": "directory"}
        assert await peer.ask("revokePermission", second, **rule) == {"revoked": True}
        assert await peer.ask("revokePermission", second, **rule) == {"revoked": False}
        rule = {"setting": "allowedCommands", "text": "touch c", "scope": "everywhere"}
        assert await peer.ask("revokePermission", second, **rule) == {"revoked": True}
        await peer.event("permissionsChanged")
        assert await list_rules(peer, second) == []
        assert "alwaysAllowExecute" not in json.loads((here.home / "settings.json").read_text())


async def test_what_is_revoked_is_asked_about_again_at_once(tmp_path: Path) -> None:
    turns = (command("touch a"), write("x"), command("touch a"), done())
    async with open_server(tmp_path, *turns) as here, here.peer() as peer:
        task_id = await start(peer)
        await allow(peer, task_id, "command", always=True, scope="everywhere")
        ask_ts = await wait_for_ask(peer, "tool")
        rule = {"setting": "allowedCommands", "text": "touch a", "scope": "everywhere"}
        await peer.ask("revokePermission", task_id, **rule)
        await peer.ask("respond", task_id, askTs=ask_ts, response=YES)
        await wait_for_ask(peer, "command")


async def test_rules_of_another_directory_do_not_count(tmp_path: Path) -> None:
    async with open_server(tmp_path, command("touch a"), done()) as here, here.peer() as peer:
        rule = {"setting": "allowedCommands", "text": "touch a"}
        document = {"directories": {f"{here.workspace}/sub": [rule], "/": [rule]}}
        (here.home / "permissions.json").write_text(json.dumps(document))
        await start(peer)
        await wait_for_ask(peer, "command")
        assert await list_rules(peer) == []


@pytest.mark.parametrize("text", ["{", '{"directories": 1}', '{"directories": {"%s": [1]}}'])
async def test_rules_that_cannot_be_read_allow_nothing(tmp_path: Path, text: str) -> None:
    async with open_server(tmp_path, command("touch a"), done()) as here, here.peer() as peer:
        (here.home / "permissions.json").write_text(text.replace("%s", str(here.workspace)))
        await start(peer)
        await wait_for_ask(peer, "command")


async def test_a_project_may_forbid_what_answers_allowed(tmp_path: Path) -> None:
    async with open_server(tmp_path, command("touch a"), done()) as here, here.peer() as peer:
        rule = {"setting": "allowedCommands", "text": "touch a"}
        document = {"directories": {str(here.workspace): [rule]}}
        (here.home / "permissions.json").write_text(json.dumps(document))
        (here.workspace / ".roo").mkdir()
        (here.workspace / ".roo/settings.json").write_text('{"alwaysAllowExecute": false}')
        await start(peer)
        await wait_for_ask(peer, "command")


@pytest.mark.parametrize("level", ["edits", "all"])
async def test_a_project_may_forbid_edits_whatever_the_level_is(tmp_path: Path, level: str) -> None:
    async with open_server(tmp_path, write("a"), write("b"), done()) as here, here.peer() as peer:
        (here.workspace / ".roo").mkdir()
        (here.workspace / ".roo/settings.json").write_text('{"alwaysAllowWrite": false}')
        task_id = await start(peer)
        ask_ts = await wait_for_ask(peer, "tool")
        await peer.ask("setApprovalLevel", task_id, level=level)
        await peer.ask("respond", task_id, askTs=ask_ts, response=YES)
        await wait_for_ask(peer, "tool")
        assert not (here.workspace / "b").exists()


async def test_only_scopes_and_networks_that_were_offered_can_be_chosen(tmp_path: Path) -> None:
    async with open_server(tmp_path, write("a"), done()) as here, here.peer() as peer:
        task_id = await start(peer)
        ask_ts = await wait_for_ask(peer, "tool")
        assert (await peer.event("taskInteractive"))["payload"]["alwaysScopes"] == ["task"]
        for wrong in (
            {"always": True, "scope": "everywhere"},
            {"scope": "task"},
            {"network": True},
            {"hosts": True},
        ):
            with pytest.raises(CommandFailedError, match="INVALID_PARAMETER"):
                await peer.ask("respond", task_id, askTs=ask_ts, response=YES, **wrong)
        assert not (here.workspace / "a").exists()


async def test_a_level_counts_for_the_task_until_it_is_taken_back(tmp_path: Path) -> None:
    turns = (write("a"), command("touch b"), command("touch c"), write(".roo/d"), done())
    async with open_server(tmp_path, *turns) as here, here.peer() as peer:
        task_id = await start(peer)
        ask_ts = await wait_for_ask(peer, "tool")
        assert (await peer.ask("getPermissions", task_id))["level"] == "ask"
        await peer.ask("setApprovalLevel", task_id, level="edits")
        assert (await peer.event("permissionsChanged"))["payload"] == {"level": "edits"}
        await peer.ask("respond", task_id, askTs=ask_ts, response=YES)
        ask_ts = await wait_for_ask(peer, "command")
        await peer.ask("setApprovalLevel", task_id, level="all")
        await peer.ask("respond", task_id, askTs=ask_ts, response=YES)
        row = await wait_for_ask(peer, "tool")
        assert (here.workspace / "c").exists(), "commands are not asked about any more"
        (asked,) = (each for each in peer.rows() if each["ts"] == row)
        assert asked["path"] == ".roo/d", "protected files still are"
