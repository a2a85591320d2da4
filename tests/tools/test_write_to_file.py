from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from joey.core.models import ModelInfo, ToolProtocol
from joey.errors import ArgumentError, ToolError
from joey.ports.tool_context import ToolContext
from joey.tools.base import Access, Claim
from joey.tools.file_edit import EMPTY_PATCH, format_write_result, load_original
from joey.tools.write_to_file import PreparedWrite, WriteToFile, WriteToFileParams
from tests.harness.tools.editing import is_offered
from tests.harness.tools.tool_context import make_context
from tests.harness.tools.xml_calls import parsed

tool = WriteToFile()


@pytest.fixture
def ctx(tmp_path: Path) -> ToolContext:
    return make_context(tmp_path)


@pytest.fixture
def work(ctx: ToolContext) -> Path:
    return ctx.files.root


async def prepare(ctx: ToolContext, path: str, content: str) -> PreparedWrite:
    return await tool.prepare(tool.parse({"path": path, "content": content}), ctx)


async def write(ctx: ToolContext, path: str, content: str) -> str:
    return (await tool.run_prepared(await prepare(ctx, path, content), ctx, None)).text


@pytest.mark.contract("tool:write_to_file:success:problems", "tool:write_to_file:success")
async def test_a_file_is_made_with_its_directories(ctx: ToolContext, work: Path) -> None:
    text = await write(ctx, "src/deep/s.js", "let x = 1\n")
    assert (work / "src" / "deep" / "s.js").read_text() == "let x = 1\n"
    assert text == "Created src/deep/s.js: line 1."


@pytest.mark.contract("tool:write_to_file:success")
async def test_a_file_is_replaced(ctx: ToolContext, work: Path) -> None:
    (work / "a.txt").write_text("one\ntwo\nthree\nfour\n")
    text = await write(ctx, "a.txt", "one\n2\n3\nfour\nfive\n")
    assert (work / "a.txt").read_text() == "one\n2\n3\nfour\nfive\n"
    assert text == "Replaced a.txt: 4 lines before, 5 now; changed: lines 2-3, 5."
    text = await write(ctx, "a.txt", "none\n")
    assert text == "Replaced a.txt: 5 lines before, 1 now; changed: line 1."


async def test_content_that_is_there_already_is_only_read(ctx: ToolContext, work: Path) -> None:
    file = work / "a.txt"
    file.write_bytes(b"one\r\n")
    (work / ".git").mkdir()
    (work / ".git" / "config").write_text("x\n")
    written_at = file.stat().st_mtime_ns

    prepared = await prepare(ctx, "a.txt", "one\n")
    assert prepared.claims == (Claim(Access.READ, path=ctx.files.resolve("a.txt")),)
    assert "1 line before, 1 now" in (await tool.run_prepared(prepared, ctx, None)).text
    assert file.stat().st_mtime_ns == written_at
    for path, content in (("a.txt", "one"), ("b.txt", ""), (".git/config", "y\n"), ("../x", "")):
        (claim,) = (await prepare(ctx, path, content)).claims
        assert claim.access is Access.WRITE, path


async def test_content_that_has_changed_since_is_not_reported_as_written(
    ctx: ToolContext, work: Path
) -> None:
    (work / "a.txt").write_text("one\n")
    prepared = await prepare(ctx, "a.txt", "one\n")
    (work / "a.txt").write_text("two\n")

    with pytest.raises(ToolError, match="was changed by the user"):
        await tool.run_prepared(prepared, ctx, None)
    assert (work / "a.txt").read_text() == "two\n"


@pytest.mark.contract("tool:write_to_file:success:problems")
async def test_problems_that_a_change_brought_are_part_of_the_result(ctx: ToolContext) -> None:
    original = await load_original(ctx, ctx.files.resolve("a.py"))
    text = format_write_result(original, EMPTY_PATCH, problems="\n\na.py\n- 1 < 2")
    assert text == "Created a.py.\n\na.py\n- 1 < 2"


