"""A scripted server that plays another part to each conversation: the first message says which."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from joey.testing.script import Turn
from joey.testing.server import Request, TurnSelector, by_conversation


def by_first_message(parts: Mapping[str, Sequence[Turn]]) -> TurnSelector:
    def select(request: Request) -> Turn:
        first = json.dumps(request.body["messages"][0], ensure_ascii=False)
        part = next(name for name in parts if name in first)
        return by_conversation(parts[part])(request)

    return select
