"""Line by line: the commands of the screen, and words that joey had not read when it stopped."""

from __future__ import annotations

import asyncio
import json

import pytest

from joey.cli.repl.keyboard import MAX_PASTE_GAP_S
from joey.testing.script import Turn, call, pause, say
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach
from tests.harness.cli.terminal import CTRL_C, CTRL_D, terminal

ASK = "say what to do instead › "
ACCEPT = "say what to change › "
PROMPT = "\n › "
NOT_READ = "Enter sends it, other text replaces it"
DONE = Turn(say("Nearly."), call("attempt_completion", {"result": "All done."}))


def write(path: str) -> Turn:
    return Turn(call("write_to_file", {"path": path, "content": "x\n"}))


async def test_messages_queued_at_ctrl_c_come_back_and_enter_sends_them(joey: Joey) -> None:
    async with ModelServer([Turn(say("I begin"), pause(asyncio.Event())), DONE]) as server:
        async with terminal(joey, *reach(server.url), "do it") as screen:
            await screen.until("I begin")
            for message in ("and be quick", "and be kind"):
                screen.press(f"{message}\n")
                await screen.until("before its next step")
            screen.press(CTRL_C)
            await screen.until("interrupted")
            drawn = await screen.until(PROMPT)
            assert NOT_READ in drawn and "and be quick" in drawn and "and be kind" in drawn
            screen.press("/cost\n")
            await screen.until(PROMPT)
            screen.press("\n")
            await screen.until(ACCEPT)
        said = json.dumps(server.requests[-1].body["messages"])
    assert said.count("and be quick\\nand be kind") == 1


async def test_another_message_replaces_those_that_were_queued(joey: Joey) -> None:
    async with ModelServer([Turn(say("I begin"), pause(asyncio.Event())), DONE]) as server:
        async with terminal(joey, *reach(server.url), "do it") as screen:
            await screen.until("I begin")
            screen.press("and be quick\n")
            await screen.until("before its next step")
            screen.press(CTRL_C)
            await screen.until(NOT_READ)
            await screen.until(PROMPT)
            screen.press("take your time\n")
            await screen.until(ACCEPT)
            screen.press("\n")
            await screen.until(PROMPT)
            screen.press("\n")
            await screen.until(PROMPT)
        said = json.dumps(server.requests[-1].body["messages"])
    assert "take your time" in said and "and be quick" not in said
    assert len(server.requests) == 2


async def test_messages_queued_for_a_subtask_come_back_too(joey: Joey) -> None:
    joey.settings(alwaysAllowSubtasks=True)
    delegating = Turn(call("new_task", {"mode": "ask", "message": "look around"}))
    looking = Turn(say("I look around"), pause(asyncio.Event()))
    async with ModelServer([delegating, looking, DONE, DONE]) as server:
        async with terminal(joey, *reach(server.url), "do it") as screen:
            await screen.until("I look around")
            screen.press("but not there\n")
            await screen.until("before its next step")
            screen.press(CTRL_C)
            drawn = await screen.until(PROMPT)
            assert NOT_READ in drawn and "but not there" in drawn
            screen.press("everywhere\n")
            await screen.until(ACCEPT)
        said = json.dumps([request.body["messages"] for request in server.requests])
    assert "everywhere" in said and "but not there" not in said


async def test_the_mode_is_chosen_before_a_task_between_and_in_the_middle(joey: Joey) -> None:
    gate = asyncio.Event()
    turns = [DONE, Turn(say("I think"), pause(gate), call("read_file", {"path": "a"})), DONE]
    async with ModelServer(turns) as server:
        async with terminal(joey, *reach(server.url)) as screen:
            await screen.until(PROMPT)
            screen.press("/mode\n")
            listed = await screen.until("/mode MODE chooses one")
            assert "* code" in listed and "\n  ask " in listed
            screen.press("/mode aks\n")
            await screen.until("there is no mode 'aks'; did you mean ask?")
            screen.press("/mode ask\n")
            await screen.until("now in ask mode")
            screen.press("what is this?\n")
            await screen.until(ACCEPT)
            assert "slug>ask" in json.dumps(server.requests[-1].body)
            screen.press("\n")
            await screen.until(PROMPT)
            screen.press("/mode debug\n")
            await screen.until("now in debug mode")
            screen.press("look again\n")
            await screen.until("I think")
            assert "slug>debug" in json.dumps(server.requests[-1].body)
            screen.press("/mode code\n")
            await screen.until("now in code mode")
            gate.set()
            await screen.until(ACCEPT)
            assert "slug>code" in json.dumps(server.requests[-1].body)
        said = json.dumps([request.body["messages"] for request in server.requests])
    assert not any(f"/mode {mode}" in said for mode in ("ask", "debug", "code"))


