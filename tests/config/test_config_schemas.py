"""The JSON Schemas of the user's files are those of the code, and say what the code says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from scripts.config_schemas import DIRECTORIES, build_schemas, render

from joey.config.profiles import load_profiles
from joey.config.settings import load_settings
from joey.errors import ConfigError
from tests.harness.paths import ROOT

SCHEMAS = build_schemas()


def is_valid(name: str, document: Any) -> bool:
    return bool(Draft202012Validator(SCHEMAS[name]).is_valid(document))


@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda directory: directory.parent.name)
def test_the_files_are_what_the_code_makes(directory: Path) -> None:
    assert {path.name for path in directory.iterdir()} == SCHEMAS.keys()
    for name, schema in SCHEMAS.items():
        Draft202012Validator.check_schema(schema)
        text = (directory / name).read_text(encoding="utf-8")
        assert text == render(schema), "renew it: .venv/bin/python -m scripts.config_schemas"


def test_every_setting_and_every_key_of_a_profile_says_what_it_means() -> None:
    settings = dict(SCHEMAS["settings.schema.json"]["properties"])
    del settings["$schema"]
    profile = SCHEMAS["profiles.schema.json"]["$defs"]["Profile"]["properties"]
    silent = [name for name, key in (settings | profile).items() if not key.get("description")]
    assert silent == []


SETTINGS = [
    {},
    {"$schema": "settings.schema.json", "sandbox": "required", "allowedCommands": ["npm test"]},
    {"sandboxNetwork": "registries"},
    {"sandboxNetwork": ["example.org", "registries"]},
    {"hooks": [{"event": "onAsk", "command": "true"}]},
    {"sandbox": "perhaps"},
    {"allowedCommands": "npm test"},
    {"consecutiveMistakeLimit": -1},
    {"autoCondenseContextPercent": 900},
    {"hooks": [{"event": "sometimes", "command": "true"}]},
]


@pytest.mark.parametrize("document", SETTINGS, ids=json.dumps)
def test_a_schema_takes_the_settings_that_the_code_takes(
    document: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "settings.json").write_text(json.dumps(document), encoding="utf-8")
    try:
        load_settings(tmp_path)
    except ConfigError:
        assert not is_valid("settings.schema.json", document)
    else:
        assert is_valid("settings.schema.json", document)


@pytest.mark.parametrize(
    "profile",
    [{"provider": "openai", "model": "a", "prices": {"input": 1, "output": 5}}, {"model": 5}],
    ids=json.dumps,
)
def test_a_schema_takes_the_profiles_that_the_code_takes(
    profile: dict[str, Any], tmp_path: Path
) -> None:
    document = {"active": "mine", "profiles": {"mine": profile}}
    (tmp_path / "profiles.json").write_text(json.dumps(document), encoding="utf-8")
    try:
        load_profiles(tmp_path)
    except ConfigError:
        assert not is_valid("profiles.schema.json", document)
    else:
        assert is_valid("profiles.schema.json", document)


def test_documented_modes_and_servers_fit_their_schemas() -> None:
    modes = yaml.safe_load((ROOT / "examples" / "modes" / "roomodes.yaml").read_text("utf-8"))
    assert is_valid("roomodes.schema.json", modes)
    modes["customModes"][0]["groups"] = ["everything"]
    assert not is_valid("roomodes.schema.json", modes)
    text = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
    blocks = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL)]
    servers = [block for block in blocks if "mcpServers" in block]
    assert servers
    assert all(is_valid("mcp.schema.json", block) for block in servers)
    assert not is_valid("mcp.schema.json", {"mcpServers": {"a": {"args": "one two"}}})
