"""What an allowed command reaches through links is judged like any other place."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from joey.core.permissions.policy import Allow, Ask, Decision, Deny, decide
from joey.core.permissions.reasons import format_reasons
from joey.core.settings import Settings
from joey.execution.bash_grammar import BashGrammar
from joey.ports.tool_context import ToolContext
from joey.tools.execute_command import ExecuteCommand
from tests.harness.tools.tool_context import make_context

tool = ExecuteCommand()
CHANGING = (
    *("cp", "mv", "rm", "tee", "touch", "mkdir", "ln", "chmod", "dd", "make", "cat", "ls", "cd"),
    *("grep", "git", "echo"),
)
ALLOWED = ("cat", "head", "cd", "pushd", "ls", "tee", "wc", "make", "cat granted.txt")


def workspace(tmp_path: Path) -> Path:
    """Links of all kinds that lead out of the workspace, and some that do not."""
    outside, root = tmp_path / "outside", tmp_path / "work"
    outside.mkdir()
    (root / "sub").mkdir(parents=True)
    (outside / "secret.txt").write_text("secret\n")
    (root / "plain.txt").write_text("plain\n")
    (root / "link.txt").symlink_to(outside / "secret.txt")
    (root / "granted.txt").symlink_to(outside / "secret.txt")
    (root / "dangling").symlink_to(outside / "later")
    (root / "folder").symlink_to(outside)
    (root / "sub" / "deep").symlink_to("../link.txt")
    (root / "near").symlink_to("plain.txt")
    return root


async def judged(tmp_path: Path, command: str, settings: Settings) -> Decision:
    ctx: ToolContext = make_context(tmp_path, settings=settings)
    prepared = await tool.prepare(tool.parse({"command": command}), ctx)
    return decide(prepared.claims, settings, BashGrammar().parse_chain)


def rules(*allowed: str, read_outside: bool = False) -> Settings:
    return Settings(
        always_allow_execute=True,
        allowed_commands=allowed,
        always_allow_read_only_outside_workspace=read_outside,
    )


@pytest.mark.contract("permissions:paths")
@pytest.mark.parametrize(
    "command",
    [
        *(
            "cat link.txt",
            "head -n 1 folder/secret.txt",
            "ls folder/",
            "ls folder",
            "cat 'link.txt'",
        ),
        *("cd folder && cat secret.txt", "cd folder; ls", "cd -P folder", "pushd folder && ls"),
        *("cd sub && cat deep", "cd sub || cat deep", "cd sub | cat deep", "cat sub/deep"),
        *("wc --files0-from=link.txt", "make -flink.txt", "make -sflink.txt", "make DATA=link.txt"),
        *("tee dangling", "ls && cat plain.txt link.txt", "cat granted.txt link.txt"),
    ],
)
async def test_an_allowed_program_does_not_reach_outside_through_a_link(
    tmp_path: Path, command: str
) -> None:
    workspace(tmp_path)
    assert isinstance(await judged(tmp_path, command, rules(*ALLOWED)), Ask)


@pytest.mark.contract("permissions:words")
@pytest.mark.parametrize(
    "command",
    [
        *("cat near", "cat plain.txt missing", "cd sub && ls", "ls sub", "cat granted.txt"),
        *("cat /dev/null", "make -j4 all", "cat http://example.com"),
    ],
)
async def test_what_stays_inside_or_is_named_by_a_rule_runs_unasked(
    tmp_path: Path, command: str
) -> None:
    workspace(tmp_path)
    assert isinstance(await judged(tmp_path, command, rules(*ALLOWED)), Allow)


async def test_with_everything_allowed_links_do_not_matter(tmp_path: Path) -> None:
    workspace(tmp_path)
    assert await judged(tmp_path, "cat link.txt", rules("*")) == Allow("*")


async def test_leave_to_read_outside_covers_programs_that_only_look(tmp_path: Path) -> None:
    workspace(tmp_path)
    settings = rules(*ALLOWED, read_outside=True)
    assert isinstance(await judged(tmp_path, "cat link.txt", settings), Allow)
    assert isinstance(await judged(tmp_path, "tee link.txt", settings), Ask)
    assert isinstance(await judged(tmp_path, "cat link.txt && tee link.txt", settings), Ask)
    assert isinstance(await judged(tmp_path, "tee link.txt && cat link.txt", settings), Ask)


async def test_the_question_names_the_place_behind_the_link(tmp_path: Path) -> None:
    workspace(tmp_path)
    for command in ("cat link.txt", "make link.txt"):
        verdict = await judged(tmp_path, command, rules(*ALLOWED))
        assert isinstance(verdict, Ask)
        assert str(tmp_path / "outside" / "secret.txt") in format_reasons(verdict.reasons)


async def test_more_arguments_than_can_be_looked_up_are_for_a_user(tmp_path: Path) -> None:
    workspace(tmp_path)
    command = "cat " + " ".join(f"{number:x}" for number in range(4_000)) + " link.txt"
    assert isinstance(await judged(tmp_path, command, rules(*ALLOWED)), Ask)


async def test_a_word_of_more_steps_than_can_be_gone_is_for_a_user(tmp_path: Path) -> None:
    workspace(tmp_path)
    command = "cat " + "./a," * 4_000
    async with asyncio.timeout(60):
        assert isinstance(await judged(tmp_path, command, rules(*ALLOWED)), Ask)


@pytest.mark.parametrize(
    "command", ["cd sub && cat hidden.txt", "cd sub; true; head hidden.txt > x"]
)
async def test_a_hidden_file_is_found_from_the_directory_that_the_line_went_to(
    tmp_path: Path, command: str
) -> None:
    root = workspace(tmp_path)
    (root / ".rooignore").write_text("hidden.txt\n")
    (root / "sub" / "hidden.txt").write_text("x")
    assert isinstance(await judged(tmp_path, command, rules("*")), Deny)


@pytest.mark.parametrize(
    "command",
    [
        *("grep -fhidden.txt plain.txt", "grep --file=hidden.txt plain.txt", "stat hidden.txt"),
        *("cp hidden.txt shown.txt", "jq . hidden.txt", "git diff --no-index plain.txt hidden.txt"),
        *("file -b alias.txt", "grep -n x -f hidden.txt"),
    ],
)
async def test_no_rule_lets_a_command_name_a_hidden_file(tmp_path: Path, command: str) -> None:
    root = workspace(tmp_path)
    (root / ".rooignore").write_text("hidden.txt\n")
    (root / "hidden.txt").write_text("x")
    (root / "alias.txt").symlink_to("hidden.txt")
    programs = ("grep", "stat", "cp", "jq", "git", "cd", "file")
    assert isinstance(await judged(tmp_path, command, rules(*programs)), Deny | Ask)
    shown = command.replace("hidden.txt", "plain.txt").replace("alias.txt", "plain.txt")
    if not shown.startswith("git"):
        assert isinstance(await judged(tmp_path, shown, rules(*programs)), Allow)


async def test_a_word_that_is_too_long_for_a_name_hides_nothing(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (root / ".rooignore").write_text("hidden/\n")
    assert isinstance(await judged(tmp_path, f"cat {'x' * 300}", rules("*")), Allow)


async def test_a_variable_set_by_printf_does_not_run_a_program_of_the_workspace(
    tmp_path: Path,
) -> None:
    settings = rules("printf", "git status")
    ctx = make_context(tmp_path, settings=settings)
    program = ctx.files.root / "git"
    program.write_text("#!/bin/sh\n: > canary\n")
    program.chmod(0o755)
    prepared = await tool.prepare(tool.parse({"command": "printf -v PATH . && git status"}), ctx)
    if isinstance(decide(prepared.claims, settings, BashGrammar().parse_chain), Allow):
        await tool.run_prepared(prepared, ctx, None)
    assert not (ctx.files.root / "canary").exists()


@pytest.mark.contract("permissions:protected")
@pytest.mark.parametrize(
    "command",
    [
        *("cp plain.txt .git/config", "tee .npmrc", "touch ./.vscode/tasks.json", "rm AGENTS.md"),
        *(
            "cp plain.txt .GIT/config",
            "mv plain.txt hooks/pre-commit",
            "dd of=.npmrc",
            "mkdir .roo",
        ),
        *("cd .git && touch config", "cd hooks; touch x", "cd .git || rm config", "cp -t .git x"),
        *("ln -s .git g", "ls && rm .git/config", "make .npmrc", "cp plain.txt sub/../.npmrc"),
        *("mv sub new", "rm sub", "chmod 777 sub", "cp sub new", "mv -vt new sub"),
    ],
)
async def test_a_command_that_would_change_what_is_protected_is_for_a_user(
    tmp_path: Path, command: str
) -> None:
    root = workspace(tmp_path)
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / "hooks").symlink_to(".git/hooks")
    assert isinstance(await judged(tmp_path, command, rules(*CHANGING)), Ask)


@pytest.mark.parametrize(
    "command",
    [
        *(
            "cat .npmrc",
            "ls .git",
            "grep -rn x .github",
            "cp plain.txt new.txt",
            "mv plain.txt sub",
        ),
        *("rm plain.txt", "touch sub/new", "mkdir -p sub/deeper", "ls .roo"),
        *("git log -- .github", "git diff .gitattributes", "echo .git", "tee new.txt", "rm .npmrc"),
    ],
)
async def test_reading_what_is_protected_and_changing_the_rest_needs_nobody(
    tmp_path: Path, command: str
) -> None:
    workspace(tmp_path)
    allowed = rules(*CHANGING, "rm .npmrc")
    assert isinstance(await judged(tmp_path, command, allowed), Allow)


INSTALLING = ("git clone", "pip install", "python -m pip install", "uv add", "npm install", "touch")


@pytest.mark.parametrize(
    "command",
    [
        "git clone https://git.example/x/black.git",
        "git clone --depth 1 https://git.example/x/black.git new",
        "pip install pre-commit",
        "pip install -U ruff pre-commit",
        "python -m pip install --upgrade pre-commit",
        "uv add --dev pre-commit",
        "npm install pre-commit",
    ],
)
async def test_an_address_or_a_package_is_not_taken_for_a_protected_file(
    tmp_path: Path, command: str
) -> None:
    workspace(tmp_path)
    assert isinstance(await judged(tmp_path, command, rules(*INSTALLING)), Allow)


@pytest.mark.contract("permissions:protected")
@pytest.mark.parametrize(
    "command",
    [
        "git clone https://git.example/x/.roo.git",
        "git clone https://git.example/x/.husky",
        "git clone https://git.example/x/black.git .roo",
        "git clone sub https://git.example/x/black.git",
        "git clone sub new.git",
        "touch pre-commit",
        "pip install -e pre-commit",
        "pip install -r ./pre-commit",
        "pip install ruff && touch pre-commit",
    ],
)
async def test_what_is_cloned_or_installed_into_a_protected_place_is_for_a_user(
    tmp_path: Path, command: str
) -> None:
    workspace(tmp_path)
    assert isinstance(await judged(tmp_path, command, rules(*INSTALLING)), Ask)


@pytest.mark.contract("permissions:words")
@pytest.mark.parametrize(
    "command", ["cd sub && git status", "cd sub/inner && git log", "cd sub; git"]
)
async def test_git_does_not_run_unasked_in_a_directory_that_looks_like_a_repository(
    tmp_path: Path, command: str
) -> None:
    root = workspace(tmp_path)
    (root / "sub" / "inner").mkdir()
    assert isinstance(await judged(tmp_path, command, rules("cd", "git")), Allow)
    (root / "sub" / "HEAD").write_text("ref: refs/heads/main\n")
    assert isinstance(await judged(tmp_path, command, rules("cd", "git")), Ask)
