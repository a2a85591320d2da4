from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from joey.core.messages import CallPart, StopChunk, TextChunk
from joey.core.models import ModelInfo, ToolProtocol
from joey.core.parsing.assembler import ReplyAssembler
from joey.core.settings import Settings
from joey.errors import ArgumentError, IgnoredPathError, ToolError
from joey.ports.tool_context import Capabilities, ToolContext
from joey.tools.base import (
    Access,
    AvailabilityContext,
    Claim,
    Outcome,
)
from joey.tools.insert_content import InsertContent, InsertContentParams
from joey.tools.registry import Registry, build_default_tools
from joey.tools.text_edit_base import PreparedTextEdit
from tests.harness.tools.tool_context import make_context

tool = InsertContent()


@pytest.fixture
def ctx(tmp_path: Path) -> ToolContext:
    ctx = make_context(tmp_path)
    (ctx.files.root / "a.txt").write_text("one\ntwo\n")
    return ctx


@pytest.fixture
def work(ctx: ToolContext) -> Path:
    return ctx.files.root


async def prepare(
    ctx: ToolContext, line: object, content: str = "new", path: str = "a.txt"
) -> PreparedTextEdit:
    return await tool.prepare(tool.parse({"path": path, "line": line, "content": content}), ctx)


async def insert(
    ctx: ToolContext, line: object, content: str = "new", path: str = "a.txt"
) -> Outcome:
    return await tool.run_prepared(await prepare(ctx, line, content, path), ctx, None)


@pytest.mark.contract("tool:insert_content:schema")
@pytest.mark.parametrize("chosen", ["auto", "apply_diff", "apply_patch", "edit"])
def test_it_is_never_offered_and_has_a_schema_all_the_same(chosen: Any) -> None:
    offer = AvailabilityContext(Settings(edit_tool=chosen), ModelInfo(id="m"), Capabilities())
    assert not tool.is_offered(offer)
    assert tool.spec.parameters["required"] == ["path", "line", "content"]
    assert tool.spec.parameters["properties"]["line"]["type"] == "integer"


@pytest.mark.contract("tool:insert_content:native")
@pytest.mark.parametrize("line", [3, "3", " 3 ", 3.0])
def test_a_native_call_is_understood(line: object) -> None:
    params = tool.parse({"path": "a", "line": line, "content": "x"})
    assert params == InsertContentParams("a", 3, "x")


@pytest.mark.contract("tool:insert_content:xml")
def test_a_path_may_have_the_name_that_other_tools_give_it() -> None:
    given = {"line": 1, "content": "x"}
    assert tool.parse({"file_path": "a", **given}) == tool.parse({"path": "a", **given})
    assert "file_path" in tool.xml_tags


def test_an_xml_call_keeps_the_indentation_of_its_content() -> None:
    assembler = ReplyAssembler(
        protocol=ToolProtocol.XML,
        tools=Registry(build_default_tools()).build_tool_names(),
        taken_ids=lambda call_id: False,
        make_id=lambda: "call",
    )
    text = (
        "<insert_content>\n<path>a</path>\n<line>0</line>\n"
        "<content>\n    <line>1</line>\n\n</content>\n</insert_content>"
    )
    assembler.feed(TextChunk(text))
    assembler.feed(StopChunk(reason="stop"))
    assembler.close(complete=True)
    (call,) = (part.call for part in assembler.reply.parts if isinstance(part, CallPart))
    assert tool.parse(call.input) == InsertContentParams("a", 0, "    <line>1</line>\n")


@pytest.mark.contract("tool:insert_content:success")
@pytest.mark.parametrize(
    ("line", "after", "changed"),
    [
        (1, "new\none\ntwo\n", 1),
        (2, "one\nnew\ntwo\n", 2),
        (3, "one\ntwo\nnew\n", 3),
        (0, "one\ntwo\nnew\n", 3),
    ],
)
async def test_lines_go_before_the_line_or_to_the_end(
    ctx: ToolContext, work: Path, line: int, after: str, changed: int
) -> None:
    outcome = await insert(ctx, line)
    assert (work / "a.txt").read_text() == after
    assert outcome.text == f"Changed a.txt: line {changed}."


async def test_a_last_newline_of_the_content_opens_no_further_line(
    ctx: ToolContext, work: Path
) -> None:
    await insert(ctx, 2, "x\n\ny\n")
    assert (work / "a.txt").read_text() == "one\nx\n\ny\ntwo\n"


