from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.core.permissions.commands import describe_unsupported_syntax, judge_command
from joey.core.permissions.policy import Ask
from joey.core.permissions.reasons import format_reasons


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ls 'a*' src/*.py", "a pattern (`src/*.py`)"),
        ("cat ~/.ssh/id_rsa", "`~` for a home folder (`~/.ssh/id_rsa`)"),
        ("ls && FOO=1 pytest", "an assignment (`FOO=1`)"),
        ("npm test 2>&1 > out.log", "a redirection (`> out.log`)"),
        ("pytest; echo $?", "a variable (`$?`)"),
        ('echo "at $HOME"', "a variable (`$HOME`)"),
        ('echo "it is $(date)"', "a substitution (`$(date)`)"),
        ("cat <(ls)", "a substitution (`<(ls)`)"),
        ("git status &", "a job in the background (`&`)"),
        ("ls |& cat", "a redirection (`|&`)"),
        ("time pytest", "a keyword of the shell (`time`)"),
        ("[ -f x ] && ls", "a keyword of the shell (`[`)"),
        ("for f in a; do echo $f; done", "a keyword of the shell (`for`)"),
        ("(ls)", "a group (`(ls)`)"),
        ("ls # all", "a comment (`#`)"),
        ("cat a\\b", "a backslash (`a\\b`)"),
        ("cat 'a", "a quote that is not closed (`'a`)"),
        ("ls \x07", "signs that are none of a word"),
    ],
)
def test_a_user_is_shown_what_the_rules_cannot_judge(line: str, expected: str) -> None:
    assert describe_unsupported_syntax(line) == expected
    allowed = ("ls", "cat", "echo", "pytest", "npm test", "git")
    decision = judge_command(line, allowed, ())
    assert isinstance(decision, Ask)
    reason = f"it has {expected}, and rules judge plain words only"
    assert format_reasons(decision.reasons) == reason


@given(st.text(alphabet="a *?[]{}()<>|&;$`'\"\\#~=!/\n\t", max_size=60))
def test_something_is_said_of_every_line(line: str) -> None:
    assert describe_unsupported_syntax(line)
