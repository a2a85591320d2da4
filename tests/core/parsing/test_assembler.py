from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joey.core.messages import (
    CallChunk,
    CallEndChunk,
    CallPart,
    Chunk,
    ReasoningChunk,
    ReasoningPart,
    StopChunk,
    TextChunk,
    TextPart,
    ToolCall,
    Usage,
    UsageChunk,
)
from joey.core.models import ToolProtocol
from joey.core.parsing.parts import PartDelta, PartEnded, PartStarted
from joey.errors import TaskStateError
from tests.harness.core.streams import (
    any_chunk,
    assemble,
    join_deltas,
    make_assembler,
    split_randomly,
)


def calls(
    *chunks: Chunk, complete: bool = True, taken: frozenset[str] = frozenset()
) -> list[ToolCall]:
    reply, _ = assemble(chunks, complete=complete, taken=taken)
    return list(reply.calls)


# Putting calls together


@pytest.mark.contract("calls:native")
def test_a_call_streams_from_its_name_to_its_end() -> None:
    assembler = make_assembler(ToolProtocol.NATIVE)
    assert assembler.feed(CallChunk(0, id="toolu_01ABC", name="write_to_file", arguments="")) == [
        PartStarted(0, "call", "toolu_01ABC", "write_to_file")
    ]
    assert assembler.feed(CallChunk(0, arguments='{"path": "he')) == [PartDelta(0, '{"path": "he')]
    assert assembler.get_partial_arguments(0) == {"path": "he"}
    assert assembler.feed(CallChunk(0, arguments='llo.txt"}')) == [PartDelta(0, 'llo.txt"}')]
    call = ToolCall("toolu_01ABC", "write_to_file", {"path": "hello.txt"})
    assert assembler.feed(CallEndChunk(0)) == [PartEnded(0, CallPart(call))]
    assert assembler.get_partial_arguments(0) == {"path": "hello.txt"}
    assert assembler.close(complete=True) == []
    assert assembler.reply.calls == (call,)


@pytest.mark.contract("calls:native")
def test_the_arguments_of_interleaved_calls_can_be_seen_while_they_grow() -> None:
    assembler = make_assembler(ToolProtocol.NATIVE)
    assembler.feed(CallChunk(0, id="a", name="read_file", arguments='{"files": [{"path": "x'))
    assembler.feed(CallChunk(1, id="b", name="list_files", arguments='{"path":'))
    assert assembler.get_partial_arguments(0) == {"files": [{"path": "x"}]}
    assert assembler.get_partial_arguments(1) == {}
    assert assembler.get_partial_arguments(7) == {}


def test_id_and_name_repeated_on_every_delta_are_one_call() -> None:
    pieces = ["", '{"pa', 'th": "a"', "}"]
    chunks = [CallChunk(0, id="a", name="read_file", arguments=piece) for piece in pieces]
    assert calls(*chunks) == [ToolCall("a", "read_file", {"path": "a"})]


@pytest.mark.contract("calls:native")
def test_deltas_of_two_calls_may_alternate() -> None:
    assert calls(
        CallChunk(0, id="a", name="read_file"),
        CallChunk(1, id="b", name="list_files"),
        CallChunk(0, arguments='{"path"'),
        CallChunk(1, arguments='{"path": '),
        CallChunk(0, arguments=': "x"}'),
        CallChunk(1, arguments='"y"}'),
    ) == [ToolCall("a", "read_file", {"path": "x"}), ToolCall("b", "list_files", {"path": "y"})]


@pytest.mark.contract("calls:native")
def test_arguments_before_the_name_follow_it_at_once() -> None:
    assembler = make_assembler(ToolProtocol.NATIVE)
    assert assembler.feed(CallChunk(3)) == []
    assert assembler.feed(CallChunk(3, arguments='{"path"')) == []
    assert assembler.feed(CallChunk(3, id="a")) == []
    assert assembler.feed(CallChunk(3, name="read_file", arguments=': "x')) == [
        PartStarted(0, "call", "a", "read_file"),
        PartDelta(0, '{"path": "x'),
    ]
    assembler.feed(CallChunk(3, arguments='"}'))
    assembler.close(complete=True)
    assert assembler.reply.calls == (ToolCall("a", "read_file", {"path": "x"}),)


