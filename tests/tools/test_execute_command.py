from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from joey.core.models import ToolProtocol
from joey.core.settings import Settings
from joey.core.task_types import AskKind
from joey.errors import ArgumentError, ToolError
from joey.execution.terminal import LocalTerminal
from joey.ports.tool_context import ToolContext
from joey.tools.base import Access, LiveOutput, Outcome
from joey.tools.execute_command import ExecuteCommand, get_kill_timeout
from tests.harness.execution.processes import Listener, is_alive
from tests.harness.tools.tool_context import ROW_TS, make_context

tool = ExecuteCommand()


@pytest.fixture
async def terminal() -> AsyncIterator[LocalTerminal]:
    opened = LocalTerminal(kill_grace=0.3, exit_grace=0.1)
    yield opened
    await opened.close()


async def run(ctx: ToolContext, **arguments: Any) -> Outcome:
    prepared = await tool.prepare(tool.parse(arguments), ctx)
    async with asyncio.timeout(20):
        return await tool.run_prepared(prepared, ctx, None)


@pytest.mark.contract("tool:execute_command:success")
async def test_a_success_reports_exit_code_and_output(
    tmp_path: Path, terminal: LocalTerminal
) -> None:
    outcome = await run(make_context(tmp_path, terminal), command="echo hello")
    assert outcome.text == "Exit code: 0\nOutput:\nhello\n"
    assert not outcome.is_error
    assert outcome.rows == (("command_output", "hello\n"),)


@pytest.mark.parametrize(
    ("given", "run"),
    [
        ("```bash\necho a\n```", "echo a"),
        ("```\n$ echo a\n$ echo b\n```\n", "echo a\necho b"),
        ("$ echo a", "echo a"),
        ("$ cat <<'E'\n$ a\nE", "cat <<'E'\n$ a\nE"),
        ("echo a\n$ b", "echo a\n$ b"),
        ("`echo ls`", "`echo ls`"),
        ("$HOME/a ", "$HOME/a "),
    ],
)
async def test_what_documents_put_around_a_command_is_not_run(
    tmp_path: Path, terminal: LocalTerminal, given: str, run: str
) -> None:
    prepared = await tool.prepare(tool.parse({"command": given}), make_context(tmp_path, terminal))
    assert (prepared.command, prepared.row_text, prepared.claims[0].command) == (run, run, run)


@pytest.mark.contract("tool:execute_command:success")
async def test_a_failure_is_a_result_and_not_an_error(
    tmp_path: Path, terminal: LocalTerminal
) -> None:
    outcome = await run(make_context(tmp_path, terminal), command="echo no >&2; exit 3")
    assert outcome.text == "Exit code: 3\nOutput:\nno\n"
    assert not outcome.is_error


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("kill -KILL $$", "Process terminated by signal SIGKILL\n"),
        ("kill -SEGV $$", "Process terminated by signal SIGSEGV - core dump possible\n"),
        ("bash -c 'kill -TERM $$'; exit $?", "Exit code: 143 (128 + 15: perhaps SIGTERM)\n"),
        ("exit 255", "Exit code: 255\n"),
    ],
)
async def test_a_signal_is_named(
    tmp_path: Path, terminal: LocalTerminal, command: str, status: str
) -> None:
    assert status in (await run(make_context(tmp_path, terminal), command=command)).text


async def test_a_silent_command_is_reported_too(tmp_path: Path, terminal: LocalTerminal) -> None:
    outcome = await run(make_context(tmp_path, terminal), command="true")
    assert outcome.text.endswith("Exit code: 0\nOutput:\n")
    assert outcome.rows == ()


async def test_the_ask_shows_the_command_and_the_claim_carries_it(tmp_path: Path) -> None:
    ctx = make_context(tmp_path)
    command = "echo '  keep  every byte '  "
    prepared = await tool.prepare(tool.parse({"command": command}), ctx)
    assert prepared.ask_kind is AskKind.COMMAND
    assert prepared.row_text == prepared.command == prepared.claims[0].command == command
    assert prepared.claims[0].access is Access.EXECUTE
    assert prepared.claims[0].path is not None
    assert prepared.claims[0].path.path == ctx.files.root
    assert prepared.path is None


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        (ToolProtocol.XML, "a && b > 'c' < d"),
        (ToolProtocol.NATIVE, "a &amp;&amp; b &gt; &apos;c&#39; &lt; d"),
    ],
)
async def test_entities_are_undone_in_xml_only_and_before_anybody_is_asked(
    tmp_path: Path, protocol: ToolProtocol, expected: str
) -> None:
    ctx = make_context(tmp_path, protocol=protocol)
    written = "a &amp;&amp; b &gt; &apos;c&#39; &lt; d"
    prepared = await tool.prepare(tool.parse({"command": written}), ctx)
    assert prepared.command == prepared.row_text == prepared.claims[0].command == expected


