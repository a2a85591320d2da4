"""Front matter: YAML between two lines of dashes at the beginning of a Markdown file."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from joey.config.yaml_text import YamlError, read_yaml
from joey.core.regex import regex

_BLOCK = regex(r"\s*---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)


class FrontMatter(Struct, frozen=True):
    fields: dict[str, Any]
    body: str
    """The text without it, and without white space around it."""
    problem: str = ""
    """Why the fields could not be read."""

    def text(self, name: str) -> str:
        """A field on one line; empty when it is missing or no text."""
        value = self.fields.get(name)
        return " ".join(value.split()) if isinstance(value, str) else ""


def split_front_matter(text: str) -> FrontMatter:
    """A text that has none is all body; one that cannot be read counts as none."""
    block = _BLOCK.match(text)
    if block is None:
        return FrontMatter({}, text.strip())
    body = text[block.end() :].strip()
    try:
        fields = read_yaml(block[1])
    except YamlError as error:
        return FrontMatter({}, body, f"its front matter is not valid YAML ({error})")
    if fields is None:
        return FrontMatter({}, body)
    if not isinstance(fields, dict):
        return FrontMatter({}, body, "its front matter is not a list of `name: value`")
    return FrontMatter({str(name): value for name, value in fields.items()}, body)
