"""Tasks at a strict server of OpenAI's Responses API, with the real program."""

from __future__ import annotations

import asyncio
import copy
import json
import shutil
from base64 import b64decode, b64encode
from typing import Any

import pytest
from msgspec import structs

from joey.testing.script import Turn, call, fail, pause, raw
from joey.testing.server import ModelServer, Request
from tests.harness.cli.binary import LIMIT, Finished, Joey
from tests.service_rules.responses import (
    RESPONSES,
    RULES,
    make_call,
    make_message,
    make_reasoning,
    write_stream,
)
from tests.service_rules.rules import Issued, Rule
from tests.service_rules.services import SERVICES, Calls, Service
from tests.service_rules.strict_server import StrictServer, find_violations

READ: Calls = [("read_file", {"files": [{"path": "a.txt"}]})]
READ_AND_LIST: Calls = [*READ, ("list_files", {"path": "."})]
COMPLETE: Calls = [("attempt_completion", {"result": "All done."})]
CHAT = next(service for service in SERVICES if service.name == "openai")
ANTHROPIC = next(service for service in SERVICES if service.name == "anthropic")
ROO_TASKS = ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/tasks"
PNG = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def workspace(joey: Joey) -> Joey:
    (joey.workspace / "a.txt").write_text("hello\n")
    return joey


async def run(joey: Joey, server: StrictServer, *arguments: str) -> Finished:
    keys = {"OPENAI_API_KEY": "sk-1", "ANTHROPIC_API_KEY": "sk-2"}
    done = await joey.run("-p", *server.flags, *arguments, env={**joey.env, **keys})
    assert server.violations == [], server.service.name
    assert (done.code, done.out.strip()) == (0, "All done."), done.err
    return done


def paths(server: ModelServer) -> list[str]:
    return [request.path for request in server.requests]


