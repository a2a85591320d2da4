from __future__ import annotations

from pathlib import Path

import pytest

from joey.config.home import resolve_joey_home


@pytest.mark.contract("store:layout")
@pytest.mark.parametrize(
    ("env", "home"),
    [
        ({"HOME": "/home/ann"}, "/home/ann/.roo"),
        ({"HOME": "/home/ann", "JOEY_HOME": "  "}, "/home/ann/.roo"),
        ({"HOME": "/home/ann", "JOEY_HOME": "/data/joey"}, "/data/joey"),
        ({"HOME": "/home/ann", "JOEY_HOME": "~/agent"}, "/home/ann/agent"),
        ({"HOME": "/home/ann", "JOEY_HOME": "~"}, "/home/ann"),
    ],
)
def test_the_home_directory_follows_the_environment(env: dict[str, str], home: str) -> None:
    assert resolve_joey_home(env) == Path(home)


def test_a_relative_home_is_taken_from_where_the_process_started() -> None:
    assert resolve_joey_home({"JOEY_HOME": "agent"}) == Path.cwd() / "agent"


def test_without_a_home_variable_the_system_is_asked() -> None:
    assert resolve_joey_home({}) == Path.home() / ".roo"
