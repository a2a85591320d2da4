"""What `joey -p` does, leaves undone, and says about it."""

from __future__ import annotations

import re

import pytest

from joey.testing.script import Turn, call, say
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach

DONE = Turn(say("Nearly."), call("attempt_completion", {"result": "All **done**."}))


def reading(path: str) -> Turn:
    return Turn(say("I look."), call("read_file", {"path": path}))


def writing(path: str, content: str) -> Turn:
    return Turn(say("I write."), call("write_to_file", {"path": path, "content": content}))


def running(command: str) -> Turn:
    return Turn(say("I run."), call("execute_command", {"command": command}))


async def test_a_broken_file_of_the_project_is_the_reason_that_is_shown(joey: Joey) -> None:
    (joey.workspace / ".roo").mkdir()
    (joey.workspace / ".roo/settings.json").write_text("{", encoding="utf-8")
    turn = Turn(call("write_to_file", {"path": "a.txt", "content": "x"}))
    async with ModelServer([turn, DONE]) as server:
        done = await joey.run("-p", "-y", "--no-sandbox", *reach(server.url), "write it")
    assert done.code == 3
    assert ".roo/settings.json cannot be parsed, so everything needs approval" in done.err
    assert "-y was given, but autoApprovalEnabled is off here" in done.err
    listed = await joey.run("config", "list")
    assert "cannot be parsed" in listed.err


@pytest.mark.contract("permissions:unattended", "cli:exit-codes")
async def test_what_nobody_may_allow_is_refused_named_and_reported_by_the_exit_code(
    joey: Joey,
) -> None:
    turns = [writing("new.txt", "x"), running("touch ran.txt"), DONE]
    async with ModelServer(turns) as server:
        done = await joey.run("-p", *reach(server.url), "do it")
    assert done.code == 3
    assert done.out == "All **done**.\n"
    assert "Create new.txt" in done.err
    assert "--allow-writes --allow 'touch ran.txt' would have allowed this; -y allows" in done.err
    assert "joey: done, but 2 calls refused · " in done.err
    assert "needs_person" not in done.err
    assert list(joey.workspace.iterdir()) == []


async def test_the_flags_that_are_named_are_enough(joey: Joey) -> None:
    turns = [writing("new.txt", "x\n"), running("cat new.txt && false || true"), DONE]
    async with ModelServer(turns) as server:
        refused = await joey.run("-p", "--no-sandbox", *reach(server.url), "do it")
    (flags,) = re.findall(r"joey: (--allow.*?) would have allowed this", refused.err)
    assert flags == "--allow-writes --allow cat --allow false --allow true"
    async with ModelServer(turns) as server:
        done = await joey.run("-p", "--no-sandbox", *flags.split(), *reach(server.url), "do it")
    assert done.code == 0
    assert (joey.workspace / "new.txt").read_text(encoding="utf-8") == "x\n"


async def test_no_rule_is_named_where_none_would_help(joey: Joey) -> None:
    async with ModelServer([running("echo $(date) > now.txt"), DONE]) as server:
        done = await joey.run("-p", *reach(server.url), "do it")
    assert done.code == 3
    assert "--allow" not in done.err
    assert "-y allows everything" in done.err


async def test_edits_can_be_allowed_without_commands(joey: Joey) -> None:
    turns = [writing("new.txt", "x\n"), running("touch ran.txt"), DONE]
    async with ModelServer(turns) as server:
        done = await joey.run("-p", "--allow-writes", *reach(server.url), "do it")
    assert done.code == 3
    assert [path.name for path in joey.workspace.iterdir()] == ["new.txt"]


async def test_how_commands_end_and_what_was_answered_is_shown(joey: Joey) -> None:
    ask = {"question": "Which?", "follow_up": [{"text": "this one", "mode": None}]}
    turns = [running("exit 7"), Turn(call("ask_followup_question", ask)), DONE]
    async with ModelServer(turns) as server:
        done = await joey.run("-p", "-y", *reach(server.url), "do it")
    assert "$ exit 7\n  exit 7\n" in done.err
    assert "? Which?\n  no user is there to answer: the model decides\n" in done.err


async def test_yes_allows_everything(joey: Joey) -> None:
    turns = [writing("new.txt", "x\n"), running("touch ran.txt"), DONE]
    async with ModelServer(turns) as server:
        done = await joey.run("-p", "-y", *reach(server.url), "do it")
    assert done.code == 0
    assert "$ touch ran.txt" in done.err
    assert sorted(path.name for path in joey.workspace.iterdir()) == ["new.txt", "ran.txt"]


