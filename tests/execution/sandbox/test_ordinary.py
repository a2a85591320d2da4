"""A sandbox in which nothing works is of no use: ordinary work goes through it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGXFSZ

import pytest

from joey.core.permissions.reading_commands import build_reading_preamble
from joey.core.settings import Settings
from tests.harness.execution.actor import CommandStep
from tests.harness.execution.sandbox import SandboxHarness, on_diagonal, there
from tests.harness.permissions.hostile_repository import make_hostile_repository


def make_repository(directory: Path) -> None:
    subprocess.run(["git", "init", "-q", str(directory)], check=True)


@on_diagonal
@pytest.mark.contract("sandbox:ordinary")
async def test_git_keeps_working_in_a_repository(harness: SandboxHarness) -> None:
    (harness.home / ".gitconfig").write_text("[user]\n\tname = Person\n\temail = p@example.org\n")
    make_repository(harness.workspace)
    said = await harness.run(
        "echo one > a.txt && git add a.txt && git commit -qm first && git log --format=%an%s",
        "echo two >> a.txt && git diff --stat && git commit -qam second && git status --short",
        "git checkout -qb other && git stash -q; git tag t && git gc -q && git branch",
        "echo b > b.txt && git add -A && git commit -qm third && git ls-files",
    )
    assert [answer.exit_code for answer in said] == [0, 0, 0, 0], said
    assert said[3].output == "a.txt\nb.txt\n"
    assert said[0].output == "Personfirst\n"
    assert "1 insertion" in said[1].output
    assert "* other" in said[2].output


@on_diagonal
@pytest.mark.contract("permissions:reading")
async def test_git_looks_at_a_repository_without_the_programs_that_it_names(
    harness: SandboxHarness,
) -> None:
    make_hostile_repository(harness.workspace)
    command = "git status --short && git diff"
    preamble = build_reading_preamble(command, harness.workspace)
    switched_off, unchanged = await harness.run(preamble + command, "git diff")
    assert switched_off.output.startswith(" M a.txt\n"), switched_off
    assert "+two" in switched_off.output
    assert "+two" not in unchanged.output


@on_diagonal
@pytest.mark.contract("sandbox:ordinary")
async def test_files_pipes_heredocs_and_temporary_files_work(harness: SandboxHarness) -> None:
    here = "cat > notes.txt <<'END'\n$HOME stays\nEND\ncat notes.txt"
    said = await harness.run(
        "mkdir -p a/b && echo x > a/b/c && mv a d && cp -r d e && rm -r d && find . -type f",
        here,
        "seq 5 | sort -r | head -2 | tr '\\n' ' '; wc -l < <(seq 3)",
        'f=$(mktemp) && echo t > "$f" && cat "$f" && cp "$f" ./kept && cat kept',
        "touch new && chmod +x new && ln -s new link && readlink link && > /dev/null echo z",
        "echo out; echo err >&2; exit 3",
    )
    assert [answer.exit_code for answer in said] == [0, 0, 0, 0, 0, 3]
    outputs = [answer.output for answer in said]
    assert outputs[:5] == ["./e/b/c\n", "$HOME stays\n", "5 4 3\n", "t\nt\n", "new\n"]
    assert outputs[5] == "out\nerr\n"


@on_diagonal
@pytest.mark.contract("sandbox:ordinary")
async def test_signals_mean_what_they_do_in_any_shell(harness: SandboxHarness) -> None:
    """Also those that Python ignores for itself: who writes to nobody ends, without a word."""
    pipe, status = await harness.run(
        "yes | head -1; echo ${PIPESTATUS[*]}", "grep SigIgn /proc/self/status"
    )
    assert pipe.output == "y\n141 0\n"
    ignored = int(status.output.split()[1], 16)
    usual = (SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM, SIGXFSZ)
    assert not [number for number in usual if ignored >> number - 1 & 1]


@on_diagonal
@pytest.mark.contract("sandbox:ordinary")
async def test_languages_and_builds_work(harness: SandboxHarness) -> None:
    (harness.workspace / "Makefile").write_text("all:\n\t@echo made > out && cat out\n")
    (harness.workspace / "test_a.py").write_text(
        "import tempfile, unittest, subprocess\n"
        "class A(unittest.TestCase):\n"
        "    def test_a(self):\n"
        "        with tempfile.TemporaryDirectory() as d:\n"
        "            open(d + '/x', 'w').close()\n"
        "        self.assertEqual(subprocess.check_output(['echo', 'x']), b'x\\n')\n"
    )
    (harness.workspace / "package.json").write_text('{"scripts": {"test": "node -e 1"}}')
    lines = [
        "make",
        "/usr/bin/python3 -m unittest -q test_a 2>&1",
        "/usr/bin/python3 -c 'print(1)'",
    ]
    if shutil.which("npm", path="/usr/bin:/bin"):
        lines += ["/usr/bin/node -e 'console.log(2)'", "/usr/bin/npm test --silent"]
    said = await harness.run(*lines)
    assert [answer.exit_code for answer in said] == [0] * len(lines), said


async def test_the_temporary_directory_is_the_tasks_own_and_lasts_as_long(
    harness: SandboxHarness,
) -> None:
    said = await harness.run('echo mine > "$TMPDIR/x"', 'cat "$TMPDIR/x"; ls "$TMPDIR"')
    assert said[1].output.startswith("mine\n")
    if harness.is_full:
        (line,) = await harness.run("echo x > /tmp/y && cat /tmp/y")
        assert line.output == "x\n"
        assert there("/tmp/y") == []


@on_diagonal
@pytest.mark.contract("sandbox:ordinary")
async def test_what_runs_is_exactly_what_was_given(harness: SandboxHarness) -> None:
    line = """printf '%s|' "$0" 'a  b' "$#" $'\\t' ünï; pwd; -x; echo "${BASH_VERSION:+bash}" """
    (answer,) = await harness.run(line)
    assert answer.output.startswith(f"/bin/bash|a  b|0|\t|ünï|{harness.workspace}\n")
    assert answer.output.endswith("bash\n")


@on_diagonal
async def test_signals_and_codes_are_reported(harness: SandboxHarness) -> None:
    asked_to_end = CommandStep("echo up; sleep 60", until="up", then="kill")
    said = await harness.run("exit 7", "kill -KILL $$", asked_to_end, grace=20)
    assert said[0].exit_code == 7
    assert (said[1].exit_code, said[1].signal) in ((137, None), (None, "SIGKILL"))
    assert said[2].signal == "SIGTERM"


@on_diagonal
async def test_other_directories_are_seen_and_written_when_the_user_says_so(
    harness: SandboxHarness,
) -> None:
    (harness.outside / "file").write_text("seen", encoding="utf-8")
    line = f"cat {harness.outside}/file; echo x > {harness.outside}/new"
    (read,) = await harness.run(line, settings=Settings(sandbox_readable=(str(harness.outside),)))
    assert read.output.startswith("seen")
    assert not (harness.outside / "new").exists()
    (wrote,) = await harness.run(line, settings=Settings(sandbox_writable=(str(harness.outside),)))
    assert wrote.exit_code == 0
    assert (harness.outside / "new").exists()


@on_diagonal
async def test_package_managers_do_not_retry_without_network(harness: SandboxHarness) -> None:
    command = "echo $npm_config_fetch_retries $PIP_RETRIES"
    assert await harness.output(command) == "0 0\n"
    assert await harness.output(command, Settings(sandbox_network="all")) == "\n"
