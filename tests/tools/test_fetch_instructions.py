from __future__ import annotations

from pathlib import Path

import pytest

from joey.errors import ArgumentError
from joey.tools.fetch_instructions import FetchInstructions
from tests.harness.tools.tool_context import make_context
from tests.harness.tools.xml_calls import only_call


@pytest.mark.contract("tool:fetch_instructions:success")
@pytest.mark.parametrize(
    ("task", "expected"), [("create_mode", "customModes"), ("create_mcp_server", "mcpServers")]
)
async def test_the_instructions_come_as_the_result(
    tmp_path: Path, task: str, expected: str
) -> None:
    call = only_call(f"<fetch_instructions><task>{task}</task></fetch_instructions>")
    tool, ctx = FetchInstructions(), make_context(tmp_path)
    prepared = await tool.prepare(tool.parse(call.input), ctx)
    assert prepared.row == {"tool": "fetchInstructions", "content": task}
    assert expected in (await tool.run_prepared(prepared, ctx, None)).text


@pytest.mark.contract("tool:fetch_instructions:failure:unknown")
@pytest.mark.parametrize("arguments", [{}, {"task": "make_coffee"}])
def test_unknown_work_is_refused(arguments: dict[str, str]) -> None:
    with pytest.raises(ArgumentError, match="task"):
        FetchInstructions().parse(arguments)
