from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from msgspec import structs

from joey.core.path_access import ResolvedPath
from joey.core.permissions.policy import Access, Allow, Ask, Claim, Decision, Deny, decide
from joey.core.permissions.reasons import Reason, ReasonKind, format_reason, format_reasons
from joey.core.settings import Settings
from joey.execution.bash_grammar import BashGrammar

INSIDE = ResolvedPath(
    path_as_given="a.py", path=Path("/w/a.py"), display_path="a.py", is_inside=True
)
OUTSIDE = ResolvedPath(
    path_as_given="/etc/x", path=Path("/etc/x"), display_path="/etc/x", is_inside=False
)
HIDDEN = ResolvedPath(
    path_as_given="k", path=Path("/w/k"), display_path="k", is_inside=True, is_ignored=True
)
PROTECTED = ResolvedPath(
    path_as_given=".roo/mcp.json",
    path=Path("/w/.roo/mcp.json"),
    display_path=".roo/mcp.json",
    is_inside=True,
    is_protected=True,
)
FAR_PROTECTED = ResolvedPath(
    path_as_given="/h/AGENTS.md",
    path=Path("/h/AGENTS.md"),
    display_path="/h/AGENTS.md",
    is_inside=False,
    is_protected=True,
)

NOTHING = Settings(always_allow_read_only=False)
EVERYTHING = Settings(
    always_allow_read_only=True,
    always_allow_read_only_outside_workspace=True,
    always_allow_write=True,
    always_allow_write_outside_workspace=True,
    always_allow_write_protected=True,
    always_allow_execute=True,
    always_allow_mode_switch=True,
    allowed_commands=("*",),
)

READ, WRITE = Access.READ, Access.WRITE


def judge(access: Access, place: ResolvedPath | None, **switches: bool) -> Decision:
    return decide(
        [Claim(access=access, path=place)],
        Settings(**{"always_allow_read_only": False, **switches}),  # type: ignore[arg-type]
    )


@pytest.mark.contract("permissions:settings", "permissions:paths", "permissions:protected")
@pytest.mark.parametrize(
    ("access", "place", "switches"),
    [
        (READ, INSIDE, ["read_only"]),
        (READ, OUTSIDE, ["read_only", "read_only_outside_workspace"]),
        (READ, PROTECTED, ["read_only"]),
        (WRITE, INSIDE, ["write"]),
        (WRITE, OUTSIDE, ["write", "write_outside_workspace"]),
        (WRITE, PROTECTED, ["write", "write_protected"]),
        (WRITE, FAR_PROTECTED, ["write", "write_outside_workspace", "write_protected"]),
        (Access.SWITCH_MODE, None, ["mode_switch"]),
    ],
)
def test_an_action_needs_all_of_its_switches(
    access: Access, place: ResolvedPath | None, switches: list[str]
) -> None:
    for states in product([True, False], repeat=len(switches)):
        chosen = {
            f"always_allow_{name}": state for name, state in zip(switches, states, strict=True)
        }
        expected = Allow if all(states) else Ask
        assert isinstance(judge(access, place, **chosen), expected), chosen


SWITCHES = {
    "always_allow_read_only": Claim(access=READ, path=INSIDE),
    "always_allow_read_only_outside_workspace": Claim(access=READ, path=OUTSIDE),
    "always_allow_write": Claim(access=WRITE, path=INSIDE),
    "always_allow_write_outside_workspace": Claim(access=WRITE, path=OUTSIDE),
    "always_allow_write_protected": Claim(access=WRITE, path=PROTECTED),
    "always_allow_execute": Claim(access=Access.EXECUTE, path=INSIDE, command="ls"),
    "always_allow_mode_switch": Claim(access=Access.SWITCH_MODE),
}


@pytest.mark.contract("permissions:settings")
@pytest.mark.parametrize("switch", SWITCHES)
def test_no_other_switch_stands_in_for_the_one_that_is_off(switch: str) -> None:
    settings = structs.replace(EVERYTHING, **{switch: False})
    assert isinstance(decide([SWITCHES[switch]], EVERYTHING), Allow)
    assert isinstance(decide([SWITCHES[switch]], settings), Ask)


@pytest.mark.parametrize("access", [READ, WRITE, Access.SWITCH_MODE, Access.EXECUTE])
def test_everything_asks_while_auto_approval_is_off(access: Access) -> None:
    settings = Settings(
        auto_approval_enabled=False,
        always_allow_write=True,
        always_allow_execute=True,
        always_allow_mode_switch=True,
        allowed_commands=("*",),
    )
    claim = Claim(access=access, path=INSIDE, command="ls")

    decision = decide([claim], settings)

    assert isinstance(decision, Ask)
    assert "autoApprovalEnabled is off" in format_reasons(decision.reasons)


@pytest.mark.parametrize("access", [READ, WRITE])
@pytest.mark.parametrize("settings", [NOTHING, EVERYTHING], ids=["nothing", "everything"])
def test_hidden_files_are_refused_whatever_is_allowed(access: Access, settings: Settings) -> None:
    decision = decide([Claim(access=access, path=HIDDEN)], settings)

    assert isinstance(decision, Deny)
    assert decision.reason.rule == ".rooignore"
    assert format_reason(decision.reason) == "k is hidden by .rooignore"


@pytest.mark.parametrize("settings", [NOTHING, EVERYTHING], ids=["nothing", "everything"])
def test_a_question_always_goes_to_the_user(settings: Settings) -> None:
    assert isinstance(decide([Claim(access=Access.QUESTION)], settings), Ask)


