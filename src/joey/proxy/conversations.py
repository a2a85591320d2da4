"""Conversations: to which session a recorded request belongs, and which request it continues.

1. The client gives an id (`clients.find_session_key`).
2. The request continues an earlier one: its messages begin with all messages of that one, and the
   reply follows. A request that failed is continued by the same messages, too.
3. It contains a reply of the model that an earlier one got: a message was edited, the conversation
   was rewound or condensed.
4. It is a side request (a title, a summary, a subagent) of a conversation that the same program
   has at the same time.
5. Else it begins a session: the same first message twice is two conversations.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from hashlib import sha256

from msgspec import Struct

from joey.core.edits.line_document import count_common_ends
from joey.core.text import compile_regex
from joey.proxy.exchange import Exchange
from joey.proxy.request_blocks import BlockKind, ModelRequestBody, PromptBlock, list_texts

_SIDE_WINDOW_MS = 60_000
_MIN_QUOTED_CHARS = 3
_MIN_TEXT_MARK_CHARS = 16
"""A shorter reply, such as `Done.`, occurs in many conversations, so it only matches after a
similar question."""
_MAX_SQL_VALUES = 500
_MAX_REPLIED = 16
_PROMPT_CHARS = 1000
_MAX_SIDE_MESSAGES = 2
"""The maximum length of a side request, such as one for a title; a longer one is a conversation."""
_SIDE_PROMPT_RE = compile_regex(
    r"\btitle\b|\bsummar|\btopic\b|\bnaming\b|\bname for\b|\bmemor(?:y|ies)\b|^quota$"
    r"|\bsuggest(?:ed|ion)",
    re.IGNORECASE,
)


class RequestKind(StrEnum):
    FIRST = "first"
    NEXT = "next"
    RETRY = "retry"
    """The same messages again, after a failure."""
    EDITED = "edited"
    """Contains an earlier reply, but not all messages before it."""
    SIDE = "side"
    OTHER = "other"
    """Not a request to a model, or one that could not be read."""


class Placement(Struct, frozen=True):
    """Where a request belongs."""

    session: int | None
    """None if the exchange begins a session."""
    parent: int | None
    kind: RequestKind
    side_of_this: int | None = None
    """An exchange that appeared to begin the session but turns out to be a side request."""


class _Candidate(Struct, frozen=True):
    exchange: int
    session: int
    kind: RequestKind
    messages: int
    has_failed: bool


def compute_prefix_hashes(messages: Sequence[PromptBlock]) -> list[bytes]:
    """Compute a hash of the first n messages, for every n."""
    hashes: list[bytes] = []
    value = b""
    for block in messages:
        value = sha256(value + block.digest).digest()[:16]
        hashes.append(value)
    return hashes


class ConversationFinder:
    """Finds the place of one request among those that arrived before it."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        exchange: Exchange,
        request: ModelRequestBody,
        load_request: Callable[[int], ModelRequestBody | None],
        *,
        is_test: bool,
    ) -> None:
        """`is_test`: tests often begin in the middle, with similar histories."""
        self._connection = connection
        self._exchange = exchange
        self._request = request
        self._messages = request.messages
        self._load_request = load_request
        self._is_test = is_test

    def find(self, key: str | None) -> Placement:
        continued = self._find_continued()
        if key is not None:
            return self._place_in_keyed_session(key, continued)
        if continued is not None:
            return continued
        side = None if self._is_test else self._find_side_session()
        return side or Placement(None, None, RequestKind.FIRST)

    def _find_continued(self) -> Placement | None:
        hashes = compute_prefix_hashes(self._messages)
        altered: Placement | None = None
        """A candidate whose reply the client has changed; a shared reply is stronger evidence."""
        was_answered = False
        """The same messages already got a reply, so sending them again begins another
        conversation."""
        for found in self._list_prefix_candidates(hashes):
            following = self._messages[found.messages :]
            is_side = found.kind is RequestKind.SIDE or self._is_subagent_of(found.exchange)
            kind = RequestKind.SIDE if is_side else RequestKind.NEXT
            if not following:
                was_answered = was_answered or not found.has_failed
                if not was_answered:
                    retry = RequestKind.SIDE if kind is RequestKind.SIDE else RequestKind.RETRY
                    return Placement(found.session, found.exchange, retry)
                continue
            if following[0].role != "assistant":
                if found.has_failed:
                    return Placement(found.session, found.exchange, kind)
                continue
            if not _collect_leading_marks(following).isdisjoint(self._list_marks(found.exchange)):
                return Placement(found.session, found.exchange, kind)
            altered = altered or Placement(found.session, found.exchange, kind)
        return self._find_shared_reply() or altered

    def _list_prefix_candidates(self, hashes: list[bytes]) -> list[_Candidate]:
        """List requests whose messages this one begins with: the longest first, then the latest."""
        found: list[_Candidate] = []
        for start in range(0, len(hashes), _MAX_SQL_VALUES):
            part = hashes[start : start + _MAX_SQL_VALUES]
            rows = self._connection.execute(
                "SELECT e.id, e.session, e.kind, p.messages,"
                " e.state != 'done' OR NOT EXISTS (SELECT 1 FROM reply r WHERE r.exchange = e.id)"
                " FROM prefix p JOIN exchange e ON e.id = p.exchange"
                f" WHERE p.hash IN ({','.join('?' * len(part))}) AND e.user_agent = ?"
                " AND (e.at, e.id) < (?, ?)",
                (*part, self._exchange.user_agent, self._exchange.at, self._exchange.id),
            )
            found += [_Candidate(a, b, RequestKind(c), d, bool(f)) for a, b, c, d, f in rows]
        return sorted(found, key=lambda each: (each.messages, each.exchange), reverse=True)

    def _list_marks(self, exchange: int) -> set[str]:
        rows = self._connection.execute("SELECT mark FROM reply WHERE exchange = ?", (exchange,))
        return {mark for (mark,) in rows}

    def _find_shared_reply(self) -> Placement | None:
        """Find the latest request whose reply this one contains."""
        found = self._find_replied()
        if found is None:
            return None
        number, session, kind = found
        if self._request.continued_reply and kind != RequestKind.SIDE:
            return Placement(session, number, RequestKind.NEXT)
        is_side = kind == RequestKind.SIDE or self._differs_in_prompt(number)
        return Placement(session, number, RequestKind.SIDE if is_side else RequestKind.EDITED)

    def _find_replied(self) -> tuple[int, int, RequestKind] | None:
        """Find its number, session and kind."""
        marks = {self._request.continued_reply} - {""}
        questions: dict[str, PromptBlock] = {}
        """Candidates by the marks of short replies."""
        for question, block in zip((None, *self._messages), self._messages, strict=False):
            telling = set(filter(_is_telling, block.reply_marks))
            marks |= telling
            if question is not None:
                questions |= dict.fromkeys(block.reply_marks - telling, question)
        if replied := self._list_replied(marks):
            return replied[0][:3]
        for number, session, kind, mark in self._list_replied(() if self._is_test else questions):
            other = self._load_request(number)
            if other is None or not other.messages or self._differs_in_prompt(number):
                continue
            if _is_much_the_same(other.messages[-1].text, questions[mark].text):
                return number, session, kind
        return None

    def _list_replied(self, marks: Iterable[str]) -> list[tuple[int, int, RequestKind, str]]:
        """List requests whose replies have one of these marks: the latest first."""
        found: list[tuple[int, int, RequestKind, str]] = []
        ordered = sorted(marks)
        for start in range(0, len(ordered), _MAX_SQL_VALUES):
            part = ordered[start : start + _MAX_SQL_VALUES]
            found += self._connection.execute(
                "SELECT e.id, e.session, e.kind, r.mark"
                " FROM reply r JOIN exchange e ON e.id = r.exchange"
                f" WHERE r.mark IN ({','.join('?' * len(part))}) AND e.user_agent = ?"
                " AND (e.at, e.id) < (?, ?) ORDER BY e.at DESC, e.id DESC LIMIT ?",
                (
                    *(*part, self._exchange.user_agent),
                    *(self._exchange.at, self._exchange.id, _MAX_REPLIED),
                ),
            ).fetchall()
        return sorted(found, reverse=True)

    def _place_in_keyed_session(self, key: str, continued: Placement | None) -> Placement:
        row = self._connection.execute("SELECT id FROM session WHERE key = ?", (key,)).fetchone()
        if row is None:
            is_own = continued is not None and not self._has_key(continued.session)
            return continued if is_own and continued else Placement(None, None, RequestKind.FIRST)
        (session,) = row
        if continued is not None and continued.session == session:
            return continued
        main = self._find_main_exchange(session)
        if main is None:
            return Placement(session, None, RequestKind.FIRST)
        other = self._load_request(main)
        if other is not None and _is_side_request(other, self._request, is_same_program=True):
            return Placement(session, None, RequestKind.FIRST, side_of_this=main)
        is_side = self._differs_in_prompt(main)
        return Placement(session, None, RequestKind.SIDE if is_side else RequestKind.EDITED)

    def _has_key(self, session: int | None) -> bool:
        sql = "SELECT key IS NOT NULL FROM session WHERE id = ?"
        row = self._connection.execute(sql, (session,)).fetchone()
        return bool(row and row[0])

    def _find_main_exchange(self, session: int) -> int | None:
        row = self._connection.execute(
            "SELECT id FROM exchange WHERE session = ? AND kind != ? ORDER BY at DESC, id DESC",
            (session, RequestKind.SIDE),
        ).fetchone()
        return None if row is None else int(row[0])

    def _find_side_session(self) -> Placement | None:
        """Find the concurrent conversation of the same program that this request, or a side request
        just before, refers to."""
        rows = self._connection.execute(
            "SELECT id, session FROM exchange WHERE user_agent = ? AND user_agent != ''"
            " AND session > 0 AND kind IN (?, ?, ?, ?)"
            " AND at + seconds * 1000 >= ? AND (at, id) < (?, ?)"
            " ORDER BY at DESC, id DESC LIMIT 8",
            (
                self._exchange.user_agent,
                *(RequestKind.FIRST, RequestKind.NEXT, RequestKind.RETRY, RequestKind.EDITED),
                self._exchange.at - _SIDE_WINDOW_MS,
                *(self._exchange.at, self._exchange.id),
            ),
        ).fetchall()
        for number, session in rows:
            other = self._load_request(number)
            if other is None:
                continue
            if _is_side_request(self._request, other):
                return Placement(session, None, RequestKind.SIDE)
            if _is_side_request(other, self._request):
                return Placement(session, None, RequestKind.FIRST, side_of_this=number)
        return None

    def _is_subagent_of(self, number: int) -> bool:
        """Whether this request continues the messages of another one for its own purpose."""
        other = self._load_request(number)
        if other is None or len(self._request.tools) >= len(other.tools):
            return False
        prompts = (each.system_prompt[:_PROMPT_CHARS] for each in (self._request, other))
        is_about, is_other_about = (bool(_SIDE_PROMPT_RE.search(prompt)) for prompt in prompts)
        return is_about and not is_other_about

    def _differs_in_prompt(self, number: int) -> bool:
        other = self._load_request(number)
        if other is None or _list_tool_names(other) == _list_tool_names(self._request):
            return False
        return _hash_system(other) != _hash_system(self._request)


