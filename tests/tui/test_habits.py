"""Commands that users of other agents type, on the screen."""

from __future__ import annotations

import asyncio
import json
import re

from joey.testing.script import Turn, pause, say, usage
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach
from tests.harness.tui.headless import screen
from tests.harness.tui.turns import done, running


async def test_commands_of_other_agents_are_understood(joey: Joey) -> None:
    (joey.workspace / "CLAUDE.md").write_text("Be brief.\n")
    joey.settings(language="de")
    git = await asyncio.create_subprocess_exec("git", "init", "-q", cwd=joey.workspace)
    assert await git.wait() == 0
    (joey.workspace / "new.txt").write_text("hello\n")
    async with ModelServer([done("It is **finished**.")]) as server:
        async with screen(joey, *reach(server.url), size=(110, 60)) as shown:
            await shown.until("What should I do?")
            await shown.send("/context")
            await shown.until("there are no messages yet")
            await shown.send("/status")
            await shown.until("none yet", "scripted (anthropic)", "asks first")
            await shown.until(f"address       {server.url}")
            await shown.send("/config")
            await shown.until('language  "de"', "joey config list")
            await shown.send("/diff")
            await shown.until("new.txt")
            await shown.send("/copy")
            await shown.until("there are no messages yet")
            await shown.press("C-c")
            await shown.send("go on")
            await shown.until("Accept the result", "following CLAUDE.md")
            await shown.send("/copy")
            await shown.until("copied to the clipboard")
            assert shown.app.clipboard == "It is **finished**."
            await shown.send("/context")
            await shown.until("Context: ", "system prompt", "conversation", "free")
            await shown.send("/status")
            await shown.until("instructions", "CLAUDE.md", "tokens in")
            await shown.send("/clear")
            await shown.until("A new task")
        assert len(server.requests) == 1


async def test_a_review_is_asked_for_with_what_is_behind_it(joey: Joey) -> None:
    async with ModelServer([done("No findings.")]) as server:
        async with screen(joey, *reach(server.url)) as shown:
            await shown.until("What should I do?")
            await shown.send("/review only app.py")
            await shown.until("No findings.", "Accept the result")
        assert "without changing any file: only app.py" in json.dumps(server.requests[0].body)


async def test_a_command_of_the_project_takes_the_place_of_one_that_only_shows(joey: Joey) -> None:
    (joey.workspace / ".roo/commands").mkdir(parents=True)
    (joey.workspace / ".roo/commands/status.md").write_text("Tell the state of the release.")
    async with ModelServer([done("All green.")]) as server:
        async with screen(joey, *reach(server.url)) as shown:
            await shown.until("What should I do?")
            await shown.send("/status")
            await shown.until("All green.", "Accept the result")
        assert "Tell the state of the release." in json.dumps(server.requests[0].body)


async def test_resuming_without_an_id_offers_the_tasks_of_the_directory(joey: Joey) -> None:
    async with ModelServer([done("First."), done("Second."), done("Third.")]) as server:
        for prompt in ("look at apples", "look at pears"):
            await joey.run("-p", *reach(server.url), prompt)
        async with screen(joey, "-r", *reach(server.url)) as shown:
            await shown.until("Continue with", "look at apples", "look at pears")
            await shown.press("Down", "Enter")
            await shown.until("First.")
            await shown.send("and now?")
            await shown.until("Third.", "Accept the result")
        assert "look at apples" in json.dumps(server.requests[-1].body)


async def test_the_price_of_a_model_is_shown_before_the_first_message(joey: Joey) -> None:
    async with ModelServer([]) as server:
        flags = ("--provider", "anthropic", "--base-url", server.url, "-m", "claude-sonnet-5-5")
        async with screen(joey, *flags) as shown:
            await shown.until("claude-sonnet-5-5 costs $2 in, $10 out per million tokens")
            await shown.send("/model claude-haiku-5-5")
            await shown.until("from now on with claude-haiku-5-5; claude-haiku-5-5 costs $")
        assert not server.requests


def read_context_card(shown: str) -> tuple[int, dict[str, int]]:
    """The total of the latest card, and its parts."""
    card = shown[shown.rindex("Context: ") :]
    total, *_ = re.findall(r"Context: ([\d,]+) tokens", card)
    parts = re.findall(r"^ *(system prompt|tools|conversation|free) +([\d,]+)", card, re.MULTILINE)
    return int(total.replace(",", "")), {name: int(count.replace(",", "")) for name, count in parts}


async def test_the_parts_of_the_context_add_up_to_its_total(joey: Joey) -> None:
    stopped = Turn(say("I begin"), pause(asyncio.Event()))
    long = done("A paragraph.\n\n" * 60)
    turns = [stopped, Turn(usage(input=50, output=5), *long.steps)]
    async with (
        ModelServer(turns) as server,
        screen(joey, *reach(server.url), "word " * 600, size=(110, 60)) as shown,
    ):
        await shown.until("I begin")
        await shown.press("C-c")
        await shown.until("interrupted")
        await shown.send("/context")
        await shown.until("Context: ", "makes room")
        before = read_context_card(await shown.capture())
        await shown.send("go on")
        await shown.until("Accept the result")
        await shown.until_gone("makes room")
        await shown.send("/context")
        await shown.until("Context: ", "makes room")
        after = read_context_card(await shown.capture())
    for total, parts in (before, after):
        free = parts.pop("free")
        assert total == sum(parts.values()) > parts["conversation"] >= 1000
        assert total + free == 200_000
    assert after[0] > before[0]


async def test_a_command_that_was_stopped_says_so_also_when_it_is_opened_again(joey: Joey) -> None:
    joey.settings(alwaysAllowExecute=True, allowedCommands=["echo", "sleep"])
    command = "echo begun; sleep 60"
    async with ModelServer([running(command)]) as server:
        async with screen(joey, *reach(server.url), "do it") as shown:
            await shown.until("│ begun")
            await shown.press("Escape")
            await shown.until("└ stopped", "interrupted")
        async with screen(joey, "-c", *reach(server.url)) as shown:
            await shown.until("└ stopped")
