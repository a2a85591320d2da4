"""Ids of tasks."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from joey.engine.runtime import generate_task_id

moments = st.integers(0, 2**48 - 1)


@given(moments)
def test_an_id_is_a_uuid_of_version_7(now: int) -> None:
    made = uuid.UUID(generate_task_id(now))
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert made.int >> 80 == now


@given(moments, moments)
def test_ids_sort_by_the_time_they_were_made(one: int, other: int) -> None:
    if one != other:
        assert (generate_task_id(one) < generate_task_id(other)) is (one < other)


def test_ids_of_the_same_moment_differ() -> None:
    assert len({generate_task_id(1) for _ in range(1000)}) == 1000
