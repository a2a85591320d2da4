"""Which failures of commands speak against a result, and what settles them."""

from __future__ import annotations

import pytest

from joey.core.check_commands import (
    PIPELINE_REPORT,
    are_variants,
    find_checks,
    find_failed_in_pipeline,
    find_passed_checks,
    is_failure,
    is_known_check,
)

LOOKUPS = [
    "grep -n foo a.py",
    "cd src && grep -rn 'a|b' .",
    "python app.py 2> errors.txt | grep -q ready",
    "! grep x a.py",
    "diff a.txt b.txt > out.txt",
    "git diff --exit-code",
    "git rev-parse --verify main",
    "test -f a.py",
    "[ -d build ] && ls build",
    "which node || which nodejs",
    "command -v cargo",
    "node --version",
    "for f in *.py; do grep x $f; done",
    "pytest -q 2>&1 | tail -20",
    "cat missing.txt",
    "mkdir build",
    "kill 12345",
    "cd nowhere",
    "find . -name '*.py' | xargs -0 -n 1 grep foo",
    "git -C sub --no-pager diff --exit-code",
    "pip show flask",
    "npm ls react",
    "npm outdated",
    "sudo -n true",
    "",
    "'open quote",
]


@pytest.mark.parametrize("line", LOOKUPS)
def test_a_lookup_is_no_check(line: str) -> None:
    assert find_checks(line) == ()


@pytest.mark.parametrize(
    ("line", "checks"),
    [
        ("pytest -q", ["pytest"]),
        ("cd backend && pytest -x tests/a.py", ["pytest"]),
        ("pytest | tail; exit ${PIPESTATUS[0]}", ["pytest"]),
        ("set -o pipefail; (cd a && pytest) 2>&1 | tail", ["pytest"]),
        ("/bin/bash -lc 'cd a && npm test'", ["npm test"]),
        ("python -m pytest", ["pytest"]),
        ("python3.12 -m unittest discover", ["unittest discover"]),
        ("CI=1 timeout -k 5 60 .venv/bin/pytest", ["pytest"]),
        ("uv run pytest", ["pytest"]),
        ("uv run -q pytest", ["pytest"]),
        ("npx tsc --noEmit", ["tsc"]),
        ("npx -y tsc --noEmit", ["tsc"]),
        ("pytest &> out.txt", ["pytest"]),
        ("make &>> log || tail log", ["make"]),
        ("git -c user.name=x commit -m done", ["git commit"]),
        ("npm run test -- --watch=false", ["npm test"]),
        ("npm test", ["npm test"]),
        ("make -C build", ["make"]),
        ("./gradlew check", ["gradlew check"]),
        ("cargo clippy; cargo test", ["cargo test"]),
        ("make && ./run.sh", ["make", "run.sh"]),
        ("(cd web && make)", ["make"]),
        ("if [ -f Makefile ]; then make; fi", ["make"]),
        ("python app.py", ["python app.py"]),
        ("python - <<'EOF'\nit's fine\nEOF", ["python -"]),
        ("echo one; exit 3", ["exit"]),
        ("false", ["false"]),
        ("git commit -m done", ["git commit"]),
        ("set -o pipefail; pytest 2>&1 | tail -20", ["pytest"]),
        ("set -euo pipefail\ncd src\npytest | tee log.txt", ["pytest"]),
        ("set -o pipefail && pytest |& tee log.txt | tail", ["pytest"]),
        ("set -o pipefail; pytest | grep -c FAILED", []),
        ("set -e; make; cat log", ["make"]),
        ("set -x; make; cat log", []),
        ("yes | make install", ["make install"]),
    ],
)
def test_the_programs_that_decide_how_a_line_ends_are_its_checks(
    line: str, checks: list[str]
) -> None:
    assert [" ".join(name) for name in find_checks(line)] == checks


@pytest.mark.parametrize(
    ("line", "passed"),
    [
        ("pytest -q", True),
        ("cd src && pytest -q 2>&1 > log.txt", True),
        ("pytest && echo passed", True),
        ("cat a | pytest", True),
        ("test -d a || mkdir a && pytest", True),
        ("set -o pipefail; pytest | tail -5", True),
        ("set -o pipefail; pytest | grep passed", True),
        ("set -e; pytest; git status", True),
        ("set -e -o pipefail; pytest | tail; git status", True),
        ("pytest -q 2>&1 | tail -20", False),
        ("pytest -q |& tail", False),
        ("pytest | head -50", False),
        ("pytest | grep -E 'passed|failed'", False),
        ("pytest | tee log.txt", False),
        ("pytest | tee log.txt | tail && echo done", False),
        ("pytest; echo exit=$?", False),
        ("pytest\ngit status", False),
        ("pytest || true", False),
        ("pytest && echo passed || echo failed", False),
        ("pytest > log.txt 2>&1 || tail log.txt", False),
        ("(cd src && pytest)", True),
        ("(cd src && pytest) 2>&1 | tail -5", False),
        ("(cd src && pytest)|tail", False),
        ("{ cd src; pytest; } | tail", False),
        ("for f in a b; do pytest $f; done | tail", False),
        ("set -o pipefail; (cd src && pytest) 2>&1 | tail", True),
        ("(echo a; echo b) | pytest", True),
        ("pytest | tail; exit ${PIPESTATUS[0]}", True),
        ("bash -lc 'cd src && pytest'", True),
        ("bash -lc 'pytest | tail'", False),
        ("! pytest", False),
        ("pytest > log.txt &", False),
    ],
)
def test_a_status_of_0_tells_that_a_program_passed(line: str, passed: bool) -> None:
    assert (("pytest",) in find_passed_checks(line)) is passed
    assert ("pytest",) in find_checks(line, anywhere=True)


