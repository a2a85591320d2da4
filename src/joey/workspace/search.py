"""Content search with ripgrep: the `Search` port.

ripgrep is run at most twice. By default it uses all processors, and its hits are sorted here. Only
when there are far more than will be shown, it is stopped and run again in the order of paths: that
takes one processor, but is over as soon as enough was found.

Its JSON output is not used: that has a whole line for every match and an entry for each occurrence
in it, so one line of a hundred megabytes becomes gigabytes. As text, lines come cut to a length.
Between path, numbers and text stands a random separator, so neither names nor contents can be taken
for one.

ripgrep opens files by name. Meanwhile, a directory may become a symlink to anywhere, and ripgrep
would report matches there. So only lines are shown that are in the file when it is opened without
following a symlink (`_verify_hit`).

Globs narrow a search to some files, as models write them. ripgrep's own `--glob` is no use: a file
that matches it is searched even if git ignores it. Its file types respect the ignore rules, but
know names only. So types keep ripgrep from reading files that cannot match, and the whole path is
matched here.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import aclosing, suppress
from fnmatch import translate
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from joey.core.path_access import ResolvedPath
from joey.core.text import compile_regex
from joey.errors import TargetNotFoundError, ToolError
from joey.ports.workspace import FileStat, LineMatches, Listing, Search, SearchHit, SearchResult
from joey.workspace.files import LocalFiles, to_printable_name
from joey.workspace.listing import list_directory
from joey.workspace.pipes_and_devices import BlockingFileError, watch_for_blocking_files
from joey.workspace.ripgrep import (
    InvalidRegexError,
    RipgrepError,
    RipgrepOutOfMemoryError,
    get_opened_ignore_file_names,
    iter_records,
    search_lines,
)
from joey.workspace.safe_open import open_regular_file

_SEARCH_TIMEOUT_S = 30
_PCRE2_FLAG = "--pcre2"
"""For look-around and backreferences; ripgrep names it where it would help."""
_PCRE2_MISSING_TEXT = "PCRE2 is not available"
_CONTEXT_LINES = 1
_LINE_BUDGET_PER_HIT = 5
_MAX_OVERSEARCH_FACTOR = 10
"""How many times more than is shown may be found before ripgrep is asked again."""
_FALLBACK_MAX_FILE_SIZE = "64M"
_BINARY_CHECK_BYTES = 8192
_UTF_16_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_MAX_UTF_16_BYTES = 64 * 1024 * 1024


class _SearchQuery(Struct, frozen=True):
    target: ResolvedPath
    is_target_file: bool
    ripgrep_arguments: tuple[str, ...]
    file_pattern: FilePattern | None
    max_lines: int
    """As many as may be shown."""


class LocalSearch:
    """Searches what `files` can reach, and shows nothing that its `.rooignore` hides."""

    def __init__(self, files: LocalFiles) -> None:
        self._files = files

    async def grep(
        self, path: ResolvedPath, regex: str, file_pattern: str | None, limit: int
    ) -> SearchResult:
        kind = await self._check_searchable(path)
        pattern = FilePattern(file_pattern) if file_pattern else None
        lines = limit * _LINE_BUDGET_PER_HIT
        question = _SearchQuery(
            path,
            kind.is_file,
            (
                *(f"--context={_CONTEXT_LINES}", f"--max-count={lines + 1}", f"--regexp={regex}"),
                *(pattern.ripgrep_arguments if pattern is not None else ()),
            ),
            pattern,
            lines,
        )
        try:
            try:
                return await self._search_or_exclude(question, limit)
            except InvalidRegexError as error:
                if _PCRE2_FLAG not in str(error):
                    raise
            arguments = (*question.ripgrep_arguments, _PCRE2_FLAG)
            question = replace(question, ripgrep_arguments=arguments)
            return await self._search_or_exclude(question, limit)
        except RipgrepError as error:
            if _PCRE2_MISSING_TEXT in str(error):
                raise ToolError(
                    "Look-around and backreferences cannot be used here: search for a simpler"
                    " expression, and look through its matches."
                ) from error
            raise ToolError(f"ripgrep refused the search:\n{error}") from error

    async def _search_or_exclude(self, question: _SearchQuery, limit: int) -> SearchResult:
        """Search again without the files that ripgrep cannot search, or with those it ignores."""
        try:
            return await self._search(question, limit)
        except RipgrepOutOfMemoryError as error:
            # ripgrep holds a line as a whole; one without end must not spoil the other files.
            if question.is_target_file:
                raise ToolError(
                    f"Cannot search {question.target.display_path}: it has a line that is too long."
                    " A command such as `grep -o` can look for a part of it."
                ) from error
            option = f"--max-filesize={_FALLBACK_MAX_FILE_SIZE}"
            note = (
                f"Files of more than {_FALLBACK_MAX_FILE_SIZE}B were not searched: one of them has"
                " a line that is too long."
            )
        except BlockingFileError as error:
            option, shown = "--no-ignore", to_printable_name(str(error.path))
            note = f"Ignored files were searched too, since {shown} is no regular file."
        arguments = (*question.ripgrep_arguments, option)
        result = await self._search(replace(question, ripgrep_arguments=arguments), limit)
        return SearchResult(result.hits, result.truncated, note)

    async def list_directory(self, path: ResolvedPath, recursive: bool, limit: int) -> Listing:
        self._check_ignore_rules_usable(path)
        return await list_directory(self._files, path, recursive, limit)

    async def find_files(self, path: ResolvedPath, file_pattern: str, limit: int) -> Listing:
        kind = await self._check_searchable(path)
        pattern = FilePattern(file_pattern)
        arguments = ("--files", "--null", *pattern.ripgrep_arguments)
        question = _SearchQuery(path, kind.is_file, arguments, pattern, limit)
        try:
            try:
                found = await self._find_files(question)
            except BlockingFileError:
                arguments = (*arguments, "--no-ignore")
                found = await self._find_files(replace(question, ripgrep_arguments=arguments))
        except RipgrepError as error:
            raise ToolError(f"ripgrep could not list the files:\n{error}") from error
        entries = await asyncio.to_thread(
            lambda: tuple(
                to_printable_name(_strip_directory(file, path.path) or path.path.name)
                for file in sorted(found)[:limit]
                if _is_regular_file(Path(file))
            )
        )
        return Listing(entries, truncated=len(found) > limit)

    async def _find_files(self, question: _SearchQuery) -> list[str]:
        """Find visible files that match, at most one more than requested. Raises
        BlockingFileError."""
        arguments, directory = question.ripgrep_arguments, question.target.path
        found: list[str] = []
        with suppress(TimeoutError):
            async with (
                asyncio.timeout(_SEARCH_TIMEOUT_S),
                watch_for_blocking_files(directory, get_opened_ignore_file_names(arguments)),
                aclosing(iter_records(arguments, directory, b"\0")) as records,
            ):
                async for raw in records:
                    if self._format_visible_path(question, raw) is not None:
                        found.append(os.fsdecode(raw))
                    if len(found) > question.max_lines:
                        break
        return found

    async def search_lines(
        self, path: Path, regex: str, limit: int, offset: int = 0
    ) -> LineMatches:
        return await search_lines(path, regex, limit, offset)

    async def _check_searchable(self, path: ResolvedPath) -> FileStat:
        """Check that a path can be searched. Raises ToolError if it is neither a file nor a
        directory, or hidden."""
        self._check_ignore_rules_usable(path)
        kind = await self._files.stat(path)
        if not kind.exists:
            raise TargetNotFoundError(f"Cannot search {path.display_path}: it does not exist.")
        if not (kind.is_dir or kind.is_file):
            raise ToolError(
                f"Cannot search {path.display_path}: it is neither a file nor a folder."
            )
        return kind

    def _check_ignore_rules_usable(self, path: ResolvedPath) -> None:
        """Check the ignore rules. If everything is hidden, "nothing found" would be misleading."""
        if path.is_inside and (rules_error := self._files.ignore_rules.error):
            raise ToolError(f"Cannot look into {path.display_path}: {rules_error}")

    async def _search(self, question: _SearchQuery, limit: int) -> SearchResult:
        format_path = partial(self._format_visible_path, question)
        reader = HitReader(format_path, question.max_lines * _MAX_OVERSEARCH_FACTOR)
        cut = not await self._run_ripgrep(question, reader)
        if reader.is_full:
            ordered = HitReader(format_path, question.max_lines)
            if await self._run_ripgrep(question, ordered, "--sort=path"):
                reader = ordered
        found = reader.finish()
        if question.is_target_file and not found:
            head = await self._files.read(question.target, _BINARY_CHECK_BYTES)
            if b"\0" in head and not head.startswith(_UTF_16_BOMS):
                raise ToolError(
                    f"{question.target.display_path} is a binary file, which is not searched. A "
                    "command such as `grep -a` can look into it."
                )
        more = len(found) > limit or sum(len(each.lines) for each in found) > question.max_lines
        hits = await asyncio.to_thread(
            lambda: [each.search_hit for each in found[:limit] if _verify_hit(each)]
        )
        return SearchResult(
            limit_hit_lines(hits, question.max_lines), truncated=cut or reader.is_full or more
        )

    async def _run_ripgrep(self, question: _SearchQuery, reader: HitReader, *more: str) -> bool:
        """Run ripgrep until the end, or until enough was found; False after the timeout."""
        arguments = [*reader.ripgrep_arguments, *question.ripgrep_arguments, *more]
        try:
            async with (
                asyncio.timeout(_SEARCH_TIMEOUT_S),
                watch_for_blocking_files(
                    question.target.path, get_opened_ignore_file_names(arguments)
                ),
                aclosing(iter_records(arguments, question.target.path, b"\n")) as lines,
            ):
                async for line in lines:
                    reader.feed(line)
                    if reader.is_full:
                        break
        except TimeoutError:
            return False
        return True

    def _format_visible_path(self, question: _SearchQuery, raw: bytes) -> str | None:
        """Format the path of a file; None if it is hidden or does not match the pattern."""
        path = os.fsdecode(raw)
        relative = _strip_directory(path, self._files.root)
        if question.file_pattern is not None and not _matches_file_pattern(
            question.file_pattern, question.target, path, relative
        ):
            return None
        is_hidden = relative is not None and self._files.ignore_rules.is_hidden(relative)
        if is_hidden or not self._files.can_show(question.target, Path(path)):
            return None
        return to_printable_name(relative or path)


def _matches_file_pattern(
    pattern: FilePattern, target: ResolvedPath, path: str, relative: str | None
) -> bool:
    """Whether a file matches; patterns may be relative to the searched directory or the
    workspace."""
    if (below := _strip_directory(path, target.path)) is None:
        return path == str(target.path)
    return pattern.matches(below) or (relative is not None and pattern.matches(relative))


def _strip_directory(path: str, directory: Path) -> str | None:
    """Return the part after the directory; ripgrep's paths are plain, and creating a `Path` for
    each is slow."""
    start = f"{directory}".rstrip("/") + "/"
    return path[len(start) :] if path.startswith(start) else None


_protocol_check: type[Search] = LocalSearch


MAX_LINE_CHARS = 2_000
_MAX_LINE_BYTES = 4 * MAX_LINE_CHARS
_TRUNCATED_LINE_SUFFIX = b" [... omitted end of long line]"
_BINARY_WARNING_SEPARATOR = b": WARNING: "
_MAX_UNPARSED_LINES = 4096
"""As many line breaks as a path can have."""


class SearchLine(Struct, frozen=True):
    number: int
    byte_offset: int
    """Where it begins in the file."""
    text: bytes
    is_match: bool


class RawHit(Struct, frozen=True):
    """A run of adjacent lines, as reported by ripgrep."""

    path: bytes
    display_path: str
    lines: tuple[SearchLine, ...]

    @property
    def search_hit(self) -> SearchHit:
        lines = (
            (line.number, line.text.decode(errors="replace")[:MAX_LINE_CHARS], line.is_match)
            for line in self.lines
        )
        return SearchHit(self.display_path, tuple(lines))


class HitReader:
    """Collects runs of adjacent lines, and drops those of files for which `format_path` returns
    None."""

    def __init__(self, format_path: Callable[[bytes], str | None], most_lines: int) -> None:
        self._format_path = format_path
        self._field_separator = f"\x1f{secrets.token_hex(8)}"
        self._separator_bytes = self._field_separator.encode()
        self._remaining_lines = most_lines
        self._hits: list[RawHit] = []
        self._current_path = b""
        self._current_display_path: str | None = None
        self._current_lines: list[SearchLine] = []
        self._unparsed_lines: list[bytes] = []

    @property
    def ripgrep_arguments(self) -> list[str]:
        """Arguments for ripgrep's output format."""
        return [
            *("--no-heading", "--with-filename", "--line-number", "--byte-offset"),
            "--no-context-separator",
            f"--field-match-separator={self._field_separator}:",
            f"--field-context-separator={self._field_separator}-",
            *(f"--max-columns={MAX_LINE_CHARS}", "--max-columns-preview"),
        ]

    @property
    def is_full(self) -> bool:
        return self._remaining_lines < 0

    def feed(self, line: bytes) -> None:
        parts = line.split(self._separator_bytes, 3)
        if len(parts) < 4:
            # Part of a name that has line breaks, or a word about a binary file.
            if len(self._unparsed_lines) < _MAX_UNPARSED_LINES:
                self._unparsed_lines.append(line)
            return
        path, number, start, text = parts
        if self._unparsed_lines:
            path = self._join_multiline_path(path)
        if path != self._current_path:
            self._finish_hit()
            self._current_path, self._current_display_path = path, self._format_path(path)
        if self._current_display_path is None:
            return
        mark, shown = text[:1], text[1:]
        if len(shown) > MAX_LINE_CHARS:
            shown = shown.removesuffix(_TRUNCATED_LINE_SUFFIX)[:_MAX_LINE_BYTES]
        found = SearchLine(int(number[1:]), int(start[1:]), shown, mark == b":")
        if self._current_lines and found.number > self._current_lines[-1].number + 1:
            self._finish_hit()
        self._current_lines.append(found)
        self._remaining_lines -= 1

    def finish(self) -> list[RawHit]:
        """Return all hits, in the order of their paths, name by name."""
        self._finish_hit()
        self._hits.sort(key=lambda found: (found.path.split(b"/"), found.lines[0].number))
        return self._hits

    def _join_multiline_path(self, end: bytes) -> bytes:
        path = b"\n".join([*self._unparsed_lines, end])
        self._unparsed_lines.clear()
        if self._current_path and path.startswith(self._current_path + _BINARY_WARNING_SEPARATOR):
            return path[len(self._current_path) :].partition(b"\n")[2]
        return path

    def _finish_hit(self) -> None:
        if self._current_display_path is not None and self._current_lines:
            self._hits.append(
                RawHit(self._current_path, self._current_display_path, tuple(self._current_lines))
            )
        self._current_lines = []


