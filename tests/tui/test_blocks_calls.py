from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.core.history.ui import Row
from joey.presentation.tool_calls import MAX_DIFF_LINES, OUTPUT_HEAD_LINES, OUTPUT_TAIL_LINES
from joey.tui.blocks.calls import MAX_BUFFERED_LINES, OutputLines, StreamingCallBlock
from joey.tui.blocks.diff import parse_diff, split_into_parts
from joey.tui.blocks.task_blocks import as_row, build_block, build_call_block
from tests.harness.tui.conversation_harness import block_lines, piece_lines

DIFF = """\
--- a.py
+++ a.py
@@ -8,4 +8,3 @@ def parse
 kept
-old = split(line)
+new = split(line)
 also kept
--- dashes
@@ -90 +90,2 @@
 c
+d
"""


def tool(**fields: object) -> Row:
    return as_row({"ts": 1, "type": "say", "say": "tool", **fields})


def changed(text: str, width: int = 40) -> list[str]:
    return piece_lines(split_into_parts(parse_diff(text)), width)


def test_a_change_has_line_numbers_and_loses_no_line() -> None:
    assert changed(DIFF) == [
        "       ⋯ def parse",
        "   8   kept",
        "   9 - old = split(line)",
        "   9 + new = split(line)",
        "  10   also kept",
        "  11 - -- dashes",
        "       ⋯",
        "  90   c",
        "  91 + d",
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "<<<<<<< SEARCH\n:start_line:5\n-------\nold\n=======\nnew\n>>>>>>> REPLACE",
            ["  5 - old", "  5 + new"],
        ),
        ("two\nlines", ["  1 + two", "  2 + lines"]),
        ("--- /dev/null\n+++ b.py\n@@ -0,0 +1 @@\n+only\n", ["  1 + only"]),
        (
            "--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y\n--- b\n+++ b\n@@ -7 +7 @@\n-x\n+y\n",
            ["      a", "  1 - x", "  1 + y", "      b", "  7 - x", "  7 + y"],
        ),
        (
            "@@ -1 +1 @@\n-x\n+y\n\\ No newline at end of file",
            ["  1 - x", "  1 + y", "      No newline at end of file"],
        ),
        ("@@ -1 +1 @@\n-\x1b[2Jx\n+\u202ey", ["  1 - <U+001B>[2Jx", "  1 + <U+202E>y"]),
        ("", []),
    ],
)
def test_changes_of_every_form_are_drawn(text: str, lines: list[str]) -> None:
    assert changed(text) == lines


def test_the_parts_of_a_line_that_differ_stand_out() -> None:
    (piece,) = split_into_parts(parse_diff("@@ -1 +1 @@\n-a = old(1)\n+a = new(1)"))
    removed, added = piece.render_lines(40)
    assert [span for span in removed if span[1] == "removed-word"] == [("old", "removed-word")]
    assert [span for span in added if span[1] == "added-word"] == [("new", "added-word")]


@given(st.text("+-@ #<>=\\ab\n\t你", max_size=200), st.integers(1, 30))
def test_a_change_knows_its_height(text: str, width: int) -> None:
    for piece in split_into_parts(parse_diff(f"@@ -1,9 +1,9 @@\n{text}")):
        assert piece.measure_height(width) == len(piece.render_lines(width))


def test_a_call_tells_what_it_does_and_how_much_it_changes() -> None:
    row = tool(tool="apply_diff", path="a.py", text='{"tool":"appliedDiff"}', diff=DIFF)
    assert block_lines(build_call_block(row))[:2] == [
        "● Edit a.py +2 -2",
        "       ⋯ def parse",
    ]


def test_a_long_change_is_folded_and_shown_whole_on_demand() -> None:
    content = "".join(f"+line {n}\n" for n in range(160))
    diff = f"--- /dev/null\n+++ b.py\n@@ -0,0 +1,160 @@\n{content}"
    block = build_call_block(tool(tool="write_to_file", path="b.py", text="{}", diff=diff))
    folded = block_lines(block)
    assert len(folded) == 1 + MAX_DIFF_LINES + 1
    assert folded[-1] == "    … 120 more lines (Ctrl+O)"
    assert len(block_lines(block, whole=True)) == 161


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        ({"tool": "read_file", "path": "a.py", "text": "{}"}, ["● Read a.py"]),
        ({"tool": "read_file", "text": "not json"}, ["● Read"]),
        ({"text": '{"tool":"readFile","path":"b"}'}, ["● Read b"]),
        (
            {"text": '{"type":"use_mcp_tool","serverName":"s","toolName":"t","arguments":"[1]"}'},
            ["● MCP tool s: t [1]"],
        ),
        (
            {
                "tool": "update_todo_list",
                "text": '{"todos":[{"content":"x","status":"completed"}]}',
            },
            ["● Update todo list 1 of 1 done"],
        ),
        (
            {"tool": "new_task", "text": '{"tool":"newTask","mode":"code","content":"do\\nit"}'},
            ["● Subtask code", "  do", "  it"],
        ),
        (
            {"tool": "read_file", "text": "{}", "approvalState": "rejected", "isAnswered": True},
            ["● Read", "  └ ✗ rejected"],
        ),
        (
            {"tool": "mine", "text": '{"tool":"customTool","arguments":"{}"}', "result": "42"},
            ["● Custom tool mine", "  │ 42"],
        ),
        ({"tool": "execute_command", "text": "ls\npwd"}, ["$ ls", "  pwd"]),
        (
            {"tool": "execute_command", "text": "x", "result": "It failed.", "exitCode": 3},
            ["$ x", "  └ exit 3"],
        ),
        (
            {"tool": "execute_command", "text": "x", "result": "It ended.", "signal": "SIGKILL"},
            ["$ x", "  └ ended by SIGKILL"],
        ),
    ],
)
def test_calls_are_drawn(fields: dict[str, object], lines: list[str]) -> None:
    assert block_lines(build_call_block(tool(**fields))) == lines


