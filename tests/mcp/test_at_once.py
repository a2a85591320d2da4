"""Several who change what is kept about servers at the same time."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from joey.app.trust import open_server_admin
from joey.core.mcp import McpTool
from joey.mcp.config import parse_server
from joey.mcp.trust import PINS_FILE_NAME, ToolPins

MANY = 8


def at_once(change: Callable[[int], object]) -> None:
    together = Barrier(MANY)

    def begin(number: int) -> None:
        together.wait()
        change(number)

    with ThreadPoolExecutor(MANY) as pool:
        list(pool.map(begin, range(MANY)))


def test_what_tools_looked_like_is_remembered_for_all_servers(
    tmp_path: Path, eager_threads: None
) -> None:
    tool = McpTool(name="look", description="looks", schema={})

    def see(number: int) -> None:
        ToolPins(tmp_path).pin_new_and_find_changed_tools(
            parse_server(f"s{number}", {"command": "x"}, "global", {}), [tool]
        )

    at_once(see)

    assert len(json.loads((tmp_path / PINS_FILE_NAME).read_bytes())) == MANY


@pytest.mark.parametrize("project", [False, True])
def test_servers_that_are_added_and_removed_at_once_are_all_seen(
    tmp_path: Path, eager_threads: None, project: bool
) -> None:
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    workspace.mkdir()

    def names() -> set[str]:
        return {listed.name for listed in open_server_admin(workspace, home, {}).list_servers()}

    def add(number: int) -> None:
        open_server_admin(workspace, home, {}).add(f"s{number}", {"command": "x"}, project=project)

    def remove(number: int) -> None:
        if number:
            open_server_admin(workspace, home, {}).remove(f"s{number}", project=project)

    at_once(add)
    assert names() == {f"s{number}" for number in range(MANY)}
    at_once(remove)
    assert names() == {"s0"}
