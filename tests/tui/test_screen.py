"""`joey` on a terminal, as a user uses it: from the first word to the last line."""

from __future__ import annotations

import asyncio
import json

import pytest

from joey.testing.script import Turn, call, pause, say, think, usage
from joey.testing.server import ModelServer
from joey.tui.widgets.dialog_area import ListPicker
from tests.harness.cli.binary import Joey, reach
from tests.harness.tui.headless import screen
from tests.harness.tui.tmux import needs_tmux, terminal
from tests.harness.tui.turns import done, running, writing


@needs_tmux
@pytest.mark.contract("screen:task")
@pytest.mark.smoke
async def test_a_whole_task_from_the_first_word_to_the_last_line(joey: Joey) -> None:
    gate = asyncio.Event()
    turns = [
        Turn(
            think("Let me see.", signature="s"), say("First words"), pause(gate), say(" and more.")
        ),
        writing("new.txt", "hello\n"),
        running("echo from the shell"),
        done("All is done now."),
    ]
    async with ModelServer(turns) as server, terminal(joey, *reach(server.url)) as shown:
        await shown.until("What should I do?", "code", "scripted", "~/work", "asks first")
        assert await shown.title() == "joey"
        await shown.save_snapshot("start")
        await shown.send("do it")
        await shown.until("do it", "First words", "Esc stops")
        await shown.save_snapshot("streaming")
        gate.set()
        card = await shown.until("and more.", "Create new.txt?", "1 Allow", "+ hello")
        assert "edits require confirmation" in card
        assert not (joey.workspace / "new.txt").exists()
        await shown.save_snapshot("approval")
        await shown.answer("y")
        await shown.until("Run this command?", "$ echo from the shell")
        assert (joey.workspace / "new.txt").read_text(encoding="utf-8") == "hello\n"
        await shown.save_snapshot("command")
        await shown.answer("1")
        await shown.until("from the shell", "All is done now.", "Accept the result")
        await shown.save_snapshot("result")
        await shown.answer("Enter")
        await shown.until("what next?")
        assert await shown.title() == "joey: do it"
        await shown.press("C-d")
        left = await shown.ended(0)
        assert "joey" not in await shown.title(), "the title is what it was"
        assert "to continue: joey -r" in left
        assert "All is done now." in left, "the conversation stays in the terminal"
        assert "what next?" not in left, "the screen that was there before is back"


async def test_a_prompt_of_the_command_line_begins_at_once(joey: Joey) -> None:
    async with ModelServer([done()]) as server, screen(joey, *reach(server.url), "say it") as shown:
        await shown.until("› say it", "All done.", "Accept the result")


async def test_messages_sent_while_joey_works_are_queued_and_can_be_taken_back(joey: Joey) -> None:
    gate = asyncio.Event()
    look = Turn(say("I look"), pause(gate), call("list_files", {"path": "."}))
    async with ModelServer([look, done()]) as server:
        async with screen(joey, *reach(server.url), "look") as shown:
            await shown.until("I look")
            await shown.send("mind the tests")
            await shown.until("↳ mind the tests")
            await shown.send("and the docs")
            await shown.until("↳ and the docs")
            await shown.save_snapshot("queue")
            await shown.press("Up")
            await shown.until_gone("↳ and the docs")
            await shown.until("› and the docs")
            await shown.press("C-c")  # that stops the turn
            await shown.until_gone("Esc stops")
        assert len(server.requests) == 1


async def test_messages_queued_when_joey_stops_are_sent_with_enter(joey: Joey) -> None:
    turns = [Turn(say("I begin"), pause(asyncio.Event())), done("Heard you.")]
    async with ModelServer(turns) as server, screen(joey, *reach(server.url), "begin") as shown:
        await shown.until("I begin")
        await shown.send("mind the tests")
        await shown.until("↳ mind the tests  (Up takes it back)")
        await shown.send(f"and the docs {'of everything ' * 10}")
        await shown.until("↳ and the docs", "…  (Up takes it back)")
        await shown.press("C-c")
        await shown.until(
            "↳ mind the tests", "↳ and the docs", "…  (Enter sends, Up takes it back)"
        )
        await shown.save_snapshot("waiting-stopped")
        await shown.press("Enter")
        await shown.until("Heard you.")
        await shown.until_gone("↳")
        messages = json.dumps(server.requests[-1].body["messages"])
        assert messages.index("mind the tests") < messages.index("and the docs")


