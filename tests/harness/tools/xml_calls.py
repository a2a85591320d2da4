"""XML calls, parsed for one tool."""

from __future__ import annotations

from typing import Any

from joey.core.messages import CallPart, StopChunk, TextChunk, ToolCall
from joey.core.models import ToolProtocol
from joey.core.parsing.assembler import ReplyAssembler
from joey.tools.registry import Registry, build_default_tools

registry = Registry(build_default_tools())


def only_call(text: str) -> ToolCall:
    assembler = ReplyAssembler(
        protocol=ToolProtocol.XML,
        tools=registry.build_tool_names(),
        taken_ids=lambda call_id: False,
        make_id=lambda: "call",
    )
    assembler.feed(TextChunk(text))
    assembler.feed(StopChunk(reason="stop"))
    assembler.close(complete=True)
    calls = [part.call for part in assembler.reply.parts if isinstance(part, CallPart)]
    assert len(calls) == 1
    return calls[0]


def parsed(text: str) -> Any:
    call = only_call(text)
    return registry.find(call.name).parse(call.input)
