from __future__ import annotations

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from joey.core.js_regex_engine import PathPattern, PatternError
from joey.core.modes import Grant, ToolGroup
from tests.harness.bounded import run_bounded

PIECES = [
    *("a", "b", "/", ".", r"\.", "*", "+", "?", "|", "(", ")", "[ab]", "[^/]", "[a-z]", "$", "^"),
    *("(?:", "{2}", "{1,2}", "{2,}", r"\d", r"\w", r"\S", r"\b", "(?=", "(?!"),
]


@pytest.mark.contract("modes:file-regex")
@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        (r"\.md$", ["a.md", "docs/b.md"], ["a.mdx", "amd", "a.md\n"]),
        (r"^docs/", ["docs/x"], ["a/docs/x"]),
        (r"\.(test|spec)\.[jt]sx?$", ["a.test.ts", "b.spec.jsx"], ["a.ts", "test.py"]),
        (r"(?:__tests__\/.*|\.snap$)", ["src/__tests__/a", "x.snap"], ["src/a"]),
        (r"^(?!src\/).*\.py$", ["setup.py"], ["src/a.py"]),
        (r"(?<!_test)\.go$", ["main.go"], ["main_test.go"]),
        (r"(?<=^locales\/)(?<name>\w+)\.json$", ["locales/de.json"], ["x/locales/de.json"]),
        (r"^[^]$", ["x", "\n"], ["", "xy"]),
        (r"^[\w.-]+\u002fx{2,3}?$", ["a-b.c/xx", "a/xxx"], ["a/x", "é/xx"]),
        (r"^a{,2}\p\y$", ["a{,2}py"], ["aapy"]),
        (r"^[a\-z\]]+$", ["a-z]"], ["b"]),
        (r"^.{0,3}$", ["", "abc"], ["abcd", "\u2028"]),
        (r"^\cA+x$", ["\1x", "\1\1x"], ["cAx", "x"]),
        (r"^\cj{2}[\cA-\cC]?$", ["\n\n", "\n\n\2"], ["cjj", "\n"]),
        (r"^\c*\c_$", [r"\\c_", r"\cc\c_"], ["c_", "\x1f"]),
        ("", ["", "x"], []),
    ],
)
def test_patterns_mean_what_javascript_means(
    pattern: str, matching: list[str], others: list[str]
) -> None:
    compiled = PathPattern(pattern)
    assert [path for path in matching if not compiled.matches(path)] == []
    assert [path for path in others if compiled.matches(path)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        *("(", ")", "[a", "*", "a**", "^*", "(?x)", r"(a)\1", r"(?<n>a)\k<n>", "b{3,2}", "[z-a]"),
        *("a{1000}{1000}", "(a{900}){900}", "(" * 60 + ")" * 60, "x" * 2001, "a\\", "(?P<n>a)"),
    ],
)
def test_what_cannot_be_used_says_why_and_covers_nothing(pattern: str) -> None:
    with pytest.raises(PatternError, match=r"^it(s)? "):
        PathPattern(pattern)
    assert not Grant(ToolGroup.EDIT, file_regex=pattern).covers("a")


@settings(max_examples=200)
@given(
    pieces=st.lists(st.sampled_from(PIECES), min_size=1, max_size=8),
    path=st.text("ab/.1", max_size=8),
)
def test_simple_patterns_find_what_pythons_do(pieces: list[str], path: str) -> None:
    source = "".join(pieces)
    try:
        expected = re.search(source, path, re.ASCII) is not None
        compiled = PathPattern(source)
    except (re.error, PatternError):
        assume(False)
    assert compiled.matches(path) == expected


@pytest.mark.contract("modes:file-regex")
@pytest.mark.parametrize(
    "pattern",
    [
        *(r"(a+)+$", r"^(a|a)*$", r"(.*\/)*x$", r"^(a?){200}a{200}$", r".*.*.*.*.*.*x$"),
        *(r"(?=.*b)(?=.*c)" * 20, r"(?!(?=(?<!x.*)a*b))" * 10 + "b$", r"((a{0,30}){0,30})*b$"),
    ],
)
def test_no_pattern_takes_longer_than_its_steps(pattern: str) -> None:
    assert not PathPattern(pattern).matches("a" * 4000 + "/" * 90 + "!")


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("((((()){1000}){1000}){1000}){1000}", "a"),
        ("(?:(?:(?:){1000}){1000}){1000}b", "a"),
        ("[" + "ab" * 900 + "]{900}x", "".join(map(chr, range(200, 4296)))),
        (".*x", "a" * 10_000_000),
    ],
)
def test_no_pattern_and_no_path_takes_long(pattern: str, path: str) -> None:
    run_bounded(
        "import sys; from joey.core.js_regex_engine import PathPattern\n"
        "PathPattern(sys.argv[1]).matches(sys.stdin.read())",
        pattern,
        given=path,
    )


def test_nothing_repeated_is_still_nothing() -> None:
    assert PathPattern("^(?:){3}a(?:){2,}$").matches("a")


def test_a_path_that_no_file_has_matches_nothing() -> None:
    assert not PathPattern("a").matches("a" * 5000)
