"""`results.jsonl`: lines are whole and written once, whatever writers and files do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from joey.batch.results import ItemStatus, ResultLine, ResultsFile
from joey.errors import StoreError


def make_line(item: str, status: ItemStatus = ItemStatus.DONE, **more: object) -> ResultLine:
    values = {"item": item, "attempt": 1, "status": status, "code": "x", "ended": 1.0, **more}
    return ResultLine(**values)  # type: ignore[arg-type]


def read_items(path: Path) -> list[str]:
    return [msgspec.json.decode(line)["item"] for line in path.read_bytes().splitlines()]


def test_threads_and_processes_append_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    files = [ResultsFile(path), ResultsFile(path)]
    names = [f"item-{n}" for n in range(100)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: files[n % 2].append(make_line(names[n])), range(100)))
    assert sorted(read_items(path)) == sorted(names)
    for file in files:
        file.refresh()
        assert sorted(line.item for line in file.lines) == sorted(names)


def test_a_line_that_was_cut_off_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    ResultsFile(path).append(make_line("a"))
    with path.open("ab") as file:
        file.write(b'{"item":"b","att')
    results = ResultsFile(path)
    results.append(make_line("c"))
    assert read_items(path) == ["a", "c"]


def test_a_file_that_was_removed_meanwhile_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    results = ResultsFile(path)
    results.append(make_line("a"))
    path.unlink()
    results.append(make_line("b"))
    assert read_items(path) == ["b"]
    assert [line.item for line in results.lines] == ["b"]


def test_a_line_that_someone_broke_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text('{"item": 3}\nnonsense\n')
    results = ResultsFile(path)
    results.append(make_line("a"))
    assert [line.item for line in results.lines] == ["a"]
    assert "not a result" in caplog.text


def test_a_line_that_only_repeats_is_not_written(tmp_path: Path) -> None:
    results = ResultsFile(tmp_path / "results.jsonl")
    stopped = make_line("a", ItemStatus.BUDGET, requests=1)
    for line in (stopped, msgspec.structs.replace(stopped, ended=2.0)):
        results.append(line)
    assert len(results.lines) == 1
    results.append(msgspec.structs.replace(stopped, requests=2))
    results.append(make_line("a", requests=3))
    results.append(make_line("a", ItemStatus.ERROR, requests=3))
    assert [line.status for line in results.lines] == ["budget", "budget", "done"]


def test_a_line_that_cannot_be_written_is_a_store_error(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.mkdir()
    with pytest.raises(StoreError, match=r"could not write results\.jsonl"):
        ResultsFile(path).append(make_line("a"))
