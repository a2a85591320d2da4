"""The sandbox that is prepared for the next command: used only while it is as it has to be."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from joey.execution.sandbox.sandbox import SandboxBackend
from joey.execution.terminal import LocalTerminal
from joey.ports.execution import SandboxLevel
from tests.harness.execution.fork_servers import output, wait_for_spare


def make_repository(place: Path) -> None:
    """Without hooks."""
    subprocess.run(["git", "init", "-q", "--template=", place], check=True)


def list_names(place: Path) -> list[str]:
    return [each.name for each in place.iterdir()]


def replace_directory(place: Path) -> None:
    place.rename(f"{place}-moved")
    (place / ".roo").mkdir(parents=True)
    (place / "new").touch()


async def supervisor_of(terminal: LocalTerminal, cwd: Path) -> int:
    running = await terminal.start("true", cwd, None)
    async with asyncio.timeout(20):
        await running.wait()
    return running.pid


async def test_the_next_command_runs_in_the_sandbox_that_waits(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    await output(terminal, tmp_path, "true")
    waiting = await wait_for_spare()
    assert await supervisor_of(terminal, tmp_path) == waiting


async def test_names_that_are_occupied_for_a_command_are_free_while_a_sandbox_waits(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    for _ in range(2):
        await output(terminal, tmp_path, "true")
        await wait_for_spare()
        assert list_names(tmp_path) == [".roo"]


async def test_the_text_of_a_command_arrives_as_it_is(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    text = 'it\'s \\ "$HOME" `x` \n\t ü \udcff * {a,b} ' + "x" * 100_000
    command = f"cat <<'END'\n{text}\nEND"
    await output(terminal, tmp_path, "true")
    for _ in range(2):
        artifact = tmp_path.parent / "artifact"
        running = await terminal.start(command, tmp_path, artifact)
        async with asyncio.timeout(20):
            await running.wait()
        assert artifact.read_bytes() == os.fsencode(text) + b"\n"


async def test_a_directory_that_has_taken_the_place_of_the_workspace_is_the_workspace(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    await output(terminal, tmp_path, "touch old")
    await wait_for_spare()
    replace_directory(tmp_path)
    assert await output(terminal, tmp_path, "ls") == "new\n0"


@pytest.mark.parametrize("name", [".roomodes", "deep/.roo/mcp.json", ".git/config"])
async def test_a_protected_file_that_was_replaced_meanwhile_is_protected(
    terminal: LocalTerminal, tmp_path: Path, name: str
) -> None:
    make_repository(tmp_path)
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("first", encoding="utf-8")
    await output(terminal, tmp_path, "true")
    await wait_for_spare()
    other = tmp_path / "other"
    other.write_text("second", encoding="utf-8")
    other.replace(file)
    await output(terminal, tmp_path, f"echo third > {name}; mv {name} away; rm -f {name}")
    assert file.read_text(encoding="utf-8") == "second"


async def test_a_protected_file_that_is_new_is_protected(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    await output(terminal, tmp_path, "true")
    await wait_for_spare()
    (tmp_path / ".vscode").mkdir()
    (tmp_path / ".vscode/tasks.json").write_text("mine", encoding="utf-8")
    await output(terminal, tmp_path, "echo theirs > .vscode/tasks.json; rm -rf .vscode")
    assert (tmp_path / ".vscode/tasks.json").read_text(encoding="utf-8") == "mine"


async def test_hooks_cannot_be_made_in_a_repository_without_any(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    make_repository(tmp_path)
    for _ in range(2):
        await output(terminal, tmp_path, "mkdir -p .git/hooks; echo bad > .git/hooks/post-checkout")
        assert not (tmp_path / ".git/hooks").exists()
        await wait_for_spare()


async def test_the_next_command_runs_when_the_sandbox_that_waits_was_killed(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    await output(terminal, tmp_path, "true")
    os.kill(await wait_for_spare(), signal.SIGKILL)
    assert await output(terminal, tmp_path, "echo again") == "again\n0"


async def test_nothing_of_the_sandbox_that_waits_stays_when_the_task_ends(
    terminal: LocalTerminal, tmp_path: Path, confinement: SandboxBackend
) -> None:
    await output(terminal, tmp_path, "true")
    spare = psutil.Process(await wait_for_spare())
    family = [spare, *spare.children(recursive=True)]
    assert len(family) >= (4 if confinement.level is SandboxLevel.FULL else 2)
    await terminal.close()
    _, alive = await asyncio.to_thread(psutil.wait_procs, family, 20)
    assert alive == []
