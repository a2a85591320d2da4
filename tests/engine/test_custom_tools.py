"""The user's own tools in a task: offered, asked about, run, and told about when broken."""

from __future__ import annotations

import os

import pytest

from joey.core.events import RowAdded
from joey.core.models import ToolProtocol
from joey.core.settings import Settings
from joey.execution.custom_tools import LocalCustomTools
from joey.ports.tool_context import Capabilities
from joey.testing.script import Turn, call, say
from joey.testing.scripted_provider import ScriptedProvider
from tests.harness.engine.engine_harness import EngineHarness, finish, wait_for_ask

GREET = '''"""Greet somebody."""

def run(name: str, loud: bool = False) -> str:
    return f"hello {name}{'!' if loud else ''}"
'''


def give(engine_harness: EngineHarness, **files: str) -> None:
    directory = engine_harness.root / ".roo/tools"
    directory.mkdir(parents=True)
    for name, text in files.items():
        (directory / f"{name}.py").write_text(text)
    tools = LocalCustomTools(
        engine_harness.home,
        engine_harness.root,
        os.environ,
        lambda contents: True,
    )
    engine_harness.capabilities = Capabilities(custom_tools=tools)


@pytest.mark.contract("tool:custom:approval")
async def test_a_custom_tool_is_offered_and_runs_once_the_user_agrees(
    engine_harness: EngineHarness,
) -> None:
    give(engine_harness, greet=GREET)
    task = await engine_harness.start(
        Turn(call("greet", {"name": "Ann", "loud": True})),
        finish(),
        settings=Settings(always_allow_execute=False),
    )
    ask = await wait_for_ask(task)
    assert '"tool":"customTool","name":"greet","path":".roo/tools/greet.py"' in ask.text
    await task.approve()
    await wait_for_ask(task)
    assert "hello Ann!" in str(task.messages)
    assert isinstance(engine_harness.provider, ScriptedProvider)
    offered = [tool.name for tool in engine_harness.provider.requests[0].tools]
    assert offered[-1] == "greet"


async def test_a_custom_tool_is_called_in_xml_too(engine_harness: EngineHarness) -> None:
    give(engine_harness, greet=GREET)
    xml = "<greet>\n<name>Ann</name>\n<loud>true</loud>\n</greet>"
    task = await engine_harness.start(
        Turn(say(xml)),
        Turn(say("<attempt_completion><result>done</result></attempt_completion>")),
        protocol=ToolProtocol.XML,
    )
    await wait_for_ask(task)
    assert "hello Ann!" in str(task.messages)
    assert isinstance(engine_harness.provider, ScriptedProvider)
    assert "Greet somebody." in engine_harness.provider.requests[0].system_prompt


async def test_a_file_that_is_no_tool_is_shown_to_the_user_once(
    engine_harness: EngineHarness,
) -> None:
    give(engine_harness, broken="def run(:", greet=GREET)
    task = await engine_harness.start(finish("one"), finish("two"))
    await wait_for_ask(task)
    await task.approve()
    await task.wait()
    await task.send("go on")
    await wait_for_ask(task)
    said = [r.event.text for r in task.bus.list_records_after(0) if isinstance(r.event, RowAdded)]
    warnings = [text for text in said if "broken.py" in text]
    assert len(warnings) == 1
    assert "SyntaxError" in warnings[0]


async def test_a_custom_tool_never_takes_the_name_of_one_of_ours(
    engine_harness: EngineHarness,
) -> None:
    give(engine_harness, read_file='"""Mine."""\ndef run(): return "mine"')
    (engine_harness.root / "a.txt").write_text("the file itself")
    task = await engine_harness.start(Turn(call("read_file", {"path": "a.txt"})), finish())
    await wait_for_ask(task)
    assert "the file itself" in str(task.messages)
