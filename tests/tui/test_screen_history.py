"""Going back, going on, and the commands with a slash."""

from __future__ import annotations

import json

import pytest

from joey.testing.script import Turn, call, say
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach
from tests.harness.tui.headless import screen
from tests.harness.tui.tmux import needs_tmux, terminal
from tests.harness.tui.turns import done, writing


@pytest.mark.contract("screen:task")
async def test_a_rewind_shows_what_changes_and_brings_message_and_files_back(joey: Joey) -> None:
    turns = [done("First."), writing("new.txt", "hello\n"), done("Second."), done("Third.")]
    async with ModelServer(turns) as server, screen(joey, *reach(server.url), "begin") as shown:
        await shown.until("First.", "Accept the result")
        await shown.send("write it down")
        await shown.until("Create new.txt?")
        await shown.answer("y")
        await shown.until("Second.", "Accept the result")
        await shown.answer("Enter")
        await shown.until("what next?")
        await shown.press("Escape", "Escape")
        listed = await shown.until("Go back to", "write it down", "begin")
        assert listed.rindex("write it down") < listed.rindex("begin"), "the latest comes first"
        await shown.save_snapshot("rewind")
        await shown.press("Enter")
        await shown.until("1 file is deleted:", "new.txt", "the conversation and the files")
        await shown.save_snapshot("rewind-preview")
        await shown.press("Down", "Enter")
        await shown.until("rewound; /undo undoes it", "› write it down")
        await shown.until_gone("Second.")
        assert not (joey.workspace / "new.txt").exists()
        await shown.press("C-c")
        await shown.send("/undo")
        await shown.until("the rewind is undone", "Second.")
        assert (joey.workspace / "new.txt").exists()


@pytest.mark.contract("screen:task")
async def test_a_rewind_to_the_first_message_brings_it_and_the_files_back(joey: Joey) -> None:
    turns = [writing("new.txt", "hello\n"), done("First."), done("Second.")]
    async with ModelServer(turns) as server:
        async with screen(joey, *reach(server.url), "write it down") as shown:
            await shown.until("Create new.txt?")
            await shown.answer("y")
            await shown.until("First.", "Accept the result")
            await shown.answer("Enter")
            await shown.until("what next?")
            for _ in range(2):
                await shown.press("Escape", "Escape")
                await shown.until("Go back to", "write it down")
                await shown.press("Enter")
                await shown.until("new.txt", "the conversation and the files")
                await shown.press("Down", "Enter")
                await shown.until("/undo undoes it")
                await shown.until_gone("First.")
                assert not (joey.workspace / "new.txt").exists()
                await shown.press("C-c")
                await shown.send("/undo")
                await shown.until("the rewind is undone", "First.")
                assert (joey.workspace / "new.txt").exists()
            await shown.send("/rewind")
            await shown.until("Go back to", "write it down")
            await shown.press("Enter")
            await shown.until("the conversation and the files")
            await shown.press("Down", "Enter")
            await shown.until_gone("First.")
            await shown.send(" elsewhere")
            await shown.until("› write it down elsewhere", "Second.")
        messages = json.dumps(server.requests[-1].body["messages"])
        assert messages.count("write it down") == 1
        assert "write it down elsewhere" in messages
    assert len(joey.tasks) == 1


