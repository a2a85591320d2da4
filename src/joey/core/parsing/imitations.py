"""Imitations in the text of a reply: results and messages that only joey writes.

Models trained on transcripts tend to continue them: after a call they invent its result, then the
next call. A line imitates joey if it is the heading of a tool's result, the tag of a block of
results or of a block that joey adds, or the beginning of another turn in a model's template
(`<|im_start|>user`). It only counts in prose: not in code, a quotation or a comment, and not
mentioned in a sentence.
"""

from __future__ import annotations

from collections.abc import Collection

from joey.core.parsing.markdown_context import MarkdownContext
from joey.core.text import compile_regex

_HEADING_RE = compile_regex(r" {0,3}(\[([A-Za-z_][\w-]*)(?: for .*)?\] Result:)")
_BLOCK_RE = compile_regex(
    r" {0,3}(<(environment_details|file_write_result|user_message"
    r"|tool_(?:response|results?|output)|function_(?:response|results?|output))>)"
    r"\s*(?:$|.*</\2>\s*$)"
)
_TURN_RE = compile_regex(
    r"(?:[^`]*<\|(?:im_end|eot_id|eom_id|end|endoftext)\|>| {0,3})\s*"
    r"((?:<\|(?:im_start|start_header_id|start)\|>|<start_of_turn>)\s*(?:user|tool|ipython)\b"
    r"|<\|(?:user|observation)\|>|<｜(?:User|tool▁outputs?▁begin)｜>|\[TOOL_RESULTS\]|\[INST\]"
    r"|Human:(?=\s))"
)
_MAX_LINE_CHARS = 1000
MAX_QUOTED_CHARS = 80


class ImitationFinder:
    """Reads text outside of calls, piece by piece."""

    def __init__(self, tool_names: Collection[str]) -> None:
        self.found = ""
        """The beginning of the first imitation."""
        self._tool_names = tool_names
        self._context = MarkdownContext()
        self._line = ""

    def feed(self, text: str) -> None:
        if self.found:
            return
        *lines, rest = text.split("\n")
        for line in lines:
            self._extend_line(line)
            self._end_line("\n")
        self._extend_line(rest)

    def end_text(self) -> str:
        """End the text before a call or at the end of the reply. Returns the first imitation so
        far."""
        self._end_line("")
        self._context = MarkdownContext()
        return self.found

    def _extend_line(self, piece: str) -> None:
        self._line += piece[: max(0, _MAX_LINE_CHARS - len(self._line))]

    def _end_line(self, line_break: str) -> None:
        line, self._line = self._line, ""
        imitation = self._match_line(line)
        if imitation and self._context.is_prose and self._context.is_line_blank:
            self.found = self.found or imitation
        self._context.feed(line + line_break)

    def _match_line(self, line: str) -> str:
        """Return the imitation at the beginning of a line, if it is one in any context."""
        if heading := _HEADING_RE.match(line):
            return heading[1][:MAX_QUOTED_CHARS] if heading[2] in self._tool_names else ""
        other = _BLOCK_RE.match(line) or _TURN_RE.match(line)
        return "" if other is None else other[1]


def find_imitation(text: str, tool_names: Collection[str]) -> str:
    """Return the beginning of the first imitation in a text; empty if there is none."""
    finder = ImitationFinder(tool_names)
    finder.feed(text)
    return finder.end_text()


def describe_call_after_imitation(tool: str, imitation: str) -> str:
    return (
        f"The call of {tool} was not executed: it follows text in your reply that imitates what"
        f" only the program writes ({imitation}); end your reply after a call, and its real result"
        " will come with the next message."
    )
