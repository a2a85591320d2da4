"""Models that take no tools at an address, as they are remembered."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from joey.config.model_memory import ToolSupportStore
from joey.core.models import ModelInfo
from joey.testing.scripted_provider import ScriptedProvider


def at(port: int, model: str) -> ScriptedProvider:
    provider = ScriptedProvider([], ModelInfo(id=model))
    provider.address = f"localhost:{port}"
    return provider


@pytest.mark.contract("protocol:change")
def test_a_refusal_counts_for_its_model_at_its_address_until_it_is_forgotten(
    tmp_path: Path,
) -> None:
    store = ToolSupportStore(tmp_path / "home")
    assert not store.is_refused(at(1, "a"))
    for model in ("a", "b", "a"):
        store.record_refusal(at(1, model))
    again = ToolSupportStore(tmp_path / "home")
    assert again.is_refused(at(1, "a")) and again.is_refused(at(1, "b"))
    assert not again.is_refused(at(2, "a")) and not again.is_refused(at(1, "c"))
    assert stat.S_IMODE(again.path.stat().st_mode) == 0o600
    again.forget_refusal(at(1, "a"))
    assert not store.is_refused(at(1, "a")) and store.is_refused(at(1, "b"))


def test_a_damaged_file_is_as_good_as_none(tmp_path: Path) -> None:
    store = ToolSupportStore(tmp_path)
    store.path.write_text("[")
    assert not store.is_refused(at(1, "a"))
    store.record_refusal(at(1, "a"))
    store.forget_refusal(at(1, "a"))
    assert store.path.read_text() == "["
