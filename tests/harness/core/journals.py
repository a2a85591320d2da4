"""Random journals with rewinds."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from joey.core.events import (
    AskAnswered,
    AskOpened,
    Durable,
    ModeSwitched,
    Record,
    ReplyReceived,
    RequestStarted,
    RowPart,
    TaskAborted,
    TaskCreated,
    TaskRewound,
    TaskStarted,
    TodosChanged,
    ToolFinished,
    ToolStarted,
    UserMessage,
)
from joey.core.history.api import ApiHistory
from joey.core.history.branch import (
    find_cut_point,
    find_live_branch,
)
from joey.core.history.state import TaskProjection
from joey.core.history.ui import UiHistory, get_ts
from joey.core.messages import (
    CallPart,
    ReasoningPart,
    TextBlock,
    TextPart,
    ToolCall,
)
from joey.core.models import ToolProtocol
from joey.core.task_types import Answer, AskKind, Response, Todo
from joey.errors import TaskStateError


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
