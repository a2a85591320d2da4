"""At a terminal: a rule that is added with an answer, and hooks that are heard."""

from __future__ import annotations

import json

import pytest

from joey.core.events import AskOpened
from joey.core.task_types import Answer, AskKind, Response, RuleScope
from joey.presentation.questions import build_ask_view, format_answer_hint, parse_answer
from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach
from tests.harness.cli.terminal import terminal

ASK = "say what to do instead › "
ACCEPT = "say what to change › "


def running(command: str) -> Turn:
    return Turn(call("execute_command", {"command": command}))


DONE = Turn(call("attempt_completion", {"result": "Done."}))


@pytest.mark.contract("permissions:always")
@pytest.mark.parametrize("word", ["a", " ALWAYS "])
def test_always_is_understood_where_a_rule_is_shown(word: str) -> None:
    ask = AskOpened(ts=1, ask=AskKind.COMMAND, text="npm test", always_rule="npm test")
    assert "[a]lways" in format_answer_hint(build_ask_view(ask))
    assert parse_answer(ask, word) == Answer(Response.YES, always=True, scope=RuleScope.EVERYWHERE)
    plain = AskOpened(ts=1, ask=AskKind.COMMAND, text="npm test")
    assert "lways" not in format_answer_hint(build_ask_view(plain))
    assert parse_answer(plain, word) is None, "it is neither a yes nor words for the model"


@pytest.mark.contract("permissions:always")
async def test_a_user_allows_a_command_for_good(joey: Joey) -> None:
    turns = [running("touch a.txt"), running("touch a.txt"), DONE]
    async with ModelServer(turns) as server, terminal(joey, *reach(server.url), "go") as screen:
        question = await screen.until(ASK)
        for scope in ("this directory", "this task", "every directory"):
            assert f": always allow in {scope}: touch a.txt\n" in question
        screen.press("a\n")
        await screen.until(ACCEPT)
    assert not (joey.home / "settings.json").exists()
    stored = json.loads((joey.home / "permissions.json").read_text(encoding="utf-8"))
    (rules,) = stored["directories"].values()
    assert [rule["text"] for rule in rules] == ["touch a.txt"]


@pytest.mark.contract("permissions:always")
async def test_a_user_accepts_the_edits_of_a_task(joey: Joey) -> None:
    def write(path: str) -> Turn:
        return Turn(call("write_to_file", {"path": path, "content": "x\n"}))

    turns = [write("a.txt"), write("b.txt"), DONE]
    async with ModelServer(turns) as server, terminal(joey, *reach(server.url), "go") as screen:
        assert "always allow edits in this workspace, for this task\n" in await screen.until(ASK)
        screen.press("a\n")
        await screen.until(ACCEPT)
    assert (joey.workspace / "b.txt").exists()
    assert not (joey.home / "settings.json").exists()
    report = await joey.run("permissions", "report")
    assert "you said always `edits in this workspace, for this task`" in report.out
    assert "by edits in this workspace, for this task" in report.out


@pytest.mark.contract("hooks:decide")
async def test_a_question_that_a_hook_has_settled_waits_for_no_key(joey: Joey) -> None:
    refuse = {"event": "onAsk", "command": "echo 'not today' >&2; exit 2", "tools": ["execute_*"]}
    joey.home.mkdir(parents=True, exist_ok=True)
    (joey.home / "settings.json").write_text(json.dumps({"hooks": [refuse]}), encoding="utf-8")
    async with ModelServer([running("touch a.txt"), DONE]) as server:
        async with terminal(joey, *reach(server.url), "go") as screen:
            shown = await screen.until(ACCEPT)
        assert "not today" in shown
    assert not (joey.workspace / "a.txt").exists()
