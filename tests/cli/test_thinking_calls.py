"""Calls that a model writes into its reasoning are never run, in the real program."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from joey.testing.script import Turn, call, disconnect, pause, say
from joey.testing.server import ModelServer, Request
from tests.harness.cli.binary import Joey, reach
from tests.harness.server.server_fixture import Peer, open_server

pytestmark = pytest.mark.contract("calls:in-reasoning")

ALLOWED = {
    "autoApprovalEnabled": True,
    "alwaysAllowExecute": True,
    "allowedCommands": ["*"],
    "alwaysAllowWrite": True,
    "apiProvider": "anthropic",
    "apiModelId": "scripted",
    "toolProtocol": "xml",
}
FLAGS = ("-p", "-y", "--no-sandbox", "--output-format", "json")
XML = ("--protocol", "xml")
DANGER = "<execute_command><command>touch DANGER</command></execute_command>"
TEXT_CALL = '<tool_call>{"name": "execute_command", "arguments": {"command": "touch DANGER"}}'
FENCED = '```tool_code\n{"tool": "execute_command", "parameters": {"command": "touch DANGER"}}\n```'
DONE = "<attempt_completion><result>Done.</result></attempt_completion>"
WRITE = "<write_to_file><path>ok.txt</path><content>a</think>b</content></write_to_file>"


def turn(text: str, chunk: int = 3) -> Turn:
    return Turn(say(text, chunk=chunk))


async def run(joey: Joey, *texts: str) -> tuple[Any, ModelServer]:
    """A run that may do anything, of replies that stream in pieces."""
    joey.settings(requestDelaySeconds=0.01)
    async with ModelServer([turn(text) for text in texts]) as server:
        done = await joey.run(*FLAGS, *XML, *reach(server.url), "go")
    assert not (joey.workspace / "DANGER").exists(), done.out
    return done, server


def read_sent_text(request: Request) -> str:
    """The messages of a request without thinking, which is a block of its own where it is sent."""
    return json.dumps(
        [
            [block for block in message["content"] if block["type"] != "thinking"]
            for message in request.body["messages"]
        ]
    )


def rows(joey: Joey) -> list[dict[str, Any]]:
    [task] = joey.tasks
    found: list[dict[str, Any]] = json.loads((task / "ui_messages.json").read_text("utf-8"))
    return found


def replies(joey: Joey) -> list[list[dict[str, Any]]]:
    """What the API history holds of the model's replies."""
    [task] = joey.tasks
    messages = json.loads((task / "api_conversation_history.json").read_text("utf-8"))
    return [each["content"] for each in messages if each["role"] == "assistant"]


@pytest.mark.parametrize(
    "reasoning",
    [
        f"I could run {DANGER} but no.</think>",
        f"{DANGER}</think>",
        f"\n\n{DANGER}\n\n</thinking>\n\n",
        f"Hm. {DANGER} Use `ls`</think>",
        f"```\n{DANGER}\n</think>",
        f"{DANGER}</THINK>\n",
        f"{DANGER} one </think> {DANGER} two </think>\n",
        f"<think>Hm.</think> {DANGER} And again.</think>",
        f"{DANGER} <think>Hm.</think> {DANGER} no </think>",
        f"So, <think>maybe {DANGER} or not.</think>",
        f"Perhaps {TEXT_CALL}</tool_call></think>",
        f"Perhaps\n{FENCED}\nno.</think>",
        "I could use <execute_command> here.</think>",
        f'{DANGER} <tool_call>{{"name": "x </think>',
    ],
)
async def test_a_call_before_an_unopened_closing_tag_is_not_run(joey: Joey, reasoning: str) -> None:
    done, server = await run(joey, f"{reasoning}{DONE}", f"{DONE}")
    assert done.json["success"] is True
    assert not [row for row in rows(joey) if row.get("partial") is True]
    assert "DANGER" not in json.dumps([row for row in rows(joey) if row.get("tool")])
    assert len(server.requests) <= 2


SECTIONS = [
    *(("<thought>", "</thought>"), ("<reasoning>", "</reasoning>"), ("[THINK]", "[/THINK]")),
    *(("<seed:think>", "</seed:think>"), ("◁think▷", "◁/think▷")),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
]


@pytest.mark.parametrize("protocol", ["xml", "native"])
@pytest.mark.parametrize("place", ["first", "later", "unopened"])
@pytest.mark.parametrize(("opening", "closing"), SECTIONS)
async def test_reasoning_between_tags_of_every_kind_is_neither_run_nor_sent_as_text(
    joey: Joey, opening: str, closing: str, place: str, protocol: str
) -> None:
    before = {"first": opening, "later": f"I look.\n{opening}", "unopened": ""}[place]
    reply = f"{before}I could run it:\n{DANGER}\n{TEXT_CALL}</tool_call>\nHm.{closing}\nIt is 4."
    last = turn(DONE) if protocol == "xml" else Turn(call("attempt_completion", {"result": "4"}))
    async with ModelServer([turn(reply), last]) as server:
        done = await joey.run(*FLAGS, "--protocol", protocol, *reach(server.url), "2+2?")
    assert done.json["success"] is True, done.err
    assert not (joey.workspace / "DANGER").exists()
    shown = [row["text"] for row in rows(joey) if row.get("say") == "text"][1:]
    assert shown in (["It is 4."], ["I look.", "It is 4."], ["I look.\n", "It is 4."])
    assert any("I could" in row["text"] for row in rows(joey) if row.get("say") == "reasoning")
    sent = read_sent_text(server.requests[1])
    assert "It is 4." in sent
    assert [word for word in ("I could", "DANGER", "Hm.", "hink", "<|") if word in sent] == []


