"""Files of a real workspace, as they are offered behind an at sign."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.app import file_finder
from joey.app.file_finder import FileFinder, PathIndex
from joey.tui.app_services import CompletionItem
from joey.workspace.files import LocalFiles
from tests.harness.tui.composer_harness import open_composer


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for path in (
        *("src/app.py", "src/deep/apparatus.py", "src/other.py", "src/snapshot/x.txt"),
        *("docs/a b.md", ".github/flow.yml", "ignored/app.py", "secret/app.py", "logo.svg"),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x", encoding="utf-8")
    (tmp_path / ".gitignore").write_text("ignored/\n!secret/\n", encoding="utf-8")
    (tmp_path / ".rooignore").write_text("secret/\n", encoding="utf-8")
    return tmp_path


async def test_names_that_begin_so_come_first_and_ignored_ones_never(workspace: Path) -> None:
    offers = FileFinder(LocalFiles(workspace))
    assert await offers.find("app") == ["src/app.py", "src/deep/apparatus.py"]
    assert (await offers.find("sn"))[:2] == ["src/snapshot/", "src/snapshot/x.txt"]


async def test_directories_hidden_and_generated_files_are_offered(workspace: Path) -> None:
    offers = FileFinder(LocalFiles(workspace))
    everything = await offers.find("")
    assert {"src/", "src/deep/", ".github/flow.yml", "logo.svg", "docs/a b.md"} <= {*everything}
    assert everything[:3] == ["docs/", "logo.svg", "src/"]
    assert not [path for path in everything if "ignored/" in path or "secret" in path]


async def test_letters_in_their_order_are_enough(workspace: Path) -> None:
    offers = FileFinder(LocalFiles(workspace))
    assert await offers.find("sdeapp") == ["src/deep/apparatus.py"]
    assert await offers.find("DEEP/app") == ["src/deep/apparatus.py"]
    assert await offers.find("zzz") == []


async def test_a_new_file_is_found_when_the_list_has_become_old(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_finder, "_LISTING_MAX_AGE_S", 0.0)
    offers = FileFinder(LocalFiles(workspace))
    assert await offers.find("fresh") == []
    (workspace / "fresh.py").touch()
    async with asyncio.timeout(20):
        while await offers.find("fresh") != ["fresh.py"]:
            pass
    await offers.close()


async def test_a_home_of_many_projects_is_not_walked(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(workspace))
    assert await FileFinder(LocalFiles(workspace)).find("app") == []


async def test_a_file_of_the_workspace_is_mentioned(workspace: Path) -> None:
    class House:
        def __init__(self) -> None:
            self._files = FileFinder(LocalFiles(workspace))

        def list_commands(self) -> Sequence[CompletionItem]:
            return ()

        async def find_files(self, typed: str) -> Sequence[str]:
            return await self._files.find(typed)

    async with open_composer(offers=House()) as user:
        await user.write("read @ab.md")
        await user.press("tab", "enter")
        assert user.sent == ["read @/docs/a\\ b.md "]


NAMES = st.lists(st.text("abAB_-", min_size=1, max_size=4), min_size=1, max_size=3).map("/".join)


@given(st.lists(NAMES, unique=True, max_size=30), st.text("abAB_-/", max_size=4))
def test_all_that_fits_is_found_and_nothing_else(paths: list[str], typed: str) -> None:
    directories = {f"{parent}/" for path in paths for parent in map(str, Path(path).parents)} - {
        "./"
    }
    known = {*(path for path in paths), *directories}
    found = PathIndex(sorted(paths)).find(typed, limit=10_000)
    low = typed.lower()
    having = {path for path in known if low in path.lower()}
    spelling = {path for path in known if _has_in_order(path.lower(), low)}
    assert len(found) == len({*found})
    assert {*found} <= spelling
    assert {*found} >= having
    if len(having) < file_finder._MIN_HITS_WITHOUT_FUZZY:
        assert {*found} == spelling


def _has_in_order(text: str, letters: str) -> bool:
    rest = iter(text)
    return all(letter in rest for letter in letters)
