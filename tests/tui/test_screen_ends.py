"""Sizes, colours, signals, windows that are closed, and terminals that cannot show a screen."""

from __future__ import annotations

import asyncio
import os
import re
import signal

import psutil
import pytest

from joey.testing.script import Turn, call, pause, say
from joey.testing.server import ModelServer
from joey.tui.widgets.task_status import SPINNER_FRAMES
from tests.harness.cli.binary import LIMIT, Joey, reach
from tests.harness.tui.headless import screen
from tests.harness.tui.tmux import command_line, needs_tmux, shell, terminal
from tests.harness.tui.turns import done, running, writing

pytestmark = needs_tmux


@pytest.mark.contract("screen:sizes")
async def test_the_screen_follows_the_size_of_its_window(joey: Joey) -> None:
    text = " ".join(f"word{number}" for number in range(60))
    turns = [Turn(say(text), *writing("new.txt", "hello\n").steps), done()]
    async with (
        ModelServer(turns) as server,
        terminal(joey, *reach(server.url), "do it", size=(200, 50)) as shown,
    ):
        await shown.until("word59", "Create new.txt?", "1 Allow", "scripted")
        await shown.save_snapshot("size-200x50")
        for columns, rows in ((60, 20), (30, 10), (80, 24), (200, 50)):
            await shown.resize(columns, rows)
            await shown.until("Create new.txt?", "1 Allow", "2 Reject", "─" * columns)
            await shown.save_snapshot(f"size-{columns}x{rows}")
        await shown.until("word0", "word59")
        await shown.answer("y")
        await shown.until("All done.")


async def test_a_narrow_status_line_keeps_what_matters(joey: Joey) -> None:
    turn = Turn(say("I begin"), pause(asyncio.Event()))
    async with (
        ModelServer([turn]) as server,
        screen(joey, *reach(server.url), "begin", size=(30, 10)) as shown,
    ):
        await shown.until("I begin", "Esc stops")
        assert re.search(rf"[{SPINNER_FRAMES}] \w+ \d+s, Esc stops", await shown.capture())
        await shown.press("Escape")
        await shown.until("code · scripted")


@pytest.mark.contract("screen:sizes")
async def test_no_colour_where_none_is_wanted(joey: Joey) -> None:
    async with (
        ModelServer([writing("new.txt", "hello\n")]) as server,
        terminal(joey, *reach(server.url), "do it", env={"NO_COLOR": "1"}) as shown,
    ):
        await shown.until("Create new.txt?", "+ hello")
        await shown.save_snapshot("no-colour")
        drawn = await shown.tmux("capture-pane", "-t", "joey", "-p", "-e")
    codes = {code for found in re.findall(r"\x1b\[([\d;]*)m", drawn) for code in found.split(";")}
    colours = {code for code in codes if code and 30 <= int(code) <= 107 and code not in "39 49"}
    assert not colours


@pytest.mark.contract("screen:task")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
async def test_a_signal_stops_the_task_and_restores_the_terminal(
    joey: Joey, number: signal.Signals, code: int
) -> None:
    turn = Turn(say("I begin"), pause(asyncio.Event()))
    async with ModelServer([turn]) as server:
        async with terminal(joey, *reach(server.url), "begin") as shown:
            await shown.until("I begin")
            os.kill(await shown.pid(), number)
            assert "to continue: joey -r" in await shown.ended(code)
            flags = await shown.tmux("display-message", "-t", "joey", "-p", "#{mouse_any_flag}")
            assert flags.strip() == "0"
        listed = await joey.run("tasks", "list")
        assert "interrupted" in listed.out


@pytest.mark.contract("screen:task")
async def test_a_second_signal_ends_joey_at_once_and_restores_the_terminal(joey: Joey) -> None:
    turn = Turn(say("I begin"), pause(asyncio.Event()))
    cooked = "; code=$?; stty -a | grep -q ' icanon.* echo ' && echo cooked; (exit $code)"
    async with ModelServer([turn]) as server:
        async with terminal(joey, *reach(server.url), "begin", behind=cooked) as shown:
            await shown.until("I begin")
            process = psutil.Process(await shown.pid())
            process.suspend()
            async with asyncio.timeout(LIMIT):
                while process.status() != psutil.STATUS_STOPPED:  # noqa: ASYNC110 (the kernel's)
                    await asyncio.sleep(0.01)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
                process.send_signal(number)  # so both are there when it looks for the first
            assert "cooked" in await shown.ended(143)
            flags = "#{alternate_on}#{mouse_any_flag}#{mouse_sgr_flag} #{cursor_flag}"
            assert (await shown.tmux("display-message", "-t", "joey", "-p", flags)) == "000 1\n"
        listed = await joey.run("tasks", "list")
        assert "interrupted" in listed.out


@pytest.mark.contract("screen:task")
async def test_a_window_that_is_closed_takes_joey_along(joey: Joey) -> None:
    turn = Turn(say("I begin"), pause(asyncio.Event()))
    async with ModelServer([turn]) as server:
        async with terminal(joey, *reach(server.url), "begin") as shown:
            await shown.until("I begin")
            pid = await shown.pid()
            await shown.tmux("set-option", "-g", "exit-empty", "off")
            await shown.tmux("kill-window", "-t", "joey")
            await _gone(pid)
        listed = await joey.run("tasks", "list")
        assert "interrupted" in listed.out


async def _gone(pid: int) -> None:
    async with asyncio.timeout(LIMIT):
        while True:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return
            await asyncio.sleep(0.05)