@pytest.mark.parametrize(
    "line",
    [
        "# ... rest of code unchanged ...",
        "    // ... existing code ...",
        "/* … remaining methods … */",
        "<!-- rest of the page -->",
        "... (rest omitted)",
    ],
)
async def test_a_placeholder_in_place_of_lines_is_noticed(
    ctx: ToolContext, work: Path, line: str
) -> None:
    (work / "a.txt").write_text("one\ntwo\nthree\nfour\n")
    text = await write(ctx, "a.txt", f"1\n{line}\n")
    assert text == (
        "Replaced a.txt: 4 lines before, 2 now; changed: lines 1-2."
        f" Line 2 is `{line.strip()}`, and the file is 2 lines shorter"
        " than before: nothing was filled in there. If those lines should stay, write them out."
    )
    assert "shorter" not in await write(ctx, "a.txt", f"{line}\n")  # it was there before


@pytest.mark.parametrize("line", ["# the rest of the world", "# ...", "x = [...]  # rest", "same"])
async def test_an_ordinary_line_is_no_placeholder(ctx: ToolContext, work: Path, line: str) -> None:
    (work / "a.txt").write_text("one\ntwo\nthree\nfour\n")
    assert "shorter" not in await write(ctx, "a.txt", f"1\n{line}\n")
    assert "shorter" not in await write(ctx, "b.txt", "# ... rest of code unchanged ...\n")


@pytest.mark.parametrize("kind", ["folder", "text", "missing"])
async def test_what_there_is_outside_of_the_workspace_is_shown_only_after_it_is_allowed(
    ctx: ToolContext, work: Path, kind: str
) -> None:
    outside = work.parent / "other"
    if kind == "folder":
        outside.mkdir()
    elif kind == "text":
        outside.write_text("secret\n")
    prepared = await prepare(ctx, "../other", "new\n")
    assert prepared.claims == (Claim(Access.WRITE, path=ctx.files.resolve("../other")),)
    if kind == "folder":
        with pytest.raises(ToolError, match="is a directory"):
            await tool.run_prepared(prepared, ctx, None)
    else:
        await tool.run_prepared(prepared, ctx, None)
        assert outside.read_text() == "new\n"


@pytest.mark.contract("tool:write_to_file:native:alias")
def test_a_path_may_have_the_name_that_other_tools_give_it() -> None:
    assert tool.parse({"file_path": "a", "content": "x"}) == WriteToFileParams("a", "x")
    assert "file_path" in tool.xml_tags


def test_file_text_means_content() -> None:
    assert tool.parse({"path": "a", "file_text": "x"}) == tool.parse({"path": "a", "content": "x"})


@pytest.mark.contract("tool:write_to_file:schema:offered")
def test_it_is_offered_unless_patches_write_whole_files_too() -> None:
    assert is_offered(tool)
    assert is_offered(tool, "edit")
    assert not is_offered(tool, "apply_patch")
    assert list(tool.spec.parameters["properties"]) == ["path", "content"]


@pytest.mark.contract("tool:write_to_file:native", "tool:write_to_file:xml")
def test_a_call_in_xml_keeps_its_indentation_and_its_older_names() -> None:
    for name in ("content", "file_text"):
        params = parsed(
            f"<write_to_file><path>a.py</path><{name}>\n  x\n\n</{name}>"
            "<line_count>1</line_count></write_to_file>"
        )
        assert params == tool.parse({"path": "a.py", name: "  x\n"})


@pytest.mark.contract("tool:write_to_file:native", "tool:write_to_file:xml")
def test_content_may_be_empty_or_given_as_an_object() -> None:
    assert tool.parse({"path": "a", "content": ""}).content == ""
    assert tool.parse({"path": "a.json", "content": {"a": 1}}).content == '{\n  "a": 1\n}'


