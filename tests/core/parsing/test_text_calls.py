from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joey.core.messages import TextChunk, TextPart
from joey.core.models import ToolProtocol
from tests.harness.core.streams import assemble, assemble_xml, split_randomly


@pytest.mark.contract("calls:in-text")
def test_a_tool_code_fence_with_an_action_is_the_call_that_it_names() -> None:
    text = (
        "Explanation text\n\n```tool_code\n"
        '{"tool":"file_system","action":"read_file","parameters":{"path":"src/app.ts"}}\n```\n'
    )
    reply = assemble_xml(text)
    (call,) = reply.calls
    assert (call.name, call.input, call.problem) == ("read_file", {"path": "src/app.ts"}, None)
    assert reply.parts[0] == TextPart("Explanation text")
    assert reply.raw == text


@pytest.mark.contract("calls:in-text")
@pytest.mark.parametrize(
    "text",
    [
        '```tool_code\n{"tool": "list_files", "parameters": {"path": "."}}\n```',
        '```tool_code\r\n{"tool": "list_files", "parameters": {"path": "."}}\r\n```',
        '```tool_code\n{\n  "tool": "list_files",\n  "parameters": {"path": "."}\n}\n```',
        '```tool_code\n{"tool": "list_files", "parameters": {"path": "."}}',
        '<tool_call>{"name": "list_files", "arguments": {"path": "."}}</tool_call>',
        '<tool_call>\n{"name": "list_files", "arguments": {"path": "."}}\n</tool_call>',
        '<tool_call>{"name": "list_files", "arguments": "{\\"path\\": \\".\\"}"}</tool_call>',
        '<tool_call>{"name": "list_files", "arguments": {"path": "."}}',
    ],
)
def test_json_in_the_text_that_names_a_known_tool_is_that_call(text: str) -> None:
    (part,) = assemble_xml(text).parts
    (call,) = assemble_xml(text).calls
    assert (call.name, call.input, call.problem) == ("list_files", {"path": "."}, None)
    assert part is not None


def test_a_call_may_hold_its_own_closing() -> None:
    content = "```tool_code\n```\n</tool_call> <list_files>"
    block = json.dumps({"name": "write_to_file", "arguments": {"path": "a", "content": content}})
    (call,) = assemble_xml(f"<tool_call>{block}</tool_call>").calls
    assert call.input["content"] == content


def test_several_blocks_are_several_calls() -> None:
    block = '<tool_call>{"name": "list_files", "arguments": {"path": "%s"}}</tool_call>\n'
    reply = assemble_xml(block % "a" + block % "b")
    assert [call.input["path"] for call in reply.calls] == ["a", "b"]


def test_a_call_without_arguments_has_none() -> None:
    (call,) = assemble_xml('<tool_call>{"name": "list_files"}</tool_call>').calls
    assert call.input == {}


@pytest.mark.contract("calls:in-text")
@pytest.mark.parametrize(
    "text",
    [
        '```tool_code\n{"tool": "unknown", "parameters": {}}\n```',
        '```tool_code\n{"tool": "list_files", "parameters": [1]}\n```',
        '```tool_code\n{"tool": "list_files", "parameters": {"path": \n```',
        "```tool_code\nprint('hello')\n```",
        '```json\n{"tool": "list_files", "parameters": {}}\n```\nThat is how it looks.',
        '```python\nlist_files(path=".")\n```',
        '<tool_call>{"name": 5, "arguments": {}}</tool_call>',
        '<tool_call>{"name": "list_files", "arguments": "not json"}</tool_call>',
        '<tool_call>{"name": "list_files", "argu',
        '<tool_call>["list_files"]</tool_call>',
        "<tool_call></tool_call>",
        "```tool_code",
    ],
)
def test_anything_else_stays_text(text: str) -> None:
    assert assemble_xml(text).parts == (TextPart(text),)


