from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.core.models import ToolProtocol, ToolSpec
from joey.core.modes import BUILT_IN_MODES, Grant, Mode, ToolGroup, find_mode
from joey.core.prompts.system import ToolDoc, build_system_prompt

FACTS = {"os": "Linux 6.1", "shell": "bash", "home": "/home/ada", "workspace": "/home/ada/engine"}
LIST_FILES = ToolSpec(
    name="list_files",
    description="Shows what is in a folder.",
    parameters={
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The folder."},
            "recursive": {"type": "boolean", "description": "Everything below, too?"},
            "order": {"type": ["string", "null"], "enum": ["name", "size", None]},
            "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        "required": ["path", "recursive", "order", "limit"],
        "additionalProperties": False,
    },
)
ALL_NAMES = (
    "read_file",
    "search_files",
    "list_files",
    "apply_diff",
    "write_to_file",
    "execute_command",
    "ask_followup_question",
    "attempt_completion",
    "switch_mode",
    "new_task",
    "update_todo_list",
)


def offer(*names: str) -> list[ToolDoc]:
    return [ToolDoc(ToolSpec(name, f"Does {name}.", {"type": "object"})) for name in names]


def prompt(
    slug: str = "code",
    protocol: ToolProtocol = ToolProtocol.NATIVE,
    tools: list[ToolDoc] | None = None,
    custom_instructions: str = "",
) -> str:
    mode = find_mode(slug)
    assert mode is not None
    return build_system_prompt(
        mode=mode,
        modes=BUILT_IN_MODES,
        protocol=protocol,
        tools=offer(*ALL_NAMES) if tools is None else tools,
        system_info=FACTS,
        custom_instructions=custom_instructions,
    )


def titles(text: str) -> list[str]:
    return [section.splitlines()[0] for section in text.split("\n\n====\n\n")]


@pytest.mark.contract("prompt:sections")
@pytest.mark.parametrize("protocol", list(ToolProtocol))
def test_sections_come_in_the_known_order(protocol: ToolProtocol) -> None:
    text = prompt(protocol=protocol, custom_instructions="Use tabs.")

    assert titles(text) == [
        BUILT_IN_MODES[1].role,
        "MARKDOWN RULES",
        "TOOL USE",
        "CAPABILITIES",
        "MODES",
        "RULES",
        "SYSTEM INFORMATION",
        "OBJECTIVE",
        "USER'S CUSTOM INSTRUCTIONS",
    ]


@pytest.mark.parametrize("mode", BUILT_IN_MODES, ids=lambda mode: str(mode.slug))
def test_every_mode_opens_with_its_role(mode: Mode) -> None:
    assert prompt(mode.slug).startswith("You are Roo, ")
    assert prompt(mode.slug).startswith(mode.role)


def test_the_guidelines_follow_the_catalogue_inside_tool_use() -> None:
    text = prompt(protocol=ToolProtocol.XML)

    assert (
        text.index("TOOL USE")
        < text.index("# Tools\n")
        < text.index("# Tool Use Guidelines")
        < text.index("CAPABILITIES")
    )


def test_native_prompts_hold_no_catalogue_and_no_tags_to_copy() -> None:
    text = prompt()

    assert "# Tools\n" not in text
    assert "<tool_name>" not in text
    assert "together in one reply" in text


def test_prompts_of_both_protocols_allow_several_calls_in_a_message() -> None:
    assert "Several calls in one message run in order" in prompt(protocol=ToolProtocol.XML)
    assert "together in one reply; they run in order" in prompt(protocol=ToolProtocol.NATIVE)


@pytest.mark.contract("loop:calls")
def test_the_catalogue_is_made_from_the_specification() -> None:
    text = prompt(protocol=ToolProtocol.XML, tools=[ToolDoc(LIST_FILES)])

    assert (
        "## list_files\nDescription: Shows what is in a folder.\n\n"
        "Parameters:\n"
        "- path: (required) The folder.\n"
        "- recursive: (required) Everything below, too?\n"
        "- order: (optional) One of: name, size.\n"
        "- limit: (optional)\n\n"
        "Usage:\n"
        "<list_files>\n"
        "<path>path here</path>\n"
        "<recursive>true or false</recursive>\n"
        "<order>name or size</order>\n"
        "<limit>a number</limit>\n"
        "</list_files>"
    ) in text


