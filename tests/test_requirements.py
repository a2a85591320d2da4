"""The manifest and the tests agree: nothing claimed without a test, no id without a claim."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.harness.tools.tool_examples import IDS as EXAMPLE_IDS
from tests.requirements import REQUIREMENTS

TESTS = Path(__file__).parent


@cache
def carried() -> tuple[tuple[str, str], ...]:
    """(test file, id) for every `@pytest.mark.requirement` and `pytestmark` in the tests, and for
    every example of a tool, whose ids are made from its name."""
    found: list[tuple[str, str]] = []
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(attr="requirement"), args=args):
                    for argument in args:
                        if isinstance(argument, ast.Constant):
                            found.append((str(path.relative_to(TESTS)), str(argument.value)))
    return (*found, *(("tools/test_every_tool.py", id) for id in EXAMPLE_IDS))


def listed(lines: list[str]) -> str:
    return "".join(f"\n  {line}" for line in lines)


def test_every_id_in_a_test_is_in_the_manifest() -> None:
    unknown = [f"{id} in {file}" for file, id in carried() if id not in REQUIREMENTS]
    assert not unknown, f"not in tests/requirements.py:{listed(unknown)}"


def test_every_requirement_is_shown_by_a_test() -> None:
    shown = {id for _, id in carried()}
    bare = [
        f"{id:40} {requirement.text}"
        for id, requirement in REQUIREMENTS.items()
        if requirement.status == "now" and id not in shown
    ]
    assert not bare, f"{len(bare)} requirements without a test:{listed(bare)}"


def test_nothing_put_off_is_shown_already() -> None:
    shown = {id for _, id in carried()}
    done = [id for id in REQUIREMENTS if id in shown and REQUIREMENTS[id].status == "later"]
    assert not done, f"built by now, so change their status:{listed(done)}"


def test_whatever_is_put_off_says_why() -> None:
    silent = [
        id
        for id, (_, _, status, reason) in REQUIREMENTS.items()
        if (status == "later") != bool(reason)
    ]
    assert not silent, f"a reason belongs to what is put off, and to nothing else:{listed(silent)}"


def test_every_decision_and_every_known_flaw_has_a_requirement() -> None:
    sources = " ".join(requirement.source for requirement in REQUIREMENTS.values())
    named = set(re.findall(r"\b[DB]\d+\b", sources))
    expected = {f"D{n}" for n in range(1, 18)} | {f"B{n}" for n in range(1, 21)}
    assert expected - named == set()