def make_valid_body() -> tuple[dict[str, Any], Issued]:
    issued = Issued()
    part = {"type": "input_text", "text": "read it"}
    items: list[dict[str, Any]] = [{"type": "message", "role": "user", "content": [part]}]
    for number, calls in enumerate((READ, READ_AND_LIST), 1):
        echo = RESPONSES.write_reply(number, calls).echo
        names = [each["id"] for each in echo["tool_calls"]]
        issued.replies[names[0]] = echo
        items += echo["items"]
        items += [
            {"type": "function_call_output", "call_id": name, "output": "ok"} for name in names
        ]
    schema = {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
        "additionalProperties": False,
    }
    tool = {
        "type": "function",
        "name": "read_file",
        "description": "Reads.",
        "parameters": schema,
        "strict": True,
    }
    body = {
        "model": RESPONSES.model,
        "instructions": "Be brief.",
        "input": items,
        "tools": [tool],
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    return body, issued


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_violation_is_caught(rule: Rule) -> None:
    body, issued = make_valid_body()
    assert find_violations(RESPONSES, body, issued) == {}
    broken = copy.deepcopy(body)
    rule.plant(broken)
    assert rule.name in find_violations(RESPONSES, broken, issued)


@pytest.mark.contract("services:responses")
async def test_five_turns_with_an_image_keep_the_rules(workspace: Joey) -> None:
    joey = workspace
    (joey.workspace / "dot.png").write_bytes(PNG)
    plan = [READ, READ_AND_LIST, [("read_file", {"files": [{"path": "dot.png"}]})], READ, COMPLETE]
    async with StrictServer(RESPONSES, plan) as server:
        arguments = ["--image", "dot.png", "--output-format", "json", "read it"]
        done = await joey.run("-p", *server.flags, *arguments)
        assert (done.code, server.violations) == (0, []), done.err
        assert paths(server) == ["/v1/responses"] * 5
        first, *_, last = (request.body for request in server.requests)
    url = f"data:image/png;base64,{b64encode(PNG).decode()}"
    image = {"type": "input_image", "image_url": url, "detail": "auto"}
    assert image in first["input"][0]["content"]
    assert sum(image in item.get("content", ()) for item in last["input"]) == 2
    assert last["input"][: len(first["input"])] == first["input"]
    assert last["instructions"] == first["instructions"]
    assert done.json["content"] == "All done."
    cost = {"inputTokens": 6000, "outputTokens": 150, "cacheWrites": 500, "cacheReads": 5000}
    assert cost.items() <= done.json["cost"].items()
    rows = json.loads((joey.tasks[0] / "ui_messages.json").read_bytes())
    thoughts = [row["text"] for row in rows if row.get("say") == "reasoning" and row["text"]]
    assert thoughts[0] == "**Step 1**\n\nI have to do 1 things."
    assert first["reasoning"] == {"summary": "auto"}
    assert last["prompt_cache_key"] == first["prompt_cache_key"]
    assert joey.tasks[0].name == f"task_{first['prompt_cache_key']}"


@pytest.mark.contract("services:responses")
async def test_a_killed_task_is_resumed_with_its_reasoning(workspace: Joey) -> None:
    joey = workspace
    async with StrictServer(RESPONSES, [READ, READ_AND_LIST, COMPLETE]) as server:
        answer, is_held = server._answer, asyncio.Event()

        def hold_third(request: Request) -> Turn:
            if len(server.requests) == 3:
                is_held.set()
                return Turn(pause(LIMIT))
            return answer(request)

        server._turns = hold_third
        process = await joey.start(
            "-p", *server.flags, "read it", env={**joey.env, "OPENAI_API_KEY": "sk-1"}
        )
        async with asyncio.timeout(LIMIT):
            await is_held.wait()
            process.kill()
            await process.wait()
        await run(joey, server, "-c", "and now?")
        assert len(server.requests) == 4
        kinds = [item["type"] for item in server.requests[-1].body["input"]]
    assert kinds.count("reasoning") == 3


@pytest.mark.contract("services:responses")
@pytest.mark.parametrize("other", [CHAT, ANTHROPIC], ids=lambda service: service.name)
@pytest.mark.parametrize("starts_here", [True, False])
async def test_a_task_changes_between_the_wires(
    workspace: Joey, other: Service, starts_here: bool
) -> None:
    joey = workspace
    plan = [READ_AND_LIST, COMPLETE, READ, COMPLETE]
    async with StrictServer(RESPONSES, plan) as here, StrictServer(other, plan) as there:
        begin, change = (here, there) if starts_here else (there, here)
        await run(joey, begin, "read it")
        await run(joey, change, "-c", "have another look")
        await run(joey, begin, "-c", "and once more")
        await run(joey, change, "-c", "and again")
        assert (len(here.requests), len(there.requests)) == (4, 4)
        last = here.requests[-1].body["input"]
    calls = [item for item in last if item["type"] == "function_call"]
    assert len(calls) > sum(item["type"] == "reasoning" for item in last)


async def test_models_of_one_address_change_between_the_wires(workspace: Joey) -> None:
    joey, plan = workspace, [READ_AND_LIST, COMPLETE]
    async with StrictServer(RESPONSES, [*plan, *plan]) as server:
        chat_only = StrictServer(CHAT, plan)
        both = server._answer
        server._turns = lambda request: (
            both(request) if request.path.endswith("/responses") else chat_only._answer(request)
        )
        await run(joey, server, "read it")
        await run(joey, server, "-c", "-m", "gpt-4o", "have another look")
        await run(joey, server, "-c", "-m", RESPONSES.model, "and once more")
        assert chat_only.violations == []
        assert [path.rpartition("/")[2] for path in paths(server)] == (
            ["responses"] * 2 + ["completions"] * 2 + ["responses"] * 2
        )


@pytest.mark.contract("services:responses")
async def test_an_imported_task_keeps_its_reasoning(workspace: Joey) -> None:
    joey = workspace
    async with StrictServer(RESPONSES, [READ_AND_LIST, COMPLETE, READ, COMPLETE]) as server:
        await run(joey, server, "read it")
        theirs = joey.home.parent / ROO_TASKS / "1767600000000"
        theirs.mkdir(parents=True)
        for file in ("api_conversation_history.json", "ui_messages.json"):
            shutil.copy(joey.tasks[0] / file, theirs)
        shutil.rmtree(joey.home / "tasks")
        imported = await joey.run("tasks", "import", "--roo")
        assert imported.code == 0, imported.err
        await run(joey, server, "-r", "1767600000000", "once more")
        assert len(server.requests) == 4


async def test_an_xml_task_keeps_its_reasoning(workspace: Joey) -> None:
    texts = (
        "<read_file><args><file><path>a.txt</path></file></args></read_file>",
        "<attempt_completion><result>All done.</result></attempt_completion>",
    )
    turns = [
        Turn(write_stream(n, [make_reasoning(n, "Hm."), make_message(n, text, "commentary")]))
        for n, text in enumerate(texts)
    ]
    async with ModelServer(turns, raw_paths=["/responses"]) as server:
        flags = ["--provider", "openai", "--base-url", f"{server.url}/v1", "-m", "gpt-6.1-sol"]
        done = await workspace.run("-p", "--protocol", "xml", *flags, "do it")
        assert (done.code, done.out.strip()) == (0, "All done."), done.err
        kinds = [(i["type"], i.get("role")) for i in server.requests[-1].body["input"]]
        assert "tools" not in server.requests[-1].body
    assert kinds == [
        ("message", "user"),
        ("reasoning", None),
        ("message", "assistant"),
        ("message", "user"),
    ]


MISSING = (
    fail(404, body='{"detail":"Not Found"}'),
    fail(404, body="404 page not found", headers={"content-type": "text/plain"}),
    fail(405, body='{"detail":"Method Not Allowed"}'),
    fail(400, "Invalid URL (POST /v1/responses)"),
    fail(500, "not implemented"),
)


@pytest.mark.contract("services:responses")
@pytest.mark.parametrize("missing", MISSING, ids=lambda step: f"{step.status} {step.message[:7]}")
async def test_an_address_without_it_is_asked_once(joey: Joey, missing: Any) -> None:
    def answer(request: Request) -> Turn:
        if request.path.endswith("/responses"):
            return Turn(missing)
        if request.body.get("reasoning_effort") != "none":
            message = (
                "Function tools with reasoning_effort are not supported for gpt-6.1-sol in"
                " /v1/chat/completions. To use function tools, use /v1/responses or set"
                " reasoning_effort to 'none'."
            )
            return Turn(fail(400, message))
        return Turn(call("attempt_completion", {"result": "All done."}))

    async with ModelServer(answer, raw_paths=["/responses"]) as server:
        flags = ["--provider", "openai", "--base-url", f"{server.url}/v1", "-m", "gpt-6.1-sol"]
        for _ in range(2):
            done = await joey.run("-p", *flags, "do it")
            assert (done.code, done.out.strip()) == (0, "All done."), done.err
        chat = "/v1/chat/completions"
        assert paths(server) == ["/v1/responses", chat, chat, chat]


async def test_a_wrong_address_is_not_remembered(joey: Joey) -> None:
    def answer(request: Request) -> Turn:
        return Turn(fail(404, body='{"detail":"Not Found"}'))

    async with ModelServer(answer, raw_paths=["/responses"]) as server:
        flags = ["--provider", "openai", "--base-url", server.url, "-m", "gpt-6.1-sol"]
        done = await joey.run("-p", *flags, "do it")
        assert done.code == 78, done.err
    assert not (joey.home / "tool-support.json").exists()


async def test_an_unknown_model_is_not_looked_for_elsewhere(joey: Joey) -> None:
    message = "The model `gpt-6.1-sol` does not exist or you do not have access to it."
    turn = Turn(fail(404, message, code="model_not_found"))
    async with ModelServer([turn], raw_paths=["/responses"]) as server:
        flags = ["--provider", "openai", "--base-url", f"{server.url}/v1", "-m", "gpt-6.1-sol"]
        done = await joey.run("-p", *flags, "do it")
        assert done.code == 78, done.err
        assert paths(server) == ["/v1/responses"]


@pytest.mark.contract("services:responses")
async def test_a_model_that_chat_refuses_gets_it(workspace: Joey) -> None:
    joey = workspace
    async with StrictServer(RESPONSES, [READ, COMPLETE, COMPLETE]) as server:
        strict = server._answer

        def answer(request: Request) -> Turn:
            if request.path.endswith("/responses"):
                return strict(request)
            message = "This model is only supported in v1/responses and not in v1/chat/completions."
            return Turn(fail(404, message))

        server._turns = answer
        for arguments in (["read it"], ["-c", "and now?"]):
            await run(joey, server, "-m", "house-model", *arguments)
        assert [path for path in paths(server) if "chat" in path] == ["/v1/chat/completions"]


@pytest.mark.contract("services:responses")
async def test_reasoning_that_an_account_cannot_read_is_left_out(workspace: Joey) -> None:
    joey = workspace
    async with StrictServer(RESPONSES, [READ_AND_LIST, COMPLETE, READ, COMPLETE]) as server:
        await run(joey, server, "read it")
        for reply in server.issued.replies.values():
            reply["items"] = []
        done = await joey.run("-p", *server.flags, "-c", "go on", env=joey.env)
        assert (done.code, done.out.strip()) == (0, "All done."), done.err
        assert len(server.requests) == 5
        assert all("could not be verified" in each for each in server.violations)
        assert server.violations
    assert not (joey.home / "tool-support.json").exists()


@pytest.mark.contract("services:responses")
async def test_a_call_that_the_output_limit_cuts_is_not_run(workspace: Joey) -> None:
    cut = make_call("call_1", "write_to_file", '{"path": "b.txt", "content": "half')
    details = {"reason": "max_output_tokens"}
    stream = write_stream(
        1, [{**cut, "status": "incomplete"}], "incomplete", incomplete_details=details
    )
    complete = make_call("call_2", "attempt_completion", '{"result": "All done."}')
    turns = [Turn(stream), Turn(write_stream(2, [complete]))]
    async with ModelServer(turns, raw_paths=["/responses"]) as server:
        flags = ["--provider", "openai", "--base-url", f"{server.url}/v1", "-m", "gpt-6.1-sol"]
        done = await workspace.run("-p", "-y", "--no-sandbox", *flags, "do it")
        assert (done.code, done.out.strip()) == (0, "All done."), done.err
        received = json.dumps(server.requests[-1].body["input"])
    assert not (workspace.workspace / "b.txt").exists()
    assert "max_output_tokens" in received


@pytest.mark.contract("services:responses")
@pytest.mark.parametrize(
    ("events", "code", "text"),
    [
        (
            write_stream(
                1, [], "incomplete", incomplete_details={"reason": "content_filter"}, usage=None
            ),
            1,
            "content filter",
        ),
        (
            raw('data: {"type":"error","code":"invalid_prompt","message":"No.","param":null}\n\n'),
            1,
            "invalid_prompt: No.",
        ),
        (
            write_stream(1, [], "failed", error={"code": "insufficient_quota", "message": "Pay."}),
            1,
            "insufficient credit",
        ),
    ],
    ids=["content filter", "prompt", "quota"],
)
async def test_failures_end_the_run_with_their_reason(
    joey: Joey, events: Any, code: int, text: str
) -> None:
    async with ModelServer([Turn(events)], raw_paths=["/responses"]) as server:
        flags = ["--provider", "openai", "--base-url", f"{server.url}/v1", "-m", "gpt-6.1-sol"]
        done = await joey.run("-p", *flags, "do it")
        assert len(server.requests) == 1
    assert text in done.err
    assert done.code != 0


async def test_a_refused_parameter_is_left_out(joey: Joey) -> None:
    messages = {
        "summary": "Your organization must be verified to generate reasoning summaries.",
        "prompt_cache_key": "Unknown parameter: 'prompt_cache_key'.",
    }

    def answer(request: Request) -> Turn:
        body = {**request.body, **(request.body.get("reasoning") or {})}
        for name, message in messages.items():
            if name in body:
                return Turn(fail(400, message))
        done = make_call("call_1", "attempt_completion", '{"result": "All done."}')
        return Turn(write_stream(1, [make_reasoning(1, ""), done]))

    async with ModelServer(answer, raw_paths=["/responses"]) as server:
        flags = ["--provider", "openai", "--base-url", f"{server.url}/v1", "-m", "gpt-6.1-sol"]
        for _ in range(2):
            done = await joey.run("-p", *flags, "do it")
            assert (done.code, done.out.strip()) == (0, "All done."), done.err
        assert len(server.requests) == 4
        assert "reasoning" not in server.requests[-1].body


async def test_a_final_answer_goes_back_with_its_phase(joey: Joey) -> None:
    answer = [make_reasoning(1, "Hm."), make_message(1, "It says hello.", "final_answer")]
    service = structs.replace(RESPONSES)
    async with ModelServer(
        [Turn(write_stream(number, answer)) for number in range(1, 5)], raw_paths=["/responses"]
    ) as server:
        flags = ["--provider", "openai", "--base-url", f"{server.url}/v1", "-m", service.model]
        for arguments in (["what is in it?"], ["-c", "sure?"]):
            done = await joey.run("-p", "--mode", "ask", *flags, *arguments)
            assert (done.code, done.out.strip()) == (0, "It says hello."), done.err
        second = server.requests[-1].body["input"]
    assert [item.get("phase") for item in second if item.get("role") == "assistant"] == [
        "final_answer"
    ]