def test_a_usage_of_its_own_replaces_the_generated_one() -> None:
    usage = "<list_files>\n<args><path>src</path></args>\n</list_files>"
    text = prompt(protocol=ToolProtocol.XML, tools=[ToolDoc(LIST_FILES, xml_usage=usage)])

    assert f"Usage:\n{usage}\n" in text
    assert "path here" not in text


def test_tools_appear_in_the_order_they_are_offered() -> None:
    text = prompt(protocol=ToolProtocol.XML, tools=offer("b_tool", "a_tool"))

    assert text.index("## b_tool") < text.index("## a_tool")


def test_nothing_is_said_about_tools_that_are_not_offered() -> None:
    text = prompt("ask", tools=offer("read_file", "attempt_completion"))

    for name in ("execute_command", "update_todo_list", "switch_mode", "list_files", "new_task"):
        assert name not in text
    assert "You can change files" not in text


def test_a_mode_with_limited_edits_says_so() -> None:
    assert r"`\.md$` (Markdown files only)" in prompt("architect")
    assert "you may change only" not in prompt("code")


def test_modes_are_listed_with_their_purpose() -> None:
    bare = Mode(slug="poet", name="Poet", role="You are Roo, a poet. You rhyme.")
    text = build_system_prompt(
        mode=bare,
        modes=(*BUILT_IN_MODES, bare),
        protocol=ToolProtocol.NATIVE,
        tools=(),
        system_info=FACTS,
    )

    for line in (
        '- "💻 Code" mode (code) - Writing, changing and refactoring code. [edits; commands]\n',
        "without changing anything. [no edits; no commands]\n",
        "before anything is built. [edits: Markdown files only; no commands]\n",
        '- "Poet" mode (poet) - You are Roo, a poet. [no edits; no commands]\n',
    ):
        assert line in text


def test_facts_are_shown_by_name() -> None:
    text = prompt()

    assert "Operating System: Linux 6.1\nDefault Shell: bash\nHome Directory: /home/ada\n" in text
    assert "Current Workspace Directory: /home/ada/engine\n" in text


def test_instructions_of_the_user_come_before_those_of_the_mode() -> None:
    text = prompt("debug", custom_instructions="  Use tabs.\n")

    assert text.index("Global Instructions:\nUse tabs.\n") < text.index(
        "Mode-specific Instructions:\n1. Reproduce the problem"
    )


def test_without_instructions_their_section_is_left_out() -> None:
    assert "USER'S CUSTOM INSTRUCTIONS" not in prompt("code", custom_instructions=" \n")


def test_a_native_prompt_stays_small() -> None:
    assert len(prompt().encode()) <= 6_500


@pytest.mark.parametrize("protocol", list(ToolProtocol))
def test_no_editor_is_mentioned(protocol: ToolProtocol) -> None:
    text = prompt(protocol=protocol).casefold()

    assert "vscode" not in text
    assert "vs code" not in text


@given(
    extra=st.dictionaries(
        st.text(min_size=1).filter(lambda key: key not in FACTS), st.text(), max_size=4
    ),
    protocol=st.sampled_from(ToolProtocol),
    mode=st.sampled_from(BUILT_IN_MODES),
)
def test_the_same_task_always_gets_the_same_bytes(
    extra: dict[str, str], protocol: ToolProtocol, mode: Mode
) -> None:
    def build(facts: dict[str, str]) -> str:
        return build_system_prompt(
            mode=mode,
            modes=BUILT_IN_MODES,
            protocol=protocol,
            tools=offer(*ALL_NAMES),
            system_info=facts,
        )

    reordered = dict(reversed({**FACTS, **extra}.items()))
    assert build(reordered) == build(FACTS)


def test_a_restriction_without_a_description_still_names_its_pattern() -> None:
    mode = Mode(
        slug="docs",
        name="Docs",
        role="You are Roo, a writer.",
        grants=(Grant(ToolGroup.EDIT, file_regex=r"^docs/"),),
    )
    text = build_system_prompt(
        mode=mode,
        modes=(),
        protocol=ToolProtocol.NATIVE,
        tools=offer("write_to_file"),
        system_info=FACTS,
    )

    assert "In Docs mode you may only edit files whose path matches `^docs/`." in text
    assert "MODES" not in titles(text)
