from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from joey.errors import ArgumentError, ToolError
from joey.tools.base import Access, ChangeMode
from joey.tools.switch_mode import SwitchModeTool
from tests.harness.tools.tool_context import make_context

tool = SwitchModeTool()


@pytest.mark.contract("tool:switch_mode:success")
@pytest.mark.parametrize(
    ("reason", "because"),
    [("time to plan", " because: time to plan"), ("", ""), (None, "")],
)
async def test_a_switch_is_claimed_and_shown_by_name(
    tmp_path: Path, reason: str | None, because: str
) -> None:
    ctx = make_context(tmp_path)
    params = tool.parse({"mode_slug": "architect", "reason": reason})
    prepared = await tool.prepare(params, ctx)
    assert [claim.access for claim in prepared.claims] == [Access.SWITCH_MODE]
    assert prepared.row == {"tool": "switchMode", "mode": "architect", "reason": reason or ""}
    outcome = await tool.run_prepared(prepared, ctx, None)
    assert outcome.directive == ChangeMode("architect")
    assert outcome.text == (
        f"Successfully switched from 💻 Code mode to 🏗️ Architect mode{because}."
    )


@pytest.mark.contract("tool:switch_mode:success")
async def test_an_unknown_mode_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"^Invalid mode: chef\. .*architect, code, ask, debug"):
        await tool.prepare(tool.parse({"mode_slug": "chef"}), make_context(tmp_path))


async def test_the_current_mode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"^Already in 💻 Code mode\.$"):
        await tool.prepare(tool.parse({"mode_slug": " code "}), make_context(tmp_path))


def test_a_missing_slug_is_an_argument_error() -> None:
    with pytest.raises(ArgumentError) as caught:
        tool.parse({"reason": "none"})
    assert caught.value.parameter == "mode_slug"


@pytest.mark.parametrize(
    ("arguments", "description"),
    [
        ({"mode_slug": "ask", "reason": "why not"}, "[switch_mode to 'ask' because: why not]"),
        ({"mode_slug": "ask"}, "[switch_mode to 'ask']"),
    ],
)
def test_results_in_xml_name_the_mode_and_the_reason(
    arguments: dict[str, Any], description: str
) -> None:
    assert tool.describe_call(arguments) == description
