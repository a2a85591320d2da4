"""Somebody swaps files, folders and links while they are read, written, searched and listed."""

from __future__ import annotations

import asyncio
import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from joey.config.untrusted_files import SymlinkPolicy, UntrustedFileReader
from joey.errors import ToolError
from joey.workspace.files import LocalFiles
from joey.workspace.git.trees import (
    ConcurrentChangeError,
    TreeChange,
    apply_changes,
    read_file_signatures,
)
from joey.workspace.search import LocalSearch

SWAPS = int(os.environ.get("JOEY_SWAPS", "10000"))
LEAST = SWAPS // 50
"""Times that something is tried meanwhile."""
SECONDS = 120
SECRET = "SECRET-BYTES"

SWAPPER = """
import ctypes, os, sys
path, target, swaps = sys.argv[1], sys.argv[2], int(sys.argv[3])
exchange = ctypes.CDLL(None, use_errno=True).renameat2
link = path + ".link"
os.symlink(target, link)
here, one, other, done = -100, os.fsencode(path), os.fsencode(link), 0
while True:
    for _ in range(2):
        if exchange(here, one, here, other, 2):
            sys.exit(os.strerror(ctypes.get_errno()))
    done += 1
    if done == swaps:
        print("enough", flush=True)
"""
"""In one step, so that there is never nothing."""

pytestmark = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "renameat2"), reason="names cannot be exchanged here"
)


class RaceHarness:
    def __init__(self, root: Path) -> None:
        self.work, self.outside = root / "work", root / "outside"
        self.config = self.work / ".roo"
        for directory in (self.work / "d", self.outside, self.config):
            directory.mkdir(parents=True)
        (self.work / "d" / "f.txt").write_text("inside\n")
        (self.work / "f.txt").write_text("inside\n")
        for directory in (self.outside, self.config):
            for name in ("f.txt", "only-there.txt"):
                (directory / name).write_text(f"{SECRET}\n")
        self.files = LocalFiles(self.work)
        self.search = LocalSearch(self.files)

    def check_untouched(self) -> None:
        for directory in (self.outside, self.config):
            assert sorted(file.name for file in directory.iterdir()) == ["f.txt", "only-there.txt"]
            assert {file.read_text() for file in directory.iterdir()} == {f"{SECRET}\n"}


@pytest.fixture
def harness(tmp_path: Path) -> RaceHarness:
    return RaceHarness(tmp_path)


@contextmanager
def swapping(path: Path, target: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process puts a link to the target where the path is, and takes it away again."""
    arguments = [sys.executable, "-c", SWAPPER, str(path), str(target), str(SWAPS)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def enough(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has done what it was told; it goes on until it is ended."""
    assert process.poll() is None, "the other process failed"
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    return bool(process.stdout.read())


async def read_and_write(harness: RaceHarness, path: str, process: subprocess.Popen[bytes]) -> None:
    """As tools do it, with leave for everything in the workspace that is not protected."""
    tried = read = written = 0
    is_enough = False
    while tried < LEAST or not is_enough:
        tried += 1
        is_enough = is_enough or enough(process)
        try:
            place = harness.files.resolve(path)
        except ToolError:  # it changed whenever it was looked at
            continue
        if not place.is_inside or place.is_protected:
            continue
        with suppress(ToolError):
            assert SECRET.encode() not in await harness.files.read(place)
            read += 1
        with suppress(ToolError):
            await harness.files.write(place, b"written\n")
            written += 1
        with suppress(ToolError):
            other = harness.files.resolve(f"{path}-beside")
            if other.is_inside and not other.is_protected:
                await harness.files.write(other, b"new\n")
                await harness.files.remove(other)
    assert read
    assert written


@pytest.mark.contract("permissions:paths")
@pytest.mark.parametrize("target", ["outside", "work/.roo"])
async def test_a_directory_that_is_swapped_lets_nothing_in_or_out(
    harness: RaceHarness, target: str
) -> None:
    with swapping(harness.work / "d", harness.work.parent / target) as process:
        async with asyncio.timeout(SECONDS):
            await read_and_write(harness, "d/f.txt", process)
    harness.check_untouched()


@pytest.mark.contract("permissions:paths")
@pytest.mark.parametrize("target", ["outside/f.txt", "work/.roo/f.txt"])
async def test_a_file_that_is_swapped_lets_nothing_in_or_out(
    harness: RaceHarness, target: str
) -> None:
    with swapping(harness.work / "f.txt", harness.work.parent / target) as process:
        async with asyncio.timeout(SECONDS):
            await read_and_write(harness, "f.txt", process)
    harness.check_untouched()


@pytest.mark.contract("permissions:paths")
@pytest.mark.parametrize(("path", "target"), [("d", "outside"), ("f.txt", "outside/f.txt")])
async def test_searching_and_listing_show_nothing_of_what_is_swapped_in(
    harness: RaceHarness, path: str, target: str
) -> None:
    shown: set[str] = set()
    with swapping(harness.work / path, harness.work.parent / target) as process:
        async with asyncio.timeout(SECONDS):
            tried = 0
            while tried < LEAST // 8 or not enough(process):
                tried += 1
                for directory in (".", "d"):
                    place = harness.files.resolve(directory)
                    if not place.is_inside:
                        continue
                    with suppress(ToolError):
                        result = await harness.search.grep(place, "SECRET|inside", None, 100)
                        shown |= {line[1] for hit in result.hits for line in hit.lines}
                    with suppress(ToolError):
                        listing = await harness.search.list_directory(place, True, 100)
                        shown |= {entry.rpartition("/")[2] for entry in listing.entries}
    assert "inside" in shown
    assert not {text for text in shown if SECRET in text or "only-there" in text}


@pytest.mark.contract("permissions:paths")
def test_rules_are_not_read_from_what_is_swapped_in(harness: RaceHarness) -> None:
    fence = SymlinkPolicy((harness.work,), lambda path: False)
    read = set()
    with swapping(harness.work / "d", harness.outside) as process:
        tried = 0
        while tried < LEAST or not enough(process):
            tried += 1
            text = UntrustedFileReader().read(harness.work / "d" / "f.txt", "d/f.txt", fence)
            read.add(text.text if text is not None else "")
            names = UntrustedFileReader().list_names(harness.work / "d", "d", fence)
            assert "only-there.txt" not in names
    assert "inside\n" in read
    assert f"{SECRET}\n" not in read


@pytest.mark.contract("permissions:paths")
def test_a_merge_writes_nothing_into_what_is_swapped_in(
    harness: RaceHarness, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    (made / "d").mkdir(parents=True)
    (made / "d" / "f.txt").write_text("merged\n")
    (made / "d" / "new.txt").write_text("merged\n")
    changed = TreeChange(b"d/f.txt", "100644", "100644")
    new, gone = (
        TreeChange(b"d/new.txt", "000000", "100644"),
        TreeChange(b"d/new.txt", "100644", "000000"),
    )
    merged = 0
    with swapping(harness.work / "d", harness.outside) as process:
        tried = 0
        while tried < LEAST or not enough(process):
            tried += 1
            for changes in ([changed], [new], [gone]):
                with suppress(OSError, ConcurrentChangeError):
                    apply_changes(
                        harness.work, changes, made, read_file_signatures(harness.work, changes)
                    )
                    merged += 1
    assert merged
    harness.check_untouched()
