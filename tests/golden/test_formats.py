"""Keys, tags and enumerated values of everything that is stored or sent, as they are encoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.golden import homes
from tests.golden.formats import by_tag, describe
from tests.golden.golden import check_json

Family = Callable[[], Any]


def described(types: dict[str, Any]) -> dict[str, Any]:
    return {name: describe(kind) for name, kind in types.items()}


def journal() -> Any:
    durable = by_tag(homes.DURABLE_EVENTS)
    record = describe(homes.JOURNAL["record"])
    record["keys"]["event"] = "each of: durable events"
    return {"record": record, "durable events": durable}


def passing_events() -> Any:
    return by_tag(homes.PASSING_EVENTS)


def snapshots() -> Any:
    return described(homes.SNAPSHOTS)


def settings() -> Any:
    allowed = {what: sorted(keys) for what, keys in homes.PROJECT_SETTINGS.items()}
    return described(homes.SETTINGS) | {"a project's settings.json": allowed}


def profiles() -> Any:
    return described(homes.PROFILES) | {"keys of profiles.json": sorted(homes.PROFILE_NAMES)}


def websocket_frames() -> Any:
    return described(homes.FRAMES)


def websocket_commands() -> Any:
    commands = {
        name: {
            "arguments": describe(kind["arguments"]),
            "data": describe(kind["data"]),
            "task": kind["task"],
        }
        for name, kind in homes.websocket_commands().items()
    }
    first = {"welcome": describe(homes.WELCOME), "auth": describe(homes.ANSWER_TO_AUTH)}
    return {"commands": commands, "data of other responses": first}


def websocket_events() -> Any:
    return described(homes.EVENT_PAYLOADS)


def hooks() -> Any:
    return described(homes.HOOK_PAYLOADS)


def stdin_commands() -> Any:
    return described(homes.STDIN_COMMANDS) | {"capabilities": list(homes.STDIN_CAPABILITIES)}


def ipc_commands() -> Any:
    return by_tag(homes.IPC_COMMANDS)


def command_outputs() -> Any:
    return described(homes.COMMAND_OUTPUTS)


def enumerations() -> Any:
    return described(homes.ENUMERATIONS)


def modes() -> Any:
    return homes.built_in_modes()


FAMILIES: list[Family] = [
    *(journal, passing_events, snapshots, settings, profiles, hooks),
    *(websocket_frames, websocket_commands, websocket_events),
    *(stdin_commands, ipc_commands, command_outputs, enumerations, modes),
]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_the_encoded_form_is_the_same(family: Family) -> None:
    check_json(f"formats/{family.__name__}.json", family())


@pytest.mark.parametrize("name", sorted(homes.tools()))
def test_the_schema_of_a_tool_is_the_same(name: str) -> None:
    check_json(f"tools/{name}.json", homes.tools()[name])


def test_the_tools_are_the_same_in_the_same_order() -> None:
    check_json("tools.json", list(homes.tools()))
