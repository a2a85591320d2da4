"""A tiny MCP server without any library: one tool that works or fails, and one resource."""

from __future__ import annotations

import json
import sys
from typing import Any

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}
DESCRIPTION = "Tells the weather of a city."
TOOL = {"name": "forecast", "description": DESCRIPTION, "inputSchema": SCHEMA}
RESOURCE = {"uri": "weather://stations", "name": "stations"}


def answer_request(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method, params:
        case "initialize", {"protocolVersion": version}:
            info = {"name": "weather", "version": "1"}
            able: dict[str, Any] = {"tools": {}, "resources": {}}
            return {"protocolVersion": version, "capabilities": able, "serverInfo": info}
        case "tools/list", _:
            return {"tools": [TOOL]}
        case "resources/list", _:
            return {"resources": [RESOURCE]}
        case "resources/templates/list", _:
            return {"resourceTemplates": []}
        case "resources/read", {"uri": "weather://stations"}:
            return {"contents": [{"uri": "weather://stations", "text": "Perth, Hobart"}]}
        case "tools/call", {"arguments": {"city": "Atlantis"}}:
            return {"content": [{"type": "text", "text": "It sank."}], "isError": True}
        case "tools/call", {"arguments": arguments}:
            text = f"{arguments['city']}: sun for {arguments.get('days', 1)!r} days"
            return {"content": [{"type": "text", "text": text}]}
    raise LookupError(f"{method} has no answer here")


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        try:
            reply = {"result": answer_request(message["method"], message.get("params") or {})}
        except LookupError as error:
            reply = {"error": {"code": -32601, "message": str(error)}}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
