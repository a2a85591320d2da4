"""Ignore rules: the workspace's `.rooignore`, with the syntax and meaning of `.gitignore`.

`.rooignore` hides files from the model. It is in the root of the workspace and is read again when
it changes. Case matters, unless the file system of the workspace ignores it. If it exists but
cannot be read, everything counts as ignored: an unreadable rule must not become no rule.

Rules are matched exactly as git matches them (its `dir.c` and `wildmatch.c`). Paths are bytes, as
in git: `?` is one byte. The last rule that matches decides, level by level: below a directory that
is ignored, nothing can be included again.

Rules become regular expressions whose matching never takes long. If a match fails, a `*` would be
retried with every length, and several of them with every combination: hours, for a few stars and a
long name. But only the last `*` of a name needs retries: the text after another one may be matched
at its first occurrence, since the next `*` matches the rest. The same applies to `**` and whole
directories. So these pieces are put into atomic groups, which are never retried.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import time
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path

from msgspec import Struct

from joey.core.protected_paths import fold_name
from joey.system.files import build_fingerprint, open_regular_file

log = logging.getLogger(__name__)

IGNORE_FILE_NAME = ".rooignore"
_MAX_FILE_BYTES = 1024 * 1024
_MAX_NAME_CHARS = 255
"""No disk has a longer one, and matching takes time."""
_CTIME_SETTLE_NS = 100_000_000
"""Until then a file may change again without looking different."""


class _LoadedRules(Struct, frozen=True):
    text: bytes | None = None
    case_sensitive_rules: GitIgnore | None = None
    case_folded_rules: GitIgnore | None = None
    """The same for folded names, where the file system folds them."""
    error: str = ""
    """Why they cannot be used."""


class IgnoreRules:
    """The current rules of the workspace's `.rooignore`."""

    def __init__(self, root: Path) -> None:
        self._path = root / IGNORE_FILE_NAME
        self._cached_rules: tuple[tuple[int, ...] | None, _LoadedRules] = (None, _LoadedRules())
        """What the file looked like, and what it said: replaced as a whole, since threads ask too,
        and each goes by what it has seen itself."""

    @property
    def error(self) -> str:
        """Why every file is hidden, in a sentence; empty if rules decide."""
        if error := self._load_if_changed().error:
            return f"{IGNORE_FILE_NAME} cannot be used, so every file is hidden: {error}."
        return ""

    def has_rules(self) -> bool:
        """Whether any rule or error hides files."""
        rules = self._load_if_changed()
        return bool(rules.error) or rules.case_sensitive_rules is not None

    def is_ripgrep_compatible(self) -> bool:
        """Whether ripgrep, given the file, hides only files that are hidden anyway."""
        rules = self._load_if_changed().case_sensitive_rules
        return rules is None or rules.is_ripgrep_compatible

    def is_hidden(self, path: str, *, is_dir: bool = False) -> bool:
        """Whether a path relative to the root (with `/`) is hidden; the root itself never is."""
        return _is_hidden(self._load_if_changed(), path, is_dir)

    def is_file_or_directory_hidden(self, path: str, place: Path) -> bool:
        """Like `is_hidden`, for a path that may name a directory."""
        rules = self._load_if_changed()
        as_file, as_dir = _is_hidden(rules, path, False), _is_hidden(rules, path, True)
        if as_file == as_dir:
            return as_file
        try:
            return as_dir if stat.S_ISDIR(place.stat().st_mode) else as_file
        except (FileNotFoundError, NotADirectoryError):
            return as_file
        except OSError:
            return True  # that cannot be found out

    def filter_visible(self, files: Iterable[str]) -> list[str]:
        """Return the files that are not hidden, all by the same rules."""
        rules = self._load_if_changed()
        return [path for path in files if not _is_hidden(rules, path, False)]

    def _load_if_changed(self) -> _LoadedRules:
        before, known = self._cached_rules
        try:
            seen = build_fingerprint(self._path.stat())
        except OSError as error:
            absent = isinstance(error, FileNotFoundError | NotADirectoryError)
            if absent and not self._path.is_symlink():
                return self._store_cache(None, _LoadedRules())
            return self._store_cache(None, self._build_failed_rules(error, known))
        if seen == before:
            return known
        try:
            with open_regular_file(self._path) as file:
                facts = os.fstat(file.fileno())
                text = file.read(_MAX_FILE_BYTES + 1)
            if text != known.text:
                known = _parse_rules(text, self._is_case_insensitive(facts))
        except (OSError, ValueError) as error:
            return self._store_cache(seen, self._build_failed_rules(error, known))
        is_settled = time.time_ns() - facts.st_ctime_ns > _CTIME_SETTLE_NS
        return self._store_cache(
            seen if is_settled and seen == build_fingerprint(facts) else None, known
        )

    def _is_case_insensitive(self, facts: os.stat_result) -> bool:
        """Whether the file also exists under a name in another case, as git checks it."""
        try:
            return os.path.samestat(facts, self._path.with_name(IGNORE_FILE_NAME.upper()).stat())
        except OSError:
            return False

    def _store_cache(self, seen: tuple[int, ...] | None, rules: _LoadedRules) -> _LoadedRules:
        self._cached_rules = (seen, rules)
        return rules

    def _build_failed_rules(self, error: Exception, known: _LoadedRules) -> _LoadedRules:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        if known.error != reason:
            log.warning("%s cannot be used, so every file is hidden: %s", self._path, reason)
        return _LoadedRules(error=reason)