def limit_hit_lines(hits: list[SearchHit], lines: int) -> tuple[SearchHit, ...]:
    """Limit the total number of lines."""
    kept: list[SearchHit] = []
    for hit in hits:
        if lines <= 0:
            break
        kept.append(hit if len(hit.lines) <= lines else SearchHit(hit.path, hit.lines[:lines]))
        lines -= len(hit.lines)
    return tuple(kept)


def _is_regular_file(path: Path) -> bool:
    """Whether it is a regular file whose path has no links."""
    try:
        with open_regular_file(path):
            return True
    except (OSError, ValueError):
        return False


def _verify_hit(hit: RawHit) -> bool:
    """Whether all of its lines are in its file, whose path has no links."""
    try:
        with open_regular_file(Path(os.fsdecode(hit.path))) as descriptor:
            head = os.pread(descriptor, 3, 0)
            if head.startswith(_UTF_16_BOMS):  # ripgrep has translated it
                data = os.pread(descriptor, _MAX_UTF_16_BYTES, 0)
                text = data.decode("utf-16", errors="replace").encode()
                found = (
                    text[line.byte_offset : line.byte_offset + len(line.text)] for line in hit.lines
                )
            else:
                start = 3 if head == codecs.BOM_UTF8 else 0
                found = (
                    os.pread(descriptor, len(line.text), line.byte_offset + start)
                    for line in hit.lines
                )
            return all(piece == line.text for piece, line in zip(found, hit.lines, strict=True))
    except (OSError, ValueError):
        return False  # it is gone, or a link by now


