"""Image files whose names were pasted: what terminals write when files are dropped on them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from joey.client.images import MAX_IMAGES

_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_LONGEST = 4_096 * 4


def dropped_pictures(pasted: str) -> list[Path]:
    """The files, when the text names nothing else; otherwise none.

    Only whole paths count: a name in a sentence is a word of it.
    """
    text = pasted.strip()
    if not text or len(text) > _LONGEST or not text.rstrip("'\"").lower().endswith(_ENDINGS):
        return []
    for words in _ways_to_read(text):
        paths = [_path(word) for word in words]
        if len(paths) <= MAX_IMAGES and all(map(_is_picture, paths)):
            return [path for path in paths if path is not None]
    return []


def _ways_to_read(text: str) -> Iterator[list[str]]:
    yield [text]
    yield text.splitlines()
    try:
        yield shlex.split(text)
    except ValueError:  # a quote that is not closed
        return


def _path(word: str) -> Path | None:
    """None for what is no whole path."""
    word = word.strip()
    if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"":
        word = word[1:-1]
    if word.startswith("file://"):
        return Path(unquote(urlsplit(word).path))
    if word.startswith("~/"):
        return Path.home() / word[2:]
    return Path(word) if word.startswith("/") else None


def _is_picture(path: Path | None) -> bool:
    if path is None or path.suffix.lower() not in _ENDINGS:
        return False
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long, or not a name
        return False
