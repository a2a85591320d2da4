"""Parts of a streaming reply, in the order in which they began: events, call ids, the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from joey.core.messages import CallPart, Part, ReasoningItem, ReasoningPart, TextPart, ToolCall
from joey.core.parsing.repetition import RepetitionDetector, cut_repetition
from joey.core.text import compile_regex

PartKind = Literal["text", "reasoning", "call"]


class PartStarted(Struct, frozen=True, gc=False):
    """A part begins; `index` is its position in `Reply.parts`."""

    index: int
    kind: PartKind
    call_id: str | None = None
    name: str | None = None


class PartDelta(Struct, frozen=True, gc=False):
    """More of an open part. For a call, `delta` is JSON text of its arguments."""

    index: int
    delta: str


class PartEnded(Struct, frozen=True):
    """The part is complete as in the reply, unless text is reclassified later."""

    index: int
    part: Part


class PartReclassified(Struct, frozen=True):
    """Text or a call turns out to be reasoning, or text to be shorter because calls follow in it or
    it repeated itself; its new form is final."""

    index: int
    part: ReasoningPart | TextPart


PartEvent = PartStarted | PartDelta | PartEnded | PartReclassified


class _OpenProse:
    """Text or reasoning being written; it becomes a part once it has more than white space."""

    def __init__(self, kind: Literal["text", "reasoning"]) -> None:
        self.kind = kind
        self.index: int | None = None
        self.pieces: list[str] = []
        self.repetition = RepetitionDetector()


class ReplyParts:
    """The parts so far. At most one text or reasoning is open at a time; calls may be open too."""

    def __init__(self) -> None:
        self._parts: list[Part | None] = []
        self._events: list[PartEvent] = []
        self._current_prose: _OpenProse | None = None
        self._pending_reasoning_details: list[Any] = []
        """Provider items that belong to the next reasoning that ends."""
        self.stopped_period = 0
        """Of the prose that repeats itself, where the reply was stopped for it."""

    def drain_events(self) -> list[PartEvent]:
        events, self._events = self._events, []
        return events

    def __len__(self) -> int:
        return len(self._parts)

    def list_ended_parts(self) -> tuple[Part, ...]:
        return tuple(part for part in self._parts if part is not None)

    def get_call_input(self, index: int) -> dict[str, Any]:
        """Return the arguments of an ended call; empty for anything else."""
        part = self._parts[index] if 0 <= index < len(self._parts) else None
        return part.call.input if isinstance(part, CallPart) else {}

    # Prose

    def append_prose(self, kind: Literal["text", "reasoning"], text: str) -> None:
        if not text:
            return
        prose = self._ensure_open_prose(kind)
        prose.pieces.append(text)
        prose.repetition.feed(text)
        if prose.index is not None:
            self._events.append(PartDelta(prose.index, text))
        elif not text.isspace():
            self._start_prose(prose)

    def add_reasoning_details(self, details: tuple[Any, ...]) -> None:
        self._pending_reasoning_details.extend(details)

    def end_reasoning(
        self, signature: str | None = None, item: ReasoningItem | None = None
    ) -> None:
        """End the reasoning so far, even if hidden from joey; it is signed or part of an item."""
        prose = self._ensure_open_prose("reasoning")
        if prose.index is None:
            self._start_prose(prose)
        self.end_prose(signature, item)

    def add_redacted_reasoning(self, data: str) -> None:
        self.end_prose()
        self._end_part(self._start_part("reasoning"), ReasoningPart("", redacted=data))

    def end_prose(self, signature: str | None = None, item: ReasoningItem | None = None) -> None:
        prose, self._current_prose = self._current_prose, None
        if prose is None or prose.index is None:
            return
        part: TextPart | ReasoningPart = TextPart(text := "".join(prose.pieces))
        if prose.kind == "reasoning":
            details = self._drain_reasoning_details()
            part = ReasoningPart(text, signature, details=details, item=item)
        self._end_part(prose.index, part)
        if self.stopped_period:
            cut = cut_repetition(text, self.stopped_period)
            self._reclassify(prose.index, structs.replace(part, text=cut))

    def end_text_as(self, text: str) -> None:
        """Reduce the open text to this; the rest of what was shown belongs to calls."""
        prose = self._current_prose
        if prose is None or prose.kind != "text" or prose.index is None:
            if prose is not None and prose.kind == "text":
                self._current_prose = None
            self.append_prose("text", text)
            self.end_prose()
            return
        shown, index = "".join(prose.pieces), prose.index
        self.append_prose("text", text[len(shown) :])
        self.end_prose()
        if len(shown) > len(text):
            self._reclassify(index, TextPart(text))

    def stop_repetition(self) -> bool:
        """Cut the open text or reasoning when it ends, if it repeats itself."""
        if self._current_prose is not None:
            self.stopped_period = self._current_prose.repetition.period
        return self.stopped_period > 0

    def finish(self) -> None:
        self.end_prose()
        if self._pending_reasoning_details:
            self._end_part(
                self._start_part("reasoning"),
                ReasoningPart("", details=self._drain_reasoning_details()),
            )

    def reclassify_as_reasoning(self, calls: Mapping[int, str]) -> None:
        """Reclassify all text so far, and these calls as written, as reasoning."""
        if self._current_prose is not None and self._current_prose.kind == "text":
            self.end_prose()
        texts = {n: part.text for n, part in enumerate(self._parts) if isinstance(part, TextPart)}
        for index, text in sorted({**texts, **calls}.items()):
            self._reclassify(index, ReasoningPart(text))

    # Calls

    def start_call(self, call_id: str, name: str) -> int:
        self.end_prose()
        return self._start_part("call", call_id, name)

    def start_whole_call(self, call_id: str, name: str, arguments: dict[str, Any]) -> int:
        """Start a call whose arguments are known."""
        index = self.start_call(call_id, name)
        self.emit_delta(index, msgspec.json.encode(arguments).decode())
        return index

    def emit_delta(self, index: int, delta: str) -> None:
        self._events.append(PartDelta(index, delta))

    def end_call(self, index: int, call: ToolCall) -> None:
        self._end_part(index, CallPart(call))

    def _ensure_open_prose(self, kind: Literal["text", "reasoning"]) -> _OpenProse:
        if self._current_prose is None or self._current_prose.kind != kind:
            self.end_prose()
            self._current_prose = _OpenProse(kind)
        return self._current_prose

    def _start_prose(self, prose: _OpenProse) -> None:
        prose.index = self._start_part(prose.kind)
        if text := "".join(prose.pieces):
            self.emit_delta(prose.index, text)

    def _drain_reasoning_details(self) -> tuple[Any, ...]:
        details, self._pending_reasoning_details = self._pending_reasoning_details, []
        return tuple(details)

    def _start_part(
        self, kind: PartKind, call_id: str | None = None, name: str | None = None
    ) -> int:
        index = len(self._parts)
        self._parts.append(None)
        self._events.append(PartStarted(index, kind, call_id, name))
        return index

    def _reclassify(self, index: int, part: TextPart | ReasoningPart) -> None:
        self._parts[index] = part
        self._events.append(PartReclassified(index, part))

    def _end_part(self, index: int, part: Part) -> None:
        self._parts[index] = part
        self._events.append(PartEnded(index, part))


_LEGAL_ID_RE = compile_regex(r"[A-Za-z0-9_-]{1,64}")
_ILLEGAL_ID_CHARACTER_RE = compile_regex(r"[^A-Za-z0-9_-]")


class CallIdAllocator:
    def __init__(self, taken: Callable[[str], bool], make_id: Callable[[], str]) -> None:
        self._is_used_in_task = taken
        self._make_id = make_id
        self._allocated_ids: set[str] = set()

    def allocate(self, call_id: str | None) -> str:
        """Return `call_id` if it is valid and unused, else a new id."""
        if call_id is None or not _LEGAL_ID_RE.fullmatch(call_id) or self._is_taken(call_id):
            call_id = self._generate_id()
        self._allocated_ids.add(call_id)
        return call_id

    def _generate_id(self) -> str:
        base = _ILLEGAL_ID_CHARACTER_RE.sub("_", self._make_id())[:48] or "call"
        call_id, number = base, 1
        while self._is_taken(call_id):
            number += 1
            call_id = f"{base}_{number}"
        return call_id

    def _is_taken(self, call_id: str) -> bool:
        return call_id in self._allocated_ids or self._is_used_in_task(call_id)


_OUTPUT_LIMIT_STOP_REASONS = frozenset(
    {"length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"}
)


REPETITION_STOP_REASON = "repetition"
"""The reply repeated itself; vLLM uses this word, too."""


def is_output_limit(stop_reason: str | None) -> bool:
    """Whether a reply ended at its maximum length."""
    return stop_reason is not None and stop_reason.lower() in _OUTPUT_LIMIT_STOP_REASONS


class ReplyEnd(Struct, frozen=True):
    is_complete: bool
    """False when the stream broke or was cancelled."""
    stop_reason: str | None = None

    @property
    def cut_off_message(self) -> str | None:
        """Describe the problem of a call left open at the end of the reply; None if there is
        none."""
        if not self.is_complete:
            return (
                "The reply was interrupted before this call was complete, so it was not executed."
            )
        if self.stop_reason == REPETITION_STOP_REASON:
            return (
                "This call was not executed: the reply repeated itself and was stopped. Make the"
                " call again."
            )
        if not is_output_limit(self.stop_reason):
            return None
        return (
            f"The reply was cut off by the output limit (stop reason `{self.stop_reason}`) before "
            "this call was complete, so it was not executed. Call again with shorter arguments, "
            "or split the work into several smaller calls."
        )
