"""What the scripted model does in each scenario, and the files it does it with.

A prompt names its scenario and a size: `bench read 20` reads a file in each of twenty turns.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from joey.testing.script import Turn, call, say
from joey.testing.server import Request

SCENARIO_RE = re.compile(r"bench (\w+) (\d+)")
CHUNK_CHARS = 20
SAMPLE_LINE = "0123456789abcde\n"
FILE_COUNT = 10
CHUNKS_PER_SECOND = 2000
"""Chunks a second, as a fast model streams them."""


def build_prompt(scenario: str, size: int) -> str:
    return f"bench {scenario} {size}"


def make_workspace(directory: Path) -> None:
    for number in range(FILE_COUNT):
        lines = [f"line {line} of file {number}\n" for line in range(20)]
        (directory / f"file{number}.txt").write_text("".join(lines), encoding="utf-8")


def choose_turn(request: Request) -> Turn:
    """The next turn of the scenario that a conversation is about."""
    messages = request.body["messages"]
    named = SCENARIO_RE.search(get_first_text(messages[0]))
    if named is None:
        raise ValueError("the first message names no scenario")
    done = sum(1 for message in messages if message["role"] == "assistant")
    return build_turn(named[1], int(named[2]), done)


def get_first_text(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else str(content[0]["text"])


@cache
def build_turn(scenario: str, size: int, done: int) -> Turn:
    match scenario:
        case "read" if done < size:
            return Turn(call("read_file", {"path": f"file{done % FILE_COUNT}.txt"}), coalesce=True)
        case "shell" if done < size:
            return Turn(call("execute_command", {"command": f"echo {done}"}), coalesce=True)
        case "write" | "paced" if done == 0:
            lines = size // len(json.dumps(SAMPLE_LINE)[1:-1])
            arguments = {"path": "big.txt", "content": SAMPLE_LINE * lines}
            pace = CHUNKS_PER_SECOND if scenario == "paced" else None
            return Turn(call("write_to_file", arguments, chunk=CHUNK_CHARS), pace=pace)
        case "text" if done == 0:
            pieces = [f"{number:07} letters \n" for number in range(size)]
            text = say("".join(pieces), chunk=len(pieces[0]))
            return Turn(text, call("attempt_completion", {"result": "Said."}))
        case _:
            return Turn(call("attempt_completion", {"result": "Done."}), coalesce=True)
