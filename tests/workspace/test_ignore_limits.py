"""Rules and names that are too much for a disk, a matcher or a reader hide; they break nothing."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from joey.core.permissions.policy import Deny, decide
from joey.core.settings import Settings
from joey.errors import ToolError
from joey.tools.read_file import ReadFile
from joey.workspace.files import LocalFiles
from joey.workspace.ignore import GitIgnore, IgnoreRules
from tests.harness.tools.tool_context import make_context

SECONDS = 60


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("*a" * 8 + "b", "a" * 200),
        ("*a?" * 60 + "b", "a" * 255),
        ("*[ab]" * 40 + "c", "a" * 255),
        ("/x/" + "*a" * 8 + "b/c", "x/" + "a" * 200),
        ("a/**/" * 12 + "b", "a/" * 1900 + "c"),
        ("**/a/" * 12 + "b", "a/" * 1900 + "c"),
        ("**/*a*a*a/" * 6 + "b", ("a" * 100 + "/") * 35 + "c"),
        ("*a" * 8 + "b", "a" * 4000),
    ],
)
def test_stars_in_rooignore_do_not_hold_the_engine(tmp_path: Path, rule: str, path: str) -> None:
    (tmp_path / ".rooignore").write_text(rule + "\n")
    code = (
        "import sys\nfrom pathlib import Path\nfrom joey.workspace.files import LocalFiles\n"
        "LocalFiles(Path(sys.argv[1])).resolve(sys.argv[2])"
    )
    # In a process of its own, because a match that hangs cannot be interrupted.
    subprocess.run([sys.executable, "-c", code, tmp_path, path], timeout=SECONDS, check=True)


@pytest.mark.parametrize(
    ("rule", "path", "hidden"),
    [
        ("*a*b*c", "xaxbxc", True),
        ("*a*b*c", "xaxcxb", False),
        ("*ab*ab", "abxab", True),
        ("*ab*ab", "ab", False),
        ("a/**/b/**/c", "a/x/b/y/b/c", True),
        ("a/**/b/**/c", "a/c/b", False),
        ("**/a/**/b/c", "x/a/b/x/b/c", True),
        ("secret", "line\nbreak/secret", True),
        ("a[!b]c", "a/c", False),
        ("a[!b]c", "axc", True),
    ],
)
def test_stars_take_as_much_as_they_must(rule: str, path: str, hidden: bool) -> None:
    assert GitIgnore(rule.encode()).is_ignored(path.encode(), is_dir=False) is hidden


@pytest.mark.parametrize("rules", ["a\0b\n", "a" * 5000, "".join(f"{n}\n" for n in range(5001))])
def test_rules_beyond_understanding_hide_everything_and_are_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, rules: str
) -> None:
    (tmp_path / ".rooignore").write_text(rules)
    seen = IgnoreRules(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert all(seen.is_hidden(path) for path in ("x", "y/z", "x"))
    assert len(caplog.records) == 1


def test_a_name_that_is_too_long_for_a_disk_counts_as_hidden(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    assert not files.resolve("x" * 300).is_ignored
    (tmp_path / ".rooignore").write_text("secret/\n")
    assert files.resolve("x" * 300).is_ignored
    assert files.resolve(f"sub/{'é' * 200}/x").is_ignored is False
    assert not files.resolve("x" * 200).is_ignored
    (tmp_path / ".rooignore").write_text("*/\n")
    assert files.resolve("é" * 200).is_ignored


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look everywhere")
def test_a_place_that_may_not_be_looked_at_counts_as_a_directory(tmp_path: Path) -> None:
    (tmp_path / ".rooignore").write_text("closed/*/\n")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o000)
    try:
        assert LocalFiles(tmp_path).resolve("closed/x").is_ignored
    finally:
        closed.chmod(0o700)


async def test_reading_a_name_that_is_too_long_is_refused_where_rooignore_hides_directories(
    tmp_path: Path,
) -> None:
    tool = ReadFile()
    ctx = make_context(tmp_path)
    (ctx.files.root / ".rooignore").write_text("*/\n")
    try:
        prepared = await tool.prepare(tool.parse({"path": "x" * 300}), ctx)
    except ToolError:
        return
    refused = isinstance(decide(prepared.claims, Settings()), Deny)
    assert refused or (await tool.run_prepared(prepared, ctx, None)).is_error