@pytest.mark.contract("tool:write_to_file:failure:missing")
@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [
        ({"content": "x"}, "path"),
        ({"path": "", "content": "x"}, "path"),
        ({"path": "a"}, "content"),
    ],
)
def test_a_missing_parameter_is_named(arguments: dict[str, Any], parameter: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        tool.parse(arguments)
    assert caught.value.parameter == parameter


# Before it runs


@pytest.mark.contract("tool:write_to_file:approval")
async def test_the_row_of_a_new_file_has_a_patch_against_nothing(
    ctx: ToolContext, work: Path
) -> None:
    prepared = await prepare(ctx, "new/a.txt", "x\ny\n")
    patch = "--- /dev/null\n+++ new/a.txt\n@@ -0,0 +1,2 @@\n+x\n+y\n"
    assert prepared.claims == (Claim(Access.WRITE, path=ctx.files.resolve("new/a.txt")),)
    assert (prepared.path, prepared.diff) == ("new/a.txt", patch)
    assert prepared.row == {
        "tool": "newFileCreated",
        "path": "new/a.txt",
        "content": patch,
        "isOutsideWorkspace": False,
        "isProtected": False,
        "diffStats": {"added": 2, "removed": 0},
    }
    assert not (work / "new").exists()


@pytest.mark.contract("tool:write_to_file:approval")
async def test_the_row_of_a_change_has_its_hunks(ctx: ToolContext, work: Path) -> None:
    (work / "AGENTS.md").write_text("a\nb\nc\n")
    prepared = await prepare(ctx, "AGENTS.md", "a\nB\nc\n")
    assert prepared.diff == "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
    assert prepared.row["tool"] == "editedExistingFile"
    assert prepared.row["content"] == prepared.diff
    assert prepared.row["isProtected"]
    assert prepared.row["diffStats"] == {"added": 1, "removed": 1}


async def test_a_row_can_be_sent_whatever_bytes_the_file_has(ctx: ToolContext, work: Path) -> None:
    (work / "latin.txt").write_bytes(b"caf\xe9\n")
    (work / "binary").write_bytes(b"\0\xff" * 100)
    for name in ("latin.txt", "binary"):
        prepared = await prepare(ctx, name, "text\n")
        assert b"+text" in msgspec.json.encode(prepared.row)


@pytest.mark.contract("tool:write_to_file:failure:hidden", "tool:write_to_file:failure:folder")
async def test_hidden_files_and_directories_are_refused(ctx: ToolContext, work: Path) -> None:
    (work / ".rooignore").write_text("secret\n")
    (work / "folder").mkdir()
    with pytest.raises(ToolError, match="hidden by"):
        await prepare(ctx, "secret", "x")
    with pytest.raises(ToolError, match="is a directory"):
        await prepare(ctx, "folder", "x")


@pytest.mark.contract("tool:write_to_file:failure:unwritable")
async def test_content_that_cannot_be_written_is_refused(ctx: ToolContext) -> None:
    with pytest.raises(ToolError, match="surrogate"):
        await prepare(ctx, "a.txt", "ok \ud800")


@pytest.mark.contract("tool:write_to_file:failure:changed-meanwhile")
@pytest.mark.parametrize("now", [b"changed meanwhile", b"OLD\n", None])
async def test_a_file_that_changed_meanwhile_is_not_overwritten(
    ctx: ToolContext, work: Path, now: bytes | None
) -> None:
    path = work / "a.txt"
    path.write_bytes(b"old\n")
    prepared = await prepare(ctx, "a.txt", "new\n")
    path.unlink()
    if now is not None:
        path.write_bytes(now)
    with pytest.raises(ToolError, match="changed by the user or by a command"):
        await tool.run_prepared(prepared, ctx, None)
    assert (path.read_bytes() if path.exists() else None) == now


async def test_a_file_that_appeared_meanwhile_is_not_overwritten(
    ctx: ToolContext, work: Path
) -> None:
    prepared = await prepare(ctx, "a.txt", "new\n")
    (work / "a.txt").write_text("somebody else's\n")
    with pytest.raises(ToolError, match="changed by the user or by a command"):
        await tool.run_prepared(prepared, ctx, None)
    assert (work / "a.txt").read_text() == "somebody else's\n"


# What is written


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n"),
        (b"a\r\nb\r\n", "x\r\ny\n", b"x\r\ny\n"),
        (b"a\r\nb\nc\n", "x\ny\n", b"x\ny\n"),
        (b"a\nb\n", "x\r\ny\r\n", b"x\r\ny\r\n"),
        (b"\xef\xbb\xbfa\n", "x\n", b"\xef\xbb\xbfx\n"),
        (b"\xef\xbb\xbfa\n", "\ufeffx\n", b"\xef\xbb\xbfx\n"),
        (b"a\n", "x", b"x"),
        (b"a", "x\n", b"x\n"),
        (b"a\n", "", b""),
    ],
)
async def test_a_file_keeps_its_line_ends_and_its_mark(
    ctx: ToolContext, work: Path, before: bytes, content: str, after: bytes
) -> None:
    (work / "a.txt").write_bytes(before)
    await write(ctx, "a.txt", content)
    assert (work / "a.txt").read_bytes() == after


