from __future__ import annotations

from tests.front.conftest import isolated_environment, joey

__all__ = ["isolated_environment", "joey"]
