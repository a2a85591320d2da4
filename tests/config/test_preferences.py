"""Settings and profiles, changed without losing anything."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from joey.config.config_store import ConfigStore
from joey.errors import ConfigError


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_what_is_not_known_is_kept_and_null_takes_a_setting_back(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"fontSize": 12, "maxRetries": 2}', encoding="utf-8")
    preferences = ConfigStore(tmp_path)
    preferences.update_settings_and_profile({"maxRetries": None, "alwaysAllowWrite": True})
    assert read(tmp_path / "settings.json") == {"fontSize": 12, "alwaysAllowWrite": True}
    assert preferences.load_settings().always_allow_write


def test_files_are_private_whoever_made_them(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    ConfigStore(home).update_settings_and_profile(
        {"apiProvider": "anthropic", "apiKey": "k", "mode": "ask"}
    )
    for name in ("settings.json", "profiles.json"):
        assert stat.S_IMODE((home / name).stat().st_mode) == 0o600
    assert sorted(path.name for path in home.iterdir()) == ["profiles.json", "settings.json"]


def test_a_wrong_value_changes_nothing(tmp_path: Path) -> None:
    preferences = ConfigStore(tmp_path)
    preferences.update_settings_and_profile({"maxRetries": 4})
    with pytest.raises(ConfigError, match="maxRetries"):
        preferences.update_settings_and_profile({"maxRetries": "four", "apiKey": "k"})
    assert read(tmp_path / "settings.json") == {"maxRetries": 4}
    assert not (tmp_path / "profiles.json").exists()


def test_a_file_of_roos_shape_keeps_its_shape(tmp_path: Path) -> None:
    document = {
        "currentApiConfigName": "a",
        "apiConfigs": {"a": {"apiProvider": "openai", "openAiApiKey": "k"}},
    }
    (tmp_path / "profiles.json").write_text(json.dumps(document), encoding="utf-8")
    preferences = ConfigStore(tmp_path)
    preferences.save_profile("b", {"provider": "ollama", "model": "m"}, activate=True)
    assert read(tmp_path / "profiles.json") == {
        "currentApiConfigName": "b",
        "apiConfigs": {**document["apiConfigs"], "b": {"provider": "ollama", "model": "m"}},  # type: ignore[dict-item]
    }
    preferences.delete_profile("b")
    assert preferences.load_profiles().active_name == "a"


def test_a_key_does_not_follow_to_another_provider(tmp_path: Path) -> None:
    preferences = ConfigStore(tmp_path)
    preferences.save_profile(
        "p", {"provider": "anthropic", "apiKey": "k", "baseUrl": "http://a"}, activate=True
    )
    assert preferences.merge_profile({"provider": "openai"}).api_key is None
    assert preferences.merge_profile({"model": "x"}).api_key == "k"
    assert read(tmp_path / "profiles.json")["profiles"]["p"]["apiKey"] == "k"


def test_two_processes_that_change_settings_at_once_lose_nothing(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from joey.config.config_store import ConfigStore\n"
        "home, who = Path(sys.argv[1]), sys.argv[2]\n"
        "for n in range(40): ConfigStore(home).update_settings({f'{who}{n}': n})"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    both = [subprocess.Popen([*command, who]) for who in ("a", "b")]
    assert [each.wait(timeout=60) for each in both] == [0, 0]
    assert len(read(tmp_path / "settings.json")) == 80


def test_a_file_that_is_a_link_stays_one(tmp_path: Path) -> None:
    kept, home = tmp_path / "dotfiles/settings.json", tmp_path / "home"
    for directory in (kept.parent, home):
        directory.mkdir()
    kept.write_text("{}", encoding="utf-8")
    (home / "settings.json").symlink_to(kept)
    ConfigStore(home).update_settings({"mode": "ask"})
    assert (home / "settings.json").is_symlink()
    assert read(kept) == {"mode": "ask"}
