"""The parser for patches as the model writes them.

    *** Begin Patch
    *** Update File: src/app.py
    *** Move to: src/main.py
    @@ def main():
     kept line
    -removed line
    +added line
    *** Add File: notes.md
    +its first line
    *** Delete File: old.py
    *** End Patch

The whole patch may be in a shell here-document or a code fence. The lines are read in one pass; an
invalid line fails the whole patch and is reported by its number.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from joey.core.text import compile_regex

_BEGIN_MARKER, _END_MARKER = "*** Begin Patch", "*** End Patch"
_ADD_FILE_MARKER, _DELETE_FILE_MARKER = "*** Add File:", "*** Delete File:"
_UPDATE_FILE_MARKER = "*** Update File:"
_MOVE_MARKER, _END_OF_FILE_MARKER = "*** Move to:", "*** End of File"
_NO_NEWLINE_MARKER = "\\ No newline at end of file"
_HEREDOC_RE = compile_regex(r"""(?:apply_?patch\s+)?<<-?\s*(?P<quote>['"]?)EOF(?P=quote)""")
_HUNK_RANGE_RE = compile_regex(r"-\d+(?:,\d+)? \+\d+(?:,\d+)? @@.*")
_MAX_QUOTED_CHARS = 200


class LineSign(StrEnum):
    CONTEXT = " "
    ADDED = "+"
    REMOVED = "-"


class PatchLine(Struct, frozen=True):
    sign: LineSign
    text: str


class PatchChunk(Struct, frozen=True):
    patch_line_number: int
    """The line of the patch where it begins, counted from 1."""
    lines: tuple[PatchLine, ...]
    anchor_lines: tuple[str, ...] = ()
    """Lines of the file, in their order, that come before the place."""
    is_at_end: bool = False
    """Its lines are the last ones of the file."""
    has_final_newline: bool | None = None
    """Whether the file shall end with a newline, if the patch says so."""

    @property
    def old_lines(self) -> list[str]:
        return [line.text for line in self.lines if line.sign is not LineSign.ADDED]

    @property
    def new_lines(self) -> list[str]:
        return [line.text for line in self.lines if line.sign is not LineSign.REMOVED]


class AddFile(Struct, frozen=True):
    path: str
    content: str


class DeleteFile(Struct, frozen=True):
    path: str


class UpdateFile(Struct, frozen=True):
    path: str
    chunks: tuple[PatchChunk, ...]
    move_to: str | None = None


FileOperation = AddFile | DeleteFile | UpdateFile


class InvalidPatch(Struct, frozen=True):
    """The text is not a patch; none of it may be applied."""

    message: str


def parse_patch(text: str) -> tuple[FileOperation, ...] | InvalidPatch:
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    try:
        return tuple(_PatchParser(lines, *_find_body(lines)).iter_operations())
    except _PatchSyntaxError as error:
        return InvalidPatch(f"Line {error.line_number}: {error}")


def iter_named_paths(text: str) -> Iterator[str]:
    """Iterate over every path that a header of the text names, even if the patch is invalid."""
    for line in text.split("\n"):
        for marker in (_ADD_FILE_MARKER, _DELETE_FILE_MARKER, _UPDATE_FILE_MARKER, _MOVE_MARKER):
            if line.startswith(marker):
                yield line[len(marker) :].strip()


class _PatchSyntaxError(Exception):
    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.line_number = number


def _find_body(lines: list[str]) -> tuple[int, int]:
    """Find the lines between the first and the last marker, as indices from 0."""
    first, last = _trim_blank_lines(lines, 0, len(lines) - 1)
    is_wrapped = _HEREDOC_RE.fullmatch(lines[first].strip()) and lines[last].strip().endswith("EOF")
    is_fenced = lines[first].strip().startswith("```") and lines[last].strip() == "```"
    if last - first >= 3 and (is_wrapped or is_fenced):
        first, last = _trim_blank_lines(lines, first + 1, last - 1)
    if lines[first].strip() != _BEGIN_MARKER:
        raise _PatchSyntaxError(first + 1, f"a patch must begin with the line `{_BEGIN_MARKER}`.")
    if last == first or lines[last].strip() != _END_MARKER:
        raise _PatchSyntaxError(last + 1, f"a patch must end with the line `{_END_MARKER}`.")
    return first + 1, last


def _trim_blank_lines(lines: list[str], first: int, last: int) -> tuple[int, int]:
    while first < last and not lines[first].strip():
        first += 1
    while first < last and not lines[last].strip():
        last -= 1
    return first, last


class _PatchParser:
    def __init__(self, lines: list[str], start: int, stop: int) -> None:
        self._lines = lines
        self._position = start
        self._stop = stop

    def iter_operations(self) -> Iterator[FileOperation]:
        while self._skip_blank_lines():
            header = self._lines[self._position]
            if (path := self._parse_header(_ADD_FILE_MARKER)) is not None:
                yield AddFile(path, self._parse_added_content())
            elif (path := self._parse_header(_DELETE_FILE_MARKER)) is not None:
                yield DeleteFile(path)
            elif (path := self._parse_header(_UPDATE_FILE_MARKER)) is not None:
                yield self._parse_update(path)
            else:
                raise self._build_syntax_error(
                    f"`{truncate_line(header)}` is not a valid hunk header. Valid ones are"
                    f" `{_ADD_FILE_MARKER} <path>`, `{_DELETE_FILE_MARKER} <path>` and "
                    f"`{_UPDATE_FILE_MARKER} <path>`."
                )

    def _skip_blank_lines(self) -> bool:
        """Skip to the next line that is not blank, if any."""
        while self._position < self._stop and not self._lines[self._position].strip():
            self._position += 1
        return self._position < self._stop

    def _parse_header(self, marker: str) -> str | None:
        line = self._lines[self._position].strip()
        if not line.startswith(marker):
            return None
        path = line.removeprefix(marker).strip()
        if not path:
            raise self._build_syntax_error(f"`{marker}` names no file.")
        self._position += 1
        return path

    def _parse_added_content(self) -> str:
        """Parse added lines. A blank line without its sign counts if more added lines follow."""
        lines: list[str] = []
        blank = 0
        for index in range(self._position, self._stop):
            line = self._lines[index]
            if line.startswith("+"):
                lines += [*[""] * blank, line[1:]]
                blank = 0
                self._position = index + 1
            elif line.strip():
                break
            else:
                blank += 1
        return "".join(f"{line}\n" for line in lines)

    def _parse_update(self, path: str) -> UpdateFile:
        number = self._position
        move_to = self._parse_header(_MOVE_MARKER) if self._position < self._stop else None
        chunks: list[PatchChunk] = []
        while self._skip_blank_lines() and not self._lines[self._position].startswith("***"):
            chunks.append(self._parse_chunk(is_first=not chunks))
        if not chunks and move_to is None:
            raise _PatchSyntaxError(number, f"the update of {path} is empty: it has no chunk.")
        return UpdateFile(path, tuple(chunks), move_to)

    def _parse_chunk(self, *, is_first: bool) -> PatchChunk:
        number = self._position + 1
        contexts = self._parse_anchor_lines()
        if contexts is None and not is_first:
            raise self._build_syntax_error(
                "a chunk must begin with `@@`, but this is "
                f"`{truncate_line(self._lines[self._position])}`."
            )
        lines: list[PatchLine] = []
        at_end = False
        final_newline: bool | None = None
        while self._position < self._stop:
            line = self._lines[self._position]
            if lines and line.strip() == _END_OF_FILE_MARKER:
                at_end = True
                self._position += 1
                break
            if lines and line.strip() == _NO_NEWLINE_MARKER:
                at_end = True
                final_newline = lines[-1].sign is LineSign.REMOVED
            elif not line.strip() or line[0] in " +-":
                sign = LineSign(line[0]) if line.strip() else LineSign.CONTEXT
                lines.append(PatchLine(sign, line[1:]))
            else:
                break
            self._position += 1
        if not lines and self._position >= self._stop:
            raise self._build_syntax_error("the patch ends where a chunk should have lines.")
        if not lines:
            raise self._build_syntax_error(
                f"`{truncate_line(line)}` is no line of a chunk: each begins with a "
                "space (kept), `-` (removed) or `+` (added)."
            )
        return PatchChunk(number, tuple(lines), contexts or (), at_end, final_newline)

    def _parse_anchor_lines(self) -> tuple[str, ...] | None:
        """Parse `@@` lines; None if there is none, and nothing for a bare one."""
        begin = self._position
        named: list[str] = []
        while self._position < self._stop and (
            line := self._lines[self._position].rstrip()
        ).startswith("@@"):
            context = line[2:].removeprefix(" ")
            if context and not _HUNK_RANGE_RE.fullmatch(context):
                named.append(context)
            self._position += 1
        return tuple(named) if self._position > begin else None

    def _build_syntax_error(self, message: str) -> _PatchSyntaxError:
        return _PatchSyntaxError(self._position + 1, message)


def truncate_line(text: str) -> str:
    return text if len(text) <= _MAX_QUOTED_CHARS else f"{text[:_MAX_QUOTED_CHARS]}…"