def test_a_name_may_come_after_the_end() -> None:
    assert calls(
        CallChunk(0, id="a", arguments='{"path": "x"}'),
        CallEndChunk(0),
        CallChunk(0, name="read_file"),
    ) == [ToolCall("a", "read_file", {"path": "x"})]


@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            CallChunk(0, "a", "read_file", '{"path": "x"}'),
            CallChunk(0, "b", "read_file", '{"path": "y"}'),
        ),
        (
            CallChunk(0, None, "read_file", '{"path": "x"}'),
            CallChunk(0, None, "read_file", '{"path": "y"}'),
        ),
    ],
)
def test_servers_that_reuse_an_index_make_several_calls(
    first: CallChunk, second: CallChunk, end: bool
) -> None:
    between = [CallEndChunk(0)] if end else []
    made = calls(first, *between, second)
    assert [call.input for call in made] == [{"path": "x"}, {"path": "y"}]
    assert [call.problem for call in made] == [None, None]


def test_a_new_id_at_the_same_index_may_come_before_its_name() -> None:
    made = calls(
        CallChunk(0, "a", "read_file", '{"path": "x"}'),
        CallChunk(0, "b"),
        CallChunk(0, name="list_files", arguments='{"path": "y"}'),
    )
    assert [(call.id, call.name) for call in made] == [("a", "read_file"), ("b", "list_files")]


def test_an_id_that_changes_with_every_delta_means_nothing() -> None:
    assert calls(
        CallChunk(0, "a", "read_file", '{"path"'),
        CallChunk(0, "b", None, ': "x"'),
        CallChunk(0, "c", None, "}"),
    ) == [ToolCall("a", "read_file", {"path": "x"})]


def test_a_call_repeated_behind_its_end_is_one_call() -> None:
    whole = CallChunk(0, "a", "read_file", '{"path": "x"}')
    assert calls(whole, CallEndChunk(0), whole, CallEndChunk(0), CallEndChunk(9)) == [
        ToolCall("a", "read_file", {"path": "x"})
    ]


@pytest.mark.contract("calls:native")
@pytest.mark.parametrize("arguments", [None, "", "  ", "{}"])
@pytest.mark.parametrize("end", [True, False])
def test_a_call_without_arguments_has_the_empty_object(arguments: str | None, end: bool) -> None:
    ends = [CallEndChunk(0)] if end else []
    assert calls(CallChunk(0, "a", "list_files", arguments), *ends) == [ToolCall("a", "list_files")]


# Ids


@pytest.mark.contract("calls:ids")
def test_an_id_seen_before_is_replaced() -> None:
    made = calls(
        CallChunk(0, "call_0", "read_file", "{}"),
        CallChunk(1, "mine", "read_file", "{}"),
        CallChunk(2, "mine", "read_file", "{}"),
        taken=frozenset({"call_0", "made_1"}),
    )
    assert [call.id for call in made] == ["made_1_2", "mine", "made_2"]


@pytest.mark.contract("calls:ids")
@pytest.mark.parametrize("wire_id", [None, "", "a.b", "functions.read:0", "é", "x" * 65, "a\n"])
def test_a_missing_or_illegal_id_is_replaced(wire_id: str | None) -> None:
    (call,) = calls(CallChunk(0, wire_id, "read_file", "{}"))
    assert call.id == "made_1"


def test_a_legal_id_is_kept() -> None:
    (call,) = calls(CallChunk(0, "x" * 64, "read_file", "{}"))
    assert call.id == "x" * 64


def test_an_id_that_comes_after_the_name_changes_nothing() -> None:
    assert calls(
        CallChunk(0, name="read_file", arguments='{"path"'),
        CallChunk(0, id="late", arguments=': "x"}'),
    ) == [ToolCall("made_1", "read_file", {"path": "x"})]