def _is_hidden(rules: _LoadedRules, path: str, is_dir: bool) -> bool:
    if path in ("", "."):
        return False
    if rules.error or rules.case_sensitive_rules is None:
        return bool(rules.error)
    if path == IGNORE_FILE_NAME or (
        len(path) > _MAX_NAME_CHARS and any(len(name) > _MAX_NAME_CHARS for name in path.split("/"))
    ):
        return True
    if rules.case_sensitive_rules.is_ignored(os.fsencode(path), is_dir):
        return True
    if rules.case_folded_rules is None:
        return False
    folded = "/".join(map(fold_name, path.split("/")))
    return folded == IGNORE_FILE_NAME or rules.case_folded_rules.is_ignored(
        os.fsencode(folded), is_dir
    )


def _parse_rules(text: bytes, folds_case: bool) -> _LoadedRules:
    """Raises ValueError."""
    if len(text) > _MAX_FILE_BYTES:
        raise ValueError(f"it is larger than {_MAX_FILE_BYTES // 1024} KB")
    if b"\0" in text:
        raise ValueError("it is not a text file")
    decoded = text.decode("utf-8-sig")
    exact = GitIgnore(decoded.encode())
    if exact.is_empty:
        return _LoadedRules(text)
    lines = map(_fold_rule_case, decoded.split("\n"))
    return _LoadedRules(text, exact, GitIgnore("\n".join(lines).encode()) if folds_case else None)


def _fold_rule_case(line: str) -> str:
    """Fold a rule for folded names. No other character becomes a special one."""
    folded = unicodedata.normalize("NFKC", line.casefold())
    return f"\\{folded}" if folded[:1] in ("!", "#") and folded[:1] != line[:1] else folded


_MAX_RULES = 5_000
_MAX_RULE_BYTES = 4_096
_DIRECTORY_CACHE_SIZE = 20_000

_SPECIAL_CHAR_RE = re.compile(rb"[*?[\\]")
_RIPGREP_COMPATIBLE_RULE_RE = re.compile(rb"(?:/|\*\*/)?(?:(?:[\w.@+-]|\*(?!\*))++/?)++")

# A pattern's tokens are pieces of a regular expression: these, or one that matches one character.
_SLASH_TOKEN = b"/"
_ANY_CHAR_TOKEN = b"[^/]"
_STAR_TOKEN = b"[^/]*"
_DIRECTORIES_TOKEN = b"(?:.*/)?"
"""`**/`"""
_EVERYTHING_TOKEN = b".*"
"""`**` at the end, or before an escaped slash"""
_LAZY_TOKENS = {_DIRECTORIES_TOKEN: b"(?:.*?/)??", _EVERYTHING_TOKEN: b".*?"}
_CHARACTER_CLASSES = {
    b"alnum": rb"0-9A-Za-z",
    b"alpha": rb"A-Za-z",
    b"blank": rb" \t",
    b"cntrl": rb"\x00-\x1f\x7f",
    b"digit": rb"0-9",
    b"graph": rb"!-~",
    b"lower": rb"a-z",
    b"print": rb" -~",
    b"punct": rb"!-/:-@\[-`{-~",
    b"space": rb" \t\n\r",
    b"upper": rb"A-Z",
    b"xdigit": rb"0-9A-Fa-f",
}
"""Without vertical tab and form feed among the spaces, as in git."""


class _NeverMatchesError(Exception):
    """The pattern is malformed; for git it matches nothing."""


class _IgnoreRule(Struct, frozen=True):
    regex: bytes
    is_negated: bool
    """It begins with `!`."""
    is_directory_only: bool
    matches_full_path: bool
    """Otherwise it is matched against the last name of a path."""


class _RuleGroup(Struct, frozen=True):
    """Consecutive rules with the same effect."""

    is_negated: bool
    name_regex: re.Pattern[bytes] | None
    path_regex: re.Pattern[bytes] | None


