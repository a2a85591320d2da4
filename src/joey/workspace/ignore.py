"""What the model must not see: `.rooignore`.

It has gitignore's syntax and meaning, stands in the root of the workspace and is read again when it
changes. Case matters, unless the file system of the workspace folds it: there every spelling leads
to the file. When it is there but cannot be read, everything counts as ignored: a rule that cannot
be read must not become no rule.
"""

from __future__ import annotations

import logging
import os
import stat
import time
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from joey.core.protected import folded_name
from joey.workspace.gitignore import GitIgnore

log = logging.getLogger(__name__)

NAME = ".rooignore"
_LARGEST = 1024 * 1024
_LONGEST_NAME = 255
"""No disk has a longer one, and matching takes time."""
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_SETTLING = 100_000_000
"""Nanoseconds in which a file may change again without looking different."""


class _Rules(Struct, frozen=True):
    text: bytes | None = None
    exact: GitIgnore | None = None
    folded: GitIgnore | None = None
    """The same for folded names, where the file system folds them."""
    trouble: str = ""
    """Why they cannot be used."""


class IgnoreRules:
    """The workspace's `.rooignore`, as it is at the moment of asking."""

    def __init__(self, root: Path) -> None:
        self._file = root / NAME
        self._known: tuple[tuple[int, ...] | None, _Rules] = (None, _Rules())
        """What the file looked like, and what it said: replaced as a whole, since threads ask too,
        and each goes by what it has seen itself."""

    @property
    def trouble(self) -> str:
        """Why every file is hidden, in a sentence; empty when rules decide."""
        trouble = self._current().trouble
        return f"{NAME} cannot be used, so every file is hidden: {trouble}." if trouble else ""

    def hides_some(self) -> bool:
        """Whether there is anything to hide by."""
        rules = self._current()
        return bool(rules.trouble) or rules.exact is not None

    def hide_as_in_ripgrep(self) -> bool:
        """Whether ripgrep, given the file, hides nothing that is not hidden anyway."""
        rules = self._current()
        return rules.exact is None or rules.exact.same_in_ripgrep

    def hides(self, path: str, *, is_dir: bool = False) -> bool:
        """Whether a path relative to the root (with `/`) is hidden; the root itself never is."""
        return _hides(self._current(), path, is_dir)

    def hides_place(self, path: str, place: Path) -> bool:
        """Like `hides`, for a path that may name a folder."""
        rules = self._current()
        as_file, as_dir = _hides(rules, path, False), _hides(rules, path, True)
        if as_file == as_dir:
            return as_file
        is_dir = _is_dir(place)
        if is_dir is None:
            return True
        return as_dir if is_dir else as_file

    def visible(self, files: Iterable[str]) -> list[str]:
        """Those of the files that are not hidden, all by the same rules."""
        rules = self._current()
        return [path for path in files if not _hides(rules, path, False)]

    def _current(self) -> _Rules:
        before, known = self._known
        try:
            seen = _signature(self._file.stat())
        except OSError as error:
            absent = isinstance(error, FileNotFoundError | NotADirectoryError)
            if absent and not self._file.is_symlink():
                return self._keep(None, _Rules())
            return self._keep(None, self._closed(error, known))
        if seen == before:
            return known
        try:
            text, facts = _read(self._file)
            rules = known if known.text == text else _understood(text, self._folds_case(facts))
        except (OSError, ValueError) as error:
            return self._keep(seen, self._closed(error, known))
        is_settled = time.time_ns() - facts.st_ctime_ns > _SETTLING
        return self._keep(seen if is_settled and seen == _signature(facts) else None, rules)

    def _folds_case(self, facts: os.stat_result) -> bool:
        """Whether the file is there under a name in other letters as well, as git finds it out."""
        try:
            return os.path.samestat(facts, self._file.with_name(NAME.upper()).stat())
        except OSError:
            return False

    def _keep(self, seen: tuple[int, ...] | None, rules: _Rules) -> _Rules:
        self._known = (seen, rules)
        return rules

    def _closed(self, error: Exception, known: _Rules) -> _Rules:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        if known.trouble != reason:
            log.warning("%s cannot be used, so every file is hidden: %s", self._file, reason)
        return _Rules(trouble=reason)


def _hides(rules: _Rules, path: str, is_dir: bool) -> bool:
    if path in ("", "."):
        return False
    if rules.trouble:
        return True
    if rules.exact is None:
        return False
    if path == NAME or (len(path) > _LONGEST_NAME and _has_impossible_name(path)):
        return True
    if rules.exact.ignores(os.fsencode(path), is_dir):
        return True
    if rules.folded is None:
        return False
    folded = "/".join(map(folded_name, path.split("/")))
    return folded == NAME or rules.folded.ignores(os.fsencode(folded), is_dir)


def _has_impossible_name(path: str) -> bool:
    return any(len(name) > _LONGEST_NAME for name in path.split("/"))


def _understood(text: bytes, folds_case: bool) -> _Rules:
    """Raises ValueError."""
    if b"\0" in text:
        raise ValueError("it is not a text file")
    lines = text.decode("utf-8-sig").split("\n")
    exact = GitIgnore("\n".join(lines).encode())
    if exact.is_empty:
        return _Rules(text)
    folded = GitIgnore("\n".join(map(_folded_rule, lines)).encode()) if folds_case else None
    return _Rules(text, exact, folded)


def _signature(facts: os.stat_result) -> tuple[int, ...]:
    return facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino, facts.st_dev


def _read(path: Path) -> tuple[bytes, os.stat_result]:
    """Never waits, as for a pipe, and never takes more than is reasonable."""
    with open(path, "rb", opener=lambda name, _: os.open(name, _READ)) as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise ValueError("it is not a regular file")
        text = file.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise ValueError(f"it is larger than {_LARGEST // 1024} KB")
    return text, facts


def _folded_rule(line: str) -> str:
    """A rule for folded names. No other character becomes one that gives the line a meaning."""
    folded = unicodedata.normalize("NFKC", line.casefold())
    return f"\\{folded}" if folded[:1] in ("!", "#") and folded[:1] != line[:1] else folded


def _is_dir(place: Path) -> bool | None:
    """None where that cannot be found out."""
    try:
        return stat.S_ISDIR(place.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return None
