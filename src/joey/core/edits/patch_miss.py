"""Why a chunk of a patch does not fit, and what the file has instead.

The summary says nothing of what is in the file; the evidence quotes it. Who may not see the file
is told the summary only.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from joey.core.edits.document import Document, Span
from joey.core.edits.evidence import PartFailure, cut, numbered, percent
from joey.core.edits.patch_parse import Chunk
from joey.core.edits.similar import Likeness, Similarity, most_similar

_AROUND = 3
_SHOWN_OF_LINE = 200


class Misses:
    """Looks at a text only when something was not found in it."""

    def __init__(self, text: str, lines: Sequence[str], similarity: Similarity) -> None:
        self._text = text
        self._lines = lines
        self._similarity = similarity
        self._document: Document | None = None

    def context(self, chunk: Chunk, context: str, start: int) -> PartFailure:
        """A line that `@@` names is not there."""
        behind = f" behind line {start}" if start else ""
        summary = (
            f"Chunk at line {chunk.number} of the patch: there is no line `{_short(context)}`"
            f"{behind}, which its `@@` names. `@@` takes a whole line of the file; leave it out if"
            " the lines of the chunk are clear by themselves."
        )
        return PartFailure(summary, self._evidence([context], self._nearest([context], start)))

    def lines(
        self, chunk: Chunk, start: int, elsewhere: int | None, done: int | None
    ) -> PartFailure:
        """The kept and removed lines of a chunk stand nowhere where they may.

        `elsewhere` is a line where they do stand, `done` one where the new lines stand already.
        """
        head = (
            f"Chunk at line {chunk.number} of the patch: its kept and removed lines are not in the"
            " file as they are written."
        )
        if elsewhere is not None:
            return PartFailure(f"{head} {_out_of_place(chunk, start, elsewhere)}")
        nearest = self._nearest(chunk.old, start)
        why = self._difference(chunk.old, nearest)
        if done is not None:
            why += (
                f" What they shall become is at line {done + 1} already: the change may have been"
                " made before."
            )
        return PartFailure(f"{head} {why}", self._evidence(chunk.old, nearest))

    def _nearest(self, search: list[str], start: int) -> Likeness | None:
        if self._document is None:
            self._document = Document(self._text)
        everywhere = Span(0, len(self._lines))
        nearest = most_similar(
            self._document, search, everywhere, self._similarity, lambda at: abs(at - start)
        )
        return nearest if nearest is not None and nearest.score else None

    def _difference(self, search: list[str], nearest: Likeness | None) -> str:
        """How far the nearest lines are off, and from which line of the chunk on."""
        if nearest is None:
            return "No similar lines were found. Read the file again."
        span = nearest.span
        pairs = zip_longest(search, self._lines[span.start : span.stop])
        wrong = next(
            (at for at, (one, other) in enumerate(pairs) if one != other and not _same(one, other)),
            0,
        )
        return (
            f"The nearest lines begin at line {span.start + 1} of the file and are"
            f" {percent(nearest.score)} the same; the first that differs is number {wrong + 1}"
            f" of the chunk, `{_short(search[wrong]) if wrong < len(search) else ''}`."
        )

    def _evidence(self, search: list[str], nearest: Likeness | None) -> str:
        parts = [f"Search Content:\n{cut(chr(10).join(search))}"]
        if nearest is not None:
            around = Span(nearest.span.start - _AROUND, nearest.span.stop + _AROUND)
            parts.append(f"Best Match Found:\n{numbered(self._lines, around)}")
        return "\n\n".join(parts)


def _out_of_place(chunk: Chunk, start: int, elsewhere: int) -> str:
    found = f"They are at line {elsewhere + 1}, "
    if chunk.at_end:
        return f"{found}which is not the end of the file as the patch says."
    if chunk.contexts:
        return f"{found}but its `@@` says that they are behind line {start}."
    return (
        f"{found}but the chunks before reach to line {start}: write chunks in the order of the"
        " file, and what belongs together as one."
    )


def _same(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one.strip() == other.strip()


def _short(line: str) -> str:
    return line if len(line) <= _SHOWN_OF_LINE else f"{line[:_SHOWN_OF_LINE]}…"
