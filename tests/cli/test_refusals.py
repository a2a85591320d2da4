from __future__ import annotations

import pytest
from msgspec import structs

from joey.cli.headless.refusal_advice import describe_refusals, suggest_flags
from joey.core.events import AskOpened
from joey.core.permissions.reasons import Access, Reason, ReasonKind
from joey.core.settings import Settings
from joey.core.task_types import AskKind


def setting_off(access: Access, subject: str, setting: str) -> tuple[Reason]:
    return (Reason(ReasonKind.SETTING_OFF, access, subject, setting=setting),)


def command(line: str, setting: str = "alwaysAllowExecute") -> AskOpened:
    reasons = setting_off(Access.EXECUTE, line, setting)
    return AskOpened(ts=1, ask=AskKind.COMMAND, tool="execute_command", text=line, reasons=reasons)


def edit(path: str, protected: bool = False) -> AskOpened:
    return AskOpened(
        ts=1,
        ask=AskKind.TOOL,
        tool="apply_diff",
        path=path,
        is_protected=protected,
        reasons=setting_off(Access.WRITE, path, "alwaysAllowWrite"),
    )


COMMANDS = [
    ("cat a.txt && false", ["--allow cat", "--allow false"]),
    ("cat a | cat b", ["--allow cat"]),
    ("git status && make test", ["--allow 'make test'"]),
    ("cat a; rm x", ["--allow cat", "--allow 'rm x'"]),
    ("sed -i s/a/b/ x", ["--allow 'sed -i s/a/b/ x'"]),
    ("echo $(date)", []),
    ("echo x > y", []),
    ("for x in a; do echo; done", []),
]


@pytest.mark.parametrize(("line", "flags"), COMMANDS)
def test_every_command_that_lacks_a_rule_is_named_where_rules_help(
    line: str, flags: list[str]
) -> None:
    settings = Settings(allowed_commands=("git status",))
    assert suggest_flags([command(line)], settings) == flags


@pytest.mark.parametrize(
    ("line", "flags"),
    [
        ("python3 -m pytest -q 2>&1 | tail -3", ["--allow 'python3 -m pytest -q'"]),
        ("make test | tee log", ["--allow 'make test'", "--allow 'tee log'"]),
        ("git status | tail -3", ["--allow tail"]),
    ],
)
def test_no_flag_is_named_for_commands_that_only_read_in_the_sandbox(
    line: str, flags: list[str]
) -> None:
    settings = Settings(allowed_commands=("git status",))
    ask = structs.replace(command(line), sandbox="full")

    assert suggest_flags([ask], settings) == flags
    assert "--allow tail" in suggest_flags(
        [structs.replace(ask, text="make | tail")], settings, has_hidden_files=True
    )


def test_edits_are_allowed_by_a_flag_where_it_reaches() -> None:
    assert suggest_flags([edit("a.py"), edit("b.py")], Settings()) == ["--allow-writes"]
    assert suggest_flags([edit(".git/config", protected=True)], Settings()) == []
    assert suggest_flags([edit("/etc/passwd")], Settings()) == []


def test_a_run_that_asks_for_everything_is_not_helped_by_rules() -> None:
    assert suggest_flags([command("ls", "autoApprovalEnabled")], Settings()) == []


def test_what_flags_cannot_allow_is_not_promised() -> None:
    *calls, advice = describe_refusals([command("make"), command("echo $(x)")], Settings())
    assert calls[1:] == ["  $ make", "  $ echo $(x)"]
    assert advice.startswith("joey: --allow make would have allowed some of it; -y allows")


def test_what_lies_beyond_yes_is_named_with_what_would_allow_it() -> None:
    path = "/home/me/.bashrc"
    reasons = setting_off(Access.WRITE, path, "alwaysAllowWriteOutsideWorkspace")
    ask = AskOpened(
        ts=1, ask=AskKind.TOOL, tool="write_to_file", is_protected=True, reasons=reasons
    )
    *_, advice = describe_refusals([ask], Settings(), yes=True)
    assert "add --add-dir DIR, or set alwaysAllowWriteOutsideWorkspace" in advice
    assert "set alwaysAllowWriteProtected" in advice
    assert ".roo/settings.json" not in advice


def test_a_flag_that_was_given_is_not_advised() -> None:
    *_, advice = describe_refusals([command("ls", "autoApprovalEnabled")], Settings(), yes=True)
    assert "-y was given, but autoApprovalEnabled is off here: .roo/settings.json" in advice
    assert "allows everything" not in advice


def test_what_lies_outside_the_workspace_is_named_with_what_would_allow_it() -> None:
    reasons = setting_off(Access.READ, "/other/a", "alwaysAllowReadOnlyOutsideWorkspace")
    ask = AskOpened(ts=1, ask=AskKind.TOOL, tool="read_file", path="/other/a", reasons=reasons)
    advice = describe_refusals([ask], Settings())[-1]
    assert "--add-dir DIR" in advice
    assert "-y allows everything" not in advice
