"""The context window of a model: token estimates, limits, truncation.

Tokens are estimated by characters, without a tokenizer, and rather too many than too few. Three
characters of plain text count as a token; models see three to five. Characters beyond ASCII cost
more with every byte of UTF-8 they need, as they do for the models. `TokenEstimator` corrects the
estimate by the counts of the service.

Truncation hides half of the visible messages, again and again until the rest fits. The first
message stays, and the messages after it begin with a reply of the model: a result never stands
without its call. When the last turn alone is too long, texts are cut in their middle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from weakref import WeakKeyDictionary

import msgspec
from msgspec import UNSET, Struct

from joey.core.history.visible import shortened
from joey.core.messages import (
    Block,
    ImageBlock,
    Message,
    ReasoningBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    blocks_of,
)
from joey.core.models import ModelInfo, ToolSpec

_MAX_FILL_RATIO = 0.9
"""Of a window, at most: counts are not exact."""
_SMALL_WINDOW_TOKENS = 24_000
"""In smaller windows an answer gets a smaller share: what is asked needs most of it."""
_MIN_TOKEN_RATIO = 0.5
"""A service that counts less than this of our estimate leaves something out of its count."""
_MIN_NEW_TOKEN_RATIO = 0.8
_MAX_TOKEN_RATIO = 3.0
INHERIT_THRESHOLD = -1
_VALID_THRESHOLDS = range(5, 101)


class ContextWindow(Struct, frozen=True):
    size: int
    reserved: int

    @classmethod
    def of(cls, model: ModelInfo) -> ContextWindow:
        share = 3 if model.context_window >= _SMALL_WINDOW_TOKENS else 8
        return cls(model.context_window, min(model.max_output, model.context_window // share))

    @property
    def allowed(self) -> int:
        """What a request may fill before room is made."""
        return int(self.size * _MAX_FILL_RATIO) - self.reserved

    @property
    def most(self) -> int:
        """What a request may fill when no more room can be made."""
        return int(self.size * _MAX_FILL_RATIO) - min(self.reserved, self.size // 8)


class TokenTotals(Struct, frozen=True):
    """What there is to know of a conversation to tell how much of the window it takes."""

    sums: Sequence[int]
    """Estimates of its first n messages, for every n."""
    answered: int | None


class TokenEstimator:
    """Estimates of one task's requests, put right by what the service counts.

    `floor` rises when the service says that a request was too long: from then on an estimate
    like that one means a full window, whatever the catalogue and the service's counts say.
    """

    def __init__(self) -> None:
        self.counts = MessageTokenCache()
        self.ratio = 1.0
        """Tokens by the service's count for each that we estimate."""
        self.floor = _MIN_TOKEN_RATIO
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
            self.ratio, self.floor = 1.0, _MIN_TOKEN_RATIO
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

    def use(self, head: int, conversation: TokenTotals, new: int, counted: int | None) -> int:
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

    def summed(self, messages: Sequence[Message]) -> TokenTotals:
        return TokenTotals(self.counts.sums(messages), _last_reply(messages))

    def whole(self, estimate: int) -> int:
        """An estimate in the service's tokens, rather too many than too few."""
        return int(estimate * self.scale)

    @property
    def scale(self) -> float:
        return max(min(self.ratio, _MAX_TOKEN_RATIO), _MIN_NEW_TOKEN_RATIO, self.floor)

    def overflowed(self, estimate: int, size: int) -> None:
        """The service refused a request of this estimate, for a window said to be of this size."""
        self.floor = max(self.floor, size / max(1, estimate))


def _last_reply(messages: Sequence[Message]) -> int | None:
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].role == "assistant":
            return place
    return None


class CondenseThreshold(Struct, frozen=True):
    percent: int
    problem: str | None = None


def threshold_of(percent: int, by_profile: Mapping[str, int], profile: str) -> CondenseThreshold:
    """How full the window may get, in percent, with this profile."""
    own = by_profile.get(profile, INHERIT_THRESHOLD)
    if own == INHERIT_THRESHOLD:
        return CondenseThreshold(percent)
    if own in _VALID_THRESHOLDS:
        return CondenseThreshold(own)
    problem = (
        f"profileThresholds: {own} percent for {profile!r} is not used, but {percent}: give 5 to"
        " 100, or -1 for the same as elsewhere."
    )
    return CondenseThreshold(percent, problem)


