"""What is a command on stdin and what is not, however the bytes are cut."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.cli.headless.stdin_protocol import InvalidLine, StdinCommand, StdinCommandParser
from joey.core.task_types import Response

START = {"command": "start", "requestId": "1", "prompt": "do it"}
GIF = base64.b64encode(b"GIF89a").decode()


def with_image(uri: str) -> str:
    return json.dumps(START | {"requestId": "7", "images": [uri]})


def read(*data: bytes, longest: int = 10_000) -> list[StdinCommand | InvalidLine]:
    reader = StdinCommandParser(longest)
    found = [command for piece in data for command in reader.feed(piece)]
    return [*found, *reader.close()]


def understood(**changes: Any) -> StdinCommand | InvalidLine:
    (found,) = read(json.dumps(START | changes).encode())
    return found


@pytest.mark.contract("cli:stdin-stream")
@pytest.mark.parametrize(
    ("line", "reason", "request_id"),
    [
        ("{nonsense", "not JSON", None),
        ("[1]", "not a JSON object", None),
        ("{}", '"command" must be one of start, message, cancel, ping, shutdown', None),
        ('{"command":"fly","requestId":"7"}', '"command" must be one of', "7"),
        ('{"command":"ping"}', '"requestId" must be text', None),
        ('{"command":"ping","requestId":" "}', '"requestId" must be text', None),
        ('{"command":"start","requestId":"7"}', '"start" needs a "prompt"', "7"),
        ('{"command":"message","requestId":"7","prompt":" "}', 'needs a "prompt"', "7"),
        ('{"command":"start","requestId":"7","prompt":5}', "prompt", "7"),
        ('{"command":"start","requestId":"7","prompt":"x","taskId":"5"}', "UUID", "7"),
        ('{"command":"start","requestId":"7","prompt":"x","taskId":null}', "taskId", "7"),
        ('{"command":"message","requestId":"7","prompt":"x","taskId":""}', "taskId", "7"),
        ('{"command":"message","requestId":"7","prompt":"x","taskId":null}', "taskId", "7"),
        ('{"command":"cancel","requestId":"7","taskId":""}', "taskId", "7"),
        ('{"command":"shutdown","requestId":"7","taskId":7}', "taskId", "7"),
        ('{"command":"start","requestId":"7","prompt":"x","images":["http://x"]}', "URI", "7"),
        ('{"command":"start","requestId":"7","prompt":"x","images":"x"}', "images", "7"),
        (with_image("data:image/png;base64,bm90IG9uZQ=="), "not an image", "7"),
        (with_image("data:image/png;base64,%%%"), "not an image", "7"),
        (with_image(f"data:image/jpeg;base64,{GIF}"), "not an image", "7"),
        ('{"command":"message","requestId":"7","response":"maybe"}', "response", "7"),
        ("[" * 5000, "", None),
        ("\udcff", "not JSON", None),
        ("x" * 10_001, "longer than 10000 bytes", None),
    ],
)
def test_a_line_that_is_no_command_says_why(line: str, reason: str, request_id: str | None) -> None:
    good = json.dumps(START)
    data = f"{good}\n{line}\n\n{good}".encode(errors="surrogateescape")
    before, bad, after = read(data)
    assert before == after == understood()
    assert isinstance(bad, InvalidLine)
    assert bad.problem.startswith("line 2 of stdin is not a command: ")
    assert reason in bad.problem
    assert bad.request_id == request_id


def test_what_a_command_may_bring_along() -> None:
    task_id = "01A1E0F0-06f2-73af-994d-80f41896f1da"
    image = f"data:image/gif;base64,{GIF}"
    full = understood(taskId=task_id, images=[image], configuration={"mode": "ask"}, more=1)
    assert full == StdinCommand(
        "start", "1", "do it", (image,), task_id=task_id, configuration={"mode": "ask"}
    )
    assert understood(requestId=" 1 ") == understood()
    yes = understood(command="message", prompt="", response="yesButtonClicked")
    assert isinstance(yes, StdinCommand)
    assert yes.response is Response.YES


@given(st.lists(st.integers(0, 200), max_size=10))
def test_it_does_not_matter_how_the_bytes_are_cut(cuts: list[int]) -> None:
    lines = [json.dumps(START | {"prompt": "é\U0001f600"}), "nonsense", "", json.dumps(START)]
    data = "\r\n".join(lines).encode()
    places = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    pieces = [data[one:two] for one, two in pairwise(places)]
    assert read(*pieces) == read(data)
    assert len(read(data)) == 3
