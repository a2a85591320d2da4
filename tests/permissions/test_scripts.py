"""Scripts of sed and awk that only print, and those that do more."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from joey.core.permissions.script_programs import is_harmless_awk, is_harmless_sed

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
        "[]",
        "[^]",
        "[[:alpha:]",
        "/w new/",
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
    *("length", "break", "next", '"/; print > FILENAME "1" #"'),
    *("BEGIN", 'print > "new"', "printf", '"/"', "return", "in", "[", "]", "#", "touch new"),
]


WRITING = [
    'BEGIN {~print ~1~ > ~"new"~}',
    'BEGIN {~for (~i = 0~;~ i < 1~;~ print ~i++~ > ~"new"~) ~{~}~}',
    'BEGIN {~for (~print ~1~ > ~"new"~;~ i < 1~;~ i++~) ~{~}~}',
    'BEGIN {~if (~1~) ~print ~1~ > ~"new"~; else~ print ~2~ > ~"new"~}',
    'BEGIN {~do ~print ~1~ > ~"new"~; ~while (~0~)~}',
    'BEGIN {~x = ~(~1 > 2~)~ ? ~"a"~ : ~"b"~; print ~x~ > ~"new"~}',
    'BEGIN {~printf~(~"%s"~, ~1~)~ > ~"new"~}',
    'BEGIN {~print ~(~1~, ~2~)~ > ~"new"~}',
    '{~print ~$1~ > ~"new"~}~ END {~print ~NR~ > ~"new"~}',
    'BEGIN {~a = 1~; print ~a~ / ~2~ > ~"new"~ / ~3~ / ~1~}',
    '$1~ > ~"new"~ {~print ~$1~ > ~"new"~}',
]
"""Cut where something may be altered."""


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
        *("s/^[[:space:]]*//", "s/\\[[^]]*\\]//", "s/\\[]/x/", "s/[][]//g", "s/[\\t ]*$//"),
    ],
)
def test_a_script_of_sed_that_prints_is_harmless(script: str) -> None:
    assert is_harmless_sed(script)


@pytest.mark.parametrize(
    "script",
    [
        *("w x", "1w x", "e", "1e date", "s/a/b/w x", "s/a/b/e", "s/a/b/gw x", "r x", "R x", "W x"),
        *("p;w x", "p\nw x", "{p}", "s;a;b;w x", "\\,x,w y", "s/[/]/w x/p", "a text", "", "s/a/b"),
        *("s/[]/A/;/]B/p;/w x/p", "s/[^]/A/;/]B/p;/w x/p", "s/[[:alpha:]/A/;/]B/p;/w x/p"),
        *("s/\\[[]/A/;/]B/p;/w x/p", "s/[\\[:alpha:]/A/;/]B/p;/w x/p", "s/[\\]/A/;/]B/p;/w x/p"),
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
        "$1 > 1e6 { print $2 * 1.5 }",
        "{ x += $1 } END { x /= NR; print x }",
        *(
            "{ x = length / 2 }",
            "function f() { }",
            '{ print /"/ ? $1 / 2 : "/" }',
            "/system/ { n++ }",
        ),
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
        *('{ for (i = 0; i < 1; print i++ > "x") { } }', '{ for (print > "x"; 0; ) { } }'),
        '{ f = "x"; length /"/; print > f; z = " a " } # "}',
        '{ f = "x"; 1 y /=;/; print > f; y = 1 / 2 }',
        '{ f = "x"; -0x1in /"/; print > f; z = " a " } # "}',
        '{ f = "x"; while (1) break /"/; print > f; z = " a " } # "}',
        *("@include x", "{ print >> 1 }", "{ print $1 / 2 > 1 }", '$2 > 5 && /"/', "{ @f() }"),
    ],
)
def test_a_script_of_awk_that_may_do_more_is_not(script: str) -> None:
    assert not is_harmless_awk(script)


def leaves_traces(program: list[str], directory: Path) -> bool:
    (directory / "data").write_text("a b\nc d\n")
    with suppress(subprocess.TimeoutExpired):  # it goes round in circles
        subprocess.run(
            [*program, "data"],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=2,
            check=False,
        )
    traces = [path for path in directory.iterdir() if path.name != "data"]
    for each in traces:
        each.unlink()
    return bool(traces)


def installed(*programs: str) -> list[list[str]]:
    """Of several that speak the same language, each a little differently."""
    return [found for each in programs if shutil.which((found := each.split())[0])]


SEDS = installed("sed", "busybox sed")
AWKS = installed("awk", "mawk", "gawk", "original-awk", "busybox awk")
REAL = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@REAL
@given(script=st.lists(st.sampled_from(SED_PIECES), max_size=8).map("".join))
def test_no_script_of_sed_taken_for_harmless_leaves_traces(tmp_path: Path, script: str) -> None:
    if is_harmless_sed(script):
        assert not any(leaves_traces([*sed, script], tmp_path) for sed in SEDS)


@REAL
@given(script=st.lists(st.sampled_from(AWK_PIECES), max_size=8).map("".join))
def test_no_script_of_awk_taken_for_harmless_leaves_traces(tmp_path: Path, script: str) -> None:
    if is_harmless_awk(script):
        assert not any(leaves_traces([*awk, script], tmp_path) for awk in AWKS)


@st.composite
def altered(draw: st.DrawFn) -> str:
    """A script that writes, with a few pieces put in, left out or put into parentheses."""
    pieces = draw(st.sampled_from(WRITING)).split("~")
    for _ in range(draw(st.integers(0, 4))):
        first, last = sorted(draw(st.tuples(*[st.integers(0, len(pieces))] * 2)))
        match draw(st.sampled_from(("in", "out", "around"))):
            case "in":
                pieces.insert(first, draw(st.sampled_from(AWK_PIECES)))
            case "out":
                del pieces[first : first + 1]
            case "around":
                pieces[first:last] = ["(", *pieces[first:last], ")"]
    return "".join(pieces)


@settings(REAL, max_examples=400)
@given(script=altered())
def test_no_script_of_awk_that_nearly_writes_and_is_taken_for_harmless_does(
    tmp_path: Path, script: str
) -> None:
    if is_harmless_awk(script):
        assert not any(leaves_traces([*awk, script], tmp_path) for awk in AWKS)