@pytest.mark.contract("tool:insert_content:success")
@pytest.mark.parametrize(
    ("before", "line", "after"),
    [
        (b"a\r\nb\r\n", 2, b"a\r\nnew\r\nb\r\n"),
        (b"a\r\nb", 0, b"a\r\nb\r\nnew"),
        (b"\xef\xbb\xbfa\n", 1, b"\xef\xbb\xbfnew\na\n"),
        (b"\xff\n", 0, b"\xff\nnew\n"),
        (b"", 0, b"new\n"),
    ],
)
async def test_bytes_around_stay_as_they_are(
    ctx: ToolContext, work: Path, before: bytes, line: int, after: bytes
) -> None:
    (work / "a.txt").write_bytes(before)
    await insert(ctx, line)
    assert (work / "a.txt").read_bytes() == after


@pytest.mark.contract("tool:insert_content:success:new-file")
@pytest.mark.parametrize("line", [0, 1])
async def test_a_file_that_does_not_exist_is_made(ctx: ToolContext, work: Path, line: int) -> None:
    outcome = await insert(ctx, line, path="deep/new.txt")
    assert (work / "deep/new.txt").read_text() == "new\n"
    assert outcome.text == "Created deep/new.txt: line 1."


@pytest.mark.contract("tool:insert_content:approval")
async def test_the_row_has_the_line_and_the_diff(ctx: ToolContext, work: Path) -> None:
    prepared = await prepare(ctx, 2)
    diff = "@@ -1,2 +1,3 @@\n one\n+new\n two\n"
    assert prepared.claims == (Claim(Access.WRITE, path=ctx.files.resolve("a.txt")),)
    assert (prepared.path, prepared.diff) == ("a.txt", diff)
    assert prepared.row == {
        "tool": "insertContent",
        "path": "a.txt",
        "lineNumber": 2,
        "diff": diff,
        "content": diff,
        "isOutsideWorkspace": False,
        "isProtected": False,
        "diffStats": {"added": 1, "removed": 0},
    }
    assert (work / "a.txt").read_text() == "one\ntwo\n"


@pytest.mark.contract("tool:insert_content:failure:past-the-end")
@pytest.mark.parametrize(
    ("path", "line", "expected"),
    [
        ("a.txt", -1, "-1 is no line"),
        ("a.txt", 4, "a.txt has 2 lines, so nothing can be inserted before line 4"),
        ("none.txt", 2, "none.txt does not exist, so there is no line 2"),
        ("binary", 0, "binary file"),
        ("folder", 0, "is a directory"),
    ],
)
async def test_what_cannot_be_inserted_says_why(
    ctx: ToolContext, work: Path, path: str, line: int, expected: str
) -> None:
    (work / "binary").write_bytes(b"\0")
    (work / "folder").mkdir()
    with pytest.raises(ToolError, match=expected):
        await prepare(ctx, line, path=path)


@pytest.mark.contract("tool:insert_content:failure:missing")
@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [
        ({"line": 1, "content": "x"}, "path"),
        ({"path": " ", "line": 1, "content": "x"}, "path"),
        ({"path": "a", "content": "x"}, "line"),
        ({"path": "a", "line": 1}, "content"),
        ({"path": "a", "line": "first", "content": "x"}, None),
    ],
)
def test_what_is_missing_is_named(arguments: dict[str, Any], parameter: str | None) -> None:
    with pytest.raises(ArgumentError) as caught:
        tool.parse(arguments)
    assert caught.value.parameter == parameter


@pytest.mark.contract("tool:insert_content:failure:hidden")
async def test_a_hidden_file_is_refused(ctx: ToolContext, work: Path) -> None:
    (work / ".rooignore").write_text("a.txt\n")
    with pytest.raises(IgnoredPathError):
        await prepare(ctx, 0)


@pytest.mark.contract("tool:insert_content:failure:outside")
@pytest.mark.parametrize(("data", "expected"), [(b"x\n", "has 1 lines"), (None, "does not exist")])
async def test_why_nothing_can_be_inserted_outside_is_said_only_after_it_is_allowed(
    ctx: ToolContext, tmp_path: Path, data: bytes | None, expected: str
) -> None:
    if data is not None:
        (tmp_path / "out").write_bytes(data)
    prepared = await prepare(ctx, 9, path="../out")
    assert prepared.row["isOutsideWorkspace"]
    with pytest.raises(ToolError, match=expected):
        await tool.run_prepared(prepared, ctx, None)


@pytest.mark.contract("tool:insert_content:failure:changed-by-others")
async def test_a_file_that_somebody_changed_is_left_alone(ctx: ToolContext, work: Path) -> None:
    prepared = await prepare(ctx, 0)
    await insert(ctx, 0)
    with pytest.raises(ToolError, match="changed by the user or by a command after"):
        await tool.run_prepared(prepared, ctx, None)
    (work / "a.txt").write_text("another\nfile\n")
    with pytest.raises(ToolError, match="since you last saw it"):
        await prepare(ctx, 2)
