from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from joey.core.messages import (
    CallChunk,
    CallEndChunk,
    Chunk,
    ReasoningChunk,
    ReasoningItem,
    StopChunk,
    TextChunk,
    Usage,
    UsageChunk,
    merge_chunks,
)
from joey.core.models import ToolProtocol
from joey.core.parsing.assembler import ReplyAssembler
from joey.core.parsing.call_names import ToolNames
from joey.errors import ProviderError, ProviderFailureKind
from joey.providers.errors import ServiceInfo
from joey.providers.responses import ResponsesStreamDecoder
from joey.providers.sse import ServerSentEvent, SseReader
from tests.service_rules.responses import (
    iter_events,
    make_call,
    make_message,
    make_reasoning,
    write_stream,
)

SERVICE = ServiceInfo("openai", "model.test:443", "gpt", "default")
OUTPUT = [
    make_reasoning(1, "**Look**\n\nÄh."),
    make_message(1, "I'll read it.", "commentary"),
    make_call("call_1", "read_file", '{"path": "ä.py"}'),
    make_reasoning(2, ""),
    make_call("call_2", "list_files", "{}"),
]
END: list[Chunk] = [
    UsageChunk(Usage(input=1200, output=30, cache_writes=100, cache_reads=1000)),
    StopChunk("tool_calls", "resp_1"),
]


def item_of(wire: dict[str, Any]) -> ReasoningItem:
    return ReasoningItem(wire["id"], wire["encrypted_content"], tuple(wire["summary"]))


CHUNKS: list[Chunk] = [
    ReasoningChunk("**Look**\n\nÄh."),
    ReasoningChunk(item=item_of(OUTPUT[0])),
    TextChunk("I'll read it."),
    CallChunk(2, id="call_1", name="read_file"),
    CallChunk(2, arguments='{"path": "ä.py"}'),
    CallEndChunk(2),
    ReasoningChunk(item=item_of(OUTPUT[3])),
    CallChunk(4, id="call_2", name="list_files"),
    CallChunk(4, arguments="{}"),
    CallEndChunk(4),
    *END,
]


def decode(pieces: Iterable[bytes]) -> tuple[list[Chunk], ResponsesStreamDecoder]:
    reader, decoder = SseReader(), ResponsesStreamDecoder(SERVICE)
    chunks = [c for piece in pieces for event in reader.feed(piece) for c in decoder.feed(event)]
    return list(merge_chunks(chunks)), decoder


def read(*bodies: object) -> list[Chunk]:
    decoder = ResponsesStreamDecoder(SERVICE)
    events = (ServerSentEvent("", msgspec.json.encode(body)) for body in bodies)
    return list(merge_chunks(chunk for event in events for chunk in decoder.feed(event)))


@pytest.mark.contract("services:responses")
def test_a_stream_is_the_same_at_every_split() -> None:
    data = write_stream(1, OUTPUT).content
    for place in range(len(data)):
        chunks, decoder = decode((data[:place], data[place:]))
        assert chunks == CHUNKS
        assert decoder.is_answer_complete
        assert decoder.is_stream_finished
    assert decode(data[place : place + 1] for place in range(len(data)))[0] == CHUNKS
    assert decoder.extra_content == {"phases": ["commentary"]}


def test_a_reply_has_its_reasoning_in_place() -> None:
    assembler = ReplyAssembler(
        protocol=ToolProtocol.NATIVE,
        tools=ToolNames({}),
        taken_ids=lambda _: False,
        make_id=lambda: "call_x",
    )
    for chunk in CHUNKS:
        assembler.feed(chunk)
    assembler.close(complete=True)
    parts = assembler.reply.parts
    assert [type(part).__name__ for part in parts] == [
        "ReasoningPart",
        "TextPart",
        "CallPart",
        "ReasoningPart",
        "CallPart",
    ]
    assert [getattr(part, "item", None) for part in parts] == [
        item_of(OUTPUT[0]),
        None,
        None,
        item_of(OUTPUT[3]),
        None,
    ]


def test_a_whole_response_is_read_like_a_stream() -> None:
    *_, completed = iter_events(1, OUTPUT)
    assert read(completed["response"]) == CHUNKS
    assert read(completed) == CHUNKS


def test_a_stream_without_deltas_is_read_from_its_items() -> None:
    events = [event for event in iter_events(1, OUTPUT) if "delta" not in event]
    assert read(*events) == CHUNKS
    assert read(*(e for e in events if not e["type"].endswith("added"))) == CHUNKS


def test_items_that_share_a_number_are_distinguished() -> None:
    events = ({**event, "output_index": 0} for event in iter_events(1, OUTPUT))
    assert read(*events) == CHUNKS


