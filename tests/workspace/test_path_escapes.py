"""Every tool that takes a path, tried with every kind of path that leads astray."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from joey.content.browser import read_page_file
from joey.content.outlines import OutlineExtractor
from joey.core.permissions.policy import Allow, decide
from joey.core.settings import Settings
from joey.errors import ToolError
from joey.ports.tool_context import Capabilities, ToolContext
from joey.tools.apply_diff import ApplyDiff
from joey.tools.apply_patch import ApplyPatch
from joey.tools.base import Tool
from joey.tools.edit import Edit
from joey.tools.edit_file import EditFile
from joey.tools.generate_image import GenerateImage
from joey.tools.insert_content import InsertContent
from joey.tools.list_code_definition_names import ListCodeDefinitionNames
from joey.tools.list_files import ListFiles
from joey.tools.read_file import ReadFile
from joey.tools.search_files import SearchFiles
from joey.tools.search_replace import SearchReplace
from joey.tools.write_to_file import WriteToFile
from tests.harness.tools.hostile_files import make_special_files
from tests.harness.tools.tool_context import make_context
from tests.harness.tools.tool_workspace import FakeImageGenerator

SECRET = "SECRET-BYTES"
TEXT = f"class {SECRET.replace('-', '')}:\n    a = 1\n    b = 2\n    c = 3\n{SECRET}\n"
EASY = Settings(auto_approval_enabled=True, always_allow_read_only=True, always_allow_write=True)
"""Everything in the workspace that is not protected may be done unasked."""
SECONDS = 60

Arguments = Callable[[str], dict[str, Any]]


def _diff(path: str) -> dict[str, Any]:
    block = f"<<<<<<< SEARCH\n{SECRET}\n=======\ngone\n>>>>>>> REPLACE"
    return {"path": path, "diff": block}


def _exchange(path: str) -> dict[str, Any]:
    return {"file_path": path, "old_string": SECRET, "new_string": "gone"}


def _patch(*lines: str) -> dict[str, Any]:
    return {"patch": "\n".join(["*** Begin Patch", *lines, "*** End Patch"])}


READERS: dict[str, tuple[Callable[[], Tool[Any, Any]], Arguments]] = {
    "read_file": (ReadFile, lambda path: {"path": path}),
    "list_files": (ListFiles, lambda path: {"path": path, "recursive": True}),
    "search_files": (SearchFiles, lambda path: {"path": path, "regex": "."}),
    "definitions": (ListCodeDefinitionNames, lambda path: {"path": path}),
    "picture": (GenerateImage, lambda path: {"prompt": "p", "path": "new.png", "image": path}),
}
WRITERS: dict[str, tuple[Callable[[], Tool[Any, Any]], Arguments]] = {
    "write_to_file": (WriteToFile, lambda path: {"path": path, "content": "gone\n"}),
    "apply_diff": (ApplyDiff, _diff),
    "insert_content": (InsertContent, lambda path: {"path": path, "line": 1, "content": "gone"}),
    "edit": (Edit, _exchange),
    "search_replace": (SearchReplace, _exchange),
    "edit_file": (EditFile, _exchange),
    "add": (ApplyPatch, lambda path: _patch(f"*** Add File: {path}", "+gone")),
    "update": (ApplyPatch, lambda path: _patch(f"*** Update File: {path}", "@@", f"-{SECRET}")),
    "delete": (ApplyPatch, lambda path: _patch(f"*** Delete File: {path}")),
    "move": (
        ApplyPatch,
        lambda path: _patch("*** Update File: a.py", f"*** Move to: {path}", "@@", "-a = 1"),
    ),
    "paint": (GenerateImage, lambda path: {"prompt": "p", "path": path}),
}


class EscapeHarness:
    """`work` is the workspace; what is beside it is nobody's business."""

    def __init__(self, root: Path) -> None:
        self.work, self.outside = root / "work", root / "outside"
        for directory in (self.work / "sub", self.outside, root / "work-too"):
            directory.mkdir(parents=True)
            (directory / "secret.py").write_text(TEXT)
        (self.work / "sub" / "secret.py").unlink()
        (self.work / "a.py").write_text("a = 1\n")
        self.context = make_context(
            root,
            settings=EASY,
            capabilities=Capabilities(
                outlines=OutlineExtractor(), image_generator=FakeImageGenerator()
            ),
        )

    def symlink(self, name: str, target: Path | str) -> None:
        (self.work / name).symlink_to(target)


