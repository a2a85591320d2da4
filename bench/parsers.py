"""What assembling a streamed reply costs, beside decoding the same stream's SSE lines.

One call of 200 KB in 20-byte chunks, as structured deltas and as XML in the text. The measure is
`json.loads` over the `data:` lines that would have carried the chunks, which every client pays.
Figures are CPU, best of five; doubling the size must not more than double the cost.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable

from joey.core.messages import CallChunk, Chunk, TextChunk
from joey.core.models import ToolProtocol
from joey.core.parsing.assembler import ReplyAssembler
from joey.core.parsing.call_names import KnownTool, ToolNames

ARGUMENTS_CHARS = 200_000
CHUNK_CHARS = 20
ROUNDS = 5
MAX_NATIVE_RATIO = 1.0
MAX_XML_RATIO = 3.0
MAX_GROWTH_RATIO = 2.3

_SAMPLE_SOURCE = '''\
def render(rows: list[dict[str, str]], *, title: str = "Übersicht, täglich") -> str:
    """Return the rows as an HTML table; \\"quotes\\" and <tags> are escaped."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in rows[0])
    body = "\\n".join(
        "<tr>" + "".join(f"<td>{html.escape(v)}</td>" for v in row.values()) + "</tr>"
        for row in rows if row.get("id") and len(row) < 10
    )
    return f"<table class=\\"wide\\">\\n\\t<tr>{head}</tr>\\n{body}\\n</table>"

'''
_TOOLS = {"write_to_file": frozenset({"path", "content"})}


def main() -> None:
    print(
        f"{'200 KB in 20-byte chunks':<26}{'parse':>10}{'json.loads':>12}{'ratio':>8}{'2x size':>9}"
    )
    for name, limit, build in (
        ("native", MAX_NATIVE_RATIO, build_native_stream),
        ("xml", MAX_XML_RATIO, build_xml_stream),
    ):
        cost, base = measure(build, ARGUMENTS_CHARS)
        doubled, _ = measure(build, 2 * ARGUMENTS_CHARS)
        ratio, growth = cost / base, doubled / cost
        verdict = "" if ratio <= limit and growth <= MAX_GROWTH_RATIO else "  OVER"
        print(
            f"{name:<26}{cost * 1000:>7.1f} ms{base * 1000:>9.1f} ms"
            f"{ratio:>7.2f}x{growth:>8.2f}x  (at most {limit:.0f}x, {MAX_GROWTH_RATIO}x){verdict}"
        )


ProtocolChunks = tuple[ToolProtocol, list[Chunk]]


def measure(
    build: Callable[[int], tuple[ProtocolChunks, list[str]]], size: int
) -> tuple[float, float]:
    """CPU seconds of assembling the stream, and of decoding its lines."""
    (protocol, chunks), lines = build(size)
    cost = time_best_of(lambda: assemble(protocol, chunks))
    base = time_best_of(lambda: [json.loads(line) for line in lines])
    return cost, base


def time_best_of(work: Callable[[], object]) -> float:
    def once() -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    return min(once() for _ in range(ROUNDS))


def build_native_stream(size: int) -> tuple[ProtocolChunks, list[str]]:
    escaped = len(json.dumps(build_source(size)))
    arguments = json.dumps(
        {"path": "src/table.py", "content": build_source(size * size // escaped)}
    )
    pieces = split_chunks(arguments)
    head: list[Chunk] = [CallChunk(index=1, id="toolu_01", name="write_to_file")]
    chunks = head + [CallChunk(index=1, arguments=piece) for piece in pieces]
    lines = [
        encode_data_line({"type": "input_json_delta", "partial_json": piece}) for piece in pieces
    ]
    return (ToolProtocol.NATIVE, chunks), lines


def build_xml_stream(size: int) -> tuple[ProtocolChunks, list[str]]:
    text = (
        "I will write it.\n\n<write_to_file>\n<path>src/table.py</path>\n"
        f"<content>\n{build_source(size)}\n</content>\n</write_to_file>"
    )
    pieces = split_chunks(text)
    lines = [encode_data_line({"type": "text_delta", "text": piece}) for piece in pieces]
    return (ToolProtocol.XML, [TextChunk(piece) for piece in pieces]), lines


def build_source(size: int) -> str:
    return (_SAMPLE_SOURCE * (size // len(_SAMPLE_SOURCE) + 1))[:size]


def split_chunks(text: str) -> list[str]:
    return [text[start : start + CHUNK_CHARS] for start in range(0, len(text), CHUNK_CHARS)]


def encode_data_line(delta: dict[str, str]) -> str:
    return json.dumps({"type": "content_block_delta", "index": 1, "delta": delta})


def assemble(protocol: ToolProtocol, chunks: Iterable[Chunk]) -> None:
    assembler = ReplyAssembler(
        protocol=protocol,
        tools=ToolNames(KnownTool(name, tags) for name, tags in _TOOLS.items()),
        taken_ids=lambda _: False,
        make_id=lambda: "call_1",
    )
    for chunk in chunks:
        assembler.feed(chunk)
    assembler.close(complete=True)
    (call,) = assembler.reply.calls
    assert call.problem is None, call.problem


if __name__ == "__main__":
    main()
