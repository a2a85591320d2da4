"""A sample of the corpus; `make corpus` goes through all of it."""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path

import pytest

from joey.app.options import PermissionFlags
from joey.app.permission_explanations import PermissionExplainer
from joey.core.permissions.commands import judge_command
from joey.core.permissions.policy import Allow
from tests.harness.permissions.command_testbed import CommandTestbed
from tests.harness.permissions.corpus import (
    check_harmless,
    check_projects,
    run_hostile,
    sample_commands,
)
from tests.harness.permissions.evaluation_lines import (
    ALLOW_ALL_RULES,
    DENIED_RULES,
    GIT_HELPER_LINES,
    GIT_TRANSPORT_RULES,
    iter_denied_lines,
    iter_evaluation_lines,
)
from tests.harness.permissions.harmless import list_harmless_commands
from tests.harness.permissions.hostile import READ_ONLY_RULES, list_hostile_commands
from tests.harness.permissions.line_files import load_asked_lines, load_projects, load_usual_lines

SAMPLE = 500
SEED = 20_250_301
BASH = tuple(
    map(
        int,
        re.findall(r"\d+", subprocess.check_output(["/bin/bash", "--version"], text=True))[:2],
    )
)


@pytest.mark.contract("permissions:corpus")
async def test_no_hostile_command_that_runs_unasked_does_harm(tmp_path: Path) -> None:
    outcome = await run_hostile(tmp_path, sample_commands(list_hostile_commands(), SAMPLE, SEED))

    assert outcome.harm_by_line == {}


@pytest.mark.contract("permissions:corpus")
async def test_nearly_all_harmless_commands_run_unasked(tmp_path: Path) -> None:
    lines = list_harmless_commands()
    asked = await check_harmless(tmp_path, lines)

    assert len(asked) <= len(lines) * 0.05, asked


@pytest.mark.contract("permissions:corpus", "permissions:words")
async def test_none_of_the_listed_lines_runs_unasked(tmp_path: Path) -> None:
    testbed = CommandTestbed(tmp_path, READ_ONLY_RULES)
    unasked = []
    for rules, line in load_asked_lines():
        flags = PermissionFlags(allow=rules, no_sandbox=True)
        explainer = PermissionExplainer(testbed.work, flags, home=tmp_path / "joey-home", env={})
        if (await explainer.explain_command(line)).decision == "allow":
            unasked.append((rules, line))

    assert unasked == []


@pytest.mark.contract("permissions:deny")
def test_no_line_that_evaluates_data_runs_unasked_beside_a_deny_rule() -> None:
    judged = {
        line: judge_command(line, ALLOW_ALL_RULES, DENIED_RULES) for line in iter_evaluation_lines()
    }

    assert [line for line, verdict in judged.items() if isinstance(verdict, Allow)] == []


@pytest.mark.skipif(BASH < (5, 2), reason="an older bash evaluates less")
def test_the_lines_that_evaluate_data_run_what_is_denied(tmp_path: Path) -> None:
    testbed = CommandTestbed(tmp_path, ALLOW_ALL_RULES, DENIED_RULES)
    lines = random.Random(SEED).sample(list(iter_denied_lines()), 60)

    assert [line for line in lines if testbed.run(line, only_protected=False) is None] == []


@pytest.mark.contract("permissions:deny")
def test_no_rule_for_a_subcommand_of_git_covers_a_program_for_an_address() -> None:
    assert [
        line
        for line in GIT_HELPER_LINES
        if isinstance(judge_command(line, GIT_TRANSPORT_RULES, ()), Allow)
    ] == []


@pytest.mark.contract("permissions:words")
async def test_harmless_commands_run_unasked_beside_a_deny_rule_too(tmp_path: Path) -> None:
    lines = list_harmless_commands()
    asked = await check_harmless(tmp_path, lines, ("rm", "git push"))

    assert len(asked) <= len(lines) * 0.01, asked


@pytest.mark.contract("permissions:words")
async def test_commands_of_public_projects_run_unasked_under_their_rules(tmp_path: Path) -> None:
    asked = await check_projects(tmp_path)

    assert len(asked) <= sum(map(len, load_projects().values())) * 0.03, asked


@pytest.mark.contract("permissions:words")
async def test_usual_options_run_unasked_under_the_rule_for_the_command(tmp_path: Path) -> None:
    testbed = CommandTestbed(tmp_path, READ_ONLY_RULES)
    lines, asked = list(load_usual_lines()), {}
    for rules, line in lines:
        flags = PermissionFlags(allow=rules, no_sandbox=True)
        explainer = PermissionExplainer(testbed.work, flags, home=tmp_path / "joey-home", env={})
        if (why := await explainer.explain_command(line)).decision != "allow":
            asked[line] = why.reason

    assert len(lines) >= 60
    assert len(asked) <= len(lines) * 0.03, asked


def test_the_corpus_is_as_large_as_it_should_be() -> None:
    assert list(map(len, load_projects().values())) == [15] * 20
    assert len(list_hostile_commands()) >= 8_000
    assert len(list(load_asked_lines())) >= 400
    assert len(list_harmless_commands()) >= 700


@pytest.mark.parametrize(
    ("line", "harm"),
    [
        ("echo x > canary", "it changed work/canary"),
        ("rm other", "it ran rm other"),
        ("/bin/rm other", "it changed work/other"),
        ("cat link", "it read what lies outside"),
        ("./evil.sh", "it ran evil.sh"),
    ],
)
def test_the_arena_notices_harm(tmp_path: Path, line: str, harm: str) -> None:
    testbed = CommandTestbed(tmp_path, READ_ONLY_RULES)

    assert testbed.run(line, only_protected=False) == harm
    assert testbed.run("cat other && git status", only_protected=False) is None
