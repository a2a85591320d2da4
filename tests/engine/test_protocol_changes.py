"""A task whose tool protocol changes: by the user's word, or by itself."""

from __future__ import annotations

import pytest
from msgspec import structs

from joey.config.model_memory import ToolSupportStore
from joey.core.events import Event, ProtocolChanged
from joey.core.messages import Message, TextBlock, ToolResultBlock, ToolUseBlock, get_blocks
from joey.core.models import ModelInfo, ProtocolChangeReason, ToolProtocol
from joey.core.prompts.messages_to_model import INTERRUPTED_CALL_TEXT
from joey.engine.asks import Unattended
from joey.engine.engine import TaskOptions
from joey.engine.outcomes import Completed, Failed
from joey.engine.task import Task
from joey.errors import ProviderError, ProviderFailureKind
from joey.ports.tool_context import Capabilities
from joey.testing.script import Turn, call, say
from joey.testing.scripted_provider import ScriptedProvider
from tests.harness.engine.engine_harness import (
    ALLOW_ALL,
    EngineHarness,
    check_history,
    find_rows,
    finish,
    list_durable_events,
    list_texts,
    wait_for_ask,
    wait_for_ending,
)

REFUSAL = [
    ProviderError("does not support tools", failure=ProviderFailureKind.TOOLS_REFUSED, status=400)
]
XML_READ = "Let me look.\n<read_file>\n<path>a.txt</path>\n</read_file>"
XML_END = Turn(
    say("<attempt_completion>\n<result>all done</result>\n</attempt_completion>"),
)
UNUSABLE = Turn(say('```tool_code\n{"tool_name": "no_such_tool", "parameters": {}}\n```'))
NATIVE, XML = ToolProtocol.NATIVE, ToolProtocol.XML


def list_changes(task: Task) -> list[tuple[ToolProtocol, ProtocolChangeReason]]:
    events: list[Event] = list_durable_events(task)
    return [(e.tool_protocol, e.reason) for e in events if isinstance(e, ProtocolChanged)]


def has_structured_calls(messages: list[Message]) -> bool:
    return any(
        isinstance(block, ToolUseBlock | ToolResultBlock)
        for message in messages
        for block in message.content
    )


async def reopen(
    engine_harness: EngineHarness, task: Task, protocol: ToolProtocol | None = None
) -> Task:
    await engine_harness.engine.release(task)
    options = TaskOptions(workspace=engine_harness.root, protocol=protocol, policy=Unattended())
    return await engine_harness.engine.resume(task.id, "go on", options=options)


# The user's word


@pytest.mark.contract("protocol:change")
async def test_a_native_history_is_shown_as_xml_when_the_user_names_xml(
    engine_harness: EngineHarness,
) -> None:
    (engine_harness.root / "a.txt").write_text("body\n")
    task = await engine_harness.start(
        Turn(say("Let me look."), call("read_file", {"path": "a.txt"})),
        finish(),
        policy=Unattended(),
        protocol=NATIVE,
    )
    await wait_for_ending(task)
    provider = engine_harness.use_script(XML_END)
    again = await reopen(engine_harness, task, XML)
    await wait_for_ending(again)
    (request,) = provider.requests
    assert (request.tool_protocol, request.tools) == (XML, ())
    check_history(request.messages)
    assert not has_structured_calls(list(request.messages))
    reply, results = request.messages[1], request.messages[2]
    assert list_texts(reply) == [
        "Let me look.",
        "<read_file>\n<path>\na.txt\n</path>\n</read_file>",
    ]
    assert list_texts(results)[0].startswith("[read_file for 'a.txt'")
    assert "body" in list_texts(results)[1]
    assert list_changes(again) == [(XML, ProtocolChangeReason.USER)]
    assert again.recorder.build_metadata().tool_protocol == "xml"


