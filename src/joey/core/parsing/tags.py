"""Tags in streamed text, those of reasoning sections in particular.

Models write reasoning into their text between tags such as `<think>…</think>`, `<thought>`,
`[THINK]` or `◁think▷`, and gpt-oss into the channel `analysis`. A section is reasoning if only
white space precedes it on its line, and so is everything before a closing tag without an opening
one: chat templates often write the opening tag themselves, so that the reply begins inside the
section. A section within a line or a code fence that is closed by a tag of the same name is text.
White space around reasoning belongs to it.

A tag directly between two backticks, the first of which opens inline code, is a mention. Any other
closing tag counts, in a code fence too: a call that was only considered must not run, and a model
that quotes the tag can be asked to call again.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from enum import Enum, auto
from functools import lru_cache

from msgspec import Struct

from joey.core.parsing.markdown_context import MarkdownContext
from joey.core.text import compile_regex

_NAMES = ("think", "thinking", "thought", "reasoning", "seed:think")
_LETTER_CASES = (str.lower, str.capitalize, str.upper)
_SPELLINGS = [case(name) for name in _NAMES for case in _LETTER_CASES]
_NAMES_IN_PAIRS = (
    *("analysis", "antThinking", "inner_monologue", "internal_monologue", "longcat_think"),
    *("minimax:think", "mm:think", "reasoning_scratchpad", "REASONING_SCRATCHPAD", "reflection"),
    *("scratch_pad", "scratchpad", "think:opensource", "thoughts"),
)
"""No template writes these tags, so a closing one that nothing opened is text."""
_OTHER_PAIRS = {
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "<|channel>thought": "<channel|>",
    "<|inner_prefix|>": "<|inner_suffix|>",
    "<unused94>thought": "<unused95>",
}
_ANALYSIS = "<|channel|>analysis<|message|>"
_ANALYSIS_END = "<|end|>"
"""Ends other messages too, so it counts only if the channel is open."""
_ANALYSIS_TAGS = frozenset({_ANALYSIS, f"<|start|>assistant{_ANALYSIS}", _ANALYSIS_END})
_FINAL = "<|channel|>final<|message|>"
_CLOSING_BY_OPENING = {
    **{f"<{name.lower()}>": f"</{name.lower()}>" for name in (*_NAMES, *_NAMES_IN_PAIRS)},
    **{opening.lower(): closing.lower() for opening, closing in _OTHER_PAIRS.items()},
    **dict.fromkeys(_ANALYSIS_TAGS - {_ANALYSIS_END}, _ANALYSIS_END),
}
THINK_OPENING_TAGS = frozenset(
    {*(f"<{name}>" for name in (*_SPELLINGS, *_NAMES_IN_PAIRS)), *_OTHER_PAIRS}
)
_CLOSING_TAGS_IN_PAIRS = frozenset(f"</{name.lower()}>" for name in _NAMES_IN_PAIRS)
THINK_CLOSING_TAGS = frozenset(
    {
        *(f"</{name}>" for name in _NAMES_IN_PAIRS),
        *(f"</{name}{gap}>" for name in _SPELLINGS for gap in ("", " ", "\n")),
        *(*_OTHER_PAIRS.values(), _FINAL, f"<|start|>assistant{_FINAL}"),
    }
)
_BARE_THINK_TAGS = THINK_OPENING_TAGS | THINK_CLOSING_TAGS
THINK_TAGS = frozenset(
    {
        *(f"{before}{tag}" for tag in _BARE_THINK_TAGS for before in ("", "`")),
        *(f"`{tag}`" for tag in _BARE_THINK_TAGS),
        *_ANALYSIS_TAGS,
    },
)
"""What to look for in text; `ThinkTagKind.classify` says what a match is."""
_THINK_CLOSING_RE = compile_regex(
    "|".join(
        re.escape(tag)
        for tag in sorted(THINK_CLOSING_TAGS)
        if tag.lower() not in _CLOSING_TAGS_IN_PAIRS
    )
)
THINK_TAG_PATTERN = "|".join(map(re.escape, sorted(_BARE_THINK_TAGS)))


_MAX_END_CHARS = 200
_END_TOKENS_RE = compile_regex(
    r"(?:\s*+(?:<\|(?:im_end|endoftext|end_of_text|end_of_turn|eot_id|eom_id|end|return|call|eos|"
    r"END_RESPONSE|END_OF_TURN_TOKEN)\|>|<｜end▁of▁sentence｜>|<end_of_turn>|<eos>|</s>))+\s*+\Z"
)


def strip_end_tokens(text: str) -> str:
    """Strip the chat template's end tokens from the text."""
    if not text[-_MAX_END_CHARS:].rstrip().endswith(">"):
        return text
    tokens = _END_TOKENS_RE.search(text, max(0, len(text) - _MAX_END_CHARS))
    return text if tokens is None else text[: tokens.start()]


