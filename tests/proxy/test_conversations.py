"""Sessions: which recorded requests are one conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from joey.proxy.conversations import RequestKind
from joey.proxy.exchange import ExchangeState
from joey.proxy.recordings import Recordings
from tests.harness.proxy.conversing import TOOLS, build_request, build_response
from tests.harness.proxy.filing import ANTHROPIC_PATH, CHAT_PATH, RESPONSES_PATH, open_recordings

WIRES = (ANTHROPIC_PATH, CHAT_PATH, RESPONSES_PATH)
ASKED = [("user", "Tidy the tests, please.")]
Messages = list[tuple[str, str]]


def record(
    path: Path, turns: list[tuple[Messages, str]], wire: str = CHAT_PATH, **fields: Any
) -> Recordings:
    """Requests in order, each with the text of its reply."""
    exchanges = [
        {
            "request": build_request(wire, messages),
            "response": build_response(wire, reply),
            "path": wire,
            "at": number * 1_000,
            **fields,
        }
        for number, (messages, reply) in enumerate(turns, 1)
    ]
    return open_recordings(path / "book.sqlite", exchanges)


def list_kinds(recordings: Recordings) -> list[list[RequestKind]]:
    """Of the requests of each session."""
    sessions = recordings.list_sessions()
    return [[turn.kind for turn in recordings.list_turns(each.id)] for each in sessions]


def go_on(messages: Messages, reply: str, said: str) -> Messages:
    return [*messages, ("assistant", reply), ("user", said)]


@pytest.mark.parametrize("wire", WIRES)
def test_interleaved_conversations_with_the_same_first_message_stay_apart(
    tmp_path: Path, wire: str
) -> None:
    left, right = "I begin with the slow tests.", "I begin with the flaky tests."
    recordings = record(
        tmp_path,
        [
            (ASKED, left),
            (ASKED, right),
            (go_on(ASKED, left, "Go on"), "Left."),
            (go_on(ASKED, right, "Go on"), "Right."),
        ],
        wire,
    )
    assert list_kinds(recordings) == [[RequestKind.FIRST, RequestKind.NEXT]] * 2
    first, second = (recordings.list_turns(n) for n in (1, 2))
    assert [turn.exchange_id for turn in first] == [1, 3]
    assert [turn.exchange_id for turn in second] == [2, 4]


def test_reply_that_the_client_trimmed_continues_its_conversation(tmp_path: Path) -> None:
    reply = "Two of them are slow.\n"
    turns = [(ASKED, reply), (go_on(ASKED, reply.strip(), "Fix them"), "Fixed.")]
    assert list_kinds(record(tmp_path, turns)) == [[RequestKind.FIRST, RequestKind.NEXT]]


def test_edited_and_condensed_requests_stay_in_their_session(tmp_path: Path) -> None:
    reply, later = "There are two kinds of tests here.", "The second kind is the slower one."
    long = go_on(go_on(ASKED, reply, "Which is slower?"), later, "Why?")
    edited = go_on([("user", "Tidy the docs, please.")], reply, "Which is slower?")
    condensed = [("user", "Summary: tests."), ("assistant", later), ("user", "And now?")]
    recordings = record(
        tmp_path,
        [(ASKED, reply), (long[:3], later), (long, "Fixtures."), (edited, "B."), (condensed, "C.")],
    )
    next_kinds = [RequestKind.NEXT] * 2 + [RequestKind.EDITED] * 2
    assert list_kinds(recordings) == [[RequestKind.FIRST, *next_kinds]]


def test_short_reply_that_many_models_give_joins_nothing(tmp_path: Path) -> None:
    other = go_on([("user", "Something else")], "Done.", "Thanks")
    recordings = record(tmp_path, [(ASKED, "Done."), (other, "Welcome.")])
    assert list_kinds(recordings) == [[RequestKind.FIRST], [RequestKind.FIRST]]


def test_edited_message_before_a_short_reply_stays_in_its_session(tmp_path: Path) -> None:
    edited = go_on([("user", "Tidy the docs, please.")], "Done.", "Thanks")
    recordings = record(tmp_path, [(ASKED, "Done."), (edited, "Welcome.")])
    assert list_kinds(recordings) == [[RequestKind.FIRST, RequestKind.EDITED]]


@pytest.mark.parametrize(
    ("system", "kind"),
    [
        ("You are the memory extraction subagent of a coding agent.", RequestKind.SIDE),
        ("You are a helper for questions about tests.", RequestKind.NEXT),
    ],
)
def test_subagent_that_continues_the_messages_is_a_side_request(
    tmp_path: Path, system: str, kind: RequestKind
) -> None:
    """Qwen Code's, and not a change of the mode, which also has another prompt and fewer tools."""
    reply = "There are two kinds of tests here."
    main = build_request(CHAT_PATH, ASKED, tools=TOOLS)
    messages = go_on(ASKED, reply, "Go on")
    other = build_request(CHAT_PATH, messages, tools=TOOLS[1:], system=system)
    exchanges: list[dict[str, Any]] = [
        {"request": main, "response": build_response(CHAT_PATH, reply), "at": 1},
        {"request": other, "response": build_response(CHAT_PATH, "Done."), "at": 2},
    ]
    recordings = open_recordings(tmp_path / "book.sqlite", exchanges)
    assert list_kinds(recordings) == [[RequestKind.FIRST, kind]]