class GitIgnore:
    """The rules of one file in the root of a tree."""

    def __init__(self, text: bytes) -> None:
        """Raises ValueError if there are too many rules, or too long ones."""
        lines = list(_iter_rule_lines(text))
        if len(lines) > _MAX_RULES:
            raise ValueError(f"more than {_MAX_RULES} rules")
        if any(len(line) > _MAX_RULE_BYTES for line in lines):
            raise ValueError(f"a rule of more than {_MAX_RULE_BYTES} characters")
        rules = [rule for line in lines if (rule := _parse_rule(line)) is not None]
        self._directory_rule_groups = _group_rules(rules)
        self._file_rule_groups = _group_rules(rule for rule in rules if not rule.is_directory_only)
        self._directory_verdicts: dict[bytes, bool] = {}
        """Verdicts so far, since files of a directory are mostly asked about together."""
        self.is_empty = not lines
        self.is_ripgrep_compatible = all(
            _RIPGREP_COMPATIBLE_RULE_RE.fullmatch(line) for line in lines
        )
        """Whether ripgrep, which reads some patterns otherwise, hides just the same by them."""

    def is_ignored(self, path: bytes, is_dir: bool) -> bool:
        """Whether a path relative to the root, without `/` at either end, is ignored."""
        directory, _, name = path.rpartition(b"/")
        if directory and self._is_directory_ignored(directory):
            return True
        return _is_ignored(
            self._directory_rule_groups if is_dir else self._file_rule_groups, path, name
        )

    def _is_directory_ignored(self, path: bytes) -> bool:
        if (known := self._directory_verdicts.get(path)) is not None:
            return known
        if len(self._directory_verdicts) >= _DIRECTORY_CACHE_SIZE:
            self._directory_verdicts.clear()
        ignored, above = False, b""
        for name in path.split(b"/"):
            above = b"%s/%s" % (above, name) if above else name
            if not ignored:
                ignored = _is_ignored(self._directory_rule_groups, above, name)
            self._directory_verdicts[above] = ignored
        return ignored


def _is_ignored(runs: Sequence[_RuleGroup], path: bytes, name: bytes) -> bool:
    for run in runs:
        if (run.name_regex is not None and run.name_regex.fullmatch(name)) or (
            run.path_regex is not None and run.path_regex.fullmatch(path)
        ):
            return not run.is_negated
    return False


def _group_rules(rules: Iterable[_IgnoreRule]) -> list[_RuleGroup]:
    """Group the rules, the last one first."""
    runs = []
    for is_negated, group in groupby(rules, lambda rule: rule.is_negated):
        regexes: dict[bool, list[bytes]] = {False: [], True: []}
        for rule in group:
            regexes[rule.matches_full_path].append(rule.regex)
        names, paths = (
            re.compile(b"|".join(same), re.DOTALL) if same else None for same in regexes.values()
        )
        runs.append(_RuleGroup(is_negated, names, paths))
    return runs[::-1]


def _iter_rule_lines(text: bytes) -> Iterator[bytes]:
    """Iterate over rule lines without comments and trailing spaces, unless escaped."""
    for raw in text.split(b"\n"):
        if raw.startswith(b"#"):
            continue
        line = raw.removesuffix(b"\r")
        rule = line.rstrip(b" ")
        escapes = len(rule) - len(rule.rstrip(b"\\"))
        if rule != line and escapes % 2:
            rule += b" "
        if rule:
            yield rule


def _parse_rule(line: bytes) -> _IgnoreRule | None:
    """Parse a rule; None if it matches nothing."""
    pattern = line.removeprefix(b"!")
    only_directories = pattern.endswith(b"/")
    pattern = pattern.removesuffix(b"/")
    whole_path = b"/" in pattern
    if not (pattern := pattern.removeprefix(b"/")):
        return None
    try:
        regex = _build_regex(list(_tokenize_pattern(pattern)))
    except _NeverMatchesError:
        return None
    return _IgnoreRule(regex, line.startswith(b"!"), only_directories, whole_path)


def _tokenize_pattern(pattern: bytes) -> Iterator[bytes]:
    """Split a pattern into tokens. Raises _NeverMatchesError."""
    first = _SPECIAL_CHAR_RE.search(pattern)
    at = 0
    while at < len(pattern):
        match pattern[at : at + 1]:
            case b"*":
                # git compares what is plain at the beginning and matches the rest on its own. So
                # `a**/b` begins with `**/`, too.
                begins = (first is not None and at == first.start()) or pattern[at - 1] == ord("/")
                token, at = _read_stars_token(pattern, at, begins)
                yield token
                continue
            case b"?":
                yield _ANY_CHAR_TOKEN
            case b"[":
                token, at = _read_bracket_token(pattern, at)
                yield token
            case b"\\":
                at += 1
                yield re.escape(_read_character(pattern, at))
            case character:
                yield re.escape(character)
        at += 1


