"""The context window of a model: token estimates, limits, truncation.

Tokens are estimated from characters, without a tokenizer, and rather too high than too low. Three
characters of plain text count as a token; real tokens have three to five. Characters beyond ASCII
count more the more bytes of UTF-8 they need, as with real tokenizers. `TokenEstimator` corrects the
estimate by the service's counts.

Truncation hides half of the visible messages, repeatedly, until the rest fits. The first message
stays, and the messages after it begin with a reply of the model, so no result is without its call.
If the last turn alone is too long, texts are cut in their middle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from weakref import WeakKeyDictionary

import msgspec
from msgspec import UNSET, Struct

from joey.core import messages as msg
from joey.core.history.visible import truncate_message
from joey.core.models import ModelInfo, ToolSpec

_MAX_FILL_RATIO = 0.9
"""Of a window, at most: counts are not exact."""
_MIN_TOKEN_RATIO = 0.5
"""A service that counts less than this of our estimate leaves something out of its count."""
_MIN_NEW_TOKEN_RATIO = 0.8
_MAX_TOKEN_RATIO = 3.0
_CUT_TOKEN_RATIO, _CUT_ADDED_RATIO = 0.8, 0.3
INHERIT_THRESHOLD = -1
_VALID_THRESHOLDS = range(5, 101)


class ContextWindow(Struct, frozen=True):
    size: int
    reserved_for_reply: int

    @classmethod
    def from_model(cls, model: ModelInfo) -> ContextWindow:
        # In a small window, the prompt needs most of it.
        share = 8 if model.has_small_window else 3
        return cls(
            model.context_window, min(model.max_output_tokens, model.context_window // share)
        )

    @property
    def soft_limit(self) -> int:
        """The size that a request may reach before room is made."""
        return int(self.size * _MAX_FILL_RATIO) - self.reserved_for_reply

    @property
    def hard_limit(self) -> int:
        """The size that a request may reach if no more room can be made."""
        return int(self.size * _MAX_FILL_RATIO) - min(self.reserved_for_reply, self.size // 8)


class TokenTotals(Struct, frozen=True):
    """The counts from which the size of a conversation is told."""

    prefix_sums: Sequence[int]
    """Estimates of its first n messages, for every n."""
    last_reply_index: int | None


class TokenEstimator:
    """Estimates the requests of one task, corrected by the service's counts. `min_ratio` rises when
    the service rejects a request as too long: from then on, such an estimate means a full window,
    whatever the catalogue and the service's counts say."""

    def __init__(self) -> None:
        self.message_token_cache = MessageTokenCache()
        self.ratio = 1.0
        """Tokens by the service's count for each that we estimate."""
        self.min_ratio = _MIN_TOKEN_RATIO
        self.usage_at_condense_failure: int | None = None
        self._last_tools_estimate: tuple[Sequence[ToolSpec], int] = ((), 0)
        self._last_head_tokens: int | None = None
        """The estimate of prompt and tools in the latest request."""
        self._model_id = ""
        self._request_count_at_model_change = -1
        self._last_count: tuple[int, int] | None = None
        """Of the latest request, if the service counted few of its tokens: estimate and count."""

    def set_model(self, model_id: str, requests: int) -> None:
        """Set the model of the next request, after this many requests. Each model counts
        differently."""
        if self._model_id and self._model_id != model_id:
            self.ratio, self.min_ratio = 1.0, _MIN_TOKEN_RATIO
            self._last_head_tokens, self._request_count_at_model_change = None, requests
        self._model_id = model_id

    def is_count_current(self, requests: int) -> bool:
        """Whether the latest count is from the model of the next request."""
        return requests != self._request_count_at_model_change

    def estimate_tools(self, tools: Sequence[ToolSpec]) -> int:
        """Estimate a list of tools, cached because it rarely changes."""
        if tools is not self._last_tools_estimate[0]:
            self._last_tools_estimate = (tools, estimate_tools_tokens(tools))
        return self._last_tools_estimate[1]

    def record_request(self, head: int) -> None:
        """Record that a request with these estimates is sent."""
        self._last_head_tokens = head

    def estimate_usage(
        self, head: int, conversation: TokenTotals, new: int, counted: int | None
    ) -> int:
        """Estimate the size of a request: `head` and `new` are estimates of prompt and tools, and
        of new blocks that are not among the messages yet. `counted` is the service's count for its
        latest answered request: everything before its last reply."""
        answered, sums = conversation.last_reply_index, conversation.prefix_sums
        if counted is None or answered is None:
            return self.scale_estimate(head + sums[-1] + new)
        known_head = head if self._last_head_tokens is None else self._last_head_tokens
        known = known_head + sums[answered]
        self.ratio = counted / max(1, known)
        added = sums[-1] - sums[answered] + new + head - known_head
        return max(counted, int(self.min_ratio * known)) + self.scale_estimate(max(0, added))

    def sum_messages(self, messages: Sequence[msg.Message]) -> TokenTotals:
        replies = (n for n in reversed(range(len(messages))) if messages[n].role == "assistant")
        sums = self.message_token_cache.build_prefix_sums(messages)
        return TokenTotals(sums, next(replies, None))

    def scale_estimate(self, estimate: int) -> int:
        """Convert an estimate to the service's tokens, rather too high than too low."""
        return int(estimate * self.clamped_ratio)

    @property
    def clamped_ratio(self) -> float:
        return max(min(self.ratio, _MAX_TOKEN_RATIO), _MIN_NEW_TOKEN_RATIO, self.min_ratio)

    @property
    def has_overflowed(self) -> bool:
        return self.min_ratio > _MIN_TOKEN_RATIO

    def record_overflow(self, estimate: int, size: int) -> None:
        """Record that the service rejected a request of this estimate, with this window size."""
        self.min_ratio = max(self.min_ratio, size / max(1, estimate))

    def is_cut(self, estimate: int, counted: int) -> bool:
        """Whether the service seems to truncate its prompts: it counted far less than the estimates
        of this request and the previous one, and little of the added part."""
        before, self._last_count = self._last_count, None
        if not 0 < counted < _CUT_TOKEN_RATIO * estimate:
            return False
        self._last_count = (estimate, counted)
        if before is None or estimate <= before[0]:
            return False
        added = (counted - before[1]) / (estimate - before[0])
        return added < _CUT_ADDED_RATIO or counted < _MIN_TOKEN_RATIO * estimate


