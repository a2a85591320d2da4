"""Output of commands in display-only terminals of the editor."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.harness.acp.editor import Connected, Editor, Json, connected
from tests.harness.acp.protocol_schema import ProtocolSchema
from tests.harness.cli.binary import Joey

SLOW = "echo begun; sleep 600; echo never"


class Terminal:
    """A terminal as Zed builds it: from the `_meta` of the updates of a call."""

    def __init__(self, editor: Editor, session: str, call_id: str) -> None:
        updates = editor.updates(session, "tool_call", "tool_call_update")
        metas = [
            (update["sessionUpdate"], update.get("_meta", {}))
            for update in updates
            if update["toolCallId"] == call_id
        ]
        infos = [meta["terminal_info"] for kind, meta in metas if "terminal_info" in meta]
        assert [kind for kind, meta in metas if meta][:1] in ([], ["tool_call"])
        self.is_announced = bool(infos)
        self.cwd = infos[0]["cwd"] if infos else ""
        rest = [meta for kind, meta in metas if kind == "tool_call_update"]
        self.output = "".join(m["terminal_output"]["data"] for m in rest if "terminal_output" in m)
        self.exits: list[Json] = [m["terminal_exit"] for m in rest if "terminal_exit" in m]
        ids = {part["terminal_id"] for _, meta in metas for part in meta.values()}
        assert ids <= {call_id}


def terminals(editor: Editor, session: str) -> list[Terminal]:
    return [Terminal(editor, session, id) for id in editor.calls(session)]


def running(command: str) -> Turn:
    return Turn(call("execute_command", {"command": command}))


def done() -> Turn:
    return Turn(call("attempt_completion", {"result": "Done."}))


@asynccontextmanager
async def editing(
    joey: Joey,
    rules: ProtocolSchema | None,
    editor: Editor,
    *turns: Turn,
    with_terminals: bool = True,
) -> AsyncIterator[tuple[Connected, str]]:
    async with (
        ModelServer([*turns]) as server,
        connected(joey, server.url, rules, editor, terminals=with_terminals) as here,
    ):
        yield here, await here.new(joey.workspace)


def contents(editor: Editor, session: str) -> list[list[str]]:
    """The kinds of content that each call ends up with."""
    calls = editor.calls(session).values()
    return [[part["type"] for part in one.get("content", ())] for one in calls]


@pytest.mark.contract("acp:task")
async def test_a_command_is_seen_in_a_terminal_of_the_editor(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    editor = Editor()
    script = "printf 'one\\ntwo\\n'; printf '\\033]52;c;c3RvbGVu\\007'; exit 3"
    async with editing(joey, schema, editor, running(script), done()) as (here, session):
        assert await here.prompt(session, "go") == "end_turn"
    (terminal,) = terminals(editor, session)
    assert (terminal.output, terminal.cwd) == ("one\ntwo\n", str(joey.workspace))
    assert [(end["exit_code"], end["signal"]) for end in terminal.exits] == [(3, None)]
    ((call_id, shown_call),) = editor.calls(session).items()
    assert [part["type"] for part in shown_call["content"]] == ["content", "terminal", "content"]
    assert shown_call["content"][1]["terminalId"] == call_id
    assert shown_call["content"][2]["content"]["text"] == "exit 3"


async def test_it_is_seen_while_it_runs_and_cancelling_the_turn_ends_it(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    editor = Editor()
    async with editing(joey, schema, editor, running(SLOW), done()) as (here, session):
        turn = asyncio.ensure_future(here.prompt(session, "go"))
        await editor.until(
            lambda: [one.output for one in terminals(editor, session)] == ["begun\n"]
        )
        await here.agent.cancel(session_id=session)
        assert await turn == "cancelled"
    (terminal,) = terminals(editor, session)
    assert (terminal.output, len(terminal.exits)) == ("begun\n", 1)
    assert [one["status"] for one in editor.calls(session).values()] == ["failed"]


async def test_every_command_has_a_terminal_of_its_own(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    editor = Editor()
    turns = (running("echo first"), running("true"), running("echo second"), done())
    async with editing(joey, schema, editor, *turns) as (here, session):
        assert await here.prompt(session, "go") == "end_turn"
    assert [one.output for one in terminals(editor, session)] == ["first\n", "", "second\n"]
    seen = ["content", "terminal"]
    assert contents(editor, session) == [seen, ["content"], seen]


@pytest.mark.contract("acp:task")
async def test_the_command_is_confined_whoever_shows_it(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    editor = Editor()
    outside = joey.workspace.parent / "outside.txt"
    command = f"echo x > {outside}; echo tried"
    async with editing(joey, schema, editor, running(command), done()) as (here, session):
        assert await here.prompt(session, "go") == "end_turn"
        (asked,) = editor.asked
        confined = "sandboxed (" in str(asked["call"]["content"])
    assert outside.exists() is not confined


async def test_an_editor_without_such_terminals_gets_text(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    editor = Editor()
    turns = (running("echo first"), running("echo second"), done())
    async with editing(joey, schema, editor, *turns, with_terminals=False) as (here, session):
        assert await here.prompt(session, "go") == "end_turn"
    assert not any(one.is_announced for one in terminals(editor, session))
    texts = [one["content"][1]["content"]["text"] for one in editor.calls(session).values()]
    assert texts == ["```\nfirst\n```", "```\nsecond\n```"]


async def test_progress_is_redrawn_and_other_control_characters_are_left_out(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    editor = Editor()
    turns = (running("printf '10%%\\r20%%\\033[2J\\n'"), done())
    async with editing(joey, schema, editor, *turns) as (here, session):
        assert await here.prompt(session, "go") == "end_turn"
    (terminal,) = terminals(editor, session)
    assert terminal.output == "10%\r20%\n"


@pytest.mark.parametrize("sandbox", ["off", "auto"])
async def test_a_terminal_tells_which_signal_ended_its_command(
    joey: Joey, schema: ProtocolSchema | None, sandbox: str
) -> None:
    joey.settings(sandbox=sandbox)
    editor = Editor()
    turns = (running("echo seen; kill -KILL $$"), done())
    async with editing(joey, schema, editor, *turns) as (here, session):
        assert await here.prompt(session, "go") == "end_turn"
    (terminal,) = terminals(editor, session)
    (end,) = terminal.exits  # a sandbox reports it as its shell does
    assert (end["signal"], end["exit_code"]) in (("SIGKILL", None), (None, 128 + signal.SIGKILL))
    assert [one["status"] for one in editor.calls(session).values()] == ["failed"]


async def test_a_session_that_is_loaded_again_shows_its_terminals(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    first, second = Editor(), Editor()
    turns = (running("echo first; exit 3"), running("true"), done())
    async with editing(joey, schema, first, *turns) as (here, session):
        assert await here.prompt(session, "go") == "end_turn"

    def shown(editor: Editor) -> Any:
        return [(one.output.strip(), one.exits) for one in terminals(editor, session)]

    async with (
        ModelServer([]) as server,
        connected(joey, server.url, schema, second, terminals=True) as here,
    ):
        await here.agent.load_session(cwd=str(joey.workspace), session_id=session)
    assert shown(second) == shown(first)
    assert contents(second, session) == contents(first, session)