async def test_edits_that_were_accepted_are_asked_about_again(joey: Joey) -> None:
    turns = [write("a.txt"), Turn(call("ask_followup_question", QUESTION)), write("b.txt"), DONE]
    async with ModelServer(turns) as server:
        async with terminal(joey, *reach(server.url), "go") as screen:
            await screen.until(ASK)
            screen.press("a\n")
            await screen.until("your own answer › ")
            screen.press("/permissions\n")
            assert "edits in this workspace, for this task" in await screen.until("own answer › ")
            screen.press("/permissions revoke edits in this workspace\n")
            await screen.until("is asked about again")
            await screen.until("your own answer › ")
            screen.press("/permissions none\n")
            await screen.until("/permissions takes `ask`, `edits`, `all`, `revoke`")
            screen.press("1\n")
            assert "b.txt" in await screen.until(ASK)
        said = json.dumps([request.body["messages"] for request in server.requests])
    assert "/permissions" not in said


QUESTION = {"question": "Which?", "follow_up": [{"text": "this one", "mode": None}]}


async def test_what_the_screen_shows_in_cards_is_printed_in_lines(joey: Joey) -> None:
    async with ModelServer([DONE, DONE]) as server, terminal(joey, *reach(server.url)) as screen:
        await screen.until(PROMPT)
        for typed, expected in {
            "/mcp": "joey mcp add --help",
            "/skills": "Commands of your own",
            "/status": "none yet",
            "/context": "there are no messages yet",
            "/config": "joey config list",
            "/copy": "/copy works on the screen",
            "/clear": "A new task",
            "/permissions": "joey permissions explain",
            "/doctor": "Sandbox: ",
            "/export": "there are no messages yet",
            "/resume": "there are no earlier tasks in this folder",
            "/model": "/model MODEL chooses one",
            "/model another": "from now on with another",
        }.items():
            screen.press(f"{typed}\n")
            await screen.until(expected)
            await screen.until(PROMPT)
        screen.press("go\n")
        await screen.until(ACCEPT)
        assert server.requests[-1].body["model"] == "another"
        screen.press("/export\n")
        await screen.until("written to")
        await screen.until(ACCEPT)
        screen.press("\n")
        await screen.until(PROMPT)
        screen.press("/model third\n")
        await screen.until("from now on with third")
        screen.press("more\n")
        await screen.until(ACCEPT)
        assert server.requests[-1].body["model"] == "third"
        assert "more" in json.dumps(server.requests[-1].body["messages"])
        assert len(server.requests) == 2
    assert list(joey.workspace.glob("joey-*.md"))
    assert len(joey.tasks) == 1


async def test_an_earlier_task_is_gone_on_with(joey: Joey) -> None:
    async with ModelServer([DONE, DONE, DONE]) as server:
        first = await joey.run("-p", "--output-format", "json", *reach(server.url), "paint it")
        task_id = first.json["taskId"]
        async with terminal(joey, *reach(server.url), "something else") as screen:
            await screen.until(ACCEPT)
            screen.press("\n")
            await screen.until(PROMPT)
            screen.press("/resume\n")
            assert "paint it" in await screen.until("/resume ID continues one")
            screen.press("/resume nobody\n")
            await screen.until("there is no task 'nobody'")
            screen.press(f"/resume {task_id}\n")
            await screen.until(f"continuing task {task_id[:13]}: paint it")
            await screen.until(PROMPT)
            screen.press("in red\n")
            await screen.until(ACCEPT)
        said = json.dumps(server.requests[-1].body["messages"])
    assert "paint it" in said and "in red" in said and "something else" not in said
    assert len(joey.tasks) == 2


async def test_joey_writes_what_a_directory_is_about_in_a_task_of_its_own(joey: Joey) -> None:
    async with ModelServer([DONE, DONE]) as server:
        async with terminal(joey, *reach(server.url), "go") as screen:
            await screen.until(ACCEPT)
            screen.press("\n")
            await screen.until(PROMPT)
            screen.press("/init\n")
            await screen.until(ACCEPT)
        said = json.dumps(server.requests[-1].body["messages"])
    assert "AGENTS.md" in said and "/init" not in said
    assert len(joey.tasks) == 2


