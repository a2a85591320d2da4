"""Task index in Postgres: lists and full-text search over the tasks of all hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from joey.ports.storage import FoundTask, TaskIndex, TaskMetadata, TaskPage, TaskQuery
from joey.storage.index_text import build_snippet, extract_conversation_text, parse_query_terms
from joey.storage.postgres.connection import SharedConnection, check_url
from joey.storage.postgres.metadata import UPDATED_MS, fetch_metadata
from joey.storage.postgres.schema import IS_ALIVE
from joey.storage.task_directory import TASK_DIRECTORY_PREFIX
from joey.storage.task_list import sort_newest_first

_SHORT_ID_CHARS = 13
_MAX_PREFIX_MATCHES = 1_000
_IS_HELD = f"exists (select 1 from joey.worker w where w.id = t.holder and {IS_ALIVE})"
_UNFINISHED = "t.status in ('created', 'running', 'waiting', 'delegated')"
_STATUS_CONDITIONS = {
    "interrupted": f"(t.status = 'aborted' or {_UNFINISHED} and not {_IS_HELD})",
    "running": f"(t.status in ('created', 'running') and {_IS_HELD})",
    "waiting": f"(t.status = 'waiting' and {_IS_HELD})",
    "delegated": f"(t.status = 'delegated' and {_IS_HELD})",
}
_HAS_RECORDS = "exists (select 1 from joey.record r where r.task_id = t.id)"
_NEWEST_FIRST = f"order by {UPDATED_MS} desc, t.id desc"


class PostgresTaskIndex:
    """Searches tables that are always up to date: every snapshot includes its text."""

    warnings: Sequence[str] = ()

    def __init__(self, url: str) -> None:
        self._connection = SharedConnection(check_url(url))

    def close(self) -> None:
        self._connection.close()

    def search(self, query: TaskQuery, *, refresh: bool = False) -> TaskPage:
        where, values = _build_conditions(query)
        if query.text is not None:
            match, terms = _build_match(query.text)
            if not terms:
                return TaskPage((), 0)
            where, values = f"{where} and t.words @@ ({match})", (*values, *terms)
        found = fetch_metadata(
            self._connection, f"{where} {_NEWEST_FIRST} limit %s", (*values, query.limit)
        )
        (total,) = self._connection.fetch(
            f"select count(*) from joey.task t where {where}", values
        )[0]
        return TaskPage(tuple(self._describe(task, query.text) for task in found), total)

    def find_by_prefix(self, id_prefix: str) -> Sequence[TaskMetadata]:
        bare = id_prefix.removeprefix(TASK_DIRECTORY_PREFIX)
        where = f"starts_with(t.id, %s) and {_HAS_RECORDS} order by t.id limit %s"
        return fetch_metadata(self._connection, where, (bare, _MAX_PREFIX_MATCHES))

    def list_descendants(self, task_id: str) -> Sequence[TaskMetadata]:
        where = """t.id <> %s and t.id in (
            with recursive below (id) as (
                values (%s::text collate "C") union
                select c.id from below b join joey.task c on c.parent_id = b.id)
            select id from below)"""
        return sort_newest_first(fetch_metadata(self._connection, where, (task_id, task_id)))

    def shorten_id(self, task_id: str) -> str:
        rows = self._connection.fetch(
            """(select id from joey.task where id < %s order by id desc limit 1)
               union all (select id from joey.task where id > %s order by id limit 1)""",
            (task_id, task_id),
        )
        size = _SHORT_ID_CHARS
        for (other,) in rows:
            while size < len(task_id) and other.startswith(task_id[:size]):
                size += 1
        return task_id[:size]

    def _describe(self, task: TaskMetadata, text: str | None) -> FoundTask:
        snippet = ""
        if text is not None:
            rows = self._connection.fetch("select ui from joey.task where id = %s", (task.id,))
            said = extract_conversation_text(bytes(rows[0][0] or b"")) if rows else ""
            snippet = build_snippet(said, text)
        return FoundTask(task, self.shorten_id(task.id), snippet)


def _build_conditions(query: TaskQuery) -> tuple[str, tuple[Any, ...]]:
    wanted: list[tuple[str, tuple[Any, ...]]] = [(_HAS_RECORDS, ())]
    if query.workspace is not None:
        wanted.append(("t.workspace = %s", (query.workspace,)))
    if query.status in _STATUS_CONDITIONS:
        wanted.append((_STATUS_CONDITIONS[query.status], ()))
    elif query.status is not None:
        wanted.append(("t.status = %s", (query.status,)))
    if query.updated_since is not None:
        wanted.append((f"{UPDATED_MS} >= %s", (query.updated_since,)))
    return " and ".join(each for each, _ in wanted), tuple(
        value for _, values in wanted for value in values
    )


def _build_match(text: str) -> tuple[str, tuple[str, ...]]:
    """Build SQL for all words, phrases and prefixes of a query, and its values."""
    terms: list[str] = []
    values: list[str] = []
    for term, is_prefix in parse_query_terms(text):
        plain = term.replace("\u200b", " ")
        terms.append("phraseto_tsquery('simple', %s)")
        if is_prefix:  # the last lexeme of the phrase gets the mark
            terms[-1] = "(phraseto_tsquery('simple', %s)::text || ':*')::tsquery"
        values.append(plain)
    return " && ".join(terms), tuple(values)


_protocol_check: type[TaskIndex] = PostgresTaskIndex
