"""Tasks at strict servers, one for each provider, with the real program."""

from __future__ import annotations

import base64
import copy
import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import structs

from joey.core.messages import (
    Message,
    ReplySource,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnsignedReasoningBlock,
)
from joey.core.models import ModelRequest, ToolSpec
from joey.core.settings import Profile
from joey.providers.catalog import PROVIDER_SPECS
from joey.providers.factory import resolve_model
from joey.providers.openai_request import OpenAiRequestBuilder
from joey.testing.script import Turn, call, fail, say, stop
from joey.testing.server import ModelServer, Request
from joey.tools.parameters import build_native_schema
from joey.tools.read_file import ReadFileParams
from tests.harness.cli.binary import Finished, Joey
from tests.service_rules.rules import TEXT_OR_CALLS, Issued, Rule
from tests.service_rules.services import (
    DEEPSEEK,
    LLAMACPP,
    MISTRAL,
    SAMBANOVA,
    SERVICES,
    VLLM,
    Calls,
    Service,
)
from tests.service_rules.strict_server import StrictServer, find_violations, log_in

ROO_TASKS = ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/tasks"
READ: Calls = [("read_file", {"files": [{"path": "a.txt"}]})]
READ_AND_LIST: Calls = [*READ, ("list_files", {"path": "."})]
COMPLETE: Calls = [("attempt_completion", {"result": "All done."})]


async def run(joey: Joey, server: StrictServer, *arguments: str) -> Finished:
    specs = (spec for spec in PROVIDER_SPECS if not spec.login)
    keys = {name: "sk-1" for spec in specs for name in spec.key_variables[:1]}
    env = {**joey.env, **keys, **server.env}
    done = await joey.run("-p", *server.flags, *arguments, env=env)
    assert server.violations == [], server.service.name
    assert (done.code, done.out.strip()) == (0, "All done."), done.err
    return done


def test_every_provider_has_a_strict_server() -> None:
    assert {each.name for each in SERVICES} == {spec.name for spec in PROVIDER_SPECS}


@pytest.mark.contract("services:rules")
@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.label)
async def test_a_task_keeps_the_rules_when_it_is_resumed_and_changes_hands(
    joey: Joey, service: Service
) -> None:
    (joey.workspace / "a.txt").write_text("hello\n")
    other = SERVICES[SERVICES.index(service) - 1]
    async with (
        log_in(service, joey.home.parent) as login,
        log_in(other, joey.home.parent) as other_login,
        StrictServer(service, [READ, READ_AND_LIST, COMPLETE, READ, COMPLETE], login) as server,
        StrictServer(other, [READ_AND_LIST, COMPLETE], other_login) as elsewhere,
    ):
        await run(joey, server, "read it")
        (task,) = joey.tasks
        await run(joey, elsewhere, "-r", task.name, "have another look")
        await run(joey, server, "-c", "and once more")
        assert (len(server.requests), len(elsewhere.requests)) == (5, 2)
        assert login is None or login.given >= 5  # credentials are renewed before they expire


@pytest.mark.parametrize(
    ("service", "rule"),
    [
        pytest.param(service, rule, id=f"{service.label}-{rule.name}")
        for service in SERVICES
        for rule in service.rules
    ],
)
def test_a_violation_is_caught(service: Service, rule: Rule) -> None:
    body, issued = make_valid_body(service)
    assert find_violations(service, body, issued) == {}
    broken = copy.deepcopy(body)
    rule.plant(broken)
    assert rule.name in find_violations(service, broken, issued)


def make_valid_body(service: Service) -> tuple[dict[str, Any], Issued]:
    """A conversation of two replies, as the service wants it."""
    issued = Issued()
    is_anthropic = service.is_anthropic
    user = {"role": "user", "content": "read it"}
    messages: list[dict[str, Any]] = (
        [user]
        if is_anthropic
        else [
            {"role": "system", "content": "Be brief."},
            user,
        ]
    )
    for number, calls in enumerate((READ, READ_AND_LIST), 1):
        echo = service.write_reply(number, calls).echo
        blocks = echo["content"] if is_anthropic else echo["tool_calls"]
        ids = [block["id"] for block in blocks if block["type"] in ("tool_use", "function")]
        issued.replies[ids[0]] = echo
        messages.append(echo)
        if is_anthropic:
            results = [{"type": "tool_result", "tool_use_id": id_, "content": "ok"} for id_ in ids]
            messages.append({"role": "user", "content": results})
        else:
            messages += [{"role": "tool", "tool_call_id": id_, "content": "ok"} for id_ in ids]
    body = {"model": service.model, "messages": messages, "stream": True}
    names = ("openai", "qwen", "azure", "bedrock")
    is_cold = service.name in names or service.label == "vertex-claude-sonnet-4-5@20250929"
    wanted = {"temperature": 0} if is_cold else {}
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    tool: dict[str, Any] = {"name": "read_file", "input_schema": schema}
    if not is_anthropic:
        function = {"name": "read_file", "parameters": schema}
        tool = {"type": "function", "function": function}
    return {**body, **wanted, "tools": [tool]}, issued