_MAX_PATTERN_CHARS = 1_000
_MAX_ALTERNATIVES = 100
_INNERMOST_BRACES_RE = compile_regex(r"\{([^{}]*)\}")
_REPEATED_GLOBSTAR_RE = compile_regex(r"(?:\*\*/)++")
_DOT_NAME_RE = compile_regex(r"(?:^|[/{,])\.[^./]")

_NameMatcher = Callable[[str], object]


class FilePattern:
    """`*.ts`, `src/**/*.{js,jsx}`, `!*.min.js`: a name anywhere, or a path from the folder."""

    def __init__(self, pattern: str) -> None:
        """Raises ToolError if the pattern is too long."""
        if len(pattern) > _MAX_PATTERN_CHARS:
            raise ToolError(f"The file pattern is longer than {_MAX_PATTERN_CHARS} characters.")
        self._is_inclusive = not pattern.startswith("!")
        wanted = pattern.removeprefix("!").removeprefix("./").lstrip("/")
        if wanted.endswith("/"):  # for a folder
            wanted += "**"
        if "/" not in wanted:  # for names at any depth
            wanted = f"**/{wanted}"
        globs = [
            glob.split("/") for glob in _expand_braces(_REPEATED_GLOBSTAR_RE.sub("**/", wanted))
        ]
        self._glob_matchers: list[list[_NameMatcher | None]] = [
            [
                None if part == "**" else re.compile(translate(part.replace("[^", "[!"))).match
                for part in glob
            ]
            for glob in globs
        ]
        """How each name is compared; None for `**`, which stands for any number of folders."""
        self._glob_file_names = [glob[-1] for glob in globs]
        self._includes_hidden = _DOT_NAME_RE.search(pattern) is not None

    @property
    def ripgrep_arguments(self) -> list[str]:
        """Arguments with which ripgrep skips files that cannot match."""
        hidden, names = ["--hidden"] if self._includes_hidden else [], self._glob_file_names
        if not self._is_inclusive or any(name == "**" or ":" in name for name in names):
            return hidden
        return [*hidden, *(f"--type-add=wanted:{name}" for name in names), "--type=wanted"]

    def matches(self, path: str) -> bool:
        """Whether a file matches; hidden ones only if the pattern names something hidden."""
        parts = path.split("/")
        if not self._includes_hidden and any(part.startswith(".") for part in parts):
            return False
        return any(_matches_glob(glob, parts) for glob in self._glob_matchers) is self._is_inclusive


