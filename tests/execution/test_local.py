from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import psutil
import pytest

from joey.errors import ToolError
from joey.execution import terminal as terminal_module
from joey.execution.terminal import LocalTerminal
from joey.ports.execution import CommandExit
from tests.harness.execution.processes import Listener, is_alive


async def finished(
    terminal: LocalTerminal, command: str, cwd: Path, artifact: Path | None = None
) -> tuple[CommandExit, str]:
    running = await terminal.start(command, cwd, artifact)
    async with asyncio.timeout(20):
        end = await running.wait()
    assert end is not None
    return end, running.render_truncated(100_000)


@pytest.mark.contract("tool:execute_command:success:true-exit")
@pytest.mark.parametrize(
    ("command", "end"),
    [
        ("true", CommandExit(exit_code=0)),
        ("exit 3", CommandExit(exit_code=3)),
        ("kill -KILL $$", CommandExit(exit_code=None, signal="SIGKILL")),
        ("kill -SEGV $$", CommandExit(exit_code=None, signal="SIGSEGV")),
        ("bash -c 'kill -TERM $$'; exit $?", CommandExit(exit_code=143)),
        ("no-such-program-anywhere", CommandExit(exit_code=127)),
    ],
)
async def test_the_end_is_the_true_exit_code_or_signal(
    terminal: LocalTerminal, tmp_path: Path, command: str, end: CommandExit
) -> None:
    assert (await finished(terminal, command, tmp_path))[0] == end


PIPELINE_NOTE = "[joey: exit codes of the pipeline: {}. The last one is that of the command.]\n"


@pytest.mark.parametrize(
    ("command", "exit_code", "output"),
    [
        ("python3 -c 'raise SystemExit(3)' | tail -5", 0, PIPELINE_NOTE.format("3 0")),
        ("cd . && (echo a; make -f none 2>&-) | head -1", 0, "a\n" + PIPELINE_NOTE.format("2 0")),
        ("make -f none 2>/dev/null | grep x", 1, PIPELINE_NOTE.format("2 1")),
        ("! make -f none 2>/dev/null | cat", 1, PIPELINE_NOTE.format("2 0")),
        ("IFS=0; make -f none 2>/dev/null | cat  # end", 0, PIPELINE_NOTE.format("2 0")),
        ("python3 -c 'raise SystemExit(3)' | tail -5\n\n", 0, PIPELINE_NOTE.format("3 0")),
        ("true\nmake -f none 2>/dev/null | cat ;\n", 0, PIPELINE_NOTE.format("2 0")),
        ("make -f none 2>/dev/null | cat &\nwait", 0, ""),
        ("python3 -c 'print(1)' | tail -5", 0, "1\n"),
        ("yes | head -1", 0, "y\n"),
        ("grep nothing /dev/null | cat", 0, ""),
        ("set -o pipefail; make -f none 2>/dev/null | cat", 2, ""),
        ("exec 2>err; make -f none | cat", 0, ""),
        ("make -f none 2>/dev/null | cat; exit 7", 7, ""),
        ("make -f none 2>/dev/null | cat; echo $#", 0, "0\n"),
        ("cat <<X | make -f none 2>/dev/null | cat\nset\nX", 0, ""),
    ],
)
async def test_a_failure_that_a_pipeline_hides_is_reported(
    terminal: LocalTerminal, tmp_path: Path, command: str, exit_code: int, output: str
) -> None:
    assert await finished(terminal, command, tmp_path) == (CommandExit(exit_code), output)