def fold_think_tag(tag: str) -> str:
    """Fold a tag, so that `</THINK >` equals `</think>`."""
    return "".join(tag.lower().split())


def get_think_closing_tag(opening: str) -> str:
    return _CLOSING_BY_OPENING[fold_think_tag(opening)]


class ReplyText(Struct, frozen=True, gc=False):
    text: str
    is_thought: bool = False
    """It is inside a section of reasoning within a line, which stays text."""


class ReasoningText(Struct, frozen=True, gc=False):
    text: str


class ReasoningSection(Struct, frozen=True, gc=False):
    """A section of reasoning, with its tags, between these offsets."""

    start_offset: int
    end_offset: int


class ReasoningEnded(Struct, frozen=True, gc=False):
    """Everything up to here was reasoning; its closing tag is between these offsets."""

    closing_tag_start: int
    closing_tag_end: int


ProseEvent = ReplyText | ReasoningText | ReasoningSection | ReasoningEnded


class ThinkTagKind(Enum):
    OPENING = auto()
    CLOSING = auto()
    MENTION = auto()
    BACKTICK = auto()
    """The tag's backtick is text of its own; look again behind it."""
    UNDECIDED = auto()

    @classmethod
    def classify(cls, tag: str, *, in_code: bool, at_end: bool) -> ThinkTagKind:
        """Classify a tag; `in_code`: inline code is open before it; `at_end`: nothing follows
        it."""
        if not tag.startswith("`"):
            return cls.OPENING if fold_think_tag(tag) in _CLOSING_BY_OPENING else cls.CLOSING
        if tag.endswith("`"):
            return cls.BACKTICK if in_code else cls.MENTION
        return cls.UNDECIDED if at_end else cls.BACKTICK


def has_tag_after_reasoning_end(text: str, tag: str) -> bool:
    """Whether the text closes a section that it has not opened, and contains `tag` after that."""
    closing = _THINK_CLOSING_RE.search(text)
    if closing is None or any(opening in text[: closing.start()] for opening in THINK_OPENING_TAGS):
        return False
    return tag in text[closing.end() :]


