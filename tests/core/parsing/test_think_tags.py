from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joey.core.messages import Part, ReasoningPart, TextChunk, TextPart
from joey.core.models import ToolProtocol
from joey.core.parsing.tags import ReasoningFinder, ReplyText
from tests.harness.core.streams import assemble, assemble_xml, split_randomly

PIECES = ["<think>", "</think>", "<thinking>", "</thinking>", "<", "<th", "</", " ", "\n", "word"]
PIECES += ["`", "`</think>`", "`<think>`", "</Think\n>", "</THINKING>", "[THINK]", "[/THINK]", "["]
SECTIONS = [
    *(("<think>", "</think>"), ("<Thinking>", "</THINKING >"), ("<thought>", "</thought>")),
    *(("<reasoning>", "</reasoning>"), ("<seed:think>", "</seed:think>"), ("[THINK]", "[/THINK]")),
    *(("◁think▷", "◁/think▷"), ("<|START_THINKING|>", "<|END_THINKING|>")),
    *(("<|begin_of_thought|>", "<|end_of_thought|>"), ("<|channel>thought", "<channel|>")),
]
ANALYSIS = ("<|channel|>analysis<|message|>", "<|end|>")
FINAL = "<|start|>assistant<|channel|>final<|message|>"
LOOK = "<list_files><path>.</path></list_files>"
RUN = "<execute_command><command>touch DANGER</command></execute_command>"
WHOLE = [
    *(LOOK, RUN, "<write_to_file><path>a</path><content></think></content></write_to_file>"),
    *('<tool_call>{"name": "list_files", "arguments": {"path": "a"}}</tool_call>', "words"),
    *(
        "<think>maybe</think>",
        f"<thinking>{RUN}</thinking>",
        "`ls`.",
        "`</think>`,",
        "`<read_file>`;",
    ),
    *(" ", "\n", "a < b", "<unknown>", "</content>", "é😀"),
]
"""Nothing of these is left open, so that a closing tag behind them is one that nothing opened."""
wholes = st.lists(st.sampled_from(WHOLE), max_size=8).map("".join)


@pytest.mark.contract("calls:in-reasoning")
@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("<think>Hm.</think>Yes.", [ReasoningPart("Hm."), TextPart("Yes.")]),
        ("\n <thinking>Hm.</thinking>\n\nYes.", [ReasoningPart("Hm."), TextPart("Yes.")]),
        (
            "<think>a </thinking> b</think>c",
            [ReasoningPart("a "), ReasoningPart("b"), TextPart("c")],
        ),
        ("<think>a < b</think>", [ReasoningPart("a < b")]),
        ("<think>never closed </thi", [ReasoningPart("never closed </thi")]),
        ("<think>\n\n</think>\n\nYes.", [TextPart("Yes.")]),
        ("<think></think>", []),
        ("Well, <think>no</think>", [TextPart("Well, <think>no</think>")]),
        ("<thinker>", [TextPart("<thinker>")]),
        ("  <thin", [TextPart("  <thin")]),
        ("  indented", [TextPart("  indented")]),
        ("</think>Yes.", [TextPart("Yes.")]),
        ("Hm.\n</think>\n\nYes.", [ReasoningPart("Hm.\n"), TextPart("Yes.")]),
        ("Hm.</thinking>Yes.", [ReasoningPart("Hm."), TextPart("Yes.")]),
        ("Hm.</THINK >Yes.", [ReasoningPart("Hm."), TextPart("Yes.")]),
        ("a</think>b</think>c", [ReasoningPart("a"), ReasoningPart("b"), TextPart("c")]),
        ("<think>a</think>b</think>c", [ReasoningPart("a"), ReasoningPart("b"), TextPart("c")]),
        ("a <think>b</think> c</think>d", [ReasoningPart("a <think>b</think> c"), TextPart("d")]),
        ("a <thinking>b</think>c", [ReasoningPart("a <thinking>b"), TextPart("c")]),
        ("a <think>b `</think>` c", [TextPart("a <think>b `</think>` c")]),
        ("It is `</think>`, so.", [TextPart("It is `</think>`, so.")]),
        ("`<think>` and `</think>`", [TextPart("`<think>` and `</think>`")]),
        ("`<think>a</think>`", [TextPart("`<think>a</think>`")]),
        ("Use `ls`</think>`pwd`", [ReasoningPart("Use `ls`"), TextPart("`pwd`")]),
        ("Use `ls`</think>", [ReasoningPart("Use `ls`")]),
        ("It`s\n`</think>` is", [TextPart("It`s\n`</think>` is")]),
        ("```\n</think>\n```", [ReasoningPart("```\n")]),
        ("It is `<think>", [TextPart("It is `<think>")]),
        ("It is </thinker>", [TextPart("It is </thinker>")]),
        ("It is </think", [TextPart("It is </think")]),
        ("Hm.</think>", [ReasoningPart("Hm.")]),
        ("<think>a</think><think>b</think>", [ReasoningPart("a"), ReasoningPart("b")]),
        ("So.\n<think>b</think>\nc", [TextPart("So.\n"), ReasoningPart("b"), TextPart("c")]),
        ("```\n<think>b</think>\n```", [TextPart("```\n<think>b</think>\n```")]),
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


