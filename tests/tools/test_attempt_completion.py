from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from joey.errors import ArgumentError
from joey.tools.attempt_completion import AttemptCompletion
from joey.tools.base import Access, CompleteTask, Outcome
from tests.harness.tools.tool_context import make_context

tool = AttemptCompletion()


@pytest.mark.contract("tool:attempt_completion:success")
@pytest.mark.parametrize("extra", [{}, {"command": "open index.html"}, {"command": None}])
async def test_the_result_is_handed_to_the_task(tmp_path: Path, extra: dict[str, Any]) -> None:
    ctx = make_context(tmp_path)
    prepared = await tool.prepare(tool.parse({"result": "All done.", **extra}), ctx)
    assert prepared.row == {}
    assert [claim.access for claim in prepared.claims] == [Access.NONE]
    assert await tool.run_prepared(prepared, ctx, None) == Outcome(
        "", directive=CompleteTask("All done.")
    )


@pytest.mark.contract("tool:attempt_completion:success")
@pytest.mark.parametrize("arguments", [{}, {"result": ""}, {"result": "\n"}, {"command": "ls"}])
def test_a_missing_result_is_an_argument_error(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError) as caught:
        tool.parse(arguments)
    assert caught.value.parameter == "result"
