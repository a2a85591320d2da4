"""`list_code_definition_names` through the real program."""

from __future__ import annotations

import argparse
import json
import shutil

from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach

DONE = Turn(call("attempt_completion", {"result": "Listed."}))


async def test_the_definitions_of_a_large_module_reach_the_model(joey: Joey) -> None:
    shutil.copy(argparse.__file__, joey.workspace / "large.py")
    listing = Turn(call("list_code_definition_names", {"path": "large.py"}))
    async with ModelServer([listing, DONE]) as server:
        done = await joey.run("-p", *reach(server.url), "what is in large.py?")
        sent = json.dumps(server.requests[1].body["messages"])
    assert (done.code, done.out) == (0, "Listed.\n")
    assert "damaged" not in sent
    assert "class ArgumentParser(" in sent
    assert "def error(self, message):" in sent