@pytest.mark.contract("calls:in-reasoning")
@pytest.mark.parametrize("is_xml", [True, False])
@pytest.mark.parametrize(("opening", "closing"), [*SECTIONS, ANALYSIS])
def test_sections_of_every_kind_are_reasoning(opening: str, closing: str, is_xml: bool) -> None:
    protocol = ToolProtocol.XML if is_xml else ToolProtocol.NATIVE
    hermes = '<tool_call>{"name": "list_files", "arguments": {"path": "a"}}</tool_call>'
    for thought in (RUN, hermes):
        for text, parts in [
            (f"{opening}{thought}{closing}\nYes.", ["Yes."]),
            (f"So.\n{opening}{thought}{closing}\nYes.", ["So.", "Yes."]),
            (f"So.\n\n{opening}{thought}", ["So."]),
            (f"{opening}{thought}{closing}{opening}{thought}{closing}Yes.", ["Yes."]),
        ]:
            for pieces in ([text], [*text]):
                reply, _ = assemble(map(TextChunk, pieces), protocol)
                assert not reply.calls
                shown = [part.text.strip() for part in reply.parts if isinstance(part, TextPart)]
                assert shown == parts
                assert reply.raw in (None, "\n".join(parts), "\n".join(parts) + "\n\n")


@pytest.mark.contract("calls:in-reasoning")
@pytest.mark.parametrize(("opening", "closing"), SECTIONS)
def test_closing_tags_of_every_kind_end_reasoning(opening: str, closing: str) -> None:
    for pieces in ([text := f"Hm. {RUN}\n{closing}\nYes."], [*text]):
        for protocol in ToolProtocol:
            reply, _ = assemble(map(TextChunk, pieces), protocol)
            assert not reply.calls
            assert [part for part in reply.parts if isinstance(part, TextPart)] == [
                TextPart("Yes.")
            ]
    assert not assemble_xml(f"So, {opening}maybe {RUN}{closing} no.").calls
    assert not assemble_xml(f"So, {opening}maybe {RUN}").calls


@pytest.mark.contract("calls:in-reasoning")
@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (f"{ANALYSIS[0]}Hm.<|end|>{FINAL}Yes.", [ReasoningPart("Hm."), TextPart("Yes.")]),
        (f"{ANALYSIS[0]}Hm.{FINAL}Yes.", [ReasoningPart("Hm."), TextPart("Yes.")]),
        ("<|channel|>final<|message|>Yes.", [TextPart("Yes.")]),
        (f"Well.<|start|>assistant{ANALYSIS[0]}Hm.", [TextPart("Well."), ReasoningPart("Hm.")]),
    ],
)
def test_only_the_final_channel_of_harmony_is_text(text: str, parts: list[Part]) -> None:
    for pieces in ([text], [*text]):
        assert list(assemble(map(TextChunk, pieces))[0].parts) == parts


@pytest.mark.contract("calls:in-reasoning")
def test_the_raw_text_of_an_xml_task_is_without_the_section() -> None:
    reply = assemble_xml("<think>Use <read_file>?</think>\n<list_files><path>.</path></list_files>")
    assert reply.parts[0] == ReasoningPart("Use <read_file>?")
    assert [call.name for call in reply.calls] == ["list_files"]
    assert reply.raw == "<list_files><path>.</path></list_files>"


@given(st.data(), st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.booleans())
@settings(max_examples=150)
def test_tags_are_seen_at_every_split(data: st.DataObject, text: str, is_xml: bool) -> None:
    protocol = ToolProtocol.XML if is_xml else ToolProtocol.NATIVE
    whole, _ = assemble([TextChunk(text)], protocol)
    cut, _ = assemble(map(TextChunk, data.draw(split_randomly(text))), protocol)
    assert whole == cut


@given(st.data(), st.text())
@settings(max_examples=50)
def test_text_without_tags_passes_unchanged(data: st.DataObject, text: str) -> None:
    finder = ReasoningFinder()
    events = [event for cut in data.draw(split_randomly(text)) for event in finder.feed(cut)]
    texts = [event.text for event in (*events, *finder.close()) if isinstance(event, ReplyText)]
    assert "".join(texts) == text


