"""Which of the oldest messages are hidden when a conversation must get shorter without a summary.

Half of what is visible goes, again and again until the rest fits. The first message stays, and
what stays after it begins with a reply of the model: a result never stands without its call.
When the last turn alone is too long, texts are cut in their middle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from joey.core.context.tokens import TokenCounts
from joey.core.history.effective import shortened
from joey.core.messages import Message

LONGEST = 32_768
SHORTEST = 512


class Truncation(Struct, frozen=True):
    messages: int
    longest: int | None
    estimate: int
    """Of what stays visible."""


def plan_truncation(
    visible: Sequence[Message],
    open_results: Sequence[Message],
    counts: TokenCounts,
    fits: Callable[[int], bool],
) -> Truncation | None:
    """What to hide of the visible messages so that their estimate fits, or comes as near as can
    be; None when nothing can be hidden."""
    if not visible:
        return None
    first, *others = (message for message in visible if not message.is_truncation_marker)
    places = [place for place, message in enumerate(others) if message.role == "assistant"]

    def estimate(hidden: int) -> int:
        return counts.of_all((first, *others[hidden:], *open_results))

    hidden, total = 0, estimate(0)
    while not fits(total) and (next_cut := _next_cut(places, hidden, len(others))):
        hidden, total = next_cut, estimate(next_cut)
    stays = (first, *others[hidden:], *open_results)
    longest = None if fits(total) else _longest(stays, fits)
    if longest is not None:
        total = _cut_estimate(stays, longest)
    if not hidden and longest is None:
        return None
    return Truncation(hidden, longest, total)


def _next_cut(places: Sequence[int], hidden: int, count: int) -> int | None:
    """About half of what still stands goes; at last, all but the latest reply."""
    goal = hidden + (count - hidden) // 2
    later = [place for place in places if place > hidden]
    nearest = [place for place in later if place <= goal]
    return nearest[-1] if nearest else later[0] if later else None


def _longest(messages: Sequence[Message], fits: Callable[[int], bool]) -> int | None:
    """How long texts may stay; None when cutting them would change nothing."""
    longest = LONGEST
    while longest > SHORTEST and not fits(_cut_estimate(messages, longest)):
        longest //= 2
    is_shorter = any(shortened(message, longest) is not message for message in messages)
    return longest if is_shorter else None


def _cut_estimate(messages: Sequence[Message], longest: int) -> int:
    return TokenCounts().of_all(shortened(message, longest) for message in messages)
