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
    ThinkTagKind,
    last_closing,
    tags_of,
)
from joey.core.parsing.xml_arguments import BODY_PARAMETERS, StreamTrimmer, XmlCall
from joey.core.text import regex

_HIDDEN_TAGS = frozenset({"<thinking>", "</thinking>"})
"""Tags of sections that are taken out of the text."""
_WHITESPACE_RE = regex(r"\s*+")


class XmlText(Struct, frozen=True, gc=False):
    text: str


class XmlCallStarted(Struct, frozen=True, gc=False):
    name: str
    at: int
    """The place of its first character in all text so far."""


class XmlCallDelta(Struct, frozen=True, gc=False):
    delta: str
    """JSON text; all deltas of a closed call together are its arguments."""


class XmlCallEnded(Struct, frozen=True):
    input: dict[str, Any]
    unclosed: str | None = None
    """The tag that was still open when the text ended."""
    end: int = 0
    """The place behind its last character."""
    thought_in: str | None = None
    """The parameter in which reasoning ends and the parameter begins anew."""


class XmlCallTruncated(Struct, frozen=True, gc=False):
    """The text closes a body and a call that are not open: an earlier call was cut short."""

    tool: str
    body: str


class XmlReasoningEnded(Struct, frozen=True, gc=False):
    """Everything up to here was reasoning; the tag that closed it is between these places."""

    at: int
    end: int


XmlEvent = (
    XmlText | XmlCallStarted | XmlCallDelta | XmlCallEnded | XmlCallTruncated | XmlReasoningEnded
)


