"""`joey` on a terminal, as a person uses it."""

from __future__ import annotations

import asyncio
import json

import pytest

from joey.testing.script import Turn, call, pause, say, think
from joey.testing.server import ModelServer
from tests.front.binary import Joey, reach
from tests.front.terminal import CTRL_C, CTRL_D, terminal

ASK = "say what to do instead › "
ACCEPT = "say what to change › "
PROMPT = "\n › "


def done(result: str = "All done.") -> Turn:
    return Turn(say("Nearly."), call("attempt_completion", {"result": result}))


def writing(path: str, content: str) -> Turn:
    return Turn(say("I write."), call("write_to_file", {"path": path, "content": content}))


def running(command: str) -> Turn:
    return Turn(say("I run."), call("execute_command", {"command": command}))


@pytest.mark.requirement("front:approvals")
async def test_a_whole_task_from_prompt_to_acceptance(joey: Joey) -> None:
    turns = [
        Turn(think("Let me see.", signature="s"), *writing("new.txt", "hello\n").steps),
        running("echo from the shell"),
        done(),
    ]
    async with ModelServer(turns) as server, terminal(joey, *reach(server.url), "do it") as screen:
        card = await screen.until(ASK)
        assert "› do it" in card
        assert "Let me see." in card
        assert "write_to_file new.txt" in card
        assert "+hello" in card
        assert not (joey.workspace / "new.txt").exists()
        screen.press("y\n")
        command = await screen.until(ASK)
        assert "$ echo from the shell" in command
        assert (joey.workspace / "new.txt").read_text(encoding="utf-8") == "hello\n"
        screen.press("yes\n")
        result = await screen.until(ACCEPT)
        assert "│ from the shell" in result
        assert "All done." in result
        screen.press("\n")
        await screen.until(PROMPT)
        screen.press("/exit\n")
        assert await screen.ended() == 0


@pytest.mark.requirement("front:approvals", "engine:calls:message-is-no")
async def test_words_instead_of_yes_are_told_to_the_model_and_nothing_happens(joey: Joey) -> None:
    async with ModelServer([writing("new.txt", "x"), done()]) as server:
        async with terminal(joey, *reach(server.url), "do it") as screen:
            await screen.until(ASK)
            screen.press("\n")
            await screen.until(ASK)
            screen.press("call it old.txt\n")
            await screen.until(ACCEPT)
        assert "call it old.txt" in json.dumps(server.requests[-1].body["messages"])
    assert not (joey.workspace / "new.txt").exists()


@pytest.mark.requirement("engine:asks:queue-is-no-answer")
async def test_what_was_typed_before_the_question_is_not_its_answer(joey: Joey) -> None:
    gate = asyncio.Event()
    turn = Turn(say("I think"), pause(gate), *writing("new.txt", "x").steps)
    model = ModelServer([turn, done()])
    async with model as server, terminal(joey, *reach(server.url), "do it") as screen:
        await screen.until("I think")
        screen.press("y\n")
        await screen.until("before its next step")
        screen.press("y")
        gate.set()
        await screen.until(ASK)
        screen.press("\n")
        await screen.until(ASK)
        screen.press("n\n")
        await screen.until(ACCEPT)
    assert not (joey.workspace / "new.txt").exists()


@pytest.mark.requirement("tools:ask_followup_question:asks")
async def test_a_question_is_answered_with_a_number(joey: Joey) -> None:
    ask = {
        "question": "Which colour?",
        "follow_up": [{"text": "red", "mode": None}, {"text": "blue", "mode": None}],
    }
    async with ModelServer([Turn(call("ask_followup_question", ask)), done()]) as server:
        async with terminal(joey, *reach(server.url), "paint") as screen:
            question = await screen.until("your own answer › ")
            assert "Which colour?\n  1. red\n  2. blue" in question
            screen.press("2\n")
            await screen.until(ACCEPT)
        assert "blue" in json.dumps(server.requests[-1].body["messages"])


async def test_feedback_on_a_result_goes_on_and_a_finished_task_can_be_continued(
    joey: Joey,
) -> None:
    async with ModelServer([done("One."), done("Two."), done("Three.")]) as server:
        async with terminal(joey, *reach(server.url)) as screen:
            await screen.until(PROMPT)
            screen.press("count\n")
            await screen.until(ACCEPT)
            screen.press("go on\n")
            assert "Two." in await screen.until(ACCEPT)
            screen.press("\n")
            await screen.until(PROMPT)
            screen.press("and more\n")
            assert "Three." in await screen.until(ACCEPT)
            screen.press("y\n")
            await screen.until(PROMPT)
            screen.press("/cost\n")
            await screen.until("tokens in")
            await screen.until(PROMPT)
            screen.press(CTRL_D)
            assert await screen.ended() == 0
        told = json.dumps(server.requests[-1].body["messages"])
    assert all(words in told for words in ("count", "go on", "and more"))
    assert len(joey.tasks) == 1


