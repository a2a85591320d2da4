"""Every outcome on the lines of a run has its call before it, once and whole."""

from __future__ import annotations

from typing import Any

import pytest

from joey.testing.script import Turn, call, say
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Finished, Joey, reach
from tests.harness.scripted_conversations import by_first_message

Written = tuple[str, dict[str, Any]]

QUESTION = {"question": "Which?", "follow_up": [{"text": "red"}, {"text": "blue"}]}

CALLS: dict[str, list[Written]] = {
    "allowed": [("read_file", {"path": "a.txt"})],
    "refused": [("execute_command", {"command": "rm a.txt"})],
    "hidden": [("read_file", {"path": ".env"})],
    "missing argument": [("write_to_file", {"path": "b.txt"})],
    "unknown tool": [("make_coffee", {"sugar": "two"})],
    "nobody to ask": [("execute_command", {"command": "make"}), ("read_file", {"path": "a.txt"})],
    "question": [("ask_followup_question", QUESTION)],
    "malformed question": [("ask_followup_question", {})],
    "todos": [("update_todo_list", {"todos": "[ ] one"})],
    "completion beside others": [
        ("attempt_completion", {"result": "Early."}),
        ("read_file", {"path": "a.txt"}),
    ],
    "subtask": [("new_task", {"mode": "code", "message": "part two"})],
}
DONE: list[Written] = [("attempt_completion", {"result": "Done."})]


def turn(protocol: str, calls: list[Written]) -> Turn:
    if protocol == "native":
        return Turn(say("I act."), *(call(name, arguments) for name, arguments in calls))
    written = "\n".join(f"<{name}>\n{_tags(given)}</{name}>" for name, given in calls)
    return Turn(say(f"I act.\n{written}", chunk=5))


def _tags(arguments: dict[str, Any]) -> str:
    return "".join(f"<{name}>{_tagged(value)}</{name}>\n" for name, value in arguments.items())


def _tagged(value: str | list[dict[str, str]]) -> str:
    if isinstance(value, str):
        return value
    return "".join(f"<suggest>{each['text']}</suggest>" for each in value)


async def lines_of(joey: Joey, protocol: str, turns: list[Turn], *flags: str) -> Finished:
    (joey.workspace / "a.txt").write_text("hello", encoding="utf-8")
    (joey.workspace / ".env").write_text("KEY=1", encoding="utf-8")
    (joey.workspace / ".rooignore").write_text(".env\n", encoding="utf-8")
    parts = {"part one": turns, "part two": [turn(protocol, CALLS["hidden"]), turn(protocol, DONE)]}
    stream = ("-p", "--output-format", "stream-json", "--protocol", protocol, "--deny", "rm")
    async with ModelServer(by_first_message(parts)) as server:
        return await joey.run(*stream, *flags, *reach(server.url), "part one")


def check_calls(lines: list[dict[str, Any]]) -> None:
    whole: list[str] = []
    growing: set[str] = set()
    for line in lines:
        match line["type"]:
            case "tool_use" if line.get("done"):
                assert line["callId"] not in whole
                assert isinstance(line["tool_use"]["input"], dict)
                assert line["tool_use"]["name"]
                whole.append(line["callId"])
            case "tool_use":
                growing.add(line["callId"])
            case "tool_result":
                assert line["callId"] in whole
    assert growing <= set(whole)
    ids = {(line["id"], line["callId"]) for line in lines if line["type"] == "tool_use"}
    assert len(ids) == len(whole), "the lines of a call share one id"


@pytest.mark.contract("cli:print")
@pytest.mark.parametrize("protocol", ["native", "xml"])
@pytest.mark.parametrize("case", CALLS)
async def test_every_outcome_has_its_call_before_it(joey: Joey, protocol: str, case: str) -> None:
    calls = CALLS[case]
    turns = [turn(protocol, calls), turn(protocol, DONE)]
    done = await lines_of(joey, protocol, turns)
    results = [line for line in done.lines if line["type"] == "tool_result"]
    is_text = protocol == "xml" and case == "unknown tool"
    assert bool(results) is not is_text
    check_calls(done.lines)


async def test_a_call_is_sent_with_its_arguments_when_a_rule_refuses_it(joey: Joey) -> None:
    turns = [turn("native", CALLS["refused"]), turn("native", DONE)]
    done = await lines_of(joey, "native", turns)
    (use,) = [line for line in done.lines if line["type"] == "tool_use" and line.get("done")]
    assert use["subtype"] == "command"
    assert use["tool_use"]["input"] == {"command": "rm a.txt"}


@pytest.mark.parametrize("protocol", ["native", "xml"])
@pytest.mark.parametrize("case", ["refused", "nobody to ask"])
async def test_a_call_that_is_refused_has_an_error_and_no_output(
    joey: Joey, protocol: str, case: str
) -> None:
    turns = [turn(protocol, CALLS[case]), turn(protocol, DONE)]
    done = await lines_of(joey, protocol, turns)
    result = next(line["tool_result"] for line in done.lines if line["type"] == "tool_result")
    assert result["tool"] == "execute_command"
    assert "output" not in result
    assert result["error"]


async def test_a_hidden_file_is_an_error_and_no_text_of_the_model(joey: Joey) -> None:
    turns = [turn("native", CALLS["hidden"]), turn("native", DONE)]
    done = await lines_of(joey, "native", turns)
    (error,) = [line for line in done.lines if line["type"] == "error"]
    assert error["subtype"] == "rooignore_error"
    assert error["content"] == ".env is hidden by .rooignore"
    assert [line.get("subtype") for line in done.lines if line["type"] == "assistant"] == [
        *[None] * 4,
        "completion_result",
    ]


async def test_the_outcome_of_a_call_of_an_earlier_run_names_its_tool(joey: Joey) -> None:
    await lines_of(joey, "native", [turn("native", DONE)])
    task_id = joey.tasks[0].name.removeprefix("task_")
    again = [turn("native", DONE), turn("native", DONE)]
    parts = {"part one": again}
    async with ModelServer(by_first_message(parts)) as server:
        flags = ("-p", "--output-format", "stream-json", "-r", task_id)
        done = await joey.run(*flags, *reach(server.url), "once more")
    result = next(line for line in done.lines if line["type"] == "tool_result")
    use = next(line for line in done.lines if line["type"] == "tool_use")
    assert use["callId"] == result["callId"]
    assert use["tool_use"] == {"name": "attempt_completion", "tool": "attempt_completion"}


async def test_arguments_that_are_no_json_are_a_call_too(joey: Joey) -> None:
    broken = Turn(call("read_file", '{"path": "a.t'))
    done = await lines_of(joey, "native", [broken, turn("native", DONE)])
    assert any(line["type"] == "tool_result" for line in done.lines)
    check_calls(done.lines)
