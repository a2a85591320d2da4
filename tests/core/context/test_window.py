from __future__ import annotations

import pytest

from joey.core.context.window import ContextWindow, TokenEstimator, resolve_condense_threshold
from joey.core.messages import Message
from joey.core.models import ModelInfo

ASKED = Message(role="user", content="words " * 1_000)
REPLY = Message(role="assistant", content="words " * 10)
RESULT = Message(role="user", content="words " * 500)
HEAD = 5_000


@pytest.mark.parametrize(
    ("size", "output"),
    [
        (4_000, 8_192),
        (8_192, 8_192),
        (16_000, 4_096),
        (32_000, 8_192),
        (200_000, 64_000),
        (1_000_000, 128_000),
    ],
)
def test_every_window_leaves_room_to_ask_and_to_answer(size: int, output: int) -> None:
    window = ContextWindow.from_model(
        ModelInfo(id="m", context_window=size, max_output_tokens=output)
    )
    assert 0 < window.reserved_for_reply <= min(output, size // 3)
    assert size // 2 < window.soft_limit <= window.hard_limit < size
    if size >= 32_000:
        assert window.soft_limit + output < size


def test_without_a_count_all_is_estimated() -> None:
    gauge = TokenEstimator()
    estimate = HEAD + gauge.message_token_cache.estimate_all([ASKED, REPLY, RESULT])
    assert (
        gauge.estimate_usage(HEAD, gauge.sum_messages([ASKED, REPLY, RESULT]), 100, None)
        == estimate + 100
    )
    assert gauge.estimate_usage(
        HEAD, gauge.sum_messages([ASKED]), 0, 4_000
    ) == HEAD + gauge.message_token_cache.estimate(ASKED)


def test_what_the_service_counted_is_believed_and_the_rest_estimated_likewise() -> None:
    gauge = TokenEstimator()
    known = HEAD + gauge.message_token_cache.estimate(ASKED)
    added = gauge.message_token_cache.estimate_all([REPLY, RESULT])
    use = gauge.estimate_usage(HEAD, gauge.sum_messages([ASKED, REPLY, RESULT]), 0, 2 * known)
    assert use == 2 * known + 2 * added
    assert gauge.scale_estimate(100) == 200


def test_a_count_that_leaves_something_out_is_not_believed() -> None:
    gauge = TokenEstimator()
    known = HEAD + gauge.message_token_cache.estimate(ASKED)
    use = gauge.estimate_usage(HEAD, gauge.sum_messages([ASKED, REPLY, RESULT]), 0, 10)
    assert use >= known // 2
    assert gauge.scale_estimate(100) == 80


def test_after_an_overflow_the_same_estimate_means_a_full_window() -> None:
    gauge = TokenEstimator()
    gauge.record_overflow(10_000, 200_000)
    assert gauge.scale_estimate(10_000) == 200_000
    assert gauge.estimate_usage(HEAD, gauge.sum_messages([ASKED, REPLY]), 0, 100) > 100_000


def test_another_model_counts_in_its_own_way() -> None:
    gauge = TokenEstimator()
    gauge.set_model("one", 0)
    gauge.record_overflow(10_000, 200_000)
    assert gauge.is_count_current(3)
    gauge.set_model("two", 3)
    assert not gauge.is_count_current(3)
    assert gauge.is_count_current(4)
    assert gauge.scale_estimate(100) == 100


def test_a_longer_prompt_than_the_last_time_counts() -> None:
    gauge = TokenEstimator()
    gauge.record_request(HEAD)
    before = gauge.estimate_usage(HEAD, gauge.sum_messages([ASKED, REPLY]), 0, 7_000)
    assert (
        gauge.estimate_usage(HEAD + 1_000, gauge.sum_messages([ASKED, REPLY]), 0, 7_000)
        >= before + 800
    )


@pytest.mark.contract("context:summary")
@pytest.mark.parametrize(
    ("own", "percent", "warned"),
    [(-1, 80, False), (5, 5, False), (100, 100, False), (4, 80, True), (101, 80, True)],
)
def test_a_profiles_threshold_is_used_where_it_makes_sense(
    own: int, percent: int, warned: bool
) -> None:
    threshold = resolve_condense_threshold(80, {"mine": own}, "mine")
    assert threshold.percent == percent
    assert (threshold.problem is not None) == warned
    assert resolve_condense_threshold(80, {"mine": own}, "other").percent == 80
