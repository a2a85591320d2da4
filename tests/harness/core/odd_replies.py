"""The corpus of odd replies, and what each of them means."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from joey.core.messages import Chunk, StopChunk, TextChunk
from joey.core.models import ToolProtocol
from joey.core.parsing.assembler import ReplyAssembler
from joey.tools.registry import Registry, build_default_tools

REPLIES: list[dict[str, Any]] = [
    reply
    for path in sorted(Path(__file__).parent.glob("odd_replies*.toml"))
    for reply in tomllib.loads(path.read_text(encoding="utf-8"))["reply"]
]


TOOLS = Registry(build_default_tools()).build_tool_names()


def find_calls(
    pieces: Sequence[str], protocol: ToolProtocol, stop: str
) -> list[tuple[str, dict[str, Any]]]:
    assembler = ReplyAssembler(
        protocol=protocol,
        tools=TOOLS,
        taken_ids=lambda id: False,
        make_id=lambda: "made",
    )
    chunks: list[Chunk] = [*map(TextChunk, pieces), StopChunk(stop)]
    for chunk in chunks:
        assembler.feed(chunk)
    assembler.close(complete=True)
    return [
        (call.name, call.input)
        for call in assembler.reply.calls
        if call.problem is None and (call.input or not TOOLS.by_name[call.name].find_problem({}))
    ]
