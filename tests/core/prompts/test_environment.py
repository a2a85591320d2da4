from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from joey.core.messages import Block, ImageBlock, ImageSource, TextBlock, ToolResultBlock
from joey.core.models import ToolProtocol
from joey.core.modes import BUILT_IN_MODES
from joey.core.prompts.environment import (
    EnvironmentFacts,
    TerminalStatus,
    WorkspaceFiles,
    report_environment,
    strip_environment_details,
)
from joey.core.settings import Settings
from joey.core.task_types import parse_todos
from tests.harness.bounded import run_bounded

CODE = BUILT_IN_MODES[1]


START = EnvironmentFacts(
    now=datetime(2026, 1, 6, 10, tzinfo=UTC),
    zone="Europe/Berlin, UTC+1:00",
    cost=0.1234,
    mode=CODE,
    model_id="claude-x",
    protocol=ToolProtocol.NATIVE,
    settings=Settings(todo_list_enabled=False),
)


def details(**changes: Any) -> str:
    return report_environment(structs.replace(START, **changes))[0]


def report_changes(*steps: dict[str, Any]) -> list[str]:
    """What requests with these environments report, after one that reports everything."""
    environment, known = START, report_environment(START)[1]
    texts = []
    for changes in steps:
        environment = structs.replace(environment, **changes)
        text, known = report_environment(environment, known)
        texts.append(text)
    return texts


def headings(text: str) -> list[str]:
    return re.findall(r"^# (.+)$", text, flags=re.MULTILINE)


@pytest.mark.contract("prompt:environment")
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
        id=7,
        command="npm start",
        cwd="/w",
        output="listening\n",
        is_running=True,
        running_s=12.3,
    )

    assert (
        "# Actively Running Terminals\n"
        "## Terminal 7 (Active)\n"
        "### Working Directory: `/w`\n"
        "### Original command: `npm start`\n"
        "### Running for: 12 s\n"
        "### New Output\n"
        "listening\n\n"
    ) in details(terminals=(note,))


def test_a_silent_command_has_no_output_heading() -> None:
    note = TerminalStatus(id=7, command="sleep 9", cwd="/w", output="", is_running=True)

    assert "New Output" not in details(terminals=(note,))


@pytest.mark.parametrize(
    ("output", "is_shown"),
    [("....", False), ("..... [ 12%]\n...", False), ("..F. [ 12%]\n", True), ("12\n", True)],
)
def test_output_that_only_shows_progress_is_left_out(output: str, is_shown: bool) -> None:
    note = TerminalStatus(id=7, command="pytest", cwd="/w", output=output, is_running=True)

    assert ("New Output" in details(terminals=(note,))) is is_shown
    quiet = structs.replace(note, output="")
    texts = report_changes({"terminals": (quiet,)}, {"terminals": (note,)})
    assert ("## Terminal 7" in texts[1]) is is_shown


def test_all_running_commands_are_shown_when_one_starts_ends_or_prints() -> None:
    first, second = (
        TerminalStatus(id=number, command="make", cwd="/w", output="", is_running=True)
        for number in (7, 8)
    )
    talking = structs.replace(second, output="half done")
    lists = ((first, second), (first, second), (first, talking), (first,), (), ())
    texts = report_changes(*({"terminals": each} for each in lists))
    assert [re.findall(r"## Terminal (\d)", text) for text in texts] == [
        ["7", "8"],
        [],
        ["7", "8"],
        ["7"],
        [],
        [],
    ]
    assert "# Actively Running Terminals\n(none)\n" in texts[4]
    assert not texts[5]


def test_a_report_of_something_else_lists_what_still_runs() -> None:
    server = TerminalStatus(
        id=7, command="npm start", cwd="/w", output="", is_running=True, artifact_id="cmd-1.txt"
    )
    texts = report_changes(
        {"terminals": (server,)},
        {"terminals": (server,), "recently_modified": ("a.py",)},
        {"terminals": (server,), "recently_modified": ()},
        {"terminals": (structs.replace(server, is_running=False),)},
        {"terminals": (), "recently_modified": ("a.py",)},
    )
    assert "# Actively Running Terminals\n`npm start` (cmd-1.txt)\n" in texts[1]
    assert not texts[2]
    assert "`npm start` (cmd-1.txt)" not in texts[3]
    assert "Running" not in texts[4]


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
    assert "# Current Cost" not in details(cost=None)