class ThinkTagReader(ABC):
    """Reads the tags of reasoning in streamed text, and tracks the open section."""

    def __init__(self) -> None:
        self._pending = ""
        """What may be the beginning of a tag."""
        self._base_offset = 0
        """The place of the text that is being read, in all text so far."""
        self._fed_length = 0
        self._context = MarkdownContext()
        self._think_closing_tag = ""
        """The closing tag of the section that is open."""
        self._nested_closing_tags: set[str] = set()
        """Those of other kinds that were opened in the section."""
        self._reasoning_start: int | None = None
        """Where the open section began, if it is reasoning and not text."""
        self._is_after_reasoning = False
        """Only white space has come since reasoning."""
        self._tag_matcher = get_tag_matcher(THINK_TAGS)

    @abstractmethod
    def _append_event(self, event: ProseEvent) -> None: ...

    @abstractmethod
    def _emit_think_tag(self, tag: str) -> None:
        """Emit a tag of a section that is text, or a tag inside of a section."""

    def _update_tag_matcher(self) -> None:
        """Update the tags to look for, for example after a section was opened or closed."""
        self._tag_matcher = get_tag_matcher(self._list_tags())

    def _list_tags(self) -> frozenset[str]:
        return THINK_TAGS

    def _emit_text(self, text: str, *, is_quoted: bool = False) -> None:
        """Emit text; with `is_quoted`, it does not affect the context of later text."""
        if self._is_after_reasoning:
            text = text.lstrip()
        if not text:
            return
        self._is_after_reasoning = False
        if not is_quoted:
            self._context.feed(text)
        if self._reasoning_start is not None:
            self._append_event(ReasoningText(text))
        else:
            self._append_event(ReplyText(text, is_thought=bool(self._think_closing_tag)))

    def _end_reasoning(self, at: int, end: int) -> None:
        """Reclassify all text so far as reasoning."""
        self._reset_section(MarkdownContext())
        self._append_event(ReasoningEnded(at, end))

    def _read_think_tag(self, text: str, at: int, tag: str) -> int:
        end = at + len(tag)
        match ThinkTagKind.classify(
            tag, in_code=self._context.is_inline_code, at_end=end == len(text)
        ):
            case ThinkTagKind.UNDECIDED:
                self._pending = tag
            case ThinkTagKind.BACKTICK:
                self._emit_text("`")
                return at + 1
            case ThinkTagKind.MENTION:
                self._emit_text(tag)
            case ThinkTagKind.OPENING:
                self._handle_opening_tag(tag, self._base_offset + at)
            case ThinkTagKind.CLOSING:
                self._handle_closing_tag(tag, self._base_offset + at)
        return end

    def _handle_opening_tag(self, tag: str, at: int) -> None:
        if not self._think_closing_tag:
            self._think_closing_tag = get_think_closing_tag(tag)
            self._update_tag_matcher()
            is_alone = self._context.is_line_blank and not self._context.is_fenced
            if is_alone or self._think_closing_tag == _ANALYSIS_END:
                self._reasoning_start = at
                self._is_after_reasoning = True
                self._context = MarkdownContext()
                return
        elif (closing := get_think_closing_tag(tag)) != self._think_closing_tag:
            self._nested_closing_tags.add(closing)
        self._emit_think_tag(tag)

    def _handle_closing_tag(self, tag: str, at: int) -> None:
        closing = fold_think_tag(tag)
        if closing in self._nested_closing_tags:
            self._nested_closing_tags.remove(closing)
            self._emit_think_tag(tag)
            return
        if closing != self._think_closing_tag:
            if closing == _ANALYSIS_END or closing in _CLOSING_TAGS_IN_PAIRS:
                self._emit_text(tag)
            else:
                self._end_reasoning(at, at + len(tag))
            return
        if self._reasoning_start is None:
            self._nested_closing_tags.clear()
            self._think_closing_tag = ""
            self._update_tag_matcher()
            self._emit_think_tag(tag)
            return
        self._close_reasoning_section(at + len(tag))

    def _close_reasoning_section(self, end: int) -> None:
        if self._reasoning_start is not None:
            start = self._reasoning_start
            self._reset_section(MarkdownContext())
            self._append_event(ReasoningSection(start, end))

    def _reset_section(self, context: MarkdownContext) -> None:
        """Begin text after reasoning."""
        self._nested_closing_tags.clear()
        self._think_closing_tag = ""
        self._reasoning_start = None
        self._is_after_reasoning = True
        self._context = context
        self._update_tag_matcher()

    def _flush_pending(self) -> None:
        """Flush pending text at the end."""
        self._base_offset = self._fed_length - len(self._pending)
        pending, self._pending = self._pending, ""
        if pending in THINK_TAGS:
            self._emit_text("`")
            self._read_think_tag(pending, 1, pending[1:])
        else:
            self._emit_text(pending)
        self._close_reasoning_section(self._fed_length)


