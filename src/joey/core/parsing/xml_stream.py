"""A parser for XML tool calls (and JSON ones) in the model's text while it streams in.

A call is `<tool>`, its parameters as `<name>value</name>`, and `</tool>`; only tools and
parameters that are known count, and only when the tag is written exactly so. Everything else is
text, or inside a call nothing. These rules decide where values and calls end:

- a value ends at its closing tag. Until then every other tag is part of it, `</tool>` too;
- a *body* (file content, a diff, a command, a result…) may contain its own closing tag: it
  reaches to the last one before the next parameter or the end of the call. So once a body has
  been closed for the first time, `</tool>` ends the call; a text that quotes a body's closing tag
  *and* the end of the call cannot be told from the end of the call. The remaining text can: it
  closes a body and a call that it has not opened. Then the call is doubted (`StrayTagTracker`);
- a parameter given twice keeps its first value, and the second is ignored, except where a tool
  takes several;
- a tool's tag right after a backtick is a mention of the tool, not a call;
- in a section of reasoning nothing is a call, and everything before a closing tag of such a section
  that nothing opened was reasoning: calls in it, and one whose parameters are still to come, are
  taken back. In a value the tag is content, unless the value then opens its own parameter again:
  then the call was abandoned in reasoning, and is doubted;
- a call that is open when the text ends is reported as unclosed, and is never a complete one.

Text between calls is trimmed, and `<thinking>` tags are removed from it. Text that may be the
beginning of a tag is held back until the next chunk decides.

Some models write calls as JSON into the text of an XML task (decision D9), in two forms: a fenced
block marked `tool_code`, with `tool` and `parameters` (some put a family of tools in `tool` and
the tool itself in `action`), and `<tool_call>` tags around `name` and `arguments`. Such a block is
a call when its JSON is complete and names a known tool; otherwise it stays text.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from joey.core.parsing.json_stream import JsonStream
from joey.core.parsing.tags import (
    THINK_CLOSING_BY_OPENING,
    THINK_CLOSING_TAGS,
    THINK_TAGS,
    InlineCodeTracker,
    ThinkTagReader,
    find_last_think_closing_tag,
    get_tag_matcher,
)
from joey.core.parsing.xml_argument_parser import (
    BODY_PARAMETERS,
    StreamTrimmer,
    XmlCall,
    skip_whitespace,
)

_HIDDEN_TAGS = frozenset({"<thinking>", "</thinking>"})
"""Tags of sections that are taken out of the text."""


class XmlText(Struct, frozen=True, gc=False):
    text: str


class XmlCallStarted(Struct, frozen=True, gc=False):
    name: str
    start_offset: int
    """The place of its first character in all text so far."""


class XmlCallDelta(Struct, frozen=True, gc=False):
    delta: str
    """JSON text; all deltas of a closed call together are its arguments."""


class XmlCallEnded(Struct, frozen=True):
    input: dict[str, Any]
    unclosed_tag: str | None = None
    """The tag that was still open when the text ended."""
    end_offset: int = 0
    """The place behind its last character."""
    reasoning_parameter: str | None = None
    """The parameter in which reasoning ends and the parameter begins anew."""


class XmlCallClosedEarly(Struct, frozen=True, gc=False):
    """The text closes a body and a call that are not open: an earlier call was cut short."""

    tool: str
    body: str


class XmlReasoningEnded(Struct, frozen=True, gc=False):
    """Everything up to here was reasoning; the tag that closed it is between these places."""

    closing_tag_start: int
    closing_tag_end: int


XmlEvent = (
    XmlText | XmlCallStarted | XmlCallDelta | XmlCallEnded | XmlCallClosedEarly | XmlReasoningEnded
)


class XmlStream(ThinkTagReader):
    """Text in, text and calls out. One stream reads one reply."""

    def __init__(
        self, tools: Mapping[str, frozenset[str]], *, understand_text_calls: bool = True
    ) -> None:
        super().__init__()
        self._tools = tools
        self._tools_by_opening_tag = {f"<{name}>": name for name in tools}
        blocks = JSON_CALL_CLOSING_BY_OPENING if understand_text_calls else ()
        mentions = (f"`{opening}" for opening in self._tools_by_opening_tag)
        self._text_tags = frozenset({*self._tools_by_opening_tag, *mentions, *blocks, *THINK_TAGS})
        self._stray_tags = StrayTagTracker()
        self._tag_matcher = get_tag_matcher(self._text_tags)
        self._events: list[XmlEvent] = []
        self._text_trimmer = StreamTrimmer(verbatim=False)
        self._fed_length = 0
        self._open_call: XmlCall | None = None
        self._paused_pieces: list[str] = []
        """The closing tag of a body and what came behind it, until it is known what they are."""
        self._json_call_block: JsonCallBlock | None = None
        self._block_offset = 0
        self._current_reader: Callable[[str, int], int] = self._read_text

    def feed(self, text: str) -> list[XmlEvent]:
        self._base_offset = self._fed_length - len(self._pending)
        self._fed_length += len(text)
        text = self._pending + text
        self._pending = ""
        pos = 0
        while pos < len(text):
            pos = self._current_reader(text, pos)
        return self._drain_events()

    def close(self) -> list[XmlEvent]:
        """What is left when no more text comes."""
        if self._open_call is not None:
            self._end_unclosed_call(self._open_call)
        elif self._current_reader == self._read_block and self._json_call_block is not None:
            self._emit_block_as_text(self._json_call_block.text)
        else:
            self._base_offset = self._fed_length - len(self._pending)
            self._flush_pending()
        return self._drain_events()

    def get_partial_arguments(self) -> dict[str, Any]:
        """The arguments so far of the call that is being written."""
        return self._open_call.get_partial_arguments() if self._open_call is not None else {}

    def _drain_events(self) -> list[XmlEvent]:
        events, self._events = self._events, []
        return events

    # Each expectation takes text from `pos` and returns where the next one continues.

    def _read_text(self, text: str, pos: int) -> int:
        at, tag = self._tag_matcher.find(text, pos)
        self._emit_text(text[pos:at])
        if not tag:
            self._pending = text[at:]
            return len(text)
        if tag in THINK_TAGS:
            return self._read_think_tag(text, at, tag)
        if tag in self._tools_by_opening_tag:
            tool = self._tools_by_opening_tag[tag]
            self._start_call(tool, self._base_offset + at)
            self._open_call = XmlCall(tool, self._tools[tool])
            self._current_reader = self._read_call
        elif tag in JSON_CALL_CLOSING_BY_OPENING:
            self._json_call_block = JsonCallBlock(tag, self._tools)
            self._block_offset = self._base_offset + at
            self._current_reader = self._read_block
        else:
            self._emit_text(tag)
            if tag in self._stray_tags.watched_tags and (
                closed := self._stray_tags.handle_tag(tag)
            ):
                self._events.append(XmlCallClosedEarly(*closed))
        return at + len(tag)

    def _read_call(self, text: str, pos: int) -> int:
        """Between parameters."""
        call = self._get_open_call()
        at, tag = call.tag_matcher.find(text, pos)
        if not tag:
            self._pending = text[at:]
            return len(text)
        if tag in THINK_CLOSING_TAGS:
            self._end_reasoning(self._base_offset + at, self._base_offset + at + len(tag))
        elif tag in THINK_CLOSING_BY_OPENING:
            self._think_closing_tag = THINK_CLOSING_BY_OPENING[tag]
            self._current_reader = self._read_reasoning_in_call
        else:
            self._open_value_or_end_call(call, tag, self._base_offset + at + len(tag))
        return at + len(tag)

    def _read_reasoning_in_call(self, text: str, pos: int) -> int:
        """In reasoning between parameters: nothing in it counts."""
        at, tag = get_tag_matcher(THINK_CLOSING_TAGS).find(text, pos)
        if not tag:
            self._pending = text[at:]
            return len(text)
        if tag == self._think_closing_tag:
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
        if tag[2:-1] in BODY_PARAMETERS:
            call.pause_value()
            self._paused_pieces = [tag]
            self._current_reader = self._read_after_body
        else:
            self._emit_delta(call.end_value())
            self._current_reader = self._read_call
        return at + len(tag)

    def _read_after_body(self, text: str, pos: int) -> int:
        """Behind a body's closing tag, which may turn out to be part of the body."""
        call = self._get_open_call()
        at, tag = call.tag_matcher.find(text, pos)
        self._paused_pieces.append(text[pos:at])
        if not tag:
            self._pending = text[at:]
            return len(text)
        if tag == self._paused_pieces[0]:
            self._emit_delta(call.feed("".join(self._paused_pieces)))
            self._paused_pieces = [tag]
        else:
            self._open_value_or_end_call(call, tag, self._base_offset + at + len(tag))
        return at + len(tag)

    def _read_block(self, text: str, pos: int) -> int:
        assert self._json_call_block is not None
        taken = self._json_call_block.feed(text[pos:])
        if taken is None:
            return len(text)
        call = self._json_call_block.call
        if call is None:
            self._current_reader = self._read_text
            self._emit_block_as_text(self._json_call_block.text)
        else:
            self._start_call(call.name, self._block_offset)
            self._emit_delta(msgspec.json.encode(call.arguments).decode())
            self._events.append(
                XmlCallEnded(call.arguments, end_offset=self._base_offset + pos + taken)
            )
            self._current_reader = self._read_after_block
        return pos + taken

    def _read_after_block(self, text: str, pos: int) -> int:
        """Behind the JSON of a call: what closes the block, if the model wrote it."""
        assert self._json_call_block is not None
        closing = self._json_call_block.closing_marker
        pos = skip_whitespace(text, pos)
        begun = text[pos : pos + len(closing)]
        if begun != closing and closing.startswith(begun):
            self._pending = begun
            return len(text)
        self._current_reader = self._read_text
        return pos + len(closing) if begun == closing else pos

    # What the expectations do

    def _get_open_call(self) -> XmlCall:
        assert self._open_call is not None
        return self._open_call

    def _emit_text(self, text: str) -> None:
        self._inline_code.feed(text)
        if trimmed := self._text_trimmer.feed(text):
            self._events.append(XmlText(trimmed))

    def _emit_delta(self, delta: str) -> None:
        if delta:
            self._events.append(XmlCallDelta(delta))

    def _emit_think_tag(self, tag: str) -> None:
        self._update_tag_matcher()
        self._emit_text("" if tag in _HIDDEN_TAGS else tag)

    def _emit_block_as_text(self, text: str) -> None:
        """A block that is no call; in its JSON nothing was looked for."""
        closing = find_last_think_closing_tag(text)
        if closing is None:
            self._emit_text(text)
            return
        at, end = closing
        self._emit_text(text[:at])
        self._end_reasoning(self._block_offset + at, self._block_offset + end)
        self._emit_text(text[end:])

    def _end_reasoning(self, at: int, end: int) -> None:
        self._open_call = None
        self._think_closing_tag = ""
        self._stray_tags = StrayTagTracker()
        self._update_tag_matcher()
        self._reset_text_state()
        self._current_reader = self._read_text
        self._events.append(XmlReasoningEnded(at, end))

    def _update_tag_matcher(self) -> None:
        tags = THINK_TAGS if self._think_closing_tag else self._text_tags
        self._tag_matcher = get_tag_matcher(tags | self._stray_tags.watched_tags)

    def _reset_text_state(self) -> None:
        self._text_trimmer = StreamTrimmer(verbatim=False)
        self._inline_code = InlineCodeTracker()

    def _start_call(self, name: str, at: int) -> None:
        self._reset_text_state()
        self._events.append(XmlCallStarted(name, at))

    def _open_value_or_end_call(self, call: XmlCall, tag: str, end: int) -> None:
        if tag != call.closing_tag:
            self._emit_delta(call.open_parameter(tag[1:-1]))
            self._current_reader = self._read_value
            return
        if call.current_value is not None:
            self._stray_tags.add_call(call.tool, call.current_value.name)
            self._update_tag_matcher()
        self._emit_delta(call.close())
        thought_in = next(filter(call.is_reopened_after_reasoning, call.values), None)
        self._events.append(
            XmlCallEnded(call.values, end_offset=end, reasoning_parameter=thought_in)
        )
        self._open_call = None
        self._current_reader = self._read_text

    def _end_unclosed_call(self, call: XmlCall) -> None:
        unclosed = call.tool
        if call.current_value is not None and self._current_reader == self._read_value:
            self._emit_delta(call.feed(self._pending))
            unclosed = call.current_value.name
        self._events.append(XmlCallEnded(call.get_partial_arguments(), unclosed, self._fed_length))
        self._open_call = None