def _expand_braces(pattern: str) -> list[str]:
    """Expand `a.{b,c}` to `a.b` and `a.c`."""
    done: list[str] = []
    pending = [pattern]
    while pending:
        if len(pending) + len(done) > _MAX_ALTERNATIVES:
            raise ToolError("The file pattern has too many alternatives: use a simpler one.")
        glob = pending.pop()
        if braces := _INNERMOST_BRACES_RE.search(glob):
            head, tail = glob[: braces.start()], glob[braces.end() :]
            pending += [f"{head}{choice}{tail}" for choice in reversed(braces[1].split(","))]
        else:
            done.append(glob)
    return done


def _matches_glob(glob: list[_NameMatcher | None], parts: list[str]) -> bool:
    """Match a path in one pass, tracking all possible positions in the glob."""
    at = set(_iter_positions(glob, 0))
    for part in parts:
        at = {
            place
            for start in at
            if start < len(glob) and ((match := glob[start]) is None or match(part))
            for place in _iter_positions(glob, start if match is None else start + 1)
        }
    return len(glob) in at


def _iter_positions(glob: list[_NameMatcher | None], start: int) -> Iterator[int]:
    """Iterate over this position in the glob, and those after it if it matches any number of
    directories."""
    yield start
    while start < len(glob) and glob[start] is None:
        start += 1
        yield start
