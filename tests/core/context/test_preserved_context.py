from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.core.context.condense import (
    PreservedContext,
    SummaryBudget,
    build_summary_content,
    extract_user_blocks,
    find_slash_commands,
    is_attachment,
)
from joey.core.messages import Message, TextBlock, ToolResultBlock
from joey.core.task_types import Todo

AMPLE = SummaryBudget.from_total_chars(1_000_000)


def join_summary(
    kept: PreservedContext, most: SummaryBudget = AMPLE, summary: str = "In short."
) -> str:
    return "\n".join(block.text for block in build_summary_content(summary, kept, most))


@pytest.mark.contract("context:summary")
def test_the_users_messages_stand_as_they_were_said_in_their_order() -> None:
    text = join_summary(PreservedContext(task="mend it", user_messages=["then", "at last"]))
    assert text.index("In short.") < text.index("mend it") < text.index("then")
    assert text.index("then") < text.index("at last")


@pytest.mark.contract("context:summary")
def test_of_many_messages_the_newest_are_kept() -> None:
    said = [f"word {number} " + "x" * 300 for number in range(20)]
    text = join_summary(
        PreservedContext(task="t", user_messages=said), SummaryBudget.from_total_chars(12_000)
    )
    assert "word 19" in text
    assert "word 18" in text
    assert "word 5 " not in text


@pytest.mark.contract("context:summary")
def test_open_todos_mode_files_and_commands_are_kept() -> None:
    todos = (Todo("1", "dig", "completed"), Todo("2", "sow", "pending"))
    command = '<command name="plan">\nPlan first.\n</command>'
    text = join_summary(
        PreservedContext(
            task="t",
            todos=todos,
            mode="code (Code)",
            file_names=["b.py", "a.py"],
            outlines=["# b.py\n1--9 | class B:"],
            slash_commands=[command],
        )
    )
    assert "[ ] sow" in text
    assert "dig" not in text
    assert "Mode: code (Code)" in text
    assert text.index("- b.py") < text.index("- a.py") < text.index("class B:")
    assert command in text


@given(
    st.integers(0, 400_000),
    st.integers(0, 20_000),
    st.lists(st.integers(0, 20_000), max_size=20),
)
def test_nothing_outgrows_its_allotment(room: int, size: int, sizes: list[int]) -> None:
    texts = ["x" * each for each in sizes]
    kept = PreservedContext(
        task="t" * size, user_messages=texts, slash_commands=texts, file_names=texts, outlines=texts
    )
    text = join_summary(kept, SummaryBudget.from_total_chars(room), "s" * size)
    assert len(text) < max(0, room) + 4_000


def test_commands_and_brought_content_are_known_by_how_they_begin() -> None:
    command = TextBlock('<command name="plan">\nPlan.\n</command>')
    message = Message(role="user", content=(TextBlock("/plan it"), command))
    assert find_slash_commands(message) == [command.text]
    assert find_slash_commands(None) == []
    assert is_attachment(command)
    assert is_attachment(TextBlock("[read_file for 'a.py']\n1 | x"))
    assert not is_attachment(TextBlock("a word about <command>"))


def test_the_text_of_a_message_is_not_its_results_or_environment() -> None:
    block = TextBlock("go on")
    message = Message(
        role="user",
        content=(
            ToolResultBlock(tool_use_id="a", content="r"),
            block,
            TextBlock("<environment_details>\nnow\n</environment_details>"),
        ),
    )
    assert extract_user_blocks(message) == (block,)
