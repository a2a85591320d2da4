from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joey.core.messages import (
    CallChunk,
    CallPart,
    Chunk,
    ReasoningPart,
    StopChunk,
    TextChunk,
    TextPart,
    ToolCall,
)
from joey.core.models import ToolProtocol
from joey.core.parsing.parts import PartDelta
from tests.harness.core.streams import (
    assemble,
    assemble_xml,
    join_deltas,
    make_assembler,
    split_randomly,
    xml_texts,
)


def only_call(text: str) -> ToolCall:
    (call,) = assemble_xml(text).calls
    assert call.problem is None
    return call


@pytest.mark.contract("calls:xml")
def test_text_before_and_after_a_call_is_distinguished_from_it() -> None:
    text = (
        "I'll create a file for you.\n\n<write_to_file>\n<path>hello.txt</path>\n"
        "<file_text>Hello World</file_text>\n</write_to_file>\n\nDone."
    )
    reply = assemble_xml(text)
    assert reply.parts == (
        TextPart("I'll create a file for you."),
        CallPart(
            ToolCall(
                "made_1",
                "write_to_file",
                {"path": "hello.txt", "content": "Hello World"},
                repairs=("parameterName",),
            )
        ),
        TextPart("Done."),
    )
    assert reply.raw == text


@pytest.mark.contract("calls:xml")
def test_calls_side_by_side_keep_their_order_and_have_no_empty_text_between() -> None:
    reply = assemble_xml(
        "<list_files><path>.</path></list_files>\n\n"
        "<list_files><path>src</path><recursive>true</recursive></list_files>"
        "<attempt_completion><result>All seen.</result></attempt_completion>"
    )
    assert [(call.name, call.input) for call in reply.calls] == [
        ("list_files", {"path": "."}),
        ("list_files", {"path": "src", "recursive": "true"}),
        ("attempt_completion", {"result": "All seen."}),
    ]
    assert len(reply.parts) == 3
    assert len({call.id for call in reply.calls}) == 3


@pytest.mark.contract("calls:xml")
@pytest.mark.parametrize(
    ("written", "content"),
    [
        ("\nx\n", "x"),
        ("\n\n  x\n\n", "\n  x\n"),
        ("\r\nx\r\n", "x"),
        ("  x  ", "  x  "),
        ("x", "x"),
        ("", ""),
        ("\n", ""),
        ("\n\n", ""),
        ("\n\n\n", "\n"),
        (" \n ", " \n "),
    ],
)
def test_content_loses_one_newline_at_each_end(written: str, content: str) -> None:
    call = only_call(
        f"<write_to_file><path>\n  a \n</path><content>{written}</content></write_to_file>"
    )
    assert call.input == {"path": "a", "content": content}


def test_search_text_keeps_its_indentation() -> None:
    call = only_call(
        "<search_replace><file_path>a.py</file_path><old_string>\n    x = 1\n</old_string>"
        "<new_string>\n    x = 2\n</new_string></search_replace>"
    )
    assert call.input["old_string"] == "    x = 1"
    assert call.input["new_string"] == "    x = 2"


@pytest.mark.contract("calls:xml")
@pytest.mark.parametrize(
    "content",
    [
        "<path>other</path>",
        "<read_file><path>x</path></read_file>",
        "</write_to_file>",
        "a </path> b",
        "<content>",
        "</conten",
        "< / > & &lt; ]]> <!-- <",
        "```tool_code\n{}\n```",
        "<think>no</think>",
    ],
)
def test_tags_inside_content_are_content(content: str) -> None:
    call = only_call(f"<write_to_file><path>a</path><content>{content}</content></write_to_file>")
    assert call.input == {"path": "a", "content": content}


@pytest.mark.contract("calls:xml")
@pytest.mark.parametrize(
    "content",
    [
        "<entry><content>x</content></entry>",
        "<content>x</content><content>y</content>",
        "one </content> two </content> three",
        "<entry><content>x</content><path>inner</path></entry>",
        "</content>",
        "</content></content>",
        "</content>\n\n  spaced",
    ],
)
def test_content_reaches_to_its_last_closing_tag(content: str) -> None:
    call = only_call(f"<write_to_file><path>a</path><content>{content}</content></write_to_file>")
    assert call.input == {"path": "a", "content": content}


