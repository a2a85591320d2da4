from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joey.core.chunks import TextChunk
from joey.core.messages import Part, ReasoningPart, TextPart
from joey.core.parsing.think_tags import ThinkTags
from joey.core.protocol import ToolProtocol
from tests.core.parsing.streams import assemble, cuts_of, xml

PIECES = ["<think>", "</think>", "<thinking>", "</thinking>", "<", "<th", "</", " ", "\n", "word"]


@pytest.mark.requirement("parsing:think:tags")
@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("<think>Hm.</think>Yes.", [ReasoningPart("Hm."), TextPart("Yes.")]),
        ("\n <thinking>Hm.</thinking>\n\nYes.", [ReasoningPart("Hm."), TextPart("Yes.")]),
        ("<think>a </thinking> b</think>c", [ReasoningPart("a </thinking> b"), TextPart("c")]),
        ("<think>a < b</think>", [ReasoningPart("a < b")]),
        ("<think>never closed </thi", [ReasoningPart("never closed </thi")]),
        ("<think>\n\n</think>\n\nYes.", [TextPart("Yes.")]),
        ("<think></think>", []),
        ("Well, <think>no</think>", [TextPart("Well, <think>no</think>")]),
        ("<thinker>", [TextPart("<thinker>")]),
        ("  <thin", [TextPart("  <thin")]),
        ("  indented", [TextPart("  indented")]),
        ("</think>Yes.", [TextPart("</think>Yes.")]),
        ("<think>a</think><think>b</think>", [ReasoningPart("a"), TextPart("<think>b</think>")]),
        ("", []),
        (" ", []),
    ],
)
def test_a_section_that_opens_the_text_is_reasoning(text: str, parts: list[Part]) -> None:
    whole, _ = assemble([TextChunk(text)])
    single, _ = assemble(map(TextChunk, text))
    assert list(whole.parts) == parts
    assert whole == single
    assert whole.raw is None


@pytest.mark.requirement("parsing:think:tags")
def test_the_raw_text_of_an_xml_task_is_without_the_section() -> None:
    reply = xml("<think>Use <read_file>?</think>\n<list_files><path>.</path></list_files>")
    assert reply.parts[0] == ReasoningPart("Use <read_file>?")
    assert [call.name for call in reply.calls] == ["list_files"]
    assert reply.raw == "<list_files><path>.</path></list_files>"


@given(st.data(), st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.booleans())
@settings(max_examples=150)
def test_tags_are_seen_at_every_split(data: st.DataObject, text: str, is_xml: bool) -> None:
    protocol = ToolProtocol.XML if is_xml else ToolProtocol.NATIVE
    whole, _ = assemble([TextChunk(text)], protocol)
    cut, _ = assemble(map(TextChunk, data.draw(cuts_of(text))), protocol)
    assert whole == cut


@given(st.data(), st.text())
@settings(max_examples=50)
def test_text_without_tags_passes_unchanged(data: st.DataObject, text: str) -> None:
    tags = ThinkTags()
    pieces = [piece for cut in data.draw(cuts_of(text)) for piece in tags.feed(cut)]
    pieces += tags.close()
    assert "".join(piece for _, piece in pieces) == text
    assert {kind for kind, _ in pieces} <= {"text"}
