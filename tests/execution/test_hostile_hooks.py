"""Hooks that misbehave: none of them holds up a task for ever, floods it, or outlives it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from joey.core.hooks import MAX_MESSAGE_CHARS, Hook, HookEvent, HookExit
from joey.engine.asks import Unattended
from joey.engine.outcomes import Aborted, Completed
from joey.execution.command_environment import build_command_environment
from joey.execution.hooks import HookEnvironment, run_hook
from joey.execution.terminal import find_shell
from joey.testing.script import Turn, call
from tests.harness.engine.engine_harness import TIMEOUT_S, finish, wait_for_ending
from tests.harness.execution.hook_harness import HookHarness, failures, hook, outcomes, said

READ = Turn(call("read_file", {"path": "a.txt"}))


async def run(tmp_path: Path, command: str, seconds: float = 10) -> HookExit:
    secret = {"ANTHROPIC_API_KEY": "sk-1", "JOEY_TOKEN": "t", "MY_PASSWORD": "p"}
    environment = build_command_environment({**os.environ, **secret})
    place = HookEnvironment(tmp_path, find_shell(os.environ["PATH"]), environment)
    one = Hook(HookEvent.BEFORE_TOOL, command, timeout=seconds)
    async with asyncio.timeout(TIMEOUT_S):
        return await run_hook(one, b"{}\n" * 100_000, place)


def is_alive(file: Path) -> bool:
    """Nobody may have buried it yet; dead it is all the same."""
    try:
        stat = Path(f"/proc/{int(file.read_text())}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


@pytest.mark.contract("hooks:bounded")
async def test_a_hook_that_hangs_is_stopped_with_all_its_children(tmp_path: Path) -> None:
    end = await run(tmp_path, "trap '' TERM; sleep 1000 & echo $! > child; wait", seconds=0.5)
    assert end.error == "it took longer than 0.5 seconds and was stopped"
    assert not is_alive(tmp_path / "child")


@pytest.mark.contract("hooks:bounded")
async def test_a_hook_that_floods_is_stopped_and_little_of_it_is_kept(tmp_path: Path) -> None:
    end = await run(tmp_path, "yes")
    assert end.error == "it printed more than 16 MB"
    assert len(end.stdout) <= 64 * 1024


@pytest.mark.contract("hooks:bounded")
async def test_a_process_that_leaves_the_group_of_its_hook_is_ended(tmp_path: Path) -> None:
    escape = (
        "(setsid sh -c 'echo $$ > child; exec sleep 1000' &) ; while ! test -s child; do :; done"
    )
    end = await run(tmp_path, escape)
    assert end.exit_code == 0, "nobody waits for whoever holds the output open"
    assert not is_alive(tmp_path / "child")


@pytest.mark.contract("hooks:bounded")
async def test_a_process_that_keeps_becoming_another_program_is_ended(tmp_path: Path) -> None:
    """While it does, the system shows it without its environment."""
    (tmp_path / "again.sh").write_text("exec sh again.sh\n", encoding="ascii")
    escape = (
        "(setsid sh -c 'echo $$ > child; exec sh again.sh' &) ; while ! test -s child; do :; done"
    )
    for _ in range(20):
        await run(tmp_path, escape)
        assert not is_alive(tmp_path / "child")
        (tmp_path / "child").unlink()


@pytest.mark.contract("hooks:bounded")
async def test_a_process_that_takes_long_to_end_has_ended(tmp_path: Path) -> None:
    """Its memory, and with it the mark, is gone before the pages of its deleted file are."""
    keep = "exec 9<>big; fallocate -l 512M big; rm big; echo $$ > child; exec sleep 1000"
    await run(tmp_path, f"(setsid sh -c '{keep}' &) ; while ! test -s child; do :; done")
    assert not is_alive(tmp_path / "child")


async def test_a_hook_need_not_read_its_input(tmp_path: Path) -> None:
    assert (await run(tmp_path, "exec <&-; exit 0")).exit_code == 0


async def test_a_hook_that_ends_by_a_signal_or_cannot_start_has_failed(tmp_path: Path) -> None:
    assert (await run(tmp_path, "kill -9 $$")).error == "it was killed by SIGKILL"
    assert "could not be started" in (await run(tmp_path / "gone", "true")).error
    assert "could not be started" in (await run(tmp_path, "a\0b")).error


@pytest.mark.contract("hooks:bounded")
async def test_hooks_get_no_keys(tmp_path: Path) -> None:
    end = await run(tmp_path, "env; pwd")
    assert end.stdout.rstrip().endswith(str(tmp_path))
    assert not any(name in end.stdout for name in ("API_KEY", "JOEY_TOKEN", "PASSWORD", "sk-1"))


async def test_control_characters_of_a_hook_reach_neither_the_model_nor_the_screen(
    harness: HookHarness,
) -> None:
    (harness.root / "a.txt").write_text("x")
    noise = r"printf '\033[2J\033]0;owned\007no\r\x9b31m\b\x7f way\0' >&2; exit 2"
    harness.set_user_hooks(hook("beforeTool", noise, tools=["read_file"]))
    task = await harness.start(READ, finish(), policy=Unattended())
    await wait_for_ending(task)
    shown = outcomes(task)[0] + str(failures(task)[0].rule)
    assert not any(ord(char) < 32 and char != "\n" for char in shown)
    assert not any(0x7F <= ord(char) < 0xA0 for char in shown)


async def test_a_long_message_of_a_hook_is_cut(harness: HookHarness) -> None:
    (harness.root / "a.txt").write_text("x")
    many = "seq 100000 >&2; exit 2"
    harness.set_user_hooks(hook("beforeTool", many, tools=["read_file"]))
    task = await harness.start(READ, finish(), policy=Unattended())
    await wait_for_ending(task)
    assert len(outcomes(task)[0]) < 2 * MAX_MESSAGE_CHARS
    assert "characters left out" in outcomes(task)[0]


@pytest.mark.contract("hooks:decide")
async def test_a_hook_that_fails_is_reported_once_and_holds_nothing_up(
    harness: HookHarness,
) -> None:
    (harness.root / "a.txt").write_text("x")
    harness.set_user_hooks(hook("beforeTool", "exit 7", tools=["read_file"]))
    task = await harness.start(READ, READ, finish(), policy=Unattended())
    await wait_for_ending(task)
    assert said(task, "error") == [
        "The beforeTool hook `exit 7` failed: it ended with exit code 7."
    ]
    assert len(outcomes(task)) == 2 and not failures(task)


@pytest.mark.contract("hooks:decide")
@pytest.mark.parametrize("command", ["exit 1", "sleep 100", "kill -9 $$"])
async def test_a_hook_that_has_to_succeed_blocks_when_it_fails(
    harness: HookHarness, command: str
) -> None:
    (harness.root / "a.txt").write_text("x")
    harness.set_user_hooks(
        hook("beforeTool", command, tools=["read_file"], timeout=0.5, onFailure="block")
    )
    task = await harness.start(READ, finish(), policy=Unattended())
    await wait_for_ending(task)
    assert failures(task)[0].rule == f"hook `{command}`"


async def opened(pipe: Path) -> str:
    """What a hook writes into the pipe, once it has come so far."""
    async with asyncio.timeout(TIMEOUT_S):
        return await asyncio.to_thread(pipe.read_text)


@pytest.mark.contract("hooks:bounded")
async def test_cancelling_a_task_ends_its_hook_at_once(harness: HookHarness) -> None:
    (harness.root / "a.txt").write_text("x")
    os.mkfifo(harness.root / "began")
    harness.set_user_hooks(
        hook("beforeTool", "echo $$ > child; echo > began; sleep 1000", timeout=600)
    )
    task = await harness.start(READ, finish(), policy=Unattended())
    await opened(harness.root / "began")
    await task.cancel()
    assert task.ending == Aborted()
    assert not is_alive(harness.root / "child")


async def test_other_tasks_go_on_while_a_hook_takes_its_time(harness: HookHarness) -> None:
    (harness.root / "a.txt").write_text("x")
    for name in ("began", "go"):
        os.mkfifo(harness.root / name)
    harness.set_user_hooks(hook("beforeTool", "echo > began; cat go", tools=["read_file"]))
    slow = await harness.start(READ, finish(), policy=Unattended())
    await opened(harness.root / "began")
    fast = await harness.start(finish("meanwhile"), policy=Unattended())
    assert await wait_for_ending(fast) == Completed("meanwhile")
    assert slow.is_running
    await asyncio.to_thread((harness.root / "go").write_text, "now")
    assert await wait_for_ending(slow) == Completed("all done")
