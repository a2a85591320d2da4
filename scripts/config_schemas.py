"""JSON Schemas of the files that users write, made from the types that read them.

`python -m scripts.config_schemas` writes them to `src/joey/schemas`, which is in the wheel, and to
`docs/schemas`. A test compares them with what this makes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from joey.config.config_keys import ConfigKey, describe_profile_keys, describe_setting_keys
from joey.core.modes import ToolGroup
from joey.core.settings import Profile, Settings
from joey.mcp.config import SERVERS_KEY, ServerEntry

ROOT = Path(__file__).parent.parent
DIRECTORIES = (ROOT / "src" / "joey" / "schemas", ROOT / "docs" / "schemas")
DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]
_TEXT: Schema = {"type": "string"}


def build_schemas() -> dict[str, Schema]:
    """By the names of their files."""
    return {
        "settings.schema.json": _build_settings_schema(),
        "profiles.schema.json": _build_profiles_schema(),
        "roomodes.schema.json": _build_modes_schema(),
        "mcp.schema.json": _build_mcp_schema(),
    }


def render(schema: Schema) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _describe_shapes(of: type, keys: Mapping[str, ConfigKey]) -> dict[str, Schema]:
    """The shapes of a type and of those in it, with what each key means."""
    _, shapes = msgspec.json.schema_components([of], ref_template="#/$defs/{name}")
    properties = shapes[of.__name__]["properties"]
    for name, key in keys.items():
        properties[name]["description"] = key.description
    return shapes


def _build_settings_schema() -> Schema:
    shapes = _describe_shapes(Settings, describe_setting_keys())
    settings = shapes.pop("Settings")
    settings["properties"] = {"$schema": _TEXT, **settings["properties"]}
    title = {"title": "joey: settings.json", "description": "Settings of joey"}
    return {"$schema": DIALECT, **settings, **title, "$defs": shapes}


def _build_profiles_schema() -> Schema:
    shapes = _describe_shapes(Profile, describe_profile_keys())
    del shapes["Profile"]["properties"]["name"]  # it is the key
    return {
        "$schema": DIALECT,
        "title": "joey: profiles.json",
        "type": "object",
        "properties": {
            "active": {**_TEXT, "description": "The profile that is used unless another is named."},
            "profiles": {
                "type": "object",
                "additionalProperties": {"$ref": "#/$defs/Profile"},
                "description": "Ways to reach a model, by name.",
            },
        },
        "$defs": shapes,
    }


def _build_modes_schema() -> Schema:
    group = {"enum": [each.value for each in ToolGroup if each is not ToolGroup.ALWAYS]}
    limits = {
        "type": "object",
        "properties": {
            "fileRegex": {**_TEXT, "description": "The paths that may be edited."},
            "description": _TEXT,
        },
    }
    limited = {"type": "array", "prefixItems": [group, limits], "minItems": 1, "maxItems": 2}
    texts = {
        "slug": {**_TEXT, "pattern": "^[a-zA-Z0-9-]+$"},
        "name": _TEXT,
        "roleDefinition": {**_TEXT, "description": "Who the model is in this mode."},
        "description": {**_TEXT, "description": "For people who choose a mode."},
        "whenToUse": {**_TEXT, "description": "For the model, which may switch to it."},
        "customInstructions": _TEXT,
    }
    mode = {
        "type": "object",
        "properties": {**texts, "groups": {"type": "array", "items": {"anyOf": [group, limited]}}},
        "required": ["slug", "name", "roleDefinition", "groups"],
    }
    return {
        "$schema": DIALECT,
        "title": "joey: .roomodes and modes.yaml",
        "type": "object",
        "properties": {"customModes": {"type": "array", "items": mode}},
        "required": ["customModes"],
    }


def _build_mcp_schema() -> Schema:
    shapes = _describe_shapes(ServerEntry, {})
    servers = {"type": "object", "additionalProperties": {"$ref": "#/$defs/ServerEntry"}}
    return {
        "$schema": DIALECT,
        "title": "joey: mcp.json",
        "type": "object",
        "properties": {"$schema": _TEXT, SERVERS_KEY: servers},
        "$defs": shapes,
    }


if __name__ == "__main__":
    for directory in DIRECTORIES:
        directory.mkdir(exist_ok=True)
        for name, schema in build_schemas().items():
            (directory / name).write_text(render(schema), encoding="utf-8")
