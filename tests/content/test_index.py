from __future__ import annotations

import asyncio
import os
import stat
import threading
from pathlib import Path

import pytest

from joey.content import code_index as index_module
from joey.content.blocking_code_index import IndexChanges, IndexProgress, index_file_changes
from joey.content.code_index import BUILD_LOCK_FILE, WorkspaceIndexPool
from joey.content.code_index_store import CodeIndexStore
from joey.errors import ToolError
from joey.ports.workspace import Listing
from joey.workspace.listing import list_indexable_files
from tests.harness.content.index_harness import IndexHarness, answer, paths, whole_answer


@pytest.fixture
def harness(tmp_path: Path) -> IndexHarness:
    return IndexHarness(tmp_path)


# Finding


@pytest.mark.contract("index:search")
@pytest.mark.parametrize(
    "query",
    ["where are expired sessions removed", "expireSession", "session expiry", "EXPIRED SESSION"],
)
async def test_code_is_found_by_text_names_and_parts_of_names(
    harness: IndexHarness, query: str
) -> None:
    harness.write("src/a.py", "def remove_expired_sessions(store):\n    store.sweep()\n")
    harness.write("src/b.ts", "export function expireSession(id) { return drop(id); }\n")
    harness.write("src/c.py", "def paint(canvas):\n    canvas.fill()\n")
    async with harness.index() as index:
        found = await paths(index, query)
    assert found
    assert {*found} <= {"src/a.py", "src/b.ts"}


@pytest.mark.contract("index:search")
async def test_a_definition_and_a_path_count_more_than_a_mention(harness: IndexHarness) -> None:
    filler = "".join(f"    step_{number}()\n" for number in range(20))
    harness.write("use.py", f"def work():\n{filler}    parse_invoice()\n")
    harness.write("made.py", f"def parse_invoice():\n{filler}")
    harness.write("parse/invoice.py", f"def run():\n{filler}")
    async with harness.index() as index:
        hits = (await answer(index, "parse invoice")).hits
    assert {hit.path for hit in hits[:2]} == {"made.py", "parse/invoice.py"}
    assert hits[0].score == 1
    assert all(0 <= hit.score <= 1 for hit in hits)


async def test_a_hit_says_where_it_is_and_what_is_there(harness: IndexHarness) -> None:
    harness.write("a.py", "\n\ndef needle():\n    pass\n\n")
    async with harness.index() as index:
        (hit,) = (await answer(index, "needle")).hits
    assert (hit.path, hit.start_line, hit.end_line) == ("a.py", 3, 4)
    assert hit.text == "def needle():\n    pass"


async def test_a_directory_keeps_the_search_to_it(harness: IndexHarness) -> None:
    for path in ("src/a.py", "src/deep/b.py", "src2/c.py", "[s]rc/d.py"):
        harness.write(path, "needle = 1\n")
    async with harness.index() as index:
        await answer(index, "needle")
        for directory, wanted in (
            ("src", {"src/a.py", "src/deep/b.py"}),
            ("src/deep", {"src/deep/b.py"}),
            ("src/a.py", {"src/a.py"}),
            ("[s]rc", {"[s]rc/d.py"}),
            (".", {"src/a.py", "src/deep/b.py", "src2/c.py", "[s]rc/d.py"}),
        ):
            found = await index.search("needle", harness.files.resolve(directory), 10)
            assert {hit.path for hit in found.hits} == wanted


@pytest.mark.parametrize("query", ['" OR 1', "NEAR(a b)", "*", "a:b", "\0", "  ", "的", "x" * 5000])
async def test_no_query_is_a_syntax_error(harness: IndexHarness, query: str) -> None:
    harness.write("needle.py", "needle = needle\n")
    async with harness.index() as index:
        assert (await answer(index, query)).hits == ()


# What is never found


@pytest.mark.contract("index:hidden")
async def test_ignored_hidden_binary_large_and_linked_files_are_not_found(
    harness: IndexHarness, tmp_path: Path
) -> None:
    harness.write(".gitignore", "ignored.py\n")
    harness.write(".rooignore", "secret/\n")
    for path in ("ignored.py", "secret/a.py", ".hidden.py", "node_modules/a.js", "shown.py"):
        harness.write(path, "needle = 1\n")
    (harness.root / "binary.bin").write_bytes(b"needle\0needle")
    harness.write("large.txt", "needle\n" * 200_000)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.py").write_text("needle = 1\n")
    (harness.root / "link.py").symlink_to(tmp_path / "outside" / "a.py")
    (harness.root / "linked").symlink_to(tmp_path / "outside")
    async with harness.index() as index:
        assert await paths(index, "needle") == ["shown.py"]


