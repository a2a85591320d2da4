"""An adopted history, cut at one of its rows.

Its two halves were stamped apart from each other, in this order: the row of a request, the
message that the request carries, rows of the reply while it streams, the reply, rows of its
calls. So a cut that takes the rows of a reply takes the reply, one that takes a request leaves
what it carried, and one that takes words of the person takes the message that they are in. What
a summary or a marker hid is visible again when its row goes, because it goes with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, structs

from joey.core.events import TaskAdopted
from joey.core.messages import Message, TextBlock, blocks_of, plain_text

_NO_BEGINNING = "[The beginning of this conversation is lost.]"
_REQUEST = "api_req_started"
_PERSONS = ("user_feedback", "user_feedback_diff")

_Row = dict[str, Any]


def beginning(event: TaskAdopted) -> Message:
    """What the person must have said before a history that begins with a reply."""
    first = event.rows[0] if event.rows else {}
    text = str(first.get("text") or "").strip() or _NO_BEGINNING
    return Message(role="user", content=(TextBlock(text),), ts=first.get("ts", UNSET))


def cut_adopted(event: TaskAdopted, row_ts: int) -> TaskAdopted:
    """The event as if the history had ended with this row."""
    rows = [row for row in event.rows if row["ts"] <= row_ts]
    gone = event.rows[len(rows) :]
    if not gone:
        return event
    if not rows:
        return structs.replace(event, rows=(), messages=())
    telling = [row for row in gone if "contextCondense" in row or "contextTruncation" in row]
    messages = [message for message in event.messages if not _is_undone(message, telling)]
    end = _end(messages, rows, gone[0])
    kept = messages[:end]
    if gone[0].get("say") != _REQUEST:
        kept += _words_of_reply(messages[end:], rows)
    return structs.replace(event, rows=tuple(rows), messages=tuple(kept))


def _end(messages: Sequence[Message], rows: Sequence[_Row], first_gone: _Row) -> int:
    """The place of the first message that goes."""
    ts = first_gone["ts"]
    later = [place for place, message in enumerate(messages) if (message.ts or 0) >= ts]
    if not later:
        return len(messages)
    if first_gone.get("say") in _PERSONS:
        # The reply that they are an answer to may have been stamped after them.
        exact = (place for place in later if messages[place].ts == ts)
        person = (place for place in later if _is_persons(messages[place]))
        return next(exact, next(person, later[0]))
    end = later[0]
    requests = [row["ts"] for row in (*rows, first_gone) if row.get("say") == _REQUEST]
    before = (messages[end - 1].ts or 0) if end else 0
    if _is_persons(messages[end]) and requests and requests[-1] > before:
        return end + 1
    return end


def _is_persons(message: Message) -> bool:
    return message.role == "user" and not message.is_summary and not message.is_truncation_marker


def _words_of_reply(going: Sequence[Message], rows: Sequence[_Row]) -> Sequence[Message]:
    """What stays of the first message that goes: words of it that rows still show."""
    if not going or going[0].role == "user" or going[0].is_summary:
        return ()
    reply = going[0]
    text = plain_text(blocks_of(reply))
    said: list[str] = []
    for row in reversed(rows[1:]):
        if row.get("say") == _REQUEST:
            break
        words = str(row.get("text") or "").strip()
        if row.get("say") == "text" and words and words in text:
            said.insert(0, words)
    if not said:
        return ()
    return (structs.replace(reply, content=tuple(map(TextBlock, said)), id=UNSET),)


def _is_undone(message: Message, telling: Sequence[_Row]) -> bool:
    """Whether it is a summary or a marker that one of these rows tells of."""
    if not message.is_summary and not message.is_truncation_marker:
        return False
    text = plain_text(blocks_of(message))
    for row in telling:
        match row:
            case {"contextCondense": {"condenseId": str(name)}}:
                undone = name == message.condense_id
            case {"contextTruncation": {"truncationId": str(name)}}:
                undone = name == message.truncation_id
            case {"contextCondense": {"summary": str(summary)}}:
                # Roo does not name the summaries that it was forced to write.
                undone = message.is_summary and bool(summary.strip()) and summary.strip() in text
            case _:
                undone = False
        if undone:
            return True
    return False
