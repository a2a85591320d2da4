"""The paths that a command line touches, as far as its words tell.

Words are judged as written, but a symlink in the workspace may lead anywhere. So each word is
resolved in each directory that the line may be in by then. Paths outside the workspace are claimed,
and so are protected files, unless the command only reads; and whole directories that a command
moves or deletes, since their contents are not looked at. This keeps honest commands honest. It is
no security boundary: a program has more ways to open a file than can be listed.

Loaded when the first command is prepared.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from msgspec import structs

from joey.core.path_access import ResolvedPath
from joey.core.permissions.commands import count_granted_words
from joey.core.permissions.policy import ALLOW_ALL_RULE
from joey.core.permissions.programs import (
    DIRECTORY_CHANGE_COMMANDS,
    is_read_only,
    list_path_words,
    list_text_option_values,
    normalize_program_name,
)
from joey.core.permissions.shell import Words, parse_word_set, split_possible_commands
from joey.core.text import compile_regex
from joey.errors import ToolError
from joey.ports.workspace import Files
from joey.tools.base import Access, Claim

_READER_PROGRAMS = parse_word_set(
    "awk base64 bat cat comm cut diff egrep fgrep fold gawk grep head hexdump less more nl od paste"
    " rg sed sort strings tac tail tee uniq wc xxd zcat zgrep"
)
_TREE_COPY_OR_MOVE_PROGRAMS = parse_word_set("cp mv rsync")
"""Whole folders, all but the last that is named: that is where they go."""
_TREE_CHANGE_PROGRAMS = parse_word_set("chgrp chmod chown rm")
_DEV_NULL = Path("/dev/null")
_MAX_LOOKUPS = 4_000
"""Of names in folders: a path of many steps is as much work as many paths."""
_MAX_COMMAND_CHARS = 131_072
"""No system runs a longer line."""
_MAX_CLAIMS = 20
"""One is enough to ask; these are named."""
_VALUE_SEPARATOR_RE = compile_regex("[=,:@]")
_SHORT_OPTIONS_RE = compile_regex("-[A-Za-z]+")


class PathLookupCache:
    """Places by name, each found once while one command line is looked at."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._cache: dict[str, ResolvedPath | None] = {}

    def resolve(self, directory: Path, name: str) -> ResolvedPath | None:
        """None when no file has such a name."""
        path = os.path.join(directory, name)  # noqa: PTH118 (asked often)
        if path not in self._cache:
            try:
                self._cache[path] = self.files.resolve(path)
            except ToolError:
                self._cache[path] = None
        return self._cache[path]


async def find_ignored_file_claims(
    command: str, cwd: Path, lookups: PathLookupCache
) -> list[Claim]:
    """A claim for each hidden file that the command plainly reads, so that it is refused."""
    if not lookups.files.may_have_hidden_files():
        return []
    if len(command) > _MAX_COMMAND_CHARS:
        return [Claim(Access.READ)]
    claims: dict[Path, Claim] = {}
    directories = {cwd: None}
    count = 0
    for program, *words in split_possible_commands(command):
        name = normalize_program_name(program)
        if name not in _READER_PROGRAMS and name not in DIRECTORY_CHANGE_COMMANDS:
            continue
        count += sum(map(_count_path_parts, words)) * len(directories)
        if count > _MAX_LOOKUPS:
            return [Claim(Access.READ)]
        for directory, word in [(directory, word) for directory in directories for word in words]:
            path = lookups.resolve(directory, word)
            if path is None:
                continue
            if name in DIRECTORY_CHANGE_COMMANDS:
                directories[path.path] = None
            elif path.is_ignored and await _path_exists(path, lookups.files):
                claims[path.path] = Claim(Access.READ, path=path)
    return list(claims.values())


async def find_outside_and_protected_claims(
    command: str, cwd: ResolvedPath, allowed: Sequence[str], lookups: PathLookupCache
) -> list[Claim]:
    """A claim for each place outside the workspace that a word leads to. Words that a rule names
    are the user's own choice, and `*` is the choice of everything."""
    if ALLOW_ALL_RULE in allowed:
        return []
    reach = _CommandPathTracker(cwd.path, lookups)
    for words, granted in count_granted_words(command, allowed):
        await reach.track_command(words, granted, command)
    return list(reach.claims.values())