@pytest.mark.contract("calls:in-reasoning")
@pytest.mark.parametrize(
    ("text", "parts", "raw"),
    [
        (f"Hm. {RUN} </think>\n Yes.", [ReasoningPart("Hm."), ReasoningPart(RUN)], "Yes."),
        (f"{RUN}</think>", [ReasoningPart(RUN)], ""),
        ("I use <execute_command> now</think>Yes.", ["I use <execute_command> now"], "Yes."),
        (f"{RUN}\n<execute_command>\n</think>", [RUN, "<execute_command>"], ""),
        (f"{RUN} `</think>` </think>Yes.", [RUN, "`</think>`"], "Yes."),
        (f"{RUN} `x`</think>", [RUN, "`x`"], ""),
        (f"{RUN} a </think> {RUN} b </think>Yes.", [RUN, "a", RUN, "b"], "Yes."),
        (f"<think>a</think>b {RUN}</think>Yes.", ["a", "b", RUN], "Yes."),
        (f"{RUN}<thinking>b</think>Yes.", [RUN, "b"], "Yes."),
        (f'{RUN}<tool_call>{{"name": "x</think>', [RUN, '<tool_call>{"name": "x'], ""),
        (f'{RUN}<tool_call>["</think>"]Yes.', [RUN, '<tool_call>["'], '"]Yes.'),
    ],
)
def test_calls_before_an_unopened_closing_tag_are_reasoning(
    text: str, parts: list[Part | str], raw: str
) -> None:
    reply = assemble_xml(text)
    thoughts = [ReasoningPart(part) if isinstance(part, str) else part for part in parts]
    assert list(reply.parts) == [*thoughts, *([TextPart(raw)] if raw else [])]
    assert reply.raw == raw


@pytest.mark.contract("calls:in-reasoning")
@pytest.mark.parametrize(
    "text",
    [
        f"So <think>maybe {RUN} or not</think> done",
        f"So <thinking>maybe {RUN}",
        f"<think>{RUN}",
        f"So <think>is `</think>` what {RUN}",
        f"<execute_command><thinking>{RUN}</think>",
        f"{LOOK}</think><think>{RUN}",
        f"<think>a <thought>b</thought> {RUN}",
        f"So <think>a <thought>b</thought> {RUN}",
        "<execute_command><think><command>touch DANGER</command></think></execute_command>",
    ],
)
def test_calls_in_an_opened_section_are_none(text: str) -> None:
    assert "DANGER" not in str([call.input for call in assemble_xml(text).calls])


@pytest.mark.contract("calls:in-reasoning")
def test_a_section_between_parameters_leaves_the_call_whole() -> None:
    text = "<write_to_file><think>where?</think><path>a</path><content>b</content></write_to_file>"
    [call] = assemble_xml(text).calls
    assert (call.input, call.problem) == ({"path": "a", "content": "b"}, None)


@pytest.mark.contract("calls:in-reasoning")
@pytest.mark.parametrize(
    "given_up",
    [
        "<execute_command><command>touch DANGER no.</think>",
    ],
)
def test_a_call_that_is_given_up_in_reasoning_is_not_run(given_up: str) -> None:
    [call] = assemble_xml(
        f"{given_up}\n<execute_command><command>ls</command></execute_command>"
    ).calls
    assert call.problem is not None
    assert "<command>" in call.problem


@pytest.mark.contract("calls:in-reasoning")
def test_a_call_given_up_after_its_parameters_leaves_the_next_call_whole() -> None:
    [call] = assemble_xml(
        "<execute_command><command>touch DANGER</command> no.</think>\n"
        "<execute_command><command>ls</command></execute_command>"
    ).calls
    assert (call.input, call.problem) == ({"command": "ls"}, None)


@pytest.mark.contract("calls:in-reasoning")
@given(st.data(), wholes, wholes)
@settings(max_examples=200)
def test_only_what_comes_after_the_closing_tag_counts_at_every_split(
    data: st.DataObject, before: str, after: str
) -> None:
    text = f"Hm. {before}</think>{after}"
    reply, _ = assemble(map(TextChunk, data.draw(split_randomly(text))), ToolProtocol.XML)
    alone, _ = assemble([TextChunk(f"</think>{after}")], ToolProtocol.XML)
    assert reply.raw == alone.raw
    if "<think" not in after:
        assert reply.raw == after.lstrip()
    assert [(call.name, call.input) for call in reply.calls] == [
        (call.name, call.input) for call in alone.calls
    ]
    assert reply.text == alone.text
    assert all(isinstance(part, ReasoningPart) for part in reply.parts[: -len(alone.parts) or None])