@pytest.mark.contract("screen:plain")
@pytest.mark.parametrize("way", ["--plain", "JOEY_PLAIN", "TERM", "ASCII", "2>/dev/null"])
async def test_a_terminal_that_wants_lines_gets_lines(joey: Joey, way: str) -> None:
    env = {
        "JOEY_PLAIN": {"JOEY_PLAIN": "1"},
        "TERM": {"TERM": "dumb"},
        "ASCII": {"PYTHONIOENCODING": "ascii:backslashreplace"},
    }.get(way, {})
    flags = ("--plain",) if way == "--plain" else ()
    behind = way if way.startswith("2>") else ""
    async with (
        ModelServer([done()]) as server,
        terminal(joey, *flags, *reach(server.url), "do it", env=env, behind=behind) as shown,
    ):
        assert "Task completed" not in await shown.until("say what to change", "All done.")


async def test_what_is_wrong_with_the_command_line_is_said_without_a_screen(joey: Joey) -> None:
    nowhere = reach("http://127.0.0.1:9")
    async with terminal(joey, *nowhere, "--mode", "nonsense", "do it") as shown:
        assert "no mode 'nonsense'" in await shown.ended(2)


async def test_a_task_that_another_process_holds_is_refused_without_a_screen(joey: Joey) -> None:
    turn = Turn(say("I begin"), pause(asyncio.Event()))
    async with ModelServer([turn]) as server, terminal(joey, *reach(server.url), "begin") as first:
        await first.until("I begin")
        async with terminal(joey, "-c", *reach(server.url)) as second:
            left = await second.ended(1)
            assert "joey:" in left


async def test_somebody_who_looks_elsewhere_is_called(joey: Joey) -> None:
    gate = asyncio.Event()
    turn = Turn(say("I begin"), pause(gate), *writing("new.txt", "x").steps)
    async with ModelServer([turn]) as server, terminal(joey, *reach(server.url), "begin") as shown:
        await shown.until("I begin")
        await shown.type("\x1b[O")  # how a terminal says that it is not looked at
        bell = ("display-message", "-t", "joey", "-p", "#{window_bell_flag}")
        assert (await shown.tmux(*bell)).strip() == "0"
        gate.set()
        await shown.until("Create new.txt?")
        assert (await shown.tmux(*bell)).strip() == "1"


async def test_a_tiny_window_is_no_reason_to_fall_over(joey: Joey) -> None:
    turns = [writing("new.txt", "x"), done()]
    async with ModelServer(turns) as server, terminal(joey, *reach(server.url), "do it") as shown:
        await shown.until("Create new.txt?")
        for columns, rows in ((12, 4), (3, 2), (100, 30)):
            await shown.resize(columns, rows)
        await shown.until("Create new.txt?", "3 Reject, and say what to do instead")
        await shown.answer("y")
        await shown.until("All done.")


async def test_a_screen_that_somebody_else_wrote_over_is_drawn_anew(joey: Joey) -> None:
    async with ModelServer([]) as server, terminal(joey, *reach(server.url)) as shown:
        await shown.until("What should I do?", "joey")
        await shown.tmux("send-keys", "-t", "joey", "-R")  # forgets what stands there
        await shown.until_gone("What should I do?")
        await shown.press("C-l")
        await shown.until("Describe a task.", "What should I do?", "code · scripted")


async def test_a_suspended_screen_comes_back(joey: Joey) -> None:
    async with ModelServer([]) as server, shell(joey) as shown:
        await shown.send(command_line(*reach(server.url)))
        await shown.until("What should I do?")
        await shown.press("C-z")
        await shown.until("Stopped")
        await shown.until_gone("What should I do?")
        await shown.send("fg")
        await shown.until("Describe a task.", "code · scripted")


@pytest.mark.contract("screen:task")
@pytest.mark.parametrize(
    ("turn", "question"), [(done(), "Task completed"), (writing("new.txt", "x"), "Create new.txt?")]
)
async def test_ctrl_d_leaves_at_a_question_and_answers_nothing(
    joey: Joey, turn: Turn, question: str
) -> None:
    async with ModelServer([turn]) as server:
        async with terminal(joey, *reach(server.url), "do it") as shown:
            await shown.until(question)
            await shown.answer("C-d")
            await shown.ended(0)
        async with terminal(joey, "-c", *reach(server.url)) as shown:
            await shown.until("› do it", "what next?")
    assert not (joey.workspace / "new.txt").exists()


@pytest.mark.contract("screen:sizes")
async def test_a_plan_makes_room_for_a_question_where_there_is_little(joey: Joey) -> None:
    plan = "\n".join(f"[{'-' if n == 0 else ' '}] step {n}" for n in range(6))
    turns = [Turn(say("A plan."), call("update_todo_list", {"todos": plan})), running("make it")]
    joey.settings(sandbox="off", alwaysAllowUpdateTodoList=True)
    async with (
        ModelServer(turns) as server,
        screen(joey, *reach(server.url), "do it", size=(80, 30)) as shown,
    ):
        await shown.until("Run this command?", "0 of 6 done", "step 5")
        await shown.resize(30, 10)
        await shown.until_gone("0 of 6 done")
        await shown.until("Run this command?", "1 Allow", "code")
        await shown.save_snapshot("plan-30x10")
        await shown.resize(80, 30)
        await shown.until("Run this command?", "0 of 6 done", "step 5")
