"""A repository that came with a folder decides about nothing but its own text."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from joey.errors import ToolError
from joey.workspace.git.repository import GitRepository

IDENTITY = {
    f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
}


class Repository:
    """A repository with one commit and one change, whose configuration may name a program that
    leaves a trace."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.trace = directory.parent / f"{directory.name}.trace"
        directory.mkdir()
        self.git("init", "-q", "-b", "main")
        self.write("a.txt", "one\n")
        self.git("add", ".")
        self.git("commit", "-qm", "first")
        self.write("a.txt", "two\n")

    def git(self, *arguments: str, cwd: str = ".") -> str:
        env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", **IDENTITY}
        done = subprocess.run(
            ["git", *arguments], cwd=self.directory / cwd, env=env, check=True, capture_output=True
        )
        return done.stdout.decode().strip()

    def write(self, name: str, text: str) -> None:
        (self.directory / name).write_text(text)

    @property
    def program(self) -> str:
        path = self.directory.parent / f"{self.directory.name}.sh"
        path.write_text(f'#!/bin/sh\necho "$0" >> {self.trace}\ncat\n')
        path.chmod(0o755)
        return str(path)

    async def ask_everything(self) -> str:
        answers = []
        repository = GitRepository(self.directory)
        head = self.git("rev-parse", "HEAD")
        for question in (
            repository.show_changes(),
            repository.show_status(5),
            repository.show_commit(head),
        ):
            try:
                answers.append(await question)
            except ToolError as error:
                answers.append(f"failed: {error}")
        return "\n".join(answers)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "work")


@pytest.mark.parametrize(
    "key",
    [
        "core.fsmonitor",
        "core.pager",
        "diff.external",
        "diff.x.command",
        "diff.x.textconv",
        "filter.x.clean",
        "filter.x.process",
        "gpg.program",
    ],
)
async def test_no_program_of_the_configuration_runs(repository: Repository, key: str) -> None:
    repository.git("config", "log.showSignature", "true")
    repository.write(".gitattributes", "* filter=x diff=x\n")
    repository.write("included", "")
    repository.git("config", "-f", "included", key, repository.program)
    repository.git("config", "include.path", "../included")
    output = await repository.ask_everything()
    assert not repository.trace.exists()
    assert "-one\n+two" in output


async def test_no_hook_runs_and_the_index_stays_as_it_is(repository: Repository) -> None:
    for name in ("post-index-change", "reference-transaction"):
        (repository.directory / ".git/hooks" / name).symlink_to(repository.program)
    repository.write("a.txt", "one\n")
    os.utime(repository.directory / "a.txt", (1, 1))
    before = (repository.directory / ".git/index").read_bytes()
    assert "No changes" in await repository.ask_everything()
    assert (repository.directory / ".git/index").read_bytes() == before
    assert not repository.trace.exists()


async def test_a_filter_that_is_added_later_does_not_run_either(repository: Repository) -> None:
    asked = GitRepository(repository.directory)
    await asked.show_changes()
    repository.git("config", "filter.late.clean", repository.program)
    repository.write(".gitattributes", "* filter=late\n")
    repository.write("a.txt", "three\n")
    await asked.show_changes()
    assert not repository.trace.exists()


async def test_git_is_not_run_with_a_filter_that_cannot_be_switched_off(
    repository: Repository,
) -> None:
    repository.git("config", "filter.a=b.clean", repository.program)
    repository.write(".gitattributes", "* filter=a=b\n")
    assert "names the filter 'filter.a=b'" in await repository.ask_everything()
    assert not repository.trace.exists()


async def test_a_filter_that_git_calls_required_does_not_stop_it(repository: Repository) -> None:
    repository.git("config", "filter.lfs.clean", repository.program)
    repository.git("config", "filter.lfs.required", "true")
    repository.write(".gitattributes", "*.txt filter=lfs\n")
    assert "-one\n+two" in await repository.ask_everything()


