"""Replies as real models write them: which calls they make, or that they are only text.

The corpus is in `odd_replies*.toml`. A reply is tried whole, character by character, and cut in
two at every place.
"""

from __future__ import annotations

from typing import Any

import pytest

from joey.core.models import ToolProtocol
from tests.harness.core.odd_replies import REPLIES, find_calls

CASES = [
    pytest.param(reply, ToolProtocol(protocol), id=f"{reply['name']}-{protocol}")
    for reply in REPLIES
    for protocol in reply.get("protocols", ["native", "xml"])
]


def test_the_corpus_is_large_and_names_are_unique() -> None:
    names = [reply["name"] for reply in REPLIES]
    assert len(set(names)) == len(names) >= 150
    assert sum(not reply.get("calls") for reply in REPLIES) >= 50


@pytest.mark.parametrize(("reply", "protocol"), CASES)
def test_a_reply_makes_the_expected_calls_at_every_split(
    reply: dict[str, Any], protocol: ToolProtocol
) -> None:
    text, stop = reply["text"], reply.get("stop", "stop")
    expected = [(call["name"], call["arguments"]) for call in reply.get("calls", ())]
    assert find_calls([text], protocol, stop) == expected
    assert find_calls(text, protocol, stop) == expected
    for place in range(1, len(text)):
        assert find_calls([text[:place], text[place:]], protocol, stop) == expected, place


CALL = '<tool_call>{"name": "read_file", "arguments": {"path": "a.py"}}</tool_call>'
OWN_CALL = "<read_file>\n<path>a.py</path>\n</read_file>"
REASONING_TAGS = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<thoughts>", "</thoughts>"),
    ("<seed:think>", "</seed:think>"),
    ("<minimax:think>", "</minimax:think>"),
    ("<mm:think>", "</mm:think>"),
    ("<think:opensource>", "</think:opensource>"),
    ("<longcat_think>", "</longcat_think>"),
    ("<antThinking>", "</antThinking>"),
    ("<analysis>", "</analysis>"),
    ("<reflection>", "</reflection>"),
    ("<scratchpad>", "</scratchpad>"),
    ("<scratch_pad>", "</scratch_pad>"),
    ("<internal_monologue>", "</internal_monologue>"),
    ("<REASONING_SCRATCHPAD>", "</REASONING_SCRATCHPAD>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<unused94>thought", "<unused95>"),
]


@pytest.mark.parametrize("protocol", list(ToolProtocol))
@pytest.mark.parametrize(("opening", "closing"), REASONING_TAGS)
def test_a_call_in_reasoning_is_never_made_whatever_the_tags(
    opening: str, closing: str, protocol: ToolProtocol
) -> None:
    considered = f"{opening}\nI could call\n{CALL}\n{OWN_CALL}\n"
    for text, is_called in (
        (f"{considered}{closing}\nIt is done already.", False),
        (considered, False),
        (f"{considered}{closing}\n{CALL}", True),
        (f"I look first.\n{considered}{closing}\n{OWN_CALL}", True),
    ):
        expected = [("read_file", {"path": "a.py"})] if is_called else []
        assert find_calls([text], protocol, "stop") == expected
        assert find_calls(text, protocol, "stop") == expected


@pytest.mark.parametrize("protocol", list(ToolProtocol))
@pytest.mark.parametrize("tag", ["</analysis>", "</reflection>", "</scratchpad>"])
def test_a_lone_closing_tag_that_no_template_needs_is_text(
    tag: str, protocol: ToolProtocol
) -> None:
    expected = [("read_file", {"path": "a.py"})]
    assert find_calls([f"{tag}\n{OWN_CALL}"], protocol, "stop") == expected