def test_test_traffic_with_much_the_same_history_stays_apart(tmp_path: Path) -> None:
    other = go_on([("user", "Tidy the docs, please.")], "Done.", "Thanks")
    turns = [(ASKED, "Done."), (other, "Welcome.")]
    recordings = record(tmp_path, turns, user_agent="axios/1.13.1")
    assert list_kinds(recordings) == [[RequestKind.FIRST], [RequestKind.FIRST]]


def test_retry_after_an_error_belongs_to_the_same_session(tmp_path: Path) -> None:
    request = build_request(CHAT_PATH, ASKED)
    error = {"error": {"message": "Slow down."}}
    exchanges: list[dict[str, Any]] = [
        {"request": request, "response": str(error), "status": 429, "at": 1},
        {
            "request": request,
            "response": build_response(CHAT_PATH, "I beg")[:40],
            "state": ExchangeState.CUT_UPSTREAM,
            "at": 2,
        },
        {"request": request, "response": build_response(CHAT_PATH, "I begin now."), "at": 3},
        {"request": request, "response": build_response(CHAT_PATH, "Another one."), "at": 4},
    ]
    recordings = open_recordings(tmp_path / "book.sqlite", exchanges)
    retried = [RequestKind.FIRST, RequestKind.RETRY, RequestKind.RETRY]
    assert list_kinds(recordings) == [retried, [RequestKind.FIRST]]


@pytest.mark.parametrize("title_first", [True, False])
def test_title_request_is_a_side_request_of_its_conversation(
    tmp_path: Path, title_first: bool
) -> None:
    main = {"request": build_request(CHAT_PATH, ASKED, tools=TOOLS)}
    quoted = [("user", f"Write a title for this: {ASKED[0][1]}")]
    title = {"request": build_request(CHAT_PATH, quoted, system="You write titles.")}
    exchanges = [
        {**each, "at": n, "response": build_response(CHAT_PATH, f"Reply number {n} of the model")}
        for n, each in enumerate((title, main) if title_first else (main, title))
    ]
    recordings = open_recordings(tmp_path / "book.sqlite", exchanges)
    (session,) = recordings.list_sessions()
    kinds = {RequestKind.SIDE, RequestKind.FIRST}
    assert {turn.kind for turn in recordings.list_turns(session.id)} == kinds
    assert (session.title, session.turns, session.requests) == (ASKED[0][1], 1, 2)


@pytest.mark.parametrize(
    "given",
    [
        {"headers": (("session_id", "0199-aa"),)},
        {"fields": {"prompt_cache_key": "019a9d6c-0f2f-7b30-8d4c-9a1c"}},
        {"fields": {"metadata": {"user_id": "user_1_account__session_0b9e7c1d-aa"}}},
        {"fields": {"metadata": {"user_id": '{"session_id": "0b9e7c1d"}'}}},
    ],
)
def test_id_of_the_client_joins_requests_that_share_nothing(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    exchanges: list[dict[str, Any]] = [
        {
            "request": build_request(CHAT_PATH, [("user", text)], **given.get("fields", {})),
            "response": build_response(CHAT_PATH, "Ok."),
            "headers": given.get("headers", ()),
            "at": at,
        }
        for at, text in enumerate(("One thing", "Another thing"))
    ]
    (session,) = open_recordings(tmp_path / "book.sqlite", exchanges).list_sessions()
    assert session.requests == 2


def test_requests_that_are_no_conversation_are_in_no_session(tmp_path: Path) -> None:
    exchanges: list[dict[str, Any]] = [
        {"request": b"not json", "path": CHAT_PATH},
        {"request": {"input": "text"}, "path": "/v1/embeddings"},
    ]
    recordings = open_recordings(tmp_path / "book.sqlite", exchanges)
    assert recordings.list_sessions() == []
    assert [turn.kind for turn in recordings.list_turns(0)] == [RequestKind.OTHER] * 2


def test_exchanges_filed_later_join_their_session(tmp_path: Path) -> None:
    reply = "Two of them are slow."
    recordings = record(tmp_path, [(ASKED, reply)])
    recordings.book.close()
    record(tmp_path, [(go_on(ASKED, reply, "Fix them"), "Fixed.")], at=9_000).book.close()
    recordings = open_recordings(tmp_path / "book.sqlite", [])
    assert list_kinds(recordings) == [[RequestKind.FIRST, RequestKind.NEXT]]
