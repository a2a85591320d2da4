"""Properties of calls in text: nothing that only shows a call is one, none is completed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joey.core.models import ToolProtocol
from joey.core.parsing.lenient_json import parse_lenient_json
from tests.harness.core.odd_replies import find_calls
from tests.harness.core.streams import split_randomly

HARMLESS = "<execute_command><command>ls</command></execute_command>"
CALLS = [
    HARMLESS,
    "<execute_command>\n<command>ls</command>\n</execute_command>",
    '<tool_call>\n{"name": "execute_command", "arguments": {"command": "ls"}}\n</tool_call>',
    "<tool_call>\n<function=execute_command>\n<parameter=command>ls</parameter>\n</function>\n"
    "</tool_call>",
    '<invoke name="execute_command">\n<parameter name="command">ls</parameter>\n</invoke>',
    "<tool_call>execute_command\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n"
    "</tool_call>",
    '[TOOL_CALLS]execute_command[ARGS]{"command": "ls"}',
    '<|channel|>commentary to=functions.execute_command<|message|>{"command": "ls"}<|call|>',
    '<|tool_call_begin|>functions.execute_command:0<|tool_call_argument_begin|>{"command": "ls"}'
    "<|tool_call_end|>",
    '<|tool_call_start|>[execute_command(command="ls")]<|tool_call_end|>',
    '{"name": "execute_command", "arguments": {"command": "ls"}}',
]
prose = st.lists(
    st.sampled_from(["Some words. ", "It's so", "\n", "\n\n", "- item\n", "a < b ", "`x` ", "1. "]),
    max_size=6,
).map("".join)


def prefix_lines(text: str, prefix: str) -> str:
    return "\n".join(prefix + line for line in text.split("\n"))


def show_as_table(call: str) -> str:
    cell = call.replace("\n", " ").replace("|", "\\|")
    return f"| format | sample |\n|---|---|\n| hermes | {cell} |"


CONTEXTS: dict[str, Callable[[str], str]] = {
    "quotation": lambda call: prefix_lines(call, "> "),
    "indented code": lambda call: prefix_lines(call, "    "),
    "inline code": lambda call: f"Models write `{call.replace(chr(10), ' ')}`",
    "table": show_as_table,
    "comment": lambda call: f"<!--\n{call}\n-->",
    "line comments": lambda call: prefix_lines(call, "# "),
    "diff": lambda call: f"```diff\n{prefix_lines(call, '+')}\n```",
    "fence and a sentence": lambda call: f"```\n{call}\n```\n\nThat lists the files.",
    "fence with words": lambda call: f"```\nA call:\n{call}\n```",
    "open fence": lambda call: f"```xml\n{call}",
    "preformatted": lambda call: f"<pre>\n{call}\n</pre>",
}


@pytest.mark.parametrize("protocol", ToolProtocol)
@given(st.data(), prose, st.sampled_from(sorted(CONTEXTS)), st.sampled_from(CALLS))
@settings(max_examples=150)
def test_what_only_shows_a_call_is_none(
    protocol: ToolProtocol, data: st.DataObject, before: str, context: str, call: str
) -> None:
    text = f"{before}See\n\n{CONTEXTS[context](call)}"
    assert find_calls(data.draw(split_randomly(text)), protocol, "stop") == []


def write_hermes(arguments: dict[str, Any]) -> str:
    call = {"name": "write_to_file", "arguments": arguments}
    return f"<tool_call>{json.dumps(call)}</tool_call>"


def write_elements(arguments: dict[str, Any]) -> str:
    values = (f"<parameter={name}>{value}</parameter>\n" for name, value in arguments.items())
    return f"<function=write_to_file>\n{''.join(values)}</function>"


def write_own_tags(arguments: dict[str, Any]) -> str:
    values = (f"<{name}>{value}</{name}>\n" for name, value in arguments.items())
    return f"<write_to_file>\n{''.join(values)}</write_to_file>"


def write_python(arguments: dict[str, Any]) -> str:
    values = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return f"<|tool_call_start|>[write_to_file({values})]<|tool_call_end|>"


contents = st.lists(
    st.sampled_from([HARMLESS, CALLS[2], CALLS[6], "words\n", "\n", "```\n", '"', "'", "> ", "{"]),
    min_size=1,
    max_size=5,
).map(lambda pieces: f"x{''.join(pieces)}x")
writers = st.sampled_from([write_hermes, write_elements, write_own_tags, write_python])


@pytest.mark.parametrize("protocol", ToolProtocol)
@given(st.data(), writers, contents)
@settings(max_examples=150)
def test_a_call_runs_as_a_whole_or_not_at_all(
    protocol: ToolProtocol, data: st.DataObject, write: Any, content: str
) -> None:
    arguments = {"path": "a.md", "content": content}
    text = write(arguments)
    assert find_calls([text], protocol, "stop") == [("write_to_file", arguments)]
    end = data.draw(st.integers(text.index("content"), len(text)))
    assert find_calls([text[:end]], protocol, "stop") in (
        [],
        [("write_to_file", arguments)],
        [("write_to_file", {"path": "a.md"})],  # The tool asks for the content.
    )


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


@given(st.data(), st.dictionaries(st.text(max_size=4), values), st.booleans())
def test_no_unclosed_object_is_completed(
    data: st.DataObject, value: dict[str, Any], is_python: bool
) -> None:
    text = repr(value) if is_python else json.dumps(value)
    end = data.draw(st.integers(1, len(text) - 1))
    with pytest.raises(ValueError, match=r"."):
        parse_lenient_json(text[:end])
