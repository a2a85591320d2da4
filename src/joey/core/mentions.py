"""Mentions in a user's message: `@/src/app.py`, `@problems`, `@a1b2c3d`, `/review`.

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
    )""",
    re.VERBOSE,
)
_COMMAND_RE = compile_regex(r"(?<![^\s])/(?P<name>[A-Za-z0-9_.-]+)(?=\s|$)")
_CLOSING_PUNCTUATION = ".,;:!?"


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


class CommandMention(Struct, frozen=True):
    name: str
    start: int
    end: int


def find_mentions(text: str) -> tuple[Mention, ...]:
    """All of them, in the order in which they stand."""
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
        else:
            found.append(Mention(MentionKind.COMMIT, match["commit"], start, end))
    return tuple(found)


def find_command_mentions(text: str) -> tuple[CommandMention, ...]:
    """Every `/name` that could be a slash command; whether there is one, others know."""
    return tuple(
        CommandMention(match["name"], *match.span()) for match in _COMMAND_RE.finditer(text)
    )


def replace_spans(text: str, spans: list[tuple[int, int, str]]) -> str:
    """The text with other words in some places; spans do not overlap."""
    parts: list[str] = []
    position = 0
    for start, end, replacement in sorted(spans):
        parts += (text[position:start], replacement)
        position = end
    return "".join([*parts, text[position:]])


def format_mention(mention: Mention) -> str:
    """What takes the place of a mention in the message, where its content is told below."""
    return f"{_MENTION_TEXTS[mention.kind].format(mention.subject)} (see below)"


def _strip_punctuation(text: str) -> str:
    """Without the marks that end a sentence; an escaped one belongs to the name."""
    end = len(text)
    while end and text[end - 1] in _CLOSING_PUNCTUATION and text[max(0, end - 2)] != "\\":
        end -= 1
    return text[:end]
