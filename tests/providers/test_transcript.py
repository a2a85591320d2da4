"""A conversation's bytes are made once, and are right whatever becomes of the conversation."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from joey.core.messages import Message, TextBlock
from joey.providers.conversation_encoder import IncrementalConversationEncoder


def is_users(message: Message) -> bool:
    return message.role == "user"


def encode(message: Message, *, mark: bool) -> bytes:
    text = message.content if isinstance(message.content, str) else ""
    return f"{text}{'*' if mark else ''}".encode() if text else b""


def message(number: int) -> Message:
    return Message(role="user" if number % 2 == 0 else "assistant", content=f"m{number}")


def expected(messages: list[Message], marks: int) -> bytes:
    users = [m for m in messages if is_users(m)]
    marked = users[-marks:] if marks else []
    return b",".join(filter(None, (encode(m, mark=m in marked) for m in messages)))


@given(
    st.lists(st.sampled_from(["grow", "rewind", "other", "empty"]), max_size=30), st.integers(0, 2)
)
def test_the_bytes_are_those_of_the_whole_conversation(steps: list[str], marks: int) -> None:
    transcript = IncrementalConversationEncoder(encode, marks, is_users)
    messages = [message(0)]
    for number, step in enumerate(steps, start=1):
        match step:
            case "grow":
                messages.append(message(len(messages)))
            case "rewind":
                messages = messages[: max(1, len(messages) // 2)]
            case "other":
                messages = [message(number), *map(message, range(1, len(messages)))]
            case "empty":
                messages.append(Message(role="assistant", content=(TextBlock(""),)))
        assert b"".join(transcript.encode_conversation(messages)) == expected(messages, marks)


def test_a_message_is_not_encoded_again_once_it_has_settled() -> None:
    times: Counter[str] = Counter()

    def counting(message: Message, *, mark: bool) -> bytes:
        times[str(message.content)] += 1
        return encode(message, mark=mark)

    transcript = IncrementalConversationEncoder(counting, 2, is_users)
    messages: list[Message] = []
    for number in range(200):
        messages.append(message(number))
        transcript.encode_conversation(messages)
    assert max(times.values()) <= 5
