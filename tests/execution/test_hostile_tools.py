"""Files that are not what was agreed to, and tools that do not end when they are told to."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import py_compile
from pathlib import Path

import pytest

from joey.errors import ToolError
from joey.execution.custom_tools import list_tool_trust_items
from joey.ports.extensions import CustomToolInfo
from joey.tools.custom_tool import CustomTool
from joey.tools.registry import Registry, ToolSetCache, build_default_tools
from tests.harness.execution.custom_tools import ToolHarness, is_gone

HARMLESS = '"""Good."""\nimport _beside\ndef run(): return _beside.WORDS'


@pytest.fixture
def harness(tmp_path: Path) -> ToolHarness:
    return ToolHarness(tmp_path)


def contents(harness: ToolHarness) -> dict[str, bytes]:
    return {item.name: item.content for item in list_tool_trust_items(harness.workspace)}


async def test_compiled_files_do_not_run_in_place_of_what_was_trusted(harness: ToolHarness) -> None:
    harness.write_project_tool("good.py", HARMLESS)
    harness.write_project_tool("_beside.py", 'WORDS = "trusted"')
    before = contents(harness)
    evil = harness.home / "evil.py"
    evil.write_text('WORDS = "evil"\n"""Evil."""\ndef run(): return "evil"')
    for name in ("good", "_beside"):
        compiled = importlib.util.cache_from_source(
            str(harness.workspace / f".roo/tools/{name}.py")
        )
        never = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(str(evil), compiled, doraise=True, invalidation_mode=never)
    assert contents(harness) == before
    assert await (await harness.load_tools()).run("good", {}, "code") == "trusted"


@pytest.mark.parametrize("name", ["_beside.pyc", "_beside.so", "_beside.abi3.so", "_b/__init__.py"])
def test_whatever_can_be_imported_has_to_be_trusted(harness: ToolHarness, name: str) -> None:
    (harness.workspace / ".roo/tools" / name).parent.mkdir(exist_ok=True)
    harness.write_project_tool(name, "x")
    assert f"tool:{name}" in contents(harness)


def test_what_links_lead_to_has_to_be_trusted(harness: ToolHarness) -> None:
    (harness.workspace / "lib").mkdir()
    (harness.workspace / "lib/code.py").write_text("first")
    (harness.workspace / "lib/round").symlink_to(".")
    (harness.workspace / ".roo/tools/lib").symlink_to("../../lib")
    before = contents(harness)
    assert before["tool:lib/code.py"] == b"first"
    (harness.workspace / "lib/code.py").write_text("later")
    assert contents(harness) != before


def test_a_directory_without_end_is_never_trusted(harness: ToolHarness) -> None:
    (harness.workspace / ".roo/tools/all").symlink_to("/")
    assert contents(harness) != contents(harness)


def test_a_large_file_is_known_by_all_of_its_bytes(harness: ToolHarness) -> None:
    harness.write_project_tool("large.py", "x" * 2_000_000 + "a")
    file = harness.workspace / ".roo/tools/large.py"
    times = (file.stat().st_atime_ns, file.stat().st_mtime_ns)
    before = contents(harness)
    harness.write_project_tool("large.py", "x" * 2_000_000 + "b")
    os.utime(file, ns=times)
    assert contents(harness) != before


async def test_a_pipe_is_no_tool(harness: ToolHarness) -> None:
    os.mkfifo(harness.workspace / ".roo/tools/pipe.py")
    async with asyncio.timeout(60):
        tools = await harness.load_tools()
    assert tools.tools == ()


async def test_a_process_that_left_its_session_ends_with_the_call(harness: ToolHarness) -> None:
    harness.write_project_tool(
        "daemon.py",
        '"""Daemon."""\nimport os, time\ndef run():\n'
        "    reading, writing = os.pipe()\n"
        "    if os.fork():\n        return os.read(reading, 20).decode()\n"
        "    os.setsid()\n"
        "    if os.fork():\n        os._exit(0)\n"
        "    os.write(writing, str(os.getpid()).encode())\n"
        "    time.sleep(600)\n",
    )
    tools = await harness.load_tools()
    async with asyncio.timeout(20):
        pid = int(await tools.run("daemon", {}, "code"))
    assert await asyncio.to_thread(is_gone, pid)


async def test_a_result_without_end_is_cut(harness: ToolHarness) -> None:
    harness.write_project_tool("long.py", '"""Long."""\ndef run(): return "x" * 1_000_000')
    said = await (await harness.load_tools()).run("long", {}, "code")
    assert said.endswith("[...800,000 characters left out...]")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('PARAMETERS = {"type": "object", "properties": None}', "must describe an object"),
        ('PARAMETERS = {"type": "array"}', "must describe an object"),
        ('PARAMETERS = {"type": "object", "properties": {"a": 5}}', "'a' is not a valid parameter"),
        (
            'PARAMETERS = {"type": "object", "properties": {"a b": {}}}',
            "'a b' is not a valid parameter",
        ),
        ('PARAMETERS = {"type": "object", "required": ["a"]}', "does not define"),
        ('NAME = "mcp--weather--now"', "is not a valid tool name"),
        ('__doc__ = "x" * 30_000', "more than 20,000 characters"),
    ],
)
async def test_a_description_that_no_provider_would_take_is_refused(
    harness: ToolHarness, line: str, reason: str
) -> None:
    harness.write_project_tool("odd.py", f'"""Odd."""\n{line}\ndef run(): return ""')
    tools = await harness.load_tools()
    assert tools.tools == ()
    assert reason in tools.warnings[0]


@pytest.mark.parametrize("name", ["read_file", "write_file", "search_and_replace"])
def test_a_tool_cannot_take_the_place_of_one_of_ours(name: str) -> None:
    registry = Registry(build_default_tools())
    mine = (CustomToolInfo(name, "Mine.", {"type": "object"}, "tools/mine.py"),)
    box = ToolSetCache().get_or_create(registry, (), mine)
    assert not isinstance(box.find(name), CustomTool)


async def test_a_workspace_that_is_gone_is_reported(harness: ToolHarness) -> None:
    harness.write_user_tool("mine.py", '"""Mine."""\ndef run(): return "ok"')
    tools = await harness.load_tools()
    (harness.workspace / ".roo/tools").rmdir()
    (harness.workspace / ".roo").rmdir()
    harness.workspace.rmdir()
    with pytest.raises(ToolError, match="cannot be started"):
        await tools.run("mine", {}, "code")
