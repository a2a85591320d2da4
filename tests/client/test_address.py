"""Where a server is looked for, and which token goes where."""

from __future__ import annotations

from pathlib import Path

import pytest

from joey.client.connection import ServerAddress, resolve_server_address
from joey.errors import UserError


@pytest.mark.parametrize(
    ("given", "url"),
    [
        (None, "ws://127.0.0.1:7800/ws"),
        ("http://127.0.0.1:7800/", "ws://127.0.0.1:7800/ws"),
        ("https://joey.example.com", "wss://joey.example.com/ws"),
        ("ws://localhost:9/ws", "ws://localhost:9/ws"),
        ("wss://joey.example.com/tools/joey/ws", "wss://joey.example.com/tools/joey/ws"),
    ],
)
def test_an_address_may_be_written_as_a_link(given: str | None, url: str) -> None:
    assert resolve_server_address(given, "t", {}).url == url


@pytest.mark.parametrize("wrong", ["localhost", "ftp://localhost/", "ws://"])
def test_what_is_no_address_is_refused(wrong: str) -> None:
    with pytest.raises(UserError, match="is not the address"):
        resolve_server_address(wrong, "t", {})


def test_the_link_that_a_server_prints_carries_its_token() -> None:
    found = resolve_server_address(
        "http://127.0.0.1:7800/#token=secret", None, {"JOEY_TOKEN": "other"}
    )
    assert found == ServerAddress("ws://127.0.0.1:7800/ws", "secret", is_local=True)


def test_a_server_of_this_machine_left_its_token_at_home(tmp_path: Path) -> None:
    (tmp_path / "server.token").write_text("kept\n", encoding="ascii")
    env = {"JOEY_HOME": str(tmp_path)}
    assert resolve_server_address("ws://localhost:7800", None, env).token == "kept"
    assert (
        resolve_server_address("ws://localhost:7800", None, env | {"JOEY_TOKEN": "set"}).token
        == "set"
    )


@pytest.mark.contract("python:sessions")
def test_the_token_of_this_machine_is_sent_to_no_other(tmp_path: Path) -> None:
    (tmp_path / "server.token").write_text("kept\n", encoding="ascii")
    found = resolve_server_address("wss://joey.example.com/ws", None, {"JOEY_HOME": str(tmp_path)})
    assert found.token is None
    assert not found.is_local