@pytest.mark.contract("screen:task")
async def test_files_that_joey_did_not_write_go_only_after_a_second_yes(joey: Joey) -> None:
    own, new = joey.workspace / "own.txt", joey.workspace / "new.txt"
    turns = [done("First."), writing("new.txt", "hello\n"), done("Second.")]
    async with (
        ModelServer(turns) as server,
        screen(joey, *reach(server.url), "begin", size=(60, 30)) as shown,
    ):
        await shown.until("First.", "Accept the result")
        await shown.send("write it down")
        await shown.until("new.txt?")
        await shown.answer("y")
        await shown.until("Second.", "Accept the result")
        new.write_text("mine now\n", encoding="utf-8")
        own.write_text("mine\n", encoding="utf-8")
        for answer in ("Enter", "Escape", "Down"):
            await shown.press("Escape", "Escape")
            await shown.until("Go back to", "write it down")
            await shown.press("Enter")
            await shown.until("the conversation and the files", "2 not joey's (asks)")
            await shown.press("Down", "Enter")
            await shown.until("Give up 2 files not joey's?", "› no, change nothing")
            await shown.until("new.txt (deleted)", "own.txt (deleted)")
            await shown.save_snapshot("rewind-not-joeys")
            await shown.resize(30, 10)
            await shown.until("Give up 2 files not joey's?", "new.txt (deleted)", "› no, change")
            await shown.save_snapshot("rewind-not-joeys-30x10")
            await shown.resize(60, 30)
            await shown.press(answer)
            if answer == "Down":
                break
            await shown.until("nothing was changed")
            await shown.until_gone("› no, change nothing")
            assert (new.read_text("utf-8"), own.read_text("utf-8")) == ("mine now\n", "mine\n")
        await shown.until("› yes, go back all the same")
        await shown.press("Enter")
        await shown.until("rewound; /undo undoes it", "› write it down")
        assert not new.exists()
        assert not own.exists()


@needs_tmux
@pytest.mark.contract("screen:task")
async def test_an_earlier_task_is_found_and_gone_on_with(joey: Joey) -> None:
    async with ModelServer([done("It is blue."), done("It is red."), done("Darker.")]) as server:
        for prompt in ("paint the boat", "paint the house"):
            finished = await joey.run("-p", *reach(server.url), prompt)
            assert finished.code == 0
        async with terminal(joey, *reach(server.url)) as shown:
            await shown.until("What should I do?")
            await shown.send("/resume")
            await shown.until("Continue with", "paint the boat", "paint the house", "completed")
            await shown.save_snapshot("resume")
            await shown.type("boat")
            await shown.until_gone("paint the house")
            await shown.press("Enter")
            await shown.until("› paint the boat", "It is blue.", "what next?")
            assert "paint the boat" in await shown.title()
            await shown.send("a bit darker")
            await shown.until("Darker.")
        messages = json.dumps(server.requests[-1].body["messages"])
        assert "paint the boat" in messages
        assert "a bit darker" in messages


async def test_continue_shows_the_past_and_new_begins_another_task(joey: Joey) -> None:
    async with ModelServer([done("It is blue."), done("Fresh.")]) as server:
        await joey.run("-p", *reach(server.url), "paint the boat")
        async with screen(joey, "-c", *reach(server.url)) as shown:
            await shown.until("› paint the boat", "It is blue.", "what next?")
            await shown.send("/new")
            await shown.until("A new task")
            await shown.until_gone("It is blue.")
            await shown.send("something else")
            await shown.until("Fresh.")
        assert "boat" not in json.dumps(server.requests[-1].body["messages"])


async def test_a_fork_leaves_the_task_itself_alone(joey: Joey) -> None:
    async with ModelServer([done("It is blue."), done("Forked.")]) as server:
        async with screen(joey, *reach(server.url), "paint") as shown:
            await shown.until("It is blue.", "Accept the result")
            await shown.send("/fork")
            await shown.until("this is a copy now", "It is blue.")
            await shown.send("go on here")
            await shown.until("Forked.")
        assert len(joey.tasks) == 2


async def test_modes_and_models_are_chosen_from_lists(joey: Joey) -> None:
    async with ModelServer([done()]) as server, screen(joey, *reach(server.url)) as shown:
        await shown.until("What should I do?", "code · scripted")
        await shown.press("F2")
        await shown.until_gone("code · scripted")
        await shown.send("/mode")
        await shown.until("Mode", "architect", "debug")
        await shown.save_snapshot("modes")
        await shown.type("debug")
        await shown.press("Enter")
        await shown.until("debug · scripted")
        await shown.send("/model")
        await shown.until("Model", "claude")
        await shown.save_snapshot("models")
        await shown.press("Escape")
        await shown.until_gone("Enter select")
        await shown.send("/model another-one")
        await shown.until("from now on with another-one", "debug · another-one")
        await shown.send("go")
        await shown.until("All done.")
        assert server.requests[0].body["model"] == "another-one"