async def test_queued_messages_reach_the_model_with_its_next_step(joey: Joey) -> None:
    gate = asyncio.Event()
    look = Turn(say("I look"), pause(gate), call("list_files", {"path": "."}))
    async with ModelServer([look, done()]) as server:
        async with screen(joey, *reach(server.url), "look") as shown:
            await shown.until("I look")
            await shown.send("mind the tests")
            await shown.until("↳ mind the tests")
            gate.set()
            await shown.until("All done.")
            await shown.until_gone("↳ mind the tests")
        assert "mind the tests" in json.dumps(server.requests[-1].body["messages"])


@pytest.mark.contract("screen:task")
async def test_escape_stops_the_turn_and_the_next_message_goes_on_with_it(joey: Joey) -> None:
    turns = [Turn(say("I begin"), pause(asyncio.Event())), done("So it is.")]
    async with ModelServer(turns) as server, screen(joey, *reach(server.url), "begin") as shown:
        await shown.until("I begin", "Esc stops")
        await shown.press("Escape")
        await shown.until_gone("Esc stops")
        await shown.save_snapshot("stopped")
        await shown.send("go on then")
        await shown.until("› go on then", "So it is.")


async def test_the_plan_stands_above_the_composer_and_can_be_hidden(joey: Joey) -> None:
    plan = {"todos": "[x] look around\n[-] write it\n[ ] test it"}
    turns = [
        Turn(call("update_todo_list", plan), usage(input=50_000, output=20)),
        writing("a", "b"),
    ]
    async with ModelServer(turns) as server, screen(joey, *reach(server.url), "plan") as shown:
        await shown.until("Create a?", "1 of 3 done", "✓ look around", "● write it", "○ test it")
        await shown.save_snapshot("plan")
        await shown.press("C-t")
        await shown.until_gone("○ test it")
        await shown.press("C-t")
        await shown.until("○ test it")


@needs_tmux
async def test_two_interrupts_leave_and_one_does_not(joey: Joey) -> None:
    async with ModelServer([]) as server, terminal(joey, *reach(server.url)) as shown:
        await shown.until("What should I do?")
        await shown.type("something")
        await shown.until("› something")
        await shown.press("C-c")
        await shown.until("What should I do?")
        await shown.press("C-c")
        await shown.until("Ctrl+C again leaves")
        await shown.until_gone("Ctrl+C again leaves")
        await shown.press("C-c", "C-c")
        await shown.ended(130)


@needs_tmux
async def test_a_command_goes_on_in_the_background(joey: Joey) -> None:
    turns = [running("echo begun; until test -e go; do sleep 0.1; done"), done("It runs.")]
    async with ModelServer(turns) as server, terminal(joey, *reach(server.url), "run") as shown:
        await shown.until("Run this command?")
        await shown.answer("y")
        await shown.until("begun", "running the command")
        await shown.send("mind the tests")
        await shown.until("↳ mind the tests")
        await shown.until("running the command", "Esc stops, Ctrl+B leaves it running")
        await shown.press("C-b")
        await shown.until("continues in the background", "It runs.", "1 in the background")
        assert "still running" in json.dumps(server.requests[-1].body["messages"])
        (joey.workspace / "go").touch()
        await shown.until_gone("1 in the background")
        await shown.press("C-d")
        assert "ended" not in (await shown.ended(0)).replace("ended with 0.", "")


@needs_tmux
@pytest.mark.contract("screen:task")
async def test_the_last_lines_name_a_command_that_is_ended_with_joey(joey: Joey) -> None:
    turns = [running("echo begun; sleep 1000"), done("It runs.")]
    async with ModelServer(turns) as server, terminal(joey, *reach(server.url), "run") as shown:
        await shown.until("Run this command?")
        await shown.answer("y")
        await shown.until("begun", "running the command")
        await shown.press("C-b")
        await shown.until("It runs.", "1 in the background", "Accept the result")
        await shown.press("C-d")
        left = await shown.ended(0)
        assert "ended, because it ran in the background: echo begun; sleep 1000" in left
        assert "to continue: joey -r" in left


