"""The promises of docs/contract.md, and the ids of them that tests carry."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import NamedTuple

from tests.harness.paths import ROOT
from tests.harness.tools.tool_examples import IDS as EXAMPLE_IDS

CONTRACT = ROOT / "docs" / "contract.md"
TOOL_PREFIX = "tool:"
"""Of ids `tool:NAME:FACET`, which the examples of the tools make; docs/tools.md lists them."""
_ROW = re.compile(r"^\| `([^`]+)` \| (.+) \| \[[^\]]+\]\(([^)]+)\) \|$", re.MULTILINE)


class Promise(NamedTuple):
    text: str
    link: str
    """Where it is described, from docs/."""


@cache
def load_promises() -> dict[str, Promise]:
    rows = _ROW.findall(CONTRACT.read_text(encoding="utf-8"))
    return {id: Promise(text, link) for id, text, link in rows}


@cache
def list_shown_ids() -> tuple[tuple[str, str], ...]:
    """(test file, id) for every mark `contract`, and for every example of a tool."""
    found: list[tuple[str, str]] = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(attr="contract"), args=args):
                    found.extend(
                        (str(path.relative_to(ROOT)), str(argument.value))
                        for argument in args
                        if isinstance(argument, ast.Constant)
                    )
    return (*found, *(("tests/tools/test_every_tool.py", id) for id in sorted(EXAMPLE_IDS)))
