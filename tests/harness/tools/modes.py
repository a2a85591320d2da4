"""A mode and a model to choose tools for."""

from __future__ import annotations

from joey.core.models import ModelInfo
from joey.core.modes import Mode, find_mode

MODEL = ModelInfo(id="test")


def mode(slug: str) -> Mode:
    found = find_mode(slug)
    assert found is not None
    return found
