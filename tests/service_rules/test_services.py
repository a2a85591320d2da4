"""Tasks at strict servers, one for each provider, with the real program."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from joey.providers.catalog import PROVIDER_SPECS
from tests.front.binary import Finished, Joey
from tests.service_rules.rules import Issued, Rule
from tests.service_rules.services import SERVICES, Calls, Service
from tests.service_rules.strict_server import StrictServer, find_violations

READ: Calls = [("read_file", {"files": [{"path": "a.txt"}]})]
READ_AND_LIST: Calls = [*READ, ("list_files", {"path": "."})]
COMPLETE: Calls = [("attempt_completion", {"result": "All done."})]


async def run(joey: Joey, server: StrictServer, *arguments: str) -> Finished:
    keys = {name: "sk-1" for spec in PROVIDER_SPECS for name in spec.key_variables[:1]}
    done = await joey.run("-p", *server.flags, *arguments, env={**joey.env, **keys})
    assert server.violations == [], server.service.name
    assert (done.code, done.out.strip()) == (0, "All done."), done.err
    return done


def test_every_provider_has_a_strict_server() -> None:
    assert sorted(each.name for each in SERVICES) == sorted(spec.name for spec in PROVIDER_SPECS)


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
async def test_a_task_keeps_the_rules_when_it_is_resumed_and_changes_hands(
    joey: Joey, service: Service
) -> None:
    (joey.workspace / "a.txt").write_text("hello\n")
    other = SERVICES[SERVICES.index(service) - 1]
    async with (
        StrictServer(service, [READ, READ_AND_LIST, COMPLETE, READ, COMPLETE]) as server,
        StrictServer(other, [READ_AND_LIST, COMPLETE]) as elsewhere,
    ):
        await run(joey, server, "read it")
        (task,) = joey.tasks
        await run(joey, elsewhere, "-r", task.name, "have another look")
        await run(joey, server, "-c", "and once more")
        assert (len(server.requests), len(elsewhere.requests)) == (5, 2)


@pytest.mark.parametrize(
    ("service", "rule"),
    [
        pytest.param(service, rule, id=f"{service.name}-{rule.name}")
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
    is_anthropic = service.name == "anthropic"
    user = {"role": "user", "content": [{"type": "text", "text": "read it"}]}
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
    wanted = {"openai": {"temperature": 0}, "qwen": {"temperature": 0}}.get(service.name, {})
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    tool: dict[str, Any] = {"name": "read_file", "input_schema": schema}
    if not is_anthropic:
        function = {"name": "read_file", "parameters": schema}
        tool = {"type": "function", "function": function}
    return {**body, **wanted, "tools": [tool]}, issued
