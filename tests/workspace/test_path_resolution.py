"""Whatever links there are: the place that a path leads to is the one that the system finds."""

from __future__ import annotations

import asyncio
import os
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.errors import ToolError
from joey.workspace.files import LocalFiles
from tests.harness.counts import shortened_examples

NAMES = ("a", "b", "c")
DIRECTORIES = ("work", "work/a", "work/b", "work/b/c", "out", "out/a")

paths = st.lists(st.sampled_from((*NAMES, "..", ".", "out", "work", "f")), max_size=6).map("/".join)
targets = st.one_of(
    paths, st.sampled_from((".", "..", "../out", "../out/f", "{}/out/a", "{}/work/b/f", "/", "x"))
)
links = st.lists(
    st.tuples(st.sampled_from(DIRECTORIES), st.sampled_from(("l", "m", "n")), targets), max_size=5
)
asked = st.lists(
    st.sampled_from((*NAMES, "l", "m", "n", "f", "..", ".", "out", "work")), min_size=1, max_size=7
).map("/".join)


def build(root: Path, planted: list[tuple[str, str, str]]) -> None:
    for directory in DIRECTORIES:
        (root / directory).mkdir(parents=True)
        (root / directory / "f").write_text(directory)
    for directory, name, target in planted:
        with suppress(FileExistsError):
            (root / directory / name).symlink_to(target.format(root) or ".")


@pytest.mark.contract("permissions:paths")
@shortened_examples(50, 150)
@given(planted=links, path=asked)
def test_a_place_is_where_the_system_finds_the_file(
    planted: list[tuple[str, str, str]], path: str
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        build(root, planted)
        files = LocalFiles(root / "work")
        place = files.resolve(path)
        assert place.is_inside == (
            place.path == files.root or str(place.path).startswith(f"{files.root}{os.sep}")
        )
        try:
            data, here = (files.root / path).read_bytes(), place.path.read_bytes()
        except OSError:
            return  # there is no such file, or names alone lead on where the system stops
        assert data == here
        assert data.decode().startswith("work") == place.is_inside
        assert not any(part.is_symlink() for part in (place.path, *place.path.parents))
        assert asyncio.run(files.read(place)) == data


@pytest.mark.contract("permissions:paths")
@shortened_examples(35, 100)
@given(planted=links, path=asked)
def test_writing_to_a_place_inside_changes_nothing_outside(
    planted: list[tuple[str, str, str]], path: str
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        build(root, planted)
        files = LocalFiles(root / "work")
        place = files.resolve(path)
        before = contents(root / "out")
        if place.is_inside:
            with suppress(ToolError):
                asyncio.run(files.write(place, b"written"))
                assert place.path.read_bytes() == b"written"
        assert contents(root / "out") == before


def contents(directory: Path) -> dict[str, str]:
    return {
        name: Path(where, name).read_text()
        for where, _, names in os.walk(directory)
        for name in names
        if not Path(where, name).is_symlink()
    }
