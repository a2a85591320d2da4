"""How much of a test `make test` runs; `make soak` runs all of it (`JOEY_FULL=1`).

A test that depends on it carries the mark `shortened`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import settings

T = TypeVar("T")
FULL = bool(os.environ.get("JOEY_FULL"))


def daily(value: T, full: T) -> T:
    """`value`, or `full` in `make soak`."""
    return full if FULL else value


def shortened_examples(count: int, full: int, **more: Any) -> Callable[[Any], Any]:
    """Settings of a hypothesis test whose examples take long."""
    is_random = settings.get_current_profile_name() == "chance"
    limit = settings(max_examples=full if FULL or is_random else count, **more)
    return lambda test: pytest.mark.shortened(limit(test))
