"""What programs may import from `joey`: a decision, not an accident."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import joey
import joey.events
from joey.client.family import family
from joey.core import events

DECIDED = {
    "__version__",
    # A task in one call
    *("run", "run_sync", "RunFlags", "TaskResult"),
    # Opening and running
    *("open_engine", "make_options", "Engine", "Task", "TaskOptions", "Unattended"),
    # Settings
    *("Settings", "Limits", "Profile"),
    # Listening and answering
    *("Event", "Answer", "AskKind", "Response", "follow_task_tree"),
    # Batches
    *("open_fleet", "Fleet", "Batch", "Order", "ResultLine"),
    *("ItemStarted", "ItemEnded", "Spent"),
    # Tasks of a server
    "RemoteEngine",
    # Endings
    *("Ending", "Completed", "Failed", "Aborted"),
    # Errors
    *("JoeyError", "UserError", "ConfigError", "ProviderError", "StoreError"),
}


def test_the_public_names_are_those_decided_on() -> None:
    assert set(joey.__all__) == DECIDED
    assert list(joey.__all__) == sorted(joey.__all__)


def test_every_public_name_can_be_used() -> None:
    for name in joey.__all__:
        assert getattr(joey, name) is not None


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    assert not hasattr(joey, "Manager")


def test_importing_joey_imports_none_of_its_parts() -> None:
    program = "import sys, joey; print([m for m in sys.modules if m.startswith('joey.')])"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"


def test_every_event_has_its_public_home_in_joey_events() -> None:
    tree = ast.parse(Path(events.__file__).read_text(encoding="utf-8"))
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)} - {"Record"}
    assert {*joey.events.__all__} == classes | {"Durable", "Event", "Transient"}


@pytest.mark.parametrize("name", ["Said", "UserSaid", "RowGrew", "Spent", "Passing"])
def test_a_former_name_of_an_event_works_and_warns(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"{name} is joey\.events\.\w+ now"):
        assert getattr(events, name) is not None


def test_a_former_field_of_an_event_can_be_read_and_warns() -> None:
    event = events.UserMessage(ts=1, text="hello", is_first=True)
    with pytest.warns(DeprecationWarning, match=r"UserMessage\.first is is_first now"):
        match event:
            case events.UserMessage(first=True):  # type: ignore[misc]
                pass
            case _:
                raise AssertionError
    assert not hasattr(event, "usage")


def test_a_name_that_no_event_ever_had_is_an_attribute_error() -> None:
    assert not hasattr(events, "Sung")


def test_the_former_name_of_follow_task_tree_works_and_warns() -> None:
    async def nothing() -> AsyncIterator[joey.Event]:
        return
        yield

    with pytest.warns(DeprecationWarning, match="follow_task_tree"):
        family(None, nothing(), whole=True)  # type: ignore[arg-type]
