"""The corpus of odd replies through the real program: what it calls, and that nothing else runs."""

from __future__ import annotations

from typing import Any

import pytest

from joey.testing.script import Turn, say
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach
from tests.harness.core.odd_replies import REPLIES
from tests.harness.counts import daily

EVERY = daily(40, 1)
"""One of so many replies is tried; they are sorted by what they are about."""
SHOWN_OTHERWISE = {"attempt_completion", "ask_followup_question"}
MALFORMED = ("[ERROR] The call of", "[ERROR] Missing value")
"""How the answer to a call begins that cannot be made."""
CASES = [
    pytest.param(reply, protocol, id=f"{reply['name']}-{protocol}")
    for number, reply in enumerate(REPLIES)
    for protocol in reply.get("protocols", ["native", "xml"])
    if number % EVERY == 0 and reply.get("stop", "stop") == "stop"
]


@pytest.mark.shortened
@pytest.mark.parametrize(("reply", "protocol"), CASES)
async def test_an_odd_reply_makes_the_expected_calls(
    joey: Joey, reply: dict[str, Any], protocol: str
) -> None:
    flags = ("-p", "--output-format", "stream-json", "--protocol", protocol, "--max-turns", "1")
    async with ModelServer([Turn(say(reply["text"], chunk=5))]) as server:
        done = await joey.run(*flags, *reach(server.url), "go on")
    malformed = {
        line["callId"]
        for line in done.lines
        if line["type"] == "tool_result"
        and line["tool_result"].get("error", "").startswith(MALFORMED)
    }
    called = [
        line["tool_use"]["input"]
        for line in done.lines
        if line["type"] == "tool_use" and line.get("done") and line["callId"] not in malformed
    ]
    assert called == [
        call["arguments"] for call in reply.get("calls", ()) if call["name"] not in SHOWN_OTHERWISE
    ]