@pytest.mark.parametrize(
    "command",
    ["echo '&quot;'", "printf 'a &lt; b' > c", "grep -c '&amp;' a.html && ls", "ls &gt; a &"],
)
async def test_entities_are_kept_where_not_all_is_escaped(tmp_path: Path, command: str) -> None:
    ctx = make_context(tmp_path, protocol=ToolProtocol.XML)
    prepared = await tool.prepare(tool.parse({"command": command}), ctx)
    assert prepared.command == command


@pytest.mark.parametrize("arguments", [{}, {"command": ""}, {"command": " \n"}])
def test_a_missing_command_is_an_argument_error(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="command"):
        tool.parse(arguments)


@pytest.mark.parametrize("cwd", ["sub", "./sub", None])
async def test_the_directory_may_be_relative(
    tmp_path: Path, terminal: LocalTerminal, cwd: str | None
) -> None:
    ctx = make_context(tmp_path, terminal)
    (ctx.files.root / "sub").mkdir()
    wanted = ctx.files.root / "sub" if cwd else ctx.files.root
    where = f" in {wanted}" if cwd else ""
    text = (await run(ctx, command="pwd", cwd=cwd)).text
    assert text == f"Exit code: 0{where}\nOutput:\n{wanted}\n"


async def test_the_directory_may_be_absolute_and_the_claim_says_that_it_is_outside(
    tmp_path: Path, terminal: LocalTerminal
) -> None:
    ctx = make_context(tmp_path, terminal)
    prepared = await tool.prepare(tool.parse({"command": "pwd", "cwd": str(tmp_path)}), ctx)
    assert prepared.claims[0].path is not None
    assert not prepared.claims[0].path.is_inside
    assert prepared.path == str(ctx.files.root.parent)
    assert (
        f"Output:\n{ctx.files.root.parent}\n" in (await tool.run_prepared(prepared, ctx, None)).text
    )


@pytest.mark.parametrize("cwd", ["gone", "file"])
async def test_a_directory_that_is_none_is_named_in_full(tmp_path: Path, cwd: str) -> None:
    ctx = make_context(tmp_path)
    (ctx.files.root / "file").write_text("")
    with pytest.raises(ToolError, match=str(ctx.files.root / cwd)):
        await tool.prepare(tool.parse({"command": "pwd", "cwd": cwd}), ctx)


async def test_a_directory_that_vanishes_while_a_user_decides_is_named_too(tmp_path: Path) -> None:
    ctx = make_context(tmp_path)
    (ctx.files.root / "sub").mkdir()
    prepared = await tool.prepare(tool.parse({"command": "pwd", "cwd": "sub"}), ctx)
    (ctx.files.root / "sub").rmdir()
    with pytest.raises(ToolError, match=str(ctx.files.root / "sub")):
        await tool.run_prepared(prepared, ctx, None)


@pytest.mark.parametrize(("size", "kept"), [("small", 5120), ("medium", 10240), ("large", 20480)])
async def test_output_of_the_preview_size_is_shown_whole_and_leaves_no_file(
    tmp_path: Path, terminal: LocalTerminal, size: Any, kept: int
) -> None:
    settings = Settings(terminal_output_preview_size=size)
    ctx = make_context(tmp_path, terminal, settings=settings)
    outcome = await run(ctx, command=f"head -c {kept} /dev/zero | tr '\\0' x")
    assert outcome.text.endswith("Output:\n" + "x" * kept)
    assert not any(ctx.artifacts_directory.iterdir())


@pytest.mark.contract("tool:execute_command:success:large-output")
async def test_one_byte_more_is_kept_in_a_file_and_shown_by_its_ends(
    tmp_path: Path, terminal: LocalTerminal
) -> None:
    ctx = make_context(tmp_path, terminal)
    outcome = await run(ctx, command="head -c 10240 /dev/zero | tr '\\0' x; printf E")
    assert outcome.text == (
        f"Exit code: 0\nOutput is 10.0KB; saved as cmd-{ROW_TS}.txt\n"
        f"Preview:\n{'x' * 5120}\n[...1 bytes omitted...]\n{'x' * 5119}E\n\n"
        "Read or search all of it with read_command_output."
    )
    assert (ctx.artifacts_directory / f"cmd-{ROW_TS}.txt").read_bytes() == b"x" * 10240 + b"E"


