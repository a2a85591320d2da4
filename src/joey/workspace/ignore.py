"""What the model must not see: `.rooignore`.

It has gitignore's syntax, stands in the root of the workspace and is read again when it changes.
Case makes no difference, as to Roo Code, and neither does how a letter is composed.
When it is there but cannot be understood, everything counts as ignored: a rule that cannot be read
must not become no rule.
"""

from __future__ import annotations

import logging
import os
import stat
import time
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from joey.core.protected import folded_name

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

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
    spec: GitIgnoreSpec | None = None
    folded: GitIgnoreSpec | None = None
    """The same for folded names."""
    has_exceptions: bool = False
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
        return bool(rules.trouble) or rules.spec is not None

    def hides(self, path: str, *, is_dir: bool = False) -> bool:
        """Whether a path relative to the root (with `/`) is hidden; the root itself never is."""
        return _hides(self._current(), path, is_dir)

    def hides_place(self, path: str, place: Path) -> bool:
        """Like `hides`, for a path that may name a folder."""
        rules = self._current()
        if _hides(rules, path, False):
            return True
        return rules.spec is not None and _hides(rules, path, True) and _may_be_dir(place)

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
            rules = known if known.text == text else _understood(text)
        except (OSError, ValueError) as error:
            return self._keep(seen, self._closed(error, known))
        is_settled = time.time_ns() - facts.st_ctime_ns > _SETTLING
        return self._keep(seen if is_settled and seen == _signature(facts) else None, rules)

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
    if rules.spec is None:
        return False
    names = path.split("/")
    if folded_name(path) == NAME or any(len(name) > _LONGEST_NAME for name in names):
        return True
    if _match(rules.spec, names, is_dir, rules.has_exceptions):
        return True
    folded = [folded_name(name) for name in names]
    if rules.folded is None or (rules.folded is rules.spec and folded == names):
        return False
    return _match(rules.folded, folded, is_dir, rules.has_exceptions)


def _understood(text: bytes) -> _Rules:
    """Raises ValueError."""
    lines = text.decode("utf-8-sig").splitlines()
    folded_lines = [_folded_rule(line) for line in lines]
    spec = _parse(lines)
    folded = spec if folded_lines == lines else _parse(folded_lines)
    has_exceptions = any(line.startswith("!") for line in lines)
    return _Rules(text, spec, folded, has_exceptions)


def _signature(facts: os.stat_result) -> tuple[int, ...]:
    return facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino, facts.st_dev


def _read(path: Path) -> tuple[bytes, os.stat_result]:
    """Never waits, as for a pipe, and never takes more than is reasonable."""
    with os.fdopen(os.open(path, _READ), "rb") as file:
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


def _parse(lines: list[str]) -> GitIgnoreSpec | None:
    """The rules of a file, or None when it has none."""
    # Imported on need: most workspaces have no rules, and loading the library takes a while.
    from joey.workspace.patterns import compile_rules

    return compile_rules(lines)


def _match(spec: GitIgnoreSpec, names: list[str], is_dir: bool, has_exceptions: bool) -> bool:
    """As in git, nothing in a hidden folder can be excepted."""
    if has_exceptions:
        above = ("/".join(names[:depth]) for depth in range(1, len(names)))
        if any(_is_left_out(spec, f"{folder}/") for folder in above):
            return True
    path = "/".join(names)
    return spec.match_file(f"{path}/" if is_dir else path)


def _is_left_out(spec: GitIgnoreSpec, folder: str) -> bool:
    """By the last rule that fits; the library lets `*` count more than a later `!*/`."""
    rules = (rule for rule in reversed(spec.patterns) if rule.include is not None)
    return next((bool(rule.include) for rule in rules if rule.match_file(folder)), False)


def _may_be_dir(place: Path) -> bool:
    """Not to be told what a place is does not make it harmless."""
    try:
        return stat.S_ISDIR(place.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
