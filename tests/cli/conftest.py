"""Everything in tests/cli works in a home and a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.cli.binary import Joey

KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "OLLAMA_HOST")


@pytest.fixture(autouse=True)
def isolated_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JOEY_HOME", str(tmp_path / "joey-home"))
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def joey(tmp_path: Path) -> Joey:
    return Joey(home=tmp_path / "joey-home", workspace=tmp_path / "work")


@pytest.fixture
async def sandboxed(joey: Joey, on_disk: None) -> Joey:
    """In a sandbox of its own network."""
    explained = await joey.run("permissions", "explain", "-y", "--json", "--", "true")
    if explained.json["sandbox"] != "full":
        pytest.skip("commands have no network of their own here")
    return joey
