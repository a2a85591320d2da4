"""The second reading of a command line, beside the first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.core.permissions.policy import Access, Allow, Ask, Claim, decide
from joey.core.permissions.reasons import format_reasons
from joey.core.permissions.shell import CommandChain, parse_plain_chain
from joey.core.settings import Settings
from joey.execution.bash_grammar import BashGrammar

GRAMMAR = BashGrammar()
ALLOWING = Settings(always_allow_execute=True, allowed_commands=("ls", "echo", "cat"))
PIECES = [
    *("ls", "echo", "a", "-la", "'b c'", '"d e"', '"f$"', "--x=1", "HEAD~1", "5", "é", "%s"),
    *(" ", " ", " ", "\t", "\n", ";", "&&", "||", "|", "&", "$", "`", "(", ")", "{", "}", "<", ">"),
    *(" \\( ", " \\)", " ! ", "\\!"),
    *("\\", "'", '"', "#", "!", "*", "?", "[", "]", "~", "=", "\r", "\u00a0", "if", "then", "fi"),
    *(
        "$(",
        "${x}",
        "<<EOF",
        "<(",
        "$'a'",
        '$"a"',
        "2>&1",
        " 2>&1",
        " >/dev/null",
        " >&2",
        ">x",
        "x=1",
        "time",
        "[[",
        "]]",
        ";;",
    ),
]


def judged(line: str, read: object = GRAMMAR.parse_chain) -> Allow | Ask:
    decision = decide([Claim(Access.EXECUTE, command=line)], ALLOWING, read)  # type: ignore[arg-type]
    assert isinstance(decision, Allow | Ask)
    return decision


@pytest.mark.parametrize(
    "line",
    [
        *("ls", "ls -la 'a b' \"c\"", "ls && echo 1 | cat; ls\n\nls", "echo a'b'\"c\"", "ls;"),
        *('echo "a$" "b$|c" "d\\"e" ""', "echo x=y --z=1 5 -5 HEAD~1 a^ %h é", "ls &&\n ls"),
        *(
            "ls 2>&1 | cat >/dev/null; ls > /dev/null 2>&1 && cat 2>/dev/null\nls 1>&2",
            "ls 2>&1|cat",
        ),
        *("ls \\( a \\)", "ls ! a", "ls \\! a; ls \\)|cat"),
        *(
            "ls a\\ b\\'c",
            "ls \\\n  a \\\n  b",
            'echo "\\$(a) \\`b\\`" a#b c!',
            "echo \\$a a\\;b \\*",
        ),
    ],
)
def test_both_readers_see_the_same_words(line: str) -> None:
    chain = GRAMMAR.parse_chain(line)

    assert chain is not None
    assert chain == parse_plain_chain(line)


@pytest.mark.contract("permissions:unclear")
@pytest.mark.parametrize(
    "line",
    [
        *("ls 2>&1 a", "ls >&x", "ls 2>&-", "ls 3>&1", "ls >/dev/nul", "ls >>/dev/null"),
        *("ls > x", "ls &", "(ls)", "echo $x", 'echo "$x"', "echo `x`", "ls # x", "x=1 ls", "! ls"),
        *("ls *", "[ -f x ]", "export a", "ls\\\n x", "ls\r", "ls <<< x", "f() { ls; }", "ls ("),
        *(
            "if ls; then ls; fi",
            "echo {a,b}",
            "echo a\\b",
            "ls a\\/",
            "ls !a",
            "ls && ! ls",
            "ls ;; ls",
            "echo $'a'",
            "ls\0",
        ),
    ],
)
def test_what_is_more_than_plain_words_is_not_plain_to_the_grammar(line: str) -> None:
    assert GRAMMAR.parse_chain(line) is None


@pytest.mark.contract("permissions:unclear")
@given(line=st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_only_lines_that_both_readers_read_alike_run_unasked(line: str) -> None:
    if isinstance(judged(line), Allow):
        assert GRAMMAR.parse_chain(line) == parse_plain_chain(line)


def other_words(line: str) -> CommandChain | None:
    return (("", ("ls", "other")),)


def nothing(line: str) -> CommandChain | None:
    return None


def fails(line: str) -> CommandChain | None:
    raise RuntimeError("the grammar broke")


def overflows(line: str) -> CommandChain | None:
    raise RecursionError


@pytest.mark.contract("permissions:unclear")
@pytest.mark.parametrize("read", [other_words, nothing, fails, overflows, None])
def test_a_reading_that_differs_fails_or_is_missing_is_for_a_user(read: object) -> None:
    assert isinstance(judged("ls"), Allow)
    assert isinstance(judged("ls", read), Ask)


def test_the_fault_is_the_reason() -> None:
    decision = judged("ls", fails)

    assert isinstance(decision, Ask)
    assert "the grammar broke" in format_reasons(decision.reasons)


@pytest.mark.contract("permissions:unclear")
@pytest.mark.parametrize(
    "line",
    [
        "ls " + "x" * 1_000_000,
        "ls;" * 5_000,
        "ls|" * 300 + "ls",
        "echo " + "(" * 5_000,
        "echo " + "$(" * 2_000 + ")" * 2_000,
        "echo " + '"' * 9_999,
        "{ " * 4_000,
        "if " * 4_000,
        "ls \ud800",
        "echo '\udfff'",
    ],
    ids=lambda line: line[:12],
)
def test_huge_deep_and_broken_lines_are_for_a_user(line: str) -> None:
    assert isinstance(judged(line), Ask)


@pytest.mark.contract("permissions:unclear")
@given(line=st.text(max_size=60), rule=st.text(max_size=10), denied=st.text(max_size=10))
def test_every_line_gets_a_decision_from_the_whole_policy(
    line: str, rule: str, denied: str
) -> None:
    settings = Settings(
        always_allow_execute=True, allowed_commands=(rule, "echo"), denied_commands=(denied,)
    )

    decide([Claim(Access.EXECUTE, command=line)], settings, GRAMMAR.parse_chain)
