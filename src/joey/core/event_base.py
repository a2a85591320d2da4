"""What every event has, and the figures that several of them carry."""

from __future__ import annotations

from msgspec import Struct


class EventBase(Struct, frozen=True, omit_defaults=True, tag_field="event", kw_only=True):
    ts: int


class TokenUsage(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Totals of a task, in the words of the WebSocket API."""

    total_tokens_in: int = 0
    total_tokens_out: int = 0
    total_cache_writes: int = 0
    total_cache_reads: int = 0
    total_cost: float = 0.0
    context_tokens: int = 0
    """Tokens of the latest request and its reply: what the window holds now."""

    def plus(self, other: TokenUsage) -> TokenUsage:
        """Both together; the window is this task's own."""
        return TokenUsage(
            total_tokens_in=self.total_tokens_in + other.total_tokens_in,
            total_tokens_out=self.total_tokens_out + other.total_tokens_out,
            total_cache_writes=self.total_cache_writes + other.total_cache_writes,
            total_cache_reads=self.total_cache_reads + other.total_cache_reads,
            total_cost=self.total_cost + other.total_cost,
            context_tokens=self.context_tokens,
        )


class Spent(Struct, frozen=True, omit_defaults=True):
    """What limits are set for."""

    turns: int = 0
    """Replies."""
    requests: int = 0
    calls: int = 0
    """Calls in replies, but for those that hand over a result."""
    tokens: int = 0
    """Sent and received."""
    cost: float = 0.0

    def plus(self, other: Spent) -> Spent:
        return Spent(
            turns=self.turns + other.turns,
            requests=self.requests + other.requests,
            calls=self.calls + other.calls,
            tokens=self.tokens + other.tokens,
            cost=self.cost + other.cost,
        )

    def minus(self, other: Spent) -> Spent:
        return Spent(
            turns=self.turns - other.turns,
            requests=self.requests - other.requests,
            calls=self.calls - other.calls,
            tokens=self.tokens - other.tokens,
            cost=self.cost - other.cost,
        )


class ToolTally(Struct, frozen=True):
    attempts: int = 0
    failures: int = 0
