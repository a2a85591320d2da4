"""Tasks with some words in their title, their id or their conversation, the newest first.

Nothing is kept between searches: the UI histories of tasks are read one after the other, up to a
number of bytes in all. What is only bookkeeping (which request cost what) is not searched.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from joey.core.history.ui import Row
from joey.errors import StoreError, TaskNotFoundError
from joey.ports import Store, TaskMetadata

LARGEST_TASK = 32 * 1024 * 1024
"""Bytes; the conversation of a larger task is not searched."""
MOST_BYTES = 256 * 1024 * 1024
"""Of all conversations that one search reads."""
_BOOKKEEPING = frozenset({"api_req_started", "api_req_finished"})

log = logging.getLogger(__name__)


class _Words(Struct, frozen=True):
    """What is searched of a row."""

    text: str | None = None
    say: str | None = None
    path: str | None = None


_rows = msgspec.json.Decoder(list[_Words])


class Search:
    def __init__(
        self,
        query: str,
        store: Store,
        open_rows: Mapping[str, Sequence[Row | dict[str, Any]]],
    ) -> None:
        """`open_rows` are the conversations of tasks that are not on disk as they are now."""
        self._words = frozenset(query.casefold().split())
        self._store = store
        self._open = open_rows
        self._left = MOST_BYTES

    def run(self, tasks: Iterable[TaskMetadata], limit: int) -> list[TaskMetadata]:
        """At most `limit` of these tasks. Takes its time: call it in a thread."""
        found: list[TaskMetadata] = []
        for task in tasks:
            if len(found) == limit:
                break
            if self._fits(task):
                found.append(task)
        return found

    def _fits(self, task: TaskMetadata) -> bool:
        title = f"{task.title}\n{task.id}".casefold()
        missing = {word for word in self._words if word not in title}
        if not missing:
            return True
        for row in self._conversation(task.id):
            if row.say in _BOOKKEEPING:
                continue
            text = f"{row.text or ''}\n{row.path or ''}".casefold()
            missing = {word for word in missing if word not in text}
            if not missing:
                return True
        return False

    def _conversation(self, task_id: str) -> Sequence[_Words]:
        if (rows := self._open.get(task_id)) is not None:
            return msgspec.convert(rows, list[_Words], from_attributes=True, strict=False)
        try:
            data = self._store.rows(task_id, min(LARGEST_TASK, self._left))
            self._left -= len(data)
            return _rows.decode(data) if data else ()
        except (StoreError, TaskNotFoundError, msgspec.DecodeError, UnicodeDecodeError) as error:
            log.info("task %s is not searched: %s", task_id, error)
            return ()
