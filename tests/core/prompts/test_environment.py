from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from joey.core.messages import Block, ImageBlock, ImageSource, TextBlock, ToolResultBlock
from joey.core.models import ToolProtocol
from joey.core.modes import BUILT_IN_MODES, Mode
from joey.core.prompts.environment import (
    TerminalStatus,
    WorkspaceFiles,
    build_environment_details,
    strip_environment_details,
)
from joey.core.settings import Settings
from joey.core.task_types import Todo, parse_todos
from tests.bounded import run_bounded

CODE = BUILT_IN_MODES[1]


def details(
    *,
    cost: float | None = 0.1234,
    settings: Settings | None = None,
    terminals: tuple[TerminalStatus, ...] = (),
    todos: tuple[Todo, ...] | None = None,
    files: WorkspaceFiles | None = None,
    recently_modified: tuple[str, ...] = (),
    protocol: ToolProtocol = ToolProtocol.NATIVE,
    mode: Mode = CODE,
) -> str:
    return build_environment_details(
        now_utc="2026-01-06T10:00:00Z",
        zone="Europe/Berlin, UTC+1:00",
        cost=cost,
        mode=mode,
        model_id="claude-x",
        protocol=protocol,
        settings=settings or Settings(todo_list_enabled=False),
        terminals=terminals,
        todos=todos,
        files=files,
        recently_modified=recently_modified,
    )


def headings(text: str) -> list[str]:
    return re.findall(r"^# (.+)$", text, flags=re.MULTILINE)


@pytest.mark.requirement("prompts:environment")
def test_an_ordinary_request_tells_time_cost_and_mode() -> None:
    assert details() == (
        "<environment_details>\n"
        "# Current Time\n"
        "ISO 8601, UTC: 2026-01-06T10:00:00Z\n"
        "User time zone: Europe/Berlin, UTC+1:00\n\n"
        "# Current Cost\n"
        "$0.12\n\n"
        "# Current Mode\n"
        "<slug>code</slug>\n"
        "<name>💻 Code</name>\n"
        "<model>claude-x</model>\n"
        "<tool_format>native</tool_format>\n"
        "</environment_details>"
    )


def test_sections_come_in_the_known_order() -> None:
    running = TerminalStatus(id=7, command="npm start", cwd="/w", output="up\n", is_running=True)
    ended = TerminalStatus(
        id=8, command="make", cwd="/w", output="done\n", is_running=False, exit_code=0
    )
    text = details(
        terminals=(ended, running),
        files=WorkspaceFiles("/w", ("a.py",)),
        recently_modified=("b.py",),
    )

    assert headings(text) == [
        "Recently Modified Files",
        "Actively Running Terminals",
        "Inactive Terminals with Completed Process Output",
        "Current Time",
        "Current Cost",
        "Current Mode",
        "Current Workspace Directory (/w) Files",
    ]


def test_a_running_command_is_shown_with_its_new_output() -> None:
    note = TerminalStatus(
        id=7, command="npm start", cwd="/w", output="listening\n", is_running=True
    )

    assert (
        "# Actively Running Terminals\n"
        "## Terminal 7 (Active)\n"
        "### Working Directory: `/w`\n"
        "### Original command: `npm start`\n"
        "### New Output\n"
        "listening\n\n"
    ) in details(terminals=(note,))


def test_a_silent_command_has_no_output_heading() -> None:
    note = TerminalStatus(id=7, command="sleep 9", cwd="/w", output="", is_running=True)

    assert "New Output" not in details(terminals=(note,))


def test_an_ended_command_is_shown_with_its_exit_code() -> None:
    note = TerminalStatus(
        id=8, command="make", cwd="/w", output="ok", is_running=False, exit_code=2
    )

    assert (
        "## Terminal 8 (Inactive)\n"
        "### Working Directory: `/w`\n"
        "Command: `make` (exit code 2)\n"
        "### New Output\n"
        "ok\n\n"
    ) in details(terminals=(note,))


