"""What an allowed command reaches through links is judged like any other place."""

from __future__ import annotations

from pathlib import Path

import pytest

from joey.core.permissions.decisions import Allow, Ask, Decision, Deny
from joey.core.permissions.policy import decide
from joey.core.settings import Settings
from joey.ports import ToolContext
from joey.tools.execute_command import ExecuteCommand
from tests.tools.shell_context import make_context

tool = ExecuteCommand()
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
    return decide(prepared.claims, settings)


def rules(*allowed: str, read_outside: bool = False) -> Settings:
    return Settings(
        always_allow_execute=True,
        allowed_commands=allowed,
        always_allow_read_only_outside_workspace=read_outside,
    )


@pytest.mark.requirement("permissions:paths:outside")
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


@pytest.mark.requirement("permissions:commands:harmless")
@pytest.mark.parametrize(
    "command",
    [
        *("cat near", "cat plain.txt missing", "cd sub && ls", "ls sub", "cat granted.txt"),
        *("cat /dev/null", "make CFLAGS=-O2 -j4 all", "cat http://example.com"),
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
        assert str(tmp_path / "outside" / "secret.txt") in verdict.reason


async def test_more_words_than_can_be_looked_up_are_for_a_person(tmp_path: Path) -> None:
    workspace(tmp_path)
    command = "cat " + " ".join(f"{number:x}" for number in range(4_000)) + " link.txt"
    assert isinstance(await judged(tmp_path, command, rules(*ALLOWED)), Ask)


@pytest.mark.parametrize(
    "command", ["cd sub && cat hidden.txt", "cd sub; true; head hidden.txt > x"]
)
async def test_a_hidden_file_is_found_from_the_folder_that_the_line_went_to(
    tmp_path: Path, command: str
) -> None:
    root = workspace(tmp_path)
    (root / ".rooignore").write_text("hidden.txt\n")
    (root / "sub" / "hidden.txt").write_text("x")
    assert isinstance(await judged(tmp_path, command, rules("*")), Deny)


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
    if isinstance(decide(prepared.claims, settings), Allow):
        await tool.run(prepared, ctx, None)
    assert not (ctx.files.root / "canary").exists()
