"""An answer in plain text is the result of `joey -p`, not a failure."""

from __future__ import annotations

import json

import pytest

from joey.testing.script import Turn, call, say, stop
from joey.testing.server import ModelServer, Request, TurnSelector
from tests.harness.cli.binary import Finished, Joey, reach
from tests.harness.cli.playing import ARTIFACT, run, with_artifact
from tests.harness.cli.steering import steering

ANSWER = Turn(say("The linker is missing.", chunk=5))
CUT_OFF = Turn(say("The lin"), stop("max_tokens"))
REMINDER = "[ERROR] You did not use a tool in your previous response!"


async def ask(
    joey: Joey, *turns: Turn, flags: tuple[str, ...] = ()
) -> tuple[Finished, ModelServer]:
    async with ModelServer(turns) as server:
        done = await joey.run("-p", *flags, *reach(server.url), "why does the build fail?")
    return done, server


def reminders(server: ModelServer) -> list[bool]:
    return [REMINDER in json.dumps(request.body["messages"][-1]) for request in server.requests]


@pytest.mark.contract("loop:plain-reply")
@pytest.mark.parametrize("protocol", ["native", "xml"])
async def test_a_second_plain_reply_is_the_answer(joey: Joey, protocol: str) -> None:
    done, server = await ask(joey, ANSWER, ANSWER, flags=("--protocol", protocol))
    assert (done.code, done.out) == (0, "The linker is missing.\n")
    assert reminders(server) == [False, True]
    assert "joey: answered · " in done.err


@pytest.mark.contract("loop:plain-reply")
@pytest.mark.parametrize(
    "second", [ANSWER, Turn(call("attempt_completion", {"result": "The linker is missing."}))]
)
async def test_an_answer_that_is_repeated_is_printed_once(joey: Joey, second: Turn) -> None:
    done, server = await ask(joey, ANSWER, second)
    assert (done.code, done.out) == (0, "The linker is missing.\n")
    assert "linker" not in done.err
    assert "with the whole result, not only what is new in it" in json.dumps(
        server.requests[1].body["messages"][-1]
    )


async def test_a_plain_reply_that_the_result_does_not_repeat_is_printed(joey: Joey) -> None:
    end = Turn(call("attempt_completion", {"result": "Install lld."}))
    done, _ = await ask(joey, ANSWER, end)
    assert (done.code, done.out) == (0, "Install lld.\n")
    assert done.err.count("The linker is missing.") == 1


@pytest.mark.contract("loop:plain-reply")
async def test_a_plain_reply_in_the_last_turn_is_the_answer(joey: Joey) -> None:
    done, server = await ask(joey, ANSWER, flags=("--max-turns", "1"))
    assert (done.code, done.out) == (0, "The linker is missing.\n")
    assert "joey: answered · " in done.err
    assert len(server.requests) == 1


async def test_a_plain_reply_in_the_last_turn_is_no_answer_after_an_edit(joey: Joey) -> None:
    edit = Turn(call("write_to_file", {"path": "a.txt", "content": "x"}))
    last = Turn(say("Now I run the tests."))
    done, _ = await ask(joey, edit, last, flags=("-y", "--max-turns", "2"))
    assert (done.code, done.out) == (53, "")
    assert "  Now I run the tests.\n" in done.err


async def test_a_reply_that_was_cut_off_in_the_last_turn_is_no_answer(joey: Joey) -> None:
    done, _ = await ask(joey, CUT_OFF, flags=("--max-turns", "1"))
    assert (done.code, done.out) == (53, "")
    assert "  The lin\n" in done.err


@pytest.mark.parametrize("mode", ["code", "ask"])
async def test_an_answer_that_was_cut_off_twice_is_whole(joey: Joey, mode: str) -> None:
    parts = ["First stop the", "server. Then clear the", "cache.\n\nThen start it."]
    turns = [Turn(say(part), stop("length")) for part in parts[:-1]]
    done, server = await ask(joey, *turns, Turn(say(parts[-1])), flags=("--mode", mode))
    whole = "First stop the server. Then clear the cache.\n\nThen start it.\n"
    assert (done.code, done.out, len(server.requests)) == (0, whole, 3)


@pytest.mark.contract("loop:plain-reply")
async def test_both_replies_are_the_answer_when_they_differ(joey: Joey) -> None:
    done, _ = await ask(joey, ANSWER, Turn(say("Install lld.")))
    assert (done.code, done.out) == (0, "The linker is missing.\n\nInstall lld.\n")


