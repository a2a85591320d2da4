"""Subtasks in a terminal and in scripts."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from joey.core.events import AskOpened
from joey.core.task_types import AskKind
from joey.presentation.tool_calls import render_call_card
from joey.testing.script import Turn, call, fail, pause, say
from joey.testing.server import ModelServer
from tests.harness.cli.binary import LIMIT, Joey, reach
from tests.harness.cli.terminal import CTRL_C, terminal
from tests.harness.scripted_conversations import by_first_message
from tests.harness.workspace.git import git

ASK = "say what to do instead › "
ACCEPT = "say what to change › "
PROMPT = "\n › "


def hand(*messages: str) -> Turn:
    calls = (call("new_task", {"mode": "code", "message": text}) for text in messages)
    return Turn(say("I delegate."), *calls)


def delegating(message: str) -> Turn:
    return Turn(call("new_task", {"mode": "code", "message": message, "worktree": True}))


def done(result: str) -> Turn:
    return Turn(call("attempt_completion", {"result": result}))


def writing(path: str) -> Turn:
    return Turn(say("I write."), call("write_to_file", {"path": path, "content": "x\n"}))


@pytest.mark.contract("subtasks:events")
async def test_a_run_without_a_user_tells_what_its_subtasks_do(joey: Joey) -> None:
    parts = {
        "the whole": [hand("part one", "part two"), done("Whole.")],
        "part one": [writing("1.txt"), hand("part three"), done("One.")],
        "part two": [writing("2.txt"), done("Two.")],
        "part three": [writing("3.txt"), done("Three.")],
    }
    async with ModelServer(by_first_message(parts)) as server:
        run = await joey.run("-p", "-y", *reach(server.url), "do the whole")
    assert (run.code, run.out) == (0, "Whole.\n")
    lines = run.err.splitlines()
    assert "[1] subtask in code mode: part one" in lines
    assert "[2] subtask in code mode: part two" in lines
    assert "[1.1] subtask in code mode: part three" in lines
    assert "[1.1] · Create 3.txt" in lines
    assert "[2] done" in lines
    assert {path.name for path in joey.workspace.iterdir()} == {"1.txt", "2.txt", "3.txt"}
    # Nine replies of fifteen tokens each, whoever made them.
    assert re.search(r"done · 135 tokens in all requests", lines[-1])


@pytest.mark.contract("subtasks:events", "loop:limits")
async def test_the_limits_of_a_run_hold_for_its_subtasks(joey: Joey) -> None:
    parts = {"the whole": [hand("a part"), done("")], "a part": [writing(f"{n}") for n in range(9)]}
    async with ModelServer(by_first_message(parts)) as server:
        run = await joey.run("-p", "-y", "--max-turns", "4", *reach(server.url), "do the whole")
        assert len(server.requests) == 4
    assert run.code == 53


@pytest.mark.contract("loop:limits")
@pytest.mark.parametrize(
    ("flag", "code", "requests"), [("--max-tokens", 55, 4), ("--max-tool-calls", 53, 4)]
)
async def test_tokens_and_calls_are_limited_by_flags(
    joey: Joey, flag: str, code: int, requests: int
) -> None:
    limit = {"--max-tokens": "60", "--max-tool-calls": "3"}[flag]
    parts = {"the whole": [hand("a part"), done("")], "a part": [writing(f"{n}") for n in range(9)]}
    async with ModelServer(by_first_message(parts)) as server:
        run = await joey.run("-p", "-y", flag, limit, *reach(server.url), "do the whole")
        assert len(server.requests) == requests
    assert run.code == code
    assert f"limit of {limit} to" in run.err


@pytest.mark.contract("worktrees:changes")
async def test_deleting_a_subtask_removes_its_worktree_and_its_branch(joey: Joey) -> None:
    git(joey.workspace, "init", "-q")
    (joey.workspace / "a.txt").write_text("a\n")
    apart = Turn(call("new_task", {"mode": "code", "message": "a part", "worktree": True}))
    parts = {"the whole": [apart, done("Whole.")], "a part": [writing("b.txt"), Turn(fail(400))]}
    async with ModelServer(by_first_message(parts)) as server:
        run = await joey.run("-p", "-y", *reach(server.url), "do the whole")
    assert run.out == "Whole.\n"
    [directory] = (joey.home / "worktrees").iterdir()
    assert (directory / "b.txt").exists()
    assert git(joey.workspace, "branch", "--list").split()[-1] == f"joey/{directory.name}"
    deleted = await joey.run("tasks", "delete", "-y", directory.name)
    assert deleted.code == 0
    assert not directory.exists()
    assert git(joey.workspace, "branch", "--list") == ""
    assert len(git(joey.workspace, "worktree", "list").splitlines()) == 1


@pytest.mark.contract("subtasks:events")
async def test_without_permission_nothing_is_delegated(joey: Joey) -> None:
    parts = {"the whole": [hand("a part"), done("Alone.")], "a part": [done("")]}
    async with ModelServer(by_first_message(parts)) as server:
        run = await joey.run("-p", *reach(server.url), "do the whole")
    assert (run.code, run.out) == (3, "Alone.\n")
    assert len(joey.tasks) == 1


@pytest.mark.contract("subtasks:events")
async def test_a_user_sees_a_subtask_and_answers_its_questions(joey: Joey) -> None:
    parts = {
        "the whole": [hand("a part of it"), done("Whole.")],
        "a part of it": [writing("a.txt"), done("Part.")],
    }
    async with (
        ModelServer(by_first_message(parts)) as server,
        terminal(joey, *reach(server.url), "do the whole") as screen,
    ):
        card = await screen.until(ASK)
        assert "Subtask 💻 Code" in card
        assert "a part of it" in card
        screen.press("y\n")
        asked = await screen.until(ASK)
        assert "┄┄ subtask 1: a part of it" in asked
        assert "I write." in asked
        assert "Create a.txt" in asked
        screen.press("y\n")
        finish = await screen.until("say what is missing › ")
        assert "Part." in finish
        assert "● Finish subtask" in finish
        screen.press("y\n")
        end = await screen.until(ACCEPT)
        assert "┄┄ the task continues" in end
        assert "Whole." in end
        screen.press("\n")
        await screen.until(PROMPT)
        screen.press("/exit\n")
        assert await screen.ended() == 0
    assert (joey.workspace / "a.txt").read_text(encoding="utf-8") == "x\n"


@pytest.mark.contract("subtasks:events")
async def test_questions_of_several_subtasks_are_put_one_after_the_other(joey: Joey) -> None:
    joey.settings(autoApprovalEnabled=True, alwaysAllowSubtasks=True, alwaysAllowReadOnly=True)
    parts = {
        "the whole": [hand("part one", "part two"), done("Whole.")],
        "part one": [writing("one.txt"), done("One.")],
        "part two": [writing("two.txt"), done("Two.")],
    }
    async with (
        ModelServer(by_first_message(parts)) as server,
        terminal(joey, *reach(server.url), "do the whole") as screen,
    ):
        first = await screen.until(ASK)
        screen.press("y\n")
        second = await screen.until(ASK)
        assert {name for name in ("one.txt", "two.txt") if name in first + second} == {
            "one.txt",
            "two.txt",
        }
        screen.press("y\n")
        await screen.until(ACCEPT)
    assert {path.name for path in joey.workspace.iterdir()} == {"one.txt", "two.txt"}


@pytest.mark.contract("subtasks:events", "subtasks:failure")
async def test_ctrl_c_stops_the_whole_tree_and_the_next_line_goes_on_with_it(joey: Joey) -> None:
    joey.settings(autoApprovalEnabled=True, alwaysAllowSubtasks=True)
    parts = {
        "the whole": [hand("a part"), done("Whole.")],
        "a part": [Turn(say("I think"), pause(asyncio.Event()))],
    }
    async with ModelServer(by_first_message(parts)) as server:
        async with terminal(joey, *reach(server.url), "do the whole") as screen:
            await screen.until("I think")
            screen.press(CTRL_C)
            await screen.until(PROMPT)
            parts["a part"] = [done("no"), done("In French.")]
            screen.press("do it in French\n")
            end = await screen.until(ACCEPT)
            assert "In French." in end
        sent = [str(request.body) for request in server.requests[-2:]]
        assert all("do it in French" in each for each in sent)
    assert len(joey.tasks) == 2


@pytest.mark.contract("subtasks:events")
async def test_subtasks_are_marked_in_the_list_and_shown_with_their_parent(joey: Joey) -> None:
    parts = {
        "the whole": [hand("a part"), done("Whole.")],
        "a part": [hand("a smaller one"), done("Part.")],
        "a smaller one": [done("Small.")],
    }
    async with ModelServer(by_first_message(parts)) as server:
        run = await joey.run(
            "-p", "-y", "--output-format", "json", *reach(server.url), "do the whole"
        )
    listed = (await joey.run("tasks", "list")).out.splitlines()
    assert len([line for line in listed if "↳ a " in line]) == 2
    shown = (await joey.run("tasks", "show", run.json["taskId"])).out
    assert re.search(
        r"Subtasks:\n\n- \S+ · completed · code · a part\n  - \S+ · completed · code · a smaller",
        shown,
    )
    assert "Result of the subtask:\n\nPart." in shown
    as_json = (await joey.run("tasks", "show", "--json", run.json["taskId"])).json
    [child] = as_json["childIds"]
    below = (await joey.run("tasks", "show", child)).out
    assert f"- Subtask of: {run.json['taskId']}" in below


@pytest.mark.contract("subtasks:events")
async def test_continue_means_the_parent_of_a_subtask_that_was_cut_off(joey: Joey) -> None:
    parts = {
        "the whole": [hand("a part"), done("Whole.")],
        "a part": [Turn(say("I begin", chunk=7), pause(asyncio.Event()))],
    }
    async with ModelServer(by_first_message(parts)) as server, asyncio.timeout(LIMIT):
        process = await joey.start("-p", "-y", *reach(server.url), "do the whole")
        await server.wait_for_requests(2)
        listed = (await joey.run("tasks", "list")).out
        assert " delegated " in listed
        process.kill()
        await process.communicate()
        parts["a part"] = [done("Part."), done("Part.")]
        again = await joey.run("-p", "-y", "-c", *reach(server.url), "go on")
    assert (again.code, again.out) == (0, "Whole.\n")
    assert "continuing subtask" in again.err
    assert len(joey.tasks) == 2


@pytest.mark.contract("worktrees:changes")
def test_the_question_says_that_a_subtask_gets_a_worktree() -> None:
    row = {"tool": "newTask", "mode": "Code", "content": "do it"}
    shared, apart = (
        AskOpened(ts=1, ask=AskKind.TOOL, tool="new_task", text=json.dumps(each))
        for each in (row, {**row, "worktree": True})
    )
    assert "worktree" not in str(render_call_card(shared, is_ask=True))
    headline = "".join(text for text, _ in render_call_card(apart, is_ask=True)).splitlines()[0]
    assert headline.endswith("in its own git worktree")


async def test_subtasks_in_worktrees_are_listed_in_the_directory_that_they_work_for(
    joey: Joey,
) -> None:
    git(joey.workspace, "init", "-q")
    (joey.workspace / "a.txt").write_text("a\n")
    parts = {
        "the whole": [delegating("a part"), done("Whole.")],
        "a part": [delegating("a smaller piece"), done("Part.")],
        "a smaller piece": [done("Piece.")],
    }
    async with ModelServer(by_first_message(parts)) as server:
        run = await joey.run("-p", "-y", *reach(server.url), "do the whole")
    assert run.code == 0, run.err
    listed = await joey.run("tasks", "list", "--json")
    assert {task["title"] for task in listed.json} == {
        "do the whole",
        "a part",
        "a smaller piece",
    }
    found = await joey.run("tasks", "search", "--json", "smaller")
    assert "a smaller piece" in {task["title"] for task in found.json}
    elsewhere = await joey.run("tasks", "list", "--json", "-w", str(joey.home))
    assert elsewhere.json == []
