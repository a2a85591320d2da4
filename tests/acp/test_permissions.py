"""Permission requests: who may answer what, and what comes of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import psutil
import pytest

from joey.acp.jsonrpc_transport import JsonRpcTransport
from joey.testing.script import Turn, call, pause, say
from joey.testing.server import ModelServer
from tests.harness.acp.editor import Editor, connected, done
from tests.harness.acp.protocol_schema import ProtocolSchema
from tests.harness.cli.binary import LIMIT, Joey

RUN = Turn(call("execute_command", {"command": "touch made.txt"}))


def choosing(*choices: str | None) -> Editor:
    left = list(choices)

    async def choose(_: Any) -> str | None:
        return left.pop(0)

    return Editor(choose)


@pytest.mark.contract("acp:permission")
async def test_a_rejected_call_is_not_made_and_the_model_is_informed(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    async with (
        ModelServer([RUN, done()]) as server,
        connected(joey, server.url, schema, choosing("reject")) as here,
    ):
        session = await here.new(joey.workspace)
        assert await here.prompt(session, "go") == "end_turn"
        (run,) = here.editor.calls(session).values()
        assert run["status"] == "failed"
        assert "did not allow" in json.dumps(server.requests[1].body["messages"][-1])
    assert not (joey.workspace / "made.txt").exists()


async def test_always_names_its_rule_and_is_not_asked_again(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    async with (
        ModelServer([RUN, RUN, done()]) as server,
        connected(joey, server.url, schema, choosing("always")) as here,
    ):
        session = await here.new(joey.workspace)
        assert await here.prompt(session, "go") == "end_turn"
        (asked,) = here.editor.asked
    assert asked["options"] == [
        ("allow", "allow_once", "Allow"),
        ("reject", "reject_once", "Reject"),
        ("online", "allow_once", "Allow, with network for this command"),
        ("always", "allow_always", "Always allow in this directory: touch made.txt"),
        ("task", "allow_always", "Always allow in this task: touch made.txt"),
        ("everywhere", "allow_always", "Always allow in every directory: touch made.txt"),
    ]
    why = asked["call"]["content"][-1]["content"]["text"]
    assert "commands require confirmation" in why and "network: off" in why
    stored = json.loads((joey.home / "permissions.json").read_text(encoding="utf-8"))
    (rules,) = stored["directories"].values()
    assert [rule["text"] for rule in rules] == ["touch made.txt"]


@pytest.mark.contract("acp:permission", "sandbox:network-answers")
async def test_hosts_are_shown_whole_and_allowed_by_an_option_of_their_own(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    hosts = [f"{'a' * 40}{number}.files.example.org" for number in range(3)]
    command = f"curl --version {' '.join(f'https://{host}/x' for host in hosts)}"
    fetch = Turn(call("execute_command", {"command": command}))
    async with (
        ModelServer([fetch, fetch, done()]) as server,
        connected(joey, server.url, schema, choosing("hosts", "allow")) as here,
    ):
        session = await here.new(joey.workspace)
        assert await here.prompt(session, "go") == "end_turn"
        first, second = here.editor.asked
    label = "Allow, and in this directory always allow the network to " + ", ".join(hosts)
    assert ("hosts", "allow_always", label) in first["options"]
    assert "network: off" in first["call"]["content"][-1]["content"]["text"]
    assert f"network: {hosts[0]}" in second["call"]["content"][-1]["content"]["text"]
    assert "hosts" not in [option for option, _, _ in second["options"]]


async def test_the_edits_of_a_session_are_accepted_with_one_answer(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    def write(path: str) -> Turn:
        return Turn(call("write_to_file", {"path": path, "content": "x\n"}))

    async with (
        ModelServer([write("a.txt"), write("b.txt"), done()]) as server,
        connected(joey, server.url, schema, choosing("always")) as here,
    ):
        session = await here.new(joey.workspace)
        assert await here.prompt(session, "go") == "end_turn"
        (asked,) = here.editor.asked
    rule = "Always allow edits in this workspace, for this task"
    assert ("always", "allow_always", rule) in asked["options"]
    assert (joey.workspace / "b.txt").exists()


@pytest.mark.contract("acp:permission")
async def test_an_option_that_was_not_offered_allows_nothing(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    async with (
        ModelServer([RUN, done()]) as server,
        connected(joey, server.url, schema, choosing("yes, all of it")) as here,
    ):
        session = await here.new(joey.workspace)
        assert await here.prompt(session, "go") == "end_turn"
    assert not (joey.workspace / "made.txt").exists()


async def test_an_editor_that_fails_to_ask_allows_nothing(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    async def fail(_: Any) -> str:
        raise RuntimeError("no window")

    complaint = "joey: the editor did not ask the user: Internal error\n"
    async with (
        ModelServer([RUN, done()]) as server,
        connected(joey, server.url, schema, Editor(fail), complaint=complaint) as here,
    ):
        session = await here.new(joey.workspace)
        assert await here.prompt(session, "go") == "end_turn"
    assert not (joey.workspace / "made.txt").exists()


async def test_an_answer_that_is_also_an_error_allows_nothing(joey: Joey) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        chosen = {"outcome": {"outcome": "selected", "optionId": "allow"}}
        error = {"code": -32603, "message": "no window"}
        yield json.dumps({"jsonrpc": "2.0", "id": 0, "result": chosen, "error": error}).encode()

    with (joey.workspace / "frames").open("wb") as output:
        received = await JsonRpcTransport(pieces(), output.fileno()).receive()
    assert received is not None and "result" not in received


async def test_a_permission_that_is_cancelled_ends_the_turn(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    async with (
        ModelServer([RUN, done()]) as server,
        connected(joey, server.url, schema, choosing(None)) as here,
    ):
        session = await here.new(joey.workspace)
        assert await here.prompt(session, "go") == "cancelled"
        assert len(server.requests) == 1
    assert not (joey.workspace / "made.txt").exists()


@pytest.mark.contract("acp:permission")
async def test_a_cancel_while_asking_leaves_nothing_pending(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    """The editor never answers the question; the turn ends all the same."""
    never = asyncio.Event()

    async def wait(_: Any) -> str | None:
        await never.wait()
        return None

    editor = Editor(wait)
    async with (
        ModelServer([RUN, done()]) as server,
        connected(joey, server.url, None, editor) as here,
    ):
        session = await here.new(joey.workspace)
        turn = asyncio.ensure_future(here.prompt(session, "go"))
        await editor.until(lambda: editor.asked)
        await here.agent.cancel(session_id=session)
        assert await turn == "cancelled"
        (run,) = editor.calls(session).values()
        assert run["status"] == "failed"
        never.set()
        assert await here.prompt(session, "go on") == "end_turn"
    assert not (joey.workspace / "made.txt").exists()
    rows = json.loads((joey.tasks[0] / "ui_messages.json").read_text(encoding="utf-8"))
    assert [row for row in rows if row.get("approvalState") == "pending"] == []


async def test_a_message_while_asking_rejects_with_a_reason(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    never = asyncio.Event()

    async def wait(_: Any) -> str | None:
        await never.wait()
        return "allow"

    editor = Editor(wait)
    async with (
        ModelServer([RUN, done()]) as server,
        connected(joey, server.url, None, editor) as here,
    ):
        session = await here.new(joey.workspace)
        turn = asyncio.ensure_future(here.prompt(session, "go"))
        await editor.until(lambda: editor.asked)
        assert await here.prompt(session, "use mkdir instead") == "end_turn"
        assert await turn == "end_turn"
        assert "use mkdir instead" in json.dumps(server.requests[1].body["messages"][-1])
        never.set()
    assert not (joey.workspace / "made.txt").exists()


QUESTION = Turn(
    call(
        "ask_followup_question",
        {
            "question": "Which one?",
            "follow_up": [{"text": "The red one", "mode": None}, {"text": "The blue one"}],
        },
    )
)


@pytest.mark.contract("acp:permission")
@pytest.mark.parametrize(
    ("said", "answer"), [("2", "The blue one"), ("neither", "neither")], ids=["number", "words"]
)
async def test_a_question_ends_the_turn_and_the_next_prompt_answers_it(
    joey: Joey, schema: ProtocolSchema | None, said: str, answer: str
) -> None:
    async with (
        ModelServer([QUESTION, done()]) as server,
        connected(joey, server.url, schema) as here,
    ):
        session = await here.new(joey.workspace)
        assert await here.prompt(session, "go") == "end_turn"
        asked = here.editor.text(session)
        assert "Which one?" in asked and "1. The red one" in asked and "2. The blue one" in asked
        assert await here.prompt(session, said) == "end_turn"
        assert answer in json.dumps(server.requests[1].body["messages"][-1])
        assert here.editor.asked == []


async def test_a_limit_of_the_settings_ends_the_turn_and_a_prompt_goes_on(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    joey.settings(allowedMaxRequests=1)
    look = Turn(call("list_files", {"path": "."}))
    async with (
        ModelServer([look, done()]) as server,
        connected(joey, server.url, schema) as here,
    ):
        session = await here.new(joey.workspace)
        assert await here.prompt(session, "go") == "max_turn_requests"
        assert "limit of 1 requests" in here.editor.text(session)
        assert await here.prompt(session, "yes") == "end_turn"


async def test_too_many_mistakes_end_the_turn_and_a_prompt_helps(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    joey.settings(consecutiveMistakeLimit=1)
    wrong = Turn(call("read_file", {"files": [{"path": "missing.txt"}], "nonsense": 1}))
    bad = Turn(call("execute_command", {}))
    async with (
        ModelServer([bad, wrong, done()]) as server,
        connected(joey, server.url, schema) as here,
    ):
        session = await here.new(joey.workspace)
        assert await here.prompt(session, "go") == "end_turn"
        assert "trouble" in here.editor.text(session)
        await here.prompt(session, "look at the manual")
        assert "look at the manual" in json.dumps(server.requests[1].body["messages"][-1])


async def test_a_cancel_ends_a_command_that_runs(joey: Joey, schema: ProtocolSchema | None) -> None:
    run = Turn(call("execute_command", {"command": "echo begun; sleep 1000"}))
    async with (
        ModelServer([run, done()]) as server,
        connected(joey, server.url, schema) as here,
    ):
        editor = here.editor
        session = await here.new(joey.workspace)
        turn = asyncio.ensure_future(here.prompt(session, "go"))

        def has_begun() -> bool:
            shown = [
                one for each in editor.calls(session).values() for one in each.get("content", ())
            ]
            return any("begun\n" in one["content"]["text"].split("sh\n")[-1] for one in shown[1:])

        await editor.until(has_begun)
        below = psutil.Process(here.process.pid).children(recursive=True)
        assert any("sleep" in " ".join(child.cmdline()) for child in below)
        await here.agent.cancel(session_id=session)
        assert await turn == "cancelled"
        _, alive = await asyncio.to_thread(psutil.wait_procs, below, LIMIT)
        assert alive == []


async def test_a_cancel_while_the_model_speaks(joey: Joey, schema: ProtocolSchema | None) -> None:
    gate = asyncio.Event()
    slow = Turn(say("I begin"), pause(gate), say(" and go on"), call("list_files", {"path": "."}))
    async with (
        ModelServer([slow, done()]) as server,
        connected(joey, server.url, schema) as here,
    ):
        editor = here.editor
        session = await here.new(joey.workspace)
        turn = asyncio.ensure_future(here.prompt(session, "go"))
        await editor.until(lambda: "I begin" in editor.text(session))
        await here.agent.cancel(session_id=session)
        async with asyncio.timeout(LIMIT):
            assert await turn == "cancelled"
        gate.set()
        assert await here.prompt(session, "again") == "end_turn"