class XmlStream:
    """Text in, text and calls out. One stream reads one reply."""

    def __init__(
        self, tools: Mapping[str, frozenset[str]], *, understand_text_calls: bool = True
    ) -> None:
        self._tools = tools
        self._openings = {f"<{name}>": name for name in tools}
        blocks = TEXT_CALL_CLOSING_BY_OPENING if understand_text_calls else ()
        mentions = (f"`{opening}" for opening in self._openings)
        self._text_tags = frozenset({*self._openings, *mentions, *blocks, *THINK_TAGS})
        self._leftovers = StrayTagTracker()
        self._tags = tags_of(self._text_tags)
        self._held = ""
        self._events: list[XmlEvent] = []
        self._text = StreamTrimmer(verbatim=False)
        self._code = InlineCodeTracker()
        self._section = ""
        """The closing tag of the section of reasoning that is open: it holds no calls."""
        self._fed = 0
        self._base = 0
        """The place of the text that is being read, in all text so far."""
        self._call: XmlCall | None = None
        self._paused: list[str] = []
        """The closing tag of a body and what came behind it, until it is known what they are."""
        self._block: TextCallBlock | None = None
        self._block_at = 0
        self._expect: Callable[[str, int], int] = self._in_text

    def feed(self, text: str) -> list[XmlEvent]:
        self._base = self._fed - len(self._held)
        self._fed += len(text)
        text = self._held + text
        self._held = ""
        pos = 0
        while pos < len(text):
            pos = self._expect(text, pos)
        return self._take_events()

    def close(self) -> list[XmlEvent]:
        """What is left when no more text comes."""
        if self._call is not None:
            self._end_unclosed(self._call)
        elif self._expect == self._in_block and self._block is not None:
            self._say_block(self._block.text)
        elif self._expect == self._in_text and self._held in THINK_TAGS:
            tag = self._held[1:]
            self._say("`")
            self._take_think_tag(tag, self._fed - len(tag))
        else:
            self._say(self._held)
        return self._take_events()

    def partial(self) -> dict[str, Any]:
        """The arguments so far of the call that is being written."""
        return self._call.partial() if self._call is not None else {}

    def _take_events(self) -> list[XmlEvent]:
        events = self._events
        self._events = []
        return events

    # Each expectation takes text from `pos` and returns where the next one goes on.

    def _in_text(self, text: str, pos: int) -> int:
        at, tag = self._tags.find(text, pos)
        self._say(text[pos:at])
        if not tag:
            self._held = text[at:]
            return len(text)
        if tag in THINK_TAGS:
            return self._read_think_tag(text, at, tag)
        if tag in self._openings:
            tool = self._openings[tag]
            self._start_call(tool, self._base + at)
            self._call = XmlCall(tool, self._tools[tool])
            self._expect = self._in_call
        elif tag in TEXT_CALL_CLOSING_BY_OPENING:
            self._block = TextCallBlock(tag, self._tools)
            self._block_at = self._base + at
            self._expect = self._in_block
        else:
            self._say_leftover(tag)
        return at + len(tag)

    def _read_think_tag(self, text: str, at: int, tag: str) -> int:
        end = at + len(tag)
        match ThinkTagKind.of(tag, in_code=self._code.is_open, at_end=end == len(text)):
            case ThinkTagKind.UNDECIDED:
                self._held = tag
            case ThinkTagKind.BACKTICK:
                self._say("`")
                return at + 1
            case ThinkTagKind.MENTION:
                self._say(tag)
            case ThinkTagKind.OPENING | ThinkTagKind.CLOSING:
                self._take_think_tag(tag, self._base + at)
        return end

    def _take_think_tag(self, tag: str, at: int) -> None:
        if tag in THINK_CLOSING_TAGS and tag != self._section:
            self._end_thought(at, at + len(tag))
            return
        if tag == self._section:
            self._section = ""
        elif not self._section:
            self._section = THINK_CLOSING_BY_OPENING[tag]
        self._renew_tags()
        self._say("" if tag in _HIDDEN_TAGS else tag)

    def _in_call(self, text: str, pos: int) -> int:
        """Between parameters."""
        call = self._the_call()
        at, tag = call.tags.find(text, pos)
        if not tag:
            self._held = text[at:]
            return len(text)
        if tag in THINK_CLOSING_TAGS:
            self._end_thought(self._base + at, self._base + at + len(tag))
        elif tag in THINK_CLOSING_BY_OPENING:
            self._section = THINK_CLOSING_BY_OPENING[tag]
            self._expect = self._in_section_of_call
        else:
            self._open_value_or_end_call(call, tag, self._base + at + len(tag))
        return at + len(tag)

    def _in_section_of_call(self, text: str, pos: int) -> int:
        """In reasoning between parameters: nothing in it counts."""
        at, tag = tags_of(THINK_CLOSING_TAGS).find(text, pos)
        if not tag:
            self._held = text[at:]
            return len(text)
        if tag == self._section:
            self._section = ""
            self._expect = self._in_call
        else:
            self._end_thought(self._base + at, self._base + at + len(tag))
        return at + len(tag)

    def _in_value(self, text: str, pos: int) -> int:
        call = self._the_call()
        at, tag = call.tags.find(text, pos)
        self._grow(call.grow(text[pos:at]))
        if not tag:
            self._held = text[at:]
            return len(text)
        if tag[2:-1] in BODY_PARAMETERS:
            call.pause_value()
            self._paused = [tag]
            self._expect = self._behind_body
        else:
            self._grow(call.end_value())
            self._expect = self._in_call
        return at + len(tag)

    def _behind_body(self, text: str, pos: int) -> int:
        """Behind a body's closing tag, which may turn out to be part of the body."""
        call = self._the_call()
        at, tag = call.tags.find(text, pos)
        self._paused.append(text[pos:at])
        if not tag:
            self._held = text[at:]
            return len(text)
        if tag == self._paused[0]:
            self._grow(call.grow("".join(self._paused)))
            self._paused = [tag]
        else:
            self._open_value_or_end_call(call, tag, self._base + at + len(tag))
        return at + len(tag)

    def _in_block(self, text: str, pos: int) -> int:
        assert self._block is not None
        taken = self._block.feed(text[pos:])
        if taken is None:
            return len(text)
        call = self._block.call
        if call is None:
            self._expect = self._in_text
            self._say_block(self._block.text)
        else:
            self._start_call(call.name, self._block_at)
            self._grow(msgspec.json.encode(call.arguments).decode())
            self._events.append(XmlCallEnded(call.arguments, end=self._base + pos + taken))
            self._expect = self._behind_block
        return pos + taken

    def _behind_block(self, text: str, pos: int) -> int:
        """Behind the JSON of a call: what closes the block, if the model wrote it."""
        assert self._block is not None
        closing = self._block.closing
        match = _WHITESPACE_RE.match(text, pos)
        pos = match.end() if match else pos
        begun = text[pos : pos + len(closing)]
        if begun != closing and closing.startswith(begun):
            self._held = begun
            return len(text)
        self._expect = self._in_text
        return pos + len(closing) if begun == closing else pos

    # What the expectations do

    def _the_call(self) -> XmlCall:
        assert self._call is not None
        return self._call

    def _say(self, text: str) -> None:
        self._code.read(text)
        if shown := self._text.grow(text):
            self._events.append(XmlText(shown))

    def _grow(self, delta: str) -> None:
        if delta:
            self._events.append(XmlCallDelta(delta))

    def _say_leftover(self, tag: str) -> None:
        self._say(tag)
        if tag in self._leftovers.tags and (closed := self._leftovers.meet(tag)):
            self._events.append(XmlCallTruncated(*closed))

    def _say_block(self, text: str) -> None:
        """A block that is no call; in its JSON nothing was looked for."""
        closing = last_closing(text)
        if closing is None:
            self._say(text)
            return
        at, end = closing
        self._say(text[:at])
        self._end_thought(self._block_at + at, self._block_at + end)
        self._say(text[end:])

    def _end_thought(self, at: int, end: int) -> None:
        self._call = None
        self._section = ""
        self._leftovers = StrayTagTracker()
        self._renew_tags()
        self._begin_text()
        self._expect = self._in_text
        self._events.append(XmlReasoningEnded(at, end))

    def _renew_tags(self) -> None:
        tags = THINK_TAGS if self._section else self._text_tags
        self._tags = tags_of(tags | self._leftovers.tags)

    def _begin_text(self) -> None:
        self._text = StreamTrimmer(verbatim=False)
        self._code = InlineCodeTracker()

    def _start_call(self, name: str, at: int) -> None:
        self._begin_text()
        self._events.append(XmlCallStarted(name, at))

    def _open_value_or_end_call(self, call: XmlCall, tag: str, end: int) -> None:
        if tag != call.closing:
            self._grow(call.open(tag[1:-1]))
            self._expect = self._in_value
            return
        if call.value is not None:
            self._leftovers.add_call(call.tool, call.value.name)
            self._renew_tags()
        self._grow(call.end())
        thought_in = next(filter(call.begins_anew, call.values), None)
        self._events.append(XmlCallEnded(call.values, end=end, thought_in=thought_in))
        self._call = None
        self._expect = self._in_text

    def _end_unclosed(self, call: XmlCall) -> None:
        unclosed = call.tool
        if call.value is not None and self._expect == self._in_value:
            self._grow(call.grow(self._held))
            unclosed = call.value.name
        self._events.append(XmlCallEnded(call.partial(), unclosed, self._fed))
        self._call = None


