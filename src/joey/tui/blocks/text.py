"""Blocks of text: messages of the user and of the model, thinking, notes and errors of joey.

A message may carry the output of commands that the user ran before it (`with_ran`): the model
gets all of it, the block shows the names of the commands (`in_short`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rich.text import Text

from joey.core.parsing.json_stream import JsonStream
from joey.presentation.text import sanitize, to_one_line
from joey.tui.blocks.block import Block, BlockPart, SingleLine, WrappedLine
from joey.tui.blocks.markdown import MarkdownParser
from joey.tui.blocks.styled_text import TAB_SIZE, Spans, from_text, plain

MAX_FOLDED_THINKING_CHARS = 400
"""Characters of thinking that are looked at for its first words."""
TEXT_INDENT = 2
RESULT_HEADING = (WrappedLine([("✓ result", "success bold")]),)


class StaticBlock(Block):
    """Lines that do not change."""

    def __init__(self, lines: Iterable[BlockPart]) -> None:
        self._lines = tuple(lines)

    def settled(self, *, whole: bool) -> Sequence[BlockPart]:
        return self._lines

    def size(self) -> tuple[int, int]:
        return 0, len(self._lines)


class UserMessageBlock(Block):
    """What a person said."""

    def __init__(self, text: str, images: int = 0) -> None:
        self._text = text
        self._images = images

    def settled(self, *, whole: bool) -> Sequence[BlockPart]:
        images = " ".join(["[image]"] * self._images)
        message = in_short(self._text).rstrip()
        text = f"{message}\n{images}" if message and images else message or images
        lines = sanitize(text).expandtabs(TAB_SIZE).split("\n")
        return [
            WrappedLine([("› " if n == 0 else "  ", "person bold"), (line, "person")], TEXT_INDENT)
            for n, line in enumerate(lines)
        ]

    def size(self) -> tuple[int, int]:
        return len(self._text), self._text.count("\n")


class MarkdownBlock(Block):
    """Markdown, whole or as it comes, below a line that says what it is."""

    def __init__(self, text: str | None = None, head: Sequence[BlockPart] = ()) -> None:
        """Without a text it is going to come."""
        self._head = head
        self._begin(text)

    def _begin(self, text: str | None) -> None:
        self._unread = [text] if text else []
        self._characters = len(text or "")
        self._is_over = text is not None
        self._markdown: MarkdownParser | None = None

    @property
    def is_over(self) -> bool:
        return self._is_over

    def feed(self, text: str) -> None:
        self._unread.append(text)
        self._characters += len(text)
        self.grow()

    def finish(self, text: str) -> None:
        """This is all of it: what was heard, most often, or something else."""
        if len(text) == self._characters:
            self._is_over = True
            self.grow()
        else:
            self._begin(text)
            self.change()

    def settled(self, *, whole: bool) -> Sequence[BlockPart]:
        return self._read().settled

    def open(self, *, whole: bool) -> Sequence[BlockPart]:
        return self._read().open()

    def size(self) -> tuple[int, int]:
        read = len(self._markdown.settled) if self._markdown is not None else 0
        return self._characters, read + sum(text.count("\n") for text in self._unread)

    def _read(self) -> MarkdownParser:
        if self._markdown is None:
            self._markdown = MarkdownParser(self._head)
        if self._unread:
            self._markdown.feed("".join(self._unread))
            self._unread.clear()
        if self._is_over:
            self._markdown.close()
        return self._markdown


class StreamingResultBlock(MarkdownBlock):
    """A result while the call that presents it comes."""

    def __init__(self) -> None:
        super().__init__(head=RESULT_HEADING)
        self._arguments = JsonStream()

    def feed(self, text: str) -> None:
        self._arguments.feed(text)
        self.grow()

    def _read(self) -> MarkdownParser:
        if not self._is_over:
            result = self._arguments.parse_partial().get("result")
            if isinstance(result, str) and len(result) > self._characters:
                super().feed(result[self._characters :])
        return super()._read()


class TransientBlock(Block):
    """A line that is told anew until it is over: a countdown, something at work."""

    def __init__(self, text: str) -> None:
        self._text = text

    def set_text(self, text: str) -> None:
        self._text = text
        self.grow()

    def open(self, *, whole: bool) -> Sequence[BlockPart]:
        return [SingleLine([(to_one_line(self._text, 400), "muted")])] if self._text else ()


class ModelThinkingBlock(Block):
    """What the model thinks: a line of it, or all."""

    def __init__(self, text: str | None = None) -> None:
        self._text = text or ""
        self._is_over = text is not None
        self._seconds = 0
        self._lines: list[BlockPart] = []
        self._drawn = 0

    def feed(self, text: str) -> None:
        self._text += text
        self.grow()

    def finish(self, text: str) -> None:
        if len(text) != len(self._text):
            self._lines, self._drawn = [], 0
            self.change()
        self._text, self._is_over = text, True
        self.grow()

    def end(self, seconds: int) -> None:
        """It took so long; 0 when that is not worth a word."""
        self._seconds, self._is_over = seconds, True
        self.grow()

    def settled(self, *, whole: bool) -> Sequence[BlockPart]:
        if not whole:
            return ()
        while (end := self._text.find("\n", self._drawn)) >= 0:
            self._lines.append(_thought(self._text[self._drawn : end]))
            self._drawn = end + 1
        return self._lines

    def open(self, *, whole: bool) -> Sequence[BlockPart]:
        if whole:
            rest = self._text[self._drawn :]
            return [_thought(rest)] if rest else []
        if not self._text.strip():
            return ()
        summary = to_one_line(self._text[:MAX_FOLDED_THINKING_CHARS], MAX_FOLDED_THINKING_CHARS)
        return [
            SingleLine(
                [("∴ ", "mark"), (f"{self._how_long()}: ", "muted"), (summary, "muted italic")]
            )
        ]

    def size(self) -> tuple[int, int]:
        return 0, 0

    def _how_long(self) -> str:
        if not self._is_over:
            return "thinking"
        if self._seconds:
            return f"thought for {duration(self._seconds)}"
        return "thought"


def _thought(line: str) -> BlockPart:
    return WrappedLine(
        [("  ", ""), (sanitize(line).expandtabs(TAB_SIZE), "muted italic")], TEXT_INDENT
    )


def duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 20 s`."""
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 ", " ")
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def result(text: str, of: str = "") -> MarkdownBlock:
    return MarkdownBlock(
        text, head=(WrappedLine([(f"✓ result{of}", "success bold")]),) if of else RESULT_HEADING
    )