async def test_the_result_says_when_not_everything_could_be_kept(
    tmp_path: Path, terminal: LocalTerminal
) -> None:
    (tmp_path / "task").write_text("in the way")
    ctx = make_context(tmp_path, terminal)
    outcome = await run(ctx, command="head -c 20000 /dev/zero | tr '\\0' x")
    assert "(only the first 0B are kept)" in outcome.text
    assert "Output:\nshort\n" in (await run(ctx, command="echo short")).text


async def test_after_the_models_time_the_command_goes_on_in_the_background(
    tmp_path: Path, terminal: LocalTerminal
) -> None:
    ctx = make_context(tmp_path, terminal)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    outcome = await run(ctx, command=f"echo serving; read < {gate}; echo bye", timeout=2)
    assert outcome.text.startswith("The command is still running.\nOutput so far:\nserving\n")
    assert f"cmd-{ROW_TS}.txt" in outcome.text
    assert not outcome.is_error

    (running,) = terminal.background_commands
    assert running.read_new_output() == ""
    await asyncio.to_thread(gate.write_text, "go\n")
    async with asyncio.timeout(60):
        end = await running.wait()
    assert end is not None
    assert end.exit_code == 0
    assert running.read_new_output() == "bye\n"
    assert (ctx.artifacts_directory / f"cmd-{ROW_TS}.txt").read_text() == "serving\nbye\n"


async def test_a_command_without_a_time_goes_to_the_background_by_itself(
    tmp_path: Path, terminal: LocalTerminal
) -> None:
    ctx = make_context(tmp_path, terminal)
    impatient = ExecuteCommand(default_wait_s=0.2)
    prepared = await impatient.prepare(impatient.parse({"command": "sleep 600"}), ctx)
    outcome = await impatient.run_prepared(prepared, ctx, None)
    assert "still running" in outcome.text
    assert "Output so far:\n(none yet)\n" in outcome.text
    assert f"read_command_output with artifact_id cmd-{ROW_TS}.txt and `stop`" in outcome.text
    assert "`wait` (seconds) to wait for its end" in outcome.text
    (running,) = terminal.background_commands
    assert running.is_expected_to_end


async def test_the_users_limit_kills_a_command_that_would_go_to_the_background(
    tmp_path: Path, terminal: LocalTerminal
) -> None:
    ctx = make_context(tmp_path, terminal, settings=Settings(command_execution_timeout=1))
    impatient = ExecuteCommand(default_wait_s=0.2)
    prepared = await impatient.prepare(impatient.parse({"command": "sleep 600"}), ctx)
    assert (await impatient.run_prepared(prepared, ctx, None)).is_error
    assert not terminal.background_commands


@pytest.mark.parametrize("seconds", [0, -1, None])
async def test_no_time_means_waiting_to_the_end(
    tmp_path: Path, terminal: LocalTerminal, seconds: float | None
) -> None:
    outcome = await run(make_context(tmp_path, terminal), command="echo x", timeout=seconds)
    assert "Exit code: 0" in outcome.text


@pytest.mark.parametrize(
    ("given", "waits_s"), [(120_000, 120), (10_000, 10), (9_999, 9_999), (30, 30), ("60000", 60)]
)
async def test_a_timeout_of_hours_is_meant_in_milliseconds(
    tmp_path: Path, terminal: LocalTerminal, given: float | str, waits_s: float
) -> None:
    tool, ctx = ExecuteCommand(), make_context(tmp_path, terminal)
    prepared = await tool.prepare(tool.parse({"command": "npm start", "timeout": given}), ctx)
    assert prepared.timeout == waits_s


async def test_processes_left_in_the_background_are_reported(
    tmp_path: Path, terminal: LocalTerminal
) -> None:
    ctx = make_context(tmp_path, terminal)
    outcome = await run(ctx, command="sleep 100 & echo started")
    assert "Exit code: 0\nOutput:\nstarted\n" in outcome.text
    assert "keep running" in outcome.text
    assert (ctx.artifacts_directory / f"cmd-{ROW_TS}.txt").exists()


@pytest.mark.contract("tool:execute_command:failure:killed", "tool:execute_command:success:group")
async def test_the_users_limit_kills_and_is_an_error(
    tmp_path: Path, terminal: LocalTerminal
) -> None:
    listener = Listener()
    ctx = make_context(
        tmp_path,
        terminal,
        settings=Settings(command_execution_timeout=2),
        on_output=listener,
    )
    outcome = await run(ctx, command="echo pids: $$; exec sleep 100")
    (pid,) = await listener.pids()
    assert outcome.is_error
    assert "longer than the 2 s that the user allows" in outcome.text
    assert f"Output:\npids: {pid}\n" in outcome.text
    assert [kind for kind, _ in outcome.rows] == ["command_output", "error"]
    assert not is_alive(pid)
    assert not terminal.background_commands
    assert not any(ctx.artifacts_directory.iterdir())


