"""SEARCH/REPLACE blocks, applied to a text.

Blocks are applied in the order of their start lines; start lines count in the text as the model
knew it, so earlier edits shift them. A block with a start line is searched for there, then up to
`SEARCH_RADIUS_LINES` lines around, then like one without: in the whole text, where the match must
be unique. A block that does not fit does not stop the others: they are applied, and the failure is
explained with the resulting text. A block repeated without a line is meant for that many places;
repeated with the same line, for one. Text that a block has inserted does not make another block
ambiguous.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import accumulate, pairwise

from msgspec import Struct

from joey.core.edits.block_parser import MalformedDiff, SearchReplaceBlock, parse_blocks
from joey.core.edits.diff import iter_common_line_numbers
from joey.core.edits.line_document import (
    Document,
    LineSpan,
    count_leading_blank_lines,
    normalize_text,
    reindent_lines,
)
from joey.core.edits.similar import (
    EditFailure,
    SimilarityFunction,
    SimilarMatch,
    explain_entities,
    find_most_similar,
    format_line_numbers,
    format_percent,
    format_times,
    render_differences,
    render_numbered_lines,
    truncate_evidence,
)
from joey.core.text import (
    compile_regex,
    has_line_numbers,
    parse_first_line_number,
    strip_line_numbers,
)

SEARCH_RADIUS_LINES = 40
_CONTEXT_LINE_COUNT = 10
_POOR_SCORE = 0.8
_POOR_CONTEXT_LINE_COUNT = 3
"""Around a place that is perhaps not the one that was meant."""
_MAX_ECHOED_LINES = 15
_WORD_RE = compile_regex(r"\S+")
_MAX_EXPLAINED_BLOCKS = 5
"""Looking for what is most like a block that does not fit is dear."""


class AppliedBlocks(Struct, frozen=True):
    text: str
    applied_count: int
    total_count: int
    failures: tuple[EditFailure, ...] = ()
    notes: tuple[str, ...] = ()
    """How blocks differed from the text that they were put in place of."""


class FailedBlocks(Struct, frozen=True):
    failures: tuple[EditFailure, ...]


def apply_blocks(
    original: str, diff: str, *, similarity: SimilarityFunction
) -> AppliedBlocks | FailedBlocks:
    """Apply every block that fits, or explain why none does. A block must match except for white
    space and typography."""
    document = Document(original)
    blocks = parse_blocks(diff, partial(_get_following_lines, document))
    if isinstance(blocks, MalformedDiff):
        return FailedBlocks((EditFailure(blocks.message),))
    editor = _BlockEditor(document, similarity)
    counts = {block: 1 if block.start_line else count for block, count in Counter(blocks).items()}
    misfits: list[tuple[SearchReplaceBlock, int]] = []
    for block in sorted(counts, key=lambda block: block.start_line or 0):
        placed = editor.apply(block, counts[block])
        misfits += [(block, placed)] * (counts[block] - placed)
    failures = [
        editor.explain_failure(block, placed) for block, placed in misfits[:_MAX_EXPLAINED_BLOCKS]
    ]
    failures += [EditFailure("This block does not fit either.")] * (len(misfits) - len(failures))
    prefixes = {
        block: f"Block {blocks.index(block) + 1}: " if len(counts) > 1 else "" for block in counts
    }
    failures = [
        EditFailure(f"{prefixes[block]}{failure.summary}", failure.evidence)
        for (block, _), failure in zip(misfits, failures, strict=True)
    ]
    notes = (f"{prefixes[block]}{note}" for block in counts for note in editor.notes[block])
    total = sum(counts.values())
    if len(failures) == total:
        return FailedBlocks(tuple(failures))
    applied_count = total - len(failures)
    return AppliedBlocks(editor.document.text, applied_count, total, tuple(failures), tuple(notes))


def _get_following_lines(
    document: Document, block: SearchReplaceBlock, is_exact: bool
) -> list[list[str]]:
    """Return the two lines after each place where SEARCH occurs, or after its start line if it
    occurs there as written."""
    search, everywhere = block.search.split("\n"), LineSpan(0, len(document.lines))
    if not block.search.strip():
        return []
    spans = document.find_exact(search, everywhere)
    at_line = [span for span in spans if span.start + 1 == block.start_line]
    if not is_exact:
        spans += document.find_loose(search, everywhere)
    return [document.lines[span.stop : span.stop + 2] for span in at_line or spans]


class _BlockEditor:
    def __init__(self, document: Document, similarity: SimilarityFunction) -> None:
        self.document = document
        self._similarity = similarity
        self._is_inserted = [False] * len(document.lines)
        """For each line, whether a block has put it there."""
        self._shifts: list[tuple[int, int]] = []
        """For each edit, the line it ended at and how far it moved the lines from there on."""
        self.notes: defaultdict[SearchReplaceBlock, dict[str, None]] = defaultdict(dict)
        """How each block differed from the text that it was put in place of."""

    def apply(self, block: SearchReplaceBlock, limit: int) -> int:
        """Apply a block in up to so many places; return how many."""
        if not block.search.strip() or block.search == block.replace:
            return 0
        notes = self.notes[block]
        readings = _iter_readings(block)
        return next(filter(None, (self._apply(each, limit, notes) for each in readings)), 0)

    def explain_failure(self, block: SearchReplaceBlock, placed: int) -> EditFailure:
        """Explain why a block could not be applied, or not as often as it is written."""
        if placed:
            return EditFailure(
                "The same block is in the diff more often than its text was in the file, where it"
                f" was changed {format_times(placed)}."
            )
        if not block.search.strip():
            return EditFailure(
                "Empty search content is not allowed: a block must quote the lines it replaces."
                " To insert, quote a neighbouring line and repeat it in REPLACE."
            )
        if block.search == block.replace:
            return EditFailure(
                "Search and replace content are identical, so the block changes nothing. Write"
                " what the file has now into SEARCH and what it should have into REPLACE."
            )
        return self._build_failure(block)

    def _apply(self, block: SearchReplaceBlock, limit: int, notes: dict[str, None]) -> int:
        """Apply a block if it fits; return in how many places."""
        search = block.search.split("\n")
        replace = block.replace.split("\n") if block.replace else []
        spans = self._find_spans(search, self._shift_line(block.start_line))
        if limit > 1:
            spans = _select_non_overlapping(spans)
        if len(spans) > limit:
            return 0
        for span in sorted(spans, reverse=True):
            matched = self.document.lines[span.start : span.stop]
            new = replace
            if matched != search:
                new, note = _fit_replacement(replace, search, matched)
                notes |= {note: None} if note else {}
            self.document.replace(span, new)
            kept = {number for _, number in iter_common_line_numbers(matched, new)}
            flags = [number not in kept for number in range(len(new))]
            self._is_inserted[span.start : span.stop] = flags
            self._shifts.append((span.stop, len(new) - len(matched)))
        return len(spans)

    def _find_spans(self, search: list[str], hint: int | None) -> list[LineSpan]:
        """Find matching spans: the one nearest to the hint, or all if none is near."""
        if hint is not None and (nearest := self._find_nearest(search, hint)):
            return [nearest]
        everywhere = LineSpan(0, len(self.document.lines))
        spans = self.document.find_exact(search, everywhere) or self.document.find_loose(
            search, everywhere
        )
        inserted = list(accumulate(self._is_inserted, initial=0))
        return [span for span in spans if inserted[span.start] == inserted[span.stop]] or spans

    def _find_nearest(self, search: list[str], hint: int) -> LineSpan | None:
        stop = min(len(self.document.lines), hint + len(search) + SEARCH_RADIUS_LINES)
        within = LineSpan(min(max(0, hint - SEARCH_RADIUS_LINES), stop), stop)
        exact = self.document.find_exact(search, within)
        loose = self.document.find_loose(search, within)
        at_hint = [span for span in (*exact, *loose) if span.start == hint]
        distance = _build_distance_key(hint)
        return min(at_hint or exact or loose, key=lambda span: distance(span.start), default=None)

    def _shift_line(self, start_line: int | None) -> int | None:
        """Convert a line that the model counted from 1 before any edit into a current index."""
        if start_line is None:
            return None
        index = start_line - 1
        for stop, offset in self._shifts:
            if index >= stop:
                index += offset
        return index

    def _build_failure(self, block: SearchReplaceBlock) -> EditFailure:
        for reading in _iter_readings(block):
            search, hint = reading.search.split("\n"), self._shift_line(reading.start_line)
            if spans := self._find_spans(search, hint):
                return _build_ambiguity_failure(spans, block.start_line)
        search, hint = block.search.split("\n"), self._shift_line(block.start_line)
        everywhere = LineSpan(0, len(self.document.lines))
        nearest = find_most_similar(
            self.document, search, everywhere, self._similarity, _build_distance_key(hint or 0)
        )
        position = "" if hint is None else f" at line {block.start_line} or elsewhere"
        return EditFailure(
            f"No match found{position} in the {len(self.document.lines)} lines of the file."
            f"{explain_entities(block.search, chr(10).join(self.document.lines))}"
            f"{self._describe_nearest(search, nearest)}",
            self._render_evidence(search, nearest),
        )

    def _describe_nearest(self, search: list[str], nearest: SimilarMatch | None) -> str:
        advice = "Copy the lines exactly as they are in the file."
        if nearest is None or not nearest.score:
            return f" Nothing in it is similar. {advice}"
        first, last = nearest.span.start + 1, nearest.span.stop
        where = f"line {first}" if first == last else f"lines {first}-{last}"
        text = f" The closest text, {where}, is {format_percent(nearest.score)} similar"
        pairs = list(zip(search, self.document.lines[nearest.span.start : last], strict=False))
        same = sum(one.rstrip() == other.rstrip() for one, other in pairs)
        if same:
            text += f": {same} of {len(search)} lines match"
        for number, (one, other) in enumerate(pairs):
            if one.strip() and one.rstrip() != other.rstrip() and other.startswith(one):
                return (
                    f"{text}. Line {number + 1} of your block is only the beginning of line"
                    f" {first + number}: quote complete lines."
                )
        return f"{text}. {advice}"

    def _render_evidence(self, search: list[str], nearest: SimilarMatch | None) -> str:
        is_long = len(search) > _MAX_ECHOED_LINES
        text = truncate_evidence(chr(10).join(search))
        evidence = "" if is_long else f"Search Content:\n{text}\n\n"
        if nearest is None or not nearest.score:
            return evidence.rstrip("\n")
        if is_long and nearest.score >= _POOR_SCORE:
            return f"Best Match Found:\n{render_differences(self.document, search, nearest.span)}"
        start, stop = nearest.span
        count = _POOR_CONTEXT_LINE_COUNT if nearest.score < _POOR_SCORE else _CONTEXT_LINE_COUNT
        around = LineSpan(start - count, stop + count)
        shown = render_numbered_lines(self.document.lines, around)
        return f"{evidence}Best Match Found:\n{shown}"


def _build_distance_key(hint: int) -> Callable[[int], float]:
    """Build a key for the distance to the hint; of two at the same distance, the later one is
    nearer."""
    return lambda start: abs(start - hint - 0.25)


def _build_ambiguity_failure(spans: list[LineSpan], start_line: int | None) -> EditFailure:
    where = format_line_numbers(spans)
    near = f"not near line {start_line}, but " if start_line else ""
    times = f"{format_times(len(spans))}, " if len(spans) > 1 else ""
    return EditFailure(
        f"The SEARCH text is {near}in the file {times}{where}. Nothing was replaced: give the right"
        " :start_line:, or quote more lines so that only one place matches."
    )


def _iter_readings(block: SearchReplaceBlock) -> Iterator[SearchReplaceBlock]:
    """Iterate over the block as written, then without line numbers possibly copied along."""
    yield block
    is_numbered = has_line_numbers(block.search)
    if is_numbered and (not block.replace.strip() or has_line_numbers(block.replace)):
        yield SearchReplaceBlock(
            strip_line_numbers(block.search),
            strip_line_numbers(block.replace),
            block.start_line or parse_first_line_number(block.search),
        )
        return
    bare = SearchReplaceBlock(
        strip_line_numbers(block.search, bare_bars=not is_numbered),
        strip_line_numbers(block.replace, bare_bars=not is_numbered),
        block.start_line,
    )
    if bare.search.strip() and bare != block:
        yield bare


def _trim_extra_blanks(replace: list[str], search: list[str], matched: list[str]) -> list[str]:
    """Trim blank lines at the ends that only the block has; they are formatting."""
    for _ in range(2):  # one end, then the other
        extra = max(0, count_leading_blank_lines(search) - count_leading_blank_lines(matched))
        replace = replace[min(extra, count_leading_blank_lines(replace)) :][::-1]
        search, matched = search[::-1], matched[::-1]
    return replace


def _fit_replacement(
    replace: list[str], search: list[str], matched: list[str]
) -> tuple[list[str], str]:
    """Adapt new lines to a place that differs from the search in white space and typography; return
    them with a note. Lines that the block only quotes stay as in the file, the others are shifted
    with the place."""
    found = _map_search_to_file(search, matched)
    kept = {old: new for old, new in iter_common_line_numbers(search, replace) if old in found}
    lines = reindent_lines(replace, ((search[old], matched[at]) for old, at in found.items()))
    written = set(range(len(replace))).difference(kept.values())
    is_shifted = any(lines[new] != replace[new] for new in written)
    for old, new in kept.items():
        lines[new] = matched[found[old]]
    blanks, removed = _place_unquoted_blanks(search, matched, replace, found, kept)
    for at in sorted(blanks, reverse=True):
        lines[at:at] = [""] * blanks[at]
    note = _describe_difference(search, matched, is_shifted, removed)
    return _trim_extra_blanks(lines, search, matched), note


def _map_search_to_file(search: list[str], matched: list[str]) -> dict[int, int]:
    """Map the lines of the search to the matched lines; at least the first one."""
    numbers, places = list(range(len(search))), list(range(len(matched)))
    if _mark_blank_lines(search) != _mark_blank_lines(matched):
        numbers = [number for number in numbers if search[number].strip()]
        places = [place for place in places if matched[place].strip()]
    first = next(at for at, number in enumerate(numbers) if search[number].strip())
    return {
        number: place
        for at, (number, place) in enumerate(zip(numbers, places, strict=False))
        if at == first or normalize_text(search[number]) == normalize_text(matched[place])
    }


def _place_unquoted_blanks(
    search: list[str],
    matched: list[str],
    replace: list[str],
    found: Mapping[int, int],
    kept: Mapping[int, int],
) -> tuple[Counter[int], int]:
    """Place blank lines of the file that the search lacks. Those next to a kept line stay, except
    for those that the block adds there itself; they are counted by the new line that they precede.
    The others are removed; return their number."""
    blanks, removed = Counter[int](), 0
    for (old, place), (next_old, next_place) in pairwise(found.items()):
        quoted, real = search[old + 1 : next_old], matched[place + 1 : next_place]
        if "".join(quoted + real).strip() or len(real) <= len(quoted):
            continue
        if old in kept:
            at = kept[old] + 1
            written = count_leading_blank_lines(replace[at:])
        elif next_old in kept:
            at = kept[next_old]
            written = count_leading_blank_lines(replace[:at][::-1])
        else:
            removed += len(real) - len(quoted)
            continue
        blanks[at] += max(0, len(real) - max(len(quoted), written))
    return blanks, removed


def _mark_blank_lines(lines: list[str]) -> str:
    """Return a character for each line: a space if it is blank."""
    return "".join("x" if line.strip() else " " for line in lines)


def _describe_difference(
    search: list[str], matched: list[str], is_shifted: bool, removed: int
) -> str:
    """Describe how a search differs from its place, and the effect; empty if only in blank lines
    around it."""
    pairs = list(zip(filter(str.strip, search), filter(str.strip, matched), strict=False))
    marks, real_marks = _mark_blank_lines(search).strip(), _mark_blank_lines(matched).strip()
    kinds = {
        "blank lines": marks != real_marks,
        "white space": any(_WORD_RE.split(one) != _WORD_RE.split(other) for one, other in pairs),
        "typographic characters": any(one.split() != other.split() for one, other in pairs),
    }
    if marks.count("x") != real_marks.count("x"):
        kinds = {"line breaks": True}
    if not any(kinds.values()):
        return ""
    note = f"SEARCH differed from the file in {', '.join(filter(kinds.get, kinds))}"
    if is_shifted:
        note += "; REPLACE was indented like the file"
    if removed:
        lines = "blank line that it lacks was" if removed == 1 else "blank lines that it lacks were"
        note += f"; {removed} {lines} removed"
    return f"{note}."


def _select_non_overlapping(spans: list[LineSpan]) -> list[LineSpan]:
    """Select places in the text that do not overlap."""
    chosen: list[LineSpan] = []
    for span in sorted(spans):
        if not chosen or chosen[-1].stop <= span.start:
            chosen.append(span)
    return chosen
