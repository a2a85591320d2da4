"""Recordings of requests, for the page and other clients: shortened, and without secrets."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from threading import Lock
from typing import Literal

from joey.app.known_secrets import KNOWN_SECRETS
from joey.core.wire import recordings as wire
from joey.errors import UserError
from joey.proxy.book import BOOK_FILE, Book
from joey.proxy.cache_misses import CacheInspector, CacheMiss
from joey.proxy.filing import open_filed_book
from joey.proxy.recordings import RecordedSession, RecordedTurn, Recordings
from joey.proxy.reply_decoder import RecordedReply
from joey.proxy.request_blocks import PromptBlock, list_texts

_MAX_TEXT_CHARS = 2_000
_MAX_SAME_CHARS = 300
"""Of a block that both requests have."""
_CONTEXT_CHARS = 400
_MAX_CHANGED_CHARS = 8_000
_MAX_PAIRS = 400


class RecordingReader:
    """Reads one book; usable from any thread, one call at a time."""

    def __init__(self, home: Path) -> None:
        self._book = home / "proxy" / BOOK_FILE
        self._lock = Lock()

    def list_sessions(self, query: wire.GetRecordings) -> wire.RecordedSessions:
        if not self._book.exists():
            return wire.RecordedSessions(sessions=[], total=0)
        with self._lock, open_filed_book(self._book) as book:
            sessions = Recordings(book).list_sessions()
        newest = sorted(sessions, key=lambda each: (each.last, each.id), reverse=True)
        page = newest[query.offset : query.offset + query.limit]
        return wire.RecordedSessions(sessions=list(map(_build_session, page)), total=len(sessions))

    def read_session(self, query: wire.GetRecording) -> wire.RecordedConversation:
        with self._lock, self._open() as book:
            recordings = Recordings(book)
            turns = recordings.list_turns(query.session)
            sessions = {each.id: each for each in recordings.list_sessions()}
            inspector = CacheInspector(recordings)
            page = turns[query.offset : query.offset + query.limit]
            return wire.RecordedConversation(
                session=_build_session(sessions[query.session]),
                requests=[_build_request(recordings, inspector, turn) for turn in page],
                total=len(turns),
            )

    def compare(self, query: wire.CompareRecordedRequests) -> wire.RecordedComparison:
        with self._lock, self._open() as book:
            recordings = Recordings(book)
            inspector = CacheInspector(recordings)
            turn = recordings.find_turn(f"{query.session}.{query.turn}")
            if query.other is None:
                found = inspector.inspect(turn)
            else:
                other = recordings.find_turn(f"{query.session}.{query.other}")
                found = inspector.compare(turn, other)
            after, before = recordings.request(turn), None
            if found.earlier is not None:
                before = recordings.request(found.earlier)
        old, new = (each.blocks if each is not None else () for each in (before, after))
        count = max(len(old), len(new))
        pairs = zip_longest(old[:_MAX_PAIRS], new[:_MAX_PAIRS])
        return wire.RecordedComparison(
            session=query.session,
            turn=query.turn,
            other=found.earlier.turn if found.earlier else None,
            miss=_build_miss(found.miss),
            pairs=[_build_pair(number, *pair) for number, pair in enumerate(pairs)],
            total=count,
        )

    def _open(self) -> Book:
        """Open the book. Raises UserError if there is none; reading does not create one."""
        if not self._book.exists():
            raise UserError("nothing is recorded here yet")
        return open_filed_book(self._book)


def _build_session(session: RecordedSession) -> wire.RecordedSessionInfo:
    names = wire.RecordedSessionInfo.__struct_fields__
    values = {name: getattr(session, name) for name in names}
    return wire.RecordedSessionInfo(**values | {"title": KNOWN_SECRETS.redact(session.title)})


def _build_miss(miss: CacheMiss) -> wire.RecordedCacheMiss:
    return wire.RecordedCacheMiss(
        reason=miss.reason.value,
        tokens=miss.tokens,
        cost=miss.cost,
        block=miss.block,
        character=miss.character,
    )


def _build_request(
    recordings: Recordings, inspector: CacheInspector, turn: RecordedTurn
) -> wire.RecordedRequest:
    exchange, request = recordings.exchange(turn), recordings.request(turn)
    usage = turn.usage
    reply = "" if request is None else _join_reply(recordings.reply(turn, request))
    messages = request.messages if request is not None else ()
    last = messages[-1] if messages else None
    return wire.RecordedRequest(
        turn=turn.turn,
        at=exchange.at,
        kind=turn.kind.value,
        model=turn.model,
        status=exchange.status,
        state=exchange.state.value,
        task_id=exchange.task_id,
        first_byte_ms=exchange.first_byte_ms,
        seconds=exchange.seconds,
        usage=None
        if usage is None
        else wire.RecordedUsage(
            input=max(0, usage.input - usage.cache_reads - usage.cache_writes),
            output=usage.output,
            cache_reads=usage.cache_reads,
            cache_writes=usage.cache_writes,
        ),
        cost=turn.cost,
        miss=_build_miss(inspector.inspect(turn).miss),
        role=last.role if last is not None else "",
        message=_shorten("\n\n".join(list_texts(last)) if last is not None else ""),
        reply=_shorten(reply),
        error=_shorten(turn.error),
    )


def _join_reply(reply: RecordedReply) -> str:
    calls = (f"{call.name} {call.arguments}" for call in reply.calls)
    return "\n\n".join(filter(None, (reply.text, *calls)))


def _shorten(text: str) -> str:
    safe = KNOWN_SECRETS.redact(text)
    return safe if len(safe) <= _MAX_TEXT_CHARS else f"{safe[:_MAX_TEXT_CHARS]}…"


def _build_pair(
    number: int, old: PromptBlock | None, new: PromptBlock | None
) -> wire.RecordedBlockPair:
    block = new or old
    assert block is not None
    before, after = (KNOWN_SECRETS.redact(each.text) if each else "" for each in (old, new))
    shared = _count_shared(before, after)
    start = max(0, shared - _CONTEXT_CHARS)
    end = shared + _MAX_CHANGED_CHARS
    if old == new:
        start, end = 0, _MAX_SAME_CHARS
    elif old is None or new is None:
        start, shared = 0, 0
    return wire.RecordedBlockPair(
        block=number,
        kind=block.kind.value,
        role=block.role,
        state=_find_state(old, new),
        before=before[start:end],
        after=after[start:end],
        shared=min(shared, end) - start,
        before_start=start,
        before_chars=len(before),
        after_chars=len(after),
    )


def _find_state(
    old: PromptBlock | None, new: PromptBlock | None
) -> Literal["same", "changed", "added", "removed"]:
    if old is None:
        return "added"
    if new is None:
        return "removed"
    return "same" if old == new else "changed"


def _count_shared(before: str, after: str) -> int:
    pairs: Iterator[tuple[str, str]] = zip(before, after, strict=False)
    end = min(len(before), len(after))
    return next((number for number, (old, new) in enumerate(pairs) if old != new), end)