def test_an_unknown_cost_is_said_to_be_unknown() -> None:
    assert "# Current Cost\n(Not available)\n" in details(cost=None)


def test_settings_leave_out_time_and_cost() -> None:
    settings = Settings(
        include_current_time=False, include_current_cost=False, todo_list_enabled=False
    )

    assert headings(details(settings=settings)) == ["Current Mode"]


@pytest.mark.requirement("prompts:environment")
def test_the_listing_says_when_it_was_cut() -> None:
    whole = details(files=WorkspaceFiles("/w", ("src/", "src/a.py")))
    cut = details(files=WorkspaceFiles("/w", ("src/",), is_truncated=True))

    assert whole.endswith("Files\nsrc/\nsrc/a.py\n</environment_details>")
    assert "src/\n(There are more; use list_files" in cut


def test_an_empty_workspace_and_a_listing_switched_off_are_distinguished() -> None:
    off = Settings(max_workspace_files=0, todo_list_enabled=False)

    assert "(No files.)" in details(files=WorkspaceFiles("/w", ()))
    assert "switched off" in details(files=WorkspaceFiles("/w", ()), settings=off)


def test_todos_are_a_table_with_bars_escaped() -> None:
    todos = parse_todos("[x] read a|b\n[-] write it\n[ ] test it")
    text = details(todos=todos, settings=Settings())

    assert (
        "====\n\nREMINDERS\n\nYour todo list as it stands:\n\n"
        "| # | Content | Status |\n"
        "|---|---------|--------|\n"
        "| 1 | read a\\|b | Completed |\n"
        "| 2 | write it | In Progress |\n"
        "| 3 | test it | Pending |\n"
    ) in text


def test_without_todos_there_is_a_hint_unless_the_list_is_off() -> None:
    assert "update_todo_list" in details(settings=Settings())
    assert "update_todo_list" not in details(settings=Settings(todo_list_enabled=False))


def test_the_protocol_of_the_task_is_stated() -> None:
    assert "<tool_format>xml</tool_format>" in details(protocol=ToolProtocol.XML)


def test_stale_details_are_dropped_and_everything_else_is_kept() -> None:
    message = TextBlock("<environment_details> is what I wonder about")
    result = ToolResultBlock(tool_use_id="t1", content=details())
    image = ImageBlock(ImageSource(media_type="image/png", data="AA=="))

    stale = TextBlock(details())
    blocks: list[Block] = [message, stale, result, TextBlock(f"\n{stale.text}\n"), image]

    assert strip_environment_details(blocks) == (message, result, image)


@given(
    hostile=st.lists(
        st.sampled_from(["</environment_details>", "</ENVIRONMENT_details >", "\n", "x", "<", "/"])
    ).map("".join)
)
def test_no_name_or_output_closes_the_block_early(hostile: str) -> None:
    text = details(
        mode=structs.replace(CODE, name=hostile),
        terminals=(
            TerminalStatus(id=1, command=hostile, cwd="/w", output=hostile, is_running=True),
        ),
        files=WorkspaceFiles("/w", (hostile,)),
        recently_modified=(hostile,),
    )

    assert len(re.findall(r"</?environment_details", text, flags=re.IGNORECASE)) == 2
    assert strip_environment_details([TextBlock(text)]) == ()


@given(name=st.text(min_size=1))
def test_a_file_name_never_takes_more_than_one_line(name: str) -> None:
    text = details(files=WorkspaceFiles("/w", (name, "last.py")))
    listing = text.partition("Files\n")[2]

    assert listing.count("\n") == 2


def test_no_output_takes_long_to_look_through() -> None:
    run_bounded(
        "import sys; from joey.core.prompts.environment import _escape_environment_tag\n"
        "_escape_environment_tag(sys.stdin.read())",
        given="<" + " " * 1_000_000,
    )