@pytest.mark.contract("calls:xml")
@pytest.mark.parametrize(
    "content",
    [
        "Use:\n{call}\nend",
        "{call}",
        "One:\n{call}\nTwo:\n{call}\nend",
        "Open with `<content>`:\n{call}\nClose with `</content>`.",
    ],
)
def test_a_content_that_quotes_a_whole_call_is_a_problem(content: str) -> None:
    quoted = "<write_to_file>\n<path>x</path>\n<content>\nhi\n</content>\n</write_to_file>"
    text = content.replace("{call}", quoted)
    reply = assemble_xml(
        "<list_files><path>.</path></list_files>\n<write_to_file>\n<path>doc.md</path>\n"
        f"<content>\n{text}\n</content>\n</write_to_file>"
    )
    first, *others = reply.calls
    assert first.problem is None
    assert others
    for call in others:
        assert call.problem is not None
        assert "</content> and </write_to_file> once more" in call.problem


@pytest.mark.parametrize(
    "text",
    [
        "Done.",
        "It ends with `</content>` and `</write_to_file>`.",
        "Like <content>this</content>, then </write_to_file>.",
        "Too many ends: </write_to_file>",
        "</content>",
        "</content> and now <write_to_file><path>b</path><content>y</content></write_to_file>",
        "</result></attempt_completion>",
    ],
)
def test_other_text_behind_a_call_does_not_make_it_a_problem(text: str) -> None:
    reply = assemble_xml(
        f"<write_to_file><path>a</path><content>x</content></write_to_file>\n{text}"
    )
    assert reply.calls[0].input == {"path": "a", "content": "x"}
    assert [call.problem for call in reply.calls] == [None] * len(reply.calls)


def test_a_call_behind_a_doubted_one_is_not_doubted_if_the_text_before_it_is_left_over() -> None:
    reply = assemble_xml(
        "<write_to_file><path>a</path><content>x</content></write_to_file>"
        "</content></write_to_file>\n<list_files><path>.</path></list_files>"
    )
    assert [call.problem is None for call in reply.calls] == [False, True]


@pytest.mark.parametrize(
    ("written", "content"),
    [
        ("<![CDATA[<b>x</b>]]>", "<b>x</b>"),
        ("\n<![CDATA[\n  x\n]]>\n", "  x"),
        ("<![CDATA[]]>", ""),
        ("<![CDATA[a</content>b]]>", "a</content>b"),
        ("<![CDATA[a]]> and <![CDATA[b]]>", "<![CDATA[a]]> and <![CDATA[b]]>"),
        ("<![CDATA[a", "<![CDATA[a"),
        ("x <![CDATA[a]]>", "x <![CDATA[a]]>"),
        ("<![CDAT", "<![CDAT"),
        ("<![CDATA[]>", "<![CDATA[]>"),
    ],
)
def test_a_value_that_is_one_cdata_section_is_what_it_holds(written: str, content: str) -> None:
    call = only_call(
        f"<write_to_file><path><![CDATA[ a ]]></path><content>{written}</content></write_to_file>"
    )
    assert call.input == {"path": "a", "content": content}


def test_parameters_may_follow_the_content() -> None:
    call = only_call(
        "<write_to_file><content>x</content>\n<line_count>1</line_count><path>a</path></write_to_file>"
    )
    assert call.input == {"content": "x", "line_count": "1", "path": "a"}


def test_what_stands_between_a_closed_content_and_the_end_of_the_call_is_nothing() -> None:
    call = only_call(
        "<write_to_file><path>a</path><content>x</content>\n"
        "<task_progress>- [x] all</task_progress>\n</write_to_file>"
    )
    assert call.input == {"path": "a", "content": "x"}


def test_an_old_string_may_hold_its_own_closing_tag() -> None:
    call = only_call(
        "<search_replace><file_path>a</file_path><old_string>A </old_string> B</old_string>\n"
        "<new_string>C </new_string> D</new_string></search_replace>"
    )
    assert call.input == {
        "file_path": "a",
        "old_string": "A </old_string> B",
        "new_string": "C </new_string> D",
    }


