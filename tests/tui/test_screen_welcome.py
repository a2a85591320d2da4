"""The first run: nobody to talk to yet."""

from __future__ import annotations

import json
import stat

import pytest

from tests.harness.cli.binary import Joey
from tests.harness.cli.small_web import OLLAMA, small_web
from tests.harness.tui.headless import screen
from tests.harness.tui.tmux import needs_tmux, terminal

KEY = "sk-never-shown-123456"


@needs_tmux
@pytest.mark.contract("local:first-contact")
async def test_a_provider_a_key_and_a_model_and_the_screen_goes_on(joey: Joey) -> None:
    async with terminal(joey) as shown:
        await shown.until("Welcome to joey.", "Where is your model?", "anthropic", "openai")
        await shown.save_snapshot("welcome")
        await shown.type("anthropic")
        await shown.press("Enter")
        await shown.until("Key for anthropic")
        await shown.type(KEY)
        await shown.until("•••")
        await shown.save_snapshot("welcome-key")
        assert KEY not in await shown.capture()
        await shown.press("Enter")
        await shown.until("Model of anthropic", "claude-")
        await shown.save_snapshot("welcome-model")
        await shown.press("Enter")
        await shown.until("joey talks to", "code ·")
        await shown.press("C-d")
        await shown.ended(0)
    profiles = joey.home / "profiles.json"
    assert stat.S_IMODE(profiles.stat().st_mode) == 0o600
    [saved] = json.loads(profiles.read_text(encoding="utf-8"))["profiles"].values()
    assert saved["apiKey"] == KEY
    assert saved["provider"] == "anthropic"


async def test_a_model_that_is_not_listed_is_named_in_the_list(joey: Joey) -> None:
    async with screen(joey, size=(100, 20)) as shown:
        await shown.until("Where is your model?", "type to filter", "more below")
        await shown.type("anthropic")
        await shown.until_gone("more below")
        await shown.press("Enter")
        await shown.until("Key for anthropic")
        await shown.type(KEY)
        await shown.press("Enter")
        await shown.until("Model of anthropic", "claude-")
        await shown.type("zzz")
        await shown.until('› use "zzz"')
        await shown.press("Enter")
        await shown.until("joey talks to zzz of anthropic")


@needs_tmux
async def test_leaving_the_welcome_leaves_joey(joey: Joey) -> None:
    async with terminal(joey) as shown:
        await shown.until("Where is your model?")
        await shown.press("Escape")
        await shown.ended(0)
    assert not (joey.home / "profiles.json").exists()


async def test_a_model_that_runs_on_this_machine_is_one_key_away(joey: Joey) -> None:
    async with small_web(OLLAMA) as web, screen(joey, env={"OLLAMA_HOST": web.url}) as shown:
        await shown.until("› qwen3-coder:30b", "ollama, running here", "anthropic")
        await shown.save_snapshot("welcome-local")
        await shown.press("Enter")
        await shown.until("joey talks to qwen3-coder:30b of ollama", "code · qwen3-coder:30b")
    [saved] = json.loads((joey.home / "profiles.json").read_text(encoding="utf-8"))[
        "profiles"
    ].values()
    assert saved == {
        "provider": "ollama",
        "model": "qwen3-coder:30b",
        "baseUrl": f"{web.url}/v1",
    }
