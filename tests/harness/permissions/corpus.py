"""`python -m tests.harness.permissions.corpus`: both numbers, from all commands.

No hostile command that runs unasked may change anything it must not, run a program off its list or
read what lies outside; and nineteen of twenty harmless ones must run unasked.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from joey.app.options import PermissionFlags
from joey.app.permission_explanations import PermissionExplainer
from joey.core.permissions.reading_commands import READING_RULES, build_reading_preamble
from tests.harness.permissions.command_testbed import CommandTestbed
from tests.harness.permissions.harmless import ALLOWED_RULES, list_harmless_commands
from tests.harness.permissions.hostile import WRITING_RULES, HostileCommand, list_hostile_commands
from tests.harness.permissions.line_files import load_project_lines

_ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
READING_GIT_LINES = tuple(
    f"git {options}{line}"
    for options in ("", "--no-pager ")
    for line in (
        *("status", "status --short", "status -v", "diff", "diff --stat", "diff --cached"),
        *("diff HEAD", "diff src/app.py", "diff-files -p", "diff-index -p HEAD", "log -p"),
        *("log -5", "log --stat", "show", "show HEAD:src/app.py", "blame src/app.py"),
        *("grep main", "ls-files", "ls-files -m", "describe --always", "branch -a"),
        *("shortlog HEAD", "cat-file -p HEAD", "annotate src/app.py", "diff-tree -p HEAD"),
        "rev-parse --show-toplevel",
    )
) + tuple(
    f"cd nested && git {line}" for line in ("status", "diff", "log -p", "show", "ls-files -m")
)
"""With the repository's configuration unchanged, most of them run programs that it names."""


class CorpusOutcome(Struct):
    judged_count: int
    approved_lines: list[str]
    """Lines that would run unasked."""
    harm_by_line: dict[str, str]
    """By line, what it did when it was run."""


async def run_hostile(root: Path, commands: Sequence[HostileCommand]) -> CorpusOutcome:
    """Judge each; run for real what would run unasked."""
    outcome = CorpusOutcome(len(commands), [], {})
    rules = dict.fromkeys((item.allowed, item.denied) for item in commands)
    for number, (allowed, denied) in enumerate(rules):
        testbed = CommandTestbed(root / str(number), allowed, denied)
        explainer = _build_explainer(testbed, allowed, denied)
        for item in commands:
            if item.allowed is not allowed:
                continue
            line = item.line.replace("{root}", str(testbed.root))
            if (await explainer.explain_command(line)).decision != "allow":
                continue
            outcome.approved_lines.append(line)
            if harm := testbed.run(line, only_protected=allowed is WRITING_RULES):
                outcome.harm_by_line[line] = harm
    return outcome


async def run_hostile_by_default(root: Path, lines: Iterable[str]) -> CorpusOutcome:
    """Judge each without any rule, where a sandbox works; run what would run unasked as joey would,
    but without the sandbox, in a repository that names programs for git."""
    testbed = CommandTestbed(root / "default", READING_RULES, has_git_helpers=True)
    home = testbed.root / "joey-home"
    explainer = PermissionExplainer(testbed.work, PermissionFlags(), home=home, env=_ENVIRONMENT)
    outcome = CorpusOutcome(0, [], {})
    for template in dict.fromkeys(lines):
        line = template.replace("{root}", str(testbed.root))
        outcome.judged_count += 1
        if (await explainer.explain_command(line)).decision != "allow":
            continue
        outcome.approved_lines.append(line)
        preamble = build_reading_preamble(line, testbed.work)
        if harm := testbed.run(line, only_protected=False, preamble=preamble):
            outcome.harm_by_line[line] = harm
    return outcome


def list_default_hostile_lines() -> list[str]:
    """All hostile lines, and each way of git to look, once each."""
    hostile = (item.line for item in list_hostile_commands() if not item.denied)
    return list(dict.fromkeys((*READING_GIT_LINES, *hostile)))


async def check_harmless(
    root: Path, lines: Sequence[str], denied: tuple[str, ...] = ()
) -> dict[str, str]:
    """Those that would be asked about, with the reason."""
    testbed = CommandTestbed(root / "harmless", ALLOWED_RULES)
    explainer = _build_explainer(testbed, ALLOWED_RULES, denied)
    explained = {line: await explainer.explain_command(line) for line in lines}
    return {line: why.reason for line, why in explained.items() if why.decision != "allow"}


async def check_projects(root: Path) -> dict[str, str]:
    """The commands of public projects that would be asked about under their rules."""
    testbed = CommandTestbed(root / "projects", ALLOWED_RULES)
    asked: dict[str, str] = {}
    for line, rules in load_project_lines():
        why = await _build_explainer(testbed, rules).explain_command(line)
        if why.decision != "allow":
            asked[line] = why.reason
    return asked


def _build_explainer(
    testbed: CommandTestbed, allowed: tuple[str, ...], denied: tuple[str, ...] = ()
) -> PermissionExplainer:
    home = testbed.root / "joey-home"
    flags = PermissionFlags(allow=allowed, deny=denied, no_sandbox=True)
    return PermissionExplainer(testbed.work, flags, home=home, env=_ENVIRONMENT)


def sample_commands(
    commands: Sequence[HostileCommand], size: int, seed: int
) -> list[HostileCommand]:
    return random.Random(seed).sample(commands, size)


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")


async def main() -> int:
    hostile, harmless = list_hostile_commands(), list_harmless_commands()
    with tempfile.TemporaryDirectory() as directory:
        outcome = await run_hostile(Path(directory), hostile)
        default = await run_hostile_by_default(Path(directory), list_default_hostile_lines())
        asked = await check_harmless(Path(directory), harmless)
    for line, harm in (*outcome.harm_by_line.items(), *default.harm_by_line.items()):
        _print_line(f"HARM  {line!r}: {harm}")
    for line, reason in asked.items():
        _print_line(f"asked {line!r}: {reason}")
    rate = 1 - len(asked) / len(harmless)
    _print_line(
        f"hostile: {outcome.judged_count} judged, {len(outcome.approved_lines)} ran unasked,"
        f" {len(outcome.harm_by_line)} did harm"
    )
    _print_line(
        f"hostile, no rules: {default.judged_count} judged, {len(default.approved_lines)} ran"
        f" unasked, {len(default.harm_by_line)} did harm"
    )
    _print_line(f"harmless: {len(harmless)} judged, {rate:.1%} ran unasked")
    return 1 if outcome.harm_by_line or default.harm_by_line or rate < 0.95 else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
