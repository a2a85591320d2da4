"""Conversations as Roo Code keeps them: turns, summaries and truncations, in January's form and in
April's, in both protocols, with the loose ends that a kill leaves."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Literal

from hypothesis import strategies as st
from msgspec import Struct

from joey.core.models import ToolProtocol
from tests.harness.storage.roo_task_directories import IMAGE, START

Json = dict[str, Any]
Form = Literal["january", "april"]


class Turn(Struct, frozen=True):
    """A request and its reply."""

    calls: int = 1
    has_text: bool = True
    thinks: bool = False
    feedback: bool = False
    """The user has said something before the request."""
    same_ids: bool = False
    """The model counts its calls from one in each reply."""
    interrupted: bool = False
    """The results of its calls were never saved."""


class Condense(Struct, frozen=True):
    named: bool = True
    """Whether the row tells the id; Roo forgets it when the window has run over."""


class Truncate(Struct, frozen=True):
    pass


TURNS = st.builds(
    Turn,
    calls=st.integers(0, 3),
    has_text=st.booleans(),
    thinks=st.booleans(),
    feedback=st.booleans(),
    same_ids=st.booleans(),
    interrupted=st.sampled_from([False, False, False, True]),
)
_AFTER_THE_FIRST = st.lists(
    st.one_of(TURNS, TURNS, TURNS, st.builds(Condense, st.booleans()), st.just(Truncate())),
    max_size=14,
)
STEPS = st.builds(lambda first, others: [first, *others], TURNS, _AFTER_THE_FIRST)


class RooSession:
    """What Roo would have written after these steps."""

    def __init__(self, form: Form, protocol: ToolProtocol) -> None:
        self.form, self.protocol = form, protocol
        self.ui: list[Json] = []
        self.api: list[Json] = []
        self._clock = itertools.count(START, 10)
        self._number = itertools.count(1)
        self._results: list[Json] = []
        self._say("text", "Task: mend the shop")

    def play(self, steps: list[Turn | Condense | Truncate]) -> None:
        for step in steps:
            match step:
                case Turn():
                    self._turn(step)
                case Condense() if self.form == "january":
                    self._condense_in_january(step)
                case Condense():
                    self._condense_in_april(step)
                case Truncate():
                    self._truncate()

    def _turn(self, turn: Turn) -> None:
        number = next(self._number)
        content = self._results
        self._results = []
        if number == 1:
            content = [_text("<task>\nTask: mend the shop\n</task>"), IMAGE]
        elif turn.feedback or not content:
            message = f"Words {number}"
            self._say("user_feedback", message)
            content = [*content, _text(f"<user_message>\n{message}\n</user_message>")]
        self._say("api_req_started", '{"tokensIn":10,"tokensOut":1,"cost":0.5}')
        environment = _text("<environment_details>\n# Current Mode\n</environment_details>")
        self._message("user", [*content, environment])
        self._message("assistant", list(self._reply(number, turn)))

    def _reply(self, number: int, turn: Turn) -> Iterator[Json]:
        if turn.thinks:
            self._say("reasoning", f"Thought {number}")
            yield {"type": "thinking", "thinking": f"Thought {number}", "signature": "c2ln"}
        if turn.has_text or not turn.calls:
            self._say("text", f"Reply {number}")
            yield _text(f"Reply {number}")
        for place in range(turn.calls):
            name = f"call_{place}" if turn.same_ids else f"call_{number}_{place}"
            self._row("ask", "tool", f'{{"tool":"readFile","path":"{number}"}}')
            found = f"Found {number} {place}"
            if self.protocol is ToolProtocol.XML:
                yield _text(f"<read_file>\n<path>{number}</path>\n</read_file>")
                results = [_text("[read_file for 'a'] Result:"), _text(found)]
            else:
                yield {"type": "tool_use", "id": name, "name": "read_file", "input": {"path": "a"}}
                results = [{"type": "tool_result", "tool_use_id": name, "content": found}]
            if not turn.interrupted:
                self._results += results

    def _condense_in_april(self, step: Condense) -> None:
        self._flush()
        if len(self.api) < 2 or self.api[-1].get("isSummary"):
            return
        name = f"c{next(self._number)}"
        for message in self.api:
            message.setdefault("condenseParent", name)
        summary = {"isSummary": True, "condenseId": name}
        self._message("user", [_text(f"Summary {name}")], **summary)
        self._add_condense_row(name, step)

    def _condense_in_january(self, step: Condense) -> None:
        self._flush()
        visible = self._visible()
        if len(visible) < 6:
            return
        name = f"c{next(self._number)}"
        kept = visible[-3:]
        for message in visible[1:-3]:
            message["condenseParent"] = name
        answered = {block.get("tool_use_id") for block in _blocks(kept[0])}
        before = _blocks(visible[-4])
        calls = [b for b in before if b["type"] == "tool_use" and b["id"] in answered]
        content = [{"type": "reasoning", "text": "Summing up"}, _text(f"Summary {name}"), *calls]
        summary = {"role": "assistant", "content": content, "ts": kept[0]["ts"] - 1}
        summary |= {"isSummary": True, "condenseId": name}
        self.api.insert(self.api.index(kept[0]), summary)
        self._add_condense_row(name, step)

    def _truncate(self) -> None:
        visible = [m for m in self._visible() if not m.get("isTruncationMarker")]
        count = (len(visible) - 1) // 2 // 2 * 2
        if count < 2:
            return
        name = f"t{next(self._number)}"
        for message in visible[1 : 1 + count]:
            message["truncationParent"] = name
        first = visible[1 + count]
        marker = {"role": "user", "content": f"Marker {name}", "ts": first["ts"] - 1}
        marker |= {"isTruncationMarker": True, "truncationId": name}
        self.api.insert(self.api.index(first), marker)
        truncation = {"truncationId": name, "messagesRemoved": count}
        truncation |= {"prevContextTokens": 9, "newContextTokens": 5}
        self._row("say", "sliding_window_truncation", None, contextTruncation=truncation)

    def _visible(self) -> list[Json]:
        hiding = {m.get("condenseId") for m in self.api} | {m.get("truncationId") for m in self.api}
        hiding.discard(None)
        return [
            message
            for message in self.api
            if not hiding & {message.get("condenseParent"), message.get("truncationParent")}
        ]

    def _flush(self) -> None:
        """Results that are there are saved before a conversation is summed up."""
        if self._results:
            self._message("user", self._results)
            self._results = []

    def _add_condense_row(self, name: str, step: Condense) -> None:
        condensation: Json = {"cost": 0.25, "prevContextTokens": 9, "newContextTokens": 3}
        condensation |= {"summary": f"Summary {name}"} | (
            {"condenseId": name} if step.named else {}
        )
        self._row("say", "condense_context", None, contextCondense=condensation)

    def _say(self, kind: str, text: str) -> None:
        self._row("say", kind, text)

    def _row(self, of: str, kind: str, text: str | None, **more: Any) -> None:
        row = {"ts": next(self._clock), "type": of, of: kind, **more}
        self.ui.append(row if text is None else {**row, "text": text})

    def _message(self, role: str, content: list[Json], **more: Any) -> None:
        self.api.append({"role": role, "content": content, "ts": next(self._clock), **more})


def _text(content: str) -> Json:
    return {"type": "text", "text": content}


def _blocks(message: Json) -> list[Json]:
    content = message["content"]
    return [_text(content)] if isinstance(content, str) else content
