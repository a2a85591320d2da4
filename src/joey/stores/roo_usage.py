"""What a task has used, added up from its rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from joey.stores.roo_files import whole_number

_COUNTS = ("tokensIn", "tokensOut", "cacheWrites", "cacheReads")


def usage_of_rows(rows: Iterable[dict[str, Any]]) -> dict[str, int | float]:
    """The counts and the cost of a history item."""
    totals: dict[str, int | float] = dict.fromkeys(_COUNTS, 0) | {"totalCost": 0.0}
    for row in rows:
        text = row.get("text")
        if row.get("say") != "api_req_started" or not isinstance(text, str):
            continue
        try:
            request = msgspec.json.decode(text, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            continue
        for name in _COUNTS:
            totals[name] += whole_number(request.get(name)) or 0
        cost = request.get("cost")
        totals["totalCost"] += cost if isinstance(cost, int | float) else 0
    return totals