def test_a_parameter_given_twice_keeps_its_first_value() -> None:
    assert only_call("<list_files><path>a</path><path>b</path></list_files>").input == {"path": "a"}


def test_a_tool_that_takes_line_ranges_takes_several_of_each_parameter() -> None:
    call = only_call(
        "<read_file><path>a</path>\n<line_range>1-5</line_range>\n<line_range>9</line_range>"
        "<path>b</path><start_line>1</start_line></read_file>"
    )
    assert call.input == {"path": ["a", "b"], "line_range": ["1-5", "9"], "start_line": "1"}


def test_files_without_args_around_them_are_handed_on_together() -> None:
    call = only_call(
        "<read_file>\n<file><path>a</path></file>\n<file><path>b</path></file>\n</read_file>"
    )
    assert call.input == {"file": "<path>a</path></file>\n<file><path>b</path>"}


def test_a_call_without_parameters_has_none() -> None:
    assert only_call("<list_files></list_files>").input == {}


def test_aliases_are_calls_under_the_name_that_was_used() -> None:
    assert only_call("<write_file><path>a</path></write_file>").name == "write_file"


@pytest.mark.contract("calls:xml")
def test_args_are_handed_on_as_they_are_written() -> None:
    call = only_call(
        "<read_file>\n<args>\n  <file>\n    <path>src/app.ts</path>\n  </file>\n</args>\n"
        "</read_file>"
    )
    assert call.input == {"args": "<file>\n    <path>src/app.ts</path>\n  </file>"}


@pytest.mark.contract("calls:xml")
@pytest.mark.parametrize(
    "text",
    [
        "<unknown_tool><path>a</path></unknown_tool>",
        "<path>a</path>",
        "a < b and c > d",
        "<read_file >",
        '<read_file path="a">',
        "</read_file>",
        "Use `<read_file>` for that.",
        "<Read_File>",
        "half a tag: <read_fi",
        "just words ``",
    ],
)
def test_what_is_not_exactly_a_tool_tag_is_text(text: str) -> None:
    assert assemble_xml(text).parts == (TextPart(text),)


def test_a_call_follows_a_mention_of_another_tool() -> None:
    reply = assemble_xml("Not `<read_file>` but:\n<list_files><path>.</path></list_files>")
    assert reply.parts[0] == TextPart("Not `<read_file>` but:")
    assert [call.name for call in reply.calls] == ["list_files"]


def test_later_sections_of_reasoning_are_taken_out_of_the_text() -> None:
    text = "So.\n<thinking>Which file?</thinking>\n<list_files><path>.</path></list_files>"
    reply = assemble_xml(text)
    assert reply.parts[:2] == (TextPart("So."), ReasoningPart("Which file?"))
    assert reply.raw == "So.\n<list_files><path>.</path></list_files>"


@pytest.mark.parametrize("text", ["", " \n", "\n\n\t"])
def test_white_space_alone_is_no_part(text: str) -> None:
    reply = assemble_xml(text)
    assert reply.parts == ()
    assert reply.raw == text
    assert reply.is_empty


@pytest.mark.contract("calls:incomplete")
@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("<write_to_file><path>a</path><content>half of", "content"),
        ("<write_to_file>", "write_to_file"),
        ("<write_to_file><path>a", "path"),
        ("<write_to_file><path>a</path><content>forgotten\n</write_to_file>", "content"),
    ],
)
def test_an_unclosed_call_is_a_problem(text: str, tag: str) -> None:
    (call,) = assemble_xml(text).calls
    assert call.name == "write_to_file"
    assert call.problem is not None
    assert f"<{tag}> was never closed" in call.problem


@pytest.mark.contract("calls:incomplete")
def test_a_call_cut_off_by_the_output_limit_says_so() -> None:
    chunks: list[Chunk] = [
        TextChunk("<write_to_file><path>a</path><content>half"),
        StopChunk("length"),
    ]
    reply, _ = assemble(chunks, ToolProtocol.XML)
    (call,) = reply.calls
    assert call.problem is not None
    assert "output limit" in call.problem


def test_a_cancel_leaves_whole_calls_whole_and_open_ones_a_problem() -> None:
    text = "<list_files><path>.</path></list_files><list_files><path>src</path>"
    whole, open_call = assemble_xml(text, complete=False).calls
    assert whole.problem is None
    assert open_call.problem is not None
    assert "interrupted" in open_call.problem