class _CommandPathTracker:
    """Follows a line from command to command."""

    def __init__(self, cwd: Path, lookups: PathLookupCache) -> None:
        self.claims: dict[tuple[Access, Path | None], Claim] = {}
        self._lookups = lookups
        self._files = lookups.files
        # All that the line has been in: `cd` may fail, or happen in a part of a pipeline only.
        self._possible_cwds = {cwd: None}
        self._lookup_count = 0

    async def track_command(self, words: Words, granted: int, command: str) -> None:
        program = normalize_program_name(words[0])
        reads = is_read_only(words, granted)
        if not reads:
            self._claim_protected_paths(
                [self._lookups.resolve(directory, ".") for directory in self._possible_cwds]
            )
        for word in list_path_words(words, max(granted, 1)):
            for directory, name in self._iter_candidate_paths(word):
                path = self._lookups.resolve(directory, name)
                if path is None or len(self.claims) >= _MAX_CLAIMS:
                    continue
                if granted and path.is_ignored and await _path_exists(path, self._files):
                    self.claims[Access.READ, path.path] = Claim(Access.READ, path)
                elif await self._is_outside_workspace(directory / name, path):
                    access = Access.READ if reads else Access.EXECUTE
                    self.claims[access, path.path] = Claim(access, path, command)
                elif not reads:
                    self._claim_protected_paths([path])
                    if await self._is_tree_change(program, word, words, path):
                        self._claim_directory_tree(path)
        await self._claim_option_values(words, granted, command)
        if program == "git":
            await self._claim_nested_repositories()
        if program in DIRECTORY_CHANGE_COMMANDS:
            self._enter_directories(words[1:])

    async def _claim_option_values(self, words: Words, granted: int, command: str) -> None:
        """What passes for the value of an option is text, unless there is such a file outside."""
        for word in list_text_option_values(words, max(granted, 1)):
            for directory, name in self._iter_candidate_paths(word) if len(word) > 1 else ():
                path = self._lookups.resolve(directory, name)
                if path is not None and await self._is_outside_workspace(directory / name, path):
                    self.claims[Access.EXECUTE, path.path] = Claim(Access.EXECUTE, path, command)

    async def _claim_nested_repositories(self) -> None:
        """git does what the settings of the repository say that it finds itself in, and a folder
        of the workspace may be made to look like one."""
        root = self._files.root
        for directory in self._possible_cwds:
            for inner in (directory, *directory.parents):
                if inner == root or not inner.is_relative_to(root):
                    break
                found = (self._lookups.resolve(inner, name) for name in (".git", "HEAD"))
                paths = [path for path in found if path is not None]
                if any(kind.exists for kind in await self._files.stat_all(paths)):
                    shown = f"{paths[0].display_path} (a repository of its own)"
                    owned = structs.replace(paths[0], display_path=shown, is_protected=True)
                    self.claims[Access.WRITE, inner] = Claim(Access.WRITE, owned)

    def _enter_directories(self, words: Words) -> None:
        paths = [
            self._lookups.resolve(*each)
            for word in words
            for each in self._iter_candidate_paths(word)
        ]
        self._possible_cwds |= {path.path: None for path in paths if path is not None}

    def _claim_protected_paths(self, paths: Sequence[ResolvedPath | None]) -> None:
        for path in paths:
            if path is not None and path.is_protected:
                self.claims[Access.WRITE, path.path] = Claim(Access.WRITE, path)

    async def _is_tree_change(
        self, program: str, word: str, words: Words, path: ResolvedPath
    ) -> bool:
        """Whether all that is in a folder would be moved, copied, changed or deleted."""
        takes = program in _TREE_COPY_OR_MOVE_PROGRAMS and (
            word != words[-1] or _has_target_option(words)
        )
        if not takes and program not in _TREE_CHANGE_PROGRAMS:
            return False
        try:
            return (await self._files.stat(path)).is_dir
        except ToolError:
            return True  # Not to be told what a place is does not make it harmless.

    def _claim_directory_tree(self, path: ResolvedPath) -> None:
        """What is in it may be protected, and to look through all of it would take too long."""
        shown = f"{path.display_path} and all that is in it"
        whole = structs.replace(path, display_path=shown, is_protected=True)
        self.claims[Access.WRITE, path.path] = Claim(Access.WRITE, whole)

    def _iter_candidate_paths(self, word: str) -> Iterator[tuple[Path, str]]:
        """What the word may name, seen from each folder; when there is too much, nothing."""
        names = dict.fromkeys(_iter_possible_paths(word))
        self._lookup_count += sum(map(_count_path_parts, names)) * len(self._possible_cwds)
        if self._lookup_count > _MAX_LOOKUPS:
            self.claims[Access.READ, None] = Claim(Access.READ)
            return
        yield from ((directory, name) for directory in tuple(self._possible_cwds) for name in names)

    async def _is_outside_workspace(self, path: Path, resolved_path: ResolvedPath) -> bool:
        if resolved_path.is_inside or resolved_path.path == _DEV_NULL:
            return False
        # What a link leads to need not exist: a program may create it.
        return _is_lexically_inside(path, self._files.root) or await _path_exists(
            resolved_path, self._files
        )


async def _path_exists(path: ResolvedPath, files: Files) -> bool:
    try:
        return (await files.stat(path)).exists
    except ToolError:
        return False  # The command may not look at it either.


@lru_cache(maxsize=1)
def _has_target_option(words: Words) -> bool:
    return any(option.startswith("-") and "t" in option for option in words[1:])


def _count_path_parts(name: str) -> int:
    return name.count("/") + 1


def _is_lexically_inside(path: Path, root: Path) -> bool:
    return Path(os.path.normpath(path)).is_relative_to(root)


def _iter_possible_paths(word: str) -> Iterator[str]:
    """The word and those of its ends that may be a value: `--file=x`, `-fx`, `key:x`."""
    if word:
        yield word
    for separator in _VALUE_SEPARATOR_RE.finditer(word):
        if value := word[separator.end() :]:
            yield value
    if letters := _SHORT_OPTIONS_RE.match(word):
        yield from (word[at:] for at in range(2, min(letters.end() + 1, len(word))))
