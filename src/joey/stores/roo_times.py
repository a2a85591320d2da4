"""When messages of somebody else's history were said, as far as rows and messages tell.

A rewind cuts both histories at one moment, so every message needs a time on the clock of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from joey.core.messages import Message
from joey.stores.roo_rows import Row


def stamped(messages: list[Message], rows: list[Row]) -> list[Message]:
    """The messages, each with a time: its own, or else that of the one before it.

    Where none has one, or all are later than every row, times are made from the rows.
    """
    own = [message.ts for message in messages if isinstance(message.ts, int)]
    if len(own) == len(messages) and min(own) <= rows[-1]["ts"]:
        return messages
    if not own or min(own) > rows[-1]["ts"]:
        return [structs.replace(m, ts=ts) for m, ts in _by_requests(messages, rows)]
    known: list[Message] = []
    last = rows[0]["ts"]
    for message in messages:
        if isinstance(message.ts, int):
            last = message.ts
            known.append(message)
        else:
            known.append(structs.replace(message, ts=last))
    return known


def _by_requests(messages: list[Message], rows: list[Row]) -> Iterator[tuple[Message, int]]:
    """A request carries a message of the person; the reply ends before the next request."""
    end = rows[-1]["ts"]
    requests = [row["ts"] for row in rows if row.get("say") == "api_req_started"]
    number, before = -1, "assistant"
    for message in messages:
        if message.role == "user":
            number += before == "assistant"
            ts = rows[0]["ts"] if number <= 0 else _at(requests, number, end)
        else:
            ts = _at(requests, max(number, 0) + 1, end + 1) - 1
        before = message.role
        yield message, ts


def _at(requests: list[int], number: int, end: int) -> int:
    return requests[number] if number < len(requests) else end
