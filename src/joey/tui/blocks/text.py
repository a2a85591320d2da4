"""Blocks of text: messages of the user and of the model, thinking, notes and errors of joey.

A message may carry the output of commands that the user ran before it (`attach_shell_output`): the
model gets all of it, the block shows the names of the commands (`summarize_shell_output`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rich.text import Text

from joey.core.parsing.json_stream import JsonStream
from joey.presentation.text import to_one_line
from joey.tui.blocks.block_layout import Block, BlockPart, SingleLine, WrappedLine
from joey.tui.blocks.markdown import MarkdownParser
from joey.tui.blocks.styled_text import Spans, clean_text, split_rich_text, to_plain_text

MAX_FOLDED_THINKING_CHARS = 400
"""Looked at for its first words."""
TEXT_INDENT = 2


class StaticBlock(Block):
    """Lines that do not change."""

    def __init__(self, parts: Iterable[BlockPart]) -> None:
        self._static_parts = tuple(parts)

    def build_stable_parts(self, *, expanded: bool) -> Sequence[BlockPart]:
        return self._static_parts

    def estimate_chars_and_line_breaks(self) -> tuple[int, int]:
        return 0, len(self._static_parts)


class UserMessageBlock(Block):
    """A message of the user."""

    def __init__(self, text: str, images: int) -> None:
        self._text = text
        self._image_count = images

    def build_stable_parts(self, *, expanded: bool) -> Sequence[BlockPart]:
        images = " ".join(["[image]"] * self._image_count)
        message = summarize_shell_output(self._text).rstrip()
        text = f"{message}\n{images}" if message and images else message or images
        lines = clean_text(text).split("\n")
        return [
            WrappedLine([("› " if n == 0 else "  ", "person bold"), (line, "person")], TEXT_INDENT)
            for n, line in enumerate(lines)
        ]

    def estimate_chars_and_line_breaks(self) -> tuple[int, int]:
        return len(self._text), self._text.count("\n")


class MarkdownBlock(Block):
    """Markdown, complete or streaming, below a heading line."""

    def __init__(self, text: str | None = None, head: Sequence[BlockPart] = ()) -> None:
        """Without a text, it will be streamed."""
        self._heading_parts = head
        self._reset(text)

    def _reset(self, text: str | None) -> None:
        self._unparsed_texts = [text] if text else []
        self._char_count = len(text or "")
        self.is_finished = text is not None
        self._parser: MarkdownParser | None = None

    def feed(self, text: str) -> None:
        self._unparsed_texts.append(text)
        self._char_count += len(text)
        self.mark_grown()

    def finish(self, text: str) -> None:
        """Set the complete text: usually the streamed one, or a different one."""
        if len(text) == self._char_count:
            self.is_finished = True
            self.mark_grown()
        else:
            self._reset(text)
            self.invalidate()

    def build_stable_parts(self, *, expanded: bool) -> Sequence[BlockPart]:
        return self._update_parser().stable_parts

    def build_open_parts(self, *, expanded: bool) -> Sequence[BlockPart]:
        return self._update_parser().build_open_parts()

    def estimate_chars_and_line_breaks(self) -> tuple[int, int]:
        read = len(self._parser.stable_parts) if self._parser is not None else 0
        return self._char_count, read + sum(text.count("\n") for text in self._unparsed_texts)

    def _update_parser(self) -> MarkdownParser:
        if self._parser is None:
            self._parser = MarkdownParser(self._heading_parts)
        if self._unparsed_texts:
            self._parser.feed("".join(self._unparsed_texts))
            self._unparsed_texts.clear()
        if self.is_finished:
            self._parser.close()
        return self._parser


class StreamingResultBlock(MarkdownBlock):
    """A result while its call is streaming. It may still be sent back, so it is marked as the
    result only when it is presented."""

    def __init__(self) -> None:
        super().__init__(head=(WrappedLine([("… result", "muted")]),))
        self._arguments = JsonStream()

    def feed(self, text: str) -> None:
        self._arguments.feed(text)
        self.mark_grown()

    def _update_parser(self) -> MarkdownParser:
        if not self.is_finished:
            result = self._arguments.parse_partial().get("result")
            if isinstance(result, str) and len(result) > self._char_count:
                super().feed(result[self._char_count :])
        return super()._update_parser()

    def finish(self, text: str) -> None:
        self._heading_parts = _build_result_heading()
        self._reset(text)
        self.invalidate()


class TransientBlock(Block):
    """A line that is updated until it ends: a countdown, or a running activity."""

    def __init__(self, text: str) -> None:
        self._text = text

    def set_text(self, text: str) -> None:
        self._text = text
        self.mark_grown()

    def build_open_parts(self, *, expanded: bool) -> Sequence[BlockPart]:
        return [SingleLine([(to_one_line(self._text, 400), "muted")])] if self._text else ()


class ModelThinkingBlock(Block):
    """The model's thinking: one line of it, or all."""

    def __init__(self, text: str | None = None) -> None:
        self._text = text or ""
        self._is_finished = text is not None
        self._duration_s = 0
        self._finished_lines: list[BlockPart] = []
        self._consumed_chars = 0

    def feed(self, text: str) -> None:
        self._text += text
        self.mark_grown()

    def finish(self, text: str) -> None:
        if len(text) != len(self._text):
            self._finished_lines, self._consumed_chars = [], 0
            self.invalidate()
        self._text, self._is_finished = text, True
        self.mark_grown()

    def set_duration(self, seconds: int) -> None:
        """Set the duration; 0 if it is too short to mention."""
        self._duration_s, self._is_finished = seconds, True
        self.mark_grown()

    def build_stable_parts(self, *, expanded: bool) -> Sequence[BlockPart]:
        if not expanded:
            return ()
        while (end := self._text.find("\n", self._consumed_chars)) >= 0:
            self._finished_lines.append(
                _build_thinking_line(self._text[self._consumed_chars : end])
            )
            self._consumed_chars = end + 1
        return self._finished_lines

    def build_open_parts(self, *, expanded: bool) -> Sequence[BlockPart]:
        if expanded:
            rest = self._text[self._consumed_chars :]
            return [_build_thinking_line(rest)] if rest else []
        if not self._text.strip():
            return ()
        summary = to_one_line(self._text[:MAX_FOLDED_THINKING_CHARS], MAX_FOLDED_THINKING_CHARS)
        duration = (f"{self._describe_duration()}: ", "muted")
        return [SingleLine([("∴ ", "mark"), duration, (summary, "muted italic")])]

    def _describe_duration(self) -> str:
        if not self._is_finished:
            return "thinking"
        if self._duration_s:
            return f"thought for {format_duration(self._duration_s)}"
        return "thought"


