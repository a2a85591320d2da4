"""Outlines: the definitions in a source file, the sections of a Markdown file.

Code is parsed by `outline_worker` in a separate process. A section goes from its heading to the
next one that is not below it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import PurePath

import msgspec
from msgspec import Struct

from joey.content.isolated_workers import run_isolated
from joey.core.text import compile_regex, split_lines
from joey.ports.content import Definition, Outlines

_MIN_DEFINITION_LINES = 4
"""What is shorter is seen as a whole wherever it is met."""
_MAX_LINE_CHARS = 200
_MAX_PARALLEL_WORKERS = 2
_PARSE_TIMEOUT_S = 10

_LineSpans = list[tuple[int, int, int]]
"""First, last and heading lines."""


class OutlineExtractor:
    """Extracts outlines in a separate process, since grammars crash on some texts."""

    def __init__(self) -> None:
        self._worker_slots = asyncio.Semaphore(_MAX_PARALLEL_WORKERS)

    def supports(self, name: str) -> bool:
        return detect_language(name) is not None

    async def build_outline(self, name: str, data: bytes) -> Sequence[Definition]:
        language = detect_language(name)
        if language is None:
            return ()
        text = decode_text(data)
        lines = split_lines(text)
        if language == MARKDOWN:
            sections = await asyncio.to_thread(find_sections, lines)
            spans = [(first, last, first) for first, last in sections]
        else:
            code, worker = text.encode(errors="replace"), "joey.content.outline_worker"
            async with self._worker_slots:
                answer = await run_isolated(worker, language, code, _PARSE_TIMEOUT_S)
            spans = msgspec.json.decode(answer, type=_LineSpans)
        return tuple(
            Definition(first, last, lines[heading - 1].rstrip()[:_MAX_LINE_CHARS])
            for first, last, heading in spans
            if last - first + 1 >= _MIN_DEFINITION_LINES and heading <= len(lines)
        )


_protocol_check: type[Outlines] = OutlineExtractor


MARKDOWN = "markdown"

_SUFFIXES_BY_LANGUAGE = {
    "python": (".py", ".pyi"),
    "javascript": (".js", ".jsx", ".mjs", ".cjs"),
    "typescript": (".ts", ".mts", ".cts"),
    "tsx": (".tsx",),
    "go": (".go",),
    "rust": (".rs",),
    "java": (".java",),
    "c": (".c", ".h"),
    "cpp": (".cpp", ".cc", ".cxx", ".hpp", ".hh", ".hxx"),
    "csharp": (".cs",),
    "ruby": (".rb",),
    "php": (".php",),
    "bash": (".sh", ".bash"),
    MARKDOWN: (".md", ".markdown"),
}
_LANGUAGES_BY_SUFFIX = {
    suffix: name for name, suffixes in _SUFFIXES_BY_LANGUAGE.items() for suffix in suffixes
}


def detect_language(name: str) -> str | None:
    """Detect the language of a file by its name."""
    return _LANGUAGES_BY_SUFFIX.get(PurePath(name).suffix.lower())


_ATX_HEADING_RE = compile_regex(r" {0,3}(#{1,6})(?:[ \t]|$)")
_HEADING_UNDERLINE_RE = compile_regex(r" {0,3}(=+|-{2,})[ \t]*$")
_CODE_FENCE_RE = compile_regex(r" {0,3}(`{3,}|~{3,})")
_FRONT_MATTER_DELIMITER = "---"
_NOT_PARAGRAPH_RE = compile_regex(r"[ \t]*$| {4}|\t| {0,3}(?:[>|]|[-*+][ \t]|\d{1,9}[.)][ \t])")
"""A line that an underline does not make a heading: empty, code, a quote, a table, a list."""


class _MarkdownHeading(Struct, frozen=True):
    line: int
    level: int


def find_sections(lines: list[str]) -> list[tuple[int, int]]:
    """Find the first and last lines of sections, counted from 1, in order."""
    headings = _find_headings(lines)
    found: list[tuple[int, int]] = []
    open_ones: list[_MarkdownHeading] = []
    for heading in (*headings, _MarkdownHeading(len(lines) + 1, 0)):
        while open_ones and open_ones[-1].level >= heading.level:
            found.append((open_ones.pop().line, heading.line - 1))
        open_ones.append(heading)
    return sorted(found)


def _find_headings(lines: list[str]) -> list[_MarkdownHeading]:
    headings: list[_MarkdownHeading] = []
    fence = ""
    above = ""
    start = _skip_front_matter(lines)
    for number, line in enumerate(lines[start:], start + 1):
        paragraph, above = above, ""
        if marks := _CODE_FENCE_RE.match(line):
            if not fence:
                fence = marks[1]
            elif marks[1].startswith(fence) and not line.strip(f"{fence[0]} \t"):
                fence = ""
        elif fence:
            continue
        elif heading := _ATX_HEADING_RE.match(line):
            headings.append(_MarkdownHeading(number, len(heading[1])))
        elif (under := _HEADING_UNDERLINE_RE.match(line)) and not _NOT_PARAGRAPH_RE.match(
            paragraph
        ):
            headings.append(_MarkdownHeading(number - 1, 1 if under[1][0] == "=" else 2))
        else:
            above = line
    return headings


def _skip_front_matter(lines: list[str]) -> int:
    if not lines or lines[0].rstrip() != _FRONT_MATTER_DELIMITER:
        return 0
    return next(
        (
            at + 1
            for at, line in enumerate(lines)
            if at and line.rstrip() == _FRONT_MATTER_DELIMITER
        ),
        0,
    )


_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")


def decode_text(data: bytes) -> str:
    """Decode text leniently: invalid UTF-8 is replaced."""
    if data.startswith(_UTF16_BOMS):
        return data.decode("utf-16", errors="replace")
    return data.decode(errors="replace").removeprefix("\ufeff")