CHARACTERS_PER_TOKEN = 3
_TOKENS_PER_MESSAGE = 8
_TOKENS_PER_BLOCK = 6
_TOKENS_PER_IMAGE = 1_600
_MAX_CHANGED_TAIL_MESSAGES = 3
"""Messages at the end of a conversation that may be others than the last time."""
_encode = msgspec.json.Encoder().encode


def text_tokens(text: str) -> int:
    size = len(text)
    if not text.isascii():
        size += (len(text.encode(errors="replace")) - size) * 3 // 2
    return -(-size // CHARACTERS_PER_TOKEN)


def block_tokens(block: Block) -> int:
    match block:
        case TextBlock(text=text):
            tokens = text_tokens(text)
        case ThinkingBlock(thinking=thinking, signature=signature):
            tokens = text_tokens(thinking) + text_tokens(signature)
        case RedactedThinkingBlock(data=data):
            tokens = text_tokens(data)
        case ReasoningBlock(text=text):
            tokens = text_tokens(text)
        case ToolUseBlock(name=name, input=arguments):
            tokens = (
                text_tokens(name) + text_tokens(_encode(arguments).decode()) + _TOKENS_PER_BLOCK
            )
        case ToolResultBlock(content=content):
            parts = (TextBlock(content),) if isinstance(content, str) else content
            tokens = blocks_tokens(parts)
        case ImageBlock():
            tokens = _TOKENS_PER_IMAGE
    return tokens + _TOKENS_PER_BLOCK


def blocks_tokens(blocks: Iterable[Block]) -> int:
    return sum(block_tokens(block) for block in blocks)


def tools_tokens(tools: Sequence[ToolSpec]) -> int:
    return text_tokens(_encode(tools).decode()) if tools else 0


class MessageTokenCache:
    """Counts of messages, each made once for as long as the message lives."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Message, int] = WeakKeyDictionary()
        self._last: Sequence[Message] = []
        self._sums: list[int] = [0]

    def of(self, message: Message) -> int:
        count = self._known.get(message)
        if count is None:
            count = self._known[message] = _message_tokens(message)
        return count

    def of_all(self, messages: Iterable[Message]) -> int:
        return sum(map(self.of, messages))

    def sums(self, messages: Sequence[Message]) -> Sequence[int]:
        """How much the first n of them are, for every n. A conversation grows at its end: what
        was summed the last time is not looked at again."""
        most = min(len(self._last), len(messages))
        ends = range(most, max(0, most - _MAX_CHANGED_TAIL_MESSAGES), -1)
        same = next((end for end in ends if self._last[:end] == messages[:end]), 0)
        sums = self._sums[: same + 1]
        for message in messages[same:]:
            sums.append(sums[-1] + self.of(message))
        self._last, self._sums = messages, sums
        return sums


def _message_tokens(message: Message) -> int:
    tokens = blocks_tokens(blocks_of(message)) + _TOKENS_PER_MESSAGE
    if message.reasoning_details is not UNSET:
        tokens += text_tokens(_encode(message.reasoning_details).decode())
    if isinstance(message.reasoning_content, str):
        tokens += text_tokens(message.reasoning_content)
    return tokens


MAX_TEXT_CHARS = 32_768
MIN_TEXT_CHARS = 512


class TruncationPlan(Struct, frozen=True):
    messages: int
    longest: int | None
    estimate: int
    """Of what stays visible."""


def plan_truncation(
    visible: Sequence[Message],
    open_results: Sequence[Message],
    counts: MessageTokenCache,
    fits: Callable[[int], bool],
) -> TruncationPlan | None:
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
    return TruncationPlan(hidden, longest, total)


def _next_cut(places: Sequence[int], hidden: int, count: int) -> int | None:
    """About half of what still stands goes; at last, all but the latest reply."""
    goal = hidden + (count - hidden) // 2
    later = [place for place in places if place > hidden]
    nearest = [place for place in later if place <= goal]
    return nearest[-1] if nearest else later[0] if later else None


def _longest(messages: Sequence[Message], fits: Callable[[int], bool]) -> int | None:
    """How long texts may stay; None when cutting them would change nothing."""
    longest = MAX_TEXT_CHARS
    while longest > MIN_TEXT_CHARS and not fits(_cut_estimate(messages, longest)):
        longest //= 2
    is_shorter = any(shortened(message, longest) is not message for message in messages)
    return longest if is_shorter else None


def _cut_estimate(messages: Sequence[Message], longest: int) -> int:
    return MessageTokenCache().of_all(shortened(message, longest) for message in messages)
