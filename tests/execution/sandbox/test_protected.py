"""Protected names of the workspace, while commands do their worst."""

from __future__ import annotations

import asyncio
import re
import subprocess
import tempfile
from pathlib import Path

import pytest

from joey.core.settings import Settings
from joey.execution.sandbox.restore import ProtectedFileRestorer
from tests.harness.execution.actor import CommandStep
from tests.harness.execution.sandbox import EVIL, SandboxHarness, kill_joey, on_diagonal, tree


def create_protected_files(harness: SandboxHarness) -> None:
    for name in (".vscode/settings.json", ".roo/mcp.json", "AGENTS.md", ".github/workflows/a.yml"):
        file = harness.workspace / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{name} as it was", encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(harness.workspace)], check=True)


@on_diagonal
@pytest.mark.contract("sandbox:protected")
async def test_what_is_protected_is_afterwards_as_it_was(harness: SandboxHarness) -> None:
    create_protected_files(harness)
    before = tree(harness.workspace)
    await harness.run(
        f"echo {EVIL} > .vscode/settings.json; echo {EVIL} > .vscode/tasks.json",
        f"mv .vscode x && mkdir .vscode && echo {EVIL} > .vscode/settings.json",
        f"rm -rf .roo; mkdir .roo; echo {EVIL} > .roo/mcp.json; rm AGENTS.md",
        f"echo {EVIL} > new; mv -f new AGENTS.md; ln -sf /etc/passwd AGENTS.md",
        f"echo {EVIL} >> .git/config; git config core.fsmonitor {EVIL}",
        f"echo {EVIL} > .git/hooks/pre-commit; mv .git/hooks .git/moved; mkdir .git/hooks",
        f"mv .git g && mkdir .git && echo {EVIL} > .git/config",
        f"echo ../{EVIL} > .git/commondir; chmod -R 777 .roo; touch .github/workflows/b.yml",
    )
    after = tree(harness.workspace)
    # What a command has moved to names of its own is its own.
    moved = re.compile(r"(x|new|g|\.git/moved)(/|$)")
    assert {name: text for name, text in after.items() if not moved.match(name)} == before


@on_diagonal
@pytest.mark.contract("sandbox:protected")
async def test_protected_names_that_were_absent_are_so_again_afterwards(
    harness: SandboxHarness,
) -> None:
    answers = await harness.run(
        f"mkdir -p .vscode; echo {EVIL} > .vscode/tasks.json",
        f"echo {EVIL} > AGENTS.md; echo {EVIL} > .roomodes; mkdir .roo; echo {EVIL} > .roo/a",
        f"mkdir -p .git/hooks; echo {EVIL} > .git/hooks/pre-commit; git init",
        f"mkdir d; echo {EVIL} > d/f; mv d .idea; ln -s d .husky; mv d/f .npmrc; rm -rf d f",
        f"mkdir -p .github/a; echo {EVIL} > .github/a/b; chmod 0 .github/a .github; mkfifo .envrc",
        "mkdir .claude; chmod 500 .claude; ln -s /etc/passwd .npmrc; chmod 0 .",
        "echo fine > ordinary.txt",
    )
    assert [path.name for path in harness.workspace.iterdir()] == ["ordinary.txt"]
    assert all(not answer.error for answer in answers)


@on_diagonal
async def test_a_user_can_open_a_protected_name(harness: SandboxHarness) -> None:
    opened = Settings(sandbox_writable=(".vscode", ".git"))
    (answer,) = await harness.run(
        "mkdir .vscode && echo mine > .vscode/a && git init -q && git config a.b c", settings=opened
    )
    assert answer.exit_code == 0, answer.output
    assert (harness.workspace / ".vscode/a").read_text(encoding="utf-8") == "mine\n"
    assert "b = c" in (harness.workspace / ".git/config").read_text(encoding="utf-8")


@on_diagonal
async def test_what_a_command_made_of_a_protected_file_is_not_lost(harness: SandboxHarness) -> None:
    said = await harness.output("echo precious > AGENTS.md")
    assert "AGENTS.md is protected and was removed again" in said
    (kept,) = (harness.home / ".roo/put-aside").rglob("AGENTS.md")
    assert kept.read_text(encoding="utf-8") == "precious\n"
    assert kept.parent.stat().st_mode & 0o777 == 0o700


