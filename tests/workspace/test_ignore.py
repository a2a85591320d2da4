from __future__ import annotations

import os
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from psutil import Process

from joey.core.protected_paths import is_protected
from joey.errors import ToolError
from joey.tools.base import Tool
from joey.tools.list_files import ListFiles
from joey.tools.read_file import ReadFile
from joey.tools.search_files import SearchFiles
from joey.tools.write_to_file import WriteToFile
from joey.workspace.files import LocalFiles
from joey.workspace.ignore import IgnoreRules
from joey.workspace.search import LocalSearch
from tests.harness.tools.tool_context import make_context


def ignored(root: Path, *paths: str) -> list[str]:
    files = LocalFiles(root)
    return [path for path in paths if files.resolve(path).is_ignored]


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


def test_a_file_with_the_name_of_an_ignored_directory_is_shown(tmp_path: Path) -> None:
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
    assert not rules.is_hidden("a")
    file.write_text("a\n")
    assert rules.is_hidden("a")
    file.write_text("b  \n")
    assert not rules.is_hidden("a")
    file.unlink()
    assert not rules.is_hidden("b")


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"o\0k\0\n\0", b"x" * (1024 * 1024 + 1)])
def test_rules_that_cannot_be_understood_hide_everything(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".rooignore").write_bytes(content)
    assert ignored(tmp_path, "a", "b/c") == ["a", "b/c"]
    (tmp_path / ".rooignore").write_text("a\n")
    assert ignored(tmp_path, "a", "b/c") == ["a"]


def test_rules_that_are_a_link_to_nowhere_hide_everything(tmp_path: Path) -> None:
    (tmp_path / ".rooignore").symlink_to("gone")
    assert ignored(tmp_path, "a") == ["a"]


def test_rules_that_are_a_directory_hide_everything_and_leave_no_file_open(tmp_path: Path) -> None:
    (tmp_path / ".rooignore").mkdir()
    before = Process().num_fds()
    assert ignored(tmp_path, "a") == ["a"]
    assert Process().num_fds() == before


def test_rules_that_are_no_file_hide_everything(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".rooignore")
    assert ignored(tmp_path, "a") == ["a"]
    (tmp_path / ".rooignore").unlink()
    (tmp_path / ".rooignore").symlink_to("/dev/zero")
    assert ignored(tmp_path, "a") == ["a"]


def test_rules_that_change_again_within_a_moment_are_read_again(tmp_path: Path) -> None:
    rules = IgnoreRules(tmp_path)
    file = tmp_path / ".rooignore"
    for name in "abcdefgh" * 20:
        file.write_text(f"{name}\n")
        os.utime(file, ns=(0, 0))
        assert rules.is_hidden(name)


def test_case_matters_as_in_git(tmp_path: Path) -> None:
    (tmp_path / ".rooignore").write_text("secret.txt\nPrivate/\nCafé.md\n*.KEY\n")
    if (tmp_path / ".ROOIGNORE").exists():
        pytest.skip("the file system folds case")
    hidden = ["secret.txt", "Private/a", "Café.md", "a.KEY"]
    shown = ["Secret.txt", "private/a", "cafe\u0301.md", "a.key", "secret.txt."]
    assert ignored(tmp_path, *hidden, *shown) == hidden


def fold_case(root: Path) -> None:
    """As on a file system that folds case, which shows in this: the rules have two names."""
    with suppress(FileExistsError):
        (root / ".ROOIGNORE").hardlink_to(root / ".rooignore")


def test_where_case_is_folded_every_spelling_of_a_name_is_hidden(tmp_path: Path) -> None:
    (tmp_path / ".rooignore").write_text("secret.txt\nPrivate/\n！kept\nCafé.md\n")
    fold_case(tmp_path)
    hidden = ["SECRET.txt", "Secret.TXT.", "sub/ſecret.txt", "private/a", ".RooIgnore", "!kept"]
    hidden += ["cafe\u0301.MD", "CAFÉ.md"]
    assert ignored(tmp_path, *hidden, "kept", "public/a") == hidden


def test_where_case_is_folded_an_exception_counts_in_every_spelling_too(tmp_path: Path) -> None:
    (tmp_path / ".rooignore").write_text("*.md\n!README.md\n")
    fold_case(tmp_path)
    names = ["README.md", "readme.MD", "notes.md", "Notes.MD"]
    assert ignored(tmp_path, *names) == ["notes.md", "Notes.MD"]