# Calls that cannot run


@pytest.mark.contract("calls:incomplete")
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ('{"path": "x"', "ends before it is complete (after 12 characters)"),
        ('{"path" "x"}', "(byte 8)"),
        ('["x"]', "expected a JSON object"),
        ('{"path": "x"}{"path": "y"', "trailing characters"),
    ],
)
@pytest.mark.parametrize("end", [True, False])
def test_malformed_arguments_are_a_problem_with_the_reason(
    arguments: str, reason: str, end: bool
) -> None:
    ends = [CallEndChunk(0)] if end else []
    (call,) = calls(CallChunk(0, "a", "read_file", arguments), *ends, StopChunk("tool_use"))
    assert call.input == {}
    assert call.problem is not None
    assert reason in call.problem
    assert "read_file" in call.problem


def test_malformed_arguments_of_one_call_leave_the_others_alone() -> None:
    first, broken, last = calls(
        CallChunk(0, "a", "read_file", '{"path": "x"}'),
        CallChunk(1, "b", "read_file", '{"path": '),
        CallChunk(2, "c", "read_file", '{"path": "z"}'),
        StopChunk("tool_use"),
    )
    assert first.problem is None
    assert broken.problem is not None
    assert last.problem is None


@pytest.mark.contract("calls:incomplete")
@pytest.mark.parametrize("arguments", ["", '{"path": "x", "content": "half', '{"path": "x"}'])
def test_an_open_call_of_a_broken_stream_is_a_problem(arguments: str) -> None:
    done, cut = calls(
        CallChunk(0, "a", "read_file", '{"path": "x"}'),
        CallEndChunk(0),
        CallChunk(1, "b", "write_to_file", arguments),
        complete=False,
    )
    assert done.problem is None
    assert cut.problem is not None
    assert "interrupted" in cut.problem
    assert cut.input == {}


@pytest.mark.contract("calls:incomplete")
@pytest.mark.parametrize("reason", ["max_tokens", "length", "MAX_TOKENS"])
@pytest.mark.parametrize("arguments", ["", '{"path": "x", "content": "half'])
@pytest.mark.parametrize("end", [True, False])
def test_a_call_cut_off_by_the_output_limit_says_so(reason: str, arguments: str, end: bool) -> None:
    ends = [CallEndChunk(1)] if end else []
    done, cut = calls(
        CallChunk(0, "a", "read_file", '{"path": "x"}'),
        CallEndChunk(0),
        CallChunk(1, "b", "write_to_file", arguments),
        *ends,
        StopChunk(reason),
    )
    assert done.problem is None
    assert cut.problem is not None
    assert f"output limit (stop reason `{reason}`)" in cut.problem


def test_an_ended_call_without_arguments_survives_the_output_limit_of_what_follows() -> None:
    done, cut = calls(
        CallChunk(0, "a", "list_files"),
        CallEndChunk(0),
        CallChunk(1, "b", "write_to_file", '{"pa'),
        StopChunk("max_tokens"),
    )
    assert done.problem is None
    assert cut.problem is not None


@pytest.mark.contract("calls:incomplete")
def test_the_output_limit_concerns_the_last_call_alone() -> None:
    whole, empty, broken, last = calls(
        CallChunk(0, "a", "read_file", '{"path": "x"}'),
        CallChunk(1, "b", "list_files"),
        CallChunk(2, "c", "read_file", '{"path": '),
        CallChunk(3, "d", "read_file", '{"path": "x"}'),
        StopChunk("length"),
    )
    assert (whole.problem, whole.input) == (None, {"path": "x"})
    assert (empty.problem, empty.input) == (None, {})
    assert broken.problem is not None
    assert "not valid JSON" in broken.problem
    assert last.problem is not None
    assert "output limit" in last.problem