@pytest.fixture
def harness(tmp_path: Path) -> EscapeHarness:
    return EscapeHarness(tmp_path)


def state_of(directory: Path) -> dict[str, bytes | None]:
    """Everything below it, without following links."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        if path.is_file() and not path.is_symlink()
        else None
        for path in directory.rglob("*")
    }


async def attempt(tool: Tool[Any, Any], arguments: dict[str, Any], ctx: ToolContext) -> str:
    """All that comes of a call which runs only if nobody needs to be asked."""
    try:
        async with asyncio.timeout(SECONDS):
            prepared = await tool.prepare(tool.parse(arguments), ctx)
            # What is looked up before the answer may be shown to the user, never to the model.
            if not isinstance(decide(prepared.claims, ctx.settings), Allow):
                return "asked"
            outcome = await tool.run_prepared(prepared, ctx, None)
    except ToolError as error:
        return f"failed: {error}"
    done = "failed" if outcome.is_error else "ran"
    return f"{done}: {outcome.text} {msgspec.json.encode(prepared.row).decode()}"


def ways_out(harness: EscapeHarness) -> Iterator[str]:
    """Paths that lead to a file outside, each in another manner."""
    secret = harness.outside / "secret.py"
    harness.symlink("link.py", "../outside/secret.py")
    harness.symlink("absolute.py", secret)
    harness.symlink("chain.py", "sub/next")
    (harness.work / "sub" / "next").symlink_to("../absolute.py")
    harness.symlink("folder", "../outside")
    harness.symlink("inner", "sub")
    harness.symlink("root", "/")
    harness.symlink("magic", "/proc/self/root")
    harness.symlink("here", "/proc/self/cwd")
    harness.symlink("threads", "/proc/thread-self/root")
    yield from ("link.py", "absolute.py", "chain.py", "folder/secret.py", "./folder//secret.py")
    yield from ("../outside/secret.py", "sub/../../outside/secret.py", "../work-too/secret.py")
    yield from ("inner/../../outside/secret.py", "inner/../folder/secret.py", "folder/./secret.py/")
    yield f"root{secret}"
    yield f"magic{secret}"
    yield f"threads{secret}"
    yield f"here/{os.path.relpath(secret, Path.cwd())}"
    yield str(secret)
    yield f"/proc/self/root{secret}"
    yield f"/proc/{os.getpid()}/root{secret}"
    yield f"/proc/self/task/{os.getpid()}/root{secret}"
    yield f"/proc/self/cwd/{os.path.relpath(secret, Path.cwd())}"
    yield f"{harness.work}-too/secret.py"
    yield f"/..{secret}"


@pytest.mark.contract("permissions:paths")
@pytest.mark.parametrize("name", [*READERS, *WRITERS])
async def test_no_way_out_is_taken_unasked(harness: EscapeHarness, name: str) -> None:
    make, arguments = (READERS | WRITERS)[name]
    directories = (harness.outside, harness.work.parent / "work-too")
    before = [state_of(directory) for directory in directories]
    for path in ways_out(harness):
        if name == "move":
            (harness.work / "a.py").write_text("a = 1\n")
        result = await attempt(make(), arguments(path), harness.context)
        assert result == "asked" or result.startswith("failed"), path
        assert SECRET not in result, path
    assert [state_of(directory) for directory in directories] == before


@pytest.mark.parametrize("name", [*READERS, *WRITERS])
async def test_a_path_inside_is_taken_unasked(harness: EscapeHarness, name: str) -> None:
    """Or the test above would prove nothing."""
    make, arguments = (READERS | WRITERS)[name]
    path = "new.py" if name in ("add", "move", "paint") else "sub/own.py"
    path = "sub/own.png" if name == "picture" else path
    (harness.work / "sub" / "own.py").write_text(f"{TEXT}\n")
    (harness.work / "sub" / "own.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    target = "sub" if name == "list_files" else path
    assert (await attempt(make(), arguments(target), harness.context)).startswith("ran: ")


@pytest.mark.contract("permissions:paths")
@pytest.mark.parametrize("name", [*READERS, *WRITERS])
async def test_special_files_are_refused_and_never_waited_for(
    harness: EscapeHarness, name: str
) -> None:
    make, arguments = (READERS | WRITERS)[name]
    names = make_special_files(harness.work)
    harness.symlink("device", "/dev/zero")
    harness.symlink("terminal", "/dev/tty")
    before = state_of(harness.work)
    for path in (*names, "device", "terminal", "pipe/x", "loop/x", "/dev/stdin"):
        result = await attempt(make(), arguments(path), harness.context)
        # An image gets an ending, and so another name.
        assert not result.startswith("ran") or (name == "paint" and ".png" in result), path
    assert {path: data for path, data in state_of(harness.work).items() if path in before} == before


@pytest.mark.contract("permissions:paths")
@pytest.mark.parametrize("name", ["read_file", "search_files", "definitions", "picture"])
async def test_files_of_the_kernel_are_not_read_even_with_leave(
    harness: EscapeHarness, name: str
) -> None:
    """They show the environment of processes, with the keys in it."""
    make, arguments = READERS[name]
    leave = msgspec.structs.replace(EASY, always_allow_read_only_outside_workspace=True)
    context = msgspec.structs.replace(harness.context, settings=leave)
    harness.symlink("innocent.py", "/proc/self/environ")
    os.environ["JOEY_TEST_KEY"] = SECRET
    try:
        for path in ("/proc/self/environ", "innocent.py", f"/proc/{os.getpid()}/environ"):
            assert SECRET not in await attempt(make(), arguments(path), context)
    finally:
        del os.environ["JOEY_TEST_KEY"]


@pytest.mark.parametrize("name", [*READERS, *WRITERS])
@pytest.mark.parametrize("path", ["a\0b", "x" * 300, "x/" * 3000, "\ud800", "a.py/x", "", "sub/"])
async def test_names_that_no_file_has_are_an_error_and_no_crash(
    harness: EscapeHarness, name: str, path: str
) -> None:
    make, arguments = (READERS | WRITERS)[name]
    before = state_of(harness.work)
    await attempt(make(), arguments(path), harness.context)
    if name != "move":
        assert {path: data for path, data in state_of(harness.work).items() if path in before} == (
            before
        )


@pytest.mark.contract("permissions:protected")
@pytest.mark.parametrize("name", [*WRITERS])
@pytest.mark.parametrize(
    "path",
    [
        *(".roo/mcp.json", ".ROO/mcp.json", ".Roo/Mcp.json", ".roo./mcp.json", ".roo /mcp.json"),
        *(".ro\u200bo/mcp.json", "．roo/mcp.json", "sub/../.roo/mcp.json", "alias/mcp.json"),
        *("store/mcp.json", "second/mcp.json", ".roo//./mcp.json", "gitstore/hooks/any", ".roo"),
    ],
)
async def test_protected_files_are_changed_by_no_writer_unasked(
    harness: EscapeHarness, name: str, path: str
) -> None:
    make, arguments = WRITERS[name]
    (harness.work / "store").mkdir()
    (harness.work / "store" / "mcp.json").write_text(f"{SECRET}\n")
    harness.symlink(".roo", "store")
    harness.symlink("alias", ".roo")
    harness.symlink("second", "alias")
    for directory in ("objects", "refs", "hooks"):
        (harness.work / "gitstore" / directory).mkdir(parents=True)
    (harness.work / "gitstore" / "HEAD").write_text("ref: refs/heads/main\n")
    before = state_of(harness.work)
    result = await attempt(make(), arguments(path), harness.context)
    assert result == "asked" or result.startswith("failed")
    assert state_of(harness.work) == before


@pytest.mark.contract("permissions:protected")
async def test_protected_files_are_changed_where_the_user_allows_it(harness: EscapeHarness) -> None:
    leave = msgspec.structs.replace(EASY, always_allow_write_protected=True)
    context = msgspec.structs.replace(harness.context, settings=leave)
    result = await attempt(WriteToFile(), {"path": ".roo/x", "content": "gone\n"}, context)
    assert result.startswith("ran: ")


@pytest.mark.contract("permissions:approved-bytes")
@pytest.mark.parametrize("path", ["sub/new.py", "sub/deep/new.py"])
async def test_a_directory_that_was_exchanged_after_the_approval_is_not_written_to(
    harness: EscapeHarness, path: str
) -> None:
    tool = WriteToFile()
    (harness.work / ".git").mkdir()
    prepared = await tool.prepare(tool.parse({"path": path, "content": "x\n"}), harness.context)
    (harness.work / "sub").rename(harness.work / "away")
    (harness.work / ".git").rename(harness.work / "sub")
    with pytest.raises(ToolError, match="replaced by another one"):
        await tool.run_prepared(prepared, harness.context, None)
    assert state_of(harness.work / "sub") == {}


@pytest.mark.contract("permissions:approved-bytes")
async def test_a_new_directory_may_be_made_by_another_write_meanwhile(
    harness: EscapeHarness,
) -> None:
    files = harness.context.files
    places = [files.resolve(f"new/deep/{name}") for name in "ab"]
    for place in places:
        await files.write(place, b"x")
    assert sorted(state_of(harness.work / "new" / "deep")) == ["a", "b"]


@pytest.mark.contract("permissions:paths")
async def test_writing_leaves_the_other_name_of_a_file_as_it_is(harness: EscapeHarness) -> None:
    (harness.work / "hard.py").hardlink_to(harness.outside / "secret.py")
    files = harness.context.files
    await files.write(files.resolve("hard.py"), b"new")
    assert (harness.outside / "secret.py").read_text() == TEXT
    assert (harness.work / "hard.py").read_bytes() == b"new"


async def test_an_image_replaces_no_file_that_nobody_was_asked_about(
    harness: EscapeHarness,
) -> None:
    (harness.work / "ship.png").write_text("mine")
    result = await attempt(GenerateImage(), {"prompt": "p", "path": "ship"}, harness.context)
    assert "The picture is in ship." in result
    assert (harness.work / "ship.png").read_text() == "mine"


@pytest.mark.contract("permissions:approved-bytes")
async def test_a_page_that_became_a_link_after_the_approval_is_not_shown(
    harness: EscapeHarness,
) -> None:
    give = partial(read_page_file, harness.context.files)
    page = harness.work / "page.html"
    page.write_text("mine")
    assert await give(str(page), True) == b"mine"
    assert await give(str(harness.outside / "secret.py"), True) == TEXT.encode()
    page.unlink()
    page.symlink_to(harness.outside / "secret.py")
    for approved in (True, False):
        assert await give(str(page), approved) is None
    assert await give(str(harness.outside / "secret.py"), False) is None


@pytest.mark.parametrize(
    "data",
    [
        "first\nneedle é\r\nlast".encode(),
        "\ufeffneedle\nneedle é".encode(),
        "first\nneedle é\nlast\n".encode("utf-16"),
        b"\xff\xfeneedle"[2:] + b" \xff\xfe\n",
        b"x" * 5000 + b"\nneedle" + "é".encode() * 5000,
    ],
)
async def test_what_a_search_finds_is_found_in_the_file_again(
    harness: EscapeHarness, data: bytes
) -> None:
    (harness.work / "sub" / "text").write_bytes(data)
    place = harness.context.files.resolve("sub")
    result = await harness.context.search.grep(place, "needle", None, 10)
    assert "needle" in "".join(line[1] for hit in result.hits for line in hit.lines)
