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


class ToolTally(Struct, frozen=True):
    attempts: int = 0
    failures: int = 0