async def test_ctrl_c_stops_the_work_and_the_next_line_goes_on(joey: Joey) -> None:
    turn = Turn(say("I begin"), pause(asyncio.Event()))
    async with ModelServer([turn, done()]) as server:
        async with terminal(joey, *reach(server.url), "do it") as screen:
            await screen.until("I begin")
            screen.press(CTRL_C)
            await screen.until("interrupted")
            await screen.until(PROMPT)
            screen.press("now really\n")
            await screen.until(ACCEPT)
            screen.press("\n")
            await screen.until(PROMPT)
            screen.press(CTRL_C)
            await screen.until("Ctrl-C again")
            screen.press(CTRL_C)
            assert await screen.ended() == 130
        told = json.dumps(server.requests[-1].body["messages"])
    assert "I begin" in told
    assert "now really" in told


async def test_ctrl_c_at_a_question_withdraws_it(joey: Joey) -> None:
    model = ModelServer([writing("new.txt", "x"), done()])
    async with model as server, terminal(joey, *reach(server.url), "do it") as screen:
        await screen.until(ASK)
        screen.press(CTRL_C)
        await screen.until("interrupted")
        await screen.until(PROMPT)
        screen.press("something else\n")
        await screen.until(ACCEPT)
    assert not (joey.workspace / "new.txt").exists()
    (folder,) = joey.tasks
    journal = (folder / "journal.jsonl").read_text(encoding="utf-8")
    assert "askWithdrawn" in journal


@pytest.mark.requirement("engine:asks:queued-words")
async def test_words_typed_during_the_work_reach_the_model_at_its_next_step(joey: Joey) -> None:
    gate = asyncio.Event()
    (joey.workspace / "a.txt").write_text("hello", encoding="utf-8")
    look = Turn(say("I look"), pause(gate), call("read_file", {"path": "a.txt"}))
    async with ModelServer([look, done()]) as server:
        async with terminal(joey, *reach(server.url), "do it") as screen:
            await screen.until("I look")
            screen.press("and be quick\n")
            await screen.until("before its next step")
            gate.set()
            await screen.until(ACCEPT)
        assert "and be quick" in json.dumps(server.requests[-1].body["messages"])


async def test_leaving_during_the_work_leaves_a_task_that_can_be_resumed(joey: Joey) -> None:
    turn = Turn(say("I begin"), pause(asyncio.Event()))
    async with ModelServer([turn, done()]) as server:
        async with terminal(joey, *reach(server.url), "do it") as screen:
            await screen.until("I begin")
            screen.press(CTRL_D)
            assert await screen.ended() == 0
        async with terminal(joey, "-c", *reach(server.url)) as screen:
            assert "going on with task" in await screen.until(PROMPT)
            screen.press("go on\n")
            await screen.until(ACCEPT)
    assert len(joey.tasks) == 1


async def test_a_pasted_text_is_one_message_and_new_begins_another_task(joey: Joey) -> None:
    async with ModelServer([done(), done()]) as server:
        async with terminal(joey, *reach(server.url)) as screen:
            await screen.until(PROMPT)
            screen.press("first line\nsecond line\nthird line\n")
            await screen.until(ACCEPT)
            assert "first line\\nsecond line\\nthird line" in json.dumps(
                server.requests[-1].body["messages"]
            )
            screen.press("\n")
            await screen.until(PROMPT)
            screen.press("/new\n")
            await screen.until(PROMPT)
            screen.press("another\n")
            await screen.until(ACCEPT)
        assert "first line" not in json.dumps(server.requests[-1].body["messages"])
    assert len(joey.tasks) == 2


async def test_help_and_unknown_commands_are_answered_without_a_model(joey: Joey) -> None:
    async with terminal(joey, "--provider", "ollama", "-m", "none") as screen:
        await screen.until(PROMPT)
        screen.press("/help\n")
        await screen.until("/exit")
        await screen.until(PROMPT)
        screen.press("/nonsense\n")
        await screen.until("no command /nonsense")
        screen.press(CTRL_D)
        assert await screen.ended() == 0


async def test_without_a_model_the_message_is_the_same_as_elsewhere(joey: Joey) -> None:
    async with terminal(joey, "do it") as screen:
        await screen.until("joey demo")
        assert await screen.ended() == 78


@pytest.mark.requirement("front:safe-display")
async def test_nothing_that_the_model_says_moves_the_cursor(joey: Joey) -> None:
    evil = "\x1b[2J\x1b]0;owned\x07\rhidden \u202ereversed"
    async with (
        ModelServer([Turn(say(evil), call("attempt_completion", {"result": evil}))]) as server,
        terminal(joey, *reach(server.url), "do it") as screen,
    ):
        await screen.until(ACCEPT)
        assert "\x1b[2J" not in screen.raw
        assert "\x1b]0;" not in screen.raw
        assert "\u202e" not in screen.raw
