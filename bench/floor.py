"""The floor: the smallest loop that plays the same scenarios as joey does.

No prompt, no saving, no approvals, no events; one raw socket and `json`. It shows what the
machine and the interpreter cost by themselves. Run as `python floor.py HOST PORT WORDS`.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from typing import Any, BinaryIO

Message = dict[str, Any]


def main() -> None:
    host, port, prompt = sys.argv[1:]
    messages: list[Message] = [{"role": "user", "content": prompt}]
    with socket.create_connection((host, int(port))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = connection.makefile("rb")
        while True:
            connection.sendall(encode_request(messages))
            blocks = read_reply(stream)
            messages.append({"role": "assistant", "content": blocks})
            results = [run_call(block) for block in blocks if block["type"] == "tool_use"]
            if None in results:
                return
            messages.append({"role": "user", "content": results})


def encode_request(messages: list[Message]) -> bytes:
    body = {"model": "test-model", "max_tokens": 8192, "stream": True, "messages": messages}
    data = json.dumps(body).encode()
    head = f"POST /v1/messages HTTP/1.1\r\nHost: floor\r\nContent-Length: {len(data)}\r\n"
    return head.encode() + b"Content-Type: application/json\r\n\r\n" + data


def read_reply(stream: BinaryIO) -> list[Message]:
    """The content blocks of one streamed answer."""
    blocks: list[Message] = []
    pieces: list[list[str]] = []
    for event in read_events(stream):
        match event["type"]:
            case "content_block_start":
                blocks.append(event["content_block"])
                pieces.append([])
            case "content_block_delta":
                delta = event["delta"]
                pieces[event["index"]].append(delta.get("text") or delta.get("partial_json") or "")
    for block, parts in zip(blocks, pieces, strict=True):
        if block["type"] == "tool_use":
            block["input"] = json.loads("".join(parts) or "{}")
        else:
            block["text"] = "".join(parts)
    return blocks


def read_events(stream: BinaryIO) -> list[Any]:
    while stream.readline() != b"\r\n":
        pass
    body = []
    while size := int(stream.readline(), 16):
        body.append(stream.read(size))
        stream.readline()
    stream.readline()
    lines = b"".join(body).split(b"\n")
    return [json.loads(line[6:]) for line in lines if line.startswith(b"data: {")]


def run_call(block: Message) -> Message | None:
    """The result of one call; None for the completion."""
    arguments = block["input"]
    match block["name"]:
        case "read_file":
            path = arguments["files"][0]["path"] if "files" in arguments else arguments["path"]
            with open(path, encoding="utf-8") as file:  # noqa: PTH123 (pathlib costs 5 ms)
                content = file.read()
        case "write_to_file":
            with open(arguments["path"], "w", encoding="utf-8") as file:  # noqa: PTH123
                file.write(arguments["content"])
            content = "written"
        case "execute_command":
            content = subprocess.run(
                ["bash", "--noprofile", "--norc", "-c", arguments["command"]],
                capture_output=True,
                text=True,
                check=False,
            ).stdout
        case _:
            return None
    return {"type": "tool_result", "tool_use_id": block["id"], "content": content}


if __name__ == "__main__":
    main()
