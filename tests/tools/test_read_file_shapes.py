"""All forms that calls of `read_file` have had, in both protocols; the block around a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.core.models import ToolProtocol
from joey.errors import ArgumentError
from joey.ports.tool_context import ToolContext
from joey.tools.base import Outcome
from joey.tools.file_view import FileReadRequest
from joey.tools.line_reader import BlockRequest, find_block
from joey.tools.read_file import ReadFile
from tests.harness.tools.tool_context import make_context
from tests.harness.tools.xml_calls import parsed

tool = ReadFile()

SHOP = """\
import os


# Sells things.
@traced
class Shop:
    size = 1

    def open(self):
        if self.size:
            ring()

        wait()

    def close(self):
        lock()


def total(items):
    return 1
"""


@pytest.fixture(params=list(ToolProtocol))
def ctx(tmp_path: Path, request: pytest.FixtureRequest) -> ToolContext:
    context = make_context(tmp_path, protocol=request.param)
    (context.files.root / "shop.py").write_text(SHOP)
    return context


async def outcome(arguments: dict[str, Any], ctx: ToolContext) -> Outcome:
    return await tool.run_prepared(await tool.prepare(tool.parse(arguments), ctx), ctx, None)


def block(anchor: int, **fields: Any) -> BlockRequest:
    return BlockRequest(anchor_line=anchor, **fields)


# How a call may say it


@pytest.mark.contract("tool:read_file:native:shapes")
@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"path": "a", "mode": "slice"}, FileReadRequest("a")),
        ({"path": "a", "mode": "slice", "indentation": {"anchor_line": 3}}, FileReadRequest("a")),
        ({"path": "a", "offset": 5}, FileReadRequest("a", ((5, 2004),), is_paged=True)),
        (
            {"path": "a", "mode": "slice", "offset": 5, "limit": 2},
            FileReadRequest("a", ((5, 6),), True),
        ),
        ({"path": "a", "mode": None, "offset": None, "limit": None}, FileReadRequest("a")),
        ({"files": "a b.js"}, FileReadRequest("a b.js")),
        ({"files": " a\nb\n"}, (FileReadRequest("a"), FileReadRequest("b"))),
        ({"files": [{"path": "a", "anchor_line": 7}]}, FileReadRequest("a", block=block(7))),
        (
            {"files": [{"path": "a", "offset": 5, "limit": 2}, {"path": "b"}]},
            (FileReadRequest("a", ((5, 6),), is_paged=True), FileReadRequest("b")),
        ),
        (
            {"files": [{"path": "a", "start_line": 2, "end_line": 3}]},
            FileReadRequest("a", ((2, 3),)),
        ),
        ({"path": "a", "mode": "indentation"}, FileReadRequest("a", block=block(1))),
        ({"path": "a", "mode": "indentation", "offset": 7}, FileReadRequest("a", block=block(7))),
        (
            {"path": "a", "mode": "indentation", "indentation": {"anchor_line": "7"}, "offset": 2},
            FileReadRequest("a", block=block(7)),
        ),
        (
            {
                "path": "a",
                "mode": "indentation",
                "limit": 50,
                "indentation": {
                    "anchor_line": 7,
                    "max_levels": 2,
                    "max_lines": 90,
                    "include_siblings": "true",
                    "include_header": False,
                },
            },
            FileReadRequest(
                "a",
                block=block(
                    7, max_levels=2, max_lines=50, include_siblings=True, include_header=False
                ),
            ),
        ),
        (
            {"path": "a", "indentation": '{"anchor_line": 7, "max_levels": null}'},
            FileReadRequest("a", block=block(7)),
        ),
        (
            {"files": [{"path": "a", "line_ranges": None, "indentation": {"anchor_line": 7}}]},
            FileReadRequest("a", block=block(7)),
        ),
        (
            {"files": [{"path": "a", "line_ranges": [[1, 2]], "indentation": None}]},
            FileReadRequest("a", ((1, 2),)),
        ),
        ({"path": "a", "indentation": {"anchor_line": None}}, FileReadRequest("a")),
        ({"path": "a", "indentation": ""}, FileReadRequest("a")),
    ],
)
def test_every_form_is_understood(
    arguments: dict[str, Any], wanted: FileReadRequest | tuple[FileReadRequest, ...]
) -> None:
    expected = wanted if isinstance(wanted, tuple) else (wanted,)
    assert tool.parse(arguments).files == expected


@pytest.mark.contract("tool:read_file:native:shapes")
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "<path>a</path><mode>slice</mode><offset>5</offset><limit>2</limit>",
            FileReadRequest("a", ((5, 6),), is_paged=True),
        ),
        (
            "<path>a</path><mode>indentation</mode><indentation><anchor_line>7</anchor_line>"
            "<include_siblings>true</include_siblings></indentation>",
            FileReadRequest("a", block=block(7, include_siblings=True)),
        ),
        ("<path>a</path><anchor_line>7</anchor_line>", FileReadRequest("a", block=block(7))),
        (
            "<args><file><path>a</path><indentation><anchor_line>7</anchor_line><max_levels>1"
            "</max_levels></indentation></file></args>",
            FileReadRequest("a", block=block(7, max_levels=1)),
        ),
        (
            "<args><file><path>a</path><anchor_line>7</anchor_line><max_levels>1</max_levels>"
            "</file></args>",
            FileReadRequest("a", block=block(7, max_levels=1)),
        ),
        (
            '<path>a</path><indentation>{"anchor_line": 7}</indentation>',
            FileReadRequest("a", block=block(7)),
        ),
        (
            "<args><file><path>a</path><offset>5</offset><limit>2</limit></file></args>",
            FileReadRequest("a", ((5, 6),), is_paged=True),
        ),
    ],
)
def test_every_form_is_understood_in_xml(text: str, wanted: FileReadRequest) -> None:
    assert parsed(f"<read_file>{text}</read_file>").files == (wanted,)


@pytest.mark.contract("tool:read_file:native:shapes")
@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "a", "mode": "indentation", "indentation": {"anchor_line": 0}},
        {"path": "a", "mode": "indentation", "offset": -1},
        {"files": [{"path": "a", "indentation": {"anchor_line": -3}}]},
        {"path": "a", "indentation": {"anchor_line": 1, "max_levels": -1}},
        {"files": [{"path": "a", "offset": 0}]},
    ],
)
def test_lines_count_from_one(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="1-indexed"):
        tool.parse(arguments)


@pytest.mark.parametrize("anchor", ["the first", [1, 2], {"line": 1}])
def test_an_anchor_that_is_no_number_is_refused(anchor: Any) -> None:
    with pytest.raises(ArgumentError, match="anchor_line"):
        tool.parse({"path": "a", "indentation": {"anchor_line": anchor}})


def test_a_block_that_may_belong_to_any_of_several_paths_is_refused() -> None:
    with pytest.raises(ArgumentError, match="not clear to which"):
        tool.parse({"path": ["a", "b"], "anchor_line": "3"})


async def test_the_row_says_where_the_lines_begin(ctx: ToolContext) -> None:
    for arguments, line, reason in (
        ({"path": "a", "offset": 5, "limit": 2}, 5, "lines 5-6"),
        ({"path": "a", "indentation": {"anchor_line": 7}}, 7, "the block around line 7"),
    ):
        row = (await tool.prepare(tool.parse(arguments), ctx)).row
        assert (row["startLine"], row["reason"]) == (line, reason)


# The block around a line


@pytest.mark.contract("tool:read_file:success:block")
@pytest.mark.parametrize(
    ("anchor", "fields", "span"),
    [
        (11, {}, (9, 13)),
        (9, {}, (9, 13)),
        (11, {"include_siblings": True}, (7, 16)),
        (11, {"max_levels": 0}, (4, 16)),
        (11, {"max_levels": 0, "include_header": False}, (6, 16)),
        (11, {"max_levels": 1}, (10, 11)),
        (11, {"max_levels": 2}, (9, 13)),
        (11, {"max_levels": 2, "include_siblings": True}, (7, 16)),
        (11, {"max_levels": 0, "include_siblings": True}, (1, 20)),
        (6, {}, (4, 16)),
        (9, {"max_levels": 1}, (4, 16)),
        (11, {"max_lines": 1}, (11, 11)),
        (11, {"max_lines": 3}, (10, 11)),
        (19, {}, (19, 20)),
        (1, {}, (1, 1)),
    ],
)
def test_a_block_goes_as_far_as_its_indentation(
    anchor: int, fields: dict[str, Any], span: tuple[int, int]
) -> None:
    first, last = find_block(SHOP.splitlines(), anchor - 1, block(anchor, **fields))
    assert (first + 1, last + 1) == span


@pytest.mark.parametrize(
    ("text", "anchor", "span"),
    [
        (
            "class T:\n    def a(self):\n        x()\n        if x:\n            y()\n    z = 2",
            5,
            (2, 5),
        ),
        (
            "class T:\n    @mark\n    def a(\n        self,\n    ):\n        x()\n\n    z = 2",
            2,
            (2, 6),
        ),
        ("class T:\n    def a(self):\n        x()\n\n    z = 2", 5, (1, 5)),
        (
            "class T {\n  run(a, b) {\n    if (a) {\n      go();\n    }\n  }\n  end() {\n  }\n}",
            4,
            (2, 6),
        ),
        (
            "impl T {\n    pub fn a(&self) {\n        loop {\n            y\n        }\n    }\n}",
            4,
            (2, 6),
        ),
        (
            "public class T {\n  @Override\n  public int a(int b) {\n    return 1;\n  }\n}",
            4,
            (2, 5),
        ),
        ("if x:\n    for y in x:\n        go()", 3, (1, 3)),
    ],
)
def test_the_innermost_function_or_class_is_the_block(
    text: str, anchor: int, span: tuple[int, int]
) -> None:
    first, last = find_block(text.splitlines(), anchor - 1, block(anchor))
    assert (first + 1, last + 1) == span


def test_a_block_in_braces_ends_with_its_brace() -> None:
    lines = ["a {", "\tb {", "\t\tc", "\t}", "\td {", "\t\te", "\t}", "}", "f {", "}"]
    assert find_block(lines, 2, block(3, max_levels=1)) == (1, 3)
    assert find_block(lines, 2, block(3)) == (0, 7)
    assert find_block(lines, 7, block(8)) == (0, 7)
    assert find_block(lines, 2, block(3, max_levels=1, include_siblings=True)) == (1, 6)


SIGNATURES = {
    "python": """\