async def test_a_line_for_the_users_own_shell_is_sent_with_the_next_message(joey: Joey) -> None:
    async with ModelServer([done()]) as server, screen(joey, *reach(server.url)) as shown:
        await shown.until("What should I do?")
        await shown.send("!echo two; false; echo $((20 + 22)); exit 3")
        await shown.until("two", "42", "exit 3")
        await shown.until_gone("running your command")
        await shown.save_snapshot("shell")
        assert not server.requests
        await shown.send("what was that?")
        await shown.until("All done.")
        sent = json.dumps(server.requests[0].body["messages"])
        assert "what was that?" in sent
        assert "42" in sent
        assert "exit 3" in sent
        seen = await shown.capture()
        assert "(with the output of `echo two; false;" in seen
        assert "```" not in seen


async def test_a_long_output_of_a_command_is_shown_whole_by_ctrl_o(joey: Joey) -> None:
    joey.settings(sandbox="off", terminalOutputPreviewSize="small")
    turns = [running("for n in $(seq 60); do printf 'line%s %0100d\\n' $n 0; done"), done()]
    async with ModelServer(turns) as server:
        async with screen(joey, *reach(server.url), "run", size=(130, 100)) as shown:
            await shown.until("Run this command?")
            await shown.answer("y")
            await shown.until("more lines (Ctrl+O)", "│ line60", "Accept the result")
            await shown.press("C-o")
            whole = await shown.until("│ line29", "│ line30", "│ line31")
            assert "omitted" not in whole
        sent = json.dumps(server.requests[-1].body["messages"])
        assert "bytes omitted" in sent
        assert "line30 " not in sent
        async with screen(joey, "-c", *reach(server.url), size=(130, 100)) as shown:
            await shown.until("│ line60", "what next?")
            await shown.press("C-o")
            await shown.until("│ line29", "│ line30", "│ line31")


async def test_a_long_output_of_the_users_own_shell_is_shown_whole_by_ctrl_o(joey: Joey) -> None:
    async with ModelServer([]) as server, screen(joey, *reach(server.url), size=(80, 60)) as shown:
        await shown.until("What should I do?")
        await shown.send("!seq 40")
        folded = await shown.until("more lines (Ctrl+O)", "│ 40")
        assert "│ 30" not in folded
        await shown.press("C-o")
        await shown.until("│ 29", "│ 30", "│ 31")


async def test_a_line_for_the_users_own_shell_is_stopped_with_escape(joey: Joey) -> None:
    async with ModelServer([]) as server, screen(joey, *reach(server.url)) as shown:
        await shown.until("What should I do?")
        await shown.send("!echo begun; sleep 1000")
        await shown.until("begun", "running your command", "Esc stops")
        await shown.press("Escape")
        await shown.until("stopped")
        await shown.until_gone("Esc stops")


@pytest.mark.parametrize("key", ["Escape", "Enter"])
async def test_keys_typed_right_after_a_list_was_closed_go_to_the_composer(
    joey: Joey, key: str
) -> None:
    async with ModelServer([]) as server, screen(joey, *reach(server.url)) as shown:
        await shown.until("What should I do?")
        await shown.send("/mode")
        await shown.until("type to filter")
        picker = shown.app.query_one(ListPicker)
        await shown.press(key)
        await asyncio.wait((picker.result,))
        shown.type_at_once("hello")
        await shown.until("› hello")


async def test_end_goes_to_the_end_unless_it_moves_in_text(joey: Joey) -> None:
    long = "\n\n".join(f"line {number}" for number in range(60))
    turns = [Turn(say(long), call("attempt_completion", {"result": "The end."}))]
    async with ModelServer(turns) as server, screen(joey, *reach(server.url), "go") as shown:
        await shown.until("The end.", "Accept the result")
        await shown.press("Home")
        await shown.until("› go", "↓ more below (Ctrl+End)")
        await shown.press("End")
        await shown.until("The end.")
        await shown.until_gone("more below")
        # All at once: words that are still on their way count as written.
        await shown.press("b", "c", "Home", "a", "PageUp", "PageUp", "End", "d")
        await shown.until("› abcd", "more below")
        await shown.press("C-End")
        await shown.until("The end.", "› abcd")
