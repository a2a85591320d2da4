from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.core.context.window import (
    MessageTokenCache,
    estimate_block_tokens,
    estimate_text_tokens,
    estimate_tools_tokens,
)
from joey.core.messages import (
    ImageBlock,
    ImageSource,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from joey.core.models import ToolSpec


@given(st.text(max_size=200), st.text(max_size=200))
def test_more_text_is_never_fewer_tokens(first: str, second: str) -> None:
    assert estimate_text_tokens(first + second) >= estimate_text_tokens(first)


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 0, 0),
        ("def main() -> None:\n    return None\n" * 100, 900, 1300),
        ("漢字" * 100, 200, 300),
        ("Привет, мир! " * 100, 500, 1300),
        ("🙂" * 100, 150, 300),
        ("\ud800", 1, 3),
    ],
)
def test_text_costs_about_what_models_say(text: str, least: int, most: int) -> None:
    assert least <= estimate_text_tokens(text) <= most


def test_calls_results_and_images_count() -> None:
    call = ToolUseBlock(id="a", name="read_file", input={"path": "x" * 300})
    assert estimate_block_tokens(call) > 100
    assert estimate_block_tokens(ToolResultBlock(tool_use_id="a", content="x" * 300)) > 100
    image = ImageBlock(ImageSource(media_type="image/png", data="A" * 3_000_000))
    assert 1_000 < estimate_block_tokens(image) < 10_000
    both = ToolResultBlock(tool_use_id="a", content=[TextBlock("x" * 300), image])
    assert estimate_block_tokens(both) > estimate_block_tokens(image) + 100


def test_a_list_of_tools_counts_as_its_json() -> None:
    tool = ToolSpec(name="t", description="d" * 3_000, parameters={"type": "object"})
    assert estimate_tools_tokens(()) == 0
    assert estimate_tools_tokens((tool,)) > 1_000


@given(st.lists(st.integers(0, 5), max_size=30))
def test_sums_follow_a_conversation_wherever_it_changes(lengths: list[int]) -> None:
    counts, messages = MessageTokenCache(), list[Message]()
    for length in lengths:
        del messages[length:]
        messages += [Message(role="user", content="x" * n) for n in range(3)]
        sums = counts.build_prefix_sums(list(messages))
        assert sums == [counts.estimate_all(messages[:n]) for n in range(len(messages) + 1)]


def test_a_message_is_counted_once_and_forgotten_with_it() -> None:
    counts = MessageTokenCache()
    message = Message(role="user", content="words " * 100)
    assert counts.estimate(message) == counts.estimate(message) > 200
    assert counts.estimate_all([message, message]) == 2 * counts.estimate(message)
    reasoned = Message(role="assistant", content="x", reasoning_details=({"text": "y" * 300},))
    assert counts.estimate(reasoned) > 100
    thought = Message(role="assistant", content="x", reasoning_content="y" * 300)
    assert counts.estimate(thought) > 100
