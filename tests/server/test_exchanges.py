"""Every command, event and error code, over real sockets, with two foreign clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from joey.core.wire.commands import COMMANDS
from joey.core.wire.events import PAYLOADS
from joey.core.wire.frames import ErrorCode
from joey.server.commands import HANDLERS
from tests.server.exchanges import SCENES
from tests.server.foreign import Client
from tests.server.house import house
from tests.server.scenes import Hear, Player, Say, Scene

pytestmark = pytest.mark.requirement("websocket:commands")


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
async def test_a_scene_is_played_as_written(
    client: Client, scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(HANDLERS, "getModes", HANDLERS["getModes"])  # put back what a scene breaks
    async with house(tmp_path, *scene.turns, **scene.settings) as here, client.talk(here) as talk:
        await Player(here, talk).play(scene)


def test_every_command_event_and_error_code_is_in_a_scene() -> None:
    steps = [step for scene in SCENES for step in scene.steps]
    said = [step for step in steps if isinstance(step, Say)]
    heard = {step.name for step in steps if isinstance(step, Hear)}
    obeyed = {
        step.frame["commandName"]
        for step in said
        if step.error is None and isinstance(step.frame, dict)
    }
    assert set(COMMANDS) - obeyed == set()
    assert set(PAYLOADS) - heard == set()
    assert {code.value for code in ErrorCode} - {step.error for step in said} == set()
