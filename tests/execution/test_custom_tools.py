"""Tools in Python files, run in real processes."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from joey.errors import ArgumentError, ToolError
from joey.execution.custom_tools import LocalCustomTools
from joey.tools.custom_tool import CustomTool
from tests.harness.execution.custom_tools import ToolHarness, is_gone

WEATHER = '''"""The weather of a city."""

def run(city: str, days: int = 3, sunny: bool | None = None) -> str:
    print("this is not the result")
    return f"{city}: {days} days, sunny: {sunny}"
'''


async def names(tools: LocalCustomTools) -> list[str]:
    await tools.refresh()
    return [tool.name for tool in tools.tools]


@pytest.fixture
def harness(tmp_path: Path) -> ToolHarness:
    return ToolHarness(tmp_path)


@pytest.mark.contract("tool:custom:success")
async def test_a_python_file_is_a_tool(harness: ToolHarness) -> None:
    harness.write_project_tool("weather.py", WEATHER)
    tools = await harness.load_tools()
    (info,) = tools.tools
    assert (info.name, info.description) == ("weather", "The weather of a city.")
    assert info.schema["properties"]["days"] == {"type": ["integer", "null"]}
    assert info.schema["required"] == ["city", "days", "sunny"]
    call = CustomTool(info).parse({"city": "Perth", "days": "2", "other": "dropped"})
    said = await tools.run("weather", call.arguments, "code")
    assert said == "Perth: 2 days, sunny: None"


async def test_a_missing_argument_is_named(harness: ToolHarness) -> None:
    harness.write_project_tool("weather.py", WEATHER)
    (info,) = (await harness.load_tools()).tools
    with pytest.raises(ArgumentError, match="'city' of weather"):
        CustomTool(info).parse({"days": 2})


async def test_a_tool_may_be_asynchronous_and_know_the_mode(harness: ToolHarness) -> None:
    harness.write_user_tool(
        "later.py", '"""Late."""\nasync def run(mode_slug): return {"mode": mode_slug}'
    )
    tools = await harness.load_tools()
    assert tools.tools[0].schema["properties"] == {}
    assert await tools.run("later", {}, "debug") == '{"mode": "debug"}'


async def test_the_projects_tool_wins_over_the_users(harness: ToolHarness) -> None:
    harness.write_user_tool("same.py", '"""Mine."""\ndef run(): return "mine"')
    harness.write_project_tool("same.py", '"""Ours."""\ndef run(): return "ours"')
    tools = await harness.load_tools()
    assert [(tool.name, tool.source) for tool in tools.tools] == [("same", "project")]
    assert await tools.run("same", {}, "code") == "ours"


@pytest.mark.contract("tool:custom:schema:trust")
async def test_a_file_of_a_project_that_is_not_trusted_is_never_run(harness: ToolHarness) -> None:
    marker = harness.workspace / "ran"
    harness.write_project_tool(
        "evil.py", f'"""Bad."""\nopen({str(marker)!r}, "w")\ndef run(): return ""'
    )
    harness.trusted = False
    tools = await harness.load_tools()
    assert not await names(tools)
    assert "joey trust" in tools.warnings[0]
    assert not marker.exists()
    harness.trusted = True
    assert await names(tools) == ["evil"]


@pytest.mark.contract("tool:custom:schema:no-tool")
async def test_files_that_are_no_tools_are_reported_and_the_others_work(
    harness: ToolHarness,
) -> None:
    harness.write_project_tool("good.py", '"""Good."""\ndef run(): return "ok"')
    rows = [
        ("broken.py", "def run(:", "SyntaxError"),
        ("empty.py", "", "no function `run`"),
        ("mute.py", "def run(): pass", "no docstring"),
        ("odd.py", '"""x"""\ndef run(*all): pass', "must name its parameters"),
        ("kind.py", '"""x"""\ndef run(a: bytes): pass', "cannot be described"),
        ("name.py", '"""x"""\nNAME = "two words"\ndef run(): pass', "is not a valid tool name"),
        ("quits.py", "import os; os._exit(3)", "without an answer"),
        ("theirs.ts", "export default {}", "written in Python"),
    ]
    for name, text, _ in rows:
        harness.write_project_tool(name, text)
    tools = await harness.load_tools()
    assert [tool.name for tool in tools.tools] == ["good"]
    assert len(tools.warnings) == len(rows)
    for name, _, reason in rows:
        (warning,) = [each for each in tools.warnings if name in each]
        assert reason in warning


async def test_a_tool_that_fails_tells_the_model_why(harness: ToolHarness) -> None:
    rows = [
        ('raise ValueError("no such city")', "ValueError: no such city"),
        ("import sys; sys.exit(1)", "SystemExit"),
        ("import os; os._exit(1)", "without an answer"),
        ('return "x" * 5_000_000', "more than 4 MB"),
        ("return object()", "TypeError"),
    ]
    for number, (body, _) in enumerate(rows):
        harness.write_project_tool(f"bad{number}.py", f'"""Bad."""\ndef run():\n    {body}\n')
    tools = await harness.load_tools()
    for number, (_, reason) in enumerate(rows):
        with pytest.raises(ToolError, match=reason):
            await tools.run(f"bad{number}", {}, "code")


@pytest.mark.contract("tool:custom:success:contained")
async def test_a_tool_sees_no_keys_and_leaves_nothing_running(harness: ToolHarness) -> None:
    harness.write_project_tool(
        "spawn.py",
        '"""Spawn."""\nimport os, subprocess\ndef run():\n'
        '    child = subprocess.Popen(["sleep", "600"])\n'
        "    return f\"{child.pid} {os.environ.get('ANTHROPIC_API_KEY')}\"\n",
    )
    tools = await harness.load_tools(ANTHROPIC_API_KEY="secret")
    pid, key = (await tools.run("spawn", {}, "code")).split()
    assert key == "None"
    assert await asyncio.to_thread(is_gone, int(pid))


async def test_cancelling_a_call_stops_the_tool(harness: ToolHarness) -> None:
    harness.write_project_tool(
        "slow.py",
        '"""Slow."""\nimport os, time\ndef run(path: str):\n'
        "    open(path, 'w').write(str(os.getpid()))\n"
        "    time.sleep(600)\n",
    )
    tools = await harness.load_tools()
    fifo = harness.workspace / "pid"
    os.mkfifo(fifo)
    calling = asyncio.create_task(tools.run("slow", {"path": str(fifo)}, "code"))
    pid = int(await asyncio.to_thread(fifo.read_text))
    calling.cancel()
    await asyncio.wait([calling])
    assert await asyncio.to_thread(is_gone, pid)


async def test_a_changed_file_is_noticed_and_an_unchanged_one_is_not_run_again(
    harness: ToolHarness,
) -> None:
    harness.write_project_tool("a.py", '"""First."""\ndef run(): pass')
    tools = await harness.load_tools()
    before = tools.tools
    await tools.refresh()
    assert tools.tools is before
    harness.write_project_tool("a.py", '"""Second, and longer."""\ndef run(): pass')
    await tools.refresh()
    assert tools.tools[0].description == "Second, and longer."


async def test_the_schema_may_be_stated_by_the_file(harness: ToolHarness) -> None:
    harness.write_project_tool(
        "stated.py",
        '"""Stated."""\nPARAMETERS = {"type": "object", "properties": {"n": {"type": "integer"}},'
        ' "required": ["n"]}\ndef run(**given): return str(given)',
    )
    tools = await harness.load_tools()
    call = CustomTool(tools.tools[0]).parse({"n": "7"})
    assert await tools.run("stated", call.arguments, "code") == "{'n': 7}"
