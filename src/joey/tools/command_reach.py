"""Where a command line reaches, as far as its words tell.

Words are judged as they are written, but a link in the workspace may lead anywhere. So each word
is looked up in each folder that the line may be in by then, and what lies outside is claimed.
This keeps honest commands honest. It is no wall: a program has more ways to open a file than
anybody can list.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from joey.core.permissions.commands import ANYTHING, granted_words
from joey.core.permissions.programs import MOVERS, program_name
from joey.core.permissions.shell import Words, possible_commands, word_set
from joey.errors import ToolError
from joey.ports import Files, Place
from joey.tools.base import Access, Claim

_READERS = word_set(
    "awk base64 bat cat comm cut diff egrep fgrep fold gawk grep head hexdump less more nl od paste"
    " rg sed sort strings tac tail tee uniq wc xxd zcat zgrep"
)
_ONLY_LOOK = MOVERS | (_READERS - {"tee"}) | word_set("du fd fdfind file find ls stat tree")
_NOWHERE = Path("/dev/null")
_MOST_LOOKUPS = 4_000
_VALUE = re.compile("[=,:@]")
_ATTACHED = re.compile("-[A-Za-z]+")


async def hidden_reads(command: str, cwd: Path, files: Files) -> list[Claim]:
    """A claim for each hidden file that the command plainly reads, so that it is refused."""
    claims: dict[Path, Claim] = {}
    folders = {cwd: None}
    lookups = 0
    for program, *words in possible_commands(command):
        name = program_name(program)
        if name not in _READERS and name not in MOVERS:
            continue
        lookups += len(words) * len(folders)
        if lookups > _MOST_LOOKUPS:
            return [Claim(Access.READ)]
        for path in [folder / word for folder in folders for word in words]:
            place = _look_up(path, files)
            if place is None:
                continue
            if name in MOVERS:
                folders[place.path] = None
            elif place.ignored and await _is_readable(place, files):
                claims[place.path] = Claim(Access.READ, place=place)
    return list(claims.values())


async def reached_outside(
    command: str, cwd: Place, allowed: Sequence[str], files: Files
) -> list[Claim]:
    """A claim for each place outside the workspace that a word leads to.

    Words that a rule names are the user's own choice, and `*` is the choice of everything.
    """
    if ANYTHING in allowed:
        return []
    reach = _Reach(cwd.path, files)
    for words, granted in granted_words(command, allowed):
        await reach.follow(words, granted, command)
    return list(reach.claims.values())


class _Reach:
    """Follows a line from command to command."""

    def __init__(self, cwd: Path, files: Files) -> None:
        self.claims: dict[tuple[Access, Path | None], Claim] = {}
        self._files = files
        # All that the line has been in: `cd` may fail, or happen in a part of a pipeline only.
        self._folders = {cwd: None}
        self._lookups = 0

    async def follow(self, words: Words, granted: int, command: str) -> None:
        program = program_name(words[0])
        claimed = Access.READ if program in _ONLY_LOOK else Access.EXECUTE
        entered: dict[Path, None] = {}
        for at, word in enumerate(words[1:], start=1):
            for path in self._candidates(word):
                place = _look_up(path, self._files)
                if place is None:
                    continue
                if program in MOVERS:
                    entered[place.path] = None
                if at >= granted and await self._is_outside(path, place):
                    self.claims[claimed, place.path] = Claim(claimed, place, command)
        self._folders |= entered

    def _candidates(self, word: str) -> Iterator[Path]:
        """What the word may name, seen from each folder; when there is too much, nothing."""
        names = dict.fromkeys(_names(word))
        self._lookups += len(names) * len(self._folders)
        if self._lookups > _MOST_LOOKUPS:
            self.claims[Access.READ, None] = Claim(Access.READ)
            return
        yield from (folder / name for folder in self._folders for name in names)

    async def _is_outside(self, path: Path, place: Place) -> bool:
        if place.inside or place.path == _NOWHERE:
            return False
        # What a link leads to need not exist: a program may create it.
        return _seems_inside(path, self._files.root) or await _is_readable(place, self._files)


def _look_up(path: Path, files: Files) -> Place | None:
    try:
        return files.resolve(str(path))
    except ToolError:
        return None  # No file has such a name.


async def _is_readable(place: Place, files: Files) -> bool:
    try:
        return (await files.stat(place)).exists
    except ToolError:
        return False  # The command may not look at it either.


def _seems_inside(path: Path, root: Path) -> bool:
    return Path(os.path.normpath(path)).is_relative_to(root)


def _names(word: str) -> Iterator[str]:
    """The word and those of its ends that may be a value: `--file=x`, `-fx`, `key:x`."""
    if word:
        yield word
    for separator in _VALUE.finditer(word):
        if value := word[separator.end() :]:
            yield value
    if letters := _ATTACHED.match(word):
        yield from (word[at:] for at in range(2, min(letters.end() + 1, len(word))))
