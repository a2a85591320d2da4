"""Instructions that the model asked for, as it reads them: facts, then the text."""

from __future__ import annotations

from collections.abc import Mapping


def guidance_text(facts: Mapping[str, str], title: str, text: str) -> str:
    """Facts without a value are left out."""
    lines = [f"{name}: {value}" for name, value in facts.items() if value]
    return "\n".join([*lines, "", f"--- {title} ---", "", text.strip()])
