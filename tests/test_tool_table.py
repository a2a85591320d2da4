"""The table of all tools in docs/tools.md says what the tools, their examples and their tests say.
After a deliberate change, `JOEY_RENEW=1 python -m pytest tests/test_tool_table.py` writes it again;
review the diff."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from joey.core.models import ToolProtocol
from joey.tools.custom_tool import CustomTool
from joey.tools.mcp_tool import McpServerTool
from joey.tools.registry import build_default_tools
from tests.harness.contract import list_shown_ids
from tests.harness.document_tables import hold
from tests.harness.paths import ROOT
from tests.harness.tools.tool_examples import ALWAYS, EXAMPLES, FACETS, Example

DOCUMENT = ROOT / "docs" / "tools.md"
BEGIN = "<!-- begin: made by tests/test_tool_table.py -->\n"
END = "<!-- end: made by tests/test_tool_table.py -->\n"

OURS = {tool.name: tool for tool in build_default_tools()}
KINDS = [*OURS, "mcp", "custom"]
GROUPS = {
    **{name: tool.group for name, tool in OURS.items()},
    "mcp": McpServerTool.group,
    "custom": CustomTool.group,
}
SHOWN = {id for _, id in list_shown_ids()}
HEAD = ("tool", "group", "native", "XML", "row", "asked", "results", "failures")


def shown(kind: str, facet: str) -> list[str]:
    """What tests show of a facet besides the facet itself."""
    prefix = f"tool:{kind}:{facet}:"
    return sorted({id.removeprefix(prefix) for id in SHOWN if id.startswith(prefix)})


def row_name(example: Example) -> str:
    """How a user's screen knows what is asked or done."""
    match example.row:
        case {"tool": str(name)}:
            return f"`{name}`"
    return f"`{example.ask}`"


def asked(example: Example) -> str:
    match example.required_setting:
        case None:
            return "never"
        case "always":
            return "always"
        case switch:
            return f"unless `{switch}`"


def offer(example: Example, protocol: ToolProtocol) -> str:
    return "offered" if protocol in example.offered_protocols else "understood"


def line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def table_line(kind: str) -> str:
    example = EXAMPLES[kind]
    return line(
        (
            {"mcp": "mcp--SERVER--TOOL", "custom": "(custom tools)"}.get(kind, kind),
            GROUPS[kind],
            offer(example, ToolProtocol.NATIVE),
            offer(example, ToolProtocol.XML),
            row_name(example),
            asked(example),
            ", ".join(["done", *shown(kind, "success")]),
            ", ".join(shown(kind, "failure")),
        )
    )


def table() -> str:
    rule = line("---" for _ in HEAD)
    return "\n".join([line(HEAD), rule, *map(table_line, KINDS)]) + "\n"


@pytest.mark.parametrize("facet", FACETS)
def test_every_facet_of_every_tool_is_shown(facet: str) -> None:
    wanted = [f"tool:{kind}:{facet}" for kind in KINDS]
    bare = [
        prefix
        for prefix in wanted
        if not any(id == prefix or id.startswith(f"{prefix}:") for id in SHOWN)
    ]
    assert bare == []


def test_the_table_in_the_document_is_up_to_date() -> None:
    hold(DOCUMENT, BEGIN, END, table(), "tests/test_tool_table.py")


def test_only_what_a_user_must_answer_is_always_asked() -> None:
    kinds = [kind for kind, example in EXAMPLES.items() if example.required_setting == ALWAYS]
    assert kinds == ["ask_followup_question", "attempt_completion"]
