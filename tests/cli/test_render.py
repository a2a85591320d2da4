from __future__ import annotations

import io
import os
import termios

import pytest
from msgspec import structs

from joey.cli.line_renderer import LineWriter, TaskRenderer
from joey.core.events import (
    AskAnswered,
    AskOpened,
    CommandOutputDelta,
    Event,
    ReplyReceived,
    RequestStarted,
    RetryCountdown,
    RowAdded,
    RowDelta,
    RowOpened,
    RowPart,
    TaskAborted,
    TaskFailed,
    TodosChanged,
    ToolFinished,
    ToolStarted,
    UserMessage,
)
from joey.core.messages import ReasoningPart, TextPart
from joey.core.permissions.policy import SandboxStatus
from joey.core.permissions.reasons import Access, Reason, ReasonKind
from joey.core.task_types import Answer, AskKind, CallEnding, Response, parse_todos
from joey.presentation.tool_calls import (
    MAX_ASK_DIFF_LINES,
    CommandOutputPreview,
    render_call_card,
)
from tests.harness.cli.terminal import render_lines

DIFF = "--- a.py\n+++ a.py\n@@ -1 +1 @@\n-old\n+new\n"


class TerminalStream(io.StringIO):
    """A terminal of 80 columns that remembers what was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self._fds = os.openpty()
        termios.tcsetwinsize(self._fds[1], (24, 80))

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fds[1]

    def close(self) -> None:
        if not self.closed:
            for fd in self._fds:
                os.close(fd)
        super().close()


def drawn(*events: Event, terminal: bool = False, echo: bool = False, brief: bool = False) -> str:
    with TerminalStream() if terminal else io.StringIO() as stream:
        renderer = TaskRenderer(LineWriter(stream, is_brief=brief), echo=echo)
        for event in events:
            renderer.render(event)
        return stream.getvalue()


def card_text(call: ToolStarted, *, is_ask: bool = False) -> str:
    return "".join(text for text, _ in render_call_card(call, is_ask=is_ask))


def reply(ts: int, text: str) -> ReplyReceived:
    return ReplyReceived(ts=ts + 1, parts=(RowPart(ts, TextPart(text)),))


def test_text_is_drawn_as_it_comes_and_only_once() -> None:
    shown = drawn(
        RowOpened(ts=1, say="text"),
        RowDelta(ts=1, delta="Hel"),
        RowDelta(ts=1, delta="lo."),
        reply(1, "Hello."),
    )
    assert shown == "\nHello.\n"


def test_text_whose_deltas_were_missed_is_drawn_whole() -> None:
    assert drawn(reply(1, "Hello.")) == "\nHello.\n"


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("terminal", [False, True])
def test_markdown_is_printed_as_it_was_written(size: int, terminal: bool) -> None:
    text = "# Title\n\nSome **bold** text and `code`,\n- an item\n\n```py\nx = 1\n```"
    given = f"\n\n{text}\n\n"
    pieces = [given[start : start + size] for start in range(0, len(given), size)]
    deltas = (RowDelta(ts=1, delta=piece) for piece in pieces)
    shown = drawn(RowOpened(ts=1, say="text"), *deltas, reply(1, given), terminal=terminal)
    assert shown == f"\n{text}\n"


def test_long_reasoning_is_folded() -> None:
    lines = "".join(f"thought {n}\n" for n in range(50))
    shown = drawn(
        RowOpened(ts=1, say="reasoning"),
        *(RowDelta(ts=1, delta=piece) for piece in lines.splitlines(keepends=True)),
        ReplyReceived(ts=2, parts=(RowPart(1, ReasoningPart(text=lines)),)),
    )
    assert "thought 0" in shown
    assert "thought 20" not in shown


def test_reasoning_in_one_long_line_is_folded() -> None:
    deltas = (RowDelta(ts=1, delta=f"thought {n}, ") for n in range(500))
    shown = drawn(RowOpened(ts=1, say="reasoning"), *deltas, terminal=True)
    assert "thought 0" in shown
    assert "thought 200" not in shown


def test_nothing_that_a_model_says_commands_the_terminal() -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\u202e"
    shown = drawn(
        RowDelta(ts=1, delta=evil),
        RowAdded(ts=2, say="error", text=evil),
        RowAdded(ts=3, say="completion_result", text=evil),
        ToolStarted(ts=4, call_id="c", tool="execute_command", text=evil),
        AskOpened(ts=5, ask=AskKind.TOOL, tool="write_to_file", path=evil, diff=evil, text="{}"),
        AskOpened(ts=6, ask=AskKind.FOLLOWUP, text=evil),
        AskOpened(ts=6, ask=AskKind.COMMAND, text=evil, always_rule=evil),
        CommandOutputDelta(ts=7, output=f"{evil}\n"),
        TaskFailed(ts=8, code="x", message=evil),
        UserMessage(ts=9, text=evil),
        echo=True,
    )
    assert not {"\x1b", "\x9b", "\x07", "\r", "\u202e"} & set(shown)


def test_a_command_is_shown_whole_before_it_is_allowed() -> None:
    command = "echo start\n" + "x" * 5000 + "\nrm -rf /"
    shown = drawn(AskOpened(ts=1, ask=AskKind.COMMAND, tool="execute_command", text=command))
    assert "rm -rf /" in shown
    assert "x" * 5000 in shown
    assert shown.rstrip(" ").endswith("[y]es / [n]o / or say what to do instead ›")


def test_an_edit_shows_its_path_and_its_change() -> None:
    ask = AskOpened(ts=1, ask=AskKind.TOOL, tool="apply_diff", path="a.py", diff=DIFF, text="{}")
    shown = drawn(ask, terminal=True)
    assert "a.py" in shown
    assert "\x1b[31m  -old" in shown
    assert "\x1b[32m  +new" in shown


def test_why_and_what_is_special_is_said_with_the_question() -> None:
    ask = AskOpened(
        ts=1,
        ask=AskKind.TOOL,
        tool="write_to_file",
        path=".rooignore",
        text="{}",
        is_protected=True,
        reasons=(Reason(ReasonKind.SETTING_OFF, Access.WRITE, setting="alwaysAllowWrite"),),
    )
    shown = drawn(ask)
    assert "Protected file: it controls what joey does" in shown
    assert "  asks because edits require confirmation (alwaysAllowWrite is off)\n" in shown


@pytest.mark.contract("permissions:report")
@pytest.mark.parametrize(
    ("level", "said"),
    [
        ("full", "  sandboxed (full): writes only in this directory\n"),
        ("landlock", "  sandboxed (landlock): writes only in this directory\n"),
        ("none", "  runs UNCONFINED: no sandbox works here (see joey doctor)\n"),
        ("off", "  runs UNCONFINED: the sandbox is switched off\n"),
    ],
)
def test_the_question_says_what_would_hold_the_command(level: SandboxStatus, said: str) -> None:
    tool = "execute_command"
    assert said in drawn(AskOpened(ts=1, ask=AskKind.COMMAND, tool=tool, text="ls", sandbox=level))


def test_a_change_that_nobody_is_asked_about_is_cut_short() -> None:
    long = "\n".join(f"+line {n}" for n in range(300))
    call = ToolStarted(ts=1, call_id="c", tool="write_to_file", text="{}", path="a", diff=long)
    assert "260 more lines" in card_text(call)
    assert "more lines" not in card_text(call, is_ask=True)
    longer = structs.replace(call, diff="+x\n" * (MAX_ASK_DIFF_LINES + 1))
    assert "1 more lines" in card_text(longer, is_ask=True)


def test_a_card_names_what_the_tool_looks_at() -> None:
    row = '{"tool":"searchFiles","path":"src","regex":"TODO"}'
    search = ToolStarted(ts=1, call_id="c", tool="search_files", text=row)
    assert card_text(search) == "● Search /TODO/ in src"
    odd = ToolStarted(ts=1, call_id="c", tool="odd", text="no json")
    assert card_text(odd) == "● odd"


def test_output_is_bounded_and_its_end_is_kept() -> None:
    output = CommandOutputPreview()
    first = list(output.feed("".join(f"line {n}\n" for n in range(100)) + "unfinished"))
    last = list(output.close())
    assert first == [f"line {n}" for n in range(20)]
    assert last[0] == "… 76 lines left out …"
    assert last[1:] == ["line 96", "line 97", "line 98", "line 99", "unfinished"]


def test_short_output_is_shown_as_it_is() -> None:
    output = CommandOutputPreview()
    assert list(output.feed("one\ntw")) == ["one"]
    assert list(output.feed("o\n")) == ["two"]
    assert list(output.close()) == []


def test_the_output_of_a_command_is_drawn_once() -> None:
    finished = ToolFinished(
        ts=9, call_id="c", tool="execute_command", content="x. Exit code: 0\nOutput:\nhello"
    )
    said = RowAdded(ts=8, say="command_output", text="hello\n")
    assert drawn(CommandOutputDelta(ts=7, output="hello\n"), said, finished) == "  │ hello\n"
    assert drawn(said, finished) == "  │ hello\n"


def test_a_command_that_failed_says_so() -> None:
    content = "Command executed in '/w'. The command was not successful.\nExit code: 2\nOutput:\n"
    finished = ToolFinished(ts=9, call_id="c", tool="execute_command", content=content, exit_code=2)
    assert drawn(finished) == "  exit 2\n"


def test_a_call_that_was_refused_says_so_without_what_the_model_reads() -> None:
    shown = drawn(
        AskOpened(ts=1, ask=AskKind.COMMAND, tool="execute_command", text="ls", call_id="c"),
        AskAnswered(ts=2, ask_ts=1, answer=Answer(Response.MESSAGE, text="no, use cat")),
        ToolFinished(
            ts=3,
            call_id="c",
            tool="execute_command",
            content='{"status":"denied","feedback":"no, use cat"}',
        ),
    )
    assert shown.endswith("  rejected\n")
    assert "denied" not in shown


def test_a_transient_note_leaves_no_trace_where_there_is_no_terminal() -> None:
    events = (
        RequestStarted(ts=1, api_protocol="x"),
        RetryCountdown(ts=2, seconds=5, message="busy"),
    )
    assert drawn(*events) == ""
    assert drawn(*events, terminal=True).endswith("in 5 s (retry 1): busy\x1b[0m")


def test_a_transient_note_is_gone_before_anything_else_is_drawn() -> None:
    wait = RetryCountdown(ts=2, seconds=5, message="529\nbusy " * 30, attempt=2, max_attempts=6)
    raw = drawn(wait, RowAdded(ts=2, say="api_req_retry_delayed", text="529\nbusy"), terminal=True)
    assert "(retry 2 of 6): busy" in raw
    assert render_lines(raw, 80) == ["busy", ""]


def test_an_answer_that_nobody_typed_is_shown_with_who_gave_it() -> None:
    ask = AskOpened(ts=1, ask=AskKind.COMMAND, tool="execute_command", text="ls")
    answered = AskAnswered(ts=2, ask_ts=1, answer=Answer(Response.YES, by="demo"))
    assert drawn(ask, answered).endswith("› y (demo)\n")


def test_the_rest_of_what_happens_is_printed_in_a_line() -> None:
    shown = drawn(
        UserMessage(ts=1, text="do it", is_first=True),
        TodosChanged(ts=2, todos=parse_todos("[x] read\n[-] write\n[ ] test")),
        RowAdded(ts=3, say="completion_result", text="# Done\n\nAll of it."),
        TaskAborted(ts=4),
        echo=True,
    )
    assert "› do it" in shown
    assert "☑ read" in shown
    assert "All of it." in shown
    assert "interrupted" in shown


def test_a_custom_tool_is_shown_with_its_arguments_and_its_result() -> None:
    row = '{"tool":"customTool","name":"greet","path":".roo/tools/greet.py","arguments":'
    row += r'"{\"name\":\"Ann\"}"}'
    shown = drawn(
        ToolStarted(ts=1, call_id="c", tool="greet", text=row),
        ToolFinished(ts=2, call_id="c", tool="greet", content="hello Ann\nbye"),
    )
    assert (
        shown
        == '● Custom tool greet (.roo/tools/greet.py) {"name":"Ann"}\n  │ hello Ann\n  │ bye\n'
    )


def test_a_custom_tool_that_was_refused_shows_no_result() -> None:
    row = '{"tool":"customTool","name":"greet","arguments":"{}"}'
    ask = AskOpened(ts=1, ask=AskKind.TOOL, text=row, call_id="c", tool="greet")
    no = AskAnswered(ts=2, ask_ts=1, answer=Answer(Response.NO))
    shown = drawn(ask, no, ToolFinished(ts=3, call_id="c", tool="greet", content="no, thanks"))
    assert "  rejected" in shown
    assert "thanks" not in shown


def test_brief_lines_say_what_is_done_but_not_what_it_prints() -> None:
    shown = drawn(
        reply(1, "I look\naround. " + "漢" * 80),
        ToolStarted(ts=3, call_id="c", tool="execute_command", text="ls\npwd"),
        CommandOutputDelta(ts=4, output="a.py\n"),
        ToolFinished(ts=5, call_id="c", tool="execute_command", content="", exit_code=2),
        RowAdded(ts=6, say="error", text="broken"),
        RowAdded(ts=7, say="completion_result", text="Done."),
        terminal=True,
        brief=True,
    )
    assert shown.splitlines() == [
        f"  I look around. {'漢' * 31}…",
        "$ ls ⏎ pwd",
        "  exit 2",
        "! broken",
    ]


@pytest.mark.parametrize("brief", [False, True])
def test_a_skipped_call_is_named(brief: bool) -> None:
    skipped = ToolFinished(
        ts=1,
        call_id="c",
        tool="read_file",
        content="Skipped.",
        ending=CallEnding.SKIPPED,
        result_header="[read_file for 'a.py'] Result:",
    )
    assert drawn(skipped, brief=brief) == "· skipped: read_file for 'a.py'\n"