@pytest.mark.contract("loop:plain-reply")
@pytest.mark.parametrize("mode", ["ask", "orchestrator", "reader"])
async def test_in_a_mode_without_edits_and_commands_the_first_plain_reply_is_the_answer(
    joey: Joey, mode: str
) -> None:
    own = {"slug": "reader", "name": "Reader", "roleDefinition": "You read.", "groups": ["read"]}
    modes = json.dumps({"customModes": [own]})
    (joey.workspace / ".roomodes").write_text(modes, encoding="utf-8")
    done, server = await ask(joey, ANSWER, flags=("--mode", mode))
    assert (done.code, done.out) == (0, "The linker is missing.\n")
    assert reminders(server) == [False]


@pytest.mark.contract("loop:plain-reply")
@pytest.mark.parametrize("format", ["json", "stream-json"])
async def test_output_for_programs_says_that_it_was_answered(joey: Joey, format: str) -> None:
    done, _ = await ask(joey, ANSWER, ANSWER, flags=("--output-format", format))
    result = done.json if format == "json" else done.lines[-1]
    assert (result["code"], result["exitCode"], result["success"]) == ("answered", 0, True)
    assert result["content"] == "The linker is missing."
    events = done.json["events"] if format == "json" else done.lines
    assert [line["content"] for line in events if line.get("subtype") == "completion_result"] == [
        "The linker is missing."
    ]


@pytest.mark.contract("loop:plain-reply")
async def test_plain_replies_with_a_call_between_them_are_each_reminded_of(joey: Joey) -> None:
    look = Turn(call("list_files", {"path": ".", "recursive": False}))
    end = Turn(call("attempt_completion", {"result": "It is the linker."}))
    done, server = await ask(joey, Turn(say("Hm.")), look, Turn(say("Ah.")), end)
    assert (done.code, done.out) == (0, "It is the linker.\n")
    assert reminders(server) == [False, True, False, True]


@pytest.mark.contract("loop:plain-reply", "cli:json-schema")
async def test_a_plain_answer_has_to_fit_the_schema(joey: Joey) -> None:
    schema = json.dumps({"type": "object", "required": ["verdict"]})
    flags = ("--output-format", "json", "--json-schema", schema)
    fit = Turn(say('{"verdict": "bad"}'))
    done, server = await ask(joey, ANSWER, ANSWER, fit, flags=flags)
    assert (done.code, done.json["code"]) == (0, "answered")
    assert done.json["structured"] == {"verdict": "bad"}
    assert "It is not JSON" in json.dumps(server.requests[2].body["messages"][-1])
    done, server = await ask(joey, *[ANSWER] * 9, flags=flags)
    assert (done.code, done.json["code"]) == (3, "schema")
    assert len(server.requests) == 4


async def test_a_task_that_was_answered_goes_on_with_another_message(joey: Joey) -> None:
    end = Turn(call("attempt_completion", {"result": "Installed."}))
    async with ModelServer([ANSWER, ANSWER, end]) as server:
        await joey.run("-p", *reach(server.url), "why does the build fail?")
        done = await joey.run("-p", "-c", *reach(server.url), "then install it")
        last = json.dumps(server.requests[2].body["messages"][-1])
    assert (done.code, done.out) == (0, "Installed.\n")
    assert "then install it" in last
    assert REMINDER not in last


async def test_a_program_that_steers_it_gets_an_answer_for_each_message(joey: Joey) -> None:
    turns = [ANSWER, ANSWER, Turn(say("Yes.")), Turn(say("Yes."))]
    async with ModelServer(turns) as server, steering(joey, server.url) as program:
        await program.send("start", "one", prompt="why does the build fail?")
        assert (await program.result("one"))["code"] == "answered"
        await program.send("message", "two", prompt="are you sure?")
        result = await program.result("two")
        assert (result["code"], result["content"]) == ("answered", "Yes.")
        assert "are you sure?" in json.dumps(server.requests[2].body["messages"][-1])
        await program.shut_down()