@pytest.mark.contract("protocol:change")
async def test_an_xml_history_is_shown_natively_when_the_user_names_native(
    engine_harness: EngineHarness,
) -> None:
    (engine_harness.root / "a.txt").write_text("body\n")
    task = await engine_harness.start(
        Turn(say(XML_READ)), XML_END, policy=Unattended(), protocol=XML
    )
    await wait_for_ending(task)
    provider = engine_harness.use_script(finish())
    again = await reopen(engine_harness, task, NATIVE)
    await wait_for_ending(again)
    (request,) = provider.requests
    assert request.tool_protocol is NATIVE and request.tools
    check_history(request.messages)
    text, use = get_blocks(request.messages[1])
    assert isinstance(text, TextBlock) and isinstance(use, ToolUseBlock)
    assert (text.text.strip(), use.name, use.input) == (
        "Let me look.",
        "read_file",
        {"path": "a.txt"},
    )


async def test_a_changed_protocol_stays_when_the_task_is_reopened_rewound_and_forked(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(finish(), policy=Unattended())
    await wait_for_ending(task)
    first_row = task.rows[0]
    engine_harness.use_script(XML_END, XML_END)
    again = await reopen(engine_harness, task, XML)
    await wait_for_ending(again)
    messages = again.recorder.api_history.list_stored_messages()
    again = await reopen(engine_harness, again)
    await wait_for_ending(again)
    assert again.protocol is XML
    assert [m.content for m in again.messages[: len(messages) - 1]] == [
        m.content for m in messages[:-1]
    ]
    fork = await engine_harness.engine.fork(
        again.id, options=TaskOptions(workspace=engine_harness.root)
    )
    assert (fork.protocol, fork.recorder.projection.is_protocol_named) == (XML, True)
    assert not has_structured_calls(list(fork.messages))
    assert not isinstance(first_row, dict)
    await again.rewind(first_row.ts)
    assert (again.protocol, again.recorder.projection.is_protocol_named) == (XML, True)


# Refused tools


@pytest.mark.contract("protocol:change")
async def test_a_refusal_of_tools_lets_the_task_go_on_in_xml_and_is_remembered(
    engine_harness: EngineHarness,
) -> None:
    memory = ToolSupportStore(engine_harness.home)
    engine_harness.capabilities = Capabilities(tool_support=memory)
    provider = engine_harness.use_script(REFUSAL, XML_END, XML_END)
    task = await engine_harness.start(policy=Unattended())
    assert await wait_for_ending(task) == Completed("all done")
    first, second = provider.requests
    assert first.tools and first.tool_protocol is NATIVE
    assert (second.tools, second.tool_protocol) == ((), XML)
    assert "<tool_format>xml</tool_format>" in list_texts(second.messages[0])[-1]
    assert "<tool_format>native</tool_format>" not in str(second.messages[0].content)
    assert "XML-style tags" in second.system_prompt
    assert list_changes(task) == [(XML, ProtocolChangeReason.TOOLS_REFUSED)]
    (row,) = find_rows(task, "error")
    assert "does not take tools" in (row.text or "")
    assert memory.is_refused(provider)
    later = await engine_harness.start(policy=Unattended())
    await wait_for_ending(later)
    assert (provider.requests[2].tool_protocol, list_changes(later)) == (XML, [])


@pytest.mark.contract("protocol:change")
async def test_a_named_protocol_is_not_changed_by_a_refusal_and_names_the_flag(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(REFUSAL, policy=Unattended(), protocol=NATIVE)
    ending = await wait_for_ending(task)
    assert isinstance(ending, Failed)
    assert ending.code == "provider:tools"
    assert list_changes(task) == []


async def test_naming_native_is_another_try_with_a_model_that_was_refused_tools(
    engine_harness: EngineHarness,
) -> None:
    memory = ToolSupportStore(engine_harness.home)
    engine_harness.capabilities = Capabilities(tool_support=memory)
    provider = engine_harness.use_script(finish(), finish())
    memory.record_refusal(provider)
    task = await engine_harness.start(policy=Unattended(), protocol=NATIVE)
    await wait_for_ending(task)
    await wait_for_ending(await engine_harness.start(policy=Unattended()))
    assert [request.tool_protocol for request in provider.requests] == [NATIVE, NATIVE]
    memory.record_refusal(provider)
    engine_harness.use_script(finish())
    await wait_for_ending(await reopen(engine_harness, task, NATIVE))
    assert not memory.is_refused(provider)


# Unusable calls


@pytest.mark.contract("protocol:change")
async def test_two_unusable_calls_in_a_row_change_a_native_task_to_xml(
    engine_harness: EngineHarness,
) -> None:
    provider = engine_harness.use_script(UNUSABLE, UNUSABLE, UNUSABLE, UNUSABLE, XML_END)
    task = await engine_harness.start(policy=Unattended())
    assert await wait_for_ending(task) == Completed("all done")
    protocols = [request.tool_protocol for request in provider.requests]
    assert protocols == [NATIVE, NATIVE, XML, XML, XML]
    assert list_changes(task) == [(XML, ProtocolChangeReason.UNUSABLE_CALLS)]
    assert len(find_rows(task, "error")) == 1
    assert "XML-style tags" in list_texts(provider.requests[2].messages[-1])[0]


async def test_text_between_them_or_a_usable_call_starts_the_count_anew(
    engine_harness: EngineHarness,
) -> None:
    look = Turn(call("list_files", {"path": ".", "recursive": False}))
    task = await engine_harness.start(
        UNUSABLE, look, UNUSABLE, Turn(say("Hm.")), UNUSABLE, finish(), policy=Unattended()
    )
    assert await wait_for_ending(task) == Completed("all done")
    assert list_changes(task) == []


@pytest.mark.contract("protocol:change")
@pytest.mark.parametrize("protocol", list(ToolProtocol))
async def test_a_named_protocol_is_not_changed_by_unusable_calls(
    engine_harness: EngineHarness, protocol: ToolProtocol
) -> None:
    last = finish() if protocol is NATIVE else XML_END
    task = await engine_harness.start(
        UNUSABLE, UNUSABLE, UNUSABLE, last, policy=Unattended(), protocol=protocol
    )
    assert await wait_for_ending(task) == Completed("all done")
    assert list_changes(task) == []


@pytest.mark.parametrize("native", [True, False])
async def test_an_xml_task_changes_to_native_only_if_the_model_can_call_natively(
    engine_harness: EngineHarness, native: bool
) -> None:
    # A task that a model without tools began, and another one goes on with.
    engine_harness.provider = ScriptedProvider(
        [XML_END], model=ModelInfo(id="m", supports_native_tools=False)
    )
    task = await engine_harness.start(policy=Unattended())
    await wait_for_ending(task)
    engine_harness.provider = provider = ScriptedProvider(
        [UNUSABLE, UNUSABLE, finish() if native else XML_END],
        model=ModelInfo(id="n", supports_native_tools=native),
    )
    again = await reopen(engine_harness, task)
    assert await wait_for_ending(again) == Completed("all done")
    assert provider.requests[-1].tool_protocol is (NATIVE if native else XML)
    check_history(provider.requests[-1].messages)


async def test_a_subtask_speaks_the_protocol_that_its_parent_changed_to(
    engine_harness: EngineHarness,
) -> None:
    delegate = Turn(
        say("<new_task>\n<mode>code</mode>\n<message>do the part</message>\n</new_task>")
    )
    provider = engine_harness.use_script(REFUSAL, delegate, XML_END, XML_END)
    settings = structs.replace(ALLOW_ALL, always_allow_subtasks=True)
    task = await engine_harness.start(policy=Unattended(), settings=settings)
    assert await wait_for_ending(task) == Completed("all done")
    assert [request.tool_protocol for request in provider.requests] == [NATIVE, XML, XML, XML]


async def test_open_questions_survive_a_change(engine_harness: EngineHarness) -> None:
    """A call that was cut off before its result reads as interrupted in either protocol."""
    task = await engine_harness.start(
        Turn(call("ask_followup_question", {"question": "which?", "follow_up": []}))
    )
    await wait_for_ask(task)
    await task.cancel()
    provider = engine_harness.use_script(XML_END)
    again = await reopen(engine_harness, task, XML)
    await wait_for_ending(again)
    assert INTERRUPTED_CALL_TEXT in list_texts(provider.requests[0].messages[2])
