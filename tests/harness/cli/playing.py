"""Tasks that a scripted model works through to the end, and what it is sent on the way."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from msgspec import Struct

from joey.testing.script import Call, Turn, call
from joey.testing.server import ModelServer, Request, TurnSelector
from tests.harness.cli.binary import Finished, Joey, reach

DONE = Turn(call("attempt_completion", {"result": "Done."}))
GIT = "git -c user.name=A -c user.email=a@example.org"
ARTIFACT = re.compile(r"cmd-\d+\.txt")


class Played(Struct, frozen=True):
    done: Finished
    requests: Sequence[Request]

    def results(self, number: int) -> list[str]:
        """The results of the calls in a reply, counted from 1."""
        return list_results(self.requests[number])

    @property
    def tools(self) -> list[str]:
        """The tools that the first request offers."""
        return [str(tool.get("name") or tool["function"]["name"]) for tool in self.offered]

    @property
    def offered(self) -> list[dict[str, Any]]:
        return list(self.requests[0].body["tools"])


def list_results(request: Request) -> list[str]:
    """The tool results that a request ends with."""
    messages = request.body["messages"]
    if request.wire == "openai":
        last = max(n for n, message in enumerate(messages) if message["role"] == "assistant")
        return [_read_text(message["content"]) for message in messages[last + 1 :]]
    blocks = messages[-1]["content"]
    return [_read_text(block["content"]) for block in blocks if block["type"] == "tool_result"]


def _read_text(content: str | list[dict[str, Any]]) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def reach_openai(url: str) -> tuple[str, ...]:
    return ("--provider", "openai", "--base-url", f"{url}/v1")


def reply(*calls: Call) -> Turn:
    return Turn(*calls)


def with_artifact(build: Callable[[str], Call]) -> TurnSelector:
    """A call about the command whose artifact the conversation names last."""

    def select(request: Request) -> Turn:
        return Turn(build(ARTIFACT.findall(json.dumps(request.body["messages"]))[-1]))

    return select


def search_replace(*changes: tuple[str, str]) -> str:
    """The blocks of an `apply_diff`."""
    return "\n".join(
        f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE" for old, new in changes
    )


def diff(path: str, *changes: tuple[str, str]) -> Call:
    return call("apply_diff", {"path": path, "diff": search_replace(*changes)})


def read(*paths: str) -> Call:
    return call("read_file", {"files": [{"path": path} for path in paths]})


def run(command: str, **more: Any) -> Call:
    return call("execute_command", {"command": command, **more})


def write_files(joey: Joey, files: Mapping[str, str]) -> None:
    for path, content in files.items():
        target = joey.workspace / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8", newline="")


def commit_all(directory: Path) -> None:
    command = f"git init -q -b main && git add -A && {GIT} commit -qm first"
    subprocess.run(command, shell=True, cwd=directory, check=True)


async def play(
    joey: Joey,
    *turns: Turn | TurnSelector,
    flags: Sequence[str] = ("-y", "--no-sandbox"),
    model: Callable[[str], Sequence[str]] = reach,
    env: dict[str, str] | None = None,
) -> Played:
    """Play all turns. The task ends when the model ends it, and not before; no request is sent
    twice; each begins with what the earlier ones of its conversation said."""
    async with ModelServer(turns) as server:
        arguments = ("-p", "--output-format", "json", *flags, *model(server.url))
        done = await joey.run(*arguments, "do it", env=env)
    assert (done.code, done.json["code"]) == (0, "completed"), done
    assert len(server.requests) == len(turns)
    assert len({request.raw for request in server.requests}) == len(turns)
    conversations: dict[str, list[list[Any]]] = {}
    for request in server.requests:
        messages = [
            _without_cache_marks(message)
            for message in request.body["messages"]
            if message["role"] != "system"
        ]
        conversations.setdefault(json.dumps(messages[0]), []).append(messages)
    for conversation in conversations.values():
        for before, after in pairwise(conversation):
            assert after[: len(before)] == before
    return Played(done, tuple(server.requests))


def _without_cache_marks(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_cache_marks(each) for each in value]
    if isinstance(value, dict):
        return {
            key: _without_cache_marks(each) for key, each in value.items() if key != "cache_control"
        }
    return value
