from __future__ import annotations

import os
from pathlib import Path

import pytest

from joey.config.settings import describe_unknown_settings, load_settings
from joey.core.settings import Settings
from joey.errors import ConfigError


def write(home: Path, text: str) -> Path:
    path = home / "settings.json"
    path.write_text(text, encoding="utf-8")
    return path


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    assert load_settings(tmp_path / "nowhere") == Settings()


def test_known_keys_are_read_and_unknown_ones_passed_over(tmp_path: Path) -> None:
    write(
        tmp_path,
        '{"alwaysAllowWrite": true, "allowedCommands": ["git log"], "allowedMaxCost": 2,'
        ' "ttsEnabled": true, "experiments": {"x": [1]}}',
    )
    settings = load_settings(tmp_path)
    assert settings == Settings(
        always_allow_write=True, allowed_commands=("git log",), allowed_max_cost=2.0
    )


def test_a_byte_order_mark_is_no_error(tmp_path: Path) -> None:
    write(tmp_path, '\ufeff{"mode": "ask"}')
    assert load_settings(tmp_path).mode == "ask"


@pytest.mark.contract("cli:config")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n  "mode": "code",\n  "maxRetries": 3,,\n}', r"line 3, column 19: not valid JSON"),
        ('{"mode": "code"', r"line 1, column 16: not valid JSON"),
        ("", r"line 1, column 1: not valid JSON"),
        ('{"allowedMaxCost": NaN}', r"not valid JSON \(NaN is not a number\)"),
        ('{"maxRetries": ' + "9" * 5000 + "}", r"not valid JSON"),
        ("[]", r"must hold a JSON object"),
        ("[" * 100_000, r"nested too deeply"),
        ('{"maxRetries": "six"}', r"`maxRetries`: Expected `int`, got `str`. Correct it"),
        ('{"alwaysAllowWrite": "yes"}', r"`alwaysAllowWrite`: This must be true or false. Correct"),
        ('{"allowedCommands": ["a", 5]}', r"`allowedCommands\[1\]`: Expected `str`, got `int`"),
        ('{"terminalOutputPreviewSize": "huge"}', r"`terminalOutputPreviewSize`: This value is"),
    ],
)
def test_a_wrong_file_is_an_error_that_names_file_place_and_remedy(
    tmp_path: Path, text: str, message: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_settings(tmp_path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_no_text_or_no_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b'{"mode": "\xff"}')
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_settings(tmp_path)
    path.unlink()
    path.mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        load_settings(tmp_path)


def test_nobody_waits_for_a_pipe_in_place_of_the_settings(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "settings.json")
    with pytest.raises(ConfigError, match="pipe"):
        load_settings(tmp_path)


def test_keys_that_nothing_reads_are_named_with_what_was_probably_meant(tmp_path: Path) -> None:
    text = '{"alwaysAllowWrites": true, "always_allow_mcp": true, "xyz": 1, "apiKey": "k"'
    path = write(tmp_path, text + ', "ttsEnabled": true, "mode": "ask"}')
    assert describe_unknown_settings(tmp_path) == (
        f"{path}: `alwaysAllowWrites` is not used: there is no such setting."
        " Did you mean `alwaysAllowWrite`?",
        f"{path}: `always_allow_mcp` is not used: there is no such setting."
        " Did you mean `alwaysAllowMcp`?",
        f"{path}: `xyz` is not used: there is no such setting.",
        f"{path}: `apiKey` is not used: it belongs in a profile of profiles.json.",
    )
    assert describe_unknown_settings(tmp_path / "nowhere") == ()
