"""Links between the documents, with the headings they lead to."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_LINK = re.compile(r"\]\((?!\w+:)([^)]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def list_dead_links(document: Path, text: str) -> list[str]:
    return [link for link in _LINK.findall(text) if not is_target(document, link)]


def is_target(document: Path, link: str) -> bool:
    """Whether the file of a link, and the heading after its #, exist."""
    name, _, anchor = link.partition("#")
    path = document.parent / name if name else document
    if not path.exists():
        return False
    return not anchor or path.suffix != ".md" or anchor in _list_anchors(path)


@cache
def _list_anchors(path: Path) -> set[str]:
    headings = _HEADING.findall(path.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
