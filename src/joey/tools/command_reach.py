"""Where a command line reaches, as far as its words tell.

Words are judged as they are written, but a link in the workspace may lead anywhere. So each word
is looked up in each folder that the line may be in by then. What lies outside is claimed, and so
are protected files, unless the command only reads; and whole folders that a command moves or
deletes, since nobody sees what is in them. This keeps honest commands honest. It is no wall: a
program has more ways to open a file than anybody can list.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import structs

from joey.core.permissions.commands import granted_words
from joey.core.permissions.programs import MOVERS, only_reads, path_words, program_name
from joey.core.permissions.rules import ANYTHING
from joey.core.permissions.shell import Words, possible_commands, word_set
from joey.errors import ToolError
from joey.ports import Files, Place
from joey.tools.base import Access, Claim

_READERS = word_set(
    "awk base64 bat cat comm cut diff egrep fgrep fold gawk grep head hexdump less more nl od paste"
    " rg sed sort strings tac tail tee uniq wc xxd zcat zgrep"
)
_TAKES_TREES = word_set("cp mv rsync")
"""Whole folders, all but the last that is named: that is where they go."""
_CHANGES_TREES = word_set("chgrp chmod chown rm")
_NOWHERE = Path("/dev/null")
_MOST_LOOKUPS = 4_000
_MOST_CLAIMS = 20
"""One is enough to ask; these are named."""
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
        reads = only_reads(words, granted)
        if not reads:
            self._claim_protected([_look_up(folder, self._files) for folder in self._folders])
        for word in path_words(words, max(granted, 1)):
            for path in self._candidates(word):
                place = _look_up(path, self._files)
                if place is None or len(self.claims) >= _MOST_CLAIMS:
                    continue
                if await self._is_outside(path, place):
                    access = Access.READ if reads else Access.EXECUTE
                    self.claims[access, place.path] = Claim(access, place, command)
                elif not reads:
                    self._claim_protected([place])
                    if await self._is_tree(program, word, words, place):
                        self._claim_tree(place)
        if program == "git":
            await self._claim_repositories()
        if program in MOVERS:
            self._enter(words[1:])

    async def _claim_repositories(self) -> None:
        """git does what the settings of the repository say that it finds itself in, and a folder
        of the workspace may be made to look like one."""
        root = self._files.root
        for folder in self._folders:
            for inner in (folder, *folder.parents):
                if inner == root or not inner.is_relative_to(root):
                    break
                names = (str(inner / ".git"), str(inner / "HEAD"))
                places = [place for name in names if (place := _look_up(Path(name), self._files))]
                if any(kind.exists for kind in await self._files.stat_all(places)):
                    shown = f"{places[0].shown} (a repository of its own)"
                    owned = structs.replace(places[0], shown=shown, protected=True)
                    self.claims[Access.WRITE, inner] = Claim(Access.WRITE, owned)

    def _enter(self, words: Words) -> None:
        paths = [path for word in words for path in self._candidates(word)]
        places = [_look_up(path, self._files) for path in paths]
        self._folders |= {place.path: None for place in places if place is not None}

    def _claim_protected(self, places: Sequence[Place | None]) -> None:
        for place in places:
            if place is not None and place.protected:
                self.claims[Access.WRITE, place.path] = Claim(Access.WRITE, place)

    async def _is_tree(self, program: str, word: str, words: Words, place: Place) -> bool:
        """Whether all that is in a folder would be moved, copied, changed or deleted."""
        names_target = any(option.startswith("-") and "t" in option for option in words[1:])
        takes = program in _TAKES_TREES and (word != words[-1] or names_target)
        if not takes and program not in _CHANGES_TREES:
            return False
        try:
            return (await self._files.stat(place)).is_dir
        except ToolError:
            return True  # Not to be told what a place is does not make it harmless.

    def _claim_tree(self, place: Place) -> None:
        """What is in it may be protected, and to look through all of it would take too long."""
        shown = f"{place.shown} and all that is in it"
        whole = structs.replace(place, shown=shown, protected=True)
        self.claims[Access.WRITE, place.path] = Claim(Access.WRITE, whole)

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
