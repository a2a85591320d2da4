"""A conversation with a question, for `joey --plain`."""

from __future__ import annotations

ASK = "say what to do instead › "


ACCEPT = "say what to change › "


PROMPT = "\n › "
