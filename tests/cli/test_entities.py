"""Edits whose text is escaped and the file's is not, or the reverse, in the real program."""

from __future__ import annotations

from typing import Any

import pytest

from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey
from tests.harness.cli.replies import last_message

TEXT = "<p>one</p>\nx = a &lt; b\nend\n"
ESCAPED, PLAIN = "&lt;p&gt;one&lt;/p&gt;", "x = a < b"
TOOLS = ["apply_diff", "edit", "edit_file", "search_replace", "apply_patch"]


def replace(tool: str, old: str) -> dict[str, Any]:
    match tool:
        case "apply_diff":
            head = "<<<<<<< SEARCH\n:start_line:1\n-------"
            return {"path": "a.txt", "diff": f"{head}\n{old}\n=======\nnew\n>>>>>>> REPLACE"}
        case "apply_patch":
            head = "*** Begin Patch\n*** Update File: a.txt\n@@"
            return {"patch": f"{head}\n-{old}\n+new\n*** End Patch"}
        case _:
            return {"file_path": "a.txt", "old_string": old, "new_string": "new"}


async def play(joey: Joey, model: str, tool: str, old: str) -> str:
    """What the model is told about its edit."""
    (joey.workspace / "a.txt").write_text(TEXT)
    turns = [Turn(call(tool, replace(tool, old))), Turn(call("attempt_completion", {"result": ""}))]
    async with ModelServer(turns) as server:
        flags = ("--provider", "anthropic", "--base-url", server.url, "--model", model)
        await joey.run("-p", "-y", "--no-sandbox", *flags, "edit it")
        return last_message(server.requests[1])


@pytest.mark.parametrize("tool", TOOLS)
async def test_an_escaped_search_matches_what_is_not_escaped(joey: Joey, tool: str) -> None:
    assert "Changed a.txt: line 1." in await play(joey, "scripted", tool, ESCAPED)
    assert (joey.workspace / "a.txt").read_text() == TEXT.replace("<p>one</p>", "new")


@pytest.mark.parametrize("tool", TOOLS)
async def test_the_error_names_the_entities_where_models_mean_what_they_write(
    joey: Joey, tool: str
) -> None:
    message = await play(joey, "claude-opus-4-6", tool, ESCAPED)
    assert "Your text has `&lt;`, `&gt;` or `&amp;` where the file has the characters" in message
    assert (joey.workspace / "a.txt").read_text() == TEXT


@pytest.mark.parametrize("tool", TOOLS)
async def test_the_error_names_entities_of_the_file_that_a_search_lacks(
    joey: Joey, tool: str
) -> None:
    message = await play(joey, "scripted", tool, PLAIN)
    assert "The file has entities (`&lt;`, `&gt;`, `&amp;`) where your text has the" in message
    assert (joey.workspace / "a.txt").read_text() == TEXT


@pytest.mark.parametrize("tool", TOOLS)
async def test_other_misses_name_no_entities(joey: Joey, tool: str) -> None:
    assert "&amp;" not in await play(joey, "scripted", tool, "x = b &lt; a")
