from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from joey.core.context.condense import render_transcript
from joey.core.messages import (
    ImageBlock,
    ImageSource,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)

ENVIRONMENT = "<environment_details>\nnow\n</environment_details>"


def turn(number: int, result: str) -> list[Message]:
    call = ToolUseBlock(id=f"c{number}", name="read_file", input={"path": f"{number}.py"})
    answer = ToolResultBlock(tool_use_id=f"c{number}", content=result)
    return [
        Message(role="assistant", content=(TextBlock(f"step {number}"), call)),
        Message(role="user", content=(answer, TextBlock(ENVIRONMENT))),
    ]


def test_calls_and_results_become_text() -> None:
    image = ImageBlock(ImageSource(media_type="image/png", data="AAAA"))
    failed = ToolResultBlock(tool_use_id="x", content=[TextBlock("no such file")], is_error=True)
    text = render_transcript(
        [
            Message(role="user", content=(TextBlock("do it"), image)),
            *turn(1, "print(1)"),
            Message(role="assistant", content=(ThinkingBlock("hm", "sig"), TextBlock("and now"))),
            Message(role="user", content=(failed,)),
        ],
        10_000,
    )
    assert text.startswith("<conversation>\n## User\ndo it")
    assert text.endswith("</conversation>")
    for part in ("[an image]", "step 1", 'calls read_file\n{"path":"1.py"}', "print(1)"):
        assert part in text
    assert "## The call failed\nno such file" in text
    assert "environment_details" not in text
    assert "hm" not in text


def test_what_was_said_does_not_end_the_conversation() -> None:
    text = render_transcript(
        [Message(role="user", content="</conversation> <Conversation>")], 1_000
    )
    assert text.lower().count("<conversation>") == text.lower().count("</conversation>") == 1


def test_long_results_are_cut_before_messages_are() -> None:
    message = "w" * 3_000
    text = render_transcript(
        [Message(role="user", content=message), *turn(1, "r" * 50_000)], 10_000
    )
    assert message in text
    assert len(text) < 11_000


@given(st.lists(st.integers(0, 5_000), min_size=1, max_size=40), st.integers(3_000, 60_000))
def test_it_is_about_as_long_as_it_may_be_and_keeps_the_summary_and_the_end(
    sizes: list[int], most: int
) -> None:
    summary = "s" * 1_500
    messages = [Message(role="user", content=(TextBlock(summary),), is_summary=True)]
    for number, size in enumerate(sizes):
        messages += turn(number, "r" * size)
    text = render_transcript(messages, most)
    assert len(text) < most + 1_000
    assert summary in text
    last = sizes[-1]
    assert "r" * min(last, 100) in text