@pytest.mark.contract("services:rules")
async def test_calls_that_were_written_in_a_text_have_a_signature(joey: Joey) -> None:
    """A task that changes from XML to native has its earlier calls converted."""
    (joey.workspace / "a.txt").write_text("hello\n")
    written = [
        "<read_file>\n<args><file><path>a.txt</path></file></args>\n</read_file>",
        "<attempt_completion>\n<result>All done.</result>\n</attempt_completion>",
    ]
    service = next(each for each in SERVICES if each.name == "gemini")
    key = {"GEMINI_API_KEY": "sk-1"}
    async with ModelServer([Turn(say(text)) for text in written]) as server:
        flags = ["--provider", "gemini", "--base-url", f"{server.url}/v1", "-m", service.model]
        done = await joey.run("-p", *flags, "--protocol", "xml", "read it", env={**joey.env, **key})
        assert (done.code, done.out.strip()) == (0, "All done."), done.err
    async with StrictServer(service, [READ_AND_LIST, COMPLETE]) as strict:
        await run(joey, strict, "-c", "--protocol", "native", "and once more")


@pytest.mark.contract("services:rules")
@pytest.mark.parametrize("name", ["gemini", "anthropic", "openrouter", "deepseek"])
async def test_an_imported_task_goes_back_to_its_service_unchanged(joey: Joey, name: str) -> None:
    (joey.workspace / "a.txt").write_text("hello\n")
    service = next(each for each in SERVICES if each.name == name)
    async with StrictServer(service, [READ_AND_LIST, COMPLETE, READ, COMPLETE]) as server:
        await run(joey, server, "read it")
        (task,) = joey.tasks
        theirs = joey.home.parent / ROO_TASKS / "1767600000000"
        theirs.mkdir(parents=True)
        for file in ("api_conversation_history.json", "ui_messages.json"):
            shutil.copy(task / file, theirs)
        shutil.rmtree(joey.home / "tasks")
        imported = await joey.run("tasks", "import", "--roo")
        assert imported.code == 0, imported.err
        await run(joey, server, "-r", "1767600000000", "once more")
        assert len(server.requests) == 4


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-6.1-sol"])
def test_openai_itself_gets_strict_schemas_and_nothing_of_other_services(model: str) -> None:
    profile = Profile(provider="openai", model=model)
    service = next(each for each in SERVICES if each.name == "openai")
    rules = [rule for rule in service.rules if rule.name not in ("sampling", "parameters")]
    spec = ToolSpec("read_file", "Reads.", build_native_schema(ReadFileParams))
    messages = list(make_foreign_history())
    request = ModelRequest("Be brief.", messages, (spec,))
    builder = OpenAiRequestBuilder(profile, resolve_model(profile), "api.openai.com")
    body = json.loads(b"".join(builder.build_body(request)))
    assert find_violations(structs.replace(service, rules=tuple(rules)), body, Issued()) == {}
    assert body["tools"][0]["function"]["strict"] is True
    assert body.get("temperature") == (0 if model == "gpt-4o" else None)


def make_foreign_history() -> Iterator[Message]:
    yield Message("user", "read it")
    source = ReplySource("gemini", "gemini-3.8-flash", "reasoning", {"google": {"x": "y"}})
    for number in range(2):
        name = f"function-call-{number:040}"
        extra = {"google": {"thought_signature": "s=="}}
        blocks = (
            UnsignedReasoningBlock("Hm."),
            ToolUseBlock(name, "read_file", {"files": []}, extra),
        )
        details = ({"type": "reasoning.encrypted", "data": "x"},)
        yield Message("assistant", blocks, reasoning_details=details, source=source)
        yield Message("user", (ToolResultBlock(name, "ok"), TextBlock("and now?")))