async def test_reasoning_is_shown_as_thinking_and_not_sent_as_text(joey: Joey) -> None:
    thought = f"I could run it:\n{DANGER}\nNo, I write.\n</think>\n\nI write.\n{WRITE}"
    async with ModelServer([turn(thought), turn(DONE), turn(DONE)]) as server:
        for flags in (XML, ("-c",)):
            done = await joey.run(*FLAGS, *flags, *reach(server.url), "go")
            assert done.code == 0, done.err
    assert not (joey.workspace / "DANGER").exists()
    assert (joey.workspace / "ok.txt").read_text() == "a</think>b\n"
    shown = [(row["say"], row["text"]) for row in rows(joey) if row.get("say")]
    assert ("reasoning", "I could run it:") in shown
    assert ("reasoning", DANGER) in shown
    assert ("reasoning", "No, I write.") in shown
    assert ("text", "I write.") in shown
    first = replies(joey)[0]
    assert [block["type"] for block in first] == ["reasoning", "reasoning", "reasoning", "text"]
    assert first[-1]["text"] == f"I write.\n{WRITE}"
    for request in server.requests[1:]:
        sent = read_sent_text(request)
        assert "I write." in sent
        assert "DANGER" not in sent
        assert "I could run it" not in sent


@pytest.mark.parametrize("nothing", [f"Hm. {DANGER} </think>\n", f"<think>{DANGER} and so on"])
async def test_a_reply_of_nothing_but_reasoning_is_asked_for_again(
    joey: Joey, nothing: str
) -> None:
    done, server = await run(joey, nothing, DONE)
    assert done.json["success"] is True
    assert len(server.requests) == 2
    assert "DANGER" not in read_sent_text(server.requests[1])


async def test_a_section_that_never_closes_runs_nothing(joey: Joey) -> None:
    done, server = await run(joey, f"I look.\n<think>Maybe {DANGER} or {DONE}", DONE)
    assert done.json["success"] is True
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "mention",
    ["The tag `</think>` ends it.", "Between `<think>` and `</think>`.", "`<think>x</think>`"],
)
async def test_a_model_that_mentions_the_tag_keeps_its_calls(joey: Joey, mention: str) -> None:
    wanted = "<execute_command><command>touch WANTED</command></execute_command>"
    done, server = await run(joey, f"{wanted}\n{mention}\n{wanted}", DONE)
    assert done.json["success"] is True
    assert (joey.workspace / "WANTED").exists()
    assert len(server.requests) == 2


async def test_a_call_that_was_given_up_in_reasoning_does_not_take_in_the_next_one(
    joey: Joey,
) -> None:
    given_up = "Use <execute_command> with <command> touch DANGER; no.</think>"
    again = "<execute_command><command>touch NEXT</command></execute_command>"
    done, _ = await run(joey, f"{given_up}\n{again}", DONE)
    assert done.json["success"] is True
    assert (joey.workspace / "NEXT").exists()
    assert not (joey.workspace / "DANGER").exists()


async def test_a_stream_that_breaks_after_reasoning_runs_nothing(joey: Joey) -> None:
    broken = Turn(say(f"Hm. {DANGER} </think> So <read_file>", chunk=4), disconnect())
    joey.settings(requestDelaySeconds=0.01)
    async with ModelServer([broken, turn(DONE)]) as server:
        done = await joey.run(*FLAGS, *XML, *reach(server.url), "go")
    assert done.json["success"] is True
    assert not (joey.workspace / "DANGER").exists()
    assert ("reasoning", DANGER) in [(row.get("say"), row.get("text")) for row in rows(joey)]
    assert not [row for row in rows(joey) if row.get("partial") is True]


async def test_every_row_that_was_opened_for_reasoning_ends_as_reasoning(tmp_path: Path) -> None:
    gate = asyncio.Event()
    reply = Turn(
        say(f"I could run it:\n{DANGER}\nNo."), pause(gate), say(f"</think>\nI stop.\n{DONE}")
    )
    async with open_server(tmp_path, reply) as here, here.peer() as peer:
        task_id = (await peer.ask("startNewTask", text="go", configuration=ALLOWED))["taskId"]
        opened = await growing(peer, "I could run it:", "No.")
        gate.set()
        await peer.asked("completion_result")
        received = {row["ts"]: row for row in peer.rows(task_id)}
        assert [(received[ts]["say"], received[ts]["partial"]) for ts in opened] == [
            ("reasoning", False)
        ] * 3
        assert not [row for row in received.values() if row.get("partial") is True]
        stored = (await peer.ask("getMessages", task_id))["messages"]
        assert [received[row["ts"]] for row in stored] == stored
        assert not (here.workspace / "DANGER").exists()


async def growing(peer: Peer, *texts: str) -> list[int]:
    """The rows of a reply, once those with these texts are there."""
    while True:
        rows = [row for row in peer.rows() if row.get("partial") is True]
        if {*texts} <= {row["text"] for row in rows}:
            return [row["ts"] for row in rows]
        await peer.frame()


@pytest.mark.parametrize("text", ["Hm, so.\n</think>\n\nIt is 4.", "</think>It is 4."])
async def test_text_of_a_native_reply_before_the_closing_tag_is_reasoning(
    joey: Joey, text: str
) -> None:
    reply = Turn(say(text, chunk=3), call("attempt_completion", {"result": "4"}))
    async with ModelServer([reply]) as server:
        done = await joey.run("-p", "--output-format", "json", *reach(server.url), "2+2?")
    assert done.json["success"] is True
    shown = [
        (row["say"], row["text"]) for row in rows(joey) if row.get("say") in ("text", "reasoning")
    ]
    assert ("text", "It is 4.") in shown
    assert "think>" not in json.dumps(shown)
    assert not [text for say, text in shown if say == "text" and "Hm" in text]
