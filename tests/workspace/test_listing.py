from __future__ import annotations

from pathlib import Path

import pytest

from joey.errors import ToolError
from joey.ports.workspace import Listing
from joey.workspace.files import LocalFiles
from joey.workspace.search import LocalSearch

pytestmark = pytest.mark.contract("tool:list_files:success")


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x\n")


async def listing(root: Path, path: str = ".", recursive: bool = True, limit: int = 200) -> Listing:
    files = LocalFiles(root)
    return await LocalSearch(files).list_directory(files.resolve(path), recursive, limit)


async def test_entries_follow_their_directory(tmp_path: Path) -> None:
    make(tmp_path, "src/b.py", "src/a.py", "src/deep/c.py", "README.md", "src.txt", "empty/")
    assert (await listing(tmp_path)).entries == (
        *("empty/", "README.md", "src/", "src/a.py", "src/b.py"),
        *("src/deep/", "src/deep/c.py", "src.txt"),
    )


async def test_names_are_ordered_as_people_count(tmp_path: Path) -> None:
    make(tmp_path, "file10", "File2", "file1", "b", "A")
    assert (await listing(tmp_path)).entries == ("A", "b", "file1", "File2", "file10")


async def test_the_top_level_shows_what_is_in_the_directory_itself(tmp_path: Path) -> None:
    make(tmp_path, "src/a.py", "ignored.log", ".env", ".github/x", "node_modules/y", "empty/")
    make(tmp_path, ".git/config")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "link").symlink_to("src")
    assert (await listing(tmp_path, recursive=False)).entries == (
        *(".env", ".github/", ".gitignore", "empty/", "ignored.log", "link"),
        *("node_modules/", "src/"),
    )


async def test_what_git_ignores_is_not_listed_below(tmp_path: Path) -> None:
    make(tmp_path, "src/a.py", "src/out.log", "data/big.bin", "keep/b.py")
    (tmp_path / ".gitignore").write_text("*.log\ndata/\n")
    (tmp_path / "keep" / ".gitignore").write_text("b.py\n")
    assert (await listing(tmp_path)).entries == (
        *(".gitignore", "keep/", "keep/.gitignore", "src/", "src/a.py"),
    )


async def test_hidden_directories_are_named_but_not_entered(tmp_path: Path) -> None:
    make(tmp_path, ".github/workflows/ci.yml", ".env", "src/.cache/x", "src/a.py", ".git/config")
    assert (await listing(tmp_path)).entries == (
        *(".env", ".github/", "src/", "src/.cache/", "src/a.py"),
    )


async def test_directories_of_packages_are_named_but_not_entered(tmp_path: Path) -> None:
    make(tmp_path, "node_modules/a/b.js", "x/node_modules/c.js", "x/e.js", "x/__pycache__/f.pyc")
    make(tmp_path, "venv/pyvenv.cfg", "venv/bin/python", "build/g.o")
    (tmp_path / ".gitignore").write_text("build/\n")
    found = await listing(tmp_path)
    assert found.entries == (".gitignore", "x/", "x/e.js")
    assert found.skipped == ("build/", "node_modules/", "venv/", "x/node_modules/")
    assert (await listing(tmp_path, "build")).entries == ("g.o",)
    assert (await listing(tmp_path, "venv")).entries == ("bin/", "bin/python", "pyvenv.cfg")


@pytest.mark.parametrize("name", ["pkg", "vendor", "out", "env", "dist", "tmp", "deps", "target"])
async def test_a_directory_is_listed_whatever_its_name(tmp_path: Path, name: str) -> None:
    make(tmp_path, f"{name}/a.go", f"src/{name}/b.go")
    found = await listing(tmp_path)
    assert {f"{name}/a.go", f"src/{name}/b.go"} <= set(found.entries)
    assert found.skipped == ()


