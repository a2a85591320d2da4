"""Models with a small window get a lean prompt and few tools, and complete tasks with them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from joey.core.context.condense import APPENDED_INTRODUCTION, CONDENSE_SYSTEM_PROMPT
from joey.core.models import ToolProtocol
from joey.testing.script import Turn, call, fail
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey
from tests.harness.cli.local_server import Answer, finish, local_model_server, refuse, say
from tests.harness.cli.served_models import props_llamacpp, reach

WINDOW_TOKENS = 8192


@pytest.mark.contract("local:lean")
@pytest.mark.parametrize("protocol", ToolProtocol)
@pytest.mark.parametrize("mode", ["code", "ask", "debug", "architect", "orchestrator"])
async def test_prompt_and_tools_are_short(joey: Joey, mode: str, protocol: ToolProtocol) -> None:
    joey.home.mkdir(exist_ok=True)
    profile = {"provider": "openai", "model": "m", "apiKey": "k", "contextWindow": WINDOW_TOKENS}
    profiles = {"active": "own", "profiles": {"own": profile}}
    (joey.home / "profiles.json").write_text(json.dumps(profiles))
    shown = await joey.run("prompt", "--json", "--mode", mode, "--protocol", protocol)
    assert shown.code == 0, shown.err
    sent = shown.json
    wire = [{"type": "function", "function": tool} for tool in sent["tools"]]
    assert (len(sent["system"]) + len(json.dumps(wire))) / 4 <= 2200


class SmallModel:
    """Works through files of 6 kB, one a turn, edits each, and refuses what is too long for it."""

    def __init__(self, files: int) -> None:
        self.turns = [turn for number in range(files) for turn in self._list_turns(number)]
        self.summaries = 0
        self.transcripts = 0
        """Summaries of which the server has nothing in its cache."""
        self.largest = 0

    def _list_turns(self, number: int) -> list[str]:
        path = f"part{number}.py"
        return [
            f"<search_files>\n<path>.</path>\n<regex>value_{number}</regex>\n</search_files>",
            f"<read_file>\n<path>{path}</path>\n</read_file>",
            f"<edit>\n<file_path>{path}</file_path>\n<old_string>value_{number} = 1</old_string>\n"
            f"<new_string>value_{number} = 2</new_string>\n</edit>",
        ]

    def __call__(self, body: dict[str, Any]) -> Answer:
        text = json.dumps(body["messages"])
        assert "update_todo_list" not in text  # no such tool is offered
        tokens = int(len(text) / 3.5)
        if tokens + body["max_tokens"] > WINDOW_TOKENS:
            message = (
                f"request ({tokens} tokens) exceeds the available context size ({WINDOW_TOKENS}"
                " tokens), try increasing it"
            )
            return refuse(400, {"error": {"code": 400, "message": message, "type": "exceed"}})
        self.largest = max(self.largest, tokens)
        is_transcript = CONDENSE_SYSTEM_PROMPT in body["messages"][0]["content"]
        if is_transcript or APPENDED_INTRODUCTION[:40] in text:
            self.summaries += 1
            self.transcripts += is_transcript
            return say("The parts so far are edited.", tokens)
        return say(self.turns.pop(0), tokens) if self.turns else finish(prompt_tokens=tokens)


@pytest.mark.contract("local:lean", "local:facts")
async def test_a_window_of_8k_completes_a_task(joey: Joey) -> None:
    for number in range(6):
        lines = [f"value_{number} = 1", *(f"name_{line} = {line} * {line}" for line in range(250))]
        (joey.workspace / f"part{number}.py").write_text("\n".join(lines))
    model = SmallModel(6)
    pages = {"/props": props_llamacpp(WINDOW_TOKENS, tools=False)}
    async with local_model_server(pages, model) as server:
        done = await joey.run(*reach("llamacpp", server), "-y", "--no-sandbox", "edit all parts")
    assert (done.code, done.out.strip()) == (0, "All done."), done.err
    assert model.turns == []
    for number in range(6):
        assert (joey.workspace / f"part{number}.py").read_text().startswith(f"value_{number} = 2")
    assert model.summaries > 0
    assert model.transcripts == 0


async def test_a_reply_limit_that_leaves_no_room_for_the_prompt_is_lowered(joey: Joey) -> None:
    """A gateway whose window is smaller than that of the model of this name."""
    refusal = (
        "This model's maximum context length is 32768 tokens. However, you requested 36889 tokens"
        " (4889 in the messages, 32000 in the completion). Please reduce the length of the messages"
        " or completion."
    )
    turns = [Turn(fail(400, refusal)), Turn(call("attempt_completion", {"result": "All done."}))]
    async with ModelServer(turns) as server:
        flags = ("--provider", "anthropic", "--base-url", server.url, "-m", "claude-sonnet-5-5")
        env = {**joey.env, "ANTHROPIC_API_KEY": "k"}
        done = await joey.run("-p", *flags, "do it", env=env)
        bodies = [request.body for request in server.requests if request.body is not None]
    assert (done.code, done.out.strip()) == (0, "All done."), done.err
    assert [body["max_tokens"] <= 32768 // 5 for body in bodies] == [False, True]
    assert bodies[0]["messages"] == bodies[1]["messages"]