def test_settings_leave_out_time_and_cost() -> None:
    settings = Settings(
        include_current_time=False, include_current_cost=False, todo_list_enabled=False
    )

    assert headings(details(settings=settings)) == ["Current Mode"]


@pytest.mark.contract("prompt:environment")
def test_the_listing_says_when_it_was_cut() -> None:
    whole = details(files=WorkspaceFiles("/w", ("src/", "src/a.py")))
    cut = details(files=WorkspaceFiles("/w", ("src/",), is_truncated=True))

    assert whole.endswith("Files\nsrc/\nsrc/a.py\n</environment_details>")
    assert "src/\n(There are more; use list_files" in cut


def test_the_listing_names_the_directories_that_are_not_in_it() -> None:
    skipped = tuple(f"{number}/" for number in range(12))
    text = details(files=WorkspaceFiles("/w", ("a.py",), skipped=skipped))

    assert "a.py\n(Not listed, as git ignores them" in text
    assert "there: 0/, 1/," in text
    assert "9/ and 2 more.)" in text


def test_an_empty_workspace_and_a_listing_switched_off_are_distinguished() -> None:
    off = Settings(max_workspace_files=0, todo_list_enabled=False)

    assert "(No files.)" in details(files=WorkspaceFiles("/w", ()))
    assert "switched off" in details(files=WorkspaceFiles("/w", ()), settings=off)


def test_todos_are_a_table_with_bars_escaped() -> None:
    todos = parse_todos("[x] read a|b\n[-] write it\n[ ] test it")
    text = details(todos=todos, settings=Settings())

    assert (
        "====\n\nREMINDERS\n\nYour todo list:\n\n"
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


@pytest.mark.contract("prompt:environment")
def test_a_request_in_an_unchanged_environment_reports_nothing() -> None:
    later = {"now": START.now + timedelta(minutes=9), "cost": 0.1299}
    assert report_changes({}, later) == ["", ""]


def test_an_xml_request_in_an_unchanged_environment_has_a_short_block() -> None:
    settings = {"protocol": ToolProtocol.XML}
    unchanged = "<environment_details>\n(unchanged)\n</environment_details>"
    assert report_changes(settings, {})[1] == unchanged


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"now": START.now + timedelta(minutes=10)}, "Current Time"),
        ({"cost": 0.1334}, "Current Cost"),
        ({"mode": BUILT_IN_MODES[0]}, "Current Mode"),
        ({"model_id": "other"}, "Current Mode"),
        ({"git_status": "M a.py"}, "Git Status"),
        ({"recently_modified": ("a.py",)}, "Recently Modified Files"),
    ],
)
def test_only_what_changed_is_reported(changes: dict[str, Any], reported: str) -> None:
    (text,) = report_changes(changes)
    assert headings(text) == [reported]


def test_cents_that_add_up_are_reported() -> None:
    texts = report_changes({"cost": 0.1284}, {"cost": 0.1334}, {"cost": 0.1384})
    assert [bool(text) for text in texts] == [False, True, False]


def test_a_terminal_is_reported_when_it_starts_prints_and_ends() -> None:
    quiet = TerminalStatus(id=7, command="npm start", cwd="/w", output="", is_running=True)
    talking = structs.replace(quiet, output="up\n")
    ended = structs.replace(quiet, is_running=False, exit_code=0)
    steps = [{"terminals": (each,)} for each in (quiet, quiet, talking, quiet, ended, ended)]
    texts = report_changes(*steps)
    assert [bool(text) for text in texts] == [True, False, True, False, True, False]


def test_open_todos_are_repeated_five_requests_after_the_model_changed_them() -> None:
    some = {"todos": parse_todos("[x] read\n[ ] write"), "settings": Settings()}
    texts = report_changes(some, *[{}] * 10)
    assert [index for index, text in enumerate(texts) if "REMINDERS" in text] == [5, 10]
    finished = {"todos": parse_todos("[x] read\n[x] write"), "settings": Settings()}
    assert not any(report_changes(finished, *[{}] * 6))


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
