"""A local model server on loopback: the pages that tell of its models, and scripted replies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from msgspec import Struct

CHAT_PATHS = ("/v1/chat/completions", "/api/chat")


class Answer(Struct, frozen=True):
    body: bytes
    status: int = 200
    content_type: str = "text/event-stream"
    ollama_body: bytes = b""
    """The same at `/api/chat`."""
    is_broken_off: bool = False
    """The connection ends in the middle of the body."""


class LocalModelServer(Struct, frozen=True):
    port: int
    pages: dict[str, Any]
    asked: list[str]
    """Paths of the pages that were asked for."""
    chats: list[dict[str, Any]]
    """Bodies of the requests to the model."""
    chat_paths: list[str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def refuse(status: int, document: object) -> Answer:
    return Answer(json.dumps(document).encode(), status, "application/json")


def say(text: str, prompt_tokens: int = 3000) -> Answer:
    """A stream with one piece of text."""
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 10}
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": usage},
    ]
    own = {"message": {"role": "assistant", "content": text}, "done": True, "done_reason": "stop"}
    own |= {"prompt_eval_count": prompt_tokens, "eval_count": 10}
    return Answer(stream_chunks(*chunks).body, ollama_body=f"{json.dumps(own)}\n".encode())


def stream_chunks(*chunks: Mapping[str, object]) -> Answer:
    lines = [f"data: {json.dumps({'id': 'c', **chunk})}\n\n" for chunk in chunks]
    return Answer("".join([*lines, "data: [DONE]\n\n"]).encode())


def stream_call(
    name: str,
    arguments: Mapping[str, object],
    usage: object = None,
    delta: Mapping[str, object] | None = None,
) -> Answer:
    """A stream with one native call, after what `delta` says."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"index": 0, "id": f"call_{uuid4().hex}", "type": "function"}
    called = {"role": "assistant", "tool_calls": [{**call, "function": function}]}
    return stream_chunks(
        {"choices": [{"index": 0, "delta": delta or {}}]},
        {"choices": [{"index": 0, "delta": called}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        {"choices": [], "usage": usage or {"prompt_tokens": 3000, "completion_tokens": 10}},
    )


def finish(result: str = "All done.", prompt_tokens: int = 3000) -> Answer:
    """An XML call that ends the task; understood in a native task as well."""
    text = f"<attempt_completion>\n<result>{result}</result>\n</attempt_completion>"
    return say(text, prompt_tokens)


def list_files(path: str = ".", prompt_tokens: int = 3000) -> Answer:
    return say(f"<list_files>\n<path>{path}</path>\n</list_files>", prompt_tokens)


@asynccontextmanager
async def local_model_server(
    pages: Mapping[str, object],
    answers: Sequence[Answer] | Callable[[dict[str, Any]], Answer | Awaitable[Answer]] = (),
    port: int = 0,
) -> AsyncIterator[LocalModelServer]:
    """Plays the answers in order, the last one again and again; or asks a function for each."""
    made = LocalModelServer(0, dict(pages), [], [], [])
    left = [] if callable(answers) else list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split(" ")[1]
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
        body = await reader.readexactly(int(fields.get("content-length", 0)))
        if path in CHAT_PATHS and answers:
            made.chats.append(json.loads(body))
            made.chat_paths.append(path)
            if callable(answers):
                made_answer = answers(made.chats[-1])
                answer = made_answer if isinstance(made_answer, Answer) else await made_answer
            else:
                answer = left.pop(0) if len(left) > 1 else left[0]
        else:
            made.asked.append(path)
            found = made.pages.get(path)
            if isinstance(found, Answer):
                answer = found
            else:
                answer = refuse(200 if found is not None else 404, found or {"error": "not found"})
        if path == "/api/chat" and answer.ollama_body:
            answer = Answer(
                answer.ollama_body,
                content_type="application/x-ndjson",
                is_broken_off=answer.is_broken_off,
            )
        writer.write(
            b"HTTP/1.1 %d X\r\nconnection: close\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n"
            % (answer.status, answer.content_type.encode(), len(answer.body))
        )
        writer.write(answer.body[: len(answer.body) // 2] if answer.is_broken_off else answer.body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield LocalModelServer(port, made.pages, made.asked, made.chats, made.chat_paths)