@pytest.mark.contract("loop:plain-reply")
@pytest.mark.parametrize("protocol", ["native", "xml"])
async def test_a_plain_reply_is_no_answer_while_a_command_runs(joey: Joey, protocol: str) -> None:
    waiting = Turn(say("I'll wait for it to finish."))
    go_on = Turn(call("write_to_file", {"path": "go", "content": ""}))
    end = Turn(call("attempt_completion", {"result": "It printed 42."}))
    turns: list[Turn | TurnSelector] = [
        Turn(run("until [ -e go ]; do sleep 0.05; done; echo 42", timeout=0.1)),
        waiting,
        waiting,
        waiting,
        go_on,
        with_artifact(lambda each: call("read_command_output", {"artifact_id": each, "wait": 60})),
        end,
    ]
    async with ModelServer(turns) as server:
        flags = ("-p", "-y", "--no-sandbox", "--protocol", protocol, *reach(server.url))
        done = await joey.run(*flags, "run it and tell me the number")
    assert (done.code, done.out) == (0, "It printed 42.\n")
    said = [json.dumps(request.body["messages"][-1]) for request in server.requests]
    artifact = ARTIFACT.findall(said[1])[0]
    exact = {
        "native": f'read_command_output {{"artifact_id": "{artifact}", "wait": 300}}',
        "xml": f"<artifact_id>{artifact}</artifact_id>\n<wait>300</wait>\n</read_command_output>",
    }[protocol]
    for text in said[2:5]:
        assert "`until [ -e go ]; do sleep 0.05; done; echo 42` (for " in text
        assert json.dumps(exact)[1:-1] in text
    assert "42" in said[6]


async def test_waiting_in_plain_text_fails_in_the_end(joey: Joey) -> None:
    waiting = [Turn(say("Still waiting."))] * 11
    async with ModelServer([Turn(run("sleep 600", timeout=0.1)), *waiting]) as server:
        done = await joey.run("-p", "-y", "--no-sandbox", *reach(server.url), "run it")
    assert (done.code, done.out) == (3, "")
    assert len(server.requests) == 11


@pytest.mark.parametrize("sandbox", [("--no-sandbox",), ()])
async def test_a_plain_reply_is_an_answer_while_a_server_runs(
    joey: Joey, on_disk: None, sandbox: tuple[str, ...]
) -> None:
    serve = (
        'exec python3 -u -c \'import socket, time; s = socket.create_server(("127.0.0.1", 0));'
        ' print("ready"); time.sleep(600)\''
    )

    def answer(request: Request) -> Turn:
        is_ready = "ready" in json.dumps(request.body["messages"])
        return Turn(say("It serves.")) if is_ready else Turn(run("sleep 0.2"))

    turns: list[Turn | TurnSelector] = [Turn(run(serve, timeout=2)), *[answer] * 20]
    async with ModelServer(turns) as server:
        done = await joey.run("-p", "-y", *sandbox, *reach(server.url), "start the server")
    assert done.code == 0
    assert "It serves." in done.out


async def test_calls_that_cannot_be_used_are_named_beside_those_that_ran(joey: Joey) -> None:
    text = (
        "<list_files><path>.</path></list_files>\n<polish>\n<path>a.txt</path>\n</polish>\n"
        "<grep>\n<pattern>x</pattern>\n<path>.</path>\n</grep>"
    )
    done, server = await ask(
        joey, Turn(say(text)), Turn(call("attempt_completion", {"result": "ok"})),
        flags=("--protocol", "xml"),
    )  # fmt: skip
    assert (done.code, done.out) == (0, "ok\n")
    answer = json.dumps(server.requests[1].body["messages"][-1])
    assert "[list_files for '.'] Result:" in answer
    assert "[search_files for 'x'] Result:" in answer
    assert 'was not run. Unknown tool \\"polish\\". Available tools: ' in answer


BASH = "<bash>\n<command>echo five</command>\n</bash>\n"
EDIT = "<write_to_file>\n<path>b.txt</path>\n<content>\nx\n</content>\n</write_to_file>\n"
DONE = "<attempt_completion>\n<result>ok</result>\n</attempt_completion>"


@pytest.mark.contract("loop:plain-reply")
async def test_a_call_by_another_name_runs_before_one_by_its_own(joey: Joey) -> None:
    text = f"{BASH}<list_files>\n<path>.</path>\n</list_files>"
    done, server = await ask(
        joey, Turn(say(text, chunk=7)), Turn(say(DONE)), flags=("--protocol", "xml", "-y")
    )
    assert (done.code, done.out) == (0, "ok\n")
    answer = json.dumps(server.requests[1].body["messages"][-1])
    assert "[execute_command for 'echo five'] Result:" in answer
    assert "[list_files for '.'] Result:" in answer


@pytest.mark.contract("loop:plain-reply")
async def test_a_result_is_not_presented_where_a_call_before_it_was_not_run(joey: Joey) -> None:
    text = f"```xml\n{EDIT}```\n\n{DONE}"
    done, server = await ask(
        joey, Turn(say(text, chunk=7)), Turn(say(DONE)), flags=("--protocol", "xml", "-y")
    )
    assert (done.code, done.out) == (0, "ok\n")
    answer = json.dumps(server.requests[1].body["messages"][-1])
    assert "The call of write_to_file is in a code block, and another call follows it" in answer
    assert not (joey.workspace / "b.txt").exists()