@pytest.mark.contract("calls:xml")
def test_a_tag_that_has_only_begun_is_not_shown() -> None:
    assembler = make_assembler(ToolProtocol.XML)
    assert assembler.feed(TextChunk("Reading <read_"))[1:] == [PartDelta(0, "Reading")]
    assert assembler.feed(TextChunk("it> is no tool")) == [PartDelta(0, " <read_it> is no tool")]


def test_the_arguments_of_an_open_call_can_be_seen() -> None:
    assembler = make_assembler(ToolProtocol.XML)
    assembler.feed(TextChunk("Writing.<write_to_file><path>a.py</path><content>\nimport o"))
    assert assembler.get_partial_arguments(1) == {"path": "a.py", "content": "import o"}
    assembler.feed(TextChunk("s\n</content></write_to_file>"))
    assert assembler.get_partial_arguments(1) == {"path": "a.py", "content": "import os"}
    assert assembler.get_partial_arguments(0) == {}


def test_the_deltas_of_a_call_are_the_json_of_its_arguments() -> None:
    text = '<write_to_file><path>a</path><content>\nsay "hi"\\\n\té\n</content></write_to_file>'
    _, events = assemble(map(TextChunk, text), ToolProtocol.XML)
    assert join_deltas(events) == {0: '{"path": "a", "content": "say \\"hi\\"\\\\\\n\\té"}'}


@pytest.mark.contract("calls:xml")
def test_a_megabyte_of_content_arrives_whole() -> None:
    content = "x = [1, 2, 3]  # <b>\n" * 60_000
    text = f"<write_to_file><path>a</path><content>{content}</content></write_to_file>"
    pieces = (text[start : start + 997] for start in range(0, len(text), 997))
    reply, _ = assemble(map(TextChunk, pieces), ToolProtocol.XML)
    (call,) = reply.calls
    assert call.input["content"] == content.removesuffix("\n")


def test_structured_calls_in_an_xml_task_are_understood() -> None:
    chunks: list[Chunk] = [
        TextChunk("Look: <list_files><path>"),
        CallChunk(0, id="call_1", name="read_file", arguments='{"path": "a"}'),
        TextChunk(".</path></list_files>"),
    ]
    reply, _ = assemble(chunks, ToolProtocol.XML)
    assert [(call.name, call.input) for call in reply.calls] == [
        ("list_files", {"path": "."}),
        ("read_file", {"path": "a"}),
    ]
    assert reply.raw == "Look: <list_files><path>.</path></list_files>"


@pytest.mark.contract("calls:xml")
@given(st.data(), xml_texts | st.text(), st.booleans(), st.booleans())
@settings(max_examples=200)
def test_any_text_gives_the_same_reply_at_every_split(
    data: st.DataObject, text: str, complete: bool, understand: bool
) -> None:
    pieces = data.draw(split_randomly(text))
    outcomes = [
        assemble(
            map(TextChunk, cut),
            ToolProtocol.XML,
            complete=complete,
            understand_text_calls=understand,
        )
        for cut in ([text], text, pieces)
    ]
    replies = [reply for reply, _ in outcomes]
    deltas = [join_deltas(events) for _, events in outcomes]
    assert replies[0] == replies[1] == replies[2]
    assert deltas[0] == deltas[1] == deltas[2]


@given(st.text(), st.text().filter(lambda text: not text.endswith("\r")))
@settings(max_examples=100)
def test_any_content_without_closing_tags_arrives_as_written(path: str, content: str) -> None:
    text = f"<write_to_file><path>{path}</path><content>\n{content}\n</content></write_to_file>"
    assert only_call(text).input == {"path": path.strip(), "content": content}


def test_a_call_within_a_sentence_is_answered_with_how_to_make_it() -> None:
    reply = assemble_xml(
        "If you send <execute_command><command>ls</command></execute_command> to it, it lists."
    )
    (call,) = reply.calls
    assert call.problem == (
        "The call of execute_command was not executed: it stands within a sentence, as if it were"
        " quoted. To make it, write it again on lines of its own. To quote it, put it in"
        " backquotes."
    )
