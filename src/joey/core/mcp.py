"""MCP servers and their tools: values, tool names, argument schemas, paths of settings files.

A tool is offered as `mcp--<server>--<tool>` (decision D2), in the characters that every provider
accepts. Models return such names altered: with other separators, without the prefix, with `-` and
`_` confused; `fold_tool_name` makes all of these equal.

Providers accept one object with properties as a schema. Servers may put `anyOf`, `oneOf`, `allOf`
or a reference at the top; `normalize_schema` merges the alternatives: every property is allowed,
and only those that all alternatives require are required.

Every task checks for the settings files, and most find none: then only `leases` of `joey.mcp` is
loaded.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field

from joey.core.text import compile_regex


class McpStatus(StrEnum):
    CONNECTED = "connected"
    CONNECTING = "connecting"
    DISCONNECTED = "disconnected"
    DISABLED = "disabled"
    UNTRUSTED = "untrusted"


class McpTool(Struct, frozen=True, omit_defaults=True):
    name: str
    description: str = ""
    schema: dict[str, Any] = {}
    """JSON Schema of the arguments, as the server gave it."""
    always_allowed: bool = False
    """Listed in `alwaysAllow` of the server's settings, and the same as when it was first seen."""
    has_changed: bool = field(default=False, name="changed")
    """The server describes it otherwise than when it was last used."""
    enabled: bool = True
    """Not listed in `disabledTools`."""


class McpResource(Struct, frozen=True, omit_defaults=True):
    uri: str
    """Of a template: `file:///{path}`."""
    name: str = ""
    description: str = ""
    mime_type: str = ""
    is_template: bool = False


class McpServer(Struct, frozen=True, omit_defaults=True):
    name: str
    source: Literal["project", "global"] = "project"
    status: McpStatus = McpStatus.CONNECTING
    error: str = ""
    """Why it is not connected, for people."""
    command_or_url: str = field(default="", name="command")
    """How it is reached: a command line or an address, without secrets."""
    instructions: str = ""
    tools: tuple[McpTool, ...] = ()
    """Sorted by name. Of a server that is away for the moment: those it had."""
    resources: tuple[McpResource, ...] = ()

    @property
    def enabled_tools(self) -> tuple[McpTool, ...]:
        """The enabled tools, which the model may see."""
        return tuple(tool for tool in self.tools if tool.enabled)


class McpResult(Struct, frozen=True, omit_defaults=True):
    text: str
    images: tuple[str, ...] = ()
    """Data URIs."""
    is_error: bool = False


MAX_TOOL_NAME_CHARS = 64
TOOL_NAME_PREFIX = "mcp"
TOOL_NAME_SEPARATOR = "--"

_INVALID_NAME_CHARS_RE = compile_regex(r"[^A-Za-z0-9_-]")
_INVALID_PROPERTY_CHARS_RE = compile_regex(r"[^A-Za-z0-9_.-]")
_DASH_RUN_RE = compile_regex(r"--+")
_SEPARATOR_RUN_RE = compile_regex(r"[-_]+")
_DOUBLE_SEPARATOR_RE = compile_regex(r"--|__")


def build_tool_name(server: str, tool: str) -> str:
    """Build a tool name such as `mcp--weather--get_forecast`."""
    parts = (TOOL_NAME_PREFIX, sanitize_name(server, "_"), sanitize_name(tool, "_unnamed"))
    return TOOL_NAME_SEPARATOR.join(parts)[:MAX_TOOL_NAME_CHARS]


def sanitize_name(name: str, default: str) -> str:
    kept = _DASH_RUN_RE.sub("-", _INVALID_NAME_CHARS_RE.sub("", name.replace(" ", "_")))
    if not kept:
        return default
    return kept if kept[0].isalpha() or kept[0] == "_" else f"_{kept}"


def fold_tool_name(name: str) -> str | None:
    """Fold all altered forms of a tool name into one; None if it names no MCP tool."""
    if not _DOUBLE_SEPARATOR_RE.search(name):
        return None
    plain = _SEPARATOR_RUN_RE.sub("_", name).strip("_")
    return plain.removeprefix(f"{TOOL_NAME_PREFIX}_")


def equals_ignoring_dashes(first: str, second: str) -> bool:
    """Whether the names are equal except for `-` and `_`."""
    return first.replace("-", "_") == second.replace("-", "_")


_ALTERNATIVE_KEYS = ("anyOf", "oneOf")
_ALL_OF_KEY = "allOf"
_DROPPED_TOP_LEVEL_KEYS = (
    "$schema",
    "$id",
    "$ref",
    *_ALTERNATIVE_KEYS,
    _ALL_OF_KEY,
    "not",
    "if",
    "then",
    "else",
    "enum",
    "const",
)
_MAX_SUBSCHEMAS = 200
_MAX_SCHEMA_DEPTH = 20

