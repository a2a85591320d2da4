"""An MCP server whose tools are valid, and refused by services, each in its own way."""

from __future__ import annotations

import json
import sys
from typing import Any

TREE = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "left": {"$ref": "#/$defs/tree"},
        "right": {"$ref": "#/$defs/tree", "description": "The other one."},
    },
}
TOOLS: dict[str, Any] = {
    "grow": {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/tree"}},
        "$defs": {"tree": TREE},
    },
    "choose": {
        "type": "object",
        "properties": {
            "text": {"type": "string", "anyOf": [{"pattern": "^a"}, {"minLength": 3}]},
            "either": {"oneOf": [{"const": 5}, {"type": "null"}, True]},
            "number": {"enum": [1, 2, 3]},
            "mixed": {"enum": ["a", 1, None]},
            "shape": {
                "type": "object",
                "properties": {"kind": {"type": "string"}},
                "oneOf": [{"properties": {"width": {"type": "number"}}, "required": ["width"]}],
            },
            "list": {"type": ["array", "null"], "properties": {"x": {}}, "required": ["x"]},
        },
        "anyOf": [{"required": ["text"]}, {"required": ["number"]}],
    },
    "write": {
        "type": "object",
        "properties": {
            "a key!": {"type": "string"},
            "$value": True,
            "never": False,
            "anything": {"description": "Any value."},
            "pair": {"type": "array", "items": [{"type": "string"}, {"type": "number"}]},
            "rest": {"type": "array", "items": False, "prefixItems": [{"type": "string"}]},
        },
        "required": ["a key!"],
    },
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            info = {"name": "odd", "version": "1"}
            version = params["protocolVersion"]
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            tools = [{"name": name, "inputSchema": schema} for name, schema in TOOLS.items()]
            tools[0]["description"] = "Grows a tree. " * 200
            return {"tools": tools}
        case "tools/call":
            return {"content": [{"type": "text", "text": json.dumps(params["arguments"])}]}
        case _:
            return {}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = answer(request["method"], request.get("params", {}))
        said = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result})
        sys.stdout.write(said + "\n")
        sys.stdout.flush()
