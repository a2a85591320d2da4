"""Every tool that names a path answers one that does not exist with those that may be meant."""

from __future__ import annotations

from typing import Any

import pytest

from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach
from tests.harness.cli.replies import last_message

MISSING = "src/aplication.py"
REPLACE = {"file_path": MISSING, "old_string": "a", "new_string": "b"}
DIFF = "<<<<<<< SEARCH\n:start_line:1\n-------\na\n=======\nb\n>>>>>>> REPLACE"


def patch(operation: str, *lines: str) -> dict[str, str]:
    head = ("*** Begin Patch", f"*** {operation} File: {MISSING}")
    return {"patch": "\n".join((*head, *lines, "*** End Patch"))}


CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("read_file", {"files": [{"path": MISSING}]}, "src/application.py"),
    ("apply_diff", {"path": MISSING, "diff": DIFF}, "src/application.py"),
    ("edit", REPLACE, "src/application.py"),
    ("edit_file", REPLACE, "src/application.py"),
    ("search_replace", REPLACE, "src/application.py"),
    ("insert_content", {"path": MISSING, "line": 2, "content": "x"}, "src/application.py"),
    ("apply_patch", patch("Update", "@@", "-a", "+b"), "src/application.py"),
    ("apply_patch", patch("Delete"), "src/application.py"),
    ("list_code_definition_names", {"path": MISSING}, "src/application.py"),
    ("list_files", {"path": "scr"}, "src"),
    ("search_files", {"path": "scr", "regex": "x"}, "src"),
    ("codebase_search", {"path": "scr", "query": "x"}, "src"),
    ("execute_command", {"command": "pwd", "cwd": "scr"}, "src"),
]


@pytest.mark.parametrize(("tool", "arguments", "near"), CALLS)
async def test_a_path_that_does_not_exist_is_answered_with_one_that_does(
    joey: Joey, tool: str, arguments: dict[str, Any], near: str
) -> None:
    (joey.workspace / "src").mkdir()
    (joey.workspace / "src/application.py").write_text("a\n")
    turns = [Turn(call(tool, arguments)), Turn(call("attempt_completion", {"result": "ok"}))]
    async with ModelServer(turns) as server:
        done = await joey.run("-p", "-y", "--no-sandbox", *reach(server.url), "try it")
        assert done.code == 0
        assert f" Did you mean {near}?" in last_message(server.requests[1])
    assert [path.name for path in (joey.workspace / "src").iterdir()] == ["application.py"]