@pytest.mark.parametrize("chunk", [CallChunk(0, "a"), CallChunk(0, None, None, '{"path": "x"}')])
def test_a_call_that_never_gets_a_name_is_a_problem(chunk: CallChunk) -> None:
    (call,) = calls(chunk, StopChunk("tool_use"))
    assert call.name == ""
    assert call.input == {}
    assert call.problem is not None
    assert "name" in call.problem


def test_a_call_of_which_nothing_came_is_none() -> None:
    assert calls(CallChunk(0), CallChunk(0, "", "", ""), CallEndChunk(0)) == []


# Text and reasoning


@pytest.mark.contract("calls:native")
def test_text_after_a_call_is_a_part_of_its_own() -> None:
    reply, _ = assemble(
        [
            TextChunk("Before "),
            TextChunk("it."),
            CallChunk(0, "a", "read_file", '{"path"'),
            TextChunk("\n\nAfter"),
            CallChunk(0, arguments=': "x"}'),
            TextChunk(" it."),
        ]
    )
    assert reply.parts == (
        TextPart("Before it."),
        CallPart(ToolCall("a", "read_file", {"path": "x"})),
        TextPart("\n\nAfter it."),
    )
    assert reply.raw is None


def test_white_space_between_calls_is_no_part() -> None:
    reply, _ = assemble(
        [
            TextChunk("\n"),
            CallChunk(0, "a", "read_file", "{}"),
            TextChunk("\n"),
            TextChunk(" \n"),
            CallChunk(1, "b", "read_file", "{}"),
            TextChunk(""),
        ]
    )
    assert [type(part) for part in reply.parts] == [CallPart, CallPart]


def test_consecutive_reasoning_is_one_part_and_a_signature_seals_it() -> None:
    reply, _ = assemble(
        [
            ReasoningChunk("\nLet me "),
            ReasoningChunk("think."),
            ReasoningChunk(signature="sig1"),
            ReasoningChunk("Again."),
            TextChunk("So."),
            ReasoningChunk("Hm."),
        ]
    )
    assert reply.parts == (
        ReasoningPart("\nLet me think.", "sig1"),
        ReasoningPart("Again."),
        TextPart("So."),
        ReasoningPart("Hm."),
    )


def test_hidden_reasoning_is_kept() -> None:
    reply, _ = assemble(
        [
            ReasoningChunk(signature="only"),
            ReasoningChunk("Open."),
            ReasoningChunk(redacted="secret"),
            ReasoningChunk(redacted="more"),
            TextChunk("Yes."),
        ]
    )
    assert reply.parts == (
        ReasoningPart("", "only"),
        ReasoningPart("Open."),
        ReasoningPart("", redacted="secret"),
        ReasoningPart("", redacted="more"),
        TextPart("Yes."),
    )


def test_reasoning_details_are_collected_without_cutting_the_text() -> None:
    reply, _ = assemble(
        [
            ReasoningChunk("a", details=({"n": 1},)),
            ReasoningChunk(details=({"n": 2},)),
            TextChunk("Hel"),
            ReasoningChunk(details=({"n": 3},)),
            TextChunk("lo"),
        ]
    )
    assert reply.parts == (
        ReasoningPart("a", details=({"n": 1}, {"n": 2})),
        TextPart("Hello"),
        ReasoningPart("", details=({"n": 3},)),
    )


def test_a_reply_with_nothing_but_space_is_empty_and_one_with_reasoning_is_not() -> None:
    blank, _ = assemble([TextChunk(" \n"), StopChunk("stop")])
    thought, _ = assemble([ReasoningChunk("Hm."), StopChunk("stop")])
    assert (blank.is_empty, thought.is_empty) == (True, False)


# The reply as a whole


def test_the_latest_usage_and_what_the_stop_says_are_in_the_reply() -> None:
    reply, _ = assemble(
        [
            UsageChunk(Usage(input=10)),
            StopChunk(response_id="msg_1"),
            TextChunk("Hi."),
            StopChunk("end_turn"),
            UsageChunk(Usage(input=10, output=5)),
        ]
    )
    assert reply.usage == Usage(input=10, output=5)
    assert (reply.response_id, reply.stop_reason) == ("msg_1", "end_turn")


