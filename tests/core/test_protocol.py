"""Which protocol a task speaks: its lock, else its history, else what the model can do (D8)."""

from __future__ import annotations

from itertools import product

import pytest

from joey.core.messages import Message, TextBlock, ToolUseBlock
from joey.core.models import ToolProtocol, choose_tool_protocol
from joey.storage.roo_task_directory import detect_protocol

NATIVE, XML = ToolProtocol.NATIVE, ToolProtocol.XML
SEEN = (NATIVE, XML, None)


def assistant(*ids: str) -> Message:
    calls = tuple(ToolUseBlock(id=call_id, name="read_file", input={}) for call_id in ids)
    return Message(role="assistant", content=(TextBlock("I look."), *calls))


@pytest.mark.contract("protocol:choice")
@pytest.mark.parametrize("locked", list(ToolProtocol))
def test_the_lock_wins_over_history_and_model(locked: ToolProtocol) -> None:
    for detected, native in product(SEEN, (True, False)):
        chosen = choose_tool_protocol(
            locked=locked, detected=detected, model_has_native_tools=native
        )
        assert chosen is locked


@pytest.mark.contract("protocol:choice")
@pytest.mark.parametrize("detected", list(ToolProtocol))
def test_without_a_lock_the_history_wins_over_the_model(detected: ToolProtocol) -> None:
    for native in (True, False):
        chosen = choose_tool_protocol(locked=None, detected=detected, model_has_native_tools=native)
        assert chosen is detected


@pytest.mark.contract("protocol:choice")
@pytest.mark.parametrize(("native", "protocol"), [(True, NATIVE), (False, XML)])
def test_without_a_history_the_model_decides(native: bool, protocol: ToolProtocol) -> None:
    chosen = choose_tool_protocol(locked=None, detected=None, model_has_native_tools=native)
    assert chosen is protocol


@pytest.mark.contract("protocol:choice")
@pytest.mark.parametrize(
    ("history", "protocol"),
    [
        ([assistant("toolu_1")], NATIVE),
        ([assistant("")], XML),
        ([assistant(""), assistant("toolu_2"), assistant()], NATIVE),
        ([assistant("toolu_1"), Message(role="assistant", content="words")], NATIVE),
        ([assistant()], None),
        ([Message(role="user", content="hi")], None),
        ([], None),
    ],
)
def test_the_latest_call_of_a_history_tells_its_protocol(
    history: list[Message], protocol: ToolProtocol | None
) -> None:
    assert detect_protocol(history) is protocol