class CondenseThreshold(Struct, frozen=True):
    percent: int
    problem: str | None = None


def resolve_condense_threshold(
    percent: int, by_profile: Mapping[str, int], profile: str
) -> CondenseThreshold:
    """Return how full the window may get with this profile, in percent."""
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
_encode_json = msgspec.json.Encoder().encode


def estimate_text_tokens(text: str) -> int:
    size = len(text)
    if not text.isascii():
        size += (len(text.encode(errors="replace")) - size) * 3 // 2
    return -(-size // CHARACTERS_PER_TOKEN)


def estimate_block_tokens(block: msg.Block) -> int:
    match block:
        case msg.TextBlock(text=text) | msg.RedactedThinkingBlock(data=text):
            tokens = estimate_text_tokens(text)
        case msg.UnsignedReasoningBlock(text=text, encrypted_content=encrypted):
            tokens = estimate_text_tokens(text) + estimate_text_tokens(encrypted or "")
        case msg.ThinkingBlock(thinking=thinking, signature=signature):
            tokens = estimate_text_tokens(thinking) + estimate_text_tokens(signature)
        case msg.ToolUseBlock(name=name, input=arguments):
            tokens = (
                estimate_text_tokens(name)
                + estimate_text_tokens(_encode_json(arguments).decode())
                + _TOKENS_PER_BLOCK
            )
        case msg.ToolResultBlock(content=content):
            parts = (msg.TextBlock(content),) if isinstance(content, str) else content
            tokens = estimate_blocks_tokens(parts)
        case msg.ImageBlock():
            tokens = _TOKENS_PER_IMAGE
    return tokens + _TOKENS_PER_BLOCK


def estimate_blocks_tokens(blocks: Iterable[msg.Block]) -> int:
    return sum(estimate_block_tokens(block) for block in blocks)


def estimate_tools_tokens(tools: Sequence[ToolSpec]) -> int:
    return estimate_text_tokens(_encode_json(tools).decode()) if tools else 0


class MessageTokenCache:
    """Token counts of messages, each computed once per message."""

    def __init__(self) -> None:
        self._estimates: WeakKeyDictionary[msg.Message, int] = WeakKeyDictionary()
        self._last_messages: Sequence[msg.Message] = []
        self._last_prefix_sums: list[int] = [0]

    def estimate(self, message: msg.Message) -> int:
        count = self._estimates.get(message)
        if count is None:
            count = self._estimates[message] = _estimate_message_tokens(message)
        return count

    def estimate_all(self, messages: Iterable[msg.Message]) -> int:
        return sum(map(self.estimate, messages))

    def build_prefix_sums(self, messages: Sequence[msg.Message]) -> Sequence[int]:
        """Compute the sums of the first n counts, for every n. Conversations grow at the end, so
        earlier sums are reused."""
        most = min(len(self._last_messages), len(messages))
        ends = range(most, max(0, most - _MAX_CHANGED_TAIL_MESSAGES), -1)
        same = next((end for end in ends if self._last_messages[:end] == messages[:end]), 0)
        sums = self._last_prefix_sums[: same + 1]
        for message in messages[same:]:
            sums.append(sums[-1] + self.estimate(message))
        self._last_messages, self._last_prefix_sums = messages, sums
        return sums


def _estimate_message_tokens(message: msg.Message) -> int:
    tokens = estimate_blocks_tokens(msg.get_blocks(message)) + _TOKENS_PER_MESSAGE
    if message.reasoning_details is not UNSET:
        tokens += estimate_text_tokens(_encode_json(message.reasoning_details).decode())
    if isinstance(message.reasoning_content, str):
        tokens += estimate_text_tokens(message.reasoning_content)
    return tokens


MAX_TRUNCATED_TEXT_CHARS = 32_768
MIN_TRUNCATED_TEXT_CHARS = 512


class TruncationPlan(Struct, frozen=True):
    hidden_message_count: int
    max_text_chars: int | None
    remaining_token_estimate: int


def plan_truncation(
    visible: Sequence[msg.Message],
    open_results: Sequence[msg.Message],
    counts: MessageTokenCache,
    fits: Callable[[int], bool],
) -> TruncationPlan | None:
    """Plan which visible messages to hide so that the estimate fits, or comes close; None if
    nothing can be hidden."""
    if not visible:
        return None
    first, *others = (message for message in visible if not message.is_truncation_marker)
    reply_indexes = [index for index, message in enumerate(others) if message.role == "assistant"]

    def estimate(hidden: int) -> int:
        return counts.estimate_all((first, *others[hidden:], *open_results))

    hidden, total = 0, estimate(0)
    while not fits(total) and (next_cut := _find_next_cut(reply_indexes, hidden, len(others))):
        hidden, total = next_cut, estimate(next_cut)
    stays = (first, *others[hidden:], *open_results)
    max_text_chars = None if fits(total) else _find_max_text_chars(stays, fits)
    if max_text_chars is not None:
        total = _estimate_shortened(stays, max_text_chars)
    if not hidden and max_text_chars is None:
        return None
    return TruncationPlan(hidden, max_text_chars, total)


def _find_next_cut(reply_indexes: Sequence[int], hidden: int, count: int) -> int | None:
    """Find the next cut: about half of the rest; finally all but the latest reply."""
    goal = hidden + (count - hidden) // 2
    later = [index for index in reply_indexes if index > hidden]
    nearest = [index for index in later if index <= goal]
    return nearest[-1] if nearest else later[0] if later else None


def _find_max_text_chars(
    messages: Sequence[msg.Message], fits: Callable[[int], bool]
) -> int | None:
    """Find the maximum length of texts; None if cutting them would change nothing."""
    longest = MAX_TRUNCATED_TEXT_CHARS
    while longest > MIN_TRUNCATED_TEXT_CHARS and not fits(_estimate_shortened(messages, longest)):
        longest //= 2
    is_shorter = any(truncate_message(message, longest) is not message for message in messages)
    return longest if is_shorter else None


def _estimate_shortened(messages: Sequence[msg.Message], max_text_chars: int) -> int:
    return MessageTokenCache().estimate_all(
        truncate_message(message, max_text_chars) for message in messages
    )
