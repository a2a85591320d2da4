"""`joey attach` on a terminal, with a real `joey serve` behind it."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from joey.client.remote import RemoteSession
from joey.core.events import AskOpened
from joey.core.task_types import AskKind
from joey.testing.script import Turn, call, pause, say
from tests.harness.cli.terminal import CTRL_C, CTRL_D
from tests.harness.client.attach import attached, serving
from tests.harness.client.serving import done, write

ASK = {"autoApprovalEnabled": False}


@pytest.mark.contract("python:sessions")
async def test_a_user_follows_a_task_answers_it_and_sends_a_message(tmp_path: Path) -> None:
    gate = asyncio.Event()
    turns = (
        Turn(say("I shall write it."), write("note", "hi\n")),
        Turn(call("ask_followup_question", {"question": "Which colour?", "follow_up": []})),
        Turn(say("A moment."), pause(gate), call("update_todo_list", {"todos": "[ ] more"})),
        Turn(done("half")),
        Turn(done("whole")),
    )
    async with serving(tmp_path, *turns) as harness:
        session = await harness.engine.start("write a note", configuration=ASK)
        async with attached(harness) as screen:
            await screen.until("write a note")
            await screen.until("Create note")
            await screen.until("Allow?")
            screen.press("y\n")
            await screen.until("Which colour?")
            screen.press("blue\n")
            await screen.until("A moment.")
            screen.press("and hurry\n")
            await screen.until("reads this before its next step")
            gate.set()
            await screen.until("☐ more")
            await screen.until("✓ result")
            await screen.until("Accept the result? ")
            screen.press("\n")
            await screen.until("The task is idle")
            screen.press("once more\n")
            await screen.until("whole")
            screen.press(CTRL_C)
            await screen.until(f"joey attach {session.id}")
            assert await screen.ended() == 0
        assert (tmp_path / "work" / "note").read_text() == "hi\n"
        said = str(harness.model.requests[-1].body)
        assert all(message in said for message in ("blue", "and hurry", "once more"))
        assert session.is_running


@pytest.mark.contract("python:sessions")
async def test_leaving_the_view_leaves_the_task_alone(tmp_path: Path) -> None:
    gate = asyncio.Event()
    turns = (Turn(say("Busy."), pause(gate), done("later")),)
    async with serving(tmp_path, *turns) as harness:
        session = await harness.engine.start("go")
        for key in (CTRL_C, CTRL_D, "/exit\n"):
            async with attached(harness, session.id[:-3]) as screen:
                await screen.until("go")
                await screen.until("\n")
                screen.press(key)
                assert await screen.ended() == 0
        gate.set()
        async for event in session.events():
            if isinstance(event, AskOpened):
                break
        assert session.pending is not None


async def test_an_answer_from_elsewhere_is_seen(tmp_path: Path) -> None:
    turns = Turn(write("note", "hi\n")), Turn(done())
    async with serving(tmp_path, *turns) as harness:
        session = await harness.engine.start("write", configuration=ASK)
        await _asked(session, AskKind.TOOL)
        async with attached(harness) as screen:
            await screen.until("Allow?")
            await session.reject("not now")
            await screen.until("answered elsewhere (person): no")
            await screen.until("not now")
            await screen.until("Accept the result? ")


async def _asked(session: RemoteSession, kind: AskKind) -> None:
    async for event in session.events():
        if isinstance(event, AskOpened) and event.ask is kind:
            return


async def test_a_task_is_cancelled_from_the_view(tmp_path: Path) -> None:
    turns = (Turn(say("Busy."), pause(asyncio.Event())),)
    async with serving(tmp_path, *turns) as harness:
        session = await harness.engine.start("go")
        async with attached(harness) as screen:
            await screen.until("go")
            screen.press("/help\n")
            await screen.until("leave the view")
            screen.press("/cancel\n")
            await screen.until("interrupted")
            await screen.until("The task is idle")
        assert not session.is_running


async def test_without_a_terminal_it_shows_the_task_to_its_end(tmp_path: Path) -> None:
    turns = Turn(say("Word by word.", chunk=2), write("note", "hi\n")), Turn(done("written"))
    async with serving(tmp_path, *turns) as harness:
        session = await harness.engine.start("write", configuration=ASK)
        watching = asyncio.create_task(harness.run())
        async for event in session.events():
            if isinstance(event, AskOpened):
                await session.approve()
        shown = await watching
        assert shown.code == 0
        for text in ("Word by word.", "Create note", "written"):
            assert shown.out.count(text) == 1
        again = await harness.run(session.id)
        assert again.code == 0
        assert "approved" in again.out


async def test_without_a_terminal_a_question_that_nobody_answers_ends_the_view(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, Turn(write("note", "hi\n"))) as harness:
        session = await harness.engine.start("write", configuration=ASK)
        shown = await harness.run()
        assert shown.code == 3
        assert "Create note" in shown.out
        assert "joey: the task waits for an answer, which needs a terminal" in shown.err
        assert session.is_running


async def test_open_tasks_are_listed(tmp_path: Path) -> None:
    turns = (Turn(write("note", "hi\n")),)
    async with serving(tmp_path, *turns) as harness:
        nothing = await harness.run("--list")
        assert (nothing.code, nothing.out) == (0, "")
        assert "no task is open" in nothing.err
        session = await harness.engine.start("write\x1b[2J it", configuration=ASK)
        await _asked(session, AskKind.TOOL)
        listed = await harness.run("--list")
        assert re.fullmatch(rf"{session.id}  waiting \(tool\)  \S+  write it\n", listed.out), (
            listed.out
        )


async def test_what_cannot_be_attached_to_is_reported(tmp_path: Path) -> None:
    async with serving(tmp_path) as harness:
        nothing = await harness.run()
        assert (nothing.code, nothing.out) == (2, "")
        assert "no task is open on this server" in nothing.err
        unknown = await harness.run("0000")
        assert unknown.code == 2
        assert "has no task '0000'" in unknown.err
        env = harness.joey.env | {"JOEY_TOKEN": "wrong"}
        wrong = await harness.joey.run("attach", "--url", harness.url, env=env)
        assert wrong.code == 1
        assert "wants another token" in wrong.err
        seen = await harness.joey.run("attach", "--url", f"{harness.url}#token=seen-by-all")
        assert seen.code == 2
        assert "JOEY_TOKEN" in seen.err
        assert "seen-by-all" not in seen.err
        nobody = await harness.joey.run("attach", "--url", "http://127.0.0.1:1/")
        assert nobody.code == 1
        assert "there is no joey server at" in nobody.err
        assert "joey attach --url" in nobody.err


@pytest.mark.contract("loop:plain-reply")
async def test_a_plain_answer_is_shown_once_and_answered_with_the_next_message(
    tmp_path: Path,
) -> None:
    gate = asyncio.Event()
    turns = (Turn(say("It is"), pause(gate), say(" the linker.")), Turn(done("Installed.")))
    async with serving(tmp_path, *turns) as harness:
        await harness.engine.start("why?", configuration=ASK | {"mode": "ask"})
        async with attached(harness) as screen:
            await screen.until("It is")
            gate.set()
            shown = await screen.until("Accept the result? ")
            assert "linker." in shown and "It is" not in shown
            assert "✓ answered" in shown
            screen.press("then install it\n")
            shown = await screen.until("Accept the result? ")
            assert "✓ result" in shown and "Installed." in shown
        assert "then install it" in str(harness.model.requests[1].body["messages"][-1])
