"""Looking for tags in text that arrives in pieces."""

from __future__ import annotations

import re
from functools import lru_cache

from joey.core.regex import regex

_TAG_START = regex("[<`]")


class Tags:
    """A set of literal tags to look for, and how to see that one may have begun."""

    def __init__(self, tags: frozenset[str]) -> None:
        longest_first = sorted(tags, key=lambda tag: (-len(tag), tag))
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        self._beginnings = frozenset(tag[:end] for tag in tags for end in range(1, len(tag)))
        self._longest = len(longest_first[0])

    def find(self, text: str, pos: int) -> tuple[int, str]:
        """Where the first tag is, and which; or where one may have begun, and nothing."""
        match = self._pattern.search(text, pos)
        if match is not None:
            return match.start(), match[0]
        near_end = max(pos, len(text) - self._longest + 1)
        for start in _TAG_START.finditer(text, near_end):
            if text[start.start() :] in self._beginnings:
                return start.start(), ""
        return len(text), ""


@lru_cache(maxsize=1024)
def tags_of(tags: frozenset[str]) -> Tags:
    """The same few sets are looked for in every reply; each is compiled once."""
    return Tags(tags)