@pytest.mark.contract("tool:write_to_file:success:cleaning")
@pytest.mark.parametrize(
    ("path", "content", "written"),
    [
        ("a.py", "```python\nx = 1\n```", "x = 1\n"),
        ("a.py", "```\nx = 1\n```\n", "x = 1\n"),
        ("a.py", "```\n```", ""),
        ("a.md", "```sh\nls\n```", "```sh\nls\n```"),
        ("a.py", 'x = """\n```\n"""\n', 'x = """\n```\n"""\n'),
        ("a.txt", "```\nfirst\n```\nmore", "```\nfirst\n```\nmore"),
        ("a.py", "1 | x = 1\n2 | y = 2\n", "x = 1\ny = 2\n"),
        ("a.py", "1 | x = 1\ny = 2\n", "1 | x = 1\ny = 2\n"),
        ("a.html", "&lt;p&gt;a &amp;amp; b&lt;/p&gt;\n", "&lt;p&gt;a &amp;amp; b&lt;/p&gt;\n"),
    ],
)
async def test_what_models_put_around_content_is_taken_off_and_reported(
    ctx: ToolContext, work: Path, path: str, content: str, written: str
) -> None:
    result = await write(ctx, path, content)
    assert (work / path).read_text() == written
    assert ("was written without" in result) is (written != content)
    assert ("written without the" in result) is (written != content)


@pytest.mark.parametrize(
    ("content", "written"),
    [
        ("&lt;p&gt;a &amp;amp; b&lt;/p&gt;\n", "<p>a &amp; b</p>\n"),
        ("<p>1 &lt; 2 &amp; 3</p>\n", "<p>1 &lt; 2 &amp; 3</p>\n"),
        ("AT&amp;T\n", "AT&amp;T\n"),
    ],
)
async def test_entities_are_undone_in_xml_where_everything_was_escaped(
    tmp_path: Path, content: str, written: str
) -> None:
    ctx = make_context(tmp_path, protocol=ToolProtocol.XML)
    await write(ctx, "a.html", content)
    assert (ctx.files.root / "a.html").read_text() == written


async def test_entities_of_models_that_do_not_escape_are_meant(tmp_path: Path) -> None:
    model = ModelInfo(id="claude-sonnet-4-5")
    ctx = make_context(tmp_path, model=model, protocol=ToolProtocol.XML)
    await write(ctx, "a.txt", "&lt;p&gt;\n")
    assert (ctx.files.root / "a.txt").read_text() == "&lt;p&gt;\n"


async def test_new_line_ends_are_part_of_what_is_shown(ctx: ToolContext, work: Path) -> None:
    (work / "a").write_bytes(b"foo\nbar\n")
    prepared = await prepare(ctx, "a", "foo\r\nbar\r\n")
    assert prepared.diff == "\\ Lines that will end with CRLF instead of LF: 2.\n"


async def test_a_binary_file_that_is_replaced_is_shown_as_such(
    ctx: ToolContext, work: Path
) -> None:
    (work / "a").write_bytes(b"\x89PNG\0\0")
    prepared = await prepare(ctx, "a", "x\n")
    note = "\\ The old content is not text: 6 bytes are replaced.\n"
    assert prepared.diff == f"@@ -0,0 +1,1 @@\n+x\n{note}"


@pytest.mark.parametrize(
    ("before", "after"),
    [("a\n", "x\ny\n"), (None, "x\ny\n"), ("a", "x\ny"), ("a\r\n", "x\r\ny\r\n")],
)
async def test_in_xml_a_file_ends_as_it_did_and_a_new_one_with_a_newline(
    tmp_path: Path, before: str | None, after: str
) -> None:
    ctx = make_context(tmp_path, protocol=ToolProtocol.XML)
    if before is not None:
        (ctx.files.root / "a").write_bytes(before.encode())
    await write(ctx, "a", "x\ny")
    assert (ctx.files.root / "a").read_bytes().decode() == after