class StrayTagTracker:
    """What is closed in the text behind calls that ended with a body."""

    def __init__(self) -> None:
        self.watched_tags: frozenset[str] = frozenset()
        """What to look for; behind a backtick a tag is only mentioned."""
        self._tools_by_body: defaultdict[str, set[str]] = defaultdict(set)
        """Tools by the bodies that calls of them ended with."""
        self._open_counts: Counter[str] = Counter()
        self._closed_bodies: set[str] = set()

    def add_call(self, tool: str, body: str) -> None:
        self._tools_by_body[body].add(tool)
        tags = {f"<{body}>", f"</{body}>", f"</{tool}>"}
        self.watched_tags |= tags | {f"`{tag}" for tag in tags}
        self._reset()

    def handle_tag(self, tag: str) -> tuple[str, str] | None:
        """The tool and the body that were closed once too often, when this tag completes that."""
        name = tag.strip("</>")
        if tag.startswith("`"):
            return None
        if not tag.startswith("</"):
            self._open_counts[name] += 1
        elif name not in self._tools_by_body:
            for body in sorted(self._closed_bodies):
                if name in self._tools_by_body[body]:
                    self._reset()
                    return name, body
        elif self._open_counts[name]:
            self._open_counts[name] -= 1
        else:
            self._closed_bodies.add(name)
        return None

    def _reset(self) -> None:
        self._open_counts.clear()
        self._closed_bodies.clear()


