"""Application of the chunks of a patch to a text.

Chunks are in the order of the file: each is searched after the one before it, and after the lines
that its `@@` names. Only lines that are removed or added are touched; a kept line keeps its bytes
even where it was found by ignoring white space or typography, and then added lines take on the
indentation of the place. One chunk that does not fit fails the patch; the first few such chunks
are explained. The summary of a failure quotes nothing from the file and the evidence does: a
caller that may not see the file gets the summary only.

Three mistakes have only one meaning and are accepted: a chunk that repeats lines which the chunk
before has kept or its own `@@` has named, an `@@` that names a line which was passed already, and
an empty line at the end of a chunk that the file does not have.

Lines are found in four passes over the whole text, each more tolerant: exact; ignoring white space
at line ends; also at line beginnings; also the difference between typographic and plain dashes,
quotes and spaces. Each pass is a string search over the joined lines, so that no pattern, however
repetitive, costs more than reading the text a few times.

`TextLines` applies line edits, also those of `insert_content`. Every line keeps its own line end;
a new line ends as the line does that it replaces, or else the one before it. Whether the text ends
with a newline stays as it was, unless the patch says otherwise.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, islice, zip_longest
from operator import add

from msgspec import Struct, structs

from joey.core.edits.line_document import Document, LineSpan, get_indent, reindent_line
from joey.core.edits.patch_parser import LineSign, PatchChunk, PatchLine
from joey.core.edits.similar import (
    EditFailure,
    SimilarityFunction,
    SimilarMatch,
    find_most_similar,
    format_percent,
    render_numbered_lines,
    truncate_evidence,
)

MAX_FAILED_CHUNKS = 5
"""After so many chunks that do not fit no more are tried: looking for what is not there is dear."""


class FailedPatch(Struct, frozen=True):
    """Chunks that do not fit; nothing of the patch may be applied."""

    failures: tuple[EditFailure, ...]


def apply_chunks(
    text: str, chunks: Sequence[PatchChunk], *, similarity: SimilarityFunction
) -> str | FailedPatch:
    """The text after all chunks, or why some do not fit."""
    patcher = _Patcher(text, similarity)
    misses = (failure for chunk in chunks if (failure := patcher.apply_chunk(chunk)) is not None)
    failures = tuple(islice(misses, MAX_FAILED_CHUNKS))
    return FailedPatch(failures) if failures else patcher.patched_text


class _SearchStart(Struct, frozen=True):
    """Where a chunk is looked for."""

    start: int
    fallback_start: int
    """Where to begin if it is not found from `start` on."""


class _Patcher:
    def __init__(self, text: str, similarity: SimilarityFunction) -> None:
        self._lines = TextLines(text)
        self._line_finder = LineFinder(self._lines.lines)
        self._explainer = MismatchExplainer(text, self._lines.lines, similarity)
        self._edits: list[LineEdit] = []
        self._has_final_newline: bool | None = None
        self._last_chunk_end = 0
        """The line behind the last chunk, and behind the last line that it changed."""
        self._last_change_end = 0

    @property
    def patched_text(self) -> str:
        edits = sorted(self._edits, key=lambda edit: edit.start)
        return self._lines.apply_edits(edits, final_newline=self._has_final_newline)

    def apply_chunk(self, chunk: PatchChunk) -> EditFailure | None:
        search = self._find_search_start(chunk)
        if isinstance(search, EditFailure):
            return search
        if not chunk.old_lines:
            self._insert_lines(chunk, search)
            return None
        for lines in (chunk.lines, _drop_trailing_blank(chunk.lines)):
            old = [line.text for line in lines if line.sign is not LineSign.ADDED]
            for start in (search.start, search.fallback_start):
                at = self._find_lines(old, start, at_end=chunk.is_at_end)
                if at is not None:
                    self._replace_lines(lines, LineSpan(at, at + len(old)))
                    self._record_final_newline(chunk)
                    return None
        elsewhere = self._line_finder.find(chunk.old_lines, 0)
        done = (
            self._line_finder.find(chunk.new_lines, 0)
            if _has_distinctive_new_lines(chunk)
            else None
        )
        return self._explainer.explain_missing_lines(chunk, search.start, elsewhere, done)

    def _find_search_start(self, chunk: PatchChunk) -> _SearchStart | EditFailure:
        start, again = self._last_chunk_end, self._last_change_end
        for context in chunk.anchor_lines:
            at = self._line_finder.find([context], start)
            if at is not None:
                start, again = at + 1, max(self._last_change_end, at)
            elif not chunk.old_lines or self._line_finder.find([context], 0) is None:
                return self._explainer.explain_missing_anchor(chunk, context, start)
        return _SearchStart(start, again)

    def _find_lines(self, old: list[str], start: int, *, at_end: bool) -> int | None:
        if not old:
            return None
        if at_end:
            return self._line_finder.find_at_end(old, start)
        return self._line_finder.find(old, start)

    def _insert_lines(self, chunk: PatchChunk, search: _SearchStart) -> None:
        """Lines without any around them: behind what `@@` names, or at the end of the file."""
        end = len(self._lines.lines)
        is_placed = chunk.anchor_lines and not chunk.is_at_end
        at = search.start if is_placed else end
        self._edits.append(LineEdit(at, at, tuple(line.text for line in chunk.lines)))
        self._record_final_newline(chunk)
        if is_placed:
            self._last_chunk_end = self._last_change_end = at

    def _replace_lines(self, lines: Sequence[PatchLine], span: LineSpan) -> None:
        found = self._lines.lines[span.start : span.stop]
        edits = list(_build_line_edits(_reindent_added_lines(lines, found), span.start))
        self._edits += edits
        self._last_chunk_end = span.stop
        self._last_change_end = edits[-1].stop if edits else span.start

    def _record_final_newline(self, chunk: PatchChunk) -> None:
        if chunk.has_final_newline is not None:
            self._has_final_newline = chunk.has_final_newline


def _has_distinctive_new_lines(chunk: PatchChunk) -> bool:
    """Whether to find the new lines of a chunk means more than to find some of the old ones."""
    old, new = ("\n".join(["", *lines, ""]) for lines in (chunk.old_lines, chunk.new_lines))
    return any(chunk.new_lines) and new not in old


def _build_line_edits(lines: Sequence[PatchLine], at: int) -> list[LineEdit]:
    """One edit for each run of lines that are removed or added."""
    edits: list[LineEdit] = []
    start = stop = at
    added: list[str] = []
    for line in [*lines, PatchLine(LineSign.CONTEXT, "")]:
        match line.sign:
            case LineSign.ADDED:
                added.append(line.text)
            case LineSign.REMOVED:
                stop += 1
            case LineSign.CONTEXT:
                if added or stop > start:
                    edits.append(LineEdit(start, stop, tuple(added)))
                start = stop = stop + 1
                added = []
    return edits


def _drop_trailing_blank(lines: Sequence[PatchLine]) -> list[PatchLine]:
    """The lines without an empty one at the end of what is looked for; if more lines are added
    behind it, it is one of them."""
    last = max(at for at, line in enumerate(lines) if line.sign is not LineSign.ADDED)
    if lines[last].text.strip():
        return list(lines)
    before, behind = list(lines[:last]), list(lines[last + 1 :])
    if lines[last].sign is LineSign.REMOVED:
        return before + (behind[:-1] if behind and not behind[-1].text.strip() else behind)
    return [*before, PatchLine(LineSign.ADDED, ""), *behind] if behind else before


def _reindent_added_lines(lines: Sequence[PatchLine], found: Sequence[str]) -> list[PatchLine]:
    """Added lines with the indentation that the lines around them have in the file."""
    old = [line.text for line in lines if line.sign is not LineSign.ADDED]
    indents = {
        get_indent(patched): get_indent(real)
        for patched, real in zip(old, found, strict=True)
        if patched.strip()
    }
    if all(patched == real for patched, real in indents.items()):
        return list(lines)
    return [
        structs.replace(line, text=reindent_line(line.text, indents))
        if line.sign is LineSign.ADDED
        else line
        for line in lines
    ]


class LineEdit(Struct, frozen=True):
    """Lines `start` up to but not including `stop`, counted from 0, become these."""

    start: int
    stop: int
    lines: tuple[str, ...]


class TextLines:
    """A text as its lines, without their ends."""

    def __init__(self, text: str) -> None:
        *self.lines, rest = text.split("\n")
        self._line_endings = ["\n"] * len(self.lines)
        if "\r\n" in text:
            self._line_endings = ["\r\n" if line.endswith("\r") else "\n" for line in self.lines]
            self.lines = [line.removesuffix("\r") for line in self.lines]
        self._default_newline = (
            "\r\n" if self._line_endings.count("\r\n") * 2 > len(self._line_endings) else "\n"
        )
        self._ends_with_newline = not rest
        if rest:
            self.lines.append(rest)
            self._line_endings.append("")

    def apply_edits(self, edits: Sequence[LineEdit], *, final_newline: bool | None = None) -> str:
        """The text after edits that are in the order of the lines and do not overlap."""
        lines: list[str] = []
        ends: list[str] = []
        at = 0
        for edit in edits:
            lines += self.lines[at : edit.start]
            ends += self._line_endings[at : edit.start]
            lines += edit.lines
            ends += [self._get_line_ending(edit)] * len(edit.lines)
            at = edit.stop
        lines += self.lines[at:]
        ends += self._line_endings[at:]
        if not lines:
            return ""
        # What ended the text may stand before something else now, and the other way round.
        last = len(self.lines) - 1
        if self._line_endings and not self._line_endings[last]:
            ends = [end or self._default_newline for end in ends]
        keep = self._ends_with_newline if final_newline is None else final_newline
        ends[-1] = (ends[-1] or self._default_newline) if keep else ""
        return "".join(map(add, lines, ends))

    def _get_line_ending(self, edit: LineEdit) -> str:
        neighbour = edit.start if edit.start < edit.stop else edit.start - 1
        known = self._line_endings[neighbour] if 0 <= neighbour < len(self._line_endings) else ""
        return known or self._default_newline


_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_SINGLE_QUOTES = "\u2018\u2019\u201a\u201b"
_DOUBLE_QUOTES = "\u201c\u201d\u201e\u201f"
_SPACES = "\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_TYPOGRAPHY_TRANSLATION = {
    ord(character): plain
    for plain, characters in (
        ("-", _DASHES),
        ("'", _SINGLE_QUOTES),
        ('"', _DOUBLE_QUOTES),
        (" ", _SPACES),
    )
    for character in characters
}


def _keep_line(line: str) -> str:
    return line


def _normalize_line(line: str) -> str:
    line = line.strip()
    return line if line.isascii() else line.translate(_TYPOGRAPHY_TRANSLATION)


_LINE_NORMALIZERS: tuple[Callable[[str], str], ...] = (
    _keep_line,
    str.rstrip,
    str.strip,
    _normalize_line,
)


class LineFinder:
    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._joined_texts_by_pass: dict[int, tuple[str, list[int]]] = {}

    def find(self, pattern: Sequence[str], start: int) -> int | None:
        """The first line from `start` on where the pattern, which has lines, stands."""
        if start + len(pattern) > len(self._lines):
            return None
        for number, simplify in enumerate(_LINE_NORMALIZERS):
            text, offsets = self._get_joined_text(number)
            at = text.find(_join_lines(map(simplify, pattern)), offsets[start])
            if at >= 0:
                return bisect_left(offsets, at)
        return None

    def find_at_end(self, pattern: Sequence[str], start: int) -> int | None:
        """The line where the pattern stands as the last lines of the text."""
        at = len(self._lines) - len(pattern)
        if at < start:
            return None
        tail = self._lines[at:]
        fits = any(list(map(key, tail)) == list(map(key, pattern)) for key in _LINE_NORMALIZERS)
        return at if fits else None

    def _get_joined_text(self, number: int) -> tuple[str, list[int]]:
        """The lines as a pass sees them, each between newlines, and where each begins."""
        if number not in self._joined_texts_by_pass:
            lines = list(map(_LINE_NORMALIZERS[number], self._lines))
            offsets = list(accumulate((len(line) + 1 for line in lines), initial=0))
            self._joined_texts_by_pass[number] = (_join_lines(lines), offsets)
        return self._joined_texts_by_pass[number]


def _join_lines(lines: Iterable[str]) -> str:
    return "\n".join(["", *lines, ""])


_CONTEXT_LINE_COUNT = 3
_MAX_SHOWN_LINE_CHARS = 200


class MismatchExplainer:
    """Looks at a text only when something was not found in it."""

    def __init__(self, text: str, lines: Sequence[str], similarity: SimilarityFunction) -> None:
        self._text = text
        self._lines = lines
        self._similarity = similarity
        self._document: Document | None = None

    def explain_missing_anchor(self, chunk: PatchChunk, context: str, start: int) -> EditFailure:
        """A line that `@@` names is not there."""
        behind = f" behind line {start}" if start else ""
        summary = (
            f"Chunk at line {chunk.patch_line_number} of the patch: there is no line "
            f"`{_truncate_line(context)}`{behind}, which its `@@` names. `@@` takes a whole line "
            "of the file; leave it out if the lines of the chunk are clear by themselves."
        )
        return EditFailure(
            summary, self._render_evidence([context], self._find_nearest([context], start))
        )

    def explain_missing_lines(
        self, chunk: PatchChunk, start: int, elsewhere: int | None, done: int | None
    ) -> EditFailure:
        """The kept and removed lines of a chunk stand nowhere where they may.

        `elsewhere` is a line where they do stand, `done` one where the new lines stand already.
        """
        head = (
            f"Chunk at line {chunk.patch_line_number} of the patch: its kept and removed lines are "
            "not in the file as they are written."
        )
        if elsewhere is not None:
            return EditFailure(f"{head} {_describe_wrong_position(chunk, start, elsewhere)}")
        nearest = self._find_nearest(chunk.old_lines, start)
        why = self._describe_difference(chunk.old_lines, nearest)
        if done is not None:
            why += (
                f" What they shall become is at line {done + 1} already: the change may have been"
                " made before."
            )
        return EditFailure(f"{head} {why}", self._render_evidence(chunk.old_lines, nearest))

    def _find_nearest(self, search: list[str], start: int) -> SimilarMatch | None:
        if self._document is None:
            self._document = Document(self._text)
        everywhere = LineSpan(0, len(self._lines))
        nearest = find_most_similar(
            self._document, search, everywhere, self._similarity, lambda at: abs(at - start)
        )
        return nearest if nearest is not None and nearest.score else None

    def _describe_difference(self, search: list[str], nearest: SimilarMatch | None) -> str:
        """How far the nearest lines are off, and from which line of the chunk on."""
        if nearest is None:
            return "No similar lines were found. Read the file again."
        span = nearest.span
        pairs = zip_longest(search, self._lines[span.start : span.stop])
        wrong = next(
            (
                at
                for at, (one, other) in enumerate(pairs)
                if one != other and not _is_same_when_stripped(one, other)
            ),
            0,
        )
        return (
            f"The nearest lines begin at line {span.start + 1} of the file and are"
            f" {format_percent(nearest.score)} the same; the first that differs is number "
            f"{wrong + 1}"
            f" of the chunk, `{_truncate_line(search[wrong]) if wrong < len(search) else ''}`."
        )

    def _render_evidence(self, search: list[str], nearest: SimilarMatch | None) -> str:
        parts = [f"Search Content:\n{truncate_evidence(chr(10).join(search))}"]
        if nearest is not None:
            around = LineSpan(
                nearest.span.start - _CONTEXT_LINE_COUNT, nearest.span.stop + _CONTEXT_LINE_COUNT
            )
            parts.append(f"Best Match Found:\n{render_numbered_lines(self._lines, around)}")
        return "\n\n".join(parts)


def _describe_wrong_position(chunk: PatchChunk, start: int, elsewhere: int) -> str:
    found = f"They are at line {elsewhere + 1}, "
    if chunk.is_at_end:
        return f"{found}which is not the end of the file as the patch says."
    if chunk.anchor_lines:
        return f"{found}but its `@@` says that they are behind line {start}."
    return (
        f"{found}but the chunks before reach to line {start}: write chunks in the order of the"
        " file, and what belongs together as one."
    )


def _is_same_when_stripped(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one.strip() == other.strip()


def _truncate_line(line: str) -> str:
    return line if len(line) <= _MAX_SHOWN_LINE_CHARS else f"{line[:_MAX_SHOWN_LINE_CHARS]}…"
