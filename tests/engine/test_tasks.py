"""What belongs to one task alone: its protocol, its mode, its tools."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from joey.core.events import AskOpened, MessageQueued, RowDelta
from joey.core.mcp import McpResult, McpServer
from joey.core.models import ModelInfo, ToolProtocol
from joey.core.task_types import AskKind, TaskState
from joey.engine.asks import Unattended
from joey.engine.engine import TaskOptions
from joey.ports.tool_context import Capabilities
from joey.testing.script import Turn, call, pause, say
from joey.testing.scripted_provider import ScriptedProvider
from tests.harness.engine.engine_harness import (
    TIMEOUT_S,
    EngineHarness,
    finish,
    list_tool_results,
    wait_for_ask,
    wait_for_ending,
    wait_for_event,
)
from tests.harness.paths import ROO_TASKS

XML_END = Turn(say("<attempt_completion><result>ok</result></attempt_completion>"))


def offered(provider: ScriptedProvider) -> set[str]:
    return {tool.name for tool in provider.requests[-1].tools}


@pytest.mark.contract("tasks:isolated")
async def test_a_mode_switched_in_one_task_leaves_the_others_in_theirs(
    engine_harness: EngineHarness,
) -> None:
    gate = asyncio.Event()
    write = call("write_to_file", {"path": "a.txt", "content": "1"})
    writer = engine_harness.use_script(Turn(say("wait"), pause(gate), write), finish())
    writing = await engine_harness.start(policy=Unattended())
    await wait_for_event(writing, RowDelta)

    reader = engine_harness.use_script(
        Turn(call("switch_mode", {"mode_slug": "ask", "reason": "to look"})), finish()
    )
    reading = await engine_harness.start(policy=Unattended())
    await wait_for_ending(reading)
    gate.set()
    await wait_for_ending(writing)

    assert (reading.mode.slug, writing.mode.slug) == ("ask", "code")
    assert "write_to_file" not in offered(reader)
    assert "write_to_file" in offered(writer)
    assert "a.txt" in list_tool_results(writing.messages[2])[0]
    assert (engine_harness.root / "a.txt").read_text() == "1"


@pytest.mark.contract("protocol:choice")
@pytest.mark.parametrize("native", [True, False])
async def test_a_new_task_speaks_what_its_model_can(
    engine_harness: EngineHarness, native: bool
) -> None:
    end = finish() if native else XML_END
    provider = ScriptedProvider([end], model=ModelInfo(id="m", supports_native_tools=native))
    engine_harness.provider = provider
    await wait_for_ending(await engine_harness.start(policy=Unattended()))
    (request,) = provider.requests
    assert request.tool_protocol is (ToolProtocol.NATIVE if native else ToolProtocol.XML)
    assert bool(request.tools) is native


@pytest.mark.contract("protocol:choice")
async def test_a_task_of_roo_goes_on_in_the_protocol_of_its_history(
    engine_harness: EngineHarness,
) -> None:
    shutil.copytree(ROO_TASKS, engine_harness.home / "tasks")
    provider = engine_harness.use_script(XML_END)
    task = await engine_harness.engine.resume(
        "5f0c9b1e-xml", "go on", options=TaskOptions(workspace=engine_harness.root)
    )
    await wait_for_ask(task)
    assert provider.model.supports_native_tools
    assert provider.requests[0].tool_protocol is ToolProtocol.XML


@pytest.mark.contract("loop:calls")
async def test_the_prompt_of_an_xml_task_shows_every_tool_with_its_tags(
    engine_harness: EngineHarness,
) -> None:
    provider = engine_harness.use_script(XML_END)
    task = await engine_harness.start(policy=Unattended(), protocol=ToolProtocol.XML)
    await wait_for_ending(task)
    (request,) = provider.requests
    for tool in task.runtime.build_tool_specs(
        task.mode, ToolProtocol.NATIVE, task.working_conditions
    ):
        described = request.system_prompt.partition(f"## {tool.name}\n")[2].partition("\n## ")[0]
        assert f"<{tool.name}>" in described
        assert f"</{tool.name}>" in described


@pytest.mark.contract("asks:unattended", "permissions:unattended")
@pytest.mark.parametrize("kind", list(AskKind))
def test_without_a_user_every_kind_of_ask_has_an_answer(kind: AskKind) -> None:
    policy = Unattended()
    text = '{"question": "which?", "suggest": []}' if kind is AskKind.FOLLOWUP else ""
    ask = AskOpened(ts=1, ask=kind, text=text)
    answer = policy.answer(ask)
    assert answer is not None
    needs_a_user = kind in (AskKind.TOOL, AskKind.COMMAND, AskKind.USE_MCP_SERVER)
    if needs_a_user:
        assert not answer.approves
        assert policy.refused_asks == [ask]


async def test_a_task_that_is_being_let_go_of_is_opened_again_as_soon_as_it_is_free(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(finish())
    await wait_for_ask(task)
    letting_go = asyncio.ensure_future(engine_harness.engine.release(task))
    await asyncio.sleep(0)
    assert engine_harness.engine.find_open_task(task.id) is None
    again = await engine_harness.engine.open(task.id)
    assert again is not task
    assert again.state is TaskState.ABORTED
    await letting_go


class SlowClosingServers:
    """Servers that take their time to leave."""

    servers: tuple[McpServer, ...] = ()

    def __init__(self) -> None:
        self.leaves, self.may_leave = asyncio.Event(), asyncio.Event()

    async def wait_until_ready(self, timeout_s: float) -> None: ...

    async def call_tool(self, *_: object) -> McpResult:
        raise AssertionError("nobody calls")

    async def read_resource(self, server: str, uri: str) -> McpResult:
        raise AssertionError("nobody reads")

    async def close(self) -> None:
        self.leaves.set()
        await self.may_leave.wait()


async def test_messages_that_come_while_a_task_is_being_closed_are_kept_for_its_next_run(
    engine_harness: EngineHarness,
) -> None:
    servers = SlowClosingServers()
    engine_harness.capabilities = Capabilities(mcp=servers)
    task = await engine_harness.start(finish(), finish("said again"))
    await wait_for_ask(task)
    await task.approve()
    await wait_for_ending(task)
    async with asyncio.timeout(TIMEOUT_S):
        letting_go = asyncio.ensure_future(engine_harness.engine.release(task))
        await servers.leaves.wait()
        await task.send("once more")
        assert not task.is_running
        servers.may_leave.set()
        await letting_go
        again = await engine_harness.engine.resume(task.id)
        assert [said.text for said in again.recorder.projection.queued_messages.values()] == [
            "once more"
        ]


async def test_messages_are_safe_however_soon_after_them_the_task_is_closed(
    engine_harness: EngineHarness,
) -> None:
    for steps in range(40):
        task = await engine_harness.start(finish(), finish())
        await wait_for_ask(task)
        await task.approve()
        await wait_for_ending(task)
        sending = asyncio.ensure_future(task.send("more"))
        for _ in range(steps):
            await asyncio.sleep(0)
        await engine_harness.engine.release(task)
        async with asyncio.timeout(TIMEOUT_S):
            await sending
        events = [record.event for record in engine_harness.engine.store.read_records(task.id)]
        assert any(isinstance(event, MessageQueued) for event in events)
