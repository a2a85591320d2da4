"""ARCHITECTURE.md describes the modules that exist."""

from __future__ import annotations

import re

from scripts.architecture import DOCUMENT, ROOT, renewed


def test_the_module_tree_is_up_to_date() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == renewed(text), "run: python -m scripts.architecture"


def test_every_file_that_is_linked_exists() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", DOCUMENT.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