async def test_a_misspelt_command_gets_a_suggestion_and_is_never_a_message(joey: Joey) -> None:
    gate = asyncio.Event()
    async with ModelServer([Turn(say("I think"), pause(gate), *write("a").steps), DONE]) as server:
        async with terminal(joey, *reach(server.url)) as screen:
            await screen.until(PROMPT)
            screen.press("/mdoe ask\n")
            await screen.until("there is no command /mdoe; did you mean /mode?")
            screen.press("/nonsense\n")
            await screen.until("there is no command /nonsense; see /help")
            screen.press("/usr/bin is what?\n")
            await screen.until("I think")
            screen.press("/permisions ask\n")
            await screen.until("there is no command /permisions; did you mean /permissions?")
            screen.press("/model other\n")
            await screen.until("/model works when joey waits for your message; Ctrl-C stops it")
            gate.set()
            await screen.until(ASK)
            screen.press("/mdoe ask\n")
            await screen.until("did you mean /mode?")
            await screen.until(ASK)
            screen.press("y\n")
            await screen.until(ACCEPT)
        said = json.dumps([request.body["messages"] for request in server.requests])
    assert "/usr/bin" in said
    assert not any(name in said for name in ("/mdoe", "/nonsense", "/permisions", "/model other"))


async def test_commands_are_about_the_task_that_is_to_go_on(joey: Joey) -> None:
    async with ModelServer([DONE, DONE]) as server:
        await joey.run("-p", "--mode", "ask", *reach(server.url), "what is this?")
        async with terminal(joey, *reach(server.url), "-c") as screen:
            await screen.until(PROMPT)
            screen.press("/mode\n")
            assert "* ask" in await screen.until("/mode MODE chooses one")
            screen.press("/cost\n")
            await screen.until("tokens in")
            screen.press("/export\n")
            await screen.until("written to")
            await screen.until(PROMPT)
            screen.press("and that?\n")
            await screen.until(ACCEPT)
        said = json.dumps(server.requests[-1].body["messages"])
    assert "what is this?" in said and "and that?" in said
    assert len(joey.tasks) == 1


async def test_a_line_that_is_typed_while_a_command_is_done_waits_for_the_prompt(
    joey: Joey,
) -> None:
    async with ModelServer([DONE, DONE]) as server:
        async with terminal(joey, *reach(server.url), "do it") as screen:
            await screen.until(ACCEPT)
            screen.press("\n")
            await screen.until(PROMPT)
            screen.press("/doctor\n")
            await screen.until("checking: 1 of ")
            screen.press("go on\n")
            await screen.until("Sandbox: ")
            await screen.until("Nearly.")
            await screen.until(ACCEPT)
        assert "go on" in json.dumps(server.requests[-1].body["messages"])
    assert len(server.requests) == 2


@pytest.mark.parametrize("keys", [CTRL_C, CTRL_D])
async def test_a_task_that_is_to_stop_while_it_is_just_being_begun_stops(
    joey: Joey, keys: str
) -> None:
    async with (
        ModelServer([Turn(say("I begin"), pause(asyncio.Event()))]) as server,
        terminal(joey, *reach(server.url)) as screen,
    ):
        await screen.until(PROMPT)
        screen.press("do it\n")
        while not (joey.home / "tasks").exists():  # noqa: ASYNC110 (another process)
            await asyncio.sleep(0)
        screen.press(keys)
        if keys == CTRL_C:
            await screen.until(PROMPT)
            screen.press(CTRL_D)
        assert await screen.ended() == 0


async def test_commands_typed_one_by_one_while_another_is_at_work_are_each_done(joey: Joey) -> None:
    gate = asyncio.Event()
    long = Turn(say("I look around. " * 100), call("attempt_completion", {"result": "All done."}))
    async with ModelServer([long, Turn(pause(gate), say("We began."))]) as server:
        async with terminal(joey, *reach(server.url), "do it") as screen:
            await screen.until(ACCEPT)
            screen.press("\n")
            await screen.until(PROMPT)
            screen.press("/compact\n")
            await screen.until("condensing")
            for command in ("/cost\n", "/mode ask\n"):
                screen.press(command)
                await screen.until_read()
                await asyncio.sleep(2 * MAX_PASTE_GAP_S)  # as somebody types who does not paste
            gate.set()
            await screen.until("tokens in")
            await screen.until("now in ask mode")
        assert len(server.requests) == 2