def test_what_touches_nothing_never_asks() -> None:
    settings = Settings(auto_approval_enabled=False)

    assert isinstance(decide([Claim(access=Access.NONE)], settings), Allow)


@pytest.mark.parametrize("access", [READ, WRITE, Access.EXECUTE])
def test_a_claim_that_does_not_say_on_what_is_asked(access: Access) -> None:
    assert isinstance(decide([Claim(access=access)], EVERYTHING), Ask)


def test_a_call_without_claims_is_asked() -> None:
    assert isinstance(decide([], EVERYTHING), Ask)


def explain(decision: Decision) -> str:
    assert isinstance(decision, Ask)
    return format_reasons(decision.reasons)


def test_the_reason_names_the_setting_and_the_path() -> None:
    decision = judge(WRITE, PROTECTED, always_allow_write=True)

    assert decision == Ask(
        (
            Reason(
                ReasonKind.SETTING_OFF,
                access=WRITE,
                subject=".roo/mcp.json",
                setting="alwaysAllowWriteProtected",
            ),
        )
    )
    assert explain(decision) == "writing .roo/mcp.json: alwaysAllowWriteProtected is off"


def test_the_rule_names_every_setting_that_was_needed() -> None:
    decision = judge(
        READ,
        OUTSIDE,
        always_allow_read_only=True,
        always_allow_read_only_outside_workspace=True,
    )

    assert decision == Allow("alwaysAllowReadOnly + alwaysAllowReadOnlyOutsideWorkspace")


def test_of_several_claims_the_strictest_answer_counts() -> None:
    allowed = Claim(access=READ, path=INSIDE)
    asked = Claim(access=WRITE, path=INSIDE)
    refused = Claim(access=READ, path=HIDDEN)
    settings = Settings()

    assert isinstance(decide([allowed, allowed], settings), Allow)
    assert isinstance(decide([allowed, asked, allowed], settings), Ask)
    assert isinstance(decide([asked, allowed, refused], settings), Deny)


def test_reasons_to_ask_are_given_together_and_once() -> None:
    claims = [
        Claim(access=WRITE, path=INSIDE),
        Claim(access=WRITE, path=INSIDE),
        Claim(access=READ, path=OUTSIDE),
    ]

    assert explain(decide(claims, Settings())) == (
        "writing a.py: alwaysAllowWrite is off;"
        " reading /etc/x: alwaysAllowReadOnlyOutsideWorkspace is off"
    )


# Commands --------------------------------------------------------------------------------------


def run(command: str, place: ResolvedPath | None = None, **settings: object) -> Decision:
    return decide(
        [Claim(access=Access.EXECUTE, path=place, command=command)],
        Settings(**settings),  # type: ignore[arg-type]
        BashGrammar().parse_chain,
    )


def test_a_command_needs_its_switch_and_a_rule() -> None:
    rules = ("git status",)

    assert run("git status", always_allow_execute=True, allowed_commands=rules) == Allow(
        "git status"
    )
    assert explain(run("git status", allowed_commands=rules)) == (
        "running `git status`: alwaysAllowExecute is off"
    )
    assert explain(run("git log", always_allow_execute=True, allowed_commands=rules)) == (
        "running `git log`: no rule allows `git log`"
    )


@pytest.mark.parametrize("always_allow_execute", [True, False])
def test_a_denied_command_is_refused_whatever_is_allowed(always_allow_execute: bool) -> None:
    decision = run(
        "rm -rf x",
        always_allow_execute=always_allow_execute,
        allowed_commands=("*",),
        denied_commands=("rm",),
    )

    assert isinstance(decision, Deny)
    assert decision.reason.rule == "rm"
    assert format_reason(decision.reason) == "rule `rm` denies `rm -rf x`"


def test_a_command_outside_the_workspace_is_asked_unless_anything_goes() -> None:
    assert isinstance(run("ls", OUTSIDE, always_allow_execute=True, allowed_commands=("ls",)), Ask)
    assert isinstance(run("ls", OUTSIDE, always_allow_execute=True, allowed_commands=("*",)), Allow)
    assert isinstance(run("ls", INSIDE, always_allow_execute=True, allowed_commands=("ls",)), Allow)


def test_everything_may_be_allowed() -> None:
    claims = [
        Claim(access=READ, path=OUTSIDE),
        Claim(access=WRITE, path=FAR_PROTECTED),
        Claim(access=Access.EXECUTE, path=INSIDE, command="for f in *; do echo $f > x; done"),
        Claim(access=Access.SWITCH_MODE),
    ]

    assert isinstance(decide(claims, EVERYTHING), Allow)


@pytest.mark.contract("permissions:settings")
def test_a_custom_tool_runs_unasked_only_where_every_command_does() -> None:
    claims = [Claim(access=Access.CUSTOM_TOOL, subject="the custom tool weather")]
    some = Settings(always_allow_execute=True, allowed_commands=("ls", "git"))

    assert isinstance(decide(claims, EVERYTHING), Allow)
    assert isinstance(decide(claims, some), Ask)
    assert isinstance(decide(claims, Settings(allowed_commands=("*",))), Ask)


class Broken(tuple[str, ...]):
    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("the rules broke")


@pytest.mark.contract("permissions:unclear")
def test_a_fault_in_the_rules_is_a_reason_to_ask() -> None:
    claims = [Claim(access=Access.EXECUTE, command="ls")]
    settings = Settings(
        always_allow_execute=True, allowed_commands=("*",), denied_commands=Broken(("rm",))
    )

    decision = decide(claims, settings)

    assert isinstance(decision, Ask)
    assert "the rules broke" in format_reasons(decision.reasons)
