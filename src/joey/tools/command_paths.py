"""The paths that a command line touches, as far as its words tell.

Words are judged as written, but a symlink in the workspace may lead anywhere. So each word is
resolved in each directory that the line may be in by then. Paths outside the workspace are claimed,
and so are protected files, unless the command only reads; and whole directories that a command
moves or deletes, since their contents are not checked. This catches honest mistakes. It is not a
security boundary: a program has more ways to open a file than can be listed.

Loaded when the first command is prepared.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product, zip_longest
from pathlib import Path

from msgspec import structs

from joey.core.path_access import ResolvedPath
from joey.core.permissions.commands import count_granted_words
from joey.core.permissions.policy import ALLOW_ALL_RULE
from joey.core.permissions.programs import (
    DIRECTORY_CHANGE_COMMANDS,
    is_read_only,
    list_find_directories,
    list_path_words,
    list_text_option_values,
    may_lead_outside,
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
_DIRECTORY_STACK_COMMANDS = parse_word_set("pushd popd dirs")
_DEV_NULL = Path("/dev/null")
_MAX_LOOKUPS = 4_000
"""Of names in folders: a path of many steps is as much work as many paths."""
_MAX_TREE_ENTRIES = 20_000
_SPLIT_NAME_RE = compile_regex(r"[\s'\"\\]|\A\+")
_MAX_COMMAND_CHARS = 131_072
"""No system runs a longer line."""
_MAX_CLAIMS = 20
"""One is enough to ask; these are named."""
_VALUE_SEPARATOR_RE = compile_regex("[=,:@]")
_PLAIN_PATH_RE = compile_regex(r"(?![-~])[^=,:@]+(::[^=,:@/]+)*")
"""Nothing that could be an option, a value or an address; `::` may name a test in the file."""
_SHORT_OPTIONS_RE = compile_regex("-[A-Za-z]+")
_CLONED_ADDRESS_RE = compile_regex(
    r"(?P<start>git clone (?:-[^ ]* |(?:-b|--branch|--depth) [\w.-]+ )*)https://[^ ]+\.git"
)
_PACKAGE_INSTALLATION_RE = compile_regex(
    r"(?:(?:python[\d.]* -m )?pip[\d.]* install|uv (?:pip install|add|tool install)|pipx install"
    r"|conda install|p?npm (?:install|i|add)|yarn add) "
)
_PACKAGE_NAME_RE = compile_regex(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_OPTIONS_BEFORE_PACKAGES = parse_word_set("-D -U -q --dev --pre --quiet --save-dev --upgrade")


class PathLookupCache:
    """Paths by name, each resolved once per command line."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._cache: dict[str, ResolvedPath | None] = {}

    def resolve(self, directory: Path, name: str) -> ResolvedPath | None:
        """Resolve a name; None if no file can have it."""
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
    """Find a claim for each hidden file that the command clearly reads, so that it is refused."""
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
) -> tuple[list[Claim], frozenset[str]]:
    """Find a claim for each path outside the workspace, and the words that climb or are absolute
    but stay inside. Words that a rule names are the user's own choice; `*` allows everything."""
    if ALLOW_ALL_RULE in allowed:
        return [], frozenset()
    reach = _CommandPathTracker(cwd.path, lookups)
    commands = count_granted_words(command, allowed)
    # Where each command runs only after those before it, `cd` has not failed.
    is_sequence = all(each.joint in ("&&", "|") for each in commands[1:]) and not any(
        each.words[0] in _DIRECTORY_STACK_COMMANDS for each in commands
    )
    for each, following in zip_longest(commands, commands[1:]):
        await reach.track_command(each.words, each.granted, command)
        if each.listed_by:
            are_names_split = "-print0" not in each.listed_by
            await reach.claim_trees(
                list_find_directories(each.listed_by), are_names_split=are_names_split
            )
        elif normalize_program_name(each.words[0]) == "diff":  # of directories: of their contents
            await reach.claim_trees(list_path_words(each.words, max(each.granted, 1)))
        if normalize_program_name(each.words[0]) in DIRECTORY_CHANGE_COMMANDS:
            pipes = each.joint == "|" or (following is not None and following.joint == "|")
            is_certain = is_sequence and not pipes and len(each.words) == 2
            reach.enter_directories(each.words[1:], is_certain=is_certain)
    inside_paths = frozenset(word for word, is_inside in reach.climbing_words.items() if is_inside)
    claims = [
        structs.replace(claim, inside_paths=inside_paths) if claim.command else claim
        for claim in reach.claims.values()
    ]
    return claims, inside_paths


