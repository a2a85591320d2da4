"""The text of a reply, and the calls that leaked into its end, as parts of the reply."""

from __future__ import annotations

from joey.core import messages as msg
from joey.core.parsing.call_names import ToolNames
from joey.core.parsing.imitations import describe_call_after_imitation, find_imitation
from joey.core.parsing.leaked_call_finder import FoundCalls, LeakedCallFinder
from joey.core.parsing.leaked_calls import LeakedCall
from joey.core.parsing.parts import CallIdAllocator, ReplyEnd, ReplyParts
from joey.core.parsing.tags import (
    ProseEvent,
    ReasoningEnded,
    ReasoningSection,
    ReasoningText,
    ReplyText,
    strip_end_tokens,
)
from joey.core.text import StreamTrimmer

_STRAY_FENCE = "```"
"""After a call, the end of a fence that nothing opened."""


class ReplyTextBuilder:
    """The text of a reply, and the calls that leaked into its end."""

    def __init__(
        self,
        parts: ReplyParts,
        ids: CallIdAllocator,
        finder: LeakedCallFinder | None,
        tools: ToolNames,
        *,
        is_trimmed: bool,
    ) -> None:
        """With `is_trimmed`, text between calls is shown without surrounding white space, as in XML
        tasks."""
        self._parts = parts
        self._call_ids = ids
        self._finder = finder
        self._tools = tools
        self._is_trimmed = is_trimmed
        self.imitation = ""
        """Text before the latest call that imitates a result or a message."""
        self._trimmer = StreamTrimmer(verbatim=False)
        self._is_after_thought = False
        self._unusable_call: msg.UnusableCall | None = None
        """What stands before a call and was meant as one."""

    def extend(self, events: list[ProseEvent]) -> None:
        """Add plain text with possible reasoning in it."""
        for event in events:
            match event:
                case ReplyText():
                    self.append(event.text)
                case ReasoningEnded():
                    self.flush(is_reasoning=True)
                    self._parts.reclassify_as_reasoning({})
                case _:
                    self.append_reasoning(event)

    def append_reasoning(self, event: ReasoningText | ReasoningSection) -> None:
        self.flush()
        if isinstance(event, ReasoningText):
            self._parts.append_prose("reasoning", event.text)
        else:
            self._parts.end_prose()

    def append(self, text: str, *, is_thought: bool = False) -> None:
        """Append text; with `is_thought`, it is in a section of reasoning, so nothing in it is a
        call."""
        if self._finder is None:
            self._show(text)
        elif is_thought:
            self._show(self._finder.flush() + text)
            self._is_after_thought = True
        else:
            if self._is_after_thought:
                self._end_text()
            self._show(self._finder.feed(text))

    def flush(self, *, is_reasoning: bool = False) -> None:
        """Flush the text because something else follows, or all text so far turns out to be
        reasoning."""
        if self._finder is not None:
            rest = self._finder.restart() if is_reasoning else self._finder.flush()
            self._show(rest)
        if is_reasoning:
            self.imitation, self._unusable_call = "", None
        self._trimmer = StreamTrimmer(verbatim=False)

    def end_before_call(self) -> tuple[LeakedCall, ...]:
        """End the text before a call with tags. Returns calls in other forms right before it; one
        in a code block counts only at the end of a reply."""
        if self._finder is None:
            self.flush()
            return ()
        found = self._finder.close(is_before_call=True)
        if found.calls and not found.is_fenced:
            self._finder.flush()
            self._parts.end_text_as(found.text.strip())
            self._end_text()
        else:
            self.flush()
        if found.calls and found.is_fenced:
            self._unusable_call = describe_fenced_call(found.calls[0].tool.name)
        elif found.unusable is not None and found.unusable.unknown_tool:
            self._unusable_call = self._unusable_call or found.unusable
        return () if found.is_fenced else found.calls

    def close(self, end: ReplyEnd) -> msg.UnusableCall | None:
        """End the text and add the calls. Returns the parts that were meant as a call but are not
        one."""
        found = FoundCalls("") if self._finder is None else self._finder.close()
        is_cut = end.cut_off_message is not None
        if not found.calls or is_cut:
            rest = "" if self._finder is None else strip_end_tokens(self._finder.flush())
            if found.text.strip() != _STRAY_FENCE:
                self._show(rest)
            self._end_text()
            return None if is_cut else self._unusable_call or found.unusable
        text = found.text.strip() if self._is_trimmed else found.text
        self._parts.end_text_as(text)
        self.imitation = self.imitation or find_imitation(text, self._tools.by_name)
        for leaked in found.calls:
            call = build_leaked_call(self._call_ids.allocate(None), leaked, self.imitation)
            part = self._parts.start_whole_call(call.id, call.name, call.input)
            self._parts.end_call(part, call)
        return self._unusable_call or found.unusable

    def _show(self, text: str) -> None:
        self._parts.append_prose("text", self._trimmer.feed(text) if self._is_trimmed else text)

    def _end_text(self) -> None:
        self._parts.end_prose()
        self._trimmer = StreamTrimmer(verbatim=False)
        self._is_after_thought = False


def build_leaked_call(call_id: str, leaked: LeakedCall, imitation: str) -> msg.ToolCall:
    name, repairs = leaked.tool.name, tuple(sorted(leaked.repairs))
    problem = describe_call_after_imitation(name, imitation) if imitation else None
    return msg.ToolCall(call_id, name, leaked.arguments, problem, repairs)


def describe_fenced_call(tool: str) -> msg.UnusableCall:
    problem = (
        f"The call of {tool} is in a code block, and another call follows it. Write it again,"
        " without the code block."
    )
    return msg.UnusableCall(problem, tool=tool)
