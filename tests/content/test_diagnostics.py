"""Real checkers on real files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from joey.content.diagnostics import LocalDiagnostics
from joey.core.diagnostics import Diagnostic
from joey.core.settings import Settings
from joey.errors import ConfigError
from joey.workspace.files import LocalFiles


async def problems_of(root: Path, name: str, text: str, **settings: Any) -> list[Diagnostic]:
    (root / name).write_text(text)
    files = LocalFiles(root)
    checker = LocalDiagnostics(files, Settings(**settings), os.environ)
    return list(await checker.check_files([files.resolve(name)]))


@pytest.mark.contract("edits:problems")
@pytest.mark.parametrize(
    ("name", "text", "line", "message"),
    [
        ("a.py", "x = 1\ndef f(:\n", 2, "invalid syntax"),
        ("a.json", '{"a": 1,\n}', 2, "property name"),
        ("a.toml", "a = 1\nb = \n", 2, "Invalid value"),
        ("a.sh", "echo hi\nif then\n", 2, "syntax error"),
        ("a.js", "let a = 1;\nlet = = 2;\n", 2, "SyntaxError"),
    ],
)
async def test_a_file_that_does_not_parse_has_a_problem_on_its_line(
    tmp_path: Path, name: str, text: str, line: int, message: str
) -> None:
    if name.endswith(".js") and shutil.which("node") is None:
        pytest.skip("node is not installed")
    first, *_ = await problems_of(tmp_path, name, text)
    assert (first.path, first.line) == (name, line)
    assert message in first.message


@pytest.mark.parametrize(
    ("name", "text"), [("a.py", "x = 1\n"), ("a.json", "{}"), ("a.sh", "echo"), ("a.txt", "(((")]
)
async def test_a_file_in_order_has_none(tmp_path: Path, name: str, text: str) -> None:
    assert await problems_of(tmp_path, name, text) == []


@pytest.mark.contract("edits:problems")
async def test_a_checker_that_the_user_names_is_asked(tmp_path: Path) -> None:
    checker = tmp_path / "check.sh"
    checker.write_text('#!/bin/sh\necho "$1:7: error: too many words [words]"\n')
    checker.chmod(0o755)
    found = await problems_of(
        tmp_path, "a.txt", "words", diagnostic_checkers={"*.txt": f"{checker} {{file}}"}
    )
    assert found == [Diagnostic("a.txt", 7, "check.sh", "too many words", "words")]


async def test_a_checker_that_takes_too_long_is_left_out(tmp_path: Path) -> None:
    found = await problems_of(
        tmp_path,
        "a.txt",
        "words",
        diagnostic_checkers={"*.txt": "sleep 600"},
        diagnostics_timeout_seconds=0.1,
    )
    assert found == []


async def test_a_checker_that_is_not_there_is_left_out(tmp_path: Path) -> None:
    found = await problems_of(tmp_path, "a.py", "(", diagnostic_checkers={"*.py": "no-such-tool"})
    assert [problem.source for problem in found] == ["python"]


async def test_a_command_that_cannot_be_read_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"diagnosticCheckers: the command for \*\.py"):
        await problems_of(tmp_path, "a.py", "", diagnostic_checkers={"*.py": "mypy '"})


async def test_nothing_of_the_file_is_run(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    await problems_of(tmp_path, "a.py", f"open({str(marker)!r}, 'w')")
    await problems_of(tmp_path, "a.sh", f"touch {marker}")
    await problems_of(tmp_path, "a.js", f"require('fs').writeFileSync({str(marker)!r}, '')")
    assert not marker.exists()


async def test_files_that_were_looked_at_are_remembered_for_the_whole(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("(")
    (tmp_path / "b.py").write_text("x = 1")
    files = LocalFiles(tmp_path)
    checker = LocalDiagnostics(files, Settings(), os.environ)
    await checker.check_files([files.resolve("a.py"), files.resolve("b.py")])
    (tmp_path / "b.py").write_text("x = = 1")
    assert {problem.path for problem in await checker.check_workspace(10)} == {"a.py", "b.py"}


async def test_a_hidden_or_missing_file_has_no_problems(tmp_path: Path) -> None:
    (tmp_path / ".rooignore").write_text("a.py\n")
    assert await problems_of(tmp_path, "a.py", "(") == []
    files = LocalFiles(tmp_path)
    checker = LocalDiagnostics(files, Settings(), os.environ)
    assert list(await checker.check_files([files.resolve("gone.py")])) == []


async def test_a_program_of_the_workspace_is_not_taken_for_a_checker(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    trace = tmp_path / "trace"
    program = tmp_path / "bash"
    program.write_text(f"#!/bin/sh\ntouch {trace}\n")
    program.chmod(0o755)
    (tmp_path / "a.sh").write_text("if then\n")
    problems = LocalDiagnostics(files, Settings(), {"PATH": f".:{os.environ['PATH']}"})
    assert await problems.check_files([files.resolve("a.sh")])
    assert not trace.exists()
