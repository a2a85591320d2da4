"""Which tests `make test` leaves to `make e2e`: those that start joey or other programs.

One test of each program carries the mark `smoke`, and runs in both.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType

import pytest

from tests.harness.paths import ROOT

DIRECTORIES = tuple(
    ROOT / "tests" / name for name in ("acp", "batch", "e2e", "execution/sandbox", "service_rules")
)
FIXTURES = frozenset({"browser", "joey"})
HARNESSES = frozenset(
    f"tests.harness.{name}"
    for name in (
        "batch.fleet",
        "cli.binary",
        "cli.playing",
        "cli.stdin_stream",
        "cli.terminal",
        "content.chromium",
        "fork_server",
        "postgres",
        "server.binary",
        "server.browsing",
        "tui.tmux",
    )
)
"""Modules that start programs for the tests that use something of them."""


def mark_end_to_end(items: Iterable[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and _is_end_to_end(item):
            item.add_marker("e2e")


def _is_end_to_end(item: pytest.Function) -> bool:
    return (
        any(item.path.is_relative_to(directory) for directory in DIRECTORIES)
        or not FIXTURES.isdisjoint(item.fixturenames)
        or _uses_harness(item.module)
    )


def _uses_harness(module: ModuleType) -> bool:
    return any(getattr(value, "__module__", None) in HARNESSES for value in vars(module).values())