async def test_the_model_of_a_task_is_changed_while_it_rests(joey: Joey) -> None:
    async with ModelServer([done("First."), done("Second.")]) as server:
        async with screen(joey, *reach(server.url), "begin") as shown:
            await shown.until("Accept the result")
            await shown.send("/model another-one")
            await shown.until("from now on with another-one", "First.")
            await shown.send("go on")
            await shown.until("Second.")
        assert [request.body["model"] for request in server.requests] == ["scripted", "another-one"]


@pytest.mark.contract("permissions:always")
async def test_edits_that_were_accepted_stay_so_with_another_model(joey: Joey) -> None:
    turns = [writing("a.txt", "x"), done("First."), writing("b.txt", "x"), done("Second.")]
    async with ModelServer(turns) as server, screen(joey, *reach(server.url), "begin") as shown:
        await shown.until("4 Always allow")
        await shown.answer("4")
        await shown.until("Accept the result")
        await shown.send("/model another-one")
        await shown.until("from now on with another-one", "allows edits")
        await shown.send("go on")
        await shown.until("Second.")
    assert (joey.workspace / "b.txt").exists()


async def test_commands_show_what_they_are_asked_for(joey: Joey) -> None:
    commands = joey.workspace / ".roo" / "commands"
    commands.mkdir(parents=True)
    (commands / "greet.md").write_text("---\ndescription: say hello\n---\nSay hello.\n")
    async with ModelServer([done("Hello.")]) as server:
        async with screen(joey, *reach(server.url), size=(100, 60)) as shown:
            await shown.until("What should I do?")
            await shown.send("/help")
            await shown.until("Shift+Tab", "/compact", "/greet", "say hello")
            await shown.save_snapshot("help")
            await shown.send("/permissions")
            await shown.until("Runs unasked", "✓ reading files here", "? commands", "Sandbox: ")
            await shown.send("/mcp")
            await shown.until("MCP servers", "none; joey mcp add")
            await shown.send("/skills")
            await shown.until("Commands of your own", "/greet")
            await shown.send("/nonsense")
            await shown.until("there is no command /nonsense")
            await shown.press("C-c")
            await shown.send("/doctor")
            await shown.until("✓ Python")
            await shown.save_snapshot("cards")
            await shown.send("/greet")
            await shown.until("Hello.", "Accept the result")
            await shown.send("/cost")
            await shown.until("tokens in")
            await shown.send("/export")
            await shown.until("written to")
        [written] = joey.workspace.glob("joey-*.md")
        assert "Hello." in written.read_text(encoding="utf-8")
        assert "Say hello." in json.dumps(server.requests[0].body["messages"])


async def test_a_list_of_commands_tells_of_those_that_are_not_in_sight(joey: Joey) -> None:
    async with ModelServer([]) as server, screen(joey, *reach(server.url)) as shown:
        await shown.until("What should I do?")
        await shown.type("/")
        first = await shown.until("more below")
        await shown.save_snapshot("commands")
        await shown.press("Up")
        await shown.until("more above")
        last = await shown.until_gone("more below")
        assert len(first.strip().splitlines()) == len(last.strip().splitlines())
        await shown.type("comp")
        await shown.until_gone("more above")


async def test_compact_sums_up_and_init_writes_for_agents(joey: Joey) -> None:
    turns = [
        done("So it is. " * 500),
        Turn(say("It was said often.")),
        Turn(call("write_to_file", {"path": "AGENTS.md", "content": "# For agents\n"})),
    ]
    async with ModelServer(turns) as server, screen(joey, *reach(server.url), "say it") as shown:
        await shown.until("Accept the result")
        await shown.answer("Enter")
        await shown.until("what next?")
        await shown.send("/compact mind the tests")
        await shown.until("the conversation is condensed")
        assert "mind the tests" in json.dumps(server.requests[1].body["messages"])
        await shown.send("/init")
        await shown.until("Create AGENTS.md?")
        assert "It was said often." not in json.dumps(server.requests[2].body["messages"])


async def test_a_task_of_ones_own_goes_on_at_its_address_where_there_is_no_key(joey: Joey) -> None:
    async with ModelServer([done("First."), done("Second.")]) as server:
        begun = await joey.run("-p", "begin", *reach(server.url))
        assert begun.code == 0, begun.err
        async with screen(joey, "-c", "go on") as shown:
            await shown.until("Second.", "Accept the result")
