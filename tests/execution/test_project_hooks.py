"""Hooks that a project brings along: nothing of them runs before it is trusted as it is."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from joey.app.trust import WorkspaceTrust
from joey.core.permissions.policy import Access, Ask, Claim, decide
from joey.core.permissions.reasons import format_reasons
from joey.core.settings import Settings
from joey.engine.asks import Unattended
from joey.testing.script import Turn, call
from joey.workspace.files import LocalFiles
from tests.harness.engine.engine_harness import finish, wait_for_ending
from tests.harness.execution.hook_harness import HookHarness, failures, hook, said

READ = Turn(call("read_file", {"path": "a.txt"}))
UNTRUSTED = "The hooks of .roo/hooks.json are not used, because you have not trusted them"


async def work(harness: HookHarness, *turns: Turn) -> list[str]:
    """What the user is told; the task is done."""
    (harness.root / "a.txt").write_text("x")
    task = await harness.start(*(turns or (READ,)), finish(), policy=Unattended())
    await wait_for_ending(task)
    return said(task, "error")


@pytest.mark.contract("trust:bytes")
async def test_hooks_of_a_project_run_once_they_are_trusted(harness: HookHarness) -> None:
    harness.write_project_hooks(hook("beforeTool", "touch ran"))
    (warning,) = await work(harness)
    assert warning.startswith(UNTRUSTED)
    assert not (harness.root / "ran").exists()
    harness.trust()
    harness.set_user_hooks()
    assert await work(harness) == []
    assert (harness.root / "ran").exists()


@pytest.mark.contract("trust:bytes")
async def test_a_file_that_was_changed_after_trust_is_not_run(harness: HookHarness) -> None:
    harness.write_project_hooks(hook("beforeTool", "true"))
    harness.trust()
    harness.write_project_hooks(hook("beforeTool", "touch ran"))
    assert (await work(harness))[0].startswith(UNTRUSTED)
    assert not (harness.root / "ran").exists()


@pytest.mark.contract("trust:bytes")
@pytest.mark.parametrize(
    "command",
    ["sh tools/check.sh", "bash -c 'true && sh tools/check.sh'", "X=tools/check.sh;sh $X"],
)
async def test_a_script_that_was_changed_after_trust_is_not_run(
    harness: HookHarness, command: str
) -> None:
    script = harness.root / "tools/check.sh"
    script.parent.mkdir()
    script.write_text("true\n")
    harness.write_project_hooks(hook("beforeTool", command))
    harness.trust()
    script.write_text("touch ran\n")
    assert (await work(harness))[0].startswith(UNTRUSTED)
    assert not (harness.root / "ran").exists()


@pytest.mark.contract("trust:bytes")
async def test_a_helper_that_appears_beside_the_hooks_ends_their_trust(
    harness: HookHarness,
) -> None:
    (harness.root / ".roo/hooks").mkdir(parents=True)
    harness.write_project_hooks(
        hook("beforeTool", "cd .roo/hooks && if test -e new.sh; then . ./new.sh; fi")
    )
    harness.trust()
    (harness.root / ".roo/hooks/new.sh").write_text("touch ../../ran\n")
    assert (await work(harness))[0].startswith(UNTRUSTED)
    assert not (harness.root / "ran").exists()


@pytest.mark.contract("trust:bytes")
@pytest.mark.parametrize("on_failure", ["continue", "block"])
async def test_a_hook_that_is_changed_while_a_task_works_has_failed(
    harness: HookHarness, on_failure: str
) -> None:
    script = harness.root / "check.sh"
    script.write_text("true\n")
    harness.write_project_hooks(
        hook("beforeTool", "sh check.sh", tools=["read_file"], onFailure=on_failure)
    )
    harness.trust()
    (harness.root / "a.txt").write_text("x")
    change = Turn(call("execute_command", {"command": "echo 'touch ran' > check.sh", "cwd": None}))
    task = await harness.start(READ, change, READ, finish(), finish(), policy=Unattended())
    await wait_for_ending(task)
    assert not (harness.root / "ran").exists()
    assert any("it was changed since you trusted it" in text for text in said(task, "error"))
    assert bool(failures(task)) == (on_failure == "block")


@pytest.mark.contract("trust:bytes")
async def test_a_file_of_hooks_that_is_a_link_out_of_the_workspace_is_not_read(
    harness: HookHarness,
) -> None:
    outside = harness.root.parent / "hooks.json"
    outside.write_text(json.dumps([hook("beforeTool", "touch ran")]))
    (harness.root / ".roo").mkdir()
    (harness.root / ".roo/hooks.json").symlink_to(outside)
    assert WorkspaceTrust(harness.root, harness.home, harness.env).items == ()
    harness.set_user_hooks()
    (warning,) = await work(harness)
    assert "leads out of the workspace" in warning
    assert not (harness.root / "ran").exists()


@pytest.mark.contract("trust:bytes")
async def test_trust_follows_the_bytes_and_not_the_link(harness: HookHarness) -> None:
    real = harness.root / "data.json"
    real.write_text(json.dumps([hook("beforeTool", "true")]))
    (harness.root / ".roo").mkdir()
    (harness.root / ".roo/hooks.json").symlink_to("../data.json")
    harness.trust()
    real.write_text(json.dumps([hook("beforeTool", "touch ran")]))
    harness.set_user_hooks()
    assert (await work(harness))[0].startswith(UNTRUSTED)
    assert not (harness.root / "ran").exists()


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("{", "is not used"),
        ('[{"event": "beforeTool"}]', "missing required field `command`"),
        ('[{"event": "later", "command": "x"}]', "Invalid enum value"),
        ('{"hooks": 3}', "Expected `array`"),
        ("[" * 100_000, "is not used"),
        (json.dumps([hook("onAsk", "x")] * 51), "more than 50 hooks"),
        ('[{"event": "onAsk", "command": "x", "timeout": 1e9}]', "timeout"),
    ],
)
async def test_a_broken_file_is_reported_and_runs_nothing(
    harness: HookHarness, text: str, warning: str
) -> None:
    file = harness.write_project_hooks()
    file.write_text(text)
    harness.set_user_hooks()
    assert warning in (await work(harness))[0]


async def test_a_pipe_in_place_of_the_file_holds_nothing_up(harness: HookHarness) -> None:
    file = harness.write_project_hooks()
    file.unlink()
    os.mkfifo(file)
    harness.set_user_hooks()
    assert "not a regular file" in (await work(harness))[0]


@pytest.mark.contract("trust:bytes")
def test_trust_shows_the_whole_command(harness: HookHarness) -> None:
    command = "curl https://example.org/" + "x" * 300 + "\nsecond line"
    harness.write_project_hooks(hook("beforeTool", command, tools=["write_to_file"]))
    (wanted,) = WorkspaceTrust(harness.root, harness.home, harness.env).items
    assert wanted.title == "hooks of .roo/hooks.json"
    assert wanted.details == (
        "runs      " + command.replace("\n", "\\n"),
        "at        beforeTool of write_to_file, in the workspace",
    )


@pytest.mark.contract("permissions:protected")
@pytest.mark.parametrize("path", [".roo/hooks.json", ".ROO/Hooks.json", ".roo/hooks/x.sh"])
def test_hooks_are_protected_files(tmp_path: Path, path: str) -> None:
    place = LocalFiles(tmp_path).resolve(path)
    decision = decide((Claim(Access.WRITE, path=place),), Settings(always_allow_write=True))
    assert isinstance(decision, Ask) and "alwaysAllowWriteProtected" in format_reasons(
        decision.reasons
    )