def test_results_for_the_model_are_shown_when_everything_is() -> None:
    block = build_call_block(tool(tool="read_file", path="a.py", text="{}", result="1 | x\n2 | y"))
    assert block_lines(block) == ["● Read a.py"]
    assert block_lines(block, whole=True) == ["● Read a.py", "  │ 1 | x", "  │ 2 | y"]


def test_a_call_is_shown_while_it_comes() -> None:
    coming = StreamingCallBlock("write_to_file")
    for piece in ('{"path": "src/', 'a.py", "content": "one\\n', "two\\nthree"):
        coming.feed(piece)
    assert block_lines(coming) == ["● Write src/a.py … 2 lines"]
    command = StreamingCallBlock("execute_command")
    command.feed('{"command": "make te')
    assert block_lines(command) == ["$ make te…"]


def output_lines(output: OutputLines, *, whole: bool = False) -> list[str]:
    return piece_lines(
        [*output.build_stable_parts(expanded=whole), *output.build_open_parts(expanded=whole)]
    )


def test_of_a_long_output_the_beginning_and_the_end_are_in_sight() -> None:
    output = OutputLines("".join(f"line {n}\n" for n in range(60)) + "and more")
    lines = output_lines(output)
    assert lines[:2] == ["  │ line 0", "  │ line 1"]
    assert (
        lines[OUTPUT_HEAD_LINES]
        == f"    … {61 - OUTPUT_HEAD_LINES - OUTPUT_TAIL_LINES} more lines (Ctrl+O)"
    )
    assert lines[-2:] == ["  │ line 59", "  │ and more"]
    assert len(output_lines(output, whole=True)) == 61


def test_of_an_endless_output_the_middle_is_not_kept() -> None:
    output = OutputLines("".join(f"{n}\n" for n in range(3 * MAX_BUFFERED_LINES)))
    lines = output_lines(output, whole=True)
    assert len(lines) == 2 * MAX_BUFFERED_LINES + 1
    assert lines[MAX_BUFFERED_LINES] == f"  … {MAX_BUFFERED_LINES} lines are left out …"


@given(st.lists(st.text("ab\n\t\x1b[", max_size=60)), st.booleans())
def test_any_split_of_an_output_gives_the_same_lines(parts: list[str], whole: bool) -> None:
    grown = OutputLines()
    for part in parts:
        grown.feed(part)
        output_lines(grown, whole=whole)
    assert output_lines(grown, whole=whole) == output_lines(
        OutputLines("".join(parts)), whole=whole
    )


@pytest.mark.parametrize(
    ("row", "lines"),
    [
        (
            {"say": "user_feedback", "text": "do\nit", "images": ["data:"]},
            ["› do", "  it", "  [image]"],
        ),
        ({"say": "user_feedback", "images": ["data:", "data:"]}, ["› [image] [image]"]),
        ({"say": "reasoning", "text": "First\nthis"}, ["∴ thought: First this"]),
        ({"say": "completion_result", "text": "**Done**."}, ["✓ result", "Done."]),
        ({"ask": "followup", "text": '{"question":"Which?"}'}, ["? joey asks", "Which?"]),
        ({"say": "error", "text": "one\ntwo"}, ["! one", "  two"]),
        ({"say": "rooignore_error", "text": ".env"}, ["! .env is hidden by .rooignore"]),
        (
            {"say": "browser_action_result", "text": '{"currentUrl":"http://x"}'},
            ["  page: http://x"],
        ),
        (
            {"ask": "auto_approval_max_req_reached", "text": '{"count":3,"type":"requests"}'},
            ["The limit of 3 requests is reached."],
        ),
    ],
)
def test_rows_are_drawn(row: dict[str, object], lines: list[str]) -> None:
    kind = "ask" if "ask" in row else "say"
    block = build_block(as_row({"ts": 1, "type": kind, **row}))
    assert block is not None
    assert block_lines(block) == lines


@pytest.mark.parametrize("say", ["checkpoint_saved", "api_req_retried", "api_req_finished", "new"])
def test_rows_about_bookkeeping_are_not_shown(say: str) -> None:
    assert build_block(as_row({"ts": 1, "type": "say", "say": say, "text": "x"})) is None


def test_a_row_of_an_odd_shape_still_shows_its_text() -> None:
    row = as_row({"ts": 1.5, "type": "say", "say": "text", "text": "words", "images": "none"})
    assert (row.ts, row.text) == (1, "words")