@pytest.mark.parametrize("between", ["Now the other:", "Observation: done", "[see below]"])
@pytest.mark.parametrize("form", ["<tool_call>%s</tool_call>\n", "```json\n%s\n```\n"])
def test_a_call_before_text_and_another_call_is_reported(between: str, form: str) -> None:
    block = form.replace("%s", '{"name": "list_files", "arguments": {"path": "%s"}}')
    reply = assemble_xml(f"{block % 'a'}{between}\n{block % 'b'}")
    assert [call.input["path"] for call in reply.calls] == ["b"]
    assert reply.unusable_call is not None
    assert reply.unusable_call.problem.startswith("Text follows the call of list_files")
    assert assemble_xml(f"{block % 'a'}{between}\n").unusable_call is None
    shown = '`<tool_call>{"name": "list_files", "arguments": {"path": "a"}}</tool_call>`'
    assert assemble_xml(f"Not {shown}.\n{block % 'b'}").unusable_call is None


def test_a_call_behind_an_unfinished_one_is_part_of_it() -> None:
    broken = '<tool_call>{"name": "list_files", "arguments": {"path": "\\uZZ\n'
    text = f"{broken}<list_files><path>.</path></list_files>"
    assert assemble_xml(text).parts == (TextPart(text),)
    assert assemble_xml(text).unusable_call is not None


def test_a_call_behind_a_malformed_one_is_understood() -> None:
    malformed = '<tool_call>{"name": "list_files", "arguments": {"path": }}</tool_call>'
    reply = assemble_xml(f"{malformed}\n<list_files><path>.</path></list_files>")
    assert reply.parts[0] == TextPart(malformed)
    assert [call.input for call in reply.calls] == [{"path": "."}]


def test_xml_calls_inside_a_tool_call_tag_are_calls() -> None:
    reply = assemble_xml("<tool_call>\n<list_files><path>.</path></list_files>\n</tool_call>")
    assert [call.name for call in reply.calls] == ["list_files"]


@pytest.mark.contract("calls:in-text")
def test_the_setting_turns_it_off() -> None:
    text = '<tool_call>{"name": "list_files", "arguments": {"path": "."}}</tool_call>'
    assert assemble_xml(text, understand_text_calls=False).parts == (TextPart(text),)


def test_calls_at_the_end_of_the_text_are_calls_in_a_native_task_too() -> None:
    text = (
        'Both.\n<tool_call>{"name": "list_files", "arguments": {}}</tool_call>'
        "<list_files><path>.</path></list_files>"
    )
    reply, _ = assemble([TextChunk(text)])
    assert reply.parts[0] == TextPart("Both.")
    assert [call.input for call in reply.calls] == [{}, {"path": "."}]
    assert [call.repairs for call in reply.calls] == [("callInText",)] * 2


blocks = st.sampled_from(
    [
        '```tool_code\n{"tool": "read_file", "parameters": {"path": "a\\u00e9"}}\n```',
        '<tool_call>{"name": "list_files", "arguments": {"path": "</tool_call>"}}</tool_call>',
        '<tool_call>{"name": "nobody", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "list_files", "arguments": {"path": "\\uZZ',
        "<tool_call>{",
        "words ",
        "\n",
    ]
)


@given(st.data(), st.lists(blocks, max_size=5).map("".join))
@settings(max_examples=150)
def test_blocks_are_understood_at_every_split(data: st.DataObject, text: str) -> None:
    whole, _ = assemble([TextChunk(text)], ToolProtocol.XML)
    cut, _ = assemble(map(TextChunk, data.draw(split_randomly(text))), ToolProtocol.XML)
    assert whole == cut


@pytest.mark.parametrize(
    "text",
    [
        "<read_file>" * 5_000,
        "<tool_call>read_file" + "<arg_key>a</arg_key><arg_value>b" * 3_000,
        '<invoke name="read_file">' + '<parameter name="path">x' * 3_000,
        "```tool_code\n" + " " * 100_000 + "x\n" * 1_000,
        "<tool_call>" * 10_000 + "{" * 50_000,
    ],
)
@pytest.mark.parametrize("protocol", ToolProtocol)
@pytest.mark.timeout(30)
def test_calls_that_are_opened_without_end_are_given_up(text: str, protocol: ToolProtocol) -> None:
    reply, _ = assemble([TextChunk(text)], protocol)
    assert not [call for call in reply.calls if call.problem is None]
