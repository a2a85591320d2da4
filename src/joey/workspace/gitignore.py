"""gitignore rules, matched exactly as git matches them (its `dir.c` and `wildmatch.c`).

Paths are bytes, as in git: `?` is one byte. The last rule that matches decides, level by level:
below a directory that is ignored, nothing can be included again.

Rules become regular expressions whose matching never takes long. A `*` that may take any length
would, when the match fails, be tried with every length, and several of them with every combination:
hours, for a handful of stars and a long name. But only the last `*` of a name has a choice that
matters: what follows another one may as well be found where it comes first, since the next `*`
takes the rest. The same holds for `**` and whole directories. So these pieces are put into atomic
groups, which are never tried twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise

from msgspec import Struct

_MOST_RULES = 5_000
_LONGEST_RULE = 4_096
_MOST_DIRECTORIES = 20_000

_SPECIAL = re.compile(rb"[*?[\\]")
_STARS = re.compile(rb"\*+")
_SAME_IN_RIPGREP = re.compile(rb"(?:/|\*\*/)?(?:(?:[\w.@+-]|\*(?!\*))++/?)++")

# A pattern's tokens are pieces of a regular expression: these, or one that takes one character.
_SLASH = b"/"
_ANY = b"[^/]"
_STAR = b"[^/]*"
_DIRECTORIES = b"(?:.*/)?"
"""`**/`"""
_EVERYTHING = b".*"
"""`**` at the end, or before an escaped slash"""
_LAZY = {_DIRECTORIES: b"(?:.*?/)??", _EVERYTHING: b".*?"}
_CLASSES = {
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
    """The pattern is malformed; git takes it for one that matches nothing."""


class _Rule(Struct, frozen=True):
    regex: bytes
    includes: bool
    """It begins with `!`."""
    only_directories: bool
    whole_path: bool
    """Otherwise it is matched against the last name of a path."""


class _Run(Struct, frozen=True):
    """Rules that follow each other and decide the same."""

    includes: bool
    names: re.Pattern[bytes] | None
    paths: re.Pattern[bytes] | None


class GitIgnore:
    """The rules of one file in the root of a tree."""

    def __init__(self, text: bytes) -> None:
        """Raises ValueError where the rules are unreasonably many or long."""
        lines = list(_lines(text))
        if len(lines) > _MOST_RULES:
            raise ValueError(f"more than {_MOST_RULES} rules")
        if any(len(line) > _LONGEST_RULE for line in lines):
            raise ValueError(f"a rule of more than {_LONGEST_RULE} characters")
        rules = [rule for line in lines if (rule := _parse(line)) is not None]
        self._for_directories = _runs(rules)
        self._for_files = _runs(rule for rule in rules if not rule.only_directories)
        self._directories: dict[bytes, bool] = {}
        """Verdicts so far, since files of a directory are mostly asked about together."""
        self.is_empty = not lines
        self.same_in_ripgrep = all(_SAME_IN_RIPGREP.fullmatch(line) for line in lines)
        """Whether ripgrep, which reads some patterns otherwise, hides just the same by them."""

    def ignores(self, path: bytes, is_dir: bool) -> bool:
        """Whether a path relative to the root, without `/` at either end, is ignored."""
        directory, _, name = path.rpartition(b"/")
        if directory and self._ignores_directory(directory):
            return True
        return _is_ignored(self._for_directories if is_dir else self._for_files, path, name)

    def _ignores_directory(self, path: bytes) -> bool:
        known = self._directories.get(path)
        if known is not None:
            return known
        if len(self._directories) >= _MOST_DIRECTORIES:
            self._directories.clear()
        ignored, above = False, b""
        for name in path.split(b"/"):
            above = b"%s/%s" % (above, name) if above else name
            if not ignored:
                ignored = _is_ignored(self._for_directories, above, name)
            self._directories[above] = ignored
        return ignored


def _is_ignored(runs: Sequence[_Run], path: bytes, name: bytes) -> bool:
    for run in runs:
        if run.names is not None and run.names.fullmatch(name):
            return not run.includes
        if run.paths is not None and run.paths.fullmatch(path):
            return not run.includes
    return False


def _runs(rules: Iterable[_Rule]) -> list[_Run]:
    """The last one first."""
    runs = []
    for includes, group in groupby(rules, lambda rule: rule.includes):
        same = list(group)
        names = [rule.regex for rule in same if not rule.whole_path]
        paths = [rule.regex for rule in same if rule.whole_path]
        runs.append(_Run(includes, _any_of(names), _any_of(paths)))
    return runs[::-1]


def _any_of(regexes: list[bytes]) -> re.Pattern[bytes] | None:
    return re.compile(b"|".join(regexes), re.DOTALL) if regexes else None


def _lines(text: bytes) -> Iterator[bytes]:
    """Without comments and spaces at the end, unless one is escaped."""
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


def _parse(line: bytes) -> _Rule | None:
    """None for a rule that matches nothing."""
    pattern = line.removeprefix(b"!")
    only_directories = pattern.endswith(b"/")
    pattern = pattern.removesuffix(b"/")
    whole_path = b"/" in pattern
    pattern = pattern.removeprefix(b"/")
    if not pattern:
        return None
    try:
        regex = _regex(list(_tokens(pattern)))
    except _NeverMatchesError:
        return None
    return _Rule(regex, line.startswith(b"!"), only_directories, whole_path)


def _tokens(pattern: bytes) -> Iterator[bytes]:
    """Raises _NeverMatchesError."""
    first = _SPECIAL.search(pattern)
    at = 0
    while at < len(pattern):
        match pattern[at : at + 1]:
            case b"*":
                # git compares what is plain at the beginning and matches the rest on its own. So
                # `a**/b` begins with `**/`, too.
                begins = (first is not None and at == first.start()) or pattern[at - 1] == ord("/")
                token, at = _stars(pattern, at, begins)
                yield token
                continue
            case b"?":
                yield _ANY
            case b"[":
                token, at = _bracket(pattern, at)
                yield token
            case b"\\":
                at += 1
                yield re.escape(_character(pattern, at))
            case character:
                yield re.escape(character)
        at += 1


def _stars(pattern: bytes, at: int, begins: bool) -> tuple[bytes, int]:
    """The token for the stars at this place, and where the pattern continues."""
    stars = _STARS.match(pattern, at)
    assert stars is not None
    end = stars.end()
    rest = pattern[end : end + 2]
    if end - at == 1 or not begins:
        return _STAR, end
    if rest.startswith(b"/"):
        return _DIRECTORIES, end + 1
    return (_EVERYTHING if rest in (b"", b"\\/") else _STAR), end


def _bracket(pattern: bytes, at: int) -> tuple[bytes, int]:
    """The token for `[...]` at this place, and where its `]` is.

    Raises:
        _NeverMatchesError
    """
    at += 1
    negated = pattern[at : at + 1] in (b"!", b"^")
    start = at = at + negated
    items: list[bytes] = []
    before = b""
    """The character with which a range may begin."""
    while at == start or pattern[at : at + 1] != b"]":
        character = _character(pattern, at)
        if character == b"-" and before and pattern[at + 1 : at + 2] not in (b"", b"]"):
            at += 2 if pattern[at + 1 : at + 2] == b"\\" else 1
            last = _character(pattern, at)
            if before <= last:
                items.append(b"%s-%s" % (_code(before), _code(last)))
            before = b""
        elif character == b"[" and (named := _class(pattern, at)) is not None:
            item, at = named
            items.append(item)
            before = b""
        else:
            at += character == b"\\"
            before = _character(pattern, at)
            items.append(_code(before))
        at += 1
    if items:
        return b"(?!/)[%s%s]" % (b"^" if negated else b"", b"".join(items)), at
    if negated:
        return _ANY, at
    raise _NeverMatchesError


def _class(pattern: bytes, at: int) -> tuple[bytes, int] | None:
    """What `[:name:]` stands for and where its `]` is; None when this is only a bracket.

    Raises:
        _NeverMatchesError: there is no such class.
    """
    if pattern[at + 1 : at + 2] != b":":
        return None
    end = pattern.find(b"]", at)
    if end < 0:
        raise _NeverMatchesError
    if end < at + 3 or pattern[end - 1] != ord(":"):
        return None
    name = pattern[at + 2 : end - 1]
    if name not in _CLASSES:
        raise _NeverMatchesError
    return _CLASSES[name], end


def _character(pattern: bytes, at: int) -> bytes:
    """Raises _NeverMatchesError where the pattern has ended."""
    if at >= len(pattern):
        raise _NeverMatchesError
    return pattern[at : at + 1]


def _code(character: bytes) -> bytes:
    return b"\\x%02x" % ord(character)


def _regex(tokens: Sequence[bytes]) -> bytes:
    gaps = [at for at, token in enumerate(tokens) if token in _LAZY]
    if not gaps:
        return _names(tokens)
    parts = [_names(tokens[: gaps[0]])]
    for at, end in pairwise(gaps):
        parts.append(b"(?>%s%s)" % (_LAZY[tokens[at]], _names(tokens[at + 1 : end])))
    return b"".join((*parts, tokens[gaps[-1]], _names(tokens[gaps[-1] + 1 :])))


def _names(tokens: Sequence[bytes]) -> bytes:
    """Names and the slashes between them."""
    return _SLASH.join(_name(name) for name in _split(tokens, _SLASH))


def _name(tokens: Sequence[bytes]) -> bytes:
    first, *others = (b"".join(piece) for piece in _split(tokens, _STAR))
    if not others:
        return first
    middle = (b"(?>%s?%s)" % (_STAR, piece) for piece in others[:-1])
    return b"".join((first, *middle, _STAR, others[-1]))


def _split(tokens: Sequence[bytes], separator: bytes) -> Iterator[Sequence[bytes]]:
    start = 0
    for at, token in enumerate(tokens):
        if token == separator:
            yield tokens[start:at]
            start = at + 1
    yield tokens[start:]
