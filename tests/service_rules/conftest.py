from __future__ import annotations

from tests.cli.conftest import isolated_environment, joey

__all__ = ["isolated_environment", "joey"]
