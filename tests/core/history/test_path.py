"""Which records a history is made of, however often it was rewound and gone on with."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joey.core.events import (
    AskAnswered,
    AskOpened,
    CheckpointSaved,
    ContextCondensed,
    Durable,
    FilesRestored,
    Record,
    ReplyReceived,
    RequestStarted,
    RowPart,
    TaskAborted,
    TaskCreated,
    TaskForked,
    TaskImported,
    TaskRewound,
    UserMessage,
)
from joey.core.history.branch import (
    BranchTracker,
    find_checkpoint_at,
    find_cut_point,
    find_live_branch,
)
from joey.core.history.ui import UiHistory, add_row_summary, get_ts
from joey.core.messages import (
    Message,
    TextBlock,
    TextPart,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from joey.core.models import ToolProtocol
from joey.core.rewind import build_rewind_preview, find_user_row_ts
from joey.core.task_types import Answer, AskKind, Response
from joey.core.wire.event_encoder import FrameEncoder, ReplayNormalizer
from joey.presentation.questions import build_ask_view
from tests.harness.core.journals import JournalBuilder, build_journals, folded


def state(path: Any) -> Any:
    ui, api, facts = folded(path)
    return msgspec.to_builtins([ui.rows, api.list_stored_messages(), facts.todos, facts.mode])


@settings(max_examples=150, deadline=None)
@given(build_journals())
def test_the_path_is_what_copying_lists_would_give(story: JournalBuilder) -> None:
    path = BranchTracker()
    for number, record in enumerate(story.records):
        again = path.add(record)
        assert (again is not None) == isinstance(record.event, TaskRewound)
        assert again is None or list(again) == story.paths[number]
        assert list(find_live_branch(story.records[: number + 1])) == story.paths[number]
    assert list(find_live_branch(story.records)) == story.path


@settings(max_examples=100, deadline=None)
@given(build_journals(), st.data())
def test_a_row_is_the_last_one_and_undoing_brings_back_all(
    story: JournalBuilder, data: st.DataObject
) -> None:
    rows, before = story.rows, state(story.path)
    target, keep = data.draw(st.sampled_from(rows)), data.draw(st.booleans())
    length = len(story.records)
    story.rewind(target, keep)
    if len(story.records) == length:
        return
    left = story.rows
    assert (target in left) == keep
    assert set(left) <= set(rows)
    # What was shown before the row stays, and what was shown after it goes; a row may have a
    # number that was given out earlier, or later, than its neighbours'.
    assert [ts for ts in rows if ts > target and ts in left] == late(story, target, rows)
    check(folded(story.path)[1].list_stored_messages())
    assert story.undo()
    after = state(story.path)
    # Nobody waits for an answer any more; all else is as it was.
    for row in (*before[0], *after[0]):
        row.pop("approvalState", None)
    assert after == before


def late(story: JournalBuilder, target: int, rows: list[int]) -> list[int]:
    """Rows with a higher number that were there before."""
    ui, order = UiHistory(), list[int]()
    for record in story.paths[len(story.records) - 2]:
        order += (c.ts for c in ui.apply(record.event) if c.action == "created")
    before = order[: order.index(target)]
    return [ts for ts in rows if ts > target and ts in before]


def check(messages: list[Message]) -> None:
    open_calls: list[str] = []
    role = "assistant"
    for message in messages:
        assert message.role != role
        role = message.role
        assert not isinstance(message.content, str) and message.content
        given_back = [b.tool_use_id for b in message.content if isinstance(b, ToolResultBlock)]
        assert given_back == open_calls
        open_calls = [b.id for b in message.content if isinstance(b, ToolUseBlock)]
        assert not isinstance(message.content[-1], ThinkingBlock)


@settings(max_examples=100, deadline=None)
@given(build_journals())
def test_whoever_follows_the_frames_has_the_rows_of_the_path(story: JournalBuilder) -> None:
    encoder, replay = FrameEncoder("t", build_ask_view), ReplayNormalizer()
    rows: dict[int, Any] = {}
    todos: Any = ()
    mode = "code"
    for number, record in enumerate(story.records):
        for frame in map(replay.normalize, encoder.encode(record.seq, record.event)):
            match frame.event_name:
                case "message":
                    ts = get_ts(frame.payload.message)
                    assert frame.payload.action == ("updated" if ts in rows else "created")
                    rows[ts] = frame.payload.message
                case "taskRewound":
                    for ts in frame.payload.removed:
                        del rows[ts]
                case "todosUpdated":
                    todos = frame.payload.todos
                case "taskModeSwitched":
                    mode = frame.payload.mode_slug
        ui, _, facts = folded(story.paths[number])
        assert [rows[ts] for ts in sorted(rows)] == list(map(add_row_summary, ui.rows))
        assert (todos, mode) == (facts.todos, facts.mode)


def numbered(*events: Durable) -> list[Record]:
    return [Record(number, event) for number, event in enumerate(events, 1)]


CREATED = TaskCreated(
    ts=1, task_id="t", workspace="/w", mode="code", tool_protocol=ToolProtocol.NATIVE
)


def test_a_message_that_came_with_an_answer_goes_with_it() -> None:
    asked = AskOpened(ts=3, ask=AskKind.COMPLETION_RESULT, call_id="c")
    answer = Answer(Response.MESSAGE, text="not yet")
    path = numbered(
        CREATED,
        UserMessage(ts=2, text="x", is_first=True),
        asked,
        AskAnswered(ts=4, ask_ts=3, answer=answer),
        UserMessage(ts=5, text="not yet"),
    )
    assert find_cut_point(path, 3).last_seq == 3
    assert find_cut_point(path, 5, keep=False).last_seq == 3
    assert find_cut_point(path, 5).last_seq == 5


def test_a_summary_that_is_rewound_away_hides_nothing() -> None:
    summary = ContextCondensed(
        ts=6,
        condense_id="s",
        summary="s",
        content=(TextBlock("s"),),
        tokens_before=9,
        tokens_after=1,
    )
    path = numbered(
        CREATED,
        UserMessage(ts=2, text="x", is_first=True),
        RequestStarted(ts=3, api_protocol="a", content=(TextBlock("x"),)),
        ReplyReceived(ts=4, parts=(RowPart(5, TextPart("yes")),)),
        summary,
    )
    cut = find_cut_point(path, 5)
    after = find_live_branch(
        [*path, Record(6, TaskRewound(ts=7, to_seq=cut.last_seq, last_row_ts=cut.last_row_ts))]
    )
    preview = build_rewind_preview(path, after)
    assert preview.removed_summary_count == 1
    assert [m.content for m in folded(after)[1].request_messages] == [
        (TextBlock("x"),),
        (TextBlock("yes"),),
    ]


@pytest.mark.parametrize(("last", "messages"), [(0, 0), (1, 1), (3, 2), (5, 4)])
def test_an_adopted_history_is_cut_in_both_halves(last: int, messages: int) -> None:
    rows = tuple({"ts": ts, "type": "say", "say": "text", "text": str(ts)} for ts in (1, 3, 5))
    said = tuple(
        Message(role="user" if ts % 4 == 2 else "assistant", content=str(ts), ts=ts)
        for ts in (2, 4, 6, 8)
    )
    adopted = TaskImported(
        ts=9,
        task_id="t",
        workspace="/w",
        mode="code",
        tool_protocol=ToolProtocol.NATIVE,
        rows=rows,
        messages=said,
    )
    path = find_live_branch(numbered(adopted, TaskRewound(ts=10, to_seq=1, last_row_ts=last)))
    ui, api, _ = folded(path)
    assert [get_ts(row) for row in ui.rows] == [ts for ts in (1, 3, 5) if ts <= last]
    assert len(api.list_stored_messages()) == messages


def test_no_row_may_stay_and_the_task_can_be_said_anew() -> None:
    path = find_live_branch(
        numbered(
            CREATED,
            UserMessage(ts=2, text="x", is_first=True),
            TaskRewound(ts=3, to_seq=1, last_row_ts=0),
            UserMessage(ts=4, text="y", is_first=True),
        )
    )
    ui, _, facts = folded(path)
    assert [get_ts(row) for row in ui.rows] == [4]
    assert facts.title == "y"


def saved(ts: int, id: str, *, own: bool) -> CheckpointSaved:
    return CheckpointSaved(ts=ts, id=id, is_own_change=own)


def test_the_files_of_a_record() -> None:
    path = numbered(
        CREATED,
        saved(2, "before", own=False),
        saved(3, "after", own=True),
        TaskAborted(ts=4),
        saved(5, "by hand", own=False),
        saved(6, "last", own=True),
    )
    files = [find_checkpoint_at(path, seq, path) for seq in range(1, 7)]
    assert files == ["before", "before", "by hand", "by hand", "by hand", "last"]
    assert find_checkpoint_at(path[:1], 1, path[:1]) is None


def test_after_a_rewind_what_was_saved_later_tells_nothing_of_before() -> None:
    journal = numbered(
        CREATED,
        saved(2, "one", own=True),
        TaskAborted(ts=3),
        saved(4, "two", own=True),
        TaskRewound(ts=5, to_seq=2),
        TaskAborted(ts=6),
        FilesRestored(ts=7, checkpoint="three"),
        TaskAborted(ts=8),
    )
    path = find_live_branch(journal)
    files = {record.seq: find_checkpoint_at(path, record.seq, journal) for record in path}
    assert files == {1: None, 2: "one", 5: "two", 6: "two", 7: "three", 8: "three"}


@pytest.mark.parametrize("to", [3, 4, 5])
def test_a_damaged_journal_that_rewinds_to_a_later_record_is_read_to_its_end(to: int) -> None:
    journal = numbered(CREATED, TaskAborted(ts=2), TaskRewound(ts=3, to_seq=to), TaskAborted(ts=4))
    assert [record.seq for record in find_live_branch(journal)] == [1, 2, 3, 4]


def test_messages_of_a_user_are_found_at_a_row_or_before_it() -> None:
    rows: list[Any] = [
        {"ts": 1, "say": "text"},
        {"ts": 2, "say": "text"},
        {"ts": 3, "say": "user_feedback"},
        {"ts": 4, "say": "tool"},
    ]
    assert [find_user_row_ts(rows, ts) for ts in range(6)] == [None, 1, 1, 3, 3, None]


def test_a_fork_has_nothing_open() -> None:
    asked = AskOpened(ts=3, ask=AskKind.TOOL, call_id="c", tool="read_file")
    path = numbered(CREATED, asked, TaskForked(ts=4, source_id="s", source_seq=2))
    ui, _, facts = folded(path)
    assert facts.pending_ask is None
    [row] = ui.rows
    assert not isinstance(row, dict) and row.approval_state == "rejected"