async def test_both_outputs_come_in_the_order_they_were_written(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    _, output = await finished(terminal, "echo one; echo two >&2; echo three", tmp_path)
    assert output == "one\ntwo\nthree\n"


@pytest.mark.contract("tool:execute_command:success:whole-output")
async def test_a_last_line_without_newline_is_kept_everywhere(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    artifact = tmp_path / "out" / "cmd-1.txt"
    _, output = await finished(terminal, "printf 'a\\nlast'", tmp_path, artifact)
    assert output == "a\nlast"
    assert artifact.read_bytes() == b"a\nlast"


async def test_the_command_runs_in_the_given_directory(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    directory = tmp_path / "with space"
    directory.mkdir()
    _, output = await finished(terminal, "pwd -P", directory)
    assert output == f"{directory.resolve()}\n"


async def test_a_missing_directory_is_named(terminal: LocalTerminal, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=str(tmp_path / "gone")):
        await terminal.start("true", tmp_path / "gone", None)


@pytest.mark.parametrize("command", ["echo \0", "echo \ud800", "echo " + "x" * 300_000])
async def test_a_command_that_no_system_can_run_is_refused_with_a_reason(
    terminal: LocalTerminal, tmp_path: Path, command: str
) -> None:
    with pytest.raises(ToolError, match="command"):
        await terminal.start(command, tmp_path, None)
    assert not terminal.background_commands


async def test_a_command_that_begins_with_a_dash_is_still_a_command(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    end, output = await finished(terminal, "-x; echo after", tmp_path)
    assert end.exit_code == 0
    assert output.endswith("after\n")
    assert "-x" in output


@pytest.mark.contract("tool:execute_command:success:environment")
async def test_stdin_is_closed_so_that_nothing_waits_for_input(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    end, output = await finished(terminal, "cat; read line || echo nobody types", tmp_path)
    assert output == "nobody types\n"
    assert end.exit_code == 0


async def test_no_start_up_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "rc").write_text("echo from the rc file\n")
    for name in (".bashrc", ".bash_profile", ".profile"):
        (tmp_path / name).write_text("echo from the profile\n")
    hostile = {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "BASH_ENV": str(tmp_path / "rc"),
        "ENV": str(tmp_path / "rc"),
    }
    terminal = LocalTerminal(hostile)
    assert (await finished(terminal, "echo only this", tmp_path))[1] == "only this\n"
    await terminal.close()


@pytest.mark.contract("tool:execute_command:success:environment")
async def test_secrets_of_the_engine_are_not_in_the_environment(tmp_path: Path) -> None:
    secrets = {"ANTHROPIC_API_KEY": "canary-1", "JOEY_TOKEN": "canary-2", "MY_VAR": "canary-3"}
    terminal = LocalTerminal({"PATH": os.environ["PATH"], **secrets})
    _, output = await finished(terminal, "env; cat /proc/self/environ", tmp_path)
    await terminal.close()
    assert "canary" not in output
    assert "JOEY_ACTIVE=1" in output


async def test_without_bash_the_plain_shell_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal_module, "BASH_PATHS", ())
    terminal = LocalTerminal({"PATH": str(tmp_path)})
    _, output = await finished(terminal, "echo ${BASH_VERSION:-plain}", tmp_path)
    await terminal.close()
    assert output == "plain\n"


async def test_a_hundred_megabytes_neither_block_nor_fill_memory(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    size = 100_000_000
    artifact = tmp_path / "cmd-1.txt"
    before = psutil.Process().memory_info().rss
    running = await terminal.start(f"head -c {size} /dev/zero | tr '\\0' x", tmp_path, artifact)
    async with asyncio.timeout(60):
        end = await running.wait()
    grown = psutil.Process().memory_info().rss - before
    assert end == CommandExit(exit_code=0)
    assert running.output_bytes == artifact.stat().st_size == size
    assert f"[...{size - 1000} bytes omitted...]" in running.render_truncated(1000)
    assert grown < 32_000_000


async def test_the_artifact_has_every_byte_and_is_private(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    artifact = tmp_path / "command-output" / "cmd-1.txt"
    source = tmp_path / "data"
    source.write_bytes(os.urandom(700_000))
    await finished(terminal, f"cat {source}", tmp_path, artifact)
    assert artifact.read_bytes() == source.read_bytes()
    assert artifact.stat().st_mode & 0o777 == 0o600
    assert artifact.parent.stat().st_mode & 0o777 == 0o700


async def test_a_silent_command_leaves_no_artifact(terminal: LocalTerminal, tmp_path: Path) -> None:
    await finished(terminal, "true", tmp_path, tmp_path / "cmd-1.txt")
    assert not (tmp_path / "cmd-1.txt").exists()


async def test_an_artifact_that_cannot_be_written_does_not_disturb_the_command(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    end, output = await finished(terminal, "echo fine", tmp_path, tmp_path / "file" / "cmd-1.txt")
    assert (end.exit_code, output) == (0, "fine\n")


async def test_binary_output_is_shown_with_replacements(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    _, output = await finished(terminal, r"printf '\xff\xfe\x00ok\n'", tmp_path)
    assert output == "\ufffd\ufffd\ufffdok\n"


async def test_a_character_split_between_two_writes_is_read_whole(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    listener = Listener()
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    command = rf"printf 'ready \xe2\x82'; read < {gate}; printf '\xac!\n'"
    running = await terminal.start(command, tmp_path, None, listener)
    await listener.until("ready ")
    await asyncio.to_thread(gate.write_text, "go\n")
    async with asyncio.timeout(60):
        await running.wait()
    assert listener.text == "ready €!\n"


async def test_progress_bars_and_repeats_are_shown_short(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    command = r"printf '10%%\r50%%\r100%%\n'; for i in $(seq 30); do echo the same line; done"
    _, output = await finished(terminal, command, tmp_path)
    assert output == "100%\nthe same line\n<previous line repeated 29 additional times>\n"


async def test_a_command_that_takes_longer_than_the_wait_goes_on_in_the_background(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    listener = Listener()
    running = await terminal.start(
        f"echo before; read < {gate}; echo after; exit 4", tmp_path, None, listener
    )
    await listener.until("before")
    assert await running.wait(0.01) is None
    assert list(terminal.background_commands) == [running]
    assert running.read_new_output() == "before\n"
    assert running.read_new_output() == ""

    await asyncio.to_thread(gate.write_text, "go\n")
    async with asyncio.timeout(60):
        assert await running.wait() == CommandExit(exit_code=4)
    assert list(terminal.background_commands) == [running]
    assert running.read_new_output() == "after\n"
    assert not terminal.background_commands


async def test_a_command_in_the_foreground_is_not_listed(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    listener = Listener()
    running = await terminal.start("echo ready; sleep 60", tmp_path, None, listener)
    await listener.until("ready")
    assert not terminal.background_commands
    await running.kill()


async def test_the_command_is_over_although_a_child_holds_its_output(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    listener = Listener()
    running = await terminal.start("sleep 100 & echo pids: $!", tmp_path, None, listener)
    async with asyncio.timeout(60):
        end = await running.wait()
    (child,) = await listener.pids()
    assert end == CommandExit(exit_code=0, has_background_processes=True)
    assert is_alive(child)
    assert list(terminal.background_commands) == [running]
    await terminal.close()
    assert not is_alive(child)


async def test_the_output_of_a_child_left_behind_is_still_read(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    artifact = tmp_path / "cmd-1.txt"
    listener = Listener()
    command = f"(read < {gate}; echo late words) & echo early words"
    running = await terminal.start(command, tmp_path, artifact, listener)
    async with asyncio.timeout(60):
        assert await running.wait() == CommandExit(exit_code=0, has_background_processes=True)
    await asyncio.to_thread(gate.write_text, "go\n")
    await listener.until("late words")
    assert artifact.read_text() == "early words\nlate words\n"


async def test_a_child_with_its_output_elsewhere_is_noticed_and_ended_with_the_task(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    listener = Listener()
    command = "sleep 100 > /dev/null 2>&1 & echo pids: $!"
    running = await terminal.start(command, tmp_path, None, listener)
    async with asyncio.timeout(60):
        assert await running.wait() == CommandExit(exit_code=0, has_background_processes=True)
    (child,) = await listener.pids()
    running.read_new_output()
    assert not terminal.background_commands
    await terminal.close()
    assert not is_alive(child)


@pytest.mark.contract("tool:execute_command:success:group")
async def test_kill_ends_the_whole_group(terminal: LocalTerminal, tmp_path: Path) -> None:
    listener = Listener()
    command = "sleep 100 & a=$!; sleep 100 & echo pids: $$ $a $!; wait"
    running = await terminal.start(command, tmp_path, None, listener)
    pids = await listener.pids()
    async with asyncio.timeout(60):
        end = await running.kill()
    assert end == CommandExit(exit_code=None, signal="SIGTERM")
    assert not any(map(is_alive, pids))


async def test_a_child_that_ignores_sigterm_is_killed(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    listener = Listener()
    command = "trap '' TERM; echo pids: $$; while :; do sleep 1; done"
    running = await terminal.start(command, tmp_path, None, listener)
    pids = await listener.pids()
    async with asyncio.timeout(60):
        end = await running.kill()
    assert end == CommandExit(exit_code=None, signal="SIGKILL")
    assert not any(map(is_alive, pids))


async def test_a_child_that_outlives_its_shell_is_killed_with_it(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    listener = Listener()
    command = "(trap '' TERM; echo pids: $BASHPID; while :; do sleep 1; done) & wait"
    running = await terminal.start(command, tmp_path, None, listener)
    pids = await listener.pids()
    async with asyncio.timeout(60):
        end = await running.kill()
    assert end == running.exit == CommandExit(exit_code=None, signal="SIGTERM")
    assert not any(map(is_alive, pids))
    assert not terminal.background_commands


async def test_what_was_killed_does_not_go_on_in_the_background(tmp_path: Path) -> None:
    terminal = LocalTerminal(kill_grace=0.05, exit_grace=0.001)
    command = "(trap '' TERM; echo pids: $BASHPID; while :; do sleep 1; done) & wait"
    for _ in range(10):  # its output may be seen to end before or after it
        listener = Listener()
        running = await terminal.start(command, tmp_path, None, listener)
        await listener.pids()
        async with asyncio.timeout(60):
            await running.kill()
        assert not terminal.background_commands


async def test_killing_what_was_left_behind_ends_it(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    listener = Listener()
    running = await terminal.start("sleep 100 & echo pids: $!", tmp_path, None, listener)
    (child,) = await listener.pids()
    async with asyncio.timeout(60):
        await running.wait()
        assert await running.kill() == CommandExit(exit_code=0)
    assert not is_alive(child)


@pytest.mark.contract("tool:execute_command:success:true-exit")
async def test_a_killed_command_never_looks_like_a_success(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    listener = Listener()
    command = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    running = await terminal.start(command, tmp_path, None, listener)
    await listener.until("ready")
    async with asyncio.timeout(60):
        end = await running.kill()
    assert end == CommandExit(exit_code=None, signal="SIGTERM")


async def test_killing_what_has_ended_changes_nothing(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    running = await terminal.start("exit 5", tmp_path, None)
    async with asyncio.timeout(60):
        await running.wait()
        assert await running.kill() == CommandExit(exit_code=5)


SURVIVORS = [
    pytest.param("sleep 100 & echo pids: $!; wait", id="group"),
    pytest.param("(sleep 100 & echo pids: $!) & wait; sleep 100", id="double-fork"),
    pytest.param("setsid sh -c 'echo pids: $$; exec sleep 100' & sleep 100", id="session"),
    pytest.param(
        "setsid sh -c '(setsid sh -c \"echo pids: \\$\\$; exec sleep 100\" &)'; sleep 100",
        id="orphan-in-its-own-session",
    ),
    pytest.param("env -i sh -c 'echo pids: $$; exec sleep 100' & sleep 100", id="no-environment"),
    pytest.param(
        "setsid env -i sh -c 'echo pids: $$; exec sleep 100' & sleep 100",
        id="no-environment-in-its-own-session",
    ),
]


@pytest.mark.parametrize("command", SURVIVORS)
async def test_cancelling_whoever_waits_leaves_no_process(
    terminal: LocalTerminal, tmp_path: Path, command: str
) -> None:
    listener = Listener()
    running = await terminal.start(command, tmp_path, None, listener)
    waiting = asyncio.create_task(running.wait())
    await asyncio.sleep(0)  # what it prints may be there already
    pids = [running.pid, *await listener.pids()]
    waiting.cancel()
    async with asyncio.timeout(60):
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert not any(map(is_alive, pids))
    assert running.exit is not None
    assert running.exit.exit_code is None


async def test_a_second_cancel_kills_at_once(tmp_path: Path) -> None:
    terminal = LocalTerminal(kill_grace=60)
    listener = Listener()
    command = "trap 'echo got it' TERM; echo ready; while :; do sleep 0.01; done"
    running = await terminal.start(command, tmp_path, None, listener)
    await listener.until("ready")
    waiting = asyncio.create_task(running.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    await listener.until("got it")
    waiting.cancel()
    async with asyncio.timeout(60):
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await running.wait() == CommandExit(exit_code=None, signal="SIGKILL")
    await terminal.close()


async def test_cancelling_the_start_leaves_no_process(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    before = psutil.Process().children(recursive=True)
    for _ in range(10):
        starting = asyncio.create_task(terminal.start("sleep 100", tmp_path, None))
        await asyncio.sleep(0)
        starting.cancel()
        async with asyncio.timeout(60):
            with pytest.raises(asyncio.CancelledError):
                await starting
        children = psutil.Process().children(recursive=True)
        assert not any(is_alive(child.pid) for child in children if child not in before)


async def test_close_ends_everything_and_the_terminal_can_be_used_again(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    listeners = [Listener(), Listener()]
    for listener in listeners:
        await terminal.start("echo pids: $$; exec sleep 100", tmp_path, None, listener)
    pids = [pid for listener in listeners for pid in await listener.pids()]
    async with asyncio.timeout(60):
        await terminal.close()
    assert not any(map(is_alive, pids))
    assert (await finished(terminal, "echo again", tmp_path))[1] == "again\n"


async def test_one_terminal_leaves_the_processes_of_another_alone(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    other = LocalTerminal()
    listener = Listener()
    await terminal.start("echo pids: $$; exec sleep 100", tmp_path, None, listener)
    await finished(other, "true", tmp_path)
    await other.close()
    (pid,) = await listener.pids()
    assert is_alive(pid)


async def test_an_agent_inside_a_command_is_ended_with_all_its_own_commands(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    script = tmp_path / "inner.py"
    script.write_text(
        "import asyncio, pathlib, time\n"
        "from joey.execution.terminal import LocalTerminal\n"
        "async def main():\n"
        "    inner = LocalTerminal()\n"
        "    command = 'echo pids: $$; exec sleep 100'\n"
        "    told = lambda text: print(text, end='', flush=True)\n"
        "    await (await inner.start(command, pathlib.Path('.'), None, told)).wait()\n"
        "asyncio.run(main())\n"
    )
    source = Path(terminal_module.__file__).parents[2]
    listener = Listener()
    command = f"PYTHONPATH={source} {sys.executable} {script} & wait"
    running = await terminal.start(command, tmp_path, None, listener)
    pids = await listener.pids()
    async with asyncio.timeout(60):
        await running.kill()
    assert not any(map(is_alive, pids))


async def test_many_commands_leak_no_file_descriptor(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    async def many() -> None:
        await asyncio.gather(
            *(finished(terminal, "echo x", tmp_path, tmp_path / f"{i}.txt") for i in range(20))
        )

    await many()
    before = psutil.Process().num_fds()
    await many()
    assert psutil.Process().num_fds() <= before, "fewer: what other tests have left was closed"


async def test_a_command_that_is_waited_for_can_be_left_in_the_background(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    assert not terminal.detach_foreground()
    running = await terminal.start("sleep 1000", tmp_path, None)
    waiting = asyncio.ensure_future(running.wait())
    await asyncio.sleep(0)
    assert terminal.detach_foreground()
    async with asyncio.timeout(20):
        assert await waiting is None
    assert list(terminal.background_commands) == [running]
    assert not terminal.detach_foreground(), "nobody waits for it any more"
    end = await running.kill()
    assert end.exit_code != 0
