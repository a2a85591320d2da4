from __future__ import annotations

import pytest

from joey.core.diagnostics import (
    Diagnostic,
    find_new_errors,
    format_diagnostics,
    parse_checker_output,
)
from tests.harness.bounded import run_bounded


@pytest.mark.contract("edits:problems")
@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("a.py:3: error: Missing return  [return]", ("a.py", 3, "Missing return", "return", True)),
        ("a.py:3:7: E999 bad syntax", ("a.py", 3, "bad syntax", "E999", True)),
        ("src/a.c:10:2: warning: unused x", ("src/a.c", 10, "unused x", "", False)),
        ("a.ts(4,9): error TS2304: No name 'x'.", ("a.ts", 4, "No name 'x'.", "TS2304", True)),
        ("/w/a.sh:1: syntax error", ("/w/a.sh", 1, "syntax error", "", True)),
    ],
)
def test_reports_of_compilers_are_understood(
    line: str, problem: tuple[str, int, str, str, bool]
) -> None:
    path, number, message, code, is_error = problem
    assert parse_checker_output(line, "tool") == (
        Diagnostic(path, number, "tool", message, code, is_error),
    )


@pytest.mark.parametrize(
    "line",
    ["", "Found 3 errors", "a.py:3: note: see here", "  a.py:3: error: indented", "a.py:x: e"],
)
def test_other_lines_are_passed_over(line: str) -> None:
    assert parse_checker_output(line, "tool") == ()


def error(line: int, message: str, is_error: bool = True) -> Diagnostic:
    return Diagnostic("a.py", line, "mypy", message, is_error=is_error)


@pytest.mark.contract("edits:problems")
def test_only_errors_that_were_not_there_before_count() -> None:
    before = [error(1, "old"), error(9, "twice")]
    after = [error(5, "old"), error(9, "twice"), error(12, "twice"), error(3, "hm", is_error=False)]
    assert find_new_errors(before, after) == (error(12, "twice"),)


def test_problems_stand_under_their_file() -> None:
    text = format_diagnostics(
        [
            Diagnostic("a.py", 3, "mypy", "wrong", "arg-type"),
            Diagnostic("b.js", 1, "node", "odd", "", False),
        ]
    )
    assert text == ("a.py\n- [mypy Error] 3 | arg-type : wrong\n\nb.js\n- [node Warning] 1 | odd")
    assert format_diagnostics([]) == ""


def test_no_report_takes_long_to_read() -> None:
    run_bounded(
        "import sys; from joey.core.diagnostics import parse_checker_output\n"
        "(problem,) = parse_checker_output(sys.stdin.read(), 'bash')\n"
        "assert len(problem.message) < 600",
        given="a.sh:3: x" + " " * 1_000_000 + "y",
    )


def test_a_line_that_no_file_has_is_passed_over() -> None:
    assert parse_checker_output(f"a.sh:{'3' * 5000}: x", "bash") == ()
