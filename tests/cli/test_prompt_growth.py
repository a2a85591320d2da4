"""Requests of a task only grow at their end: a server has all but the new part in its cache.

`llamacpp_tasks.py` counts the tokens with a real server.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from joey.core.models import ToolProtocol
from tests.cli.llamacpp_tasks import DONE, work_on_part
from tests.harness.cli.binary import Joey
from tests.harness.cli.local_server import local_model_server, say, stream_call
from tests.harness.cli.served_models import props_llamacpp, reach


@pytest.mark.contract("context:stable-prefix")
@pytest.mark.parametrize("protocol", ToolProtocol)
@pytest.mark.parametrize("window", [8192, 32768])
async def test_each_request_begins_with_the_one_before(
    joey: Joey, protocol: ToolProtocol, window: int
) -> None:
    calls = [call for number in range(3) for call in work_on_part(joey, number)]
    calls += [DONE, *work_on_part(joey, 3), DONE]
    is_native = protocol is ToolProtocol.NATIVE
    replies = [
        stream_call(call.name, call.arguments) if is_native else say(call.render())
        for call in calls
    ]
    pages = {"/props": props_llamacpp(window, tools=is_native)}
    async with local_model_server(pages, replies) as server:
        flags = (*reach("llamacpp", server), "-y", "--no-sandbox")
        first = await joey.run(*flags, "edit all parts")
        second = await joey.run(*flags, "-c", "and the last part")
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert len(server.chats) == len(calls)
    assert all(("tools" in chat) is is_native for chat in server.chats)
    for before, after in pairwise(server.chats):
        assert after["messages"][: len(before["messages"])] == before["messages"]
        assert {**after, "messages": ()} == {**before, "messages": ()}
