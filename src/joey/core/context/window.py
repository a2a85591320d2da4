"""The model's window: how much of it may be filled, and from where on the past is summed up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from joey.core.context.tokens import TokenCounts, tools_tokens
from joey.core.messages import Message
from joey.core.models import ModelInfo, ToolSpec

_FILLED = 0.9
"""Of a window, at most: counts are not exact."""
_SMALL = 24_000
"""In smaller windows an answer gets a smaller share: what is asked needs most of it."""
_LEAST_RATIO = 0.5
"""A service that counts less than this of our estimate leaves something out of its count."""
_LEAST_RATIO_OF_NEW = 0.8
_MOST_RATIO = 3.0
INHERIT = -1
_THRESHOLDS = range(5, 101)


class Window(Struct, frozen=True):
    size: int
    reserved: int
    """For the answer."""

    @classmethod
    def of(cls, model: ModelInfo) -> Window:
        share = 3 if model.context_window >= _SMALL else 8
        return cls(model.context_window, min(model.max_output, model.context_window // share))

    @property
    def allowed(self) -> int:
        """What a request may fill before room is made."""
        return int(self.size * _FILLED) - self.reserved

    @property
    def most(self) -> int:
        """What a request may fill when no more room can be made."""
        return int(self.size * _FILLED) - min(self.reserved, self.size // 8)


class Summed(Struct, frozen=True):
    """What there is to know of a conversation to tell how much of the window it takes."""

    sums: Sequence[int]
    """Estimates of its first n messages, for every n."""
    answered: int | None
    """The place of its last reply."""


class Gauge:
    """Estimates of one task's requests, put right by what the service counts.

    `floor` rises when the service says that a request was too long: from then on an estimate
    like that one means a full window, whatever the catalogue and the service's counts say.
    """

    def __init__(self) -> None:
        self.counts = TokenCounts()
        self.ratio = 1.0
        """Tokens by the service's count for each that we estimate."""
        self.floor = _LEAST_RATIO
        self.failed_at: int | None = None
        """How full the window was when a summary could not be had."""
        self._tools: tuple[Sequence[ToolSpec], int] = ((), 0)
        self._head: int | None = None
        """The estimate of prompt and tools in the latest request."""
        self._model = ""
        self._counted_elsewhere = -1

    def talk_to(self, model_id: str, requests: int) -> None:
        """The next request goes to this model, after so many. Each counts in its own way."""
        if self._model and self._model != model_id:
            self.ratio, self.floor = 1.0, _LEAST_RATIO
            self._head, self._counted_elsewhere = None, requests
        self._model = model_id

    def trusts(self, requests: int) -> bool:
        """Whether the latest count is by the model that the next request goes to."""
        return requests != self._counted_elsewhere

    def tools(self, tools: Sequence[ToolSpec]) -> int:
        """The estimate of a list of tools, which is mostly the same as the last time."""
        if tools is not self._tools[0]:
            self._tools = (tools, tools_tokens(tools))
        return self._tools[1]

    def sent(self, head: int) -> None:
        """A request with this estimate of prompt and tools goes out."""
        self._head = head

    def use(self, head: int, conversation: Summed, new: int, counted: int | None) -> int:
        """How much of the window a request takes: `head` and `new` are estimates of prompt and
        tools, and of what is not yet among the messages. `counted` is what the service said of
        the latest request that it answered: all before its last reply."""
        answered, sums = conversation.answered, conversation.sums
        if counted is None or answered is None:
            return self.whole(head + sums[-1] + new)
        known_head = head if self._head is None else self._head
        known = known_head + sums[answered]
        self.ratio = counted / max(1, known)
        added = sums[-1] - sums[answered] + new + head - known_head
        return max(counted, int(self.floor * known)) + self.whole(max(0, added))

    def summed(self, messages: Sequence[Message]) -> Summed:
        return Summed(self.counts.sums(messages), _last_reply(messages))

    def whole(self, estimate: int) -> int:
        """An estimate in the service's tokens, rather too many than too few."""
        return int(estimate * self.scale)

    @property
    def scale(self) -> float:
        return max(min(self.ratio, _MOST_RATIO), _LEAST_RATIO_OF_NEW, self.floor)

    def overflowed(self, estimate: int, size: int) -> None:
        """The service refused a request of this estimate, for a window said to be of this size."""
        self.floor = max(self.floor, size / max(1, estimate))


def _last_reply(messages: Sequence[Message]) -> int | None:
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].role == "assistant":
            return place
    return None


class Threshold(Struct, frozen=True):
    percent: int
    problem: str | None = None


def threshold_of(percent: int, by_profile: Mapping[str, int], profile: str) -> Threshold:
    """How full the window may get, in percent, with this profile."""
    own = by_profile.get(profile, INHERIT)
    if own == INHERIT:
        return Threshold(percent)
    if own in _THRESHOLDS:
        return Threshold(own)
    problem = (
        f"profileThresholds: {own} percent for {profile!r} is not used, but {percent}: give 5 to"
        " 100, or -1 for the same as elsewhere."
    )
    return Threshold(percent, problem)
