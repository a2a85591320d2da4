"""Cache misses: where a request first differs from an earlier one, why, and what that cost.

A request is compared with the one that it continues and with the latest earlier ones on the same
model and service; the one with the most in common counts. What that one sent could have been read
from the cache: its tokens that were not are lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct, structs

from joey.core.messages import Usage
from joey.core.text import compile_regex
from joey.proxy.conversations import RequestKind
from joey.proxy.exchange import Exchange
from joey.proxy.pricing import compute_excess_cost
from joey.proxy.recordings import RecordedTurn, Recordings
from joey.proxy.request_blocks import BlockKind, ModelApi, ModelRequestBody, PromptBlock

_CHARACTERS_PER_TOKEN = 4
_CONTEXT_CHARS = 40
_MAX_LOADED = 16
_MIN_LOST_SHARE = 0.02
_CACHED_UNIT_TOKENS = 256
"""Services cache tokens in blocks, so a smaller loss than this on a hit is rounding."""
_LEAST_CACHED_TOKENS = 1024
_LEAST_BY_MODEL = (
    (compile_regex(r"claude-(?:opus-4-[5-9]|haiku-4-5)"), 4096),
    (compile_regex(r"claude-3-?5?-haiku|claude-haiku-3"), 2048),
)


class MissReason(StrEnum):
    CHANGED = "changed"
    EXPIRED = "expired"
    TOO_SMALL = "too_small"
    NO_MARK = "no_mark"
    OTHER_MODEL = "other_model"
    UNKNOWN = "unknown"
    NONE = "none"


class CacheMiss(Struct, frozen=True):
    """The first difference of a request from an earlier one, and its price."""

    block: int | None = None
    kind: BlockKind | None = None
    character: int | None = None
    before: str = ""
    after: str = ""
    tokens: int = 0
    cost: float = 0.0
    reason: MissReason = MissReason.NONE


class BlockDifference(Struct, frozen=True):
    block: int
    kind: BlockKind
    character: int
    before: str
    after: str


class ComparedRequests(Struct, frozen=True):
    """A request, the earlier one that it was compared with, and the result."""

    miss: CacheMiss
    earlier: RecordedTurn | None = None


class _LoadedTurn(Struct, frozen=True):
    turn: RecordedTurn
    exchange: Exchange
    request: ModelRequestBody


def find_difference(
    before: Sequence[PromptBlock], after: Sequence[PromptBlock], *, is_appended: bool = True
) -> BlockDifference | None:
    """Find the first different block. With `is_appended`, blocks after all the earlier ones are no
    difference, nor is a request with only a part of the earlier blocks."""
    for number, (old, new) in enumerate(zip(before, after, strict=False)):
        if old != new:
            character, old_text, new_text = _compare_texts(old, new)
            return BlockDifference(number, new.kind, character, old_text, new_text)
    shared = min(len(before), len(after))
    if is_appended or len(before) == len(after):
        return None
    old_blocks, new_blocks = before[shared:], after[shared:]
    kind = (new_blocks or old_blocks)[0].kind
    texts = (
        blocks[0].text[:_CONTEXT_CHARS] if blocks else "" for blocks in (old_blocks, new_blocks)
    )
    return BlockDifference(shared, kind, 0, *texts)


def count_shared_characters(before: Sequence[PromptBlock], after: Sequence[PromptBlock]) -> int:
    """Count the characters that both have in common from the beginning."""
    size = 0
    for old, new in zip(before, after, strict=False):
        if old != new:
            return size + _compare_texts(old, new)[0]
        size += len(new.text)
    return size


class CacheInspector:
    """Explains the cache misses of a book."""

    def __init__(self, recordings: Recordings) -> None:
        self._recordings = recordings
        self._loaded: dict[int, _LoadedTurn | None] = {}
        self._turns: tuple[int, list[RecordedTurn]] | None = None
        """The misses of the session inspected last."""

    def inspect(self, turn: RecordedTurn) -> ComparedRequests:
        loaded = self._load(turn)
        if loaded is None:
            return ComparedRequests(CacheMiss())
        if self._turns is None or self._turns[0] != turn.session:
            self._turns = (turn.session, self._recordings.list_turns(turn.session))
        earlier = [each for each in self._turns[1][: turn.turn - 1] if each.model]
        if same := self._select(loaded, earlier):
            best = max(same, key=lambda each: (_count_shared(each, loaded), each.turn.turn))
            return ComparedRequests(_explain(best, loaded), best.turn)
        others = [each for each in earlier if each.exchange_id == turn.parent]
        other = self._load(others[-1]) if others else None
        if other is None or _is_same_service(other, loaded):
            return ComparedRequests(CacheMiss())
        tokens = _count_lost_tokens(other, loaded)
        return ComparedRequests(_price(loaded, tokens, MissReason.OTHER_MODEL), other.turn)

    def compare(self, turn: RecordedTurn, earlier: RecordedTurn) -> ComparedRequests:
        """Compare two requests. Raises UserError if one of them is not a request to a model."""
        old, new = self._load(earlier), self._load(turn)
        if old is None or new is None:
            return ComparedRequests(CacheMiss(), earlier)
        difference = find_difference(old.request.blocks, new.request.blocks, is_appended=False)
        tokens = _count_lost_tokens(old, new)
        if difference is None:
            return ComparedRequests(CacheMiss(), earlier)
        return ComparedRequests(_price(new, tokens, MissReason.CHANGED, difference), earlier)

    def _select(self, new: _LoadedTurn, earlier: list[RecordedTurn]) -> list[_LoadedTurn]:
        """Select earlier requests with the same model and service: the parent, the latest, and the
        latest of the same kind (side request or not). Requests that a service rejected cached
        nothing."""
        chosen: dict[int, _LoadedTurn] = {}
        wanted = [True, True]
        for each in reversed(earlier):
            is_same_kind = (each.kind is RequestKind.SIDE) == (new.turn.kind is RequestKind.SIDE)
            is_parent = each.exchange_id == new.turn.parent
            if not is_parent and not wanted[0] and not (wanted[1] and is_same_kind):
                continue
            loaded = self._load(each) if each.model == new.turn.model else None
            if loaded is None or not _is_same_service(loaded, new):
                continue
            if not 200 <= loaded.exchange.status < 300:
                continue
            chosen[each.exchange_id] = loaded
            wanted = [False, wanted[1] and not is_same_kind]
        return list(chosen.values())

    def _load(self, turn: RecordedTurn) -> _LoadedTurn | None:
        if turn.exchange_id not in self._loaded:
            exchange = self._recordings.exchange(turn)
            request = self._recordings.request(turn)
            while len(self._loaded) >= _MAX_LOADED:
                self._loaded.pop(next(iter(self._loaded)))
            loaded = None if request is None else _LoadedTurn(turn, exchange, request)
            self._loaded[turn.exchange_id] = loaded
        return self._loaded[turn.exchange_id]


def _is_same_service(one: _LoadedTurn, other: _LoadedTurn) -> bool:
    return one.turn.model == other.turn.model and one.exchange.upstream == other.exchange.upstream


def _count_shared(old: _LoadedTurn, new: _LoadedTurn) -> int:
    return count_shared_characters(old.request.blocks, new.request.blocks)


def _explain(old: _LoadedTurn, new: _LoadedTurn) -> CacheMiss:
    difference = find_difference(old.request.blocks, new.request.blocks)
    tokens = _count_lost_tokens(old, new)
    if difference is not None:
        return _price(new, tokens, MissReason.CHANGED, difference)
    usage = new.turn.usage
    if usage is None or old.turn.usage is None or tokens <= usage.input * _MIN_LOST_SHARE:
        return CacheMiss()
    if usage.cache_reads and tokens < _CACHED_UNIT_TOKENS:
        return CacheMiss()
    return _price(new, tokens, _find_reason(old, new, old.turn.usage))


def _find_reason(old: _LoadedTurn, new: _LoadedTurn, sent: Usage) -> MissReason:
    """Find why nothing was read although nothing differs."""
    if new.request.cache_ttl_s is None or old.request.cache_ttl_s is None:
        return MissReason.NO_MARK
    if sent.input < _find_least_tokens(new.turn.model):
        return MissReason.TOO_SMALL
    ended = old.exchange.at / 1000 + old.exchange.seconds
    if new.exchange.at / 1000 - ended > old.request.cache_ttl_s:
        return MissReason.EXPIRED
    return MissReason.UNKNOWN


def _find_least_tokens(model: str) -> int:
    found = (least for pattern, least in _LEAST_BY_MODEL if pattern.search(model.lower()))
    return next(found, _LEAST_CACHED_TOKENS)


def _count_lost_tokens(old: _LoadedTurn, new: _LoadedTurn) -> int:
    """Count the tokens, as far as known, that the earlier request left in the cache and that were
    sent again but not read from it."""
    usage, sent = new.turn.usage, old.turn.usage
    if usage is not None and sent is not None and usage.input and sent.input:
        left = sent.cache_reads + sent.cache_writes
        left = left if left and old.request.api is ModelApi.MESSAGES else sent.input
        return max(0, min(left, usage.input) - usage.cache_reads)
    size = sum(len(block.text) for block in new.request.blocks)
    lost = max(0, size - _count_shared(old, new))
    if usage is not None and usage.input and size:
        return min(lost * usage.input // size, usage.input - usage.cache_reads)
    return lost // _CHARACTERS_PER_TOKEN


def _price(
    new: _LoadedTurn, tokens: int, reason: MissReason, difference: BlockDifference | None = None
) -> CacheMiss:
    usage = new.turn.usage  # if this is not known, the cost is not known either
    cost = 0.0
    if usage is not None:
        cost = compute_excess_cost(new.exchange.wire, new.turn.model, usage, tokens)
    place = {} if difference is None else structs.asdict(difference)
    return CacheMiss(**place, tokens=tokens, cost=cost, reason=reason)


def _compare_texts(old: PromptBlock, new: PromptBlock) -> tuple[int, str, str]:
    """Find the first different character, and the text around it in both."""
    before, after = old.text, new.text
    if before == after:
        before, after = f"{old.role} {old.labels}", f"{new.role} {new.labels}"
    end = min(len(before), len(after))
    character = next((n for n in range(end) if before[n] != after[n]), end)
    return character, _cut_excerpt(before, character), _cut_excerpt(after, character)


def _cut_excerpt(text: str, character: int) -> str:
    start, end = max(0, character - _CONTEXT_CHARS), character + _CONTEXT_CHARS
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
