"""Application of the chunks of a patch to a text.

Chunks are in the order of the file: each is searched after the one before it, and after the lines
that its `@@` names. Only removed and added lines are changed; a kept line keeps its bytes even if
it matched by ignoring white space or typography. In that case added lines are shifted with the
matched lines, if all of these are indented by the same amount more or less than written. One chunk
that does not fit fails the patch; the first few such chunks are explained. The summary of a failure
quotes nothing from the file, but the evidence does: a caller that may not see the file gets the
summary only.

Three unambiguous mistakes are accepted: a chunk that repeats lines kept by the chunk before or
named by its own `@@`, an `@@` that names a line before the current position, and an empty line at
the end of a chunk that the file does not have.

Lines are found in four passes over the whole text, each more tolerant: exact; ignoring white space
at line ends; also at line beginnings; also the difference between typographic and plain dashes,
quotes and spaces. Each pass is a string search over the joined lines, so that no pattern, however
repetitive, costs more than reading the text a few times.

Whether the text ends with a newline stays as it was, unless the patch says otherwise.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, islice, zip_longest

from msgspec import Struct, structs

from joey.core.edits.line_document import (
    Document,
    LineSpan,
    reindent_lines,
    replace_typography,
)
from joey.core.edits.patch_parser import LineSign, PatchChunk, PatchLine, truncate_line
from joey.core.edits.similar import (
    EditFailure,
    SimilarityFunction,
    SimilarMatch,
    explain_entities,
    find_most_similar,
    format_percent,
    render_numbered_lines,
    truncate_evidence,
)

MAX_FAILED_CHUNKS = 5
"""After so many chunks that do not fit no more are tried: looking for what is not there is dear."""
_CONTEXT_LINE_COUNT = 3


class FailedPatch(Struct, frozen=True):
    """Chunks do not fit; none of the patch may be applied."""

    failures: tuple[EditFailure, ...]


def apply_chunks(
    text: str, chunks: Sequence[PatchChunk], *, similarity: SimilarityFunction
) -> str | FailedPatch:
    """Return the text after all chunks, or why some do not fit."""
    patcher = _Patcher(text, similarity)
    misses = (failure for chunk in chunks if (failure := patcher.apply_chunk(chunk)) is not None)
    failures = tuple(islice(misses, MAX_FAILED_CHUNKS))
    return FailedPatch(failures) if failures else patcher.build_text()


class _Patcher:
    def __init__(self, text: str, similarity: SimilarityFunction) -> None:
        self._document = Document(text)
        self._line_finder = LineFinder(self._document.lines)
        self._similarity = similarity
        self._edits: list[tuple[LineSpan, list[str]]] = []
        self._last_chunk_end = self._last_change_end = 0
        """The line behind the last chunk, and behind the last line that it changed."""

    def build_text(self) -> str:
        self._edits.sort(key=lambda edit: edit[0].start)
        for span, lines in reversed(self._edits):
            self._document.replace(span, lines)
        return self._document.text

    def apply_chunk(self, chunk: PatchChunk) -> EditFailure | None:
        starts = self._find_search_starts(chunk)
        if isinstance(starts, EditFailure):
            return starts
        if chunk.has_final_newline is not None:
            self._document.ends_with_newline = chunk.has_final_newline
        # A file without a line is shown as a blank one.
        is_empty = not self._document.lines and not "".join(chunk.old_lines).strip()
        if not chunk.old_lines or is_empty:
            self._insert_lines(chunk, starts[0])
            return None
        find = self._line_finder.find_at_end if chunk.is_at_end else self._line_finder.find
        for lines in (chunk.lines, _drop_trailing_blank(chunk.lines)):
            old = [line.text for line in lines if line.sign is not LineSign.ADDED]
            for start in starts if old else ():
                if (at := find(old, start)) is not None:
                    self._replace_lines(lines, LineSpan(at, at + len(old)))
                    return None
        return self._explain_missing_lines(chunk, starts[0])

    def _find_search_starts(self, chunk: PatchChunk) -> tuple[int, int] | EditFailure:
        """Find where to search for a chunk, and where to retry if it is not found from there on."""
        start, again = self._last_chunk_end, self._last_change_end
        for context in chunk.anchor_lines:
            at = self._line_finder.find([context], start)
            if at is not None:
                start, again = at + 1, max(self._last_change_end, at)
            elif not chunk.old_lines or self._line_finder.find([context], 0) is None:
                return self._explain_missing_anchor(chunk, context, start)
        return start, again

    def _insert_lines(self, chunk: PatchChunk, start: int) -> None:
        """Insert lines without context: after the line that `@@` names, or at the end of the
        file."""
        is_placed = chunk.anchor_lines and not chunk.is_at_end
        at = start if is_placed else len(self._document.lines)
        added = [line.text for line in chunk.lines if line.sign is LineSign.ADDED]
        self._edits.append((LineSpan(at, at), added))
        if is_placed:
            self._last_chunk_end = self._last_change_end = at

    def _replace_lines(self, lines: Sequence[PatchLine], span: LineSpan) -> None:
        found = self._document.lines[span.start : span.stop]
        edits = _build_line_edits(_reindent_added_lines(lines, found), span.start)
        self._edits += edits
        self._last_chunk_end = span.stop
        self._last_change_end = edits[-1][0].stop if edits else span.start

    def _explain_missing_anchor(self, chunk: PatchChunk, context: str, start: int) -> EditFailure:
        """Explain that a line named by `@@` does not exist."""
        after = f" after line {start}" if start else ""
        summary = (
            f"Chunk at line {chunk.patch_line_number} of the patch: there is no line "
            f"`{truncate_line(context)}`{after}, which its `@@` names. `@@` takes a whole line "
            "of the file; leave it out if the lines of the chunk are clear by themselves."
        )
        nearest = self._find_nearest([context], start)
        return EditFailure(summary, self._render_evidence([context], nearest))

    def _explain_missing_lines(self, chunk: PatchChunk, start: int) -> EditFailure:
        """Explain that the kept and removed lines of a chunk are not found where allowed."""
        head = (
            f"Chunk at line {chunk.patch_line_number} of the patch: its kept and removed lines are "
            "not in the file as they are written."
        )
        elsewhere = self._line_finder.find(chunk.old_lines, 0)
        if elsewhere is not None:
            if chunk.is_at_end:
                why = "which is not the end of the file as the patch says."
            elif chunk.anchor_lines:
                why = f"but its `@@` says that they are after line {start}."
            else:
                why = (
                    f"but the chunks before reach to line {start}: write chunks in the order of"
                    " the file, and what belongs together as one."
                )
            return EditFailure(f"{head} They are at line {elsewhere + 1}, {why}")
        nearest = self._find_nearest(chunk.old_lines, start)
        why = self._describe_difference(chunk.old_lines, nearest)
        why += explain_entities(_join_lines(chunk.old_lines), _join_lines(self._document.lines))
        # New lines that are among the old ones prove nothing.
        has_own_lines = _join_lines(chunk.new_lines) not in _join_lines(chunk.old_lines)
        if any(chunk.new_lines) and has_own_lines:
            done = self._line_finder.find(chunk.new_lines, 0)
            if done is not None:
                why += (
                    f" The new lines are at line {done + 1} already: the change may have been"
                    " made before."
                )
        return EditFailure(f"{head} {why}", self._render_evidence(chunk.old_lines, nearest))

    def _find_nearest(self, search: list[str], start: int) -> SimilarMatch | None:
        everywhere = LineSpan(0, len(self._document.lines))
        nearest = find_most_similar(
            self._document, search, everywhere, self._similarity, lambda at: abs(at - start)
        )
        return nearest if nearest is not None and nearest.score else None

    def _describe_difference(self, search: list[str], nearest: SimilarMatch | None) -> str:
        """Describe how the closest lines differ, and from which line of the chunk on."""
        if nearest is None:
            return "No similar lines were found. Read the file again."
        span = nearest.span
        pairs = enumerate(zip_longest(search, self._document.lines[span.start : span.stop]))
        differing = (
            at
            for at, (one, other) in pairs
            if one is None or other is None or one.strip() != other.strip()
        )
        wrong = next(differing, 0)
        return (
            f"The nearest lines begin at line {span.start + 1} of the file and are"
            f" {format_percent(nearest.score)} the same; the first that differs is number "
            f"{wrong + 1}"
            f" of the chunk, `{truncate_line(search[wrong]) if wrong < len(search) else ''}`."
        )

    def _render_evidence(self, search: list[str], nearest: SimilarMatch | None) -> str:
        evidence = f"Search Content:\n{truncate_evidence(chr(10).join(search))}"
        if nearest is None:
            return evidence
        start, stop = nearest.span
        around = LineSpan(start - _CONTEXT_LINE_COUNT, stop + _CONTEXT_LINE_COUNT)
        shown = render_numbered_lines(self._document.lines, around)
        return f"{evidence}\n\nBest Match Found:\n{shown}"


def _build_line_edits(lines: Sequence[PatchLine], at: int) -> list[tuple[LineSpan, list[str]]]:
    """Build one edit for each run of removed or added lines."""
    edits: list[tuple[LineSpan, list[str]]] = []
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
                    edits.append((LineSpan(start, stop), added))
                start = stop = stop + 1
                added = []
    return edits


def _drop_trailing_blank(lines: Sequence[PatchLine]) -> list[PatchLine]:
    """Drop an empty line at the end of the searched lines; if lines are added after it, it is one
    of them."""
    last = max(at for at, line in enumerate(lines) if line.sign is not LineSign.ADDED)
    if lines[last].text.strip():
        return list(lines)
    before, behind = list(lines[:last]), list(lines[last + 1 :])
    if lines[last].sign is LineSign.REMOVED:
        return before + (behind[:-1] if behind and not behind[-1].text.strip() else behind)
    return [*before, PatchLine(LineSign.ADDED, ""), *behind] if behind else before


def _reindent_added_lines(lines: Sequence[PatchLine], found: Sequence[str]) -> list[PatchLine]:
    """Reindent added lines to match the context lines in the file."""
    old = [line.text for line in lines if line.sign is not LineSign.ADDED]
    texts = reindent_lines([line.text for line in lines], zip(old, found, strict=True))
    return [
        structs.replace(line, text=text) if line.sign is LineSign.ADDED else line
        for line, text in zip(lines, texts, strict=True)
    ]


_LINE_NORMALIZERS: tuple[Callable[[str], str], ...] = (
    str,
    str.rstrip,
    str.strip,
    lambda line: replace_typography(line.strip()),
)


class LineFinder:
    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._joined_texts_by_pass: dict[int, tuple[str, list[int]]] = {}

    def find(self, pattern: Sequence[str], start: int) -> int | None:
        """Find the first line from `start` on where the pattern, which is not empty, matches."""
        if start + len(pattern) > len(self._lines):
            return None
        for number, simplify in enumerate(_LINE_NORMALIZERS):
            text, offsets = self._get_joined_text(number)
            at = text.find(_join_lines(map(simplify, pattern)), offsets[start])
            if at >= 0:
                return bisect_left(offsets, at)
        return None

    def find_at_end(self, pattern: Sequence[str], start: int) -> int | None:
        """Find the line where the pattern matches the end of the text."""
        at = len(self._lines) - len(pattern)
        tail = self._lines[at:] if at >= start else ()
        fits = any(list(map(key, tail)) == list(map(key, pattern)) for key in _LINE_NORMALIZERS)
        return at if fits else None

    def _get_joined_text(self, number: int) -> tuple[str, list[int]]:
        """Return the normalized lines of a pass, joined by newlines, and the offset of each."""
        if number not in self._joined_texts_by_pass:
            lines = list(map(_LINE_NORMALIZERS[number], self._lines))
            offsets = list(accumulate((len(line) + 1 for line in lines), initial=0))
            self._joined_texts_by_pass[number] = (_join_lines(lines), offsets)
        return self._joined_texts_by_pass[number]


def _join_lines(lines: Iterable[str]) -> str:
    return "\n".join(["", *lines, ""])
