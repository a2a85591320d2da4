from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.core.context.window import MIN_TRUNCATED_TEXT_CHARS, MessageTokenCache, plan_truncation
from joey.core.messages import Message


def conversation(sizes: list[int], *, summary: bool = False) -> list[Message]:
    """Words and replies in turn; after a summary the first words stand for themselves."""
    first = [Message(role="user", content="the task", is_summary=summary)]
    if summary:
        first.append(Message(role="user", content="words after it"))
    for number, size in enumerate(sizes):
        role = "user" if number % 2 else "assistant"
        first.append(Message(role=role, content="x" * size))  # type: ignore[arg-type]
    return first


@pytest.mark.contract("context:window")
@given(
    st.lists(st.integers(1, 60_000), max_size=30),
    st.booleans(),
    st.integers(1_000, 100_000),
    st.booleans(),
)
def test_what_stays_begins_with_a_reply_and_fits_if_anything_does(
    sizes: list[int], summary: bool, room: int, is_open: bool
) -> None:
    visible = conversation(sizes, summary=summary)
    results = [Message(role="user", content="y" * 20_000)] if is_open else []
    counts = MessageTokenCache()
    plan = plan_truncation(visible, results, counts, lambda estimate: estimate <= room)
    if plan is None:
        return
    stays = visible[1 + plan.hidden_message_count :]
    if plan.hidden_message_count:
        assert stays[0].role == "assistant"
    if plan.max_text_chars is None:
        assert (
            counts.estimate_all([visible[0], *stays, *results])
            == plan.remaining_token_estimate
            <= room
        )
    else:
        later = [message for message in stays[1:] if message.role == "assistant"]
        assert not later, "texts are cut only when the last turn alone is too long"
        assert plan.max_text_chars >= MIN_TRUNCATED_TEXT_CHARS


def test_half_goes_when_that_is_enough() -> None:
    visible = conversation([3_000] * 20)
    plan = plan_truncation(visible, (), MessageTokenCache(), lambda estimate: estimate <= 12_000)
    assert plan is not None
    assert (plan.hidden_message_count, plan.max_text_chars) == (10, None)


def test_there_may_be_nothing_to_hide() -> None:
    assert plan_truncation((), (), MessageTokenCache(), lambda _: False) is None
    alone = conversation([])
    assert plan_truncation(alone, (), MessageTokenCache(), lambda _: False) is None