def _is_side_request(
    request: ModelRequestBody, main: ModelRequestBody, *, is_same_program: bool = False
) -> bool:
    """Whether a request is about a conversation but not part of it: another prompt, fewer tools,
    and it quotes the user's message or asks for a title or the like. With `is_same_program`, the
    client itself has linked them."""
    if len(request.tools) >= max(1, len(main.tools)) or _hash_system(request) == _hash_system(main):
        return False
    if is_same_program:
        return bool(main.tools) and not request.tools
    texts = [text for block in request.messages for text in list_texts(block)]
    asked = main.first_user_text.strip()
    is_quoted = len(asked) >= _MIN_QUOTED_CHARS and any(asked in text for text in texts)
    is_short = len(request.messages) <= _MAX_SIDE_MESSAGES
    prompt = [request.system_prompt, *texts[:1], *texts[-1:]] if is_short else texts[-1:]
    is_about = any(_SIDE_PROMPT_RE.search(text[:_PROMPT_CHARS]) for text in prompt)
    return (is_quoted or is_about) if main.tools else (is_quoted and is_about)


def _collect_leading_marks(messages: Sequence[PromptBlock]) -> frozenset[str]:
    """Collect the marks of the reply that these messages begin with, which may be several items."""
    marks: set[str] = set()
    for block in messages:
        if block.role != "assistant":
            break
        marks |= block.reply_marks
    return frozenset(marks)


def _is_much_the_same(one: str, other: str) -> bool:
    """Whether an edit has kept half of a message."""
    return 2 * sum(count_common_ends(one, other)) >= max(len(one), len(other))


def _is_telling(mark: str) -> bool:
    kind, _, rest = mark.partition(" ")
    return kind != "text" or int(rest.partition(" ")[0]) >= _MIN_TEXT_MARK_CHARS


def _hash_system(request: ModelRequestBody) -> tuple[bytes, ...]:
    return tuple(block.digest for block in request.blocks if block.kind is BlockKind.SYSTEM)


def _list_tool_names(request: ModelRequestBody) -> list[str]:
    return [tool.name for tool in request.tools]
