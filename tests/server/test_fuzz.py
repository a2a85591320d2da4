"""Nothing that can be put into a frame brings the server down, or gets an answer out of shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joey.core.wire import AuthFrame, Command, WireError, encode_frame, parse_frame
from joey.core.wire_commands import COMMANDS
from tests.server.house import house
from tests.server.shapes import problems

HARMLESS = sorted(set(COMMANDS) - {"subscribe"})
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=12,
)
known_names = {
    field for kind in COMMANDS.values() for field in kind.arguments.__struct_encode_fields__
}
argument_names = st.sampled_from(sorted(known_names))
arguments = st.dictionaries(argument_names | st.text(max_size=8), json_values, max_size=5)
commands = st.fixed_dictionaries(
    {"type": st.just("command") | json_values},
    optional={
        "commandName": st.sampled_from(HARMLESS) | json_values,
        "requestId": st.text(max_size=10) | json_values,
        "taskId": st.text(max_size=10) | json_values,
        "arguments": arguments | json_values,
        "token": json_values,
    },
)
frames = st.one_of(
    commands.map(json.dumps),
    json_values.map(json.dumps),
    st.text(max_size=100),
    st.binary(max_size=100),
)


@settings(max_examples=2000)
@given(frames)
def test_the_parser_has_an_answer_to_everything(frame: str | bytes) -> None:
    parsed = parse_frame(frame)
    match parsed:
        case WireError():
            assert problems(json.loads(encode_frame(parsed.response))) == []
        case Command():
            assert isinstance(parsed.arguments, parsed.kind.arguments)
        case _:
            assert isinstance(parsed, AuthFrame)


@pytest.mark.timeout(180)
async def test_the_server_answers_whatever_comes_and_lives(tmp_path: Path) -> None:
    sent: list[str | bytes] = []

    @settings(max_examples=300, database=None)
    @given(frames)
    def collect(frame: str | bytes) -> None:
        sent.append(frame)

    collect()
    async with house(tmp_path) as here:
        while sent:
            # A new connection has its burst left.
            batch, sent = sent[:100], sent[100:]
            async with here.peer() as peer:
                for frame in batch:
                    response: dict[str, Any] = await peer.raw(frame)
                    assert response["type"] == "response"
                await peer.ask("ping")
