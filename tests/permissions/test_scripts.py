"""Scripts of sed and awk that only print, and those that do more."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from joey.core.permissions.scripts import is_harmless_awk, is_harmless_sed

SED_PIECES = [
    *(
        "p",
        "d",
        "q",
        "s/a/b/",
        "s|a|b|g",
        "/x/",
        "1,3",
        "$",
        "!",
        ";",
        "\n",
        " ",
        "w new",
        "e",
        "r x",
    ),
    *(
        "s/a/b/w new",
        "s/a/b/e",
        "[/]",
        "[",
        "]",
        "\\",
        "/",
        "|",
        "1e touch new",
        "{",
        "}",
        "=",
        "n",
    ),
]
AWK_PIECES = [
    *(
        "{",
        "}",
        "print",
        "$1",
        "x",
        " ",
        ";",
        "/a/",
        "/",
        '"new"',
        ">",
        "|",
        "(",
        ")",
        "1",
        "system",
    ),
    *(
        'system("touch new")',
        "getline",
        "[/]",
        '"',
        "\\",
        "++",
        "NR",
        "if",
        "+",
        "=",
        "\n",
        "!",
        "~",
    ),
    *("BEGIN", 'print > "new"', "printf", '"/"', "return", "in", "[", "]", "#", "touch new"),
]


@pytest.mark.parametrize(
    "script",
    [
        "p",
        "1,5p",
        "/a/,/b/p",
        "s/a/b/",
        "s/a\\/b/c/g;p",
        "/x/d",
        "$!d",
        "s|/a|/b|",
        "5q",
        "s/[^,]*//",
    ],
)
def test_a_script_of_sed_that_prints_is_harmless(script: str) -> None:
    assert is_harmless_sed(script)


@pytest.mark.parametrize(
    "script",
    [
        *("w x", "1w x", "e", "1e date", "s/a/b/w x", "s/a/b/e", "s/a/b/gw x", "r x", "R x", "W x"),
        *("p;w x", "p\nw x", "{p}", "s;a;b;w x", "\\,x,w y", "s/[/]/w x/p", "a text", "", "s/a/b"),
        "p;" * 2_000,
        "1 " * 500 + "X",
    ],
    ids=lambda script: script[:20],
)
def test_a_script_of_sed_that_may_do_more_is_not(script: str) -> None:
    assert not is_harmless_sed(script)


@pytest.mark.parametrize(
    "script",
    [
        *("{ print $1 }", "NR == 2", "/a/ { n++ } END { print n }", "{ print $1 / 2 }", "$3 > 5"),
        *('{ printf "%s\\n", $1 }', "length($0) > 80", "!seen[$0]++", '{ gsub(/a/, "b"); print }'),
    ],
)
def test_a_script_of_awk_that_prints_is_harmless(script: str) -> None:
    assert is_harmless_awk(script)


@pytest.mark.parametrize(
    "script",
    [
        *(
            '{ system("x") }',
            '{ system ("x") }',
            '{ print > "x" }',
            '{ print | "x" }',
            "{ getline }",
        ),
        *(
            '{ x = 1 / 2; system("t"); y / 3 }',
            '{ print /"/; system("x") /"/ }',
            '{ ENVIRON["x"] }',
        ),
        *('/[/]"/; { system("x") } /"/', '{ x++ / 2; system("x") / 2 }', 'BEGIN { ARGV[1] = "x" }'),
        *("{ f() }", "@include x", "function f() { }", "{ print", "{ close(1) }", "{ print >> 1 }"),
    ],
)
def test_a_script_of_awk_that_may_do_more_is_not(script: str) -> None:
    assert not is_harmless_awk(script)


def leaves_traces(program: list[str], folder: Path) -> bool:
    (folder / "data").write_text("a b\nc d\n")
    subprocess.run(
        [*program, "data"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )
    return sorted(path.name for path in folder.iterdir()) != ["data"]


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(script=st.lists(st.sampled_from(SED_PIECES), max_size=8).map("".join))
def test_no_script_of_sed_taken_for_harmless_leaves_traces(tmp_path: Path, script: str) -> None:
    if is_harmless_sed(script):
        assert not leaves_traces(["sed", script], tmp_path)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(script=st.lists(st.sampled_from(AWK_PIECES), max_size=8).map("".join))
def test_no_script_of_awk_taken_for_harmless_leaves_traces(tmp_path: Path, script: str) -> None:
    if is_harmless_awk(script):
        assert not leaves_traces(["awk", script], tmp_path)
