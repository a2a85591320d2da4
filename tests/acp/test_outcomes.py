"""What a user reads of a call that has ended: the model's copy is another one."""

from __future__ import annotations

import pytest

from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.harness.acp.editor import Json, connected
from tests.harness.acp.protocol_schema import ProtocolSchema
from tests.harness.cli.binary import Joey

DONE = Turn(call("attempt_completion", {"result": "Over."}))
MISSING = "<<<<<<< SEARCH\n:start_line:3\n-------\nnever there\n=======\nx\n>>>>>>> REPLACE"
COMMANDS = [
    ("echo one; echo two; exit 3", "failed", ["```\none\ntwo\n```", "exit 3"]),
    ("echo one", "completed", ["```\none\n```"]),
    ("true", "completed", []),
    ("exit 3", "failed", ["exit 3"]),
    ("echo one; kill -KILL $$", "failed", ["```\none\n```", "ended by SIGKILL"]),
]


def texts(ended: Json) -> list[str]:
    return [each["content"]["text"] for each in ended["content"]]


@pytest.mark.contract("acp:task")
@pytest.mark.parametrize(("command", "status", "shown"), COMMANDS)
async def test_a_command_that_has_ended_shows_what_it_printed(
    joey: Joey, schema: ProtocolSchema | None, command: str, status: str, shown: list[str]
) -> None:
    joey.settings(sandbox="off", confirmCompletion="off")  # a sandbox tells of signals as codes
    turns = [Turn(call("execute_command", {"command": command})), DONE]
    async with ModelServer(turns) as server, connected(joey, server.url, schema) as here:
        session = await here.new(joey.workspace)
        await here.prompt(session, "go")
        (live,) = here.editor.calls(session).values()
    async with ModelServer([]) as server, connected(joey, server.url, schema) as here:
        directory = str(joey.workspace)
        await here.agent.load_session(session_id=session, cwd=directory, mcp_servers=[])
        (loaded,) = here.editor.calls(session).values()
    for ended in (live, loaded):
        assert ended["status"] == status
        assert texts(ended) == [f"```sh\n{command}\n```", *shown]


async def test_an_edit_that_failed_says_why_in_a_sentence_or_two(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    lines = "".join(f"line {number}\n" for number in range(1, 40))
    (joey.workspace / "a.txt").write_text(lines, encoding="utf-8")
    turns = [Turn(call("apply_diff", {"path": "a.txt", "diff": MISSING})), DONE]
    async with ModelServer(turns) as server, connected(joey, server.url, schema) as here:
        session = await here.new(joey.workspace)
        await here.prompt(session, "go")
        request = str(server.requests[-1].body)
        (ended,) = here.editor.calls(session).values()
    assert ended["status"] == "failed"
    (text,) = texts(ended)
    assert text.startswith("```\nUnable to apply diff to file: ")
    assert "No match found at line 3 or elsewhere in the 39 lines of the file." in text
    assert "Search Content" not in text
    assert len(text.splitlines()) == 3
    assert "Search Content" in request
    assert "line 5" in request
