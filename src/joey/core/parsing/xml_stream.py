"""A parser for XML tool calls in the model's text while it streams in.

A call is `<tool>`, its parameters as `<name>value</name>`, and `</tool>`; only known tools and
parameters count, and only if the tag is written exactly like this. Everything else is text, or
inside a call ignored. These rules decide where values and calls end:

- a value ends at its closing tag. Until then every other tag is part of it, `</tool>` too;
- a *body* (file content, a diff, a command, a result…) may contain its own closing tag: it
  reaches to the last one before the next parameter or the end of the call. So once a body has
  been closed for the first time, `</tool>` ends the call; a text that quotes a body's closing tag
  *and* the end of the call cannot be told from the end of the call. The remaining text can: it
  closes a body and a call that it has not opened. Then the call is doubted (`StrayTagTracker`);
- a parameter given twice keeps its first value, and the second is ignored, except where a tool
  takes several;
- a tag counts only in prose: in inline or indented code, a quotation, a table or a comment it is
  text, and so is a call in a fence (whether that was meant is decided at the end of the reply, see
  `leaked_calls`). A tag with words behind it that no parameter follows is a mention of the tool;
- in a section of reasoning nothing is a call, and everything before a closing tag of such a section
  that nothing opened was reasoning: calls in it, and one whose parameters are still to come, are
  taken back. In a value the tag is content, unless the value then opens its own parameter again:
  then the call was abandoned in reasoning, and is doubted;
- where a call lacks only its closing tag, the opening tag of the next one ends it. A body may
  quote that tag: it does if it is closed once more;
- a call that is open when the text ends is reported as unclosed;
- a call after text that imitates a result is reported with it (see `imitations`).

Tags of `<thinking>` within a line are removed from the text. Text that may be the beginning of a
tag is held back until the next chunk decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

from joey.core.parsing.call_names import list_parameter_spellings
from joey.core.parsing.imitations import ImitationFinder
from joey.core.parsing.markdown_context import MarkdownContext
from joey.core.parsing.tags import (
    THINK_CLOSING_TAGS,
    THINK_OPENING_TAGS,
    THINK_TAGS,
    ProseEvent,
    StrayTagTracker,
    TagMatcher,
    ThinkTagReader,
    fold_think_tag,
    get_tag_matcher,
    get_think_closing_tag,
)
from joey.core.parsing.xml_argument_parser import (
    BODY_PARAMETERS,
    VERBATIM_PARAMETERS,
    XmlCall,
)
from joey.core.text import compile_regex

_ELEMENT_RE = compile_regex(r"\s*<([A-Za-z][\w.-]*)>.*</\1>\s*\Z", re.DOTALL)
_JSON_CLOSING_TAG = "</tool_call>"
_FOREIGN_VALUES = {
    **{
        f"<{name}{separator}": f"</{name}>"
        for name in (
            "parameter",
            "param",
            "antml:parameter",
            "steptml:parameter",
            "｜DSML｜parameter",
        )
        for separator in ("=", " name=")
    },
    "<arg_value>": "</arg_value>",
    "<escape>": "<escape>",
    '<|"|>': '<|"|>',
    **{
        f"<tool_call>{gap}{bracket}": _JSON_CLOSING_TAG
        for gap in ("", "\n", "\r\n")
        for bracket in "{["
    },
    "<|python_start|>": "<|python_end|>",
    "<|tool_call_start|>": "<|tool_call_end|>",
    "<]minimax[>[<tool_call>": "<]minimax[>[</tool_call>",
}
"""How values begin and end in calls of other formats. Tags in them are quoted."""
_FOREIGN_CLOSING_TAGS = frozenset(_FOREIGN_VALUES.values())
_HIDDEN_TAGS = frozenset({"<thinking>", "</thinking>"})
"""Tags of sections that are taken out of the text."""


_WRAPPER_RE = compile_regex(r"\s*(?:<(?:args|arguments|parameters|params|input)>\s*)?")
"""What may precede the first parameter: nothing, or a tag around all of them."""


_MAX_INDENTATION = 200


class XmlCallStarted(Struct, frozen=True, gc=False):
    name: str
    start_offset: int
    """The place of its first character in all text so far."""
    imitation: str = ""
    """Text before it that imitates a result or a message, if there is any."""


class XmlCallDelta(Struct, frozen=True, gc=False):
    delta: str
    """JSON text; all deltas of a closed call together are its arguments."""


class XmlCallEnded(Struct, frozen=True):
    input: dict[str, Any]
    unclosed_tag: str | None = None
    """The tag that was still open when the text ended."""
    bare_text: str = ""
    """What the call holds instead of parameters."""
    lacks_only_end: bool = False
    """Every parameter is closed, and only the closing tag of the call is missing."""
    end_offset: int = 0
    """The place behind its last character."""
    reasoning_parameter: str | None = None
    """The parameter in which reasoning ends and the parameter begins anew."""


class XmlCallClosedEarly(Struct, frozen=True, gc=False):
    """The text closes a body and a call that are not open: an earlier call ended early."""

    tool: str
    body: str


XmlEvent = ProseEvent | XmlCallStarted | XmlCallDelta | XmlCallEnded | XmlCallClosedEarly


class XmlStream(ThinkTagReader):
    """Text in, text and calls out. One stream reads one reply."""

    def __init__(self, tools: Mapping[str, frozenset[str]]) -> None:
        """`tools` maps names and aliases to the parameters of their calls."""
        super().__init__()
        self._tools = tools
        self._tools_by_opening_tag = {f"<{name}>": name for name in tools}
        self._text_tags = _build_text_tags(frozenset(self._tools_by_opening_tag))
        self._stray_tags = StrayTagTracker()
        self._imitations = ImitationFinder(tools)
        self._tag_matcher = get_tag_matcher(self._text_tags)
        self._events: list[XmlEvent] = []
        self._quoted_closing_tag = ""
        self._fed_pieces: list[str] = []
        self._open_call: XmlCall | None = None
        self._restart_offset: int | None = None
        """Where to read on, if the open call turned out to have ended before what was read."""
        self._paused_pieces: list[str] = []
        self._body_end_offset = 0
        self._held_deltas: list[str] = []
        """What follows a body that may still go on."""
        """The closing tag of a body and what came behind it, until it is known what they are."""
        self._mentioned_tool = ""
        self._is_mention_at_line_start = False
        self._mention_offset = 0
        self._mention_pieces: list[str] = []
        """The tag of a tool, and the text behind it that may turn it into a mention."""
        self._current_reader: Callable[[str, int], int] = self._read_text

    def feed(self, text: str) -> list[XmlEvent]:
        self._base_offset = self._fed_length - len(self._pending)
        self._fed_length += len(text)
        self._fed_pieces.append(text)
        text = self._pending + text
        self._pending = ""
        self._read(text)
        return self._drain_events()

    def close(self) -> list[XmlEvent]:
        """Return the rest at the end of the text."""
        if self._mention_pieces:
            self._close_mention()
        elif self._open_call is not None:
            self._end_unclosed_call(self._open_call)
        else:
            self._flush_pending()
        if self._restart_offset is not None:
            self._pending = ""
            self._read("")
            return self.close()
        return self._drain_events()

    def get_partial_arguments(self) -> dict[str, Any]:
        """Return the arguments so far of the open call."""
        return self._open_call.get_partial_arguments() if self._open_call is not None else {}

    def _drain_events(self) -> list[XmlEvent]:
        events, self._events = self._events, []
        return events

    def _read(self, text: str) -> None:
        pos = 0
        while pos < len(text) or self._restart_offset is not None:
            if self._restart_offset is not None:
                self._base_offset, self._restart_offset = self._restart_offset, None
                text, pos = self._get_fed_text()[self._base_offset :], 0
            pos = self._current_reader(text, pos)

    def _get_fed_text(self) -> str:
        self._fed_pieces = ["".join(self._fed_pieces)]
        return self._fed_pieces[0]

    # Each expectation reads text from `pos` and returns where the next one continues.

    def _read_text(self, text: str, pos: int) -> int:
        at, tag = self._tag_matcher.find(text, pos)
        self._emit_text(text[pos:at])
        if not tag:
            self._pending = text[at:]
            return len(text)
        if tag in THINK_TAGS:
            return self._read_think_tag(text, at, tag)
        if tag in _FOREIGN_VALUES and self._context.is_prose_line and self._context.is_after_mark:
            self._quoted_closing_tag = _FOREIGN_VALUES[tag]
            self._emit_text(tag, is_quoted=self._quoted_closing_tag != _JSON_CLOSING_TAG)
            self._current_reader = self._read_quoted_text
            return at + len(tag)
        tool = self._tools_by_opening_tag.get(tag)
        if tool is None or not self._context.is_prose_line:
            self._emit_tag_as_text(tag)
        elif self._context.is_fenced:
            self._emit_text(tag)
            if not self._tools[tool].isdisjoint(VERBATIM_PARAMETERS):
                self._quoted_closing_tag = f"</{tool}>"
                self._current_reader = self._read_quoted_text
        else:
            self._mentioned_tool, self._mention_pieces = tool, [tag]
            self._mention_offset = self._base_offset + at
            self._is_mention_at_line_start = self._context.is_line_blank
            self._current_reader = self._read_mention
        return at + len(tag)

    def _read_quoted_text(self, text: str, pos: int) -> int:
        """Read a call in a fence or in another format: its text may contain fences and tags that do
        not affect the context. (In JSON, quotation marks do.)"""
        is_quoted = self._quoted_closing_tag != _JSON_CLOSING_TAG
        is_foreign = self._quoted_closing_tag in _FOREIGN_CLOSING_TAGS
        closing_tags = frozenset({self._quoted_closing_tag})
        tags = closing_tags | THINK_CLOSING_TAGS if is_foreign else closing_tags
        at, tag = get_tag_matcher(tags).find(text, pos)
        self._emit_text(text[pos:at], is_quoted=is_quoted)
        if not tag:
            self._pending = text[at:]
            return len(text)
        self._current_reader = self._read_text
        if tag not in closing_tags:
            return at
        self._emit_text(tag, is_quoted=is_quoted)
        return at + len(tag)

    def _read_mention(self, text: str, pos: int) -> int:
        """Read after a tool's tag: a parameter or its end makes it a call, words make it a
        mention."""
        tool = self._mentioned_tool
        spellings = list_parameter_spellings(self._tools[tool])
        at, tag = _get_mention_matcher(tool, spellings, self._text_tags).find(text, pos)
        self._mention_pieces.append(text[pos:at])
        if not tag:
            self._pending = text[at:]
            return len(text)
        inner = "".join(self._mention_pieces[1:])
        ends_call = tag == f"</{tool}>"
        is_own = tag[1:-1] in spellings or tag in THINK_OPENING_TAGS
        is_plain_mention = tag in self._text_tags and not is_own
        if not is_plain_mention and (
            _WRAPPER_RE.fullmatch(inner) or ends_call or self._begins_line_after(inner)
        ):
            self._mention_pieces = []
            self._start_call(tool, self._mention_offset)
            self._open_call = XmlCall(tool, spellings, frozenset(self._tools_by_opening_tag))
            self._current_reader = self._read_call
            if ends_call and inner.strip():
                self._end_bare_call(inner, self._base_offset + at + len(tag))
                return at + len(tag)
        else:
            self._emit_mention()
        return at

    def _begins_line_after(self, inner: str) -> bool:
        """Whether a call and its first parameter each begin a line, with text between them."""
        return (
            self._is_mention_at_line_start
            and not inner.rpartition("\n")[2].strip()
            and "\n" in inner
        )

    def _read_call(self, text: str, pos: int) -> int:
        """Read between parameters."""
        call = self._get_open_call()
        at, tag = call.tag_matcher.find(text, pos)
        if not tag:
            self._pending = text[at:]
            return len(text)
        if self._resume_body(call, tag, self._base_offset + at):
            pass
        elif tag in THINK_CLOSING_TAGS:
            self._end_reasoning(self._base_offset + at, self._base_offset + at + len(tag))
        elif tag in THINK_OPENING_TAGS:
            self._think_closing_tag = get_think_closing_tag(tag)
            self._current_reader = self._read_reasoning_in_call
        elif not self._handle_next_call(call, tag, self._base_offset + at):
            self._open_value_or_end_call(call, tag, self._base_offset + at + len(tag))
        return at + len(tag)

    def _read_reasoning_in_call(self, text: str, pos: int) -> int:
        """Read reasoning between parameters, in which nothing counts."""
        at, tag = get_tag_matcher(THINK_CLOSING_TAGS).find(text, pos)
        if not tag:
            self._pending = text[at:]
            return len(text)
        if fold_think_tag(tag) == self._think_closing_tag:
            self._think_closing_tag = ""
            self._current_reader = self._read_call
        else:
            self._end_reasoning(self._base_offset + at, self._base_offset + at + len(tag))
        return at + len(tag)

    def _read_value(self, text: str, pos: int) -> int:
        call = self._get_open_call()
        at, tag = call.tag_matcher.find(text, pos)
        self._emit_delta(call.feed(text[pos:at]))
        if not tag:
            self._pending = text[at:]
            return len(text)
        call.values_end_offset = self._base_offset + at + len(tag)
        if self._resume_body(call, tag, self._base_offset + at):
            pass
        elif tag[2:-1] in BODY_PARAMETERS:
            call.pause_value()
            self._paused_pieces = [tag]
            self._body_end_offset = self._base_offset + at
            self._current_reader = self._read_after_body
        else:
            self._emit_delta(call.end_value())
            self._current_reader = self._read_call
        return at + len(tag)

    def _read_after_body(self, text: str, pos: int) -> int:
        """Read after a body's closing tag, which may turn out to be part of the body."""
        call = self._get_open_call()
        at, tag = call.tag_matcher.find(text, pos)
        self._paused_pieces.append(text[pos:at])
        if not tag:
            self._pending = text[at:]
            return len(text)
        if tag == self._paused_pieces[0]:
            self._emit_delta(call.continue_body("".join(self._paused_pieces)))
            call.values_end_offset = self._base_offset + at + len(tag)
            self._paused_pieces = [tag]
            self._body_end_offset = self._base_offset + at
        elif self._resume_body(call, tag, self._base_offset + at):
            pass
        elif self._handle_next_call(call, tag, self._base_offset + at):
            self._paused_pieces.append(tag)
        else:
            self._open_value_or_end_call(call, tag, self._base_offset + at + len(tag))
        return at + len(tag)

    # What the expectations do

    def _resume_body(self, call: XmlCall, tag: str, at: int) -> bool:
        """Resume a body if the tag closes it again: then it quoted its own end."""
        body = call.suspended_body
        if body is None or tag != body.value.closing_tag:
            return False
        self._held_deltas = []
        text = self._get_fed_text()[self._body_end_offset : at]
        self._emit_delta(call.resume_body(text))
        call.values_end_offset = at + len(tag)
        self._paused_pieces = [tag]
        self._body_end_offset = at
        self._current_reader = self._read_after_body
        return True

    def _handle_next_call(self, call: XmlCall, tag: str, at: int) -> bool:
        """Handle a tag that begins another call, or follows one: the open call has ended before
        it, unless its body is closed once more."""
        if tag in call.next_call_tags and call.next_call_offset is None:
            before = self._get_fed_text()[max(0, at - _MAX_INDENTATION) : at].rstrip(" \t")
            if not (call.values_end_offset and before.endswith(("\n", ">"))):
                return True
            call.next_call_offset = at
        if call.next_call_offset is None:
            return False
        is_body_open = call.current_value is not None or call.suspended_body is not None
        if not is_body_open or tag in (f"<{call.tool}>", call.closing_tag):
            self._end_before_next_call(call)
        return True

    def _end_before_next_call(self, call: XmlCall) -> None:
        self._restart_offset = call.values_end_offset
        unclosed = call.tool if call.has_quoted_call else None
        self._end_call(call, self._restart_offset, unclosed)

    def _emit_mention(self) -> None:
        text, self._mention_pieces = "".join(self._mention_pieces), []
        self._emit_text(text)
        self._current_reader = self._read_text

    def _close_mention(self) -> None:
        """Close a mention because the text ends after a tool's tag."""
        self._mention_pieces.append(self._pending)
        if "".join(self._mention_pieces[1:]).strip():
            self._emit_mention()
            return
        self._start_call(self._mentioned_tool, self._mention_offset)
        self._events.append(XmlCallEnded({}, self._mentioned_tool, end_offset=self._fed_length))

    def _end_bare_call(self, inner: str, end: int) -> None:
        """End a call without parameters, in which elements are unknown parameters, not text."""
        bare_text = "" if _ELEMENT_RE.match(inner) else inner.strip()
        self._emit_delta("{}")
        self._events.append(XmlCallEnded({}, bare_text=bare_text, end_offset=end))
        self._open_call = None
        self._current_reader = self._read_text

    def _get_open_call(self) -> XmlCall:
        assert self._open_call is not None
        return self._open_call

    def _append_event(self, event: ProseEvent) -> None:
        self._events.append(event)

    def _emit_text(self, text: str, *, is_quoted: bool = False) -> None:
        super()._emit_text(text, is_quoted=is_quoted)
        if not is_quoted and not self._think_closing_tag and self._reasoning_start is None:
            self._imitations.feed(text)

    def _emit_think_tag(self, tag: str) -> None:
        self._emit_text("" if tag in _HIDDEN_TAGS else tag)

    def _emit_delta(self, delta: str) -> None:
        if self._open_call is not None and self._open_call.suspended_body is not None:
            self._held_deltas.append(delta)
        elif delta:
            self._events.append(XmlCallDelta(delta))

    def _emit_tag_as_text(self, tag: str) -> None:
        self._emit_text(tag)
        if tag in self._stray_tags.watched_tags and (closed := self._stray_tags.handle_tag(tag)):
            self._events.append(XmlCallClosedEarly(*closed))

    def _end_reasoning(self, at: int, end: int) -> None:
        self._open_call = None
        self._stray_tags = StrayTagTracker()
        self._imitations = ImitationFinder(self._tools)
        self._current_reader = self._read_text
        super()._end_reasoning(at, end)

    def _list_tags(self) -> frozenset[str]:
        tags = THINK_TAGS if self._think_closing_tag else self._text_tags
        return tags | self._stray_tags.watched_tags

    def _start_call(self, name: str, at: int) -> None:
        self._context = MarkdownContext(is_after_blank_line=False)
        self._is_after_reasoning = False
        self._events.append(XmlCallStarted(name, at, self._imitations.end_text()))

    def _open_value_or_end_call(self, call: XmlCall, tag: str, end: int) -> None:
        if tag != call.closing_tag:
            name = tag[1:-1]
            if call.current_value is not None and name not in BODY_PARAMETERS:
                call.suspend_body()
            self._emit_delta(call.open_parameter(name))
            self._current_reader = self._read_value
            return
        self._end_call(call, end)

    def _end_call(self, call: XmlCall, end: int, unclosed_tag: str | None = None) -> None:
        self._settle_suspended_body(call)
        if call.current_value is not None:
            self._stray_tags.add_call(call.tool, call.current_value.name)
            self._update_tag_matcher()
        self._emit_delta(call.close())
        thought_in = next(filter(call.is_reopened_after_reasoning, call.values), None)
        self._events.append(
            XmlCallEnded(call.values, unclosed_tag, end_offset=end, reasoning_parameter=thought_in)
        )
        self._open_call = None
        self._current_reader = self._read_text

    def _settle_suspended_body(self, call: XmlCall) -> None:
        self._emit_settled(call.settle_suspended_body(), *self._held_deltas)
        self._held_deltas = []

    def _emit_settled(self, *deltas: str) -> None:
        self._events += [XmlCallDelta(delta) for delta in deltas if delta]

    def _end_unclosed_call(self, call: XmlCall) -> None:
        if call.next_call_offset is not None:
            self._end_before_next_call(call)
            return
        unclosed, is_whole = call.tool, self._current_reader != self._read_reasoning_in_call
        is_whole = is_whole and not call.has_quoted_call
        if call.current_value is not None and self._current_reader == self._read_value:
            self._emit_delta(call.feed(self._pending))
            unclosed, is_whole = call.current_value.name, False
        self._settle_suspended_body(call)
        values = call.get_partial_arguments()
        if is_whole and values:
            self._emit_delta(call.close())
            values = call.values
        self._events.append(
            XmlCallEnded(values, unclosed, end_offset=self._fed_length, lacks_only_end=is_whole)
        )
        self._open_call = None


@lru_cache(maxsize=256)
def _build_text_tags(openings: frozenset[str]) -> frozenset[str]:
    mentions = (f"`{opening}" for opening in openings)
    return frozenset({*openings, *mentions, *THINK_TAGS, *_FOREIGN_VALUES})


@lru_cache(maxsize=256)
def _get_mention_matcher(
    tool: str, spellings: frozenset[str], text_tags: frozenset[str]
) -> TagMatcher:
    return XmlCall(tool, spellings).tag_matcher.including(text_tags)
