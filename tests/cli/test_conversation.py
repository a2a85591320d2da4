"""`joey` on a terminal, as a user uses it."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from joey.testing.script import Turn, call, fail, pause, say, think
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach
from tests.harness.cli.conversation import ACCEPT, ASK, PROMPT
from tests.harness.cli.terminal import CTRL_C, CTRL_D, terminal


def done(result: str = "All done.") -> Turn:
    return Turn(say("Nearly."), call("attempt_completion", {"result": result}))


def writing(path: str, content: str) -> Turn:
    return Turn(say("I write."), call("write_to_file", {"path": path, "content": content}))


def running(command: str) -> Turn:
    return Turn(say("I run."), call("execute_command", {"command": command}))


@pytest.mark.contract("screen:task")
async def test_a_whole_task_from_prompt_to_acceptance(joey: Joey) -> None:
    turns = [
        Turn(think("Let me see.", signature="s"), *writing("new.txt", "hello\n").steps),
        running("echo from the shell | tee shell.txt"),
        done(),
    ]
    async with ModelServer(turns) as server, terminal(joey, *reach(server.url), "do it") as screen:
        card = await screen.until(ASK)
        assert "› do it" in card
        assert "Let me see." in card
        assert "Create new.txt" in card
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


@pytest.mark.contract("screen:task", "loop:rejection")
async def test_a_message_instead_of_yes_goes_to_the_model_and_nothing_happens(joey: Joey) -> None:
    async with ModelServer([writing("new.txt", "x"), done()]) as server:
        async with terminal(joey, *reach(server.url), "do it") as screen:
            await screen.until(ASK)
            screen.press("\n")
            await screen.until(ASK)
            screen.press("call it old.txt\n")
            await screen.until(ACCEPT)
        assert "call it old.txt" in json.dumps(server.requests[-1].body["messages"])
    assert not (joey.workspace / "new.txt").exists()


@pytest.mark.contract("context:summary")
async def test_compact_sums_the_conversation_up(joey: Joey) -> None:
    turns = [done("So it is. " * 500), Turn(say("It was said often.")), done("Again.")]
    async with ModelServer(turns) as server:
        async with terminal(joey, *reach(server.url), "say it") as screen:
            await screen.until(ACCEPT)
            screen.press("\n")
            await screen.until(PROMPT)
            screen.press("/compact mind the tests\n")
            shown = await screen.until(PROMPT)
            assert "the conversation is condensed" in shown
            screen.press("/condense\n")
            assert "not condensed: There is nothing to condense" in await screen.until(PROMPT)
            screen.press("go on\n")
            await screen.until(ACCEPT)
        assert "mind the tests" in json.dumps(server.requests[1].body["messages"])
        assert "It was said often." in json.dumps(server.requests[2].body["messages"])


@pytest.mark.contract("asks:queue")
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


@pytest.mark.contract("tool:ask_followup_question:success")
async def test_a_question_is_answered_with_a_number(joey: Joey) -> None:
    ask = {
        "question": "Which colour?",
        "follow_up": [{"text": "red", "mode": None}, {"text": "blue", "mode": None}],
    }
    async with ModelServer([Turn(call("ask_followup_question", ask)), done()]) as server:
        async with terminal(joey, *reach(server.url), "paint") as screen:
            await screen.until("your own answer › ")
            assert screen.lines[-5:-1] == ["", "Which colour?", "  1. red", "  2. blue"]
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
            task_id = joey.tasks[0].name.removeprefix("task_")[:13]
            last = rf" ›\n\d+ tokens in all requests · to continue: joey -r {task_id}\n"
            assert re.fullmatch(last, "\n".join(screen.lines[-3:]))
        sent = json.dumps(server.requests[-1].body["messages"])
    assert all(text in sent for text in ("count", "go on", "and more"))
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
            await screen.until(PROMPT)
            screen.press(CTRL_C)
            assert await screen.ended() == 130
            assert "^C" not in screen.text
            assert screen.lines[-6:-2] == [" ›", "(Ctrl-C again, or Ctrl-D, to leave)", "", " ›"]
        sent = json.dumps(server.requests[-1].body["messages"])
    assert "I begin" in sent
    assert "now really" in sent


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
    (directory,) = joey.tasks
    journal = (directory / "journal.jsonl").read_text(encoding="utf-8")
    assert "askWithdrawn" in journal


@pytest.mark.contract("asks:queue")
async def test_a_message_typed_during_work_reaches_the_model_at_its_next_step(joey: Joey) -> None:
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
            shown = await screen.until(PROMPT)
            assert shown.startswith(f"joey 0.1.0 · scripted (anthropic at {server.url}) · ")
            assert "continuing task" in shown
            assert "its last message: I begin" in shown
            screen.press(CTRL_D)
            task_id = joey.tasks[0].name.removeprefix("task_")[:13]
            await screen.until(f"to continue: joey -r {task_id}")
            assert await screen.ended() == 0
        async with terminal(joey, "-c", *reach(server.url)) as screen:
            await screen.until(PROMPT)
            screen.press("go on\n")
            await screen.until(ACCEPT)
    assert len(joey.tasks) == 1


async def test_messages_still_queued_from_an_earlier_run_are_announced(joey: Joey) -> None:
    turn = Turn(say("I begin"), pause(asyncio.Event()))
    async with ModelServer([turn, done(), done()]) as server:
        async with terminal(joey, *reach(server.url), "do it") as screen:
            await screen.until("I begin")
            screen.press("and be quick\n")
            await screen.until("before its next step")
            screen.press(CTRL_D)
            assert await screen.ended() == 0
        async with terminal(joey, "-c", "--fork", *reach(server.url)) as screen:
            assert "and be quick" not in await screen.until(PROMPT)
        async with terminal(joey, "-c", *reach(server.url)) as screen:
            announcement = "this message was not read yet, and is sent with the next one: "
            assert f"{announcement}and be quick\n" in await screen.until(PROMPT)
            screen.press("go on\n")
            await screen.until(ACCEPT)
        sent = json.dumps(server.requests[-1].body["messages"])
        assert "and be quick" in sent and "go on" in sent
        async with terminal(joey, "-c", *reach(server.url)) as screen:
            assert "not read yet" not in await screen.until(PROMPT)


async def test_the_last_lines_name_a_command_that_is_ended_with_joey(joey: Joey) -> None:
    joey.settings(sandbox="off")
    turns = [running("sleep 1000 & echo begun"), done()]
    async with ModelServer(turns) as server, terminal(joey, *reach(server.url), "run") as screen:
        await screen.until(ASK)
        screen.press("y\n")
        await screen.until(ACCEPT)
        screen.press(CTRL_D)
        await screen.until("ended, because it ran in the background: sleep 1000 & echo begun")
        await screen.until("to continue: joey -r")
        assert await screen.ended() == 0


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


@pytest.mark.contract("screen:safe-display")
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


REPLY_TEXT = (
    "Here is **what I found** in `src/joey/cli`: the lines were broken by the terminal, which"
    " cuts words in two.\n\n## Next\n\n- look at everything that stands near it, and at what stands"
    " near that\n- mend `it`\n\n```sh\nmake test\n```\n"
)
QUESTION = {
    "question": "Which of the two ways shall it be, the one that is slow or the one that is quick?",
    "follow_up": [
        {"text": "the slow one, which is right in the end and needs no second look", "mode": None},
        {"text": "the quick one", "mode": None},
    ],
}


@pytest.mark.parametrize("columns", [60, 100, 200])
async def test_questions_are_wrapped_and_the_models_text_is_as_written(
    joey: Joey, columns: int
) -> None:
    joey.settings(requestDelaySeconds=0.01)
    turns = [
        Turn(think("Let me see what this is about. " * 9, signature="s"), say(REPLY_TEXT, chunk=3)),
        Turn(say("Sorry."), call("read_file", {"path": "no/such/file/anywhere/at/all.txt"})),
        writing("new.txt", "words that are many " * 15 + "\n"),
        Turn(fail(529, "too many people want something " * 4)),
        Turn(call("ask_followup_question", QUESTION)),
        done("The **result** is told in words too. " * 8),
    ]
    async with (
        ModelServer(turns) as server,
        terminal(joey, *reach(server.url), "do it " * 40, columns=columns) as screen,
    ):
        await screen.until(ASK)
        screen.press("no, not so\n")
        await screen.until("your own answer › ")
        screen.press("1\n")
        await screen.until(ACCEPT)
        lines = screen.lines
    assert max(map(len, lines)) <= columns
    assert {"```sh", "make test", "- mend `it`"} <= set(lines)
    joined = " ".join(" ".join(lines).split())
    assert str(QUESTION["question"]) in joined
    assert "the slow one, which is right in the end and needs no second look" in joined
    assert "1. the slow one, which is right in the end and needs no second look" in joined
    assert "rejected" in joined
    assert "denied" not in joined


async def test_the_first_line_says_with_whom_and_where(joey: Joey) -> None:
    async with terminal(joey, "--provider", "ollama", "-m", "some-model") as screen:
        shown = await screen.until(PROMPT)
        screen.press(CTRL_D)
        assert await screen.ended() == 0
    assert shown.startswith("joey 0.1.0 · some-model (ollama) · ~/work\n")


async def test_the_lines_of_a_run_without_a_conversation_fit_the_terminal_too(joey: Joey) -> None:
    long = "one of many words " * 12
    turns = [
        Turn(say(long), call("execute_command", {"command": f"echo {long}"})),
        Turn(fail(401, "no " * 40)),
    ]
    async with (
        ModelServer(turns) as server,
        terminal(joey, "-p", *reach(server.url), "do it", columns=60) as screen,
    ):
        assert await screen.ended() == 78
        lines = screen.lines
    assert max(map(len, lines)) <= 60
    assert f"  {long[:57]}…" in lines
    assert "joey: anthropic" in screen.text
    assert any(line.startswith("      ") for line in lines)


async def test_commands_of_the_project_are_listed_and_carried_out(joey: Joey) -> None:
    directory = joey.workspace / ".roo/commands"
    directory.mkdir(parents=True)
    text = "---\ndescription: Ship it\nmode: ask\n---\nPut it onto the ship.\n"
    (directory / "deploy.md").write_text(text, encoding="utf-8")
    async with ModelServer([done()]) as server, terminal(joey, *reach(server.url)) as screen:
        await screen.until(PROMPT)
        screen.press("/help\n")
        assert "/deploy" in await screen.until("Ship it")
        await screen.until(PROMPT)
        screen.press("/deploy\n")
        await screen.until("now in ask mode")
        await screen.until(ACCEPT)
        assert "onto the ship" in json.dumps(server.requests[-1].body["messages"])


async def test_a_message_at_the_question_whether_to_try_again_reaches_the_model(joey: Joey) -> None:
    turns = [Turn(fail(400, "no")), done()]
    async with ModelServer(turns) as server, terminal(joey, *reach(server.url), "go") as screen:
        await screen.until("Retry? ")
        screen.press("and be brief\n")
        await screen.until(ACCEPT)
        assert "and be brief" in json.dumps(server.requests[-1].body["messages"])


async def test_a_change_of_the_mode_is_shown_without_a_screen(joey: Joey) -> None:
    switching = Turn(call("switch_mode", {"mode_slug": "ask", "reason": "to ask"}))
    async with ModelServer([switching, done()]) as server:
        finished = await joey.run("-p", "-y", *reach(server.url), "go")
    assert "  now in ask mode\n" in finished.err