JSON_CALL_CLOSING_BY_OPENING: Mapping[str, str] = {
    "```tool_code": "```",
    "<tool_call>": "</tool_call>",
}

_TOOL_NAME_KEYS = ("action", "tool", "name")
_ARGUMENT_KEYS = ("parameters", "arguments")


class JsonCall(Struct, frozen=True):
    name: str
    arguments: dict[str, Any]


def parse_json_call(block: dict[str, Any], tools: Container[str]) -> JsonCall | None:
    """The call that a JSON object plainly means, if it means one."""
    named = (block.get(key) for key in _TOOL_NAME_KEYS)
    name = next((name for name in named if isinstance(name, str) and name in tools), None)
    if name is None:
        return None
    arguments: Any = next((block[key] for key in _ARGUMENT_KEYS if key in block), {})
    if isinstance(arguments, str):
        # They were encoded twice, as some models do.
        try:
            arguments = msgspec.json.decode(arguments)
        except (ValueError, RecursionError):
            return None
    return JsonCall(name, arguments) if isinstance(arguments, dict) else None


class JsonCallBlock:
    """A block from its opening on, held until it is known to be a call or to be text."""

    def __init__(self, opening: str, tools: Container[str]) -> None:
        self.closing_marker = JSON_CALL_CLOSING_BY_OPENING[opening]
        self.call: JsonCall | None = None
        self._opening = opening
        self._tools = tools
        self._json_stream = JsonStream()
        self._length = 0

    def feed(self, text: str) -> int | None:
        """None while undecided; else how much of `text` belongs to the block."""
        self._json_stream.feed(text)
        before = self._length
        self._length += len(text)
        stopped_at = self._json_stream.end_offset
        if stopped_at is None:
            return None
        if self._json_stream.is_complete:
            self.call = parse_json_call(self._json_stream.parse_partial(), self._tools)
        self._length = stopped_at
        return stopped_at - before

    @property
    def text(self) -> str:
        """The block as it was written, opening included."""
        return self._opening + self._json_stream.text[: self._length]