ObjectMembers = tuple[dict[str, Any], list[str]]
"""Properties, and the names of those that are required."""


def normalize_schema(schema: object) -> dict[str, Any]:
    """Normalize a schema; unchanged if it is usable, an object with any properties if nothing is
    known."""
    if not isinstance(schema, dict):
        return {"type": "object", "properties": {}}
    properties, required = _SchemaMerger(schema).collect_members(schema)
    flat = {
        key: value
        for key, value in schema.items()
        if key not in (*_DROPPED_TOP_LEVEL_KEYS, "required")
    }
    flat |= {"type": "object", "properties": properties}
    names = [name for name in required if name in properties]
    return flat | {"required": names} if names else flat


def rename_properties(schema: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the schema with property names that every service accepts, and the original names by
    these."""
    properties = schema["properties"]
    originals: dict[str, str] = {}
    for name in properties:
        safe = base = _INVALID_PROPERTY_CHARS_RE.sub("_", name)[:MAX_TOOL_NAME_CHARS] or "_"
        number = 2
        while safe in originals or (safe != name and safe in properties):
            safe, number = f"{base[:-4]}_{number}", number + 1
        originals[safe] = name
    renamed = {**schema, "properties": {safe: properties[originals[safe]] for safe in originals}}
    if required := schema.get("required"):
        renamed["required"] = [safe for safe, name in originals.items() if name in required]
    return renamed, originals


_PLAIN_KEYWORDS = frozenset(
    {"type", "properties", "required", "items", "additionalProperties", "$schema", "title"}
    | {"description", "default", "examples"}
)
_PLAIN_TYPES: dict[object, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
}


def plainly_fits(schema: object, value: object) -> bool:
    """Whether a value fits a schema of common keywords. False if it does not, or if only a
    validator can tell."""
    if not isinstance(schema, dict) or not schema.keys() <= _PLAIN_KEYWORDS:
        return False
    kind = schema.get("type")
    types = _PLAIN_TYPES.get(kind, ()) if isinstance(kind, str) else ()
    if not isinstance(value, types) or (isinstance(value, bool) and kind != "boolean"):
        return False
    if isinstance(value, list):
        return "items" not in schema or all(plainly_fits(schema["items"], each) for each in value)
    if isinstance(value, dict):
        properties = _as_dict(schema.get("properties"))
        is_complete = all(name in value for name in _as_list(schema.get("required")))
        return is_complete and all(
            plainly_fits(properties.get(name), each) for name, each in value.items()
        )
    return True


class _SchemaMerger:
    """Merges the alternatives of a schema; recursion is limited, since a schema may refer to
    itself."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root_schema = root
        self._remaining_subschemas = _MAX_SUBSCHEMAS

    def collect_members(self, schema: dict[str, Any], depth: int = 0) -> ObjectMembers:
        self._remaining_subschemas -= 1
        if self._remaining_subschemas < 0 or depth > _MAX_SCHEMA_DEPTH:
            return {}, []
        schema = self._resolve_reference(schema)
        properties = _as_dict(schema.get("properties"))
        required = [name for name in _as_list(schema.get("required")) if isinstance(name, str)]
        for more, needed in self._collect_subschema_members(schema.get(_ALL_OF_KEY), depth):
            properties = {**more, **properties}
            required += needed
        for key in _ALTERNATIVE_KEYS:
            parts = self._collect_subschema_members(schema.get(key), depth)
            for more, _ in parts:
                properties = {**more, **properties}
            if parts:
                required += sorted(set.intersection(*(set(needed) for _, needed in parts)))
        return properties, list(dict.fromkeys(required))

    def _collect_subschema_members(self, value: object, depth: int) -> list[ObjectMembers]:
        return [
            self.collect_members(part, depth + 1)
            for part in _as_list(value)
            if isinstance(part, dict)
        ]

    def _resolve_reference(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Resolve a reference within the document by one step."""
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        found: Any = self._root_schema
        for step in reference[2:].split("/"):
            found = found.get(step) if isinstance(found, dict) else None
        return {**_as_dict(found), **schema}


def _as_dict(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, dict) else {}


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


USER_CONFIG_FILE_NAMES = ("mcp.json", "mcp_settings.json")
"""In the user's folder; the first is ours, the second is Roo's, and the first wins."""
PROJECT_CONFIG_FILE = Path(".roo", "mcp.json")
SERVER_WORKING_DIRECTORY_NAME = "mcp"
"""In the user's folder: where servers of their own start, with nothing in it."""


def list_config_paths(home: Path, workspace: Path) -> tuple[Path, ...]:
    """List the project's file, then the user's; the first definition of a name counts."""
    return (workspace / PROJECT_CONFIG_FILE, *(home / name for name in USER_CONFIG_FILE_NAMES))