def test_calls_without_an_end_end_with_the_response() -> None:
    events = [e for e in iter_events(1, OUTPUT[2:3]) if not e["type"].endswith("item.done")]
    assert CallEndChunk(0) in read(*events)


def test_several_parts_of_a_summary_are_paragraphs() -> None:
    parts = [{"type": "summary_text", "text": text} for text in ("One.", "Two.")]
    item = {**make_reasoning(1, ""), "summary": parts}
    assert read(*iter_events(1, [item]))[0] == ReasoningChunk("One.\n\nTwo.")


def test_texts_in_a_row_are_paragraphs() -> None:
    output = [make_message(1, "One.", "commentary"), make_message(2, "Two.", "final_answer")]
    chunks, decoder = decode([write_stream(1, output).content])
    assert chunks[0] == TextChunk("One.\nTwo.")
    assert decoder.extra_content == {"phases": ["commentary", "final_answer"]}


def test_reasoning_without_encrypted_content_is_text() -> None:
    item = {**make_reasoning(1, "Hm."), "encrypted_content": None}
    assert read(*iter_events(1, [item]))[:-2] == [ReasoningChunk("Hm.")]


@pytest.mark.contract("services:responses")
def test_a_refusal_is_the_text_of_the_reply() -> None:
    item = {
        **make_message(1, "", "final_answer"),
        "content": [{"type": "refusal", "refusal": "No"}],
    }
    assert read(*iter_events(1, [item]))[0] == TextChunk("No")
    assert read(*(e for e in iter_events(1, [item]) if "delta" not in e))[0] == TextChunk("No")


@pytest.mark.contract("services:responses")
def test_what_the_output_limit_cuts_is_not_ended() -> None:
    cut = [
        {**make_reasoning(1, "Hm."), "status": "incomplete"},
        {**make_call("call_1", "read_file", '{"pa'), "status": "incomplete"},
    ]
    details = {"reason": "max_output_tokens"}
    chunks = read(*iter_events(1, cut, "incomplete", incomplete_details=details))
    assert chunks == [
        ReasoningChunk("Hm."),
        CallChunk(1, id="call_1", name="read_file"),
        CallChunk(1, arguments='{"pa'),
        END[0],
        StopChunk("max_output_tokens", "resp_1"),
    ]


@pytest.mark.contract("services:responses")
@pytest.mark.parametrize(
    ("event", "failure"),
    [
        ({"type": "error", "code": "server_error", "message": "Oh."}, "overload"),
        ({"type": "error", "error": {"code": "rate_limit_exceeded", "message": "Slow."}}, "rate"),
        ({"type": "response.failed", "response": {"status": "failed"}}, "overload"),
        (
            {"type": "response.failed", "response": {"error": {"code": "context_length_exceeded"}}},
            "overflow",
        ),
        ({"type": "response.failed", "response": {"error": {"code": "invalid_prompt"}}}, "invalid"),
        (
            {
                "type": "response.incomplete",
                "response": {"incomplete_details": {"reason": "content_filter"}},
            },
            "invalid",
        ),
    ],
)
def test_failures_have_their_kinds(event: dict[str, Any], failure: str) -> None:
    with pytest.raises(ProviderError) as raised:
        read(event)
    assert raised.value.failure is ProviderFailureKind(failure)


def test_a_reply_that_the_content_filter_cuts_is_kept() -> None:
    output = [make_message(1, "As far as", "final_answer")]
    details = {"reason": "content_filter"}
    chunks = read(*iter_events(1, output, "incomplete", incomplete_details=details))
    assert chunks[0] == TextChunk("As far as")
    assert chunks[-1] == StopChunk("content_filter", "resp_1")


def test_unknown_events_are_passed_over() -> None:
    odd = {"type": "response.audio.delta", "delta": {"pcm": 1}, "output_index": "x"}
    assert read(odd, {"type": "keepalive"}, *iter_events(1, OUTPUT)) == CHUNKS


@pytest.mark.parametrize("data", [b"{", b"[1]", b'{"type":"response.output_text.delta","delta":1}'])
def test_a_malformed_event_is_an_error(data: bytes) -> None:
    with pytest.raises(ProviderError) as raised:
        list(ResponsesStreamDecoder(SERVICE).feed(ServerSentEvent("", data)))
    assert raised.value.failure is ProviderFailureKind.MALFORMED_STREAM


def test_a_stream_that_stops_early_is_not_complete() -> None:
    *events, _ = iter_events(1, OUTPUT)
    decoder = ResponsesStreamDecoder(SERVICE)
    for event in events:
        list(decoder.feed(ServerSentEvent("", msgspec.json.encode(event))))
    list(decoder.feed(ServerSentEvent("", b"[DONE]")))
    assert not decoder.is_answer_complete
