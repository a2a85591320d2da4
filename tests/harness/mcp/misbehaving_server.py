"""A server that speaks the protocol badly, in a way of its own for each tool.

Run as a program with the name of a manner of living and a folder for its log; `misbehaving` gives
the entry for that.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

BEHAVIOURS = ("plain", "hang-lists", "inventive", "verbose", "redescribing", "wrong-ids", "asking")
TOOLS = """echo pid twice half_a_letter latin progress slow pictures many_parts many_icons
deaf change silent""".split()  # noqa: SIM905


def misbehaving(behaviour: str, directory: Path, **entry: Any) -> dict[str, Any]:
    assert behaviour in BEHAVIOURS
    return {
        "command": sys.executable,
        "args": [__file__, behaviour, str(directory / "log")],
        **entry,
    }


def raw(data: bytes) -> None:
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.buffer.flush()


def say(**message: Any) -> None:
    raw(json.dumps({"jsonrpc": "2.0", **message}).encode())


def note(line: str) -> None:
    with Path(sys.argv[2]).open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def text(content: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": content}]}


def in_text(id: int, content: bytes) -> bytes:
    start = b'{"jsonrpc": "2.0", "id": %d, "result": {"content": [{"type": "text", "text": "'
    return start % id + content + b'"}]}}'


def call(id: int, name: str, params: dict[str, Any]) -> None:
    arguments = params.get("arguments") or {}
    match name:
        case "echo":
            say(id=id, result=text(arguments["text"]))
        case "pid":
            say(id=id, result=text(str(os.getpid())))
        case "twice":
            say(id=id, result=text("one"))
            say(id=id, result=text("two"))
        case "half_a_letter":
            raw(in_text(id, rb"a\ud83d!"))
        case "latin":
            raw(in_text(id, b"caf\xe9"))
        case "progress":
            token = params["_meta"]["progressToken"]
            progress = {"progressToken": token, "progress": 1, "message": "m" * 1_000_000}
            for _ in range(20):
                say(method="notifications/progress", params=progress)
            say(id=id, result=text("done"))
        case "slow":
            note("slow")
            threading.Timer(0.3, lambda: say(id=id, result=text(arguments["text"]))).start()
        case "pictures":
            say(id=id, result={"content": arguments["pictures"]})
        case "many_parts":
            say(id=id, result={"content": [{}] * 1_000_000})
        case "many_icons":
            link = {"type": "resource_link", "uri": "a:b", "name": "n", "icons": [{}] * 1_000_000}
            say(id=id, result={"content": [link]})
        case "deaf":
            say(id=id, result=text("from now on"))
            time.sleep(3600)
        case "change":
            say(id=id, result=text("changed"))
            say(method="notifications/tools/list_changed")


def main() -> None:
    behaviour, lists = sys.argv[1], 0
    note(f"started {os.getpid()}")
    for line in sys.stdin:
        message = json.loads(line)
        id, params = message.get("id"), message.get("params") or {}
        match message.get("method"):
            case None:
                note(f"answered {line.strip()}")
            case "initialize":
                if behaviour == "wrong-ids":
                    for wrong in (999, "1x", -1, None):
                        say(id=wrong, error={"code": 1, "message": "no"})
                greet(id, params["protocolVersion"], behaviour)
            case "notifications/initialized" if behaviour == "asking":
                for method in ("sampling/createMessage", "roots/list", "elicitation/create"):
                    wanted = {"messages": [], "maxTokens": 1, "message": "?", "requestedSchema": {}}
                    say(id=method, method=method, params=wanted)
            case "tools/list":
                lists += 1
                if behaviour == "hang-lists" and lists > 1:
                    note("hanging")
                else:
                    say(id=id, result={"tools": tools(behaviour, lists)})
            case "tools/call":
                call(id, params["name"], params)
            case "notifications/cancelled":
                note("cancelled")
            case _ if id is not None:
                say(id=id, error={"code": -32601, "message": "no such method"})


def greet(id: Any, version: str, behaviour: str) -> None:
    result = {
        "protocolVersion": version,
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "rude", "version": "1"},
        "instructions": "x" * (1_000_000 if behaviour == "verbose" else 1),
    }
    say(id=id, result=result)


def tools(behaviour: str, lists: int) -> list[dict[str, Any]]:
    names = list(TOOLS)
    if behaviour in ("inventive", "verbose"):
        names += [f"new_{lists}_{number}" for number in range(900)]
    description = f"Number {lists}." if behaviour == "redescribing" else "A tool."
    size = 9_000 if behaviour == "verbose" else 0
    schema = {"type": "object", "properties": {}}
    return [
        {"name": name, "description": description + "y" * size, "inputSchema": schema}
        for name in names
    ]


if __name__ == "__main__":
    main()
