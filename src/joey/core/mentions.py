"""Mentions in a user's message: `@/src/app.py`, `@README.md`, `@problems`, `@a1b2c3d`, `/review`.

Only messages of users are searched. A mention stands at the start of a word, is not preceded by a
backslash, and does not include closing punctuation.
"""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct

from joey.core.text import compile_regex

_MENTION_RE = compile_regex(
    r"""(?<![^\s])@(?:
        (?P<path>/(?:\\.|[^\s\\])*)
      | (?P<url>[A-Za-z][A-Za-z0-9+.-]*://\S+)
      | (?P<word>problems|git-changes|terminal)(?![\w-])
      | (?P<commit>[0-9a-f]{7,40})(?![\w-])
      | (?P<name>(?:\\.|[^\s\\@/])(?:\\.|[^\s\\])*)
    )""",
    re.VERBOSE,
)
_COMMAND_RE = compile_regex(r"(?<![^\s])/(?P<name>[A-Za-z0-9_.-]+)(?=\s|$)")
_CLOSING_PUNCTUATION = ".,;:!?"
_ARGUMENT_RE = compile_regex(r"\$(?:ARGUMENTS\b|([1-9])(?![0-9]))")
_ARGUMENT_WORD_RE = compile_regex(r"\"([^\"]*)\"|'([^']*)'|(\S+)")


class MentionKind(StrEnum):
    FILE = "file"
    DIRECTORY = "folder"
    URL = "url"
    PROBLEMS = "problems"
    GIT_CHANGES = "git-changes"
    TERMINAL = "terminal"
    COMMIT = "commit"


_MENTION_TEXTS = {
    MentionKind.FILE: "'{}'",
    MentionKind.DIRECTORY: "'{}/'",
    MentionKind.URL: "'{}'",
    MentionKind.PROBLEMS: "Workspace Problems",
    MentionKind.GIT_CHANGES: "Working directory changes",
    MentionKind.TERMINAL: "Terminal Output",
    MentionKind.COMMIT: "Git commit '{}'",
}


class Mention(Struct, frozen=True):
    kind: MentionKind
    subject: str
    """A path relative to the workspace, an address, a hash; empty where the kind says it all."""
    start: int
    end: int
    is_bare_name: bool = False
    """A path without a slash at its start, as other agents write it: `@someone` looks the same."""


class CommandMention(Struct, frozen=True):
    name: str
    start: int
    end: int


def find_mentions(text: str) -> tuple[Mention, ...]:
    """Find all mentions in order."""
    found: list[Mention] = []
    for match in _MENTION_RE.finditer(text):
        start, end = match.span()
        if (path := match["path"]) is not None:
            path = _strip_punctuation(path)
            end = start + 1 + len(path)
            subject = re.sub(r"\\(.)", r"\1", path)[1:]
            kind = MentionKind.DIRECTORY if subject.endswith("/") else MentionKind.FILE
            if name := subject.rstrip("/"):  # `@/` alone is an alias of TypeScript projects
                found.append(Mention(kind, name, start, end))
        elif (url := match["url"]) is not None:
            url = _strip_punctuation(url)
            found.append(Mention(MentionKind.URL, url, start, start + 1 + len(url)))
        elif (word := match["word"]) is not None:
            found.append(Mention(MentionKind(word), "", start, end))
        elif (commit := match["commit"]) is not None:
            found.append(Mention(MentionKind.COMMIT, commit, start, end))
        elif name := _strip_punctuation(match["name"]):
            subject = re.sub(r"\\(.)", r"\1", name)
            kind = MentionKind.DIRECTORY if subject.endswith("/") else MentionKind.FILE
            end = start + 1 + len(name)
            found.append(Mention(kind, subject.rstrip("/"), start, end, is_bare_name=True))
    return tuple(found)


def find_command_mentions(text: str) -> tuple[CommandMention, ...]:
    """Find every `/name` that could be a slash command, whether or not that command exists."""
    return tuple(
        CommandMention(match["name"], *match.span()) for match in _COMMAND_RE.finditer(text)
    )


def fill_arguments(content: str, arguments: str) -> str:
    """Fill in `$ARGUMENTS` and `$1` to `$9` in a command's text. Without arguments, `$1` stays: it
    may belong to a shell command."""
    values = ["".join(groups) for groups in _ARGUMENT_WORD_RE.findall(arguments)]

    def fill(match: re.Match[str]) -> str:
        if match[1] is None:
            return arguments
        if not values:
            return match[0]
        position = int(match[1])
        return values[position - 1] if position <= len(values) else ""

    return _ARGUMENT_RE.sub(fill, content)


def replace_spans(text: str, spans: list[tuple[int, int, str]]) -> str:
    """Replace spans of a text; they must not overlap."""
    parts: list[str] = []
    position = 0
    for start, end, replacement in sorted(spans):
        parts += (text[position:start], replacement)
        position = end
    return "".join([*parts, text[position:]])


def format_mention(mention: Mention) -> str:
    """Format the replacement of a mention whose content follows later in the message."""
    return f"{_MENTION_TEXTS[mention.kind].format(mention.subject)} (see below)"


def _strip_punctuation(text: str) -> str:
    """Strip closing punctuation; an escaped character belongs to the name."""
    end = len(text)
    while end and text[end - 1] in _CLOSING_PUNCTUATION and text[max(0, end - 2)] != "\\":
        end -= 1
    return text[:end]