def test_a_stream_of_nothing_is_an_empty_reply() -> None:
    reply, events = assemble([])
    assert reply.is_empty
    assert events == []


def test_closing_again_changes_nothing() -> None:
    assembler = make_assembler(ToolProtocol.NATIVE)
    assembler.feed(CallChunk(0, "a", "read_file", "{}"))
    assembler.close(complete=True)
    reply = assembler.reply
    assert assembler.close(complete=False) == []
    assert assembler.reply is reply


def test_there_is_no_reply_before_the_end() -> None:
    with pytest.raises(TaskStateError, match="close"):
        _ = make_assembler(ToolProtocol.NATIVE).reply


@pytest.mark.contract("calls:native")
def test_two_streams_at_the_same_time_do_not_touch_each_other() -> None:
    first, second = make_assembler(ToolProtocol.NATIVE), make_assembler(ToolProtocol.NATIVE)
    for piece in ("", '{"path"', ': "1"}'):
        first.feed(CallChunk(0, "same", "read_file", piece))
        second.feed(CallChunk(0, "same", "list_files", piece.replace("1", "2")))
    first.close(complete=True)
    second.close(complete=False)
    assert first.reply.calls == (ToolCall("same", "read_file", {"path": "1"}),)
    assert [call.name for call in second.reply.calls] == ["list_files"]


# At every split


@given(st.lists(any_chunk, max_size=25), st.sampled_from(ToolProtocol), st.booleans())
@settings(max_examples=200)
def test_any_chunks_make_a_consistent_reply(
    chunks: list[Chunk], protocol: ToolProtocol, complete: bool
) -> None:
    assembler = make_assembler(protocol, taken=frozenset({"a"}))
    for chunk in chunks:
        for event in assembler.feed(chunk):
            assembler.get_partial_arguments(event.index)
    assembler.close(complete=complete)
    reply, _ = assemble(chunks, protocol, complete=complete, taken=frozenset({"a"}))
    assert reply == assembler.reply
    assert "a" not in {call.id for call in reply.calls}
    assert all(call.problem or call.name for call in reply.calls)


@pytest.mark.contract("calls:native")
@given(
    st.data(),
    st.text(),
    st.lists(
        st.dictionaries(
            st.text().map("own {}".format),  # no name that is repaired
            st.text() | st.integers() | st.lists(st.text()),
        ),
        max_size=3,
    ),
)
@settings(max_examples=100)
def test_calls_and_text_give_the_same_reply_at_every_split(
    data: st.DataObject, text: str, inputs: list[dict[str, Any]]
) -> None:
    encoded = [json.dumps(value) for value in inputs]
    whole = stream([text], [[arguments] for arguments in encoded])
    single = stream(list(text), [list(arguments) for arguments in encoded])
    cut = stream(
        data.draw(split_randomly(text)),
        [data.draw(split_randomly(arguments)) for arguments in encoded],
    )
    outcomes = [assemble(chunks) for chunks in (whole, single, cut)]
    assert outcomes[0][0] == outcomes[1][0] == outcomes[2][0]
    deltas = [join_deltas(events) for _, events in outcomes]
    assert deltas[0] == deltas[1] == deltas[2]
    assert [call.input for call in outcomes[0][0].calls] == inputs


def stream(text: list[str], arguments: list[list[str]]) -> list[Chunk]:
    """Text, then calls whose deltas take turns."""
    chunks: list[Chunk] = [TextChunk(piece) for piece in text]
    chunks += [CallChunk(index, f"id{index}", "read_file") for index in range(len(arguments))]
    for turn in range(max(map(len, arguments), default=0)):
        chunks += [
            CallChunk(index, arguments=pieces[turn])
            for index, pieces in enumerate(arguments)
            if turn < len(pieces)
        ]
    return chunks
