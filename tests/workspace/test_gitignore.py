"""Rules hide exactly what git would ignore by them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from joey.workspace.files import LocalFiles
from joey.workspace.ignore import IgnoreRules
from joey.workspace.listing import list_all_files
from tests.harness.counts import shortened_examples

GIT = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.ignorecase",
    "GIT_CONFIG_VALUE_0": "false",
    "GIT_CONFIG_KEY_1": "core.excludesFile",
    "GIT_CONFIG_VALUE_1": "/dev/null",
}
NAMES = ["a", "b", "A", "ab", "aab", "a b", "b ", "a.b", ".a", "é", "[a]", "{a,b}", "a*", "\\a"]
NAMES += ["!a", "#a", "a\t", "-", "]", "a\nb", "a\r"]
PLAIN = ["a", "b", "A", "ab", "a b", ".", "é", " ", "\t", "!", "#", "-", "]", "{a,b}"]
WILD = ["*", "**", "***", "?", "/", "**/", "/**", "/**/", "/*", "*/"]
ESCAPED = ["\\", "\\ ", "\\*", "\\/", "\\\\", "\\a", "\\!"]
SETS = ["[", "[ab]", "[!a]", "[^b]", "[a-b]", "[b-a]", "[]a]", "[!]]", "[a-]", "[\\]]", "[a\\-é]"]
SETS += ["[[:alpha:]]", "[[:space:]a]", "[![:upper:]]", "[[:no:]]", "[[:]", "[a[:b]", "[/a]"]

trees = st.lists(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join), min_size=1, max_size=6
)
pieces = st.sampled_from([*PLAIN, *WILD, *ESCAPED, *SETS])
patterns = st.lists(pieces, min_size=1, max_size=6).map("".join)


def parts(tree: Sequence[str]) -> list[str]:
    """What a rule can name in the tree."""
    whole = {"/".join(path.split("/")[:depth]) for path in tree for depth in range(1, 5)}
    return sorted(whole | {name for path in tree for name in path.split("/")})


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[str], str]:
    """The paths of files, and rules."""
    tree = draw(trees)
    near = st.tuples(
        st.sampled_from(["", "/", "**/", "*", "\\"]),
        st.sampled_from(parts(tree)),
        st.sampled_from(["", "/", "/*", "/**", "*", " ", "\\ ", "\\", "/**/b", "\r"]),
    ).map("".join)
    rule = st.tuples(st.sampled_from(["", "", "!"]), near | patterns).map("".join)
    return tree, "\n".join(draw(st.lists(rule, min_size=1, max_size=6)))


def make(root: Path, tree: Sequence[str]) -> dict[str, bool]:
    """All paths, and whether they are directories; the first that has a name decides what it is."""
    for path in map(root.joinpath, tree):
        with suppress(FileExistsError, NotADirectoryError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    return {str(path.relative_to(root)): path.is_dir() for path in root.rglob("*")}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository's store, whose work tree is another one for each example."""
    directory = tmp_path_factory.mktemp("store")
    subprocess.run(["git", "init", "-q", directory], env=GIT, check=True)
    return directory / ".git"


def ignored_by_git(store: Path, root: Path, paths: Sequence[str]) -> set[str]:
    run = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin", "-z"],
        input="\0".join(paths).encode(),
        cwd=root,
        env={**GIT, "GIT_DIR": str(store), "GIT_WORK_TREE": str(root)},
        capture_output=True,
        check=False,
    )
    assert run.returncode in (0, 1), run.stderr
    return set(run.stdout.decode().split("\0")) - {""}


@shortened_examples(20, 60)
@given(st.lists(worlds(), min_size=1, max_size=20))
@example([(["packages/app/secrets/prod.env"], "secrets/\n!packages/")])
@example([(["foo/x/bar", "foobar", "foox/y/bar"], "foo**/bar")])
@example([(["x/ab/c/d"], "*\n!x/\n!x/a**")])
@example([(["x/y"], "x\n!x/"), (["x"], "x\n!x/")])
def test_what_is_hidden_is_what_git_ignores(
    store: Path, several: list[tuple[list[str], str]]
) -> None:
    with TemporaryDirectory() as name:
        # Many in one tree, so that few processes are started.
        trees = [(Path(name, str(number)), *world) for number, world in enumerate(several)]
        kinds = {root: make(root, tree) for root, tree, _ in trees}
        for root, _, rules in trees:
            (root / ".gitignore").write_bytes(rules.encode())
            (root / ".rooignore").write_bytes(rules.encode())
        paths = [f"{root.name}/{path}" for root in kinds for path in kinds[root]]
        ignored = ignored_by_git(store, Path(name), paths)
        for root, tree, rules in trees:
            expected = {path for path in kinds[root] if f"{root.name}/{path}" in ignored}
            seen, files = IgnoreRules(root), LocalFiles(root)
            assert seen.error == ""
            hidden = {
                path for path, is_dir in kinds[root].items() if seen.is_hidden(path, is_dir=is_dir)
            }
            assert hidden == expected, (tree, rules)
            assert {path for path in kinds[root] if files.resolve(path).is_ignored} == expected


@shortened_examples(20, 60)
@given(worlds())
@example((["a/b", "{a,b}"], "{a,b}"))
@example((["a/b/A", "a/A"], "*\n!/a\n!A"))
@example((["a/b", "ab/c"], "/a\n*b/\n**/c\n"))
def test_what_can_be_named_to_the_model_is_what_git_does_not_ignore(
    world: tuple[list[str], str],
) -> None:
    """ripgrep, which is given the rules where it reads them in the same way, leaves out no more."""
    tree, rules = world
    with TemporaryDirectory() as name:
        root = Path(name)
        kinds = make(root, tree)
        (root / ".rooignore").write_bytes(rules.encode())
        seen = IgnoreRules(root)
        shown = {path for path, is_dir in kinds.items() if not is_dir and path.isprintable()}
        expected = {path for path in shown if not seen.is_hidden(path)}
        assert {*list_all_files(LocalFiles(root)).entries} - {".rooignore"} == expected