def _build_thinking_line(line: str) -> BlockPart:
    return WrappedLine([("  ", ""), (clean_text(line), "muted italic")], TEXT_INDENT)


def format_duration(seconds: float) -> str:
    """Format a duration: `0.4 s`, `12 s`, `3 min 20 s`."""
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 ", " ")
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def build_result_block(text: str, heading_suffix: str = "") -> MarkdownBlock:
    return MarkdownBlock(text, _build_result_heading(heading_suffix))


def _build_result_heading(suffix: str = "") -> Sequence[BlockPart]:
    return [WrappedLine([(f"✓ result{suffix}", "success bold")])]


def build_question_block(text: str) -> MarkdownBlock:
    return MarkdownBlock(text, [WrappedLine([("? joey asks", "warning bold")])])


def build_note_block(text: str) -> StaticBlock:
    return _build_lines_block([(line, "muted")] for line in clean_text(text).split("\n"))


def build_error_block(text: str) -> StaticBlock:
    return StaticBlock(_build_error_lines(text))


def _build_error_lines(text: str) -> list[BlockPart]:
    first, *rest = clean_text(text).split("\n")
    return [
        WrappedLine([("! ", "error bold"), (first, "error")], TEXT_INDENT),
        *(WrappedLine([("  ", ""), (line, "error")], TEXT_INDENT) for line in rest),
    ]


class TransientErrorBlock(Block):
    """An error that is hidden once it no longer applies."""

    def __init__(self, text: str) -> None:
        self._lines = _build_error_lines(text)

    def hide(self) -> None:
        self._lines = []
        self.mark_grown()

    def build_open_parts(self, *, expanded: bool) -> Sequence[BlockPart]:
        return self._lines


def build_rich_text_block(text: Text) -> StaticBlock:
    return _build_lines_block(split_rich_text(text))


def _build_lines_block(lines: Iterable[Spans]) -> StaticBlock:
    """Build a block whose continuation lines are indented like the first."""
    texts = [(spans, to_plain_text(spans)) for spans in lines]
    return StaticBlock(
        WrappedLine(spans, len(text) - len(text.lstrip(" "))) for spans, text in texts
    )


SHELL_OUTPUT_HEADING = "\n\nI have run this in my shell:\n\n"
_SHELL_COMMAND_RE = re.compile(r"(?:\A|\n\n)\$ ([^\n]*)")
_FENCED_BLOCK_RE = re.compile(r"(`{3,})\n(.*)\n\1", re.DOTALL)


def attach_shell_output(message: str, transcripts: Sequence[str]) -> str:
    """Attach commands and their output to the message."""
    if not transcripts:
        return message
    return f"{message}{SHELL_OUTPUT_HEADING}{fence_code((chr(10) * 2).join(transcripts))}"


def summarize_shell_output(text: str) -> str:
    """Summarize a message as written, with the names of the commands below."""
    message, _, rest = text.rpartition(SHELL_OUTPUT_HEADING)
    block = _FENCED_BLOCK_RE.fullmatch(rest.rstrip())
    if not message or block is None:
        return text
    names = ", ".join(f"`{to_one_line(name, 60)}`" for name in _SHELL_COMMAND_RE.findall(block[2]))
    return f"{message}\n(with the output of {names})" if names else text


def fence_code(text: str) -> str:
    """Build a code block whose fence is in none of its lines."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
