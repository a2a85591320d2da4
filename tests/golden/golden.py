"""Compare text and JSON with the golden files in `data/`, and renew them on request.

`python -m tests.golden.renew` writes the golden files anew, for a deliberate change of a format.
"""

from __future__ import annotations

import difflib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.golden import RENEWING

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
DATA = HERE / "data"
RENEW = bool(os.environ.get(RENEWING))
"""Read on import: the tests' own fixtures remove the variables of joey from the environment."""
WIDTH = 100
LONGEST_DIFF = 300
"""Lines."""


def check_json(name: str, value: Any) -> None:
    """Fail with a diff unless the value equals the golden file; the order of keys is ignored."""
    check_text(name, f"{_readable(_in_lines(value))}\n")


def check_text(name: str, text: str) -> None:
    """Fail with a diff unless the text equals the golden file, byte for byte."""
    path = DATA / name
    if RENEW:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    expected = path.read_bytes().decode() if path.exists() else ""
    if text != expected:
        pytest.fail(f"{_diff(name, expected, text)}\n{ADVICE}", pytrace=False)


def _readable(value: Any, indent: str = "") -> str:
    """JSON with sorted keys, in which all that fits on a line is on one."""
    line = json.dumps(value, sort_keys=True, ensure_ascii=False)
    if len(indent) + len(line) <= WIDTH or not value or not isinstance(value, dict | list):
        return line
    inner = f"{indent} "
    if isinstance(value, list):
        items = [_readable(each, inner) for each in value]
    else:
        named = sorted(value.items())
        items = [
            f"{json.dumps(key, ensure_ascii=False)}: {_readable(each, inner)}"
            for key, each in named
        ]
    body = f",\n{inner}".join(items)
    opening, closing = "[]" if isinstance(value, list) else "{}"
    return f"{opening}\n{inner}{body}\n{indent}{closing}"


def _in_lines(value: Any) -> Any:
    """Write a text of several lines as such, so that a diff shows the line that differs."""
    match value:
        case dict():
            return {key: _in_lines(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_in_lines(inner) for inner in value]
        case str() if "\n" in value:
            return {"(lines)": value.split("\n")}
    return value


ADVICE = (
    "The golden file pins a stored or sent format. If the change is deliberate, run"
    " `python -m tests.golden.renew` and review the diff."
)


def _diff(name: str, expected: str, text: str) -> str:
    lines = list(
        difflib.unified_diff(
            expected.splitlines(),
            text.splitlines(),
            f"tests/golden/data/{name} (golden)",
            "what joey produces now",
            lineterm="",
        )
    )
    if not lines:
        lines = [f"tests/golden/data/{name} differs in its line endings"]
    if len(lines) > LONGEST_DIFF:
        left_out = len(lines) - LONGEST_DIFF
        lines = [*lines[:LONGEST_DIFF], f"... {left_out} more lines"]
    return "\n".join(lines)
