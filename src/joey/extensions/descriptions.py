"""What a file says about itself as a tool, checked before any model or provider sees it."""

from __future__ import annotations

import re

import msgspec

from joey.core.regex import regex
from joey.errors import ToolError
from joey.ports import CustomToolInfo

LONGEST = 20_000
"""Characters of a description, or of a schema as JSON."""
_NAME = regex(r"(?!mcp[-_])[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)
_PARAMETER = regex(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)


def check_tool(info: CustomToolInfo) -> None:
    """Raises ToolError: a provider would refuse it, and with it the whole request."""
    if not _NAME.fullmatch(info.name):
        raise ToolError(f"{info.name[:80]!r} cannot be the name of a tool")
    if len(info.description) > LONGEST or len(msgspec.json.encode(info.schema)) > LONGEST:
        raise ToolError(f"its description or its schema has more than {LONGEST:,} characters")
    properties = info.schema.get("properties", {})
    required = info.schema.get("required", [])
    if info.schema.get("type") != "object" or not isinstance(properties, dict):
        raise ToolError("its schema is not that of an object with `properties`")
    for name, schema in properties.items():
        if not _PARAMETER.fullmatch(name) or not isinstance(schema, dict):
            raise ToolError(f"its parameter {name[:80]!r} cannot be one")
    if not isinstance(required, list) or not all(name in properties for name in map(str, required)):
        raise ToolError("its schema requires parameters that it does not have")