class StrayTagTracker:
    """What is closed in the text behind calls that ended with a body."""

    def __init__(self) -> None:
        self.tags: frozenset[str] = frozenset()
        """What to look for; behind a backtick a tag is only mentioned."""
        self._tools: defaultdict[str, set[str]] = defaultdict(set)
        """Tools by the bodies that calls of them ended with."""
        self._opened: Counter[str] = Counter()
        self._closed: set[str] = set()

    def add_call(self, tool: str, body: str) -> None:
        self._tools[body].add(tool)
        tags = {f"<{body}>", f"</{body}>", f"</{tool}>"}
        self.tags |= tags | {f"`{tag}" for tag in tags}
        self._begin_anew()

    def meet(self, tag: str) -> tuple[str, str] | None:
        """The tool and the body that were closed once too often, when this tag completes that."""
        name = tag.strip("</>")
        if tag.startswith("`"):
            return None
        if not tag.startswith("</"):
            self._opened[name] += 1
        elif name not in self._tools:
            return self._close_call(name)
        elif self._opened[name]:
            self._opened[name] -= 1
        else:
            self._closed.add(name)
        return None

    def _close_call(self, tool: str) -> tuple[str, str] | None:
        for body in sorted(self._closed):
            if tool in self._tools[body]:
                self._begin_anew()
                return tool, body
        return None

    def _begin_anew(self) -> None:
        self._opened.clear()
        self._closed.clear()


TEXT_CALL_CLOSING_BY_OPENING: Mapping[str, str] = {
    "```tool_code": "```",
    "<tool_call>": "</tool_call>",
}
"""What ends each kind of block, by what opens it."""

_TOOL_NAME_KEYS = ("action", "tool", "name")
_ARGUMENT_KEYS = ("parameters", "arguments")


class TextCall(Struct, frozen=True):
    name: str
    arguments: dict[str, Any]


def read_text_call(block: dict[str, Any], tools: Container[str]) -> TextCall | None:
    """The call that a JSON object plainly means, if it means one."""
    named = (block.get(key) for key in _TOOL_NAME_KEYS)
    name = next((name for name in named if isinstance(name, str) and name in tools), None)
    if name is None:
        return None
    arguments: Any = next((block[key] for key in _ARGUMENT_KEYS if key in block), {})
    if isinstance(arguments, str):
        arguments = _decoded(arguments)
    return TextCall(name, arguments) if isinstance(arguments, dict) else None


def _decoded(text: str) -> Any:
    """Arguments that were encoded twice, as some models do."""
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None


class TextCallBlock:
    """A block from its opening on, held until it is known to be a call or to be text."""

    def __init__(self, opening: str, tools: Container[str]) -> None:
        self.closing = TEXT_CALL_CLOSING_BY_OPENING[opening]
        self.call: TextCall | None = None
        self._opening = opening
        self._tools = tools
        self._json = JsonStream()
        self._length = 0

    def feed(self, text: str) -> int | None:
        """None while undecided; else how much of `text` belongs to the block."""
        self._json.feed(text)
        before = self._length
        self._length += len(text)
        stopped_at = self._json.stopped_at
        if stopped_at is None:
            return None
        if self._json.is_whole:
            self.call = read_text_call(self._json.partial(), self._tools)
        self._length = stopped_at
        return stopped_at - before

    @property
    def text(self) -> str:
        """The block as it was written, opening included."""
        return self._opening + self._json.text[: self._length]
