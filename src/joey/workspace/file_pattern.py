"""Which files a search is narrowed to, by a glob as models write it.

ripgrep's own `--glob` is no use: a file that matches it is searched even if git ignores it. Its
types respect the ignore rules, but know names only. So types keep ripgrep from reading what
cannot match, and the whole path is judged here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fnmatch import translate

from joey.core.regex import regex
from joey.errors import ToolError

_LONGEST = 1_000
_MOST_ALTERNATIVES = 100
_INNERMOST_BRACES = regex(r"\{([^{}]*)\}")
_FOLDERS = regex(r"(?:\*\*/)++")
_DOT_NAME = regex(r"(?:^|[/{,])\.[^./]")

_Match = Callable[[str], object]


class FilePattern:
    """`*.ts`, `src/**/*.{js,jsx}`, `!*.min.js`: a name anywhere, or a path from the folder."""

    def __init__(self, pattern: str) -> None:
        """Raises ToolError when the pattern is longer than anybody needs."""
        if len(pattern) > _LONGEST:
            raise ToolError(f"The file pattern is longer than {_LONGEST} characters.")
        self._wanted = not pattern.startswith("!")
        globs = [glob.split("/") for glob in _alternatives(_relative(pattern.removeprefix("!")))]
        self._globs = [[_match(part) for part in glob] for glob in globs]
        self._names = [glob[-1] for glob in globs]
        self._shows_hidden = _DOT_NAME.search(pattern) is not None

    @property
    def arguments(self) -> list[str]:
        """What tells ripgrep which files cannot match."""
        hidden = ["--hidden"] if self._shows_hidden else []
        if not self._wanted or any(name == "**" or ":" in name for name in self._names):
            return hidden
        return [*hidden, *(f"--type-add=wanted:{name}" for name in self._names), "--type=wanted"]

    def covers(self, path: str) -> bool:
        """Whether a file is meant; hidden ones only are when the pattern names something hidden."""
        parts = path.split("/")
        if not self._shows_hidden and any(part.startswith(".") for part in parts):
            return False
        return any(_covers(glob, parts) for glob in self._globs) is self._wanted


def _relative(pattern: str) -> str:
    """A pattern without a slash is for names at any depth; one that ends with it, for a folder."""
    pattern = pattern.removeprefix("./").lstrip("/")
    if pattern.endswith("/"):
        pattern += "**"
    return _FOLDERS.sub("**/", pattern if "/" in pattern else f"**/{pattern}")


def _alternatives(pattern: str) -> list[str]:
    """`a.{b,c}` as `a.b` and `a.c`."""
    done: list[str] = []
    pending = [pattern]
    while pending:
        if len(pending) + len(done) > _MOST_ALTERNATIVES:
            raise ToolError("The file pattern has too many alternatives: use a simpler one.")
        glob = pending.pop()
        if braces := _INNERMOST_BRACES.search(glob):
            head, tail = glob[: braces.start()], glob[braces.end() :]
            pending += [f"{head}{choice}{tail}" for choice in reversed(braces[1].split(","))]
        else:
            done.append(glob)
    return done


def _match(part: str) -> _Match | None:
    """How one name is compared; None for `**`, which stands for any number of folders."""
    return None if part == "**" else re.compile(translate(part.replace("[^", "[!"))).match


def _covers(glob: list[_Match | None], parts: list[str]) -> bool:
    """Go through the path once, knowing all places in the glob that one may have come to."""
    at = set(_places(glob, 0))
    for part in parts:
        at = {place for start in at if start < len(glob) for place in _after(glob, start, part)}
    return len(glob) in at


def _after(glob: list[_Match | None], start: int, part: str) -> Iterator[int]:
    match = glob[start]
    if match is None:
        yield from _places(glob, start)
    elif match(part):
        yield from _places(glob, start + 1)


def _places(glob: list[_Match | None], start: int) -> Iterator[int]:
    """This place in the glob, and those behind it if it stands for any number of folders."""
    yield start
    while start < len(glob) and glob[start] is None:
        start += 1
        yield start
