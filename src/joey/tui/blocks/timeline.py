"""A task and its subtasks as a list of blocks, built from stored rows and from live events.

Both ways lead to the same result: an event is turned into the row that it creates, and a row into
its block. Only streamed text goes directly into the block that it extends. The view asks for the
positions that have changed since its last call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from joey.client.session import Session
from joey.core.events import (
    AskAnswered,
    AskWithdrawn,
    CallGrew,
    ChildSpawned,
    CommandGrew,
    Countdown,
    Event,
    ModeSwitched,
    ReplyReceived,
    RequestStarted,
    RowGrew,
    RowOpened,
    Said,
    TaskAborted,
    TaskFailed,
    ToolAnnounced,
    ToolFinished,
    UserSaid,
)
from joey.core.history.ui import Row, new_row, streamed
from joey.core.messages import CallPart, ReasoningPart
from joey.presentation.phrases import trouble, waiting
from joey.presentation.text import one_line
from joey.tui.blocks.block import MARGIN, Block
from joey.tui.blocks.calls import Call, ComingCall, Command, ended
from joey.tui.blocks.row_blocks import Voice, as_row, block_of, kind_of
from joey.tui.blocks.styled_text import Spans
from joey.tui.blocks.text import ComingResult, Fixed, Passing, Prose, Thinking, error, note
from joey.tui.blocks.text import Said as Words

TITLE = 70
_SUBTASK: Spans = ((" ┊ ", "muted"),)


Kept = Callable[[str, int], str | None]
"""The output of a command that was too long for its row, by the task and the row of the call."""


class Story:
    def __init__(self, kept: Kept | None = None) -> None:
        self._kept = kept
        self.blocks: list[Block] = []
        self._changed: set[int] = set()
        self._root = ""
        self._voices: dict[str, Voice] = {}
        self._front = ""
        """Who spoke last."""

    def begin(self, session: Session) -> None:
        """The past of a task, from its first row on."""
        self.blocks, self._changed = [], set()
        self._root = self._front = session.id
        self._voices = {session.id: Voice("the task goes on")}
        voice = self._voices[session.id]
        for number, stored in enumerate(session.rows):
            row = as_row(stored)
            if number == 0 and kind_of(row) == "text":
                self._show(session.id, row, Words(row.text or "", len(row.images)))
            else:
                self._put(session.id, row)
        self._tell_interruption(session.id, voice)

    def clear(self) -> None:
        self.blocks, self._changed = [], set()
        self._front = self._root
        self._voices = {self._root: Voice("the task goes on")} if self._root else {}

    def add(self, block: Block) -> None:
        """Something that belongs to no task; or that is there already, and has grown."""
        if 0 <= block.place < len(self.blocks) and self.blocks[block.place] is block:
            self._changed.add(block.place)
        else:
            self._append(block, MARGIN)

    def take_changes(self) -> set[int]:
        """The places of blocks that look different since this was last asked."""
        changed, self._changed = self._changed, set()
        return changed

    def hear(self, teller: Session, event: Event) -> None:
        who = teller.id
        voice = self._voice(who)
        match event:
            case RowGrew():
                self._grow(who, voice, event)
            case CallGrew():
                self._feed(voice, event)
            case CommandGrew():
                self._touch(self._hear_output(voice, event))
            case RowOpened():
                self._open(who, voice, event)
            case Countdown():
                self._count_down(who, voice, event)
            case ReplyReceived():
                self._reply(who, voice, event)
            case AskAnswered() if event.answer.approves:
                voice.begin_call(event.ask_ts, event.ts)
                self._touch(voice.settle_ask(event.ask_ts, "approved", answered=True))
            case AskAnswered():
                self._touch(voice.settle_ask(event.ask_ts, "rejected", answered=True))
            case AskWithdrawn():
                self._touch(voice.settle_ask(event.ask_ts, "rejected", answered=False))
            case ToolFinished(row_ts=int(row_ts)):
                self._touch(voice.finish_call(row_ts, event.content, event.ts))
            case _:
                self._hear_of_life(who, voice, event)

    def _hear_of_life(self, who: str, voice: Voice, event: Event) -> None:
        match event:
            case UserSaid(first=True) if who != self._root:
                voice.name = f"{voice.name}: {one_line(event.text, TITLE)}"
            case UserSaid(first=True):
                first = Row(ts=event.ts, type="say", say="text", text=event.text)
                self._show(who, first, Words(event.text, len(event.images)))
            case ChildSpawned(child_id=child_id):
                self._voice(child_id)
            case ModeSwitched(mode=mode):
                if voice.call is None or voice.call.row.tool != "switch_mode":
                    self._append_of(who, note(f"now in {one_line(mode)} mode"))
            case TaskAborted():
                self._drop_unfinished(voice)
                if who == self._root:
                    self.add(note("interrupted"))
            case TaskFailed(message=message):
                self._drop_unfinished(voice)
                if message != voice.trouble:
                    self._append_of(who, error(message))
            case Said(say="subtask_result", task_id=str(child_id)) if child_id in self._voices:
                return  # its own words say it
            case _:
                if isinstance(event, RequestStarted):
                    self._drop_unfinished(voice)
                if isinstance(event, ToolAnnounced):
                    voice.begin_call(event.ts, event.ts)
                if (row := new_row(event)) is not None:
                    self._put(who, row)

    # Rows

    def _put(self, who: str, row: Row) -> None:
        """A row that is whole, or as whole as it is now."""
        voice, kind = self._voice(who), kind_of(row)
        if kind not in ("checkpoint_saved", "command_output"):
            self._touch(voice.end_thought(row.ts))
        match kind:
            case "command_output":
                if (call := voice.call_of_output(row.ts)) is not None:
                    call.hear_all(row.text or "")
                    self._touch(call)
            case "mcp_server_response" if (call := voice.call) is not None:
                call.hear(ended(row.text or ""))
                self._touch(call)
            case "api_req_started":
                self._tell_interruption(who, voice)
                voice.was_interrupted = '"user_cancelled"' in (row.text or "")
            case "user_feedback" | "resume_task":
                self._tell_interruption(who, voice)
                self._show(who, row, block_of(row))
            case "api_req_failed":
                voice.trouble = row.text or ""
                self._show(who, row, block_of(row))
            case _:
                self._show(who, row, block_of(row))

    def _show(self, who: str, row: Row, block: Block | None) -> None:
        voice = self._voice(who)
        if isinstance(block, Command) and self._kept is not None:
            block.keep(partial(self._kept, who, row.ts))
        known = voice.blocks.get(row.ts)
        if isinstance(known, ComingResult) and kind_of(row) == "completion_result":
            known.finish(row.text or "")
            self._touch(known)
            return
        if known is not None:
            self._replace(known, block or Fixed(()))
        elif block is not None:
            self._append_of(who, block)
        if block is not None:
            voice.keep(row, block)

    def _tell_interruption(self, who: str, voice: Voice) -> None:
        if voice.was_interrupted:
            voice.was_interrupted = False
            self._append_of(who, note("interrupted"))

    # What streams

    def _open(self, who: str, voice: Voice, event: RowOpened) -> None:
        self._touch(voice.end_thought(event.ts))
        voice.opened[event.ts] = event.say
        if event.tool == "attempt_completion":
            self._begin(who, voice, event.ts, ComingResult())
        elif event.tool is not None:
            self._begin(who, voice, event.ts, ComingCall(event.tool))
        elif event.say == "condense_context":
            self._begin(who, voice, event.ts, Passing("condensing the conversation…"))

    def _begin(self, who: str, voice: Voice, ts: int, block: Block) -> None:
        voice.opened.pop(ts, None)
        voice.keep(Row(ts=ts, type="say"), block)
        self._append_of(who, block)

    def _grow(self, who: str, voice: Voice, event: RowGrew) -> None:
        if event.ts in voice.opened and event.delta.strip():
            block = Thinking() if voice.opened[event.ts] == "reasoning" else Prose()
            self._begin(who, voice, event.ts, block)
        match voice.blocks.get(event.ts):
            case Prose() | Thinking() as block:
                block.feed(event.delta)
                self._touch(block)

    def _feed(self, voice: Voice, event: CallGrew) -> None:
        match voice.blocks.get(event.ts):
            case ComingCall() | ComingResult() as block:
                block.feed(event.delta)
                self._touch(block)

    def _hear_output(self, voice: Voice, event: CommandGrew) -> Call | None:
        call = voice.call_of_output(event.ts)
        if call is not None:
            call.hear(event.output)
        return call

    def _reply(self, who: str, voice: Voice, event: ReplyReceived) -> None:
        self._touch(voice.end_thought(event.ts))
        for placed in event.parts:
            match placed.part:
                case CallPart():
                    continue
                case ReasoningPart(text=text):
                    say = "reasoning"
                case part:
                    say, text = "text", part.text
            known = voice.blocks.get(placed.ts)
            # What was shown as text may turn out to be reasoning.
            kind = Thinking if say == "reasoning" else Prose
            if isinstance(known, kind) and not isinstance(known, ComingResult):
                known.finish(text)
                self._touch(known)
            elif text.strip():
                self._put(who, streamed(placed.ts, say, text))
        called = {placed.ts for placed in event.parts}
        self._drop_unfinished(voice, but=called)

    def _count_down(self, who: str, voice: Voice, event: Countdown) -> None:
        told = f"{waiting(event)}: {trouble(event.message)}" if event.seconds else ""
        known = voice.blocks.get(event.ts)
        if isinstance(known, Passing):
            known.tell(told)
            self._touch(known)
        elif told:
            self._begin(who, voice, event.ts, Passing(told))

    def _drop_unfinished(self, voice: Voice, but: set[int] | None = None) -> None:
        for ts, block in voice.unfinished():
            if ts not in (but or ()):
                del voice.blocks[ts]
                self._replace(block, Fixed(()))

    # Blocks

    def _voice(self, who: str) -> Voice:
        if who not in self._voices:
            self._voices[who] = Voice(f"subtask {len(self._voices)}")
        return self._voices[who]

    def _append_of(self, who: str, block: Block) -> None:
        """Who speaks is said when it changes."""
        if who != self._front:
            self._front = who
            self._append(note(f"┄┄ {self._voice(who).name}"), MARGIN)
        self._append(block, MARGIN if who == self._root else _SUBTASK)

    def _append(self, block: Block, margin: Spans) -> None:
        above = self.blocks[-1] if self.blocks else None
        block.place, block.margin = len(self.blocks), margin
        block.gap = _gap(above, block)
        self.blocks.append(block)
        self._changed.add(block.place)

    def _replace(self, old: Block, new: Block) -> None:
        new.place, new.margin = old.place, old.margin
        above = self.blocks[old.place - 1] if old.place else None
        new.gap = _gap(above, new)
        self.blocks[old.place] = new
        self._changed.add(new.place)

    def _touch(self, block: Block | None) -> None:
        if block is not None:
            self._changed.add(block.place)


def _gap(above: Block | None, block: Block) -> int:
    if above is None or (above.is_brief and block.is_brief):
        return 0
    return 1