class Shop:
    @traced
    def total(
        self,
        items: list[int],
    ) -> int:
        first = 1
        return first

    @property
    def size(self) -> int:
        return 1
""",
    "typescript": """\
class Shop {
  // Adds up.
  total(
    items: number[],
  ): number {
    if (items) {
      return 1
    } else {
      return 2
    }
  }

  size() {
    return 1
  }
}
""",
    "allman": """\
namespace shop
{
    // Adds up.
    int total(int first,
              int second)
    {
        return 1;
    }

    int size()
    {
        return 1;
    }
}
""",
}


@pytest.mark.contract("tool:read_file:success:block")
@pytest.mark.parametrize(
    ("language", "anchor", "levels", "span"),
    [
        ("python", 7, 1, (2, 8)),
        ("python", 6, 1, (1, 12)),
        ("python", 3, 1, (1, 12)),
        ("python", 1, 0, (1, 12)),
        ("typescript", 7, 2, (2, 11)),
        ("typescript", 9, 1, (6, 10)),
        ("typescript", 13, 1, (1, 16)),
        ("allman", 7, 1, (3, 8)),
        ("allman", 1, 0, (1, 14)),
    ],
)
def test_a_block_has_its_whole_signature_and_nothing_of_the_next(
    language: str, anchor: int, levels: int, span: tuple[int, int]
) -> None:
    lines = SIGNATURES[language].splitlines()
    first, last = find_block(lines, anchor - 1, block(anchor, max_levels=levels))
    assert (first + 1, last + 1) == span


@given(
    st.lists(st.sampled_from(["", "a", "  b", "    c", "\td", "        e", "# f"]), min_size=1),
    st.data(),
)
def test_a_block_has_its_line_and_no_more_than_is_wanted(
    lines: list[str], data: st.DataObject
) -> None:
    anchor = data.draw(st.integers(0, len(lines) - 1))
    wanted = block(
        anchor + 1,
        max_levels=data.draw(st.integers(0, 3)),
        max_lines=data.draw(st.integers(1, 10)),
        include_siblings=data.draw(st.booleans()),
    )
    first, last = find_block(lines, anchor, wanted)
    assert 0 <= first <= anchor <= last < len(lines)
    assert last - first + 1 <= wanted.max_lines


@pytest.mark.contract("tool:read_file:success:block")
async def test_a_block_is_shown_with_its_range(ctx: ToolContext) -> None:
    arguments = {"path": "shop.py", "indentation": {"anchor_line": 11, "max_levels": 1}}
    text = (await outcome(arguments, ctx)).text
    assert "10 |         if self.size:\n11 |             ring()\n" in text
    assert "The file has 20 lines." in text
    assert "9 |" not in text
    assert "12 |" not in text


@pytest.mark.contract("tool:read_file:success:block")
async def test_a_block_that_is_longer_than_wanted_says_how_to_read_on(ctx: ToolContext) -> None:
    (ctx.files.root / "long.py").write_text("def f():\n" + "    a()\n" * 5000)
    text = (await outcome({"path": "long.py", "mode": "indentation", "offset": 3000}, ctx)).text
    assert "The file has 5001 lines. The block may continue" in text
    assert "from line 4000" in text


@pytest.mark.contract("tool:read_file:success:block")
async def test_a_block_of_one_line_says_how_to_see_more(ctx: ToolContext) -> None:
    stub = "class A:\n    def f(self) -> int: ...\n    def g(self) -> int: ...\nx = 1\n"
    (ctx.files.root / "a.pyi").write_text(stub)
    note = "The block is this line alone: max_levels 1 reads what is around it."
    assert note in (await outcome({"path": "a.pyi", "anchor_line": 3}, ctx)).text
    assert note not in (await outcome({"path": "a.pyi", "anchor_line": 4}, ctx)).text
    wide = (await outcome({"path": "a.pyi", "anchor_line": 3, "max_levels": 1}, ctx)).text
    assert "1 | class A:" in wide
    assert note not in wide


async def test_a_line_that_is_not_there_has_no_block(ctx: ToolContext) -> None:
    for anchor in (21, 10_000_000):
        result = await outcome({"path": "shop.py", "mode": "indentation", "offset": anchor}, ctx)
        assert result.is_error
        assert f"anchor_line {anchor} is out of range (1-20)" in result.text


async def test_a_block_of_endless_lines_is_refused(ctx: ToolContext) -> None:
    (ctx.files.root / "a.js").write_text(f"{'x' * 5_000_000}\nfoo\n")
    result = await outcome({"path": "a.js", "indentation": {"anchor_line": 2}}, ctx)
    assert result.is_error
    assert "too long to look at" in result.text
