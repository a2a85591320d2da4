"""Feeding the assembler in every possible cut, and what must hold of its events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import pairwise

from hypothesis import strategies as st

from joey.core.messages import (
    CallChunk,
    CallEndChunk,
    CallPart,
    Chunk,
    ReasoningChunk,
    ReasoningPart,
    Reply,
    StopChunk,
    TextChunk,
    TextPart,
    Usage,
    UsageChunk,
)
from joey.core.models import ToolProtocol
from joey.core.parsing.assembler import ReplyAssembler
from joey.core.parsing.call_names import KnownTool, ToolNames
from joey.core.parsing.parts import (
    PartDelta,
    PartEnded,
    PartEvent,
    PartReclassified,
    PartStarted,
)

TOOLS: Mapping[str, frozenset[str]] = {
    "read_file": frozenset({"args", "file", "path", "line_range", "start_line", "end_line"}),
    "write_to_file": frozenset({"path", "content"}),
    "write_file": frozenset({"path", "content"}),
    "apply_diff": frozenset({"path", "diff", "args"}),
    "search_replace": frozenset({"file_path", "old_string", "new_string"}),
    "execute_command": frozenset({"command", "cwd"}),
    "attempt_completion": frozenset({"result", "command"}),
    "list_files": frozenset({"path", "recursive"}),
}

# Pieces that hit the borders of every state when they are strung together.
XML_PIECES = [
    *("<write_to_file>", "</write_to_file>", "<path>", "</path>", "<content>", "</content>"),
    *("<read_file>", "</read_file>", "<args>", "</args>", "<file>", "</file>", "<file_text>"),
    *("<execute_command>", "</execute_command>", "<command>", "</command>", "`<read_file>`"),
    *("<line_range>", "</line_range>", "<![CDATA[", "]]>", "`</content>"),
    *("<think>", "</think>", "<thinking>", "</thinking>", "<tool_call>", "</tool_call>"),
    *("`</think>`", "`</think>", "</THINK>", "</think >", "`<thinking>`"),
    *("```tool_code\n", "```", "`", '{"tool": "read_file", "parameters": {"path": "a"}}'),
    *('{"name": "list_files", "arguments": ', '{"path": ".\\u00e9"}', "}", "{", '"', "\\"),
    *(
        "<",
        "</",
        ">",
        "<unknown>",
        "words",
        "é😀",
        "\ud83d",
        " ",
        "\n",
        "\r\n",
        "\n\n  indented",
        "a < b",
    ),
]
xml_texts = st.lists(st.sampled_from(XML_PIECES), max_size=30).map("".join)


def make_assembler(
    protocol: ToolProtocol,
    *,
    taken: frozenset[str] = frozenset(),
    understand_text_calls: bool = True,
) -> ReplyAssembler:
    numbers = iter(range(1, 1_000_000))
    return ReplyAssembler(
        protocol=protocol,
        tools=ToolNames(KnownTool(name, tags) for name, tags in TOOLS.items()),
        taken_ids=taken.__contains__,
        make_id=lambda: f"made_{next(numbers)}",
        understand_text_calls=understand_text_calls,
    )


def assemble(
    chunks: Iterable[Chunk],
    protocol: ToolProtocol = ToolProtocol.NATIVE,
    *,
    complete: bool = True,
    taken: frozenset[str] = frozenset(),
    understand_text_calls: bool = True,
) -> tuple[Reply, list[PartEvent]]:
    assembler = make_assembler(protocol, taken=taken, understand_text_calls=understand_text_calls)
    events = [event for chunk in chunks for event in assembler.feed(chunk)]
    events += assembler.close(complete=complete)
    check_events(events, assembler.reply)
    return assembler.reply, events


def assemble_xml(text: str, *, complete: bool = True, understand_text_calls: bool = True) -> Reply:
    """The reply to an XML task, the same whether it comes whole or by single characters."""
    whole, single = (
        assemble(
            map(TextChunk, pieces),
            ToolProtocol.XML,
            complete=complete,
            understand_text_calls=understand_text_calls,
        )[0]
        for pieces in ([text], text)
    )
    assert whole == single
    return whole


def check_events(events: list[PartEvent], reply: Reply) -> None:
    """Each part starts, grows and ends once, in its place, and its deltas are what it says."""
    deltas: list[list[str]] = []
    ended: dict[int, object] = {}
    recast: set[int] = set()
    for event in events:
        match event:
            case PartStarted():
                assert event.index == len(deltas)
                assert (event.kind == "call") == (event.call_id is not None)
                deltas.append([])
            case PartDelta():
                assert event.index not in ended
                assert event.delta
                deltas[event.index].append(event.delta)
            case PartEnded():
                assert event.index not in ended
                assert event.index < len(deltas)
                ended[event.index] = event.part
            case PartReclassified():
                assert event.index not in recast
                recast.add(event.index)
                ended[event.index] = event.part
    assert [ended[index] for index in range(len(deltas))] == list(reply.parts)
    for index, (part, pieces) in enumerate(zip(reply.parts, deltas, strict=True)):
        if index not in recast:
            _check_deltas(part, "".join(pieces))
    ids = [call.id for call in reply.calls]
    assert len(set(ids)) == len(ids)


def _check_deltas(part: object, joined: str) -> None:
    match part:
        case TextPart():
            assert joined == part.text
            assert joined.strip()
        case ReasoningPart():
            assert joined == part.text
        case CallPart() if part.call.problem is None and not part.call.repairs:
            assert (json.loads(joined) if joined.strip() else {}) == part.call.input


def join_deltas(events: Iterable[PartEvent]) -> dict[int, str]:
    deltas: dict[int, str] = {}
    for event in events:
        if isinstance(event, PartDelta):
            deltas[event.index] = deltas.get(event.index, "") + event.delta
    return deltas


@st.composite
def split_randomly(draw: st.DrawFn, text: str) -> list[str]:
    """`text` cut at places of hypothesis's choice."""
    places = draw(st.sets(st.integers(0, len(text)), max_size=20))
    borders = sorted({0, len(text), *places})
    return [text[start:end] for start, end in pairwise(borders)]


some_text = st.text(max_size=8)


some_name = st.sampled_from([None, "", "read_file", "list_files"])


some_id = st.sampled_from([None, "", "a", "b", "bad id"])


some_arguments = st.sampled_from(
    [None, "", "\ud83d", "{", "}", '{"path": "x"}', '{"path', '": "', '"}', " ", "é", "[", "]"]
)


any_chunk: st.SearchStrategy[Chunk] = st.one_of(
    st.builds(TextChunk, some_text | xml_texts),
    st.builds(
        ReasoningChunk,
        some_text,
        st.none() | some_text,
        st.none() | some_text,
        st.sampled_from([(), ({"n": 1},)]),
    ),
    st.builds(CallChunk, st.integers(0, 2), some_id, some_name, some_arguments),
    st.builds(CallEndChunk, st.integers(0, 2)),
    st.just(UsageChunk(Usage(input=1))),
    st.builds(StopChunk, st.sampled_from([None, "stop", "length"]), st.none() | some_text),
)
