"""What a task has used, in the words of a history item."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from joey.core.history.row_usage import usage_of_rows


def item_usage(rows: Iterable[dict[str, Any]]) -> dict[str, int | float]:
    usage = usage_of_rows(rows)
    return {
        "tokensIn": usage.total_tokens_in,
        "tokensOut": usage.total_tokens_out,
        "cacheWrites": usage.total_cache_writes,
        "cacheReads": usage.total_cache_reads,
        "totalCost": usage.total_cost,
    }