class _CommandPathTracker:
    """Follows a line from command to command."""

    def __init__(self, cwd: Path, lookups: PathLookupCache) -> None:
        self.claims: dict[tuple[Access, Path | None], Claim] = {}
        self._lookups = lookups
        self._files = lookups.files
        self.climbing_words: dict[str, bool] = {}
        """Words with `..` and absolute paths: whether each stays inside wherever it stands."""
        # All that the line may be in: `cd` may fail, or happen in a part of a pipeline only.
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
            if may_lead_outside(word):
                stays = self.climbing_words.get(word, True) and self._stays_inside(word)
                self.climbing_words[word] = stays
            for directory, name in self._iter_candidate_paths(_strip_cloned_suffix(word, words)):
                path = self._lookups.resolve(directory, name)
                if path is None or len(self.claims) >= _MAX_CLAIMS:
                    continue
                if granted and path.is_ignored and await _path_exists(path, self._files):
                    self.claims[Access.READ, path.path] = Claim(Access.READ, path)
                elif await self._is_outside_workspace(directory / name, path):
                    access = Access.READ if reads else Access.EXECUTE
                    self.claims[access, path.path] = Claim(access, path, command)
                elif not reads and not _is_package_name(word, words):
                    self._claim_protected_paths([path])
                    if await self._is_tree_change(program, word, words, path):
                        self._claim_directory_tree(path)
        await self._claim_option_values(words, granted, command)
        if program == "git":
            await self._claim_nested_repositories()

    def _stays_inside(self, word: str) -> bool:
        """Whether a plain path stays inside by its text and by its links, even if a program
        resolves `..` in the text before links."""
        if _PLAIN_PATH_RE.fullmatch(word) is None:
            return False
        for directory, name in product(self._possible_cwds, (word, word.partition("::")[0])):
            normalized = os.path.normpath(directory / name)
            found = (self._lookups.resolve(directory, path) for path in (name, normalized))
            if not Path(normalized).is_relative_to(self._files.root) or not all(
                path is not None and path.is_inside for path in found
            ):
                return False
        return True

    async def _claim_option_values(self, words: Words, granted: int, command: str) -> None:
        """Claim option values, which count as text unless a file of that name exists outside."""
        for word in list_text_option_values(words, max(granted, 1)):
            for directory, name in self._iter_candidate_paths(word) if len(word) > 1 else ():
                path = self._lookups.resolve(directory, name)
                if path is not None and await self._is_outside_workspace(directory / name, path):
                    self.claims[Access.EXECUTE, path.path] = Claim(Access.EXECUTE, path, command)

    async def _claim_nested_repositories(self) -> None:
        """Claim nested repositories: git follows the settings of the repository it finds, and a
        directory of the workspace may be made to look like one."""
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

    def enter_directories(self, words: Words, *, is_certain: bool) -> None:
        """Follow `cd`, by links and by text, as `cd ..` does; `is_certain` if nothing runs unless
        it succeeds. `cd ''` stays where it is."""
        named = [each for word in words for each in self._iter_candidate_paths(word or ".")]
        paths = [self._lookups.resolve(*each) for each in named]
        entered = {path.path: None for path in paths if path is not None}
        entered |= {Path(os.path.normpath(directory / name)): None for directory, name in named}
        self._possible_cwds = entered if is_certain else self._possible_cwds | entered

    async def claim_trees(self, names: Words, *, are_names_split: bool = False) -> None:
        """Claim the links below these directories that lead outside. `xargs` splits names at blanks
        and quotes (`are_names_split`): if a name has any, it is unknown what is read."""
        named = [each for name in names for each in self._iter_candidate_paths(name)]
        paths = [self._lookups.resolve(*each) for each in named]
        is_odd = are_names_split and any(map(_SPLIT_NAME_RE.search, names))
        tops = [path.path for path in paths if path is not None]
        if is_odd or not await asyncio.to_thread(self._claim_links_below, tops, are_names_split):
            self.claims[Access.READ, None] = Claim(Access.READ)

    def _claim_links_below(self, tops: list[Path], are_names_split: bool) -> bool:
        """Claim the links below a directory; False if there are unreadable, hidden or too many
        files."""
        waiting, seen, count = list(tops), set(tops), 0
        while waiting:
            try:
                entries = list(os.scandir(waiting.pop()))
            except OSError:
                continue  # The command cannot list it either.
            count += len(entries)
            if count > _MAX_TREE_ENTRIES or len(self.claims) >= _MAX_CLAIMS:
                return False
            for entry in entries:
                if are_names_split and _SPLIT_NAME_RE.search(entry.name):
                    return False
                below = Path(entry.path)
                if entry.is_symlink() or self._files.may_have_hidden_files():
                    path = self._lookups.resolve(below.parent, entry.name)
                    if path is None or path.is_ignored:
                        return False
                    if not path.is_inside:
                        self.claims[Access.READ, path.path] = Claim(Access.READ, path)
                        continue
                    below = path.path
                if entry.is_dir() and below not in seen:
                    seen.add(below)
                    waiting.append(below)
        return True

    def _claim_protected_paths(self, paths: Sequence[ResolvedPath | None]) -> None:
        for path in paths:
            if path is not None and path.is_protected:
                self.claims[Access.WRITE, path.path] = Claim(Access.WRITE, path)

    async def _is_tree_change(
        self, program: str, word: str, words: Words, path: ResolvedPath
    ) -> bool:
        """Whether everything in a directory would be moved, copied, changed or deleted."""
        takes = program in _TREE_COPY_OR_MOVE_PROGRAMS and (
            word != words[-1] or _has_target_option(words)
        )
        if not takes and program not in _TREE_CHANGE_PROGRAMS:
            return False
        try:
            return (await self._files.stat(path)).is_dir
        except ToolError:
            return True  # An unreadable path is not harmless.

    def _claim_directory_tree(self, path: ResolvedPath) -> None:
        """Claim a whole directory: its files may be protected, and checking all of them would take
        too long."""
        shown = f"{path.display_path} and all that is in it"
        whole = structs.replace(path, display_path=shown, is_protected=True)
        self.claims[Access.WRITE, path.path] = Claim(Access.WRITE, whole)

    def _iter_candidate_paths(self, word: str) -> Iterator[tuple[Path, str]]:
        """Iterate over the paths that a word may name, from each directory; empty if there are too
        many."""
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