def question(text: str) -> MarkdownBlock:
    return MarkdownBlock(text, head=(WrappedLine([("? joey asks", "warning bold")]),))


def note(text: str) -> StaticBlock:
    """What joey itself says."""
    lines = sanitize(text).expandtabs(TAB_SIZE).split("\n")
    return StaticBlock(
        WrappedLine([(line, "muted")], len(line) - len(line.lstrip(" "))) for line in lines
    )


def error(text: str) -> StaticBlock:
    first, *rest = sanitize(text).expandtabs(TAB_SIZE).split("\n")
    return StaticBlock(
        [
            WrappedLine([("! ", "error bold"), (first, "error")], TEXT_INDENT),
            *(WrappedLine([("  ", ""), (line, "error")], TEXT_INDENT) for line in rest),
        ]
    )


def drawn_elsewhere(text: Text) -> StaticBlock:
    """Something that was drawn elsewhere."""
    return StaticBlock(WrappedLine(spans, _indent(spans)) for spans in from_text(text))


def _indent(spans: Spans) -> int:
    line = plain(spans)
    return len(line) - len(line.lstrip(" "))


SHELL_OUTPUT_HEADING = "\n\nI have run this in my shell:\n\n"
_SHELL_COMMAND_RE = re.compile(r"(?:\A|\n\n)\$ ([^\n]*)")
_FENCED_BLOCK_RE = re.compile(r"(`{3,})\n(.*)\n\1", re.DOTALL)


def with_ran(message: str, ran: Sequence[str]) -> str:
    """The words, with commands and what they printed."""
    if not ran:
        return message
    return f"{message}{SHELL_OUTPUT_HEADING}{fenced((chr(10) * 2).join(ran))}"


def in_short(text: str) -> str:
    """The words as they were written, and the names of the commands below them."""
    message, _, rest = text.rpartition(SHELL_OUTPUT_HEADING)
    block = _FENCED_BLOCK_RE.fullmatch(rest.rstrip())
    if not message or block is None:
        return text
    names = ", ".join(f"`{to_one_line(name, 60)}`" for name in _SHELL_COMMAND_RE.findall(block[2]))
    return f"{message}\n(with the output of {names})" if names else text


def fenced(text: str) -> str:
    """A block of code with a fence that is in none of its lines."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
