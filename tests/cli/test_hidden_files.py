"""What `.rooignore` hides stays hidden from the model, through the real program."""

from __future__ import annotations

import json
from typing import Any

import pytest

from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Finished, Joey, reach

HIDDEN = "packages/app/secrets/prod.env"
CANARY = "canary-4f1c"
DONE = Turn(call("attempt_completion", {"result": "Looked."}))


@pytest.fixture
def joey(joey: Joey) -> Joey:
    (joey.workspace / HIDDEN).parent.mkdir(parents=True)
    (joey.workspace / HIDDEN).write_text(f"KEY={CANARY}\n", encoding="utf-8")
    (joey.workspace / "packages/app/main.env").write_text("KEY=shown\n", encoding="utf-8")
    rules = "secrets/\n!packages/\n"
    (joey.workspace / ".rooignore").write_text(rules, encoding="utf-8")
    return joey


async def run_and_collect_requests(joey: Joey, prompt: str, *turns: Turn) -> tuple[Finished, str]:
    """How the run ended, and all that was sent to the model."""
    async with ModelServer([*turns, DONE]) as server:
        done = await joey.run("-p", "--allow", "cat", *reach(server.url), prompt)
        return done, json.dumps([request.body for request in server.requests])


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_file", {"path": HIDDEN}),
        ("list_files", {"path": "packages/app/secrets"}),
        ("search_files", {"path": "packages/app/secrets", "regex": "KEY"}),
        ("search_files", {"path": HIDDEN, "regex": "KEY"}),
        ("codebase_search", {"query": "KEY", "path": "packages/app/secrets"}),
        ("list_code_definition_names", {"path": HIDDEN}),
        ("write_to_file", {"path": HIDDEN, "content": "x"}),
        ("execute_command", {"command": f"cat {HIDDEN}"}),
    ],
)
async def test_a_file_below_a_hidden_directory_is_refused_whatever_is_included_above_it(
    joey: Joey, tool: str, arguments: dict[str, Any]
) -> None:
    _, sent = await run_and_collect_requests(joey, "look", Turn(call(tool, arguments)))
    assert f"{arguments.get('path', HIDDEN)} is hidden by .rooignore" in sent
    assert CANARY not in sent
    assert CANARY in (joey.workspace / HIDDEN).read_text(encoding="utf-8")


async def test_a_file_below_a_hidden_directory_is_neither_listed_nor_found(joey: Joey) -> None:
    done, sent = await run_and_collect_requests(
        joey,
        "look at @/packages/app/",
        Turn(call("list_files", {"path": ".", "recursive": True})),
        Turn(call("list_files", {"path": "packages/app"})),
        Turn(call("search_files", {"path": ".", "regex": "KEY="})),
        Turn(call("codebase_search", {"query": "KEY"})),
    )
    assert (done.code, done.out) == (0, "Looked.\n")
    assert "packages/app/main.env" in sent
    assert "KEY=shown" in sent
    assert CANARY not in sent
    assert "prod.env" not in sent


async def test_a_file_below_a_hidden_directory_is_not_brought_by_a_mention(joey: Joey) -> None:
    _, sent = await run_and_collect_requests(joey, f"look at @/{HIDDEN}")
    assert "it is hidden by .rooignore" in sent
    assert CANARY not in sent
