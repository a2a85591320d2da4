from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest

from joey.workspace.files import LocalFiles
from joey.workspace.ignore import IgnoreRules, is_protected


def ignored(root: Path, *paths: str) -> list[str]:
    files = LocalFiles(root)
    return [path for path in paths if files.resolve(path).ignored]


def test_without_rules_nothing_is_hidden(tmp_path: Path) -> None:
    assert ignored(tmp_path, "a", ".rooignore", "b/c") == []
    (tmp_path / ".rooignore").write_text("# only a remark\n\n")
    assert ignored(tmp_path, "a", "b/c") == []


def test_the_rules_are_those_of_gitignore(tmp_path: Path) -> None:
    (tmp_path / ".rooignore").write_text("secret/\n*.key\n!public.key\n/top\n")
    (tmp_path / "secret").mkdir()
    hidden = ["secret/a", "x/secret/b", "a.key", "x/b.key", "top", "secret", ".rooignore"]
    shown = ["public.key", "x/top", "secrets", "a.keys", ".", "../a.key"]
    assert ignored(tmp_path, *hidden, *shown) == hidden


def test_a_file_with_the_name_of_an_ignored_folder_is_shown(tmp_path: Path) -> None:
    (tmp_path / ".rooignore").write_text("build/\n")
    (tmp_path / "build").write_text("#!/bin/sh\n")
    assert ignored(tmp_path, "build") == []


def test_a_link_is_hidden_by_its_own_name_and_by_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / ".rooignore").write_text("secret.txt\nalias\n")
    (tmp_path / "secret.txt").write_text("s")
    (tmp_path / "plain.txt").write_text("p")
    (tmp_path / "innocent").symlink_to("secret.txt")
    (tmp_path / "alias").symlink_to("plain.txt")
    assert ignored(tmp_path, "innocent", "alias", "plain.txt") == ["innocent", "alias"]


def test_a_change_of_the_rules_is_seen_at_once(tmp_path: Path) -> None:
    rules = IgnoreRules(tmp_path)
    file = tmp_path / ".rooignore"
    assert not rules.hides("a")
    file.write_text("a\n")
    assert rules.hides("a")
    file.write_text("b  \n")
    assert not rules.hides("a")
    file.unlink()
    assert not rules.hides("b")


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"ok\n!\n", b"x" * (1024 * 1024 + 1)])
def test_rules_that_cannot_be_understood_hide_everything(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".rooignore").write_bytes(content)
    assert ignored(tmp_path, "a", "b/c") == ["a", "b/c"]
    (tmp_path / ".rooignore").write_text("a\n")
    assert ignored(tmp_path, "a", "b/c") == ["a"]


def test_rules_that_are_a_link_to_nowhere_hide_everything(tmp_path: Path) -> None:
    (tmp_path / ".rooignore").symlink_to("gone")
    assert ignored(tmp_path, "a") == ["a"]


def test_rules_that_are_no_file_hide_everything(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".rooignore")
    assert ignored(tmp_path, "a") == ["a"]


@pytest.mark.requirement("permissions:paths:protected")
@pytest.mark.parametrize(
    "path",
    [
        *(".rooignore", ".roomodes", ".roorules", ".roorules-code", ".clinerules", ".rooprotected"),
        *(".roo/mcp.json", ".roo/rules/a.md", ".vscode/tasks.json", "my.code-workspace"),
        *("AGENTS.md", "AGENT.md", "sub/AGENTS.md", "sub/.roo/x"),
        *(
            ".git/hooks/pre-commit",
            "sub/.git/config",
            ".husky/pre-push",
            ".github/workflows/ci.yml",
        ),
        *("CLAUDE.md", ".cursor/rules", ".bashrc", ".envrc", ".npmrc", ".idea/workspace.xml"),
        *(".ROO/mcp.json", "agents.MD", ".Git/config", ".gi\u200ct/config", ".ｇit/config"),
        unicodedata.normalize("NFD", ".roo/é"),
    ],
)
def test_files_that_configure_the_agent_or_its_host_are_protected(
    tmp_path: Path, path: str
) -> None:
    assert is_protected(path)
    assert LocalFiles(tmp_path).resolve(path).protected


@pytest.mark.requirement("permissions:paths:protected")
@pytest.mark.parametrize(
    "path",
    [
        *("bunfig.toml", "mise.toml", ".mise.toml", ".mvn/jvm.config", ".bazelrc", ".condarc"),
        *(".yarn/releases/yarn.cjs", ".pnp.cjs", "nuget.config", ".pythonrc", ".irbrc"),
        *(".vimrc", ".exrc", ".nvim.lua", ".dir-locals.el", ".zed/tasks.json", ".gdbinit"),
        *("a.sublime-project", ".fleet/run.json", ".vs/tasks.vs.json", ".tmux.conf"),
        *(".gitlab-ci.yaml", ".gitlab/ci.yml", "bitbucket-pipelines.yml", ".drone.yml"),
        *(".gitea/workflows/a.yml", ".forgejo/workflows/a.yml", ".woodpecker.yml"),
        *(".lefthook.yml", "lefthook.toml", ".huskyrc", ".lintstagedrc.json"),
        *("opencode.json", "mcp.json", ".junie/guidelines.md", ".amazonq/rules/a.md"),
        *(".trae/rules/a.md", ".goosehints", ".crush.json", "WARP.md", ".augment-guidelines"),
        *(".cirrus.yml", "azure-pipelines.yaml", ".githooks/pre-push", "rust-toolchain.toml"),
        *(".Rprofile", ".pdbrc", "gradle-wrapper.properties", ".zshrc.local", ".cursorignore"),
        *("sub/BUNFIG.toml", ".replit", ".kube/config", ".emacs", "copilot-instructions.md"),
        *(".config/fish/config.fish", ".xprofile", ".pam_environment", "AGENTS.local.md"),
    ],
)
def test_what_is_carried_out_later_is_protected(path: str) -> None:
    assert is_protected(path)


@pytest.mark.parametrize(
    "path",
    [
        *("src/roo.py", "README.md", ".gitignore", "roo/x", "my.roo", "agents.md.txt", "."),
        *("package.json", "Makefile", "config/app.toml", "src/mise.py", "docker/compose.yml"),
        *(".env", ".dockerignore", "rules.md", "gradle/libs.toml", "vim.md", ".eslintrc.json"),
    ],
)
def test_ordinary_files_are_not_protected(tmp_path: Path, path: str) -> None:
    assert not LocalFiles(tmp_path).resolve(path).protected


def test_protection_sees_through_links_and_reaches_outside(tmp_path: Path) -> None:
    root = tmp_path / "work"
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / "innocent").symlink_to(".git/hooks")
    files = LocalFiles(root)
    assert files.resolve("innocent/pre-commit").protected
    assert files.resolve("../.bashrc").protected
    assert not files.resolve("../notes").protected