def _read_stars_token(pattern: bytes, at: int, begins: bool) -> tuple[bytes, int]:
    """Read the token of the stars here, and where the pattern continues."""
    rest = pattern[at:].lstrip(b"*")
    end = len(pattern) - len(rest)
    if end - at == 1 or not begins:
        return _STAR_TOKEN, end
    if rest.startswith(b"/"):
        return _DIRECTORIES_TOKEN, end + 1
    is_everything = not rest or rest.startswith(b"\\/")
    return (_EVERYTHING_TOKEN if is_everything else _STAR_TOKEN), end


def _read_bracket_token(pattern: bytes, at: int) -> tuple[bytes, int]:
    """Read the token of `[...]` here, and the position of its `]`. Raises _NeverMatchesError."""
    at += 1
    negated = pattern[at : at + 1] in (b"!", b"^")
    start = at = at + negated
    items: list[bytes] = []
    before = b""
    """The character with which a range may begin."""
    while at == start or pattern[at : at + 1] != b"]":
        character = _read_character(pattern, at)
        if character == b"-" and before and pattern[at + 1 : at + 2] not in (b"", b"]"):
            at += 2 if pattern[at + 1 : at + 2] == b"\\" else 1
            last = _read_character(pattern, at)
            if before <= last:
                items.append(b"%s-%s" % (_escape_byte(before), _escape_byte(last)))
            before = b""
        elif character == b"[" and (named := _read_character_class(pattern, at)) is not None:
            item, at = named
            items.append(item)
            before = b""
        else:
            at += character == b"\\"
            before = _read_character(pattern, at)
            items.append(_escape_byte(before))
        at += 1
    if items:
        return b"(?!/)[%s%s]" % (b"^" if negated else b"", b"".join(items)), at
    if negated:
        return _ANY_CHAR_TOKEN, at
    raise _NeverMatchesError


def _read_character_class(pattern: bytes, at: int) -> tuple[bytes, int] | None:
    """Read `[:name:]` and the position of its `]`; None if this is a plain bracket. Raises
    _NeverMatchesError for an unknown class."""
    if pattern[at + 1 : at + 2] != b":":
        return None
    if (end := pattern.find(b"]", at)) < 0:
        raise _NeverMatchesError
    if end < at + 3 or pattern[end - 1] != ord(":"):
        return None
    if (name := pattern[at + 2 : end - 1]) not in _CHARACTER_CLASSES:
        raise _NeverMatchesError
    return _CHARACTER_CLASSES[name], end


def _read_character(pattern: bytes, at: int) -> bytes:
    """Read a character. Raises _NeverMatchesError at the end of the pattern."""
    if at >= len(pattern):
        raise _NeverMatchesError
    return pattern[at : at + 1]


def _escape_byte(character: bytes) -> bytes:
    return b"\\x%02x" % ord(character)


def _build_regex(tokens: Sequence[bytes]) -> bytes:
    gaps = [at for at, token in enumerate(tokens) if token in _LAZY_TOKENS]
    if not gaps:
        return _build_path_regex(tokens)
    parts = [_build_path_regex(tokens[: gaps[0]])]
    for at, end in pairwise(gaps):
        parts.append(
            b"(?>%s%s)" % (_LAZY_TOKENS[tokens[at]], _build_path_regex(tokens[at + 1 : end]))
        )
    return b"".join((*parts, tokens[gaps[-1]], _build_path_regex(tokens[gaps[-1] + 1 :])))


def _build_path_regex(tokens: Sequence[bytes]) -> bytes:
    """Build a regular expression from names and the slashes between them."""
    return _SLASH_TOKEN.join(map(_build_name_regex, _split_tokens(tokens, _SLASH_TOKEN)))


def _build_name_regex(tokens: Sequence[bytes]) -> bytes:
    first, *others = (b"".join(piece) for piece in _split_tokens(tokens, _STAR_TOKEN))
    if not others:
        return first
    middle = (b"(?>%s?%s)" % (_STAR_TOKEN, piece) for piece in others[:-1])
    return b"".join((first, *middle, _STAR_TOKEN, others[-1]))


def _split_tokens(tokens: Sequence[bytes], separator: bytes) -> Iterator[Sequence[bytes]]:
    start = 0
    for at, token in enumerate(tokens):
        if token == separator:
            yield tokens[start:at]
            start = at + 1
    yield tokens[start:]
