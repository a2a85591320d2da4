"""Working conditions: what the prompt says of sandbox, approvals and absent users."""

from __future__ import annotations

import pytest

from joey.core.models import ModelRequest, ToolProtocol
from joey.core.permissions.granted_rules import GrantedRule
from joey.core.permissions.policy import SandboxStatus
from joey.core.settings import Settings
from joey.core.task_types import Answer, Response, RuleScope
from joey.engine.asks import Unattended
from joey.testing.script import Turn, call, say
from tests.harness.engine.engine_harness import (
    EngineHarness,
    finish,
    list_texts,
    wait_for_ask,
    wait_for_ending,
)

ASK = "ask_followup_question"


def list_offered(request: ModelRequest) -> list[str]:
    return [tool.name for tool in request.tools]


async def run_unattended(harness: EngineHarness) -> ModelRequest:
    provider = harness.use_script(finish())
    await wait_for_ending(await harness.start(policy=Unattended(), settings=Settings()))
    (request,) = provider.requests
    return request


async def test_without_a_user_the_prompt_says_so_and_no_question_is_offered(
    engine_harness: EngineHarness,
) -> None:
    request = await run_unattended(engine_harness)
    assert "WORKING ALONE" in request.system_prompt
    assert "Everything else is refused." in request.system_prompt
    assert ASK not in request.system_prompt
    assert ASK not in list_offered(request)
    assert "attempt_completion" in list_offered(request)


@pytest.mark.parametrize(
    ("sandbox", "network"),
    [
        ("full", "their only network is 127.0.0.1, shared by all commands"),
        ("landlock", "they can open no sockets, not even on 127.0.0.1"),
        ("none", ""),
        ("off", ""),
    ],
)
async def test_the_prompt_says_whether_commands_are_sandboxed(
    engine_harness: EngineHarness, sandbox: SandboxStatus, network: str
) -> None:
    engine_harness.sandbox = sandbox
    request = await run_unattended(engine_harness)
    assert ("Commands run in a sandbox" in request.system_prompt) is bool(network)
    assert network in request.system_prompt


async def test_the_prompt_stays_the_same_when_a_rule_is_added_during_the_run(
    engine_harness: EngineHarness,
) -> None:
    edit = Turn(call("write_to_file", {"path": "a", "content": "1"}))
    provider = engine_harness.use_script(edit, finish())
    task = await engine_harness.start(settings=Settings())
    ask = await wait_for_ask(task)
    task.grants.add_rule(GrantedRule("allowedCommands", "make", RuleScope.TASK))
    assert "make" in task.settings.allowed_commands
    await task.answer(ask.ts, Answer(Response.YES))
    ask = await wait_for_ask(task)
    await task.answer(ask.ts, Answer(Response.YES))
    await wait_for_ending(task)
    assert len(provider.requests) == 2
    assert len({request.system_prompt for request in provider.requests}) == 1
    assert ASK in list_offered(provider.requests[0])
    assert "Everything else waits for the user's approval." in provider.requests[0].system_prompt


async def test_a_question_asked_anyway_in_xml_is_answered_in_the_program_s_name(
    engine_harness: EngineHarness,
) -> None:
    question = f"<{ASK}>\n<question>which?</question>\n<follow_up>\n<suggest>red</suggest>\n"
    provider = engine_harness.use_script(
        Turn(say(f"{question}</follow_up>\n</{ASK}>")),
        Turn(say("<attempt_completion>\n<result>done</result>\n</attempt_completion>")),
    )
    task = await engine_harness.start(policy=Unattended(), protocol=ToolProtocol.XML)
    await wait_for_ending(task)
    texts = list_texts(provider.requests[1].messages[-1])
    assert "Nobody is there; decide yourself. Your first suggestion was: red" in texts
    assert not any("<answer>" in text or "<user_message>" in text for text in texts)
