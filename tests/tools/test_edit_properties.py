"""What is true of every tool that changes files, whatever the file's bytes are.

A file is made of lines with ends of their own, in some encoding, with or without a mark and a last
newline; some of its lines are replaced by others, by each tool in its own words. Then the file must
be exactly what it was, but for these lines.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import Struct

from joey.core.models import ModelInfo
from joey.tools.registry import Registry, build_default_tools
from tests.harness.counts import shortened_examples
from tests.harness.tools.editing import run_tool
from tests.harness.tools.tool_context import make_context

registry = Registry(build_default_tools())

LINE_TEXTS = st.sampled_from(
    ["alpha", "beta(x)", "  gamma = 1", "\tif y:", "$1 \\1 $&", "é ü", "a  b", "x"]
)
ENDS = ("\n", "\r\n")


class File(Struct, frozen=True):
    lines: tuple[str, ...]
    ends: tuple[str, ...]
    """One for each line; the last may be empty."""
    start: int
    stop: int
    new: tuple[str, ...]
    """What the lines from `start` to `stop` become."""

    @property
    def text(self) -> str:
        return _joined(self.lines, self.ends)

    @property
    def old(self) -> tuple[str, ...]:
        return self.lines[self.start : self.stop]

    def expected(self) -> str:
        """Lines that stay keep their ends; new ones end as the first one does that they replace."""
        end = self.ends[self.start]
        lines = (*self.lines[: self.start], *self.new, *self.lines[self.stop :])
        ends = (*self.ends[: self.start], *[end] * len(self.new), *self.ends[self.stop :])
        return _joined(lines, ends)


def _joined(lines: tuple[str, ...], ends: tuple[str, ...]) -> str:
    return "".join(line + end for line, end in zip(lines, ends, strict=True))


@st.composite
def files(draw: st.DrawFn, ends: st.SearchStrategy[str]) -> File:
    """Unique lines, so that every tool means the same place; not the last line of the file."""
    count = draw(st.integers(2, 8))
    lines = tuple(f"{draw(LINE_TEXTS)} {number}" for number in range(count))
    line_ends = [draw(ends) for _ in range(count)]
    if draw(st.booleans()):
        line_ends[-1] = ""
    start = draw(st.integers(0, count - 2))
    stop = draw(st.integers(start + 1, count - 1))
    new = tuple(f"new {word}" for word in draw(st.lists(LINE_TEXTS, min_size=1, max_size=4)))
    return File(lines, tuple(line_ends), start, stop, new)


def apply_diff(file: File) -> dict[str, Any]:
    search, replace = "\n".join(file.old), "\n".join(file.new)
    diff = f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE"
    return {"path": "a", "diff": diff}


def apply_patch(file: File) -> dict[str, Any]:
    changes = [*(f"-{line}" for line in file.old), *(f"+{line}" for line in file.new)]
    lines = ["*** Begin Patch", "*** Update File: a", "@@", *changes, "*** End Patch"]
    return {"patch": "\n".join(lines)}


def strings(file: File) -> dict[str, Any]:
    return {
        "file_path": "a",
        "old_string": "\n".join(file.old),
        "new_string": "\n".join(file.new),
    }


def operations(file: File) -> dict[str, Any]:
    given = strings(file)
    return {
        "path": "a",
        "operations": [{"search": given["old_string"], "replace": given["new_string"]}],
    }


TOOLS: dict[str, Callable[[File], dict[str, Any]]] = {
    "apply_diff": apply_diff,
    "apply_patch": apply_patch,
    "edit": strings,
    "search_and_replace": operations,
    "search_replace": strings,
    "edit_file": strings,
}


def changed(tool: str, arguments: dict[str, Any], before: bytes) -> bytes:
    async def change() -> bytes:
        with tempfile.TemporaryDirectory() as directory:
            ctx = make_context(Path(directory), model=ModelInfo(id="claude"))
            path = ctx.files.root / "a"
            path.write_bytes(before)
            await run_tool(registry.find(tool), ctx, arguments)
            return path.read_bytes()

    return asyncio.run(change())


def encode(text: str, encoding: str, mark: bytes) -> bytes:
    return mark + text.encode(encoding, "surrogateescape")


ENCODINGS = st.sampled_from(
    [
        ("utf-8", b""),
        ("utf-8", b"\xef\xbb\xbf"),
        ("utf-16-le", b"\xff\xfe"),
        ("utf-16-be", b"\xfe\xff"),
    ]
)


@pytest.mark.contract("edits:bytes")
@pytest.mark.parametrize("tool", TOOLS)
@shortened_examples(20, 60)
@given(file=files(st.sampled_from(ENDS)), encoding=ENCODINGS)
def test_only_the_lines_that_were_meant_are_changed(
    tool: str, file: File, encoding: tuple[str, bytes]
) -> None:
    # One call cannot say which of several ends a replaced line has; see `expected`.
    assume(len(set(file.ends[file.start : file.stop])) == 1)
    after = changed(tool, TOOLS[tool](file), encode(file.text, *encoding))
    assert after == encode(file.expected(), *encoding)


@pytest.mark.contract("edits:bytes")
@pytest.mark.parametrize("tool", TOOLS)
@shortened_examples(15, 40)
@given(
    file=files(st.sampled_from(ENDS)),
    around=st.tuples(st.binary(min_size=1, max_size=9), st.binary(min_size=1, max_size=9)),
)
def test_bytes_that_are_no_text_stay_as_they_are(
    tool: str, file: File, around: tuple[bytes, bytes]
) -> None:
    """Bytes of any encoding but NUL, in lines before and behind those that are changed."""
    first, last = (bytes(byte or 0xE9 for byte in part).replace(b"\n", b"\xff") for part in around)
    assume(not first.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")))
    assume(not first.endswith(b"\r"))
    assume(len(set(file.ends[file.start : file.stop])) == 1)
    before = first + b"\n" + file.text.encode() + b"\n" + last
    after = changed(tool, TOOLS[tool](file), before)
    assert after == first + b"\n" + file.expected().encode() + b"\n" + last


@pytest.mark.contract("edits:bytes")
@pytest.mark.parametrize("tool", ["edit", "search_replace", "edit_file", "search_and_replace"])
@shortened_examples(20, 60)
@given(
    before=st.text("ab\r\né ", max_size=20),
    old=st.text("cd\n", min_size=1, max_size=6).filter(lambda old: old.strip() == old),
    new=st.text("xyz\n$\\", max_size=8),
    behind=st.text("ab\r\né ", max_size=20),
    crlf=st.booleans(),
)
def test_a_text_inside_of_lines_is_replaced_and_nothing_else(
    tool: str, before: str, old: str, new: str, behind: str, crlf: bool
) -> None:
    assume(old != new)
    quoted = old.replace("\n", "\r\n") if crlf else old
    whole = before + quoted + behind
    assume(whole.count(quoted) == 1)
    arguments = (
        {"path": "a", "operations": [{"search": old, "replace": new}]}
        if tool == "search_and_replace"
        else {"file_path": "a", "old_string": old, "new_string": new}
    )
    after = changed(tool, arguments, whole.encode()).decode()
    assert after.startswith(before)
    assert after.endswith(behind)
    inner = after[len(before) : len(after) - len(behind)]
    assert inner.replace("\r\n", "\n") == new


@pytest.mark.contract("edits:bytes")
@shortened_examples(20, 60)
@given(
    file=files(st.just("\n")),
    crlf=st.booleans(),
    encoding=ENCODINGS,
    content=st.lists(LINE_TEXTS, min_size=2, max_size=6).map(lambda lines: "\n".join(lines) + "\n"),
)
def test_a_file_that_is_written_anew_keeps_its_manner(
    file: File, crlf: bool, encoding: tuple[str, bytes], content: str
) -> None:
    def ended(text: str) -> str:
        return text.replace("\n", "\r\n") if crlf else text

    before = encode(ended(file.text), *encoding)
    after = changed("write_to_file", {"path": "a", "content": content}, before)
    assert after == encode(ended(content), *encoding)