@pytest.mark.contract("services:refusals")
async def test_a_refused_parameter_is_left_out_and_remembered(joey: Joey) -> None:
    """Whatever the name of the model or the address says."""
    refused = ("parallel_tool_calls", "stream_options", "min_p", "thinking_mode")

    def answer(request: Request) -> Turn:
        for name in refused:
            if name in request.body:
                message = f"Unrecognized request argument supplied: {name}"
                return Turn(fail(400, message))
        return Turn(call("attempt_completion", {"result": "All done."}))

    async with ModelServer(answer) as server:
        profile = {
            "provider": "openai",
            "model": "my-model",
            "baseUrl": f"{server.url}/v1",
            "topP": 0.9,
            "minP": 0.05,
            "extraBody": {"thinking_mode": "off", "seed": 7},
            "chatTemplateKwargs": {"enable_thinking": False},
        }
        joey.home.mkdir(exist_ok=True)
        profiles = {"active": "own", "profiles": {"own": profile}}
        (joey.home / "profiles.json").write_text(json.dumps(profiles))
        for _ in range(2):
            done = await joey.run("-p", "do it")
            assert (done.code, done.out.strip()) == (0, "All done."), done.err
        assert len(server.requests) == len(refused) + 2
        first, *_, last = (request.body for request in server.requests)
    assert [name for name in refused if name in first] == list(refused)
    assert last["top_p"] == 0.9
    assert last["seed"] == 7
    assert last["chat_template_kwargs"] == {"enable_thinking": False}


@pytest.mark.contract("services:refusals")
@pytest.mark.parametrize(
    ("provider", "message", "refusals"),
    [
        ("openai", "this model does not support image input", 1),
        ("anthropic", "this model does not support image input", 1),
        ("zai", "Invalid API parameter, please check the documentation.", 2),
    ],
)
async def test_refused_images_are_left_out(
    joey: Joey, provider: str, message: str, refusals: int
) -> None:
    """They are remembered as refused only if the service says so."""
    png = (
        b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    )
    (joey.workspace / "a.png").write_bytes(base64.b64decode(png + b"RU5ErkJggg=="))
    plan = [call("read_file", {"files": [{"path": "a.png"}]})]
    refused = 0

    def answer(request: Request) -> Turn:
        nonlocal refused
        if "base64" in json.dumps(request.body["messages"]):
            refused += 1
            return Turn(fail(400, message))
        return Turn(plan.pop() if plan else call("attempt_completion", {"result": "All done."}))

    keys = {name: "sk-1" for spec in PROVIDER_SPECS for name in spec.key_variables[:1]}
    async with ModelServer(answer) as server:
        url = server.url + ("" if provider == "anthropic" else "/v1")
        flags = ["--provider", provider, "--base-url", url, "-m", "my-model"]
        for arguments in (["look"], ["-c", "and now?"]):
            done = await joey.run("-p", "-y", *flags, *arguments, env={**joey.env, **keys})
            assert (done.code, done.out.strip()) == (0, "All done."), done.err
    assert refused == refusals


OLD_MISTRAL = structs.replace(VLLM, rules=(*VLLM.rules, TEXT_OR_CALLS), reasoning="")
"""A model with an earlier tokenizer, whose id does not say so."""


@pytest.mark.parametrize(
    "known", [MISTRAL, DEEPSEEK, LLAMACPP, SAMBANOVA, OLD_MISTRAL], ids=lambda known: known.model
)
async def test_a_renamed_model_at_a_proxy_is_understood_by_its_refusals(
    joey: Joey, known: Service
) -> None:
    (joey.workspace / "a.txt").write_text("hello\n")
    rules = tuple(rule for rule in known.rules if rule.name != "echo")
    service = structs.replace(known, rules=rules, reasoning="", id_format="call_{:08}")
    async with StrictServer(service, [READ_AND_LIST, COMPLETE, COMPLETE]) as server:
        flags = ["--provider", "openai", "--base-url", f"{server.url}/v1", "-m", "house-model"]
        for arguments in (["read it"], ["-c", "and now?"]):
            done = await joey.run("-p", *flags, *arguments)
            assert (done.code, done.out.strip()) == (0, "All done."), done.err


def test_a_text_next_to_calls_is_caught() -> None:
    body, issued = make_valid_body(OLD_MISTRAL)
    assert find_violations(OLD_MISTRAL, body, issued).keys() == {"text or calls"}


@pytest.mark.parametrize(
    ("provider", "reason"),
    [("anthropic", "refusal"), ("openai", "content_filter"), ("zai", "sensitive")],
)
async def test_a_filtered_reply_ends_the_run_with_the_reason(
    joey: Joey, provider: str, reason: str
) -> None:
    keys = {name: "sk-1" for spec in PROVIDER_SPECS for name in spec.key_variables[:1]}
    async with ModelServer([Turn(stop(reason))]) as server:
        url = server.url + ("" if provider == "anthropic" else "/v1")
        flags = ["--provider", provider, "--base-url", url, "-m", "my-model"]
        done = await joey.run("-p", *flags, "go", env={**joey.env, **keys})
    assert done.code == 1
    assert f"content filter stopped the reply (`{reason}`)" in done.err
