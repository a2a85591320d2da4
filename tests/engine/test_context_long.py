"""Hundreds of turns in a window that a few of them fill, over the wire of a real service."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from joey import Unattended, open_engine
from joey.core.settings import Profile, Settings
from joey.engine.engine import TaskOptions
from joey.engine.outcomes import Completed
from joey.testing.server import ModelServer
from tests.harness.testing.window_limited_model import (
    WindowLimitedModelScript,
    make_file_reading_turns,
)

TURNS = 150
WINDOW = 11_000
FILES = 13


@pytest.mark.contract("context:window")
@pytest.mark.parametrize(
    ("provider", "bytes_per_token"), [("anthropic", 4.0), ("openai-compatible", 2.7)]
)
async def test_a_task_goes_on_through_many_windows(
    tmp_path: Path, provider: str, bytes_per_token: float
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    for number in range(FILES):
        lines = (f"line {line} of file {number}\n" for line in range(20 + 5 * number))
        (workspace / f"file{number}.txt").write_text("".join(lines))
    model = WindowLimitedModelScript(make_file_reading_turns(FILES, TURNS), WINDOW, bytes_per_token)
    home = tmp_path / "home"
    async with ModelServer(model) as server, open_engine(home=home, env={}) as engine:
        profile = Profile(
            provider=provider,
            base_url=server.url,
            model="strict",
            api_key="k",
            context_window=WINDOW,
            max_tokens=1_000,
        )
        options = TaskOptions(
            workspace=workspace,
            profile=profile,
            settings=Settings(mcp_enabled=False, browser_tool_enabled=False),
            mode="ask",
            policy=Unattended(),
        )
        async with asyncio.timeout(60):
            task = await engine.start("Read every file, again and again.", options=options)
            assert await task.wait() == Completed(f"{TURNS} files read.")
    tally = model.tally
    assert tally.turn_count == TURNS + 1
    assert tally.refused_request_count == 0
    assert tally.summary_count > 5
    assert tally.resummarization_count == tally.summary_count - 1
    assert tally.max_request_tokens <= WINDOW
