"""Text that repeats itself without end is noticed; text that has to repeat itself is not."""

from __future__ import annotations

import base64
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.core.messages import (
    CallChunk,
    Chunk,
    ReasoningChunk,
    ReasoningPart,
    Reply,
    TextChunk,
    TextPart,
)
from joey.core.models import ToolProtocol
from joey.core.parsing.repetition import RepetitionDetector, cut_repetition
from tests.harness.core.streams import check_events, make_assembler, split_randomly

pytestmark = pytest.mark.contract("loop:repetition")

LINE = "I will now read the file to see what is wrong with it.\n"
BLOCK = "".join(f"Step {n}: look at the file again and decide.\n" for n in range(10))
BEFORE = "Let me see:"
TOO_LONG = "".join(f"Row {n} of a block that is longer than a period may be.\n" for n in range(20))


def find_period(pieces: list[str]) -> int:
    detector = RepetitionDetector()
    for piece in pieces:
        detector.feed(piece)
    return detector.period


def stop(chunks: list[Chunk], protocol: ToolProtocol) -> tuple[Reply, int]:
    """The reply, and how many chunks were taken."""
    assembler = make_assembler(protocol)
    events, taken = [], 0
    for chunk in chunks:
        events += assembler.feed(chunk)
        taken += 1
        if assembler.stop_repetition():
            break
    events += assembler.close(complete=True)
    check_events(events, assembler.reply)
    return assembler.reply, taken


@pytest.mark.parametrize("repeated", [LINE, BLOCK, "the ", "0", "好的。", "\n", "a\n\nb\n\n"])
def test_a_text_that_repeats_itself_is_noticed(repeated: str) -> None:
    text = BEFORE + repeated * (9_000 // len(repeated) + 1)
    assert find_period([text]) == len(repeated)
    assert find_period([text[:7_900]]) == 0
    assert cut_repetition(text, len(repeated)) == BEFORE + repeated


def random_bytes(size: int) -> bytes:
    return random.Random(1).randbytes(size)


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"| {n} | 0 | 0 | 0 |\n" for n in range(2_000)),
        "```\n" + ("0 " * 99 + "0\n") * 100 + "```\n",
        base64.b64encode(random_bytes(60_000)).decode(),
        "```\n" + ("A" * 76 + "\n") * 300 + "```\n",
        "\n".join(f"{n}. {LINE}" for n in range(500)),
        TOO_LONG * 20,
        LINE * 400 + "That was it: " + "the rest differs from what was there before. " * 11,
        "```\n" + "=" * 20_000,
        " ".join(str(n) for n in range(10_000)),
    ],
    ids=["table", "matrix", "base64", "zeros in base64", "list", "long", "over", "art", "numbers"],
)
def test_other_text_is_left_alone(text: str) -> None:
    assert find_period([text]) == 0


def test_endless_code_is_noticed_later() -> None:
    assert find_period(["```\n" + LINE * 400]) == 0
    assert find_period(["```\n" + LINE * 600]) == len(LINE)
    assert find_period(["```\na\n```\n" + LINE * 200]) == len(LINE)


@given(st.data())
def test_it_is_noticed_at_the_same_place_at_every_split(data: st.DataObject) -> None:
    repeated = data.draw(st.text("ab `\n", min_size=1, max_size=60))
    before = data.draw(st.text("ab `\n", max_size=600))
    text = before + repeated * (data.draw(st.integers(0, 36_000)) // len(repeated))
    assert find_period(data.draw(split_randomly(text))) == find_period([text])


@given(st.data())
def test_only_the_last_repetitions_are_cut(data: st.DataObject) -> None:
    repeated = data.draw(st.text("ab\n", min_size=1, max_size=20))
    text = data.draw(st.text("ab\n", max_size=100)) + repeated * data.draw(st.integers(1, 50))
    cut = cut_repetition(text, len(repeated))
    assert text.startswith(cut)
    while len(cut) < len(text):
        cut += cut[-len(repeated)]
    assert cut == text


@pytest.mark.parametrize("protocol", ToolProtocol)
@given(st.data())
def test_a_reply_is_cut_after_the_first_repetition(
    protocol: ToolProtocol, data: st.DataObject
) -> None:
    pieces = data.draw(split_randomly(BEFORE + LINE * 200))
    reply, _ = stop([*map(TextChunk, pieces), *map(TextChunk, [LINE] * 200)], protocol)
    (part,) = reply.parts
    assert isinstance(part, TextPart)
    assert part.text.strip() == (BEFORE + LINE).strip()
    assert reply.stop_reason == "repetition"
    if protocol is ToolProtocol.XML:
        assert reply.raw == BEFORE + LINE


@pytest.mark.parametrize("protocol", ToolProtocol)
def test_the_stream_is_not_taken_to_its_end(protocol: ToolProtocol) -> None:
    _, taken = stop([TextChunk(LINE)] * 1_000, protocol)
    assert taken < 170


@pytest.mark.parametrize("protocol", ToolProtocol)
def test_reasoning_is_cut_too(protocol: ToolProtocol) -> None:
    said: list[Chunk] = [ReasoningChunk(BEFORE), *[ReasoningChunk(LINE)] * 500, TextChunk("No.")]
    reply, _ = stop(said, protocol)
    assert reply.parts == (ReasoningPart(BEFORE + LINE),)
    tagged: list[Chunk] = [TextChunk("<think>"), *[TextChunk(LINE)] * 500]
    (part,) = stop(tagged, protocol)[0].parts
    assert isinstance(part, ReasoningPart)
    assert part.text.strip() == LINE.strip()


@pytest.mark.parametrize("protocol", ToolProtocol)
def test_arguments_of_calls_may_repeat_themselves(protocol: ToolProtocol) -> None:
    rows = "0,0,0\n" * 9_000
    xml = f"<write_to_file>\n<path>a.csv</path>\n<content>\n{rows}</content>\n</write_to_file>"
    chunks: list[Chunk] = [TextChunk(xml[n : n + 7]) for n in range(0, len(xml), 7)]
    if protocol is ToolProtocol.NATIVE:
        pieces = ['{"path": "a.csv", "content": "', *[r"0,0,0\n"] * 9_000, '"}']
        chunks = [
            CallChunk(0, "c1", "write_to_file"),
            *(CallChunk(0, None, None, p) for p in pieces),
        ]
    reply, _ = stop(chunks, protocol)
    (call,) = reply.calls
    assert call.problem is None
    assert call.input["content"].strip() == rows.strip()
    assert reply.stop_reason is None
