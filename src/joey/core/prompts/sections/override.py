"""A prompt of the project's own in place of ours: `.roo/system-prompt-<mode>`."""

from __future__ import annotations

from collections.abc import Mapping

from joey.core.regex import regex

_VARIABLE = regex(r"\{\{(workspace|mode|language|shell|operatingSystem)\}\}")


def fill_in(text: str, *, mode: str, language: str, facts: Mapping[str, str]) -> str:
    """The text with its variables replaced; what looks like another one stays."""
    values = {
        "workspace": facts.get("workspace", ""),
        "mode": mode,
        "language": language or "en",
        "shell": facts.get("shell", ""),
        "operatingSystem": facts.get("os", ""),
    }
    return _VARIABLE.sub(lambda found: values[found[1]], text).strip()
