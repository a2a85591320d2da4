"""The API history is valid at every moment, whatever has happened so far."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.core.events import (
    ContextCondensed,
    Durable,
    ReplyReceived,
    RequestStarted,
    RowPart,
    TaskImported,
    ToolFinished,
)
from joey.core.history.api import INTERRUPTED_TEXT, ApiHistory
from joey.core.messages import (
    CallPart,
    ImageBlock,
    Message,
    Part,
    ReasoningPart,
    RedactedThinkingBlock,
    TextBlock,
    TextPart,
    ThinkingBlock,
    ToolCall,
    ToolResultBlock,
    ToolUseBlock,
)
from joey.core.models import ToolProtocol
from joey.core.prompts.messages_to_model import EMPTY_RESULT_TEXT, INTERRUPTED_CALL_TEXT

PIXEL = "data:image/png;base64,AAAA"


def asked(ts: int, text: str = "hello") -> RequestStarted:
    return RequestStarted(ts=ts, api_protocol="anthropic", content=(TextBlock(text),))


def replied(ts: int, *parts: Part, raw: str | None = None, cut: bool = False) -> ReplyReceived:
    placed = tuple(RowPart(ts=ts, part=part) for part in parts)
    return ReplyReceived(ts=ts, parts=placed, raw=raw, interrupted=cut)


def call(call_id: str, name: str = "read_file") -> CallPart:
    return CallPart(ToolCall(id=call_id, name=name, input={"path": call_id}))


def finished(ts: int, call_id: str, content: str = "ok") -> ToolFinished:
    return ToolFinished(ts=ts, call_id=call_id, tool="read_file", content=content)


def check_valid(messages: list[Message]) -> None:
    """Roles alternate, and each call has exactly one result in the very next user message."""
    for before, after in pairwise(messages):
        assert before.role != after.role
        uses = [block.id for block in before.content if isinstance(block, ToolUseBlock)]
        results = [
            block.tool_use_id for block in after.content if isinstance(block, ToolResultBlock)
        ]
        if before.role == "assistant":
            assert results == uses


@pytest.mark.contract("history:api")
@given(st.data())
def test_every_call_has_exactly_one_result_at_every_moment(data: st.DataObject) -> None:
    history = ApiHistory()
    open_ids: list[str] = []
    made = 0
    for ts in range(1, data.draw(st.integers(1, 25))):
        step = data.draw(st.sampled_from(["ask", "retry", "reply", "finish", "cut"]))
        match step:
            case "ask":
                history.apply(asked(ts))
                open_ids = []
            case "retry":
                history.apply(RequestStarted(ts=ts, api_protocol="anthropic"))
                open_ids = []
            case "reply" | "cut" if (
                history.request_messages and history.request_messages[-1].role == "user"
            ):
                count = data.draw(st.integers(0, 3))
                open_ids = [f"call_{made + n}" for n in range(count)]
                made += count
                parts: tuple[Part, ...] = (TextPart("so"), *(call(call_id) for call_id in open_ids))
                history.apply(replied(ts, *parts, cut=step == "cut"))
            case "finish" if open_ids:
                history.apply(finished(ts, data.draw(st.sampled_from(open_ids))))
        check_valid(history.list_stored_messages())


@pytest.mark.contract("history:api")
def test_results_keep_the_order_of_the_calls_and_images_follow_them() -> None:
    history = ApiHistory()
    history.apply(asked(1))
    history.apply(replied(2, call("a"), call("b")))
    history.apply(finished(3, "b", "second"))
    history.apply(
        ToolFinished(ts=4, call_id="a", tool="read_file", content="first", images=(PIXEL,))
    )
    history.apply(asked(5, "go on"))
    blocks = history.request_messages[-1].content
    assert [type(block) for block in blocks] == [
        ToolResultBlock,
        ToolResultBlock,
        ImageBlock,
        TextBlock,
    ]
    assert isinstance(blocks[0], ToolResultBlock)
    assert blocks[0].content == "first"


@pytest.mark.contract("history:api")
def test_a_call_without_outcome_reads_as_interrupted() -> None:
    history = ApiHistory()
    history.apply(asked(1))
    history.apply(replied(2, call("a"), call("b")))
    history.apply(finished(3, "a"))
    last = history.list_stored_messages()[-1].content[-1]
    assert isinstance(last, ToolResultBlock)
    assert (last.tool_use_id, last.content) == ("b", INTERRUPTED_CALL_TEXT)


@pytest.mark.contract("history:api")
def test_a_completion_that_is_not_continued_ends_with_the_assistants_message() -> None:
    history = ApiHistory()
    history.apply(asked(1))
    history.apply(replied(2, call("done", "attempt_completion")))
    assert history.list_stored_messages()[-1].role == "assistant"


def test_a_retried_request_adds_nothing() -> None:
    history = ApiHistory()
    history.apply(asked(1))
    before = list(history.request_messages)
    history.apply(RequestStarted(ts=2, api_protocol="anthropic"))
    assert history.request_messages == before


def test_text_after_an_unanswered_message_joins_it_and_old_environment_details_go() -> None:
    history = ApiHistory()
    stale = "<environment_details>\nold\n</environment_details>"
    history.apply(
        RequestStarted(ts=1, api_protocol="x", content=(TextBlock("one"), TextBlock(stale)))
    )
    fresh = TextBlock("<environment_details>\nnew\n</environment_details>")
    history.apply(RequestStarted(ts=2, api_protocol="x", content=(TextBlock("two"), fresh)))
    assert len(history.request_messages) == 1
    assert history.request_messages[0].content == (TextBlock("one"), TextBlock("two"), fresh)


def test_closed_messages_keep_their_identity_so_that_their_bytes_can_be_kept() -> None:
    history = ApiHistory()
    history.apply(asked(1))
    history.apply(replied(2, call("a")))
    first, second = history.request_messages[:2]
    history.apply(finished(3, "a"))
    history.apply(asked(4))
    assert history.request_messages[0] is first
    assert history.request_messages[1] is second


def test_a_history_that_is_being_saved_is_not_changed_by_a_summary_that_comes_meanwhile() -> None:
    history = ApiHistory()
    history.apply(asked(1))
    summary = ContextCondensed(
        ts=2,
        condense_id="c",
        summary="so far",
        content=(TextBlock("so far"),),
        tokens_before=9,
        tokens_after=1,
    )
    saving = history.iter_stored_messages()
    history.apply(summary)
    [said] = saving
    assert said.content == (TextBlock("hello"),)


def test_thinking_goes_back_as_it_came() -> None:
    history = ApiHistory()
    history.apply(asked(1))
    history.apply(
        replied(
            2,
            ReasoningPart("hm", signature="sig"),
            ReasoningPart("", redacted="blob"),
            TextPart("so"),
        )
    )
    assert history.request_messages[-1].content[:2] == (
        ThinkingBlock(thinking="hm", signature="sig"),
        RedactedThinkingBlock("blob"),
    )


@pytest.mark.contract("history:api")
def test_an_interrupted_reply_is_kept_and_marked() -> None:
    history = ApiHistory()
    history.apply(asked(1))
    history.apply(replied(2, TextPart("I was say"), cut=True))
    assert history.request_messages[-1].content == (
        TextBlock("I was say"),
        TextBlock(INTERRUPTED_TEXT),
    )


def test_a_reply_cut_before_its_first_word_leaves_no_message() -> None:
    history = ApiHistory()
    history.apply(asked(1))
    history.apply(replied(2, cut=True))
    assert [message.role for message in history.list_stored_messages()] == ["user"]


@pytest.mark.contract("history:api")
def test_an_xml_task_shows_calls_and_results_as_text_only() -> None:
    history = ApiHistory(ToolProtocol.XML)
    raw = "Let me look.\n<read_file><path>a</path></read_file>"
    history.apply(asked(1))
    history.apply(replied(2, TextPart("Let me look."), call("x1"), raw=raw))
    history.apply(
        ToolFinished(
            ts=3,
            call_id="x1",
            tool="read_file",
            content="body",
            result_header="[read_file for 'a'] Result:",
        )
    )
    history.apply(asked(4, "env"))
    assert history.request_messages[1].content == (TextBlock(raw),)
    assert history.request_messages[2].content == (
        TextBlock("[read_file for 'a'] Result:"),
        TextBlock("body"),
        TextBlock("env"),
    )


@pytest.mark.contract("protocol:change")
def test_the_same_events_read_as_structured_calls_or_as_tags() -> None:
    """Whichever protocol a turn was born in; messages and their order are the same."""
    born_native = replied(
        2,
        TextPart("One."),
        CallPart(ToolCall(id="a", name="read_file", input={"path": "a", "limit": 3, "mode": None})),
        TextPart("Two."),
        call("b"),
    )
    raw = "Three.\n<read_file>\n<path>c</path>\n</read_file>"
    events: list[Durable] = [
        asked(1),
        born_native,
        finished(3, "b", "second"),
        finished(4, "a", "first"),
        asked(5),
        replied(6, TextPart("Three."), call("c"), raw=raw),
        finished(7, "c"),
        asked(8),
    ]
    native, xml = ApiHistory(), ApiHistory(ToolProtocol.XML)
    for event in events:
        native.apply(event)
        xml.apply(event)
    check_valid(list(native.request_messages))
    assert [message.ts for message in native.request_messages] == [
        message.ts for message in xml.request_messages
    ]
    assert native.request_messages[3].content == (
        TextBlock("Three."),
        ToolUseBlock(id="c", name="read_file", input={"path": "c"}),
    )
    assert xml.request_messages[1].content == (
        TextBlock("One."),
        TextBlock("<read_file>\n<path>\na\n</path>\n<limit>\n3\n</limit>\n</read_file>"),
        TextBlock("Two."),
        TextBlock("<read_file>\n<path>\nb\n</path>\n</read_file>"),
    )
    assert xml.request_messages[3].content == (TextBlock(raw),)
    blocks = [block for block in xml.request_messages[2].content if isinstance(block, TextBlock)]
    assert [block.text for block in blocks] == [
        "[read_file] Result:",
        "first",
        "[read_file] Result:",
        "second",
        "hello",
    ]


def test_an_imported_native_history_is_shown_as_tags_and_its_open_call_stays_open() -> None:
    messages = (
        Message(role="user", content=(TextBlock("do it"),)),
        Message(
            role="assistant",
            content=(ToolUseBlock(id="t1", name="read_file", input={"path": "a"}),),
        ),
    )
    history = ApiHistory(ToolProtocol.XML)
    history.apply(
        TaskImported(
            ts=1,
            task_id="t",
            workspace="",
            mode="code",
            tool_protocol=ToolProtocol.NATIVE,
            rows=(),
            messages=messages,
        )
    )
    assert [open_call.id for open_call in history.open_calls] == ["t1"]
    history.apply(asked(2))
    assert history.request_messages[1].content == (
        TextBlock("<read_file>\n<path>a</path>\n</read_file>"),
    )
    assert history.request_messages[2].content == (
        TextBlock("[read_file] Result:"),
        TextBlock(INTERRUPTED_CALL_TEXT),
        TextBlock("hello"),
    )


def test_an_imported_xml_history_is_shown_as_structured_calls() -> None:
    reply = (
        "Both.\n<read_file>\n<args><file><path>a</path></file></args>\n</read_file>\nand\n"
        "<list_files>\n<path>\n.\n</path>\n<recursive>true</recursive>\n</list_files>"
    )
    environment = "<environment_details>\nnow\n</environment_details>"
    results = (
        TextBlock("[read_file for 'a'] Result:"),
        TextBlock("body"),
        TextBlock("[list_files for '.'] Result:\n\na.py"),
        TextBlock("[no_such_call] Result:"),
        TextBlock(environment),
    )
    empty = (TextBlock("[read_file for 'b'] Result:"), TextBlock(environment))
    messages = (
        Message(role="user", content="do it"),
        Message(role="assistant", content=(TextBlock(reply),)),
        Message(role="user", content=results),
        Message(role="assistant", content="<read_file><path>b</path></read_file>"),
        Message(role="user", content=empty),
        Message(
            role="assistant", content="<attempt_completion><result>x</result></attempt_completion>"
        ),
    )
    history = ApiHistory(ToolProtocol.NATIVE)
    history.apply(
        TaskImported(
            ts=1,
            task_id="t",
            workspace="",
            mode="code",
            tool_protocol=ToolProtocol.XML,
            rows=(),
            messages=messages,
        )
    )
    shown = list(history.request_messages)
    check_valid(shown)
    read, listed = "imported_1_0", "imported_1_1"
    assert shown[1].content == (
        TextBlock("Both."),
        ToolUseBlock(read, "read_file", {"args": "<file><path>a</path></file>"}),
        TextBlock("and"),
        ToolUseBlock(listed, "list_files", {"path": ".", "recursive": "true"}),
    )
    assert shown[2].content == (
        ToolResultBlock(read, "body"),
        ToolResultBlock(listed, "a.py"),
        *results[3:],
    )
    assert shown[3].content == (ToolUseBlock("imported_3_0", "read_file", {"path": "b"}),)
    assert shown[4].content == (
        ToolResultBlock("imported_3_0", EMPTY_RESULT_TEXT),
        TextBlock(environment),
    )
    assert shown[5] is messages[5]


def test_an_adopted_history_whose_last_calls_are_open_is_closed_by_the_next_request() -> None:
    messages = (
        Message(role="user", content=(TextBlock("do it"),)),
        Message(role="assistant", content=(ToolUseBlock(id="t1", name="read_file", input={}),)),
    )
    history = ApiHistory()
    history.apply(
        TaskImported(
            ts=1,
            task_id="t",
            workspace="",
            mode="code",
            tool_protocol=ToolProtocol.NATIVE,
            rows=(),
            messages=messages,
        )
    )
    assert history.has_call("t1")
    history.apply(asked(2))
    check_valid(list(history.request_messages))
    assert len(history.request_messages) == 3


@pytest.mark.contract("history:api")
def test_a_second_result_for_the_same_call_changes_nothing() -> None:
    history = ApiHistory()
    history.apply(asked(1))
    history.apply(replied(2, call("a")))
    history.apply(finished(3, "a", "the first"))
    history.apply(finished(4, "a", "the second"))
    block = history.list_stored_messages()[-1].content[0]
    assert isinstance(block, ToolResultBlock)
    assert block.content == "the first"
