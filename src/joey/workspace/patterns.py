"""Patterns of gitignore whose matching takes no more than a moment, whatever they and the path are.

The library translates each `*` into something that may take any length. When a match fails, every
combination of lengths is tried: hours, for a handful of stars and a long name. But only the last
star of a name has a choice that matters. What stands between two stars may as well be found where
it comes first, since the star after it takes whatever is left; the same holds for `**` and whole
folders. So these pieces are put into atomic groups, which are never tried twice.
"""

from __future__ import annotations

import re

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

_MOST_RULES = 5_000
_LONGEST_RULE = 4_096

# As the library writes them. No name holds a `/`, so nothing else can look like one of these.
_ANY = "[^/]"
_STAR = "[^/]*"
_FOLDERS_FIRST = "^(?:.+/)?"
_FOLDERS = "(?:/.+)?"
_BRACKETS = re.compile(r"\\.|\[\^/\]|(\[\^?\]?[^]]*\])", re.DOTALL)
_NO_SLASH = "(?!/)"


class Pattern(GitIgnoreSpecPattern):
    """The library's pattern, with its regular expression made safe."""

    __slots__ = ()

    @classmethod
    def pattern_to_regex(cls, pattern: str) -> tuple[str | None, bool | None]:  # type: ignore[override]
        regex, include = super().pattern_to_regex(pattern)
        return None if regex is None else f"(?s){_bounded(regex)}", include


def compile_rules(lines: list[str]) -> GitIgnoreSpec | None:
    """The rules of a file, or None when it has none.

    Raises:
        ValueError: one of them is not a pattern, or there are unreasonably many.
    """
    rules = [line for line in lines if line.strip() and not line.startswith("#")]
    if not rules:
        return None
    if len(rules) > _MOST_RULES:
        raise ValueError(f"more than {_MOST_RULES} rules")
    if any(len(rule) > _LONGEST_RULE for rule in rules):
        raise ValueError(f"a rule of more than {_LONGEST_RULE} characters")
    if any("[[:" in rule for rule in rules):
        raise ValueError("classes like [[:alpha:]] are not understood")
    try:
        # Other engines for regular expressions, if installed, know no atomic groups.
        return GitIgnoreSpec.from_lines(rules, Pattern, backend="simple")
    except re.error as error:
        raise ValueError(f"a rule is not a pattern: {error}") from error


def _bounded(regex: str) -> str:
    first, *rest = _BRACKETS.sub(_within_name, regex).split(_FOLDERS)
    if not rest:
        return _bounded_names(first)
    *middle, last = map(_bounded_names, rest)
    return "".join(
        (
            _bounded_start(_bounded_names(first)),
            *(f"(?>(?:/.+?)??{folders}(?=/))" for folders in middle),
            _FOLDERS,
            last,
        )
    )


def _within_name(found: re.Match[str]) -> str:
    """`[!a]` is a character of a name; the library lets it be the `/` between two."""
    return found[0] if found[1] is None else f"{_NO_SLASH}{found[1]}"


def _bounded_start(folders: str) -> str:
    """What stands before the first inner `**`."""
    if not folders.startswith(_FOLDERS_FIRST):
        return folders
    return f"^(?>(?:.+?/)??{folders.removeprefix(_FOLDERS_FIRST)}(?=/))"


def _bounded_names(regex: str) -> str:
    first, *rest = regex.split(_STAR)
    if not rest:
        return first
    return "".join((first, *map(_bounded_star, rest[:-1]), _STAR, rest[-1]))


def _bounded_star(piece: str) -> str:
    """A star and what follows it up to the next one; the last of its name keeps its freedom."""
    is_last = "/" in piece.replace(_ANY, "").replace(_NO_SLASH, "")
    return f"{_STAR}{piece}" if is_last else f"(?>{_STAR}?{piece})"