@pytest.mark.parametrize(
    ("line", "passed"),
    [
        ("pytest 2>&1 | tail -3", True),
        ("cd a && pytest | grep passed | cat", True),
        ("echo a; pytest | tail", True),
        ("make -s || pytest | tail", False),
        ("pytest | head -3", False),
        ("pytest | tail; echo done", False),
        ("pytest; ls | tail", False),
    ],
)
def test_a_pipeline_whose_shell_reported_no_failure_passed(line: str, passed: bool) -> None:
    assert (("pytest",) in find_passed_checks(line, "1 passed\n")) is passed
    assert ("pytest",) not in find_passed_checks(line)
    reported = f"1 failed\n{PIPELINE_REPORT}1 0. The last one is that of the command.]\n"
    assert ("pytest",) not in find_passed_checks(line, reported)


@pytest.mark.parametrize(
    ("line", "codes", "failed"),
    [
        ("pytest -q | tail -3", "1 0", (("pytest",), 1)),
        ("cd a && pytest 2>&1 | grep FAILED | cat", "2 0 0", (("pytest",), 2)),
        ("echo a | make test | tail", "0 2 0", (("make", "test"), 2)),
        ("pytest | tail", "141 0", None),
        ("pytest | tail", "1 0 0", None),
        ("pytest | tail", "no code", None),
        ("pytest | head -3", "1 0", None),
        ("./convert a | tail", "1 0", None),
        ("grep -r a . | tail", "2 0", None),
        ("pytest | tail; echo done", "1 0", None),
    ],
)
def test_the_shell_reports_which_part_of_a_pipeline_failed(
    line: str, codes: str, failed: tuple[tuple[str, ...], int] | None
) -> None:
    report = f"{PIPELINE_REPORT}{codes}. The last one is that of the command.]\n"
    assert find_failed_in_pipeline(line, f"1 failed\n{report}") == failed
    assert find_failed_in_pipeline(line, "1 failed\n") is None


@pytest.mark.parametrize(
    "line",
    [
        "pytest -q 2>&1 | tail -5; git status",
        "pytest -q; python -c 'import a'",
        "cd src\npytest -q | tee log.txt\nls",
        "for each in a b; do pytest $each; done; echo done",
    ],
)
def test_all_programs_of_a_line_can_be_asked_for(line: str) -> None:
    assert are_variants(find_checks("python -m pytest a.py && b"), find_checks(line, anywhere=True))


@pytest.mark.parametrize(
    ("exit_code", "signal", "failed"),
    [
        (1, None, True),
        (2, None, True),
        (139, None, True),
        (None, "SIGSEGV", True),
        (0, None, False),
        (None, None, False),
        (124, None, False),
        (127, None, False),
        (141, None, False),
        (143, None, False),
        (None, "SIGTERM", False),
    ],
)
def test_what_was_stopped_or_not_found_did_not_fail(
    exit_code: int | None, signal: str | None, failed: bool
) -> None:
    assert is_failure(exit_code, signal) is failed


@pytest.mark.parametrize(
    ("line", "other", "expected"),
    [
        ("pytest -x tests/a.py", "pytest", True),
        ("pytest tests", "python -m pytest -q", True),
        ("npm run lint", "npm run lint -- --fix", True),
        ("npm test", "npm install", False),
        ("cargo test", "cargo build", False),
        ("python a.py", "python b.py", False),
        ("python -c 'x'", "python -c 'y'", True),
        ("mypy", "pytest", False),
        ("python3 a.py", ".venv/bin/python a.py", True),
        ("pip3 install x", "python3 -m pip install x", True),
    ],
)
def test_lines_with_the_same_program_are_variants(line: str, other: str, expected: bool) -> None:
    assert are_variants(find_checks(line), find_checks(other)) is expected
    assert are_variants(find_checks(other), find_checks(line)) is expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("pytest", True),
        ("npm run build", True),
        ("go vet ./...", True),
        ("node --test", True),
        ("npm install", False),
        ("python app.py", False),
        ("pip install x", False),
    ],
)
def test_tests_linters_and_builds_are_known(line: str, expected: bool) -> None:
    assert is_known_check(find_checks(line)) is expected
