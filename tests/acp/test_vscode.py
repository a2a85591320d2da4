"""A client that sends what ACP Client for VS Code (formulahendry.acp-client) sends, started as
docs/editors.md says."""

from __future__ import annotations

import asyncio
import json
import re
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

from joey.testing.script import Turn, call, say
from joey.testing.server import ModelServer
from tests.harness.acp.editor import model_at
from tests.harness.cli.binary import LIMIT, Joey
from tests.harness.paths import ROOT

Json = dict[str, Any]
DOCUMENT = ROOT / "docs" / "editors.md"
CAPABILITIES = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}


class Extension:
    def __init__(self, process: Process) -> None:
        self._process = process
        self._last_id = -1
        self.updates: list[Json] = []
        self.asked: list[str] = []

    def send(self, frame: Json) -> None:
        assert self._process.stdin is not None
        line = json.dumps({"jsonrpc": "2.0", **frame}, ensure_ascii=False)
        self._process.stdin.write(line.encode() + b"\n")

    async def request(self, method: str, params: Json) -> Json:
        self._last_id += 1
        self.send({"id": self._last_id, "method": method, "params": params})
        assert self._process.stdout is not None
        while True:
            frame = json.loads(await self._process.stdout.readline())
            if "method" not in frame:
                assert frame["id"] == self._last_id
                return dict(frame["result"])
            if "id" in frame:
                self.send({"id": frame["id"], "result": self._answer(frame)})
            else:
                self.updates.append(frame["params"]["update"])

    def _answer(self, frame: Json) -> Json | None:
        params = frame["params"]
        match frame["method"]:
            case "session/request_permission":
                self.asked.append(params["toolCall"]["title"])
                kinds = ("allow_once", "allow_always")
                option = next(each for each in params["options"] if each["kind"] in kinds)
                return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}
            case "fs/read_text_file":
                return {"content": Path(params["path"]).read_text(encoding="utf-8")}
            case "fs/write_text_file":
                Path(params["path"]).write_text(params["content"], encoding="utf-8")
                return {}
            case method:
                raise AssertionError(method)


def read_documented_agent() -> Json:
    section = DOCUMENT.read_text(encoding="utf-8").partition("## VS Code\n")[2]
    block = re.search(r"```json\n(.*?)```", section, re.DOTALL)
    assert block is not None
    return dict(json.loads(block[1])["acp.agents"]["joey"])


async def test_a_session_as_vs_code_holds_it(joey: Joey) -> None:
    agent = read_documented_agent()
    assert agent["command"] == "joey"
    (joey.workspace / "old.txt").write_text("one\n", encoding="utf-8")
    turns = [
        Turn(say("I look."), call("read_file", {"path": "old.txt"})),
        Turn(call("write_to_file", {"path": "new.txt", "content": "two\n"})),
        Turn(call("execute_command", {"command": "echo three"})),
        Turn(call("attempt_completion", {"result": "Done."})),
    ]
    async with ModelServer(turns) as server, asyncio.timeout(LIMIT):
        env = {**joey.env, **model_at(server.url), **agent["env"]}
        process = await joey.start(*agent["args"], stdin=PIPE, env=env)
        extension = Extension(process)
        client = {"name": "vscode-acp-client", "version": "0.1.3"}
        greeting = await extension.request(
            "initialize",
            {"protocolVersion": 1, "clientInfo": client, "clientCapabilities": CAPABILITIES},
        )
        assert greeting["protocolVersion"] == 1
        assert greeting["agentInfo"]["name"] == "joey"
        session = await extension.request(
            "session/new", {"cwd": str(joey.workspace), "mcpServers": []}
        )
        id = {"sessionId": session["sessionId"]}
        modes = session["modes"]["availableModes"]
        assert "code" in {mode["id"] for mode in modes}
        await extension.request("session/set_mode", {**id, "modeId": "code"})
        prompt = [{"type": "text", "text": "do it"}]
        done = await extension.request("session/prompt", {**id, "prompt": prompt})
        process.terminate()  # as the extension ends it
        await process.wait()
    assert done["stopReason"] == "end_turn"
    assert (joey.workspace / "new.txt").read_text(encoding="utf-8") == "two\n"
    assert extension.asked == ["Create new.txt"]
    kinds = {update["sessionUpdate"] for update in extension.updates}
    assert {"agent_message_chunk", "tool_call", "tool_call_update"} <= kinds
    assert "three" in json.dumps(extension.updates)
    assert "Done." in json.dumps(extension.updates)