@pytest.mark.contract("index:hidden")
@pytest.mark.parametrize("settling", [0, 10**12])
async def test_what_is_hidden_after_it_was_indexed_is_not_found_any_more(
    harness: IndexHarness, settling: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("joey.content.blocking_code_index._STAMP_SETTLING_NS", settling)
    harness.write("a.py", "needle = 1\n")
    harness.write("b.py", "needle = 2\n")
    harness.write(".gitignore", "!a.py\n")  # counts for more than .rooignore with ripgrep
    async with harness.index() as index:
        assert {*(await paths(index, "needle"))} == {"a.py", "b.py"}
        harness.write(".rooignore", "a.py\n")
        assert await paths(index, "needle") == ["b.py"]
        harness.write(".gitignore", "b.py\n")
        assert await paths(index, "needle") == []


@pytest.mark.contract("index:hidden")
async def test_a_directory_that_became_a_link_to_the_outside_shows_nothing(
    harness: IndexHarness, tmp_path: Path
) -> None:
    harness.write("src/a.py", "needle = 1\n")
    async with harness.index() as index:
        assert await paths(index, "needle") == ["src/a.py"]
        (harness.root / "src").rename(tmp_path / "src")
        (harness.root / "src").symlink_to(tmp_path / "src")
        assert await paths(index, "needle") == []


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
async def test_files_that_begin_with_a_mark_are_found(harness: IndexHarness, encoding: str) -> None:
    (harness.root / "a.sql").write_bytes("needle = 'ä'\n".encode(encoding))
    async with harness.index() as index:
        (hit,) = (await answer(index, "needle")).hits
    assert (hit.path, hit.text) == ("a.sql", "needle = 'ä'")


@pytest.mark.contract("index:hidden")
async def test_a_directory_that_becomes_a_link_while_files_are_read_in_is_not_followed(
    harness: IndexHarness, tmp_path: Path
) -> None:
    harness.write("src/a.py", "harmless = 1\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.py").write_text("needle = 1\n")
    (harness.root / "src").rename(tmp_path / "src")
    (harness.root / "src").symlink_to(tmp_path / "outside")
    store = CodeIndexStore(tmp_path / "database")
    changes = IndexChanges(("src/a.py",), (), 1, False)
    assert index_file_changes(store, harness.root, changes, IndexProgress(), threading.Event())
    assert store.search_text("needle", "", 9) == []
    store.close()


# Edits


@pytest.mark.contract("index:search")
async def test_edits_are_found_at_once(harness: IndexHarness) -> None:
    file = harness.write("a.py", "before = 1\n")
    harness.write("b.py", "other = 1\n")
    async with harness.index() as index:
        assert await paths(index, "before") == ["a.py"]
        for word in ("after1", "after2", "after3"):
            file.write_text(f"{word} = 1\n")
            assert await paths(index, word) == ["a.py"]
        assert await paths(index, "before after1") == []
        harness.write("deep/new.py", "fresh = 1\n")
        assert await paths(index, "fresh") == ["deep/new.py"]
        file.unlink()
        assert await paths(index, "after3") == []


@pytest.mark.contract("index:search")
async def test_a_change_that_leaves_time_and_size_alone_is_noticed(harness: IndexHarness) -> None:
    file = harness.write("a.py", "aaaaaa = 1\n")
    os.utime(file, ns=(10**18, 10**18))
    async with harness.index() as index:
        assert await paths(index, "aaaaaa") == ["a.py"]
        other = harness.write("tmp.txt", "bbbbbb = 1\n")
        os.utime(other, ns=(10**18, 10**18))
        other.rename(file)
        assert await paths(index, "bbbbbb") == ["a.py"]


@pytest.mark.contract("index:search")
async def test_many_changes_are_left_to_the_background_and_the_answer_says_so(
    harness: IndexHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "MAX_FOREGROUND_CHANGES", 3)
    harness.write("old.py", "needle = 0\n")
    async with harness.index() as index:
        assert await paths(index, "needle") == ["old.py"]
        for number in range(8):
            harness.write(f"new{number}.py", f"needle = {number}\n")
        first = await index.search("needle", None, 20)
        assert "taking in changes" in first.note
        assert "old.py" in [hit.path for hit in first.hits]
        assert len((await whole_answer(index, "needle")).hits) == 9


@pytest.mark.contract("index:search")
async def test_a_new_process_takes_in_what_changed_meanwhile(harness: IndexHarness) -> None:
    harness.write("a.py", "before = 1\n")
    async with harness.index() as index:
        assert await paths(index, "before") == ["a.py"]
    harness.write("a.py", "after = 1\n")
    async with harness.index() as index:
        found = await index.search("after", None, 10)
        assert [hit.path for hit in found.hits] == ["a.py"]


# Filling, sharing, closing


@pytest.mark.contract("tool:codebase_search:failure:not-ready", "index:search")
async def test_while_it_is_filled_a_search_says_how_far_it_is(
    harness: IndexHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "SEARCH_WAIT_S", 0.01)
    harness.write("a.py", "needle = 1\n")
    gate = threading.Event()

    def slowly(stop: threading.Event) -> Listing:
        assert gate.wait(20)
        return list_indexable_files(harness.files, stop)

    index = WorkspaceIndexPool(harness.home).open(harness.files, slowly)
    try:
        with pytest.raises(ToolError, match=r"not ready yet.*search_files"):
            await index.search("needle", None, 10)
        assert not index.state.is_ready
        gate.set()
        assert await paths(index, "needle") == ["a.py"]
        assert (
            index.state.is_ready,
            index.state.indexed_file_count,
            index.state.total_file_count,
        ) == (
            True,
            1,
            1,
        )
    finally:
        gate.set()
        await index.close()


@pytest.mark.contract("index:search")
async def test_the_index_is_begun_by_itself_when_nobody_asks(
    harness: IndexHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("joey.content.code_index.INDEXING_START_DELAY_S", 0)
    harness.write("a.py", "needle = 1\n")
    listed = asyncio.Event()
    loop = asyncio.get_running_loop()

    def listing(stop: threading.Event) -> Listing:
        loop.call_soon_threadsafe(listed.set)
        return list_indexable_files(harness.files, stop)

    index = WorkspaceIndexPool(harness.home).open(harness.files, listing)
    async with asyncio.timeout(20):
        await listed.wait()
    await index.close()


@pytest.mark.contract("index:search")
async def test_tasks_of_a_workspace_share_one_index_until_the_last_is_closed(
    harness: IndexHarness,
) -> None:
    harness.write("a.py", "needle = 1\n")
    indexes = WorkspaceIndexPool(harness.home)
    listings = 0

    def listing(stop: threading.Event) -> Listing:
        nonlocal listings
        listings += 1
        return list_indexable_files(harness.files, stop)

    first, second = (indexes.open(harness.files, listing) for _ in range(2))
    assert await paths(first, "needle") == ["a.py"]
    assert second.state.is_ready
    await first.close()
    await first.close()
    assert await paths(second, "needle") == ["a.py"]
    await second.close()
    assert listings <= 4


async def test_closing_stops_what_is_under_way(harness: IndexHarness) -> None:
    harness.write("a.py", "needle = 1\n")
    listed = asyncio.Event()
    loop = asyncio.get_running_loop()

    def listing(stop: threading.Event) -> Listing:
        loop.call_soon_threadsafe(listed.set)
        assert stop.wait(20)
        return list_indexable_files(harness.files, stop)

    index = WorkspaceIndexPool(harness.home).open(harness.files, listing)
    searching = asyncio.create_task(index.search("needle", None, 10))
    async with asyncio.timeout(20):
        await listed.wait()
        closing = asyncio.create_task(index.close())
        with pytest.raises(ToolError):
            await searching
        await closing
    assert not index.state.is_ready
    with pytest.raises(ToolError, match="closed"):
        await index.search("needle", None, 10)


@pytest.mark.contract("index:hidden")
async def test_an_index_that_is_not_to_be_kept_leaves_nothing(
    harness: IndexHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    harness.write("a.py", "needle = 1\n")
    indexes = WorkspaceIndexPool(harness.home, persistent=False)
    unused = harness.open(indexes)
    assert [*(tmp_path / "tmp").iterdir()] == []
    index = harness.open(indexes)
    assert await paths(index, "needle") == ["a.py"]
    (directory,) = (tmp_path / "tmp").iterdir()
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    await index.close()
    await unused.close()
    assert [*(tmp_path / "tmp").iterdir()] == []
    assert not harness.home.exists()


@pytest.mark.contract("index:hidden")
async def test_only_the_owner_may_read_the_index(harness: IndexHarness) -> None:
    harness.write("a.py", "needle = 1\n")
    async with harness.index() as index:
        await answer(index, "needle")
        directory = harness.index_directory.path
        modes = {
            entry.name: stat.S_IMODE(entry.stat().st_mode)
            for entry in (directory, *directory.iterdir())
        }
    assert modes.pop(directory.name) == 0o700
    assert "code.sqlite" in modes
    assert {*modes.values()} == {0o600}


@pytest.mark.contract("index:search")
@pytest.mark.parametrize("damage", ["rubbish", "torn", "other layout"])
async def test_a_damaged_index_is_made_anew(harness: IndexHarness, damage: str) -> None:
    harness.write("a.py", "needle = 1\n" * 500)
    async with harness.index() as index:
        assert {*(await paths(index, "needle"))} == {"a.py"}
    database = harness.index_directory.database_path
    whole = database.read_bytes()
    match damage:
        case "rubbish":
            database.write_bytes(b"this is no database, but it is long enough to look at" * 100)
        case "torn":
            database.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
        case _:
            database.write_bytes(whole[:60] + (99).to_bytes(4, "big") + whole[64:])
    async with harness.index() as index:
        found: list[str] = []
        while not found:
            try:
                found = [hit.path for hit in (await index.search("needle", None, 5)).hits]
            except ToolError as error:
                assert "damaged" in str(error) or "not ready" in str(error)
        assert {*found} == {"a.py"}


@pytest.mark.contract("index:search")
async def test_while_another_process_fills_it_a_search_tells_its_progress(
    harness: IndexHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "SEARCH_WAIT_S", 0.05)
    harness.write("a.py", "needle = 1\n")
    harness.index_directory.create()
    async with harness.index() as index:
        with harness.index_directory.try_lock(BUILD_LOCK_FILE) as ours:
            assert ours
            with pytest.raises(ToolError, match="not ready"):
                await index.search("needle", None, 10)
        assert await paths(index, "needle") == ["a.py"]


@pytest.mark.contract("index:search")
async def test_while_another_process_reads_changes_in_the_rest_is_found(
    harness: IndexHarness,
) -> None:
    harness.write("a.py", "needle = 1\n")
    async with harness.index() as index:
        await answer(index, "needle")
        harness.write("b.py", "needle = 2\n")
        with harness.index_directory.try_lock(BUILD_LOCK_FILE):
            found = await index.search("needle", None, 10)
        assert [hit.path for hit in found.hits] == ["a.py"]
        assert "Another process" in found.note
        assert {*(await paths(index, "needle"))} == {"a.py", "b.py"}


@pytest.mark.contract("index:search")
async def test_two_at_once_agree(harness: IndexHarness) -> None:
    for number in range(40):
        harness.write(f"f{number}.py", f"needle{number} = 1\n")
    async with harness.index() as one, harness.index() as other:
        found = await asyncio.gather(*(paths(index, "needle7") for index in (one, other)))
        assert found == [["f7.py"], ["f7.py"]]
        harness.write("f7.py", "changed = 1\n")
        assert await paths(one, "changed") == ["f7.py"]
        assert await paths(other, "changed") == ["f7.py"]


@pytest.mark.contract("tool:codebase_search:failure:broken")
async def test_a_home_that_cannot_be_written_is_a_problem_that_is_reported(
    harness: IndexHarness,
) -> None:
    harness.home.write_text("no folder")
    async with harness.index() as index:
        with pytest.raises(ToolError, match=r"cannot be used.*search_files"):
            await index.search("needle", None, 10)
        assert "cannot be used" in index.state.error


@pytest.mark.contract("index:search")
async def test_an_sqlite_without_full_text_is_a_problem_that_is_reported(
    harness: IndexHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("joey.content.blocking_code_index.has_full_text_search", lambda: False)
    async with harness.index() as index:
        with pytest.raises(ToolError, match="no FTS5"):
            await index.search("needle", None, 10)
        assert "no FTS5" in index.state.error