async def test_files_are_found_by_name_at_any_depth(tmp_path: Path) -> None:
    root = tmp_path / "work"
    make(root, "a.test.ts", "src/b.test.ts", "src/deep/c.test.ts", "src/d.ts", "build/e.test.ts")
    make(root, "secret/f.test.ts", ".hidden/g.test.ts")
    make(tmp_path, "outside/h.test.ts")
    (root / "link").symlink_to("../outside")
    (root / ".gitignore").write_text("build/\n")
    (root / ".rooignore").write_text("secret/\n")
    files = LocalFiles(root)
    search = LocalSearch(files)

    async def find(glob: str, path: str = ".", limit: int = 200) -> Listing:
        return await search.find_files(files.resolve(path), glob, limit)

    assert (await find("*.test.ts")).entries == (
        *("a.test.ts", "src/b.test.ts", "src/deep/c.test.ts"),
    )
    assert (await find("**/deep/*")).entries == ("src/deep/c.test.ts",)
    assert (await find("*.test.ts", "src")).entries == ("b.test.ts", "deep/c.test.ts")
    assert (await find("*.{md,py}")).entries == ()
    cut = await find("*.ts", limit=2)
    assert (len(cut.entries), cut.truncated) == (2, True)
    with pytest.raises(ToolError, match="does not exist"):
        await find("*", "nowhere")


@pytest.mark.parametrize("path", [".github", "node_modules"])
async def test_a_directory_that_is_usually_left_out_can_be_listed_by_name(
    tmp_path: Path, path: str
) -> None:
    make(tmp_path, f"{path}/sub/a", f"{path}/node_modules/b")
    (tmp_path / ".gitignore").write_text("*\n")
    assert (await listing(tmp_path, path)).entries == ("sub/", "sub/a")


async def test_links_are_named_but_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "work"
    make(tmp_path, "work/a", "outside/secret")
    (root / "folder").symlink_to("../outside")
    (root / "file").symlink_to("../outside/secret")
    (root / "loop").symlink_to(".")
    assert (await listing(root)).entries == ("a", "file", "folder", "loop")


async def test_what_rooignore_hides_is_not_listed(tmp_path: Path) -> None:
    make(tmp_path, "secret/key", "a", "b/private.txt", "b/c", "empty-secret/")
    (tmp_path / ".rooignore").write_text("secret/\nprivate.txt\nempty-secret/\n")
    assert (await listing(tmp_path)).entries == ("a", "b/", "b/c")
    assert (await listing(tmp_path, recursive=False)).entries == ("a", "b/")
    assert (await listing(tmp_path, "b", recursive=False)).entries == ("c",)


@pytest.mark.parametrize("recursive", [False, True])
async def test_what_rooignore_hides_is_not_listed_from_above_either(
    tmp_path: Path, recursive: bool
) -> None:
    root = tmp_path / "above" / "work"
    make(root, "a.py", "secret.txt", "keys/b.py", "deep/secret.txt")
    make(tmp_path, "above/secret.txt")
    (root / ".rooignore").write_text("secret.txt\nkeys/\n")
    entries = (await listing(root, str(root.parent), recursive)).entries
    below = {"work/a.py"} if recursive else set()
    assert {*entries} == {"secret.txt", "work/", *below}


async def test_too_many_entries_are_cut_from_the_depths(tmp_path: Path) -> None:
    make(tmp_path, *(f"a/deep/{number}" for number in range(50)), "z/file", "top")
    result = await listing(tmp_path, limit=10)
    assert result.truncated
    assert len(result.entries) == 10
    assert {"a/", "a/deep/", "top", "z/", "z/file"} <= set(result.entries)
    assert not (await listing(tmp_path, limit=55)).truncated


async def test_the_first_level_is_there_even_if_a_directory_before_it_is_huge(
    tmp_path: Path,
) -> None:
    make(tmp_path, "a/", "z/file")
    for number in range(2_010):
        (tmp_path / "a" / str(number)).touch()
    result = await listing(tmp_path)
    assert result.truncated
    assert {"a/", "z/"} <= set(result.entries)


@pytest.mark.parametrize("name", ["home", "link"])
async def test_a_home_directory_is_not_walked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    make(tmp_path, "home/a/b", "home/c")
    (tmp_path / "link").symlink_to("home")
    monkeypatch.setenv("HOME", str(tmp_path / name))
    result = await listing(tmp_path / "home")
    assert (result.entries, result.truncated) == (("a/", "c"), True)


async def test_a_name_that_is_not_utf_8_is_shown_as_far_as_it_can_be(tmp_path: Path) -> None:
    make(tmp_path, "x\udce9")
    assert (await listing(tmp_path)).entries == ("x\ufffd",)


async def test_what_is_no_directory_is_not_listed(tmp_path: Path) -> None:
    make(tmp_path, "file")
    with pytest.raises(ToolError, match="use read_file"):
        await listing(tmp_path, "file")
    with pytest.raises(ToolError, match="does not exist"):
        await listing(tmp_path, "nothing")