def _strip_cloned_suffix(word: str, words: Words) -> str:
    """Strip `.git` from an address, as in the name of the directory that git creates from it."""
    address = _CLONED_ADDRESS_RE.match(" ".join(words))
    is_cloned = address is not None and address[0].removeprefix(address["start"]) == word
    return word.removesuffix(".git") if is_cloned else word


def _is_package_name(word: str, words: Words) -> bool:
    """Whether it names an installed package, not a file that could be written."""
    at = words.index(word)
    before = words[at - 1]
    return (
        _PACKAGE_NAME_RE.fullmatch(word) is not None
        and _PACKAGE_INSTALLATION_RE.match(" ".join((*words[:at], ""))) is not None
        and words.count(word) == 1
        and (not before.startswith("-") or before in _OPTIONS_BEFORE_PACKAGES)
    )


def _count_path_parts(name: str) -> int:
    return name.count("/") + 1


def _is_lexically_inside(path: Path, root: Path) -> bool:
    return Path(os.path.normpath(path)).is_relative_to(root)


def _iter_possible_paths(word: str) -> Iterator[str]:
    """Iterate over the word and the endings that may be a value: `--file=x`, `-fx`, `key:x`."""
    if word:
        yield word
    for separator in _VALUE_SEPARATOR_RE.finditer(word):
        if value := word[separator.end() :]:
            yield value
    if letters := _SHORT_OPTIONS_RE.match(word):
        yield from (word[at:] for at in range(2, min(letters.end() + 1, len(word))))