async def test_submodules_are_not_entered(repository: Repository, tmp_path: Path) -> None:
    other = Repository(tmp_path / "other")
    allowed = ("-c", "protocol.file.allow=always")
    repository.git(*allowed, "submodule", "add", "-q", str(other.directory), "sub")
    repository.git("config", "diff.submodule", "diff")
    for key in ("filter.x.clean", "diff.external", "core.fsmonitor"):
        repository.git("config", key, repository.program, cwd="sub")
    repository.write("sub/.gitattributes", "* filter=x\n")
    repository.write("sub/a.txt", "three\n")
    output = await repository.ask_everything()
    assert "-one\n+two" in output
    assert "three" not in output
    assert not repository.trace.exists()


@pytest.mark.parametrize("url", ["ssh://nowhere/x", "ext::{program}"])
async def test_nothing_is_fetched(repository: Repository, url: str) -> None:
    for key, value in {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": url.format(program=repository.program),
        "core.sshCommand": repository.program,
        "protocol.ext.allow": "always",
    }.items():
        repository.git("config", key, value)
    blob = repository.git("rev-parse", "HEAD:a.txt")
    (repository.directory / ".git/objects" / blob[:2] / blob[2:]).unlink()
    assert "failed: " in await repository.ask_everything()
    assert not repository.trace.exists()


async def test_another_work_tree_is_not_looked_at(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/a.txt").write_text("the secret\n")
    repository.git("config", "core.worktree", str(tmp_path / "outside"))
    output = await repository.ask_everything()
    assert "the secret" not in output
    assert "-one\n+two" in output


async def test_a_directory_that_looks_like_a_repository_is_none(tmp_path: Path) -> None:
    inner = Repository(tmp_path / "inner")
    config = inner.directory / ".git/config"
    config.write_text(f"{config.read_text()}[core]\nbare = false\nfsmonitor = {inner.program}\n")
    with pytest.raises(ToolError, match="not a git repository"):
        await GitRepository(inner.directory / ".git").show_changes()
    assert not inner.trace.exists()


async def test_only_the_workspace_is_reported_when_the_repository_is_larger(
    repository: Repository,
) -> None:
    (repository.directory / "part").mkdir()
    repository.write("part/b.txt", "inside\n")
    repository.write("c.txt", "outside\n")
    repository.git("add", ".")
    asked = GitRepository(repository.directory / "part")
    changes = await asked.show_changes()
    assert "A  b.txt" in changes
    assert "+inside" in changes
    assert "two" not in changes
    assert "c.txt" not in changes


async def test_what_rooignore_hides_is_not_in_a_diff(repository: Repository) -> None:
    repository.write("keys.txt", "old key\n")
    repository.git("add", ".")
    repository.git("commit", "-qm", "second")
    repository.write("keys.txt", "new key\n")
    repository.write("a.txt", "three\n")
    repository.write(".rooignore", "keys.txt\n")
    output = await repository.ask_everything()
    assert "+three" in output
    assert "key" not in output


async def test_a_program_of_the_workspace_is_not_taken_for_git(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository.directory / "git").symlink_to(repository.program)
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}")
    assert "+two" in await GitRepository(repository.directory).show_changes()
    assert not repository.trace.exists()


async def test_colours_and_the_branch_do_not_get_into_the_changes(repository: Repository) -> None:
    for key in ("color.ui", "color.status", "color.diff", "color.branch"):
        repository.git("config", key, "always")
    repository.git("config", "status.branch", "true")
    assert "\x1b" not in await repository.ask_everything()
    repository.write("a.txt", "one\n")
    assert (
        await GitRepository(repository.directory).show_changes()
        == "No changes in working directory"
    )


async def test_a_line_without_end_is_cut(repository: Repository) -> None:
    repository.write("a.txt", "x" * 100_000)
    assert len(await GitRepository(repository.directory).show_changes()) < 3000


@pytest.mark.parametrize("what", ["HEAD:a.txt", "HEAD^{tree}"])
async def test_only_commits_are_shown(repository: Repository, what: str) -> None:
    with pytest.raises(ToolError):
        await GitRepository(repository.directory).show_commit(repository.git("rev-parse", what))


async def test_a_moved_file_is_shown_with_both_names(repository: Repository) -> None:
    repository.write("a.txt", "one\n")
    repository.git("mv", "a.txt", "new\nname")
    changes = await GitRepository(repository.directory).show_changes()
    assert "R  a.txt -> new\\nname" in changes