@pytest.mark.parametrize(
    ("rules", "hidden"),
    [
        ("keys/\n!keys/public.pem\n", ["keys/public.pem", "keys/private.pem"]),
        ("keys\n!keys/public.pem\n", ["keys/public.pem", "keys/private.pem"]),
        ("keys/\n!keys/sub/\n!**/*.pem\n", ["keys/public.pem", "keys/private.pem", "keys/sub/a"]),
        ("keys/*\n!keys/public.pem\n", ["keys/private.pem", "keys/sub/a"]),
        ("*\n!*/\n!*.pem\n", ["keys/sub/a"]),
    ],
)
def test_nothing_in_a_hidden_directory_is_excepted_as_in_git(
    tmp_path: Path, rules: str, hidden: list[str]
) -> None:
    (tmp_path / ".rooignore").write_text(rules)
    found = ignored(tmp_path, "keys/public.pem", "keys/private.pem", "keys/sub/a")
    assert [name for name in found if name in hidden] == hidden
    if "keys/public.pem" not in hidden:
        assert "keys/public.pem" not in found


async def test_when_rules_cannot_be_used_everybody_is_shown_why(tmp_path: Path) -> None:
    context = make_context(tmp_path)
    (context.files.root / "a.txt").write_text("x")
    (context.files.root / ".rooignore").write_bytes(b"\xff\n")
    assert context.files.resolve("a.txt").ignore_error.startswith(".rooignore cannot be used")
    calls: list[tuple[Tool[Any, Any], dict[str, Any]]] = [
        (ReadFile(), {"path": "a.txt"}),
        (ListFiles(), {"path": "."}),
        (SearchFiles(), {"path": ".", "regex": "x"}),
        (WriteToFile(), {"path": "a.txt", "content": "y"}),
    ]
    for tool, arguments in calls:
        with pytest.raises(ToolError, match=r"\.rooignore cannot be used, so every file is hidden"):
            await tool.prepare(tool.parse(arguments), context)


async def test_another_name_of_a_hidden_file_is_not_listed(tmp_path: Path) -> None:
    (tmp_path / ".rooignore").write_text("secret.txt\nprivate/\n")
    (tmp_path / "secret.txt").write_text("s")
    (tmp_path / "private").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "plain.txt").write_text("s")
    (tmp_path / "alias").symlink_to("secret.txt")
    (tmp_path / "sub" / "alias").symlink_to("../alias")
    (tmp_path / "folder").symlink_to("private")
    (tmp_path / "other").symlink_to("sub")
    files = LocalFiles(tmp_path)
    for recursive in (False, True):
        listing = await LocalSearch(files).list_directory(files.resolve("."), recursive, 100)
        assert [entry for entry in listing.entries if entry != "sub/plain.txt"] == ["other", "sub/"]


class Meanwhile:
    """A clock: it is looked at when the rules are read, a bad moment for somebody else to come."""

    def __init__(self, rules: IgnoreRules, file: Path) -> None:
        self._rules = rules
        self._file = file

    def time_ns(self) -> int:
        aside = self._file.rename(self._file.with_name("aside"))
        with ThreadPoolExecutor(1) as other:
            assert not other.submit(self._rules.is_hidden, "secret").result(60)
        aside.rename(self._file)
        return time.time_ns()


def test_who_has_read_the_rules_goes_by_them_whatever_another_thread_has_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / ".rooignore"
    file.write_text("secret\n")
    rules = IgnoreRules(tmp_path)
    monkeypatch.setattr("joey.workspace.ignore.time", Meanwhile(rules, file))
    assert rules.is_hidden("secret")
    assert rules.is_file_or_directory_hidden("secret", tmp_path / "secret")


@pytest.mark.contract("permissions:protected")
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
    assert LocalFiles(tmp_path).resolve(path).is_protected


@pytest.mark.contract("permissions:protected")
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
    assert not LocalFiles(tmp_path).resolve(path).is_protected


def test_protection_sees_through_links_and_reaches_outside(tmp_path: Path) -> None:
    root = tmp_path / "work"
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / "innocent").symlink_to(".git/hooks")
    files = LocalFiles(root)
    assert files.resolve("innocent/pre-commit").is_protected
    assert files.resolve("../.bashrc").is_protected
    assert not files.resolve("../notes").is_protected


@pytest.mark.contract("permissions:protected")
def test_where_a_protected_name_leads_is_protected_too(tmp_path: Path) -> None:
    for directory in (
        "settings/roo",
        "repository/objects",
        "repository/refs",
        "elsewhere",
        "src/hooks",
    ):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "repository" / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / ".git").write_text("gitdir: elsewhere\n")
    (tmp_path / ".roo").symlink_to("settings/roo")
    (tmp_path / "CLAUDE.md").symlink_to("notes.md")
    files = LocalFiles(tmp_path)
    inside = ("settings/roo/rules.md", "notes.md", "repository/hooks/any", "repository/CONFIG")
    assert all(files.resolve(path).is_protected for path in (*inside, "elsewhere/hooks/any"))
    others = ("settings/x", "repository/readme", "src/hooks/a.ts", "src/config", "other.md")
    assert not any(files.resolve(path).is_protected for path in others)
    (tmp_path / ".roo").unlink()
    assert not files.resolve("settings/roo/rules.md").is_protected