async def test_the_model_may_leave_before_the_users_limit(
    tmp_path: Path, terminal: LocalTerminal
) -> None:
    ctx = make_context(tmp_path, terminal, settings=Settings(command_execution_timeout=60))
    outcome = await run(ctx, command="sleep 100", timeout=0.05)
    assert outcome.text.startswith("The command is still running")


@pytest.mark.parametrize(
    ("command", "limit"),
    [
        ("npm install", None),
        ("npm  install --save x", None),
        (" npm\tinstall", None),
        ("npm", 30),
        ("npm installer", 30),
        ("make", None),
        ("makefile", 30),
        ("echo npm install", 30),
    ],
)
def test_the_limit_spares_commands_on_the_list_word_by_word(
    command: str, limit: int | None
) -> None:
    exempt = ("", "npm install", "make")
    settings = Settings(command_execution_timeout=30, command_timeout_allowlist=exempt)
    assert get_kill_timeout(command, settings) == limit


def test_without_a_limit_nothing_is_killed() -> None:
    assert get_kill_timeout("make", Settings(command_execution_timeout=0)) is None


async def test_a_spared_command_outlives_the_limit(tmp_path: Path, terminal: LocalTerminal) -> None:
    settings = Settings(command_execution_timeout=1, command_timeout_allowlist=("sleep",))
    outcome = await run(make_context(tmp_path, terminal, settings=settings), command="sleep 1.2")
    assert "Exit code: 0" in outcome.text


@pytest.mark.contract("tool:execute_command:success:group")
async def test_cancelling_the_call_leaves_no_process(
    tmp_path: Path, terminal: LocalTerminal
) -> None:
    listener = Listener()
    ctx = make_context(tmp_path, terminal, on_output=listener)
    command = "(sleep 100 & echo pids: $$ $!; wait)"
    call = asyncio.create_task(run(ctx, command=command))
    pids = await listener.pids()
    call.cancel()
    async with asyncio.timeout(60):
        with pytest.raises(asyncio.CancelledError):
            await call
    assert not any(map(is_alive, pids))


async def test_output_is_streamed_while_the_command_runs(
    tmp_path: Path, terminal: LocalTerminal
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    listener = Listener()
    ctx = make_context(tmp_path, terminal, on_output=listener)
    call = asyncio.create_task(run(ctx, command=f"echo first; read < {gate}; echo second"))
    await listener.until("first\n")
    assert not call.done()
    await asyncio.to_thread(gate.write_text, "go\n")
    await call
    assert listener.text == "first\nsecond\n"


async def test_a_flood_is_streamed_in_few_bounded_pieces() -> None:
    pieces: list[str] = []
    live = LiveOutput(pieces.append)
    for number in range(10_000):
        live.write(f"line {number}\n")
    live.close()
    live.write("too late")
    assert len(pieces) == 2
    assert pieces[0] == "line 0\n"
    assert "characters omitted" in pieces[1]
    assert pieces[1].endswith("line 9999\n")
    assert len(pieces[1]) < 40_000


@pytest.mark.parametrize(
    ("command", "refused"),
    [
        ("cat secret.txt", True),
        ("true && /bin/cat -n 'secret.txt' | wc -l", True),
        ("grep x ../work/secret.txt", True),
        ("cat public.txt", False),
        ("grep secret.txt public.txt", True),
        ("rm secret.txt", False),
        ("cat missing/secret.txt", False),
    ],
)
async def test_reading_a_hidden_file_is_claimed_so_that_it_can_be_refused(
    tmp_path: Path, command: str, refused: bool
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".rooignore").write_text("secret.txt\n")
    (tmp_path / "work" / "secret.txt").write_text("x")
    (tmp_path / "work" / "public.txt").write_text("x")
    prepared = await tool.prepare(tool.parse({"command": command}), make_context(tmp_path))
    hidden = [claim.path for claim in prepared.claims if claim.access is Access.READ]
    assert bool(hidden) is refused
    assert all(place is not None and place.is_ignored for place in hidden)


def test_a_result_names_only_the_first_line_of_its_command() -> None:
    label = ExecuteCommand().describe_call({"command": "python3 - <<'EOF'\nprint(1)\nEOF"})
    assert label == "[execute_command for 'python3 - <<'EOF'…']"
