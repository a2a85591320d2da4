"""A small MCP server without any library, which misbehaves as its tools are asked to.

Run as a program. `--garbage`, `--deaf`, `--stubborn`, `--flood`, `--asks`, `--modern` change how
it lives; `--wrong` adds a tool that only fails; `--log FILE` notes what it was told.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

TOOLS: dict[str, dict[str, Any]] = {
    "echo": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    "big": {"type": "object", "properties": {"megabytes": {"type": "integer"}}},
    "never": {"type": "object", "properties": {}},
    "die": {"type": "object", "properties": {}},
    "fail": {"type": "object", "properties": {}},
    "grow": {"type": "object", "properties": {}},
    "environment": {"type": "object", "properties": {}},
    "pid": {"type": "object", "properties": {}},
    "redescribe": {"type": "object", "properties": {}},
}
flags = set(sys.argv[1:])
if "--wrong" in flags:
    TOOLS["wrong"] = {"type": "object", "properties": {}}
grown: list[str] = []
descriptions = ["A tool."]


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def note(line: str) -> None:
    if "--log" in sys.argv:
        path = Path(sys.argv[sys.argv.index("--log") + 1])
        with path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def text(content: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": content}], **more}


def call(id: Any, name: str, arguments: dict[str, Any]) -> None:
    match name:
        case "echo":
            say(id=id, result=text(arguments["text"]))
        case "big":
            # The id comes last, as some libraries have it.
            filler = "x" * (int(arguments.get("megabytes", 1)) * 1_000_000)
            out = sys.stdout
            out.write('{"result": {"content": [{"type": "text", "text": "')
            out.write(filler)
            out.write('"}]}, "jsonrpc": "2.0", "id": ' + json.dumps(id) + "}\n")
            out.flush()
        case "never":
            note("never was called")
        case "die":
            sys.stderr.write("something is very wrong\n")
            sys.stderr.flush()
            os._exit(7)
        case "fail":
            say(id=id, error={"code": -32000, "message": "it does not want to"})
        case "grow":
            grown.append(f"grown_{len(grown) + 1}")
            say(method="notifications/tools/list_changed")
            say(id=id, result=text("grown"))
        case "redescribe":
            descriptions.append("Another tool, really.")
            say(method="notifications/tools/list_changed")
            say(id=id, result=text("described anew"))
        case "environment":
            say(id=id, result=text(json.dumps(dict(os.environ))))
        case "pid":
            say(id=id, result=text(str(os.getpid())))
        case _:
            say(id=id, result=text(f"no tool {name}", isError=True))


def answer(message: dict[str, Any]) -> None:
    id, params = message.get("id"), message.get("params", {})
    match message.get("method"):
        case "initialize" if "--modern" in flags:
            say(id=id, error={"code": -32601, "message": "no such method"})
        case "initialize":
            say(
                id=id,
                result={
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": {"name": "tiny", "version": "1"},
                    "instructions": "Be gentle.",
                },
            )
        case "server/discover" if "--modern" in flags:
            result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
            rest = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
            say(id=id, result=result | rest)
        case "tools/list":
            names = [*TOOLS, *grown]
            nothing = {"type": "object", "properties": {}}
            tools = [
                {
                    "name": name,
                    "description": descriptions[-1],
                    "inputSchema": TOOLS.get(name, nothing),
                }
                for name in names
            ]
            more = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
            say(id=id, result={"tools": tools} | (more if "--modern" in flags else {}))
        case "tools/call":
            call(id, params["name"], params.get("arguments") or {})
        case "notifications/cancelled":
            note("cancelled")
        case None:
            note("answered")
        case _ if id is not None:
            say(id=id, error={"code": -32601, "message": "no such method"})


def main() -> None:
    note(f"started {os.getpid()}")
    if "--stubborn" in flags:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "--garbage" in flags:
        sys.stdout.write("Hello! Listening on standard output :-)\n{not json}\n\x00\xff\n")
        sys.stdout.flush()
    if "--deaf" in flags:
        while True:
            time.sleep(60)
    for line in sys.stdin:
        message = json.loads(line)
        answer(message)
        if message.get("method") == "notifications/initialized":
            if "--flood" in flags:
                for number in range(20_000):
                    say(method="notifications/message", params={"level": "info", "data": number})
                for _ in range(500):
                    say(method="notifications/tools/list_changed")
            if "--asks" in flags:
                for number in range(1_000_000):
                    say(method="ping", id=f"ping-{number}")
    note("its input ended")
    while "--stubborn" in flags:
        time.sleep(60)


if __name__ == "__main__":
    main()
