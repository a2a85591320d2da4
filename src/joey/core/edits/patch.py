"""Applying the chunks of a patch to a text.

Chunks are in the order of the file: each is looked for behind the one before it, behind the lines
that its `@@` names. Only lines that are removed or added are touched; a kept line keeps its bytes
even where it was found by leaving white space or typography out of account, and then added lines
take on the indentation of the place. One chunk that does not fit fails the patch; the first few
that do not are told.

Three slips have only one meaning and are understood: a chunk that repeats lines which the chunk
before has kept or its own `@@` has named, an `@@` that names a line which was passed already, and
an empty line at the end of a chunk that the file does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from msgspec import Struct, structs

from joey.core.edits.document import Span
from joey.core.edits.evidence import PartFailure
from joey.core.edits.indentation import indent_of, shifted
from joey.core.edits.line_edits import LineEdit, TextLines
from joey.core.edits.line_seek import LineSeeker
from joey.core.edits.patch_miss import Misses
from joey.core.edits.patch_parse import Chunk, PatchLine, Sign
from joey.core.edits.similar import Similarity

MOST_MISSES = 5
"""After so many chunks that do not fit no more are tried: looking for what is not there is dear."""


class Missed(Struct, frozen=True):
    """Chunks that do not fit; nothing of the patch may be applied."""

    failures: tuple[PartFailure, ...]


def apply_chunks(text: str, chunks: Sequence[Chunk], *, similarity: Similarity) -> str | Missed:
    """The text after all chunks, or why some do not fit."""
    patcher = _Patcher(text, similarity)
    misses = (failure for chunk in chunks if (failure := patcher.place(chunk)) is not None)
    failures = tuple(islice(misses, MOST_MISSES))
    return Missed(failures) if failures else patcher.text


class _Search(Struct, frozen=True):
    """Where a chunk is looked for."""

    start: int
    again: int
    """Where to begin if it is not found from `start` on."""


class _Patcher:
    def __init__(self, text: str, similarity: Similarity) -> None:
        self._lines = TextLines(text)
        self._seeker = LineSeeker(self._lines.lines)
        self._misses = Misses(text, self._lines.lines, similarity)
        self._edits: list[LineEdit] = []
        self._final_newline: bool | None = None
        self._behind_chunk = 0
        """The line behind the last chunk, and behind the last line that it changed."""
        self._behind_change = 0

    @property
    def text(self) -> str:
        edits = sorted(self._edits, key=lambda edit: edit.start)
        return self._lines.edited(edits, final_newline=self._final_newline)

    def place(self, chunk: Chunk) -> PartFailure | None:
        search = self._search(chunk)
        if isinstance(search, PartFailure):
            return search
        if not chunk.old:
            self._insert(chunk, search)
            return None
        for lines in (chunk.lines, _without_last_blank(chunk.lines)):
            old = [line.text for line in lines if line.sign is not Sign.ADDED]
            for start in (search.start, search.again):
                at = self._find(old, start, at_end=chunk.at_end)
                if at is not None:
                    self._change(lines, Span(at, at + len(old)))
                    self._note_newline(chunk)
                    return None
        elsewhere = self._seeker.find(chunk.old, 0)
        done = self._seeker.find(chunk.new, 0) if _is_telling(chunk) else None
        return self._misses.lines(chunk, search.start, elsewhere, done)

    def _search(self, chunk: Chunk) -> _Search | PartFailure:
        start, again = self._behind_chunk, self._behind_change
        for context in chunk.contexts:
            at = self._seeker.find([context], start)
            if at is not None:
                start, again = at + 1, max(self._behind_change, at)
            elif not chunk.old or self._seeker.find([context], 0) is None:
                return self._misses.context(chunk, context, start)
        return _Search(start, again)

    def _find(self, old: list[str], start: int, *, at_end: bool) -> int | None:
        if not old:
            return None
        if at_end:
            return self._seeker.find_at_end(old, start)
        return self._seeker.find(old, start)

    def _insert(self, chunk: Chunk, search: _Search) -> None:
        """Lines without any around them: behind what `@@` names, or at the end of the file."""
        end = len(self._lines.lines)
        is_placed = chunk.contexts and not chunk.at_end
        at = search.start if is_placed else end
        self._edits.append(LineEdit(at, at, tuple(line.text for line in chunk.lines)))
        self._note_newline(chunk)
        if is_placed:
            self._behind_chunk = self._behind_change = at

    def _change(self, lines: Sequence[PatchLine], span: Span) -> None:
        found = self._lines.lines[span.start : span.stop]
        edits = list(_edits(_reindented(lines, found), span.start))
        self._edits += edits
        self._behind_chunk = span.stop
        self._behind_change = edits[-1].stop if edits else span.start

    def _note_newline(self, chunk: Chunk) -> None:
        if chunk.final_newline is not None:
            self._final_newline = chunk.final_newline


def _is_telling(chunk: Chunk) -> bool:
    """Whether to find the new lines of a chunk means more than to find some of the old ones."""
    old, new = ("\n".join(["", *lines, ""]) for lines in (chunk.old, chunk.new))
    return any(chunk.new) and new not in old


def _edits(lines: Sequence[PatchLine], at: int) -> list[LineEdit]:
    """One edit for each run of lines that are removed or added."""
    edits: list[LineEdit] = []
    start = stop = at
    added: list[str] = []
    for line in [*lines, PatchLine(Sign.KEPT, "")]:
        match line.sign:
            case Sign.ADDED:
                added.append(line.text)
            case Sign.REMOVED:
                stop += 1
            case Sign.KEPT:
                if added or stop > start:
                    edits.append(LineEdit(start, stop, tuple(added)))
                start = stop = stop + 1
                added = []
    return edits


def _without_last_blank(lines: Sequence[PatchLine]) -> list[PatchLine]:
    """The lines without an empty one at the end of what is looked for; if more lines are added
    behind it, it is one of them."""
    last = max(at for at, line in enumerate(lines) if line.sign is not Sign.ADDED)
    if lines[last].text.strip():
        return list(lines)
    before, behind = list(lines[:last]), list(lines[last + 1 :])
    if lines[last].sign is Sign.REMOVED:
        return before + (behind[:-1] if behind and not behind[-1].text.strip() else behind)
    return [*before, PatchLine(Sign.ADDED, ""), *behind] if behind else before


def _reindented(lines: Sequence[PatchLine], found: Sequence[str]) -> list[PatchLine]:
    """Added lines with the indentation that the lines around them have in the file."""
    old = [line.text for line in lines if line.sign is not Sign.ADDED]
    indents = {
        indent_of(patched): indent_of(real)
        for patched, real in zip(old, found, strict=True)
        if patched.strip()
    }
    if all(patched == real for patched, real in indents.items()):
        return list(lines)
    return [
        structs.replace(line, text=shifted(line.text, indents)) if line.sign is Sign.ADDED else line
        for line in lines
    ]