class ReasoningFinder(ThinkTagReader):
    """Finds reasoning in plain text."""

    def __init__(self) -> None:
        super().__init__()
        self._events: list[ProseEvent] = []

    def feed(self, text: str) -> list[ProseEvent]:
        self._base_offset = self._fed_length - len(self._pending)
        self._fed_length += len(text)
        text, self._pending = self._pending + text, ""
        pos = 0
        while pos < len(text):
            at, tag = self._tag_matcher.find(text, pos)
            self._emit_text(text[pos:at])
            if not tag:
                self._pending = text[at:]
                break
            pos = self._read_think_tag(text, at, tag)
        return self._drain_events()

    def close(self) -> list[ProseEvent]:
        """Return text still held at the end."""
        self._flush_pending()
        return self._drain_events()

    def _append_event(self, event: ProseEvent) -> None:
        self._events.append(event)

    def _emit_think_tag(self, tag: str) -> None:
        self._emit_text(tag)

    def _drain_events(self) -> list[ProseEvent]:
        events, self._events = self._events, []
        return events


class StrayTagTracker:
    """Tracks closing tags in the text after calls that ended with a body."""

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
        """Handle a tag; return the tool and the body that it closes once too often."""
        name = tag.strip("</>")
        if tag.startswith("`"):
            return None
        if not tag.startswith("</"):
            self._open_counts[name] += 1
        elif name not in self._tools_by_body:
            return self._handle_call_closing(name)
        elif self._open_counts[name]:
            self._open_counts[name] -= 1
        else:
            self._closed_bodies.add(name)
        return None

    def _handle_call_closing(self, tool: str) -> tuple[str, str] | None:
        for body in sorted(self._closed_bodies):
            if tool in self._tools_by_body[body]:
                self._reset()
                return tool, body
        return None

    def _reset(self) -> None:
        self._open_counts.clear()
        self._closed_bodies.clear()


_TAG_START_RE = compile_regex(r"[<`\[◁]")


_KEY_LENGTH = 3


class TagMatcher:
    """A set of literal tags to look for, and how to see that one may have begun.

    Tags are found by their first characters: a regular expression of all of them would take longer
    to compile than a short run takes to read its replies.
    """

    def __init__(self, tags: frozenset[str]) -> None:
        self._tags = tags
        self._tags_by_start: dict[str, list[str]] = {}
        for tag in sorted(tags, key=len, reverse=True):
            self._tags_by_start.setdefault(tag[:_KEY_LENGTH], []).append(tag)
        self._max_tag_length = max(map(len, tags))

    def including(self, tags: frozenset[str]) -> TagMatcher:
        return get_tag_matcher(self._tags | tags)

    def find(self, text: str, pos: int) -> tuple[int, str]:
        """Find the offset of the first tag, and the tag; or where one may have begun, and None."""
        begun_at = len(text)
        for start in _TAG_START_RE.finditer(text, pos):
            at = start.start()
            for tag in self._tags_by_start.get(text[at : at + _KEY_LENGTH], ()):
                if text.startswith(tag, at):
                    return at, tag
            if begun_at == len(text) and self._may_begin(text[at : at + self._max_tag_length]):
                begun_at = at
        return begun_at, ""

    def _may_begin(self, text: str) -> bool:
        """Whether the rest of the text may be the beginning of a tag."""
        if len(text) == self._max_tag_length:
            return False
        key = text[:_KEY_LENGTH]
        tags = self._tags if len(key) < _KEY_LENGTH else self._tags_by_start.get(key, ())
        return any(tag.startswith(text) for tag in tags)


@lru_cache(maxsize=1024)
def get_tag_matcher(tags: frozenset[str]) -> TagMatcher:
    """Return a cached matcher: every reply uses the same few sets."""
    return TagMatcher(tags)