async def test_allow_and_deny_go_by_the_beginning_of_a_command(joey: Joey) -> None:
    async with ModelServer([running("touch yes.txt"), DONE]) as server:
        allowed = await joey.run("-p", "--allow", "touch", *reach(server.url), "do it")
    async with ModelServer([running("touch no.txt"), DONE]) as server:
        denied = await joey.run("-p", "-y", "--deny", "touch", *reach(server.url), "do it")
    assert (allowed.code, denied.code) == (0, 0)
    assert [path.name for path in joey.workspace.iterdir()] == ["yes.txt"]


def allowing(*rules: str) -> list[str]:
    return [part for rule in rules for part in ("--allow", rule)]


@pytest.mark.contract("permissions:words")
async def test_commands_run_by_their_rules_as_the_shell_reads_them(joey: Joey) -> None:
    for name in ("docs/my file.txt", "src/a.py", "old/a.py"):
        (joey.workspace / name).parent.mkdir(exist_ok=True)
        (joey.workspace / name).write_text("TODO\n", encoding="utf-8")
    lines = [
        "echo 'a && b $(c)'",
        'echo "costs \\$5"',
        "cat docs/my\\ file.txt",
        "cat src/../docs/my\\ file.txt",
        f"cat {joey.workspace}/src/a.py",
        "cd src && cat ../old/a.py",
        "find src -name '*.py' | xargs grep -n TODO",
        "find docs -type f -print0 | xargs -0 wc -l",
        "diff -r src old",
    ]
    rules = allowing("echo", "cat", "cd", "find", "xargs grep", "xargs", "wc", "diff")
    async with ModelServer([*map(running, lines), DONE]) as server:
        done = await joey.run("-p", *rules, *reach(server.url), "do it")
    assert "refused" not in done.err
    assert done.code == 0
    assert b"1:TODO" in server.requests[-1].raw


@pytest.mark.contract("permissions:unclear", "permissions:paths")
async def test_paths_links_and_lists_that_lead_elsewhere_are_refused(joey: Joey) -> None:
    (joey.workspace / "src").mkdir()
    (joey.workspace / "src/out").symlink_to("/etc")
    (joey.workspace / "odd").mkdir()
    (joey.workspace / "odd/a b").write_text("x", encoding="utf-8")
    lines = [
        'echo "\\\\$(touch ran)"',
        "cat src/../../x",
        f"cat {joey.workspace}/src/out/passwd",
        "cd src; cat ../odd/x",
        "cd '' && cat src/out/passwd",
        "find src | xargs grep root",
        "find odd | xargs grep x",
        "echo /etc/passwd | xargs cat",
        "diff -r src odd",
    ]
    rules = allowing("echo", "cat", "cd", "find", "xargs", "grep", "diff")
    async with ModelServer([*map(running, lines), DONE]) as server:
        done = await joey.run("-p", *rules, *reach(server.url), "do it")
    assert done.code == 3
    assert f"{len(lines)} calls refused" in done.err


async def test_require_approval_asks_even_for_reading(joey: Joey) -> None:
    (joey.workspace / "a.txt").write_text("hello", encoding="utf-8")
    async with ModelServer([reading("a.txt"), DONE]) as server:
        done = await joey.run("-p", "-a", *reach(server.url), "do it")
    assert done.code == 3
    assert "Read a.txt" in done.err


@pytest.mark.parametrize(("reads", "code"), [(True, 0), (False, 3)])
async def test_commands_and_instructions_are_fetched_where_reading_is_allowed(
    joey: Joey, reads: bool, code: int
) -> None:
    commands = joey.workspace / ".roo/commands"
    commands.mkdir(parents=True)
    (commands / "check.md").write_text("Run the checks.", encoding="utf-8")
    joey.settings(alwaysAllowReadOnly=reads)
    turns = [
        Turn(call("run_slash_command", {"command": "check"})),
        Turn(call("fetch_instructions", {"task": "create_mode"})),
        DONE,
    ]
    async with ModelServer(turns) as server:
        done = await joey.run("-p", *reach(server.url), "do it")
    assert done.code == code
    *_, last = server.requests
    assert ("Run the checks." in str(last.body)) is reads
    assert ("customModes" in str(last.body["messages"])) is reads
    assert ("2 calls refused" in done.err) is not reads
