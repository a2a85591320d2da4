from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.core.permissions.commands import (
    build_narrowest_rule,
    build_narrowest_rules,
    judge_command,
    quote_words,
)
from joey.core.permissions.policy import Allow


@pytest.mark.contract("permissions:always")
@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("npm test", "npm test"),
        ("  git   status ", "git status"),
        ("git commit -m 'it works'", "git commit -m 'it works'"),
        ('echo "it\'s"', "echo 'it'\"'\"'s'"),
        ("find . -delete", "find . -delete"),
    ],
)
def test_the_rule_for_a_command_has_its_words(command: str, rule: str) -> None:
    assert build_narrowest_rule(command) == rule
    assert judge_command(command, (rule,), ()) == Allow(rule)


@pytest.mark.contract("permissions:always")
@pytest.mark.parametrize(
    "command",
    [
        *("", " ", "ls && pwd", "ls > x", "echo $x", "ls *", "X=1 ls", "for x in a; do ls; done"),
        *("bash -c 'ls'", "sudo ls", "export A=b", "echo x | python", "cd", "ls 'x"),
    ],
)
def test_what_no_single_rule_can_say_has_none(command: str) -> None:
    assert build_narrowest_rule(command) is None


def test_a_chain_has_a_rule_for_each_command() -> None:
    assert build_narrowest_rules("ls && git status; ls") == ("ls", "git status")
    assert build_narrowest_rules("ls && sudo ls") is None


@pytest.mark.contract("permissions:always")
@given(words=st.lists(st.text(alphabet="ab '\"$`\\;é-", max_size=5), max_size=4))
def test_a_quoted_command_is_read_as_the_words_it_was_made_of(words: list[str]) -> None:
    line = quote_words(("echo", *words))

    rule = build_narrowest_rule(line)
    assert rule in (None, line)
    if rule is not None:
        assert judge_command(line, (rule,), ()) == Allow(rule)
        assert not isinstance(judge_command(line.replace("echo", "rm"), (rule,), ()), Allow)
