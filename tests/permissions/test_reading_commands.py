"""Commands that only read run unasked in a sandbox, and start no helpers of git."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from joey.app.options import PermissionFlags
from joey.app.permission_explanations import PermissionExplainer
from joey.app.sandbox import detect_sandbox
from joey.core.permissions.reading_commands import READING_RULES, build_reading_preamble
from joey.ports.execution import SandboxLevel
from tests.harness.permissions.command_testbed import CommandTestbed
from tests.harness.permissions.corpus import (
    READING_GIT_LINES,
    list_default_hostile_lines,
    run_hostile_by_default,
)

SAMPLE = 1_500
SEED = 20_261_118
READING_LINES = (
    "ls",
    "ls -la src",
    "git status",
    "git status --short && git diff --stat",
    "git diff",
    "git --no-pager log --oneline -5",
    "git show HEAD",
    "git blame README.md",
    "rg TODO src",
    "grep -rn TODO src",
    "cat README.md | head -20",
    "find src -name '*.py'",
    "find src -name '*.py' | xargs grep -n main",
    "sed -n 1,20p README.md",
    "awk '{print $1}' README.md",
    "cd src && ls",
    "wc -l README.md",
    "echo --- && pwd",
    "test -e README.md && cat src/../README.md",
    "diff -r src payload",
    "cd '' && cat README.md",
    "jq .env package.json",
    "jq '.\"env\" | .environment' package.json",
)
ASKED_LINES = (
    "rm README.md",
    "touch x",
    "ls > x",
    "ls && touch x",
    "git commit -m x",
    "git checkout main",
    "git fetch",
    "git -c core.fsmonitor=./evil.sh status",
    "git config --list",
    "git diff --output=x",
    "git diff --ext-diff",
    "git diff --submodule=log",
    "git status --ignore-submodules=none",
    "git describe --dirty",
    "git show --textconv HEAD:src/app.py",
    "git cat-file --filters HEAD:src/app.py",
    "git cat-file --text HEAD:src/app.py",
    "git status -v",
    "git status -svv",
    "git status --verbose",
    "git log --show-signature",
    "git grep -O./evil.sh main",
    "git remote show origin",
    "rg --pre ./evil.sh x",
    "rg -z x",
    "find . -exec ./evil.sh ;",
    "find . -delete",
    "find -L . -name secret",
    "grep -R x .",
    "sed -i s/a/b/ README.md",
    "sed -n 'w x' README.md",
    "awk 'BEGIN { system(\"./evil.sh\") }'",
    "sort -o x README.md",
    "cat link",
    "cat ../outside/secret",
    "cat /etc/passwd",
    "cat ~/.netrc",
    "cd dirlink && cat secret",
    "ls -la dirlink/",
    "diff -r sub src/../dirlink",
    "cd '' && cat link",
    "cd '' && cat ../outside/secret",
    "env",
    "jq -n env",
    "jq -n 'env.HOME'",
    "jq -n '$ENV'",
    "jq -n '$ ENV.HOME'",
    "jq -n '\"\\(env)\"'",
    "printenv",
    "git whatchanged",
    "ps aux",
    "curl http://localhost",
    "./ls",
    "src/git status",
    "python3 -c 'print(1)'",
    "PAGER=./evil.sh git log",
    "GIT_EXTERNAL_DIFF=./evil.sh git diff",
    "xargs cat",
    "less README.md",
    "tee x",
)


def require_sandbox() -> None:
    if detect_sandbox().level is SandboxLevel.NONE:
        pytest.skip("no sandbox works on this machine")


def build_explainer(testbed: CommandTestbed, **flags: object) -> PermissionExplainer:
    given = PermissionFlags(**flags)  # type: ignore[arg-type]
    home = testbed.root / "joey-home"
    return PermissionExplainer(testbed.work, given, home=home, env={"PATH": "/usr/bin:/bin"})


@pytest.fixture
def testbed(tmp_path: Path) -> CommandTestbed:
    return CommandTestbed(tmp_path, READING_RULES)


async def list_unasked(explainer: PermissionExplainer, lines: tuple[str, ...]) -> list[str]:
    return [line for line in lines if (await explainer.explain_command(line)).decision == "allow"]


@pytest.mark.contract("permissions:reading")
async def test_sandboxed_commands_that_only_read_run_unasked(testbed: CommandTestbed) -> None:
    require_sandbox()

    assert await list_unasked(build_explainer(testbed), READING_LINES) == list(READING_LINES)


@pytest.mark.contract("permissions:reading")
async def test_other_commands_are_asked_about_as_before(testbed: CommandTestbed) -> None:
    assert await list_unasked(build_explainer(testbed), ASKED_LINES) == []


@pytest.mark.contract("permissions:reading")
@pytest.mark.parametrize("flags", [{"no_sandbox": True}, {"require_approval": True}])
async def test_reading_is_asked_about_without_a_sandbox_and_with_a(
    testbed: CommandTestbed, flags: dict[str, bool]
) -> None:
    assert await list_unasked(build_explainer(testbed, **flags), READING_LINES) == []


@pytest.mark.contract("permissions:reading")
async def test_reading_is_asked_about_where_reading_files_is(testbed: CommandTestbed) -> None:
    home = testbed.root / "joey-home"
    home.mkdir()
    (home / "settings.json").write_text('{"alwaysAllowReadOnly": false}')

    assert await list_unasked(build_explainer(testbed), READING_LINES) == []


@pytest.mark.contract("permissions:reading")
async def test_a_denied_program_is_not_run_because_it_only_reads(testbed: CommandTestbed) -> None:
    explainer = build_explainer(testbed, deny=("git", "rg"))

    assert await list_unasked(explainer, ("git status", "rg x", "ls | git diff")) == []


@pytest.mark.contract("permissions:reading")
async def test_hidden_files_are_not_shown_by_commands_that_read(testbed: CommandTestbed) -> None:
    require_sandbox()
    (testbed.work / ".rooignore").write_text("other\n")
    lines = (
        *("cat other", "rg a", "grep -r a .", "git diff", "git show HEAD:other", "git log -p"),
        *("git status -v", "diff . src", "diff -N . src", "diff -y src ."),
        *("find . -type f | xargs cat", "diff -r . src", "git grep a", "stat other"),
    )
    explainer = build_explainer(testbed)

    assert await list_unasked(explainer, lines) == []
    assert await list_unasked(explainer, ("ls", "git status", "cat README.md", "grep a README.md"))


@pytest.mark.contract("permissions:reading")
async def test_output_of_an_allowed_command_may_be_piped_to_a_reader(
    testbed: CommandTestbed,
) -> None:
    require_sandbox()
    explainer = build_explainer(testbed, allow=("npm test",))
    unasked = ("npm test 2>&1 | tail -5", "cd src && npm test")
    asked = (
        "npm test && git diff",
        "npm test && sed -i s/a/b/ README.md",
        "npm test | sort -o x",
        "npm test | xargs cat",
        "npm test | tee x",
    )

    assert await list_unasked(explainer, (*unasked, *asked)) == list(unasked)


@pytest.mark.contract("permissions:reading", "permissions:corpus")
async def test_no_hostile_command_does_harm_because_it_only_reads(tmp_path: Path) -> None:
    require_sandbox()
    lines = random.Random(SEED).sample(list_default_hostile_lines(), SAMPLE)
    outcome = await run_hostile_by_default(tmp_path, (*READING_GIT_LINES, *lines))

    assert outcome.harm_by_line == {}
    assert len(outcome.approved_lines) >= len(READING_GIT_LINES)


def test_the_repository_of_the_corpus_makes_git_run_programs(tmp_path: Path) -> None:
    testbed = CommandTestbed(tmp_path, READING_RULES, has_git_helpers=True)
    harm = [testbed.run(line, only_protected=False) for line in ("git diff", "git status")]
    harm.append(testbed.run("cd nested && git diff", only_protected=False))

    assert all(each is not None and "it ran evil.sh" in each for each in harm)


def test_a_merge_driver_of_the_repository_shows_no_merge(tmp_path: Path) -> None:
    """`log.diffMerges=remerge` would run it."""
    preamble = build_reading_preamble("git log", tmp_path)
    done = subprocess.run(
        ["bash", "-c", f"{preamble}\ngit config log.diffMerges"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "GIT_CONFIG_COUNT": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "separate\n"


def test_a_file_of_revisions_that_blame_ignores_is_not_shown(testbed: CommandTestbed) -> None:
    """git names the first line of it that is none, and the configuration says where it lies."""
    secret = testbed.root / "outside/secret"
    config = ["git", "config", "blame.ignoreRevsFile", str(secret)]
    subprocess.run(config, cwd=testbed.work, check=True)
    preamble = build_reading_preamble("git blame README.md", testbed.work)

    done = subprocess.run(
        ["bash", "-c", f"{preamble}\ngit blame README.md"],
        cwd=testbed.work,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_programs_of_the_workspace_are_not_found_through_a_link(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "bin").mkdir(parents=True)
    (work / "bin" / "ls").write_text("#!/bin/sh\necho planted\n", encoding="utf-8")
    (work / "bin" / "ls").chmod(0o755)
    (tmp_path / "link").symlink_to(work)
    for path in (work / "bin", tmp_path / "link" / "bin", work / ".." / "work" / "bin"):
        done = subprocess.run(
            ["bash", "-c", f"{build_reading_preamble('ls', work)}\nls {work}/bin"],
            cwd=work,
            env={"PATH": f"{path}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "ls\n"