@on_diagonal
async def test_commands_side_by_side_leave_no_placeholder(harness: SandboxHarness) -> None:
    answers = await harness.run(
        CommandStep("echo up; sleep 2; echo x > AGENTS.md", until="up", then="leave"),
        "echo x > AGENTS.md; mkdir -p .vscode; echo x > .vscode/a",
        CommandStep("echo up; sleep 60", until="up", then="kill"),
        "sleep 3; echo x > AGENTS.md; cat AGENTS.md",
    )
    assert len(answers) == 4
    assert list(harness.workspace.iterdir()) == []


async def test_what_a_killed_joey_left_in_place_of_names_is_tidied_up(
    harness: SandboxHarness,
) -> None:
    if not harness.is_full:
        pytest.skip("nothing is put in place of names at this level")
    process = await harness.start(
        CommandStep("echo up; sleep 300", until="up", then="leave"), lingers=True
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        await process.stdout.readline()
        assert (harness.workspace / ".vscode").is_dir()
        assert await kill_joey(process) == []
    assert list(harness.workspace.iterdir()) == []


@on_diagonal
async def test_what_was_made_before_joey_was_killed_is_put_aside(harness: SandboxHarness) -> None:
    step = CommandStep(
        "echo x > AGENTS.md; mkdir .idea; echo up; sleep 300", until="up", then="leave"
    )
    process = await harness.start(step, lingers=True)
    assert process.stdout is not None
    async with asyncio.timeout(60):
        await process.stdout.readline()
        assert (harness.workspace / "AGENTS.md").is_file()
        assert await kill_joey(process) == []
    assert list(harness.workspace.iterdir()) == []
    assert len([*(harness.home / ".roo/put-aside").rglob("AGENTS.md")]) == 1


async def test_what_a_process_left_behind_makes_later_is_put_aside_with_its_end(
    harness: SandboxHarness,
) -> None:
    if not harness.is_full:
        pytest.skip("it stays at this level")
    late = "(until [ -e go ]; do sleep 0.1; done; echo x > AGENTS.md; touch made; sleep 300) &"
    answers = await harness.run(late, "touch go; until [ -e made ]; do sleep 0.1; done")
    assert answers[0].left_running
    assert {path.name for path in harness.workspace.iterdir()} == {"go", "made"}
    assert len([*(harness.home / ".roo/put-aside").rglob("AGENTS.md")]) == 1


@pytest.mark.contract("sandbox:protected")
async def test_no_file_is_taken_for_a_directory_while_a_command_runs(
    harness: SandboxHarness,
) -> None:
    process = await harness.start(
        CommandStep("ls -A; echo up; sleep 300", until="up", then="leave"), lingers=True
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        await process.stdout.readline()
        seen = {path.name for path in harness.workspace.iterdir()}
        assert await kill_joey(process) == []
    assert seen == ({".git", ".roo", ".vscode"} if harness.is_full else set())


SHARED = Path("/dev/shm")


def test_what_cannot_be_carried_to_another_disk_keeps_another_name(tmp_path: Path) -> None:
    if not SHARED.is_dir() or SHARED.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is one disk only")
    with tempfile.TemporaryDirectory(dir=SHARED) as home:
        guard = ProtectedFileRestorer(
            str(tmp_path), ["AGENTS.md", ".idea"], [], f"{home}/put-aside/1", f"{home}/written"
        )
        (tmp_path / "AGENTS.md").write_bytes(b"x" * 2 * 1024**2)
        (tmp_path / ".idea").mkdir()
        (tmp_path / ".idea/a").write_text("small", encoding="utf-8")
        large, small = guard.restore_all()
        assert Path(f"{home}/put-aside/1/.idea/a").read_text(encoding="utf-8") == "small"
    (left,) = tmp_path.iterdir()
    assert left.name.startswith("AGENTS.md.put-aside-")
    assert left.name in large
    assert left.stat().st_size == 2 * 1024**2
    assert ".idea is protected and was removed again" in small


def test_what_is_too_deep_to_be_copied_to_another_disk_is_not_removed(tmp_path: Path) -> None:
    if not SHARED.is_dir() or SHARED.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is one disk only")
    with tempfile.TemporaryDirectory(dir=SHARED) as home:
        guard = ProtectedFileRestorer(
            str(tmp_path), [".idea"], [], f"{home}/put-aside/1", f"{home}/none"
        )
        deep = tmp_path / ".idea" / "/".join("d" * 45)
        deep.mkdir(parents=True)
        (deep / "file").write_text("deep", encoding="utf-8")
        guard.restore_all()
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".idea.put-aside-")
    assert (left / deep.relative_to(tmp_path / ".idea") / "file").is_file()
