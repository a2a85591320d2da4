"""The UI history: rows a person sees, in the shape of Roo's `ui_messages.json`, folded from events.

A row is named by its `ts`, which never changes. While a reply streams, its rows are *open*: they
grow by passing events and are shown with ``partial: true``. The durable event that closes a row
carries its whole content, so the rows on disk never depend on anything that was not journalled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from joey.core.events import (
    AskAnswered,
    AskWithdrawn,
    CallGrew,
    CommandGrew,
    Countdown,
    Event,
    ReplyReceived,
    RequestEnded,
    RequestStarted,
    RowGrew,
    RowOpened,
    TaskAborted,
    TaskAdopted,
    TaskFailed,
    TaskFinished,
    TaskStarted,
    ToolFinished,
)
from joey.core.history.rows import (
    Approval,
    RequestInfo,
    Row,
    as_json,
    new_row,
    revision_row,
    streamed,
)
from joey.core.history.shelf import RowShelf
from joey.core.messages import ReasoningPart, TextPart
from joey.core.parsing.json_stream import JsonStream
from joey.core.revisions import ContextCondensed, TaskForked, TaskRewound

__all__ = ["STREAMED", "Change", "RequestInfo", "Row", "UiHistory"]

STREAMED = frozenset({"text", "reasoning", "tool"})
"""Rows that a reply is made of."""


class Change(Struct, frozen=True):
    """A row was created or updated; ask the history for its content."""

    action: Literal["created", "updated"]
    ts: int


class OpenRow:
    """A row that still grows."""

    def __init__(self, opened: RowOpened) -> None:
        self.opened = opened
        self.pieces: list[str] = []
        self.arguments = JsonStream()

    def row(self) -> Row:
        opened = self.opened
        if opened.tool is None:
            return Row(
                ts=opened.ts, type="say", say=opened.say, text="".join(self.pieces), partial=True
            )
        arguments = self.arguments.partial()
        path = arguments.get("path")
        return Row(
            ts=opened.ts,
            type="say",
            say="tool",
            tool=opened.tool,
            path=path if isinstance(path, str) else None,
            text=as_json({"tool": opened.tool, **arguments}),
            partial=True,
        )


class UiHistory:
    def __init__(self) -> None:
        self._rows = RowShelf(Row)
        self._open: dict[int, OpenRow] = {}

    @property
    def rows(self) -> Sequence[Row | dict[str, Any]]:
        """All rows that are journalled, in the order of their `ts`."""
        return list(self._rows)

    def stored(self) -> Iterator[Row | dict[str, Any]]:
        """The same, as they are now, one after the other."""
        return iter(self._rows)

    @property
    def growing(self) -> Sequence[int]:
        """The `ts` of all rows that still grow."""
        return sorted(self._open)

    def row(self, ts: int) -> Row | dict[str, Any] | None:
        """One row as it is now, open or closed."""
        if open_row := self._open.get(ts):
            return open_row.row()
        return self._rows.get(ts)

    def apply(self, event: Event) -> tuple[Change, ...]:
        self._drop_broken_off(event)
        match event:
            case RowGrew() if row := self._open.get(event.ts):
                row.pieces.append(event.delta)
                return (Change("updated", event.ts),)
            case CallGrew() if row := self._open.get(event.ts):
                row.arguments.feed(event.delta)
                return (Change("updated", event.ts),)
            case RowOpened():
                self._open[event.ts] = OpenRow(event)
                return (Change("created", event.ts),)
            case CommandGrew():
                return self._grow_output(event)
            case Countdown(seconds=seconds) if seconds:
                text = f"{event.message}\n<retry_timer>{seconds}</retry_timer>"
                return self._put_partial(event.ts, "api_req_retry_delayed", text)
            case ReplyReceived():
                return self._close_reply(event)
            case RequestEnded():
                return self._end_request(event)
            case AskAnswered() | AskWithdrawn():
                return self._settle_ask(event)
            case ToolFinished(row_ts=int(row_ts)):
                return self._update(row_ts, result=event.content)
            case TaskAdopted():
                return tuple(self._take_over(row) for row in event.rows)
            case ContextCondensed():
                self._rows.seal(event.ts)
                return (self._put(revision_row(event)),)
            case TaskRewound() | TaskForked():
                return self._give_up_asks()
            case _:
                new = new_row(event)
                return () if new is None else (self._put(new),)

    def _drop_broken_off(self, event: Event) -> None:
        """What the next request, or the end of a run, finds unfinished will never be finished."""
        match event:
            case TaskStarted() | TaskFinished() | TaskAborted() | TaskFailed():
                self._open.clear()
            case RequestStarted():
                for ts in [ts for ts, row in self._open.items() if row.opened.say in STREAMED]:
                    del self._open[ts]

    def _take_over(self, row: dict[str, Any]) -> Change:
        self._rows.put(int(row["ts"]), row)
        return Change("created", int(row["ts"]))

    def _put(self, row: Row) -> Change:
        streamed = self._open.pop(row.ts, None) is not None
        seen = self._rows.put(row.ts, row) or streamed
        return Change("updated" if seen else "created", row.ts)

    def _put_partial(self, ts: int, say: str, text: str) -> tuple[Change, ...]:
        known = self._open.get(ts)
        if known is None:
            known = self._open[ts] = OpenRow(RowOpened(ts=ts, say=say))
            action: Literal["created", "updated"] = "created"
        else:
            action = "updated"
        known.pieces = [text]
        return (Change(action, ts),)

    def _grow_output(self, event: CommandGrew) -> tuple[Change, ...]:
        known = self._open.get(event.ts)
        if known is None:
            return self._put_partial(event.ts, "command_output", event.output)
        known.pieces.append(event.output)
        return (Change("updated", event.ts),)

    def _update(self, ts: int, **fields: Any) -> tuple[Change, ...]:
        row = self._rows.get(ts)
        if not isinstance(row, Row):
            return ()
        self._rows.put(ts, structs.replace(row, **fields))
        return (Change("updated", ts),)

    def _close_reply(self, event: ReplyReceived) -> tuple[Change, ...]:
        changes: list[Change] = []
        kept = {placed.ts for placed in event.parts}
        for placed in event.parts:
            match placed.part:
                case TextPart(text=text) if text.strip():
                    changes.append(self._put(streamed(placed.ts, "text", text)))
                case ReasoningPart(text=text) if text:
                    changes.append(self._put(streamed(placed.ts, "reasoning", text)))
        for ts in [ts for ts, row in self._open.items() if row.opened.call_id and ts not in kept]:
            del self._open[ts]
        return tuple(changes)

    def _end_request(self, event: RequestEnded) -> tuple[Change, ...]:
        row = self._rows.get(event.request_ts)
        if not isinstance(row, Row) or row.text is None:
            return ()
        started = msgspec.json.decode(row.text, type=RequestInfo)
        usage = event.usage
        info = RequestInfo(
            api_protocol=started.api_protocol,
            tokens_in=usage.input if usage else None,
            tokens_out=usage.output if usage else None,
            cache_writes=usage.cache_writes if usage else None,
            cache_reads=usage.cache_reads if usage else None,
            cost=event.cost if event.cost is not None or event.cancel_reason else 0.0,
            cancel_reason=event.cancel_reason,
            streaming_failed_message=event.error,
        )
        return self._update(event.request_ts, text=as_json(info))

    def _settle_ask(self, event: AskAnswered | AskWithdrawn) -> tuple[Change, ...]:
        row = self._rows.get(event.ask_ts)
        if not isinstance(row, Row):
            return ()
        approved = isinstance(event, AskAnswered) and event.answer.approves
        state: Approval | None = row.approval_state
        if state is not None:
            state = "approved" if approved else "rejected"
        answered = True if isinstance(event, AskAnswered) else None
        return self._update(event.ask_ts, is_answered=answered, approval_state=state)

    def _give_up_asks(self) -> tuple[Change, ...]:
        """Nobody waits for an answer to what was asked before."""
        ours = [row for row in self._rows if isinstance(row, Row)]
        asked = [row.ts for row in ours if row.approval_state == "pending"]
        return tuple(
            change for ts in asked for change in self._update(ts, approval_state="rejected")
        )
