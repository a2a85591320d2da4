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
    ModeSwitched,
    Record,
    ReplyReceived,
    RequestStarted,
    RowPart,
    TaskAborted,
    TaskCreated,
    TaskForked,
    TaskImported,
    TaskRewound,
    TaskStarted,
    TodosChanged,
    ToolFinished,
    ToolStarted,
    UserMessage,
)
from joey.core.history.api import ApiHistory
from joey.core.history.branch import (
    BranchTracker,
    find_checkpoint_at,
    find_cut_point,
    find_live_branch,
)
from joey.core.history.state import TaskProjection
from joey.core.history.ui import UiHistory, add_row_summary, get_ts
from joey.core.messages import (
    CallPart,
    Message,
    ReasoningPart,
    TextBlock,
    TextPart,
    ThinkingBlock,
    ToolCall,
    ToolResultBlock,
    ToolUseBlock,
)
from joey.core.models import ToolProtocol
from joey.core.rewind import build_rewind_preview, find_user_row_ts
from joey.core.task_types import Answer, AskKind, Response, Todo
from joey.core.wire.event_encoder import FrameEncoder, ReplayNormalizer
from joey.errors import TaskStateError
from joey.presentation.questions import build_ask_view


class JournalBuilder:
    """A journal that is written by choices; the model of it keeps whole lists of records."""

    def __init__(self, protocol: ToolProtocol) -> None:
        self.records: list[Record] = []
        self.path: list[Record] = []
        """What is in sight, kept in the plainest way: every rewind copies the list."""
        self.paths: list[list[Record]] = []
        """The path after each record."""
        self.ts = 0
        self.calls = 0
        self.add(
            TaskCreated(
                ts=self.now(), task_id="t", workspace="/w", mode="code", tool_protocol=protocol
            )
        )
        self.add(UserMessage(ts=self.now(), text="do it", is_first=True))

    def now(self) -> int:
        self.ts += 1
        return self.ts

    def add(self, event: Durable) -> None:
        record = Record(len(self.records) + 1, event)
        self.records.append(record)
        if isinstance(event, TaskRewound):
            self.path = [self._cut(r, event.last_row_ts) for r in self.paths[event.to_seq - 1]]
        self.path = [*self.path, record]
        self.paths.append(self.path)

    def _cut(self, record: Record, row_ts: int | None) -> Record:
        event = record.event
        if row_ts is None or not isinstance(event, ReplyReceived):
            return record
        kept = tuple(placed for placed in event.parts if placed.ts <= row_ts)
        if kept == event.parts:
            return record
        thought = bool(kept) and isinstance(kept[-1].part, ReasoningPart)
        changed = msgspec.structs.replace(
            event, parts=kept, raw=self._raw(kept), interrupted=thought or event.interrupted
        )
        return Record(record.seq, changed)

    def _raw(self, parts: tuple[RowPart, ...]) -> str | None:
        if self.protocol is ToolProtocol.NATIVE:
            return None
        texts = []
        for placed in parts:
            match placed.part:
                case TextPart(text=text):
                    texts.append(text)
                case CallPart(call=call):
                    texts.append(f"<{call.name}>\n</{call.name}>")
        return "\n".join(texts)

    @property
    def protocol(self) -> ToolProtocol:
        first = self.records[0].event if self.records else None
        return first.tool_protocol if isinstance(first, TaskCreated) else ToolProtocol.NATIVE

    @property
    def rows(self) -> list[int]:
        return [get_ts(row) for row in folded(self.path)[0].rows]

    def turn(self, calls: int, thinks: bool, talks: bool, asks: bool, finished: int) -> None:
        """A request and its reply, with calls of which the first `finished` end."""
        self.add(TaskStarted(ts=self.now()))
        self.add(RequestStarted(ts=self.now(), api_protocol="a", content=(TextBlock("go"),)))
        parts: list[RowPart] = []
        if thinks:
            parts.append(RowPart(self.now(), ReasoningPart("hm", signature="s")))
        if talks:
            parts.append(RowPart(self.now(), TextPart("I read_file now.")))
        placed = []
        for _ in range(calls):
            self.calls += 1
            made = ToolCall(id=f"c{self.calls}", name="read_file", input={})
            placed.append(RowPart(self.now(), CallPart(made)))
        parts += placed
        raw = self._raw(tuple(parts))
        self.add(ReplyReceived(ts=self.now(), parts=tuple(parts), raw=raw))
        for number, each in enumerate(placed):
            assert isinstance(each.part, CallPart)
            self.call(each.ts, each.part.call.id, asks, number < finished)
        self.add(TaskAborted(ts=self.now()))

    def call(self, row_ts: int, call_id: str, asks: bool, finished: bool) -> None:
        if asks:
            answer = Answer(Response.YES, text="but so")
            self.add(AskOpened(ts=row_ts, ask=AskKind.TOOL, call_id=call_id, tool="read_file"))
            self.add(AskAnswered(ts=self.now(), ask_ts=row_ts, answer=answer))
            self.add(UserMessage(ts=self.now(), text="but so"))
        else:
            self.add(ToolStarted(ts=row_ts, call_id=call_id, tool="read_file", text="{}"))
        if finished:
            self.add(
                ToolFinished(
                    ts=self.now(), call_id=call_id, tool="read_file", content="x", row_ts=row_ts
                )
            )

    def rewind(self, row_ts: int, keep: bool) -> None:
        try:
            cut = find_cut_point(find_live_branch(self.records), row_ts, keep=keep)
        except TaskStateError:
            assert not keep and row_ts == self.rows[0]
            return
        self.add(TaskRewound(ts=self.now(), to_seq=cut.last_seq, last_row_ts=cut.last_row_ts))

    def undo(self) -> bool:
        latest = [r.seq for r in self.path if isinstance(r.event, TaskRewound)]
        if latest:
            self.add(TaskRewound(ts=self.now(), to_seq=latest[-1] - 1))
        return bool(latest)


def folded(path: Any) -> tuple[UiHistory, ApiHistory, TaskProjection]:
    ui, api, facts = UiHistory(), ApiHistory(), TaskProjection()
    for record in path:
        facts.apply_branch_event(record.event)
        api.tool_protocol = facts.tool_protocol
        api.apply(record.event)
        ui.apply(record.event)
    return ui, api, facts


def state(path: Any) -> Any:
    ui, api, facts = folded(path)
    return msgspec.to_builtins([ui.rows, api.list_stored_messages(), facts.todos, facts.mode])


@st.composite
def build_journals(draw: st.DrawFn) -> JournalBuilder:
    story = JournalBuilder(draw(st.sampled_from(ToolProtocol)))
    numbers, truth = st.integers(0, 3), st.booleans()
    for _ in range(draw(st.integers(1, 12))):
        match draw(st.sampled_from(("turn", "turn", "words", "todos", "mode", "rewind", "undo"))):
            case "turn":
                calls = draw(numbers)
                talks = draw(truth) or not calls
                story.turn(calls, draw(truth), talks, draw(truth), draw(numbers))
            case "words":
                story.add(UserMessage(ts=story.now(), text="more"))
            case "todos":
                todos = (Todo(id="1", content=str(story.ts), status="pending"),)
                story.add(TodosChanged(ts=story.now(), todos=todos))
            case "mode":
                story.add(ModeSwitched(ts=story.now(), mode=draw(st.sampled_from(("ask", "code")))))
            case "rewind":
                story.rewind(draw(st.sampled_from(story.rows)), draw(truth))
            case "undo":
                story.undo()
    return story


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
