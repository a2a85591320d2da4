from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from joey.core.messages import CallChunk, CallPart, StopChunk, TextChunk, ToolCall
from joey.core.models import ModelInfo, ToolProtocol
from joey.core.modes import Mode, find_mode
from joey.core.parsing.assembler import ReplyAssembler
from joey.core.permissions.policy import Ask, decide
from joey.core.permissions.reasons import format_reasons
from joey.core.settings import Settings
from joey.errors import ArgumentError, IgnoredPathError, ToolError
from joey.ports.tool_context import Capabilities, ToolContext
from joey.tools.apply_patch import ApplyPatch, PreparedPatch
from joey.tools.base import (
    Access,
    AvailabilityContext,
    Claim,
    Outcome,
)
from joey.tools.registry import Registry, build_default_tools
from tests.harness.tools.tool_context import make_context

tool = ApplyPatch()
registry = Registry(build_default_tools())
CODE = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"
ONE = ("*** Update File: a.py", "-    return 1", "+    return 11")


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


@pytest.fixture
def ctx(tmp_path: Path) -> ToolContext:
    ctx = make_context(tmp_path)
    (ctx.files.root / "a.py").write_text(CODE)
    (ctx.files.root / "b.txt").write_text("one\ntwo\n")
    return ctx


@pytest.fixture
def work(ctx: ToolContext) -> Path:
    return ctx.files.root


async def prepare(ctx: ToolContext, *lines: str) -> PreparedPatch:
    return await tool.prepare(tool.parse({"patch": patch(*lines)}), ctx)


async def apply(ctx: ToolContext, *lines: str) -> Outcome:
    return await tool.run_prepared(await prepare(ctx, *lines), ctx, None)


async def problem(ctx: ToolContext, *lines: str) -> str:
    with pytest.raises(ToolError) as caught:
        await apply(ctx, *lines)
    return str(caught.value)


def snapshot(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


# The tool as it is offered and called


@pytest.mark.contract("tool:apply_patch:schema:offered")
@pytest.mark.parametrize(
    ("model", "chosen", "names"),
    [
        ("apply_patch", "auto", ["apply_patch"]),
        ("apply_diff", "auto", ["apply_diff", "write_to_file"]),
        ("apply_diff", "apply_patch", ["apply_patch"]),
        ("apply_patch", "apply_diff", ["apply_diff", "write_to_file"]),
    ],
)
def test_it_is_offered_instead_of_the_other_edit_tools(
    model: str, chosen: Any, names: list[str]
) -> None:
    mode = find_mode("code")
    assert mode is not None
    offer = AvailabilityContext(
        Settings(edit_tool=chosen), ModelInfo(id="m", preferred_edit_tool=model), Capabilities()
    )
    offered = [spec.name for spec in registry.list_specs(mode, offer)]
    assert [name for name in offered if name in ("apply_diff", "apply_patch", "write_to_file")] == (
        names
    )


@pytest.mark.contract("tool:apply_patch:schema")
def test_its_schema_has_the_patch_and_nothing_else() -> None:
    spec = tool.spec
    assert (spec.name, spec.strict) == ("apply_patch", False)
    assert list(spec.parameters["properties"]) == spec.parameters["required"] == ["patch"]
    assert spec.parameters["additionalProperties"] is False


def test_what_the_model_is_shown_is_a_patch_that_can_be_read() -> None:
    for text in (tool.description, tool.xml_usage or ""):
        begin, end = text.index("*** Begin Patch"), text.rindex("*** End Patch")
        assert tool.parse({"patch": text[begin : end + len("*** End Patch")]})


def only_call(protocol: ToolProtocol, text: str) -> ToolCall:
    """The call that a model makes, its stream cut into small pieces."""
    assembler = ReplyAssembler(
        protocol=protocol,
        tools=registry.build_tool_names(),
        taken_ids=lambda call_id: False,
        make_id=lambda: "call",
    )
    pieces = [text[at : at + 7] for at in range(0, len(text), 7)]
    if protocol is ToolProtocol.NATIVE:
        assembler.feed(CallChunk(index=0, id="1", name="apply_patch"))
    for piece in pieces:
        chunk = CallChunk(index=0, arguments=piece)
        assembler.feed(chunk if protocol is ToolProtocol.NATIVE else TextChunk(piece))
    assembler.feed(StopChunk(reason="stop"))
    assembler.close(complete=True)
    (call,) = (part.call for part in assembler.reply.parts if isinstance(part, CallPart))
    assert call.problem is None
    return call


MARKUP = patch(
    "*** Add File: page.html",
    "+<patch>",
    "+  <path>x</path></patch>",
    "+<![CDATA[ &lt; ]]>",
    "*** Update File: calls.xml",
    "@@ <args>",
    "-<apply_diff><path>a</path></apply_diff>",
    "+    ",
)


@pytest.mark.contract("tool:apply_patch:native")
def test_a_native_call_is_read_as_it_streams() -> None:
    text = msgspec.json.encode({"patch": MARKUP}).decode()
    assert tool.parse(only_call(ToolProtocol.NATIVE, text).input).patch == MARKUP


@pytest.mark.contract("tool:apply_patch:xml")
def test_tags_inside_of_a_patch_are_part_of_it() -> None:
    text = f"<apply_patch>\n<patch>\n{MARKUP}\n</patch>\n</apply_patch>"
    assert tool.parse(only_call(ToolProtocol.XML, text).input).patch == MARKUP


def test_the_name_that_openai_gives_the_parameter_is_understood() -> None:
    assert tool.parse({"input": patch(*ONE)}).patch == patch(*ONE)


@pytest.mark.contract("tool:apply_patch:failure:missing")
@pytest.mark.parametrize("arguments", [{}, {"patch": None}, {"patch": " \n"}])
def test_a_missing_patch_is_named(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError) as caught:
        tool.parse(arguments)
    assert caught.value.parameter == "patch"


# What is done


@pytest.mark.contract("tool:apply_patch:success")
async def test_a_file_is_updated(ctx: ToolContext, work: Path) -> None:
    outcome = await apply(ctx, *ONE, "@@ def two():", "-    return 2", "+    return 22")
    assert (work / "a.py").read_text() == CODE.replace("1", "11").replace("2", "22")
    assert outcome.text == "Changed a.py: lines 2, 6."
    assert not outcome.is_error


@pytest.mark.contract("tool:apply_patch:success:adds")
async def test_a_file_is_made_with_its_directories(ctx: ToolContext, work: Path) -> None:
    outcome = await apply(ctx, "*** Add File: deep/er/new.md", "+# Title", "+", "+text")
    assert (work / "deep/er/new.md").read_text() == "# Title\n\ntext\n"
    assert outcome.text == "Created deep/er/new.md: lines 1-3."


@pytest.mark.contract("tool:apply_patch:success:deletes")
async def test_a_file_is_deleted(ctx: ToolContext, work: Path) -> None:
    prepared = await prepare(ctx, "*** Delete File: b.txt")
    assert prepared.claims == (Claim(Access.WRITE, path=ctx.files.resolve("b.txt")),)
    assert prepared.row["diff"] == prepared.row["content"] == "b.txt will be deleted."
    assert prepared.row["diffStats"] == {"added": 0, "removed": 2}
    assert (await tool.run_prepared(prepared, ctx, None)).text == "Successfully deleted b.txt"
    assert list(snapshot(work)) == ["a.py"]


@pytest.mark.contract("tool:apply_patch:success:moves")
async def test_a_file_is_moved_and_changed(ctx: ToolContext, work: Path) -> None:
    prepared = await prepare(ctx, ONE[0], "*** Move to: src/new.py", *ONE[1:])
    places = [ctx.files.resolve("a.py"), ctx.files.resolve("src/new.py")]
    assert [claim.path for claim in prepared.claims] == places
    moved, made = prepared.row["batchDiffs"]
    assert moved["content"] == "a.py will be moved to src/new.py."
    assert made["diffStats"] == {"added": 1, "removed": 1}
    text = (await tool.run_prepared(prepared, ctx, None)).text
    assert text == "Created src/new.py: line 2.\n\nSuccessfully moved a.py to src/new.py"
    assert snapshot(work) == {
        "b.txt": b"one\ntwo\n",
        "src/new.py": CODE.replace("1", "11").encode(),
    }


async def test_a_file_that_is_only_moved_keeps_its_bytes(ctx: ToolContext, work: Path) -> None:
    (work / "image").write_bytes(b"\0\xff\r\n")
    await apply(ctx, "*** Update File: image", "*** Move to: picture")
    assert snapshot(work)["picture"] == b"\0\xff\r\n"
    assert "image" not in snapshot(work)


async def test_a_file_that_is_moved_keeps_its_mode(ctx: ToolContext, work: Path) -> None:
    (work / "a.py").chmod(0o775)
    await apply(ctx, "*** Update File: a.py", "*** Move to: bin/a")
    assert (work / "bin/a").stat().st_mode & 0o777 == 0o775


async def test_a_binary_file_that_is_only_moved_is_not_shown_as_replaced(
    ctx: ToolContext, work: Path
) -> None:
    (work / "a.py").write_bytes(b"\x89PNG\0\0")
    prepared = await prepare(ctx, "*** Update File: a.py", "*** Move to: b")
    assert prepared.diff == "a.py will be moved to b.\n--- b\n+++ b\n"


async def test_a_file_that_is_moved_to_itself_stays(ctx: ToolContext, work: Path) -> None:
    outcome = await apply(ctx, ONE[0], "*** Move to: ./a.py", *ONE[1:])
    assert (work / "a.py").read_text() == CODE.replace("1", "11")
    assert outcome.text == "Changed a.py: line 2."


@pytest.mark.contract("tool:apply_patch:success:several")
async def test_every_file_of_a_patch_is_reported_in_the_result(
    ctx: ToolContext, work: Path
) -> None:
    outcome = await apply(ctx, *ONE, "*** Delete File: b.txt", "*** Add File: c", "+c")
    assert outcome.text.split("\n\n") == [
        "Changed a.py: line 2.",
        "Created c: line 1.",
        "Successfully deleted b.txt",
    ]
    assert snapshot(work) == {"a.py": CODE.replace("1", "11").encode(), "c": b"c\n"}


async def test_a_file_may_be_named_twice(ctx: ToolContext, work: Path) -> None:
    await apply(
        ctx,
        *("*** Update File: b.txt", "-one", "+1"),
        *("*** Update File: ./b.txt", " 1", "-two", "+2"),
        *("*** Delete File: a.py", "*** Add File: a.py", "+new"),
    )
    assert snapshot(work) == {"a.py": b"new\n", "b.txt": b"1\n2\n"}


async def test_a_file_may_take_the_place_of_one_that_is_moved_away(
    ctx: ToolContext, work: Path
) -> None:
    prepared = await prepare(
        ctx,
        *("*** Update File: a.py", "*** Move to: c.py"),
        *("*** Add File: a.py", "+from c import one"),
    )
    assert "+from c import one" in prepared.row["batchDiffs"][0]["content"]
    await tool.run_prepared(prepared, ctx, None)
    assert snapshot(work)["c.py"] == CODE.encode()
    assert snapshot(work)["a.py"] == b"from c import one\n"


async def test_what_changes_nothing_is_not_written(ctx: ToolContext, work: Path) -> None:
    before = (work / "a.py").stat().st_mtime_ns
    outcome = await apply(ctx, "*** Update File: a.py", " def one():")
    assert outcome.text == "No changes needed for 'a.py'"
    assert (work / "a.py").stat().st_mtime_ns == before


@pytest.mark.contract("tool:apply_patch:success:bytes")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nb\r\nc\r\n", b"a\r\nB\r\nc\r\n"),
        (b"\xef\xbb\xbfb\nc", b"\xef\xbb\xbfB\nc"),
        (b"caf\xe9\nb\n\xff\xfe", b"caf\xe9\nB\n\xff\xfe"),
        (b"b", b"B"),
    ],
)
async def test_bytes_that_are_not_edited_stay_as_they_are(
    ctx: ToolContext, work: Path, before: bytes, after: bytes
) -> None:
    (work / "a.py").write_bytes(before)
    prepared = await prepare(ctx, "*** Update File: a.py", "-b", "+B")
    assert msgspec.json.encode(prepared.row)
    await tool.run_prepared(prepared, ctx, None)
    assert (work / "a.py").read_bytes() == after


@pytest.mark.parametrize(("model", "fits"), [("gpt-5", True), ("claude-opus-4", False)])
async def test_entities_are_undone_for_models_that_put_them_in(
    tmp_path: Path, model: str, fits: bool
) -> None:
    ctx = make_context(tmp_path, model=ModelInfo(id=model))
    (ctx.files.root / "a.html").write_text("<p>\n")
    lines = ("*** Update File: a.html", "-&lt;p&gt;", "+&lt;b&gt;")
    if fits:
        await apply(ctx, *lines)
        assert (ctx.files.root / "a.html").read_text() == "<b>\n"
    else:
        await problem(ctx, *lines)


# What a user is asked


@pytest.mark.contract("tool:apply_patch:approval")
async def test_the_row_of_one_file_has_its_diff(ctx: ToolContext, work: Path) -> None:
    prepared = await prepare(ctx, *ONE)
    diff = "@@ -1,5 +1,5 @@\n def one():\n-    return 1\n+    return 11\n \n \n def two():\n"
    assert (prepared.path, prepared.diff) == ("a.py", diff)
    assert prepared.row == {
        "tool": "appliedDiff",
        "path": "a.py",
        "diff": diff,
        "content": diff,
        "isOutsideWorkspace": False,
        "isProtected": False,
        "diffStats": {"added": 1, "removed": 1},
    }
    assert (work / "a.py").read_text() == CODE


@pytest.mark.contract("tool:apply_patch:approval")
async def test_one_row_lists_all_files(ctx: ToolContext) -> None:
    prepared = await prepare(
        ctx,
        *ONE,
        *("@@ def two():", "-    return 2", "+    return 22"),
        *("*** Delete File: b.txt", "*** Add File: .roo/mcp.json", "+{}"),
    )
    batch = prepared.row["batchDiffs"]
    assert [item["key"] for item in batch] == [
        "a.py (2 changes)",
        "b.txt (1 change)",
        ".roo/mcp.json (1 change)",
    ]
    assert batch[1]["content"] == "b.txt will be deleted."
    assert (prepared.row["tool"], prepared.path) == ("appliedDiff", None)
    assert prepared.row["isProtected"]
    assert prepared.diff is not None
    for part in ("--- a.py\n+++ a.py\n@@", "b.txt will be deleted.", "+++ .roo/mcp.json\n"):
        assert part in prepared.diff


@pytest.mark.contract("tool:apply_patch:approval:paths")
@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (("*** Add File: ok", "+x", "*** Add File: ../out", "+x"), "OutsideWorkspace"),
        (("*** Update File: b.txt", "*** Move to: ../out"), "OutsideWorkspace"),
        (("*** Update File: b.txt", "*** Move to: .roo/rules/x"), "Protected"),
        (("*** Delete File: .roomodes",), "Protected"),
    ],
)
async def test_no_place_outside_or_protected_is_touched_by_the_rule_for_writing(
    ctx: ToolContext, work: Path, lines: tuple[str, ...], reason: str
) -> None:
    (work / ".roomodes").write_text("")
    prepared = await prepare(ctx, *lines)
    decision = decide(prepared.claims, Settings(always_allow_write=True))
    assert isinstance(decision, Ask)
    assert reason in format_reasons(decision.reasons)


NOT_MARKDOWN = (
    ("*** Add File: app.py", "+x"),
    ("*** Delete File: a.py",),
    ("*** Update File: a.py", "-def one():"),
    ("*** Add File: plan.md", "+x", "*** Delete File: a.py"),
    ("*** Update File: notes.md", "*** Move to: notes.py"),
)
FORBIDDEN = r"may only change files that match .*, not "


def architect() -> Mode:
    mode = find_mode("architect")
    assert mode is not None
    return mode


@pytest.mark.contract("tool:apply_patch:approval:paths")
@pytest.mark.parametrize("lines", NOT_MARKDOWN)
def test_a_mode_that_may_edit_some_files_may_not_name_others_in_a_patch(
    lines: tuple[str, ...],
) -> None:
    with pytest.raises(ToolError, match=FORBIDDEN):
        registry.check_allowed(tool, architect(), Settings(), {"patch": patch(*lines)})


@pytest.mark.contract("tool:apply_patch:approval:paths")
@pytest.mark.parametrize("lines", [*NOT_MARKDOWN, ("*** Update File: link.md", "-def one():")])
async def test_a_mode_that_may_edit_some_files_may_not_change_others_by_a_patch(
    ctx: ToolContext, work: Path, lines: tuple[str, ...]
) -> None:
    (work / "notes.md").write_text("x\n")
    (work / "link.md").symlink_to("a.py")
    prepared = await prepare(ctx, *lines)
    with pytest.raises(ToolError, match=FORBIDDEN):
        registry.check_claimed_paths(tool, architect(), prepared.claims)


async def test_a_mode_may_patch_the_files_that_match(ctx: ToolContext) -> None:
    lines = ("*** Add File: plan.md", "+*** Add File: x.py")
    registry.check_allowed(tool, architect(), Settings(), {"patch": patch(*lines)})
    registry.check_claimed_paths(tool, architect(), (await prepare(ctx, *lines)).claims)


# What fails


@pytest.mark.contract("tool:apply_patch:failure:bad-format")
async def test_what_is_no_patch_is_refused(ctx: ToolContext) -> None:
    with pytest.raises(ToolError, match=r"^Invalid patch format: Line 1: a patch must begin"):
        await tool.prepare(tool.parse({"patch": "--- a\n+++ b"}), ctx)


@pytest.mark.contract("tool:apply_patch:failure:bad-format")
async def test_an_empty_patch_is_refused(ctx: ToolContext) -> None:
    assert await problem(ctx) == "No file operations found in patch."


@pytest.mark.contract("tool:apply_patch:failure:miss")
async def test_a_chunk_that_does_not_fit_shows_what_the_file_says(
    ctx: ToolContext, work: Path
) -> None:
    before = snapshot(work)
    message = await problem(
        ctx, *ONE, "*** Update File: b.txt", " one", "-three", "+3", "*** Delete File: a.py"
    )
    assert message.startswith("Failed to process patch: nothing was written.\n\nb.txt: ")
    assert "Chunk at line 6 of the patch" in message
    assert "1 | one\n2 | two" in message
    assert "</error_details>" in message
    assert snapshot(work) == before


async def test_a_miss_in_a_file_that_is_not_utf_8_can_be_reported(
    ctx: ToolContext, work: Path
) -> None:
    (work / "a.py").write_bytes(b"caf\xe9 one\n")
    assert "caf\ufffd one" in await problem(ctx, "*** Update File: a.py", "-cafe one", "+x")


@pytest.mark.contract("tool:apply_patch:failure:collisions")
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("*** Add File: b.txt", "+x"), "b.txt: the file exists already"),
        (("*** Update File: none", "-x"), "none: there is no such file, so it cannot be updated"),
        (("*** Delete File: none",), "none: there is no such file, so it cannot be deleted"),
        (("*** Update File: b.txt", "*** Move to: a.py"), "cannot be moved to a.py"),
        (("*** Update File: b.txt", "*** Move to: folder"), "folder is a directory"),
        (("*** Delete File: folder",), "folder is a directory"),
        (("*** Update File: binary", "-x"), "binary: this is a binary file"),
        (("*** Add File: c", "+x", "*** Add File: c", "+x"), "c: the file exists already"),
        (("*** Delete File: b.txt", "*** Update File: b.txt", "-one"), "b.txt: there is no such"),
    ],
)
async def test_what_cannot_be_done_is_reported_and_nothing_is_written(
    ctx: ToolContext, work: Path, lines: tuple[str, ...], expected: str
) -> None:
    (work / "folder").mkdir()
    (work / "binary").write_bytes(b"a\0b\n")
    before = snapshot(work)
    message = await problem(ctx, "*** Add File: fine", "+x", *lines)
    assert message.startswith("Failed to process patch: nothing was written.\n\n")
    assert expected in message
    assert snapshot(work) == before


@pytest.mark.contract("tool:apply_patch:failure:collisions")
async def test_all_that_cannot_be_done_is_reported_at_once(ctx: ToolContext) -> None:
    message = await problem(
        ctx, "*** Delete File: none", "*** Add File: a.py", "+x", "*** Update File: b.txt", "-x"
    )
    assert "none: there is no such file" in message
    assert "a.py: the file exists already" in message
    assert "b.txt: the patch does not fit the file" in message


@pytest.mark.contract("tool:apply_patch:approval:paths")
@pytest.mark.parametrize(
    "lines",
    [
        ("*** Add File: secret", "+x"),
        ("*** Delete File: secret",),
        ("*** Update File: secret", "-x"),
        ("*** Update File: b.txt", "*** Move to: secret"),
    ],
)
async def test_a_hidden_file_stops_the_whole_patch(
    ctx: ToolContext, work: Path, lines: tuple[str, ...]
) -> None:
    (work / ".rooignore").write_text("secret\n")
    before = snapshot(work)
    with pytest.raises(IgnoredPathError):
        await apply(ctx, "*** Add File: fine", "+x", *lines)
    assert snapshot(work) == before


@pytest.mark.contract("tool:apply_patch:failure:outside")
@pytest.mark.parametrize(
    ("data", "lines", "expected"),
    [
        (b"password = 'hunter2'\n", ("*** Update File: ../s", "-password = ''"), "does not fit"),
        (b"a\0b\n", ("*** Update File: ../s", "-password = ''"), "binary file"),
        (None, ("*** Update File: ../s", "-password = ''"), "no such file"),
        (None, ("*** Delete File: ../s",), "no such file"),
        (b"", ("*** Add File: ../s", "+x"), "exists already"),
        (b"", ("*** Update File: b.txt", "*** Move to: ../s"), "cannot be moved"),
    ],
)
async def test_why_a_file_outside_cannot_be_changed_is_said_only_after_it_is_allowed(
    ctx: ToolContext, tmp_path: Path, data: bytes | None, lines: tuple[str, ...], expected: str
) -> None:
    if data is not None:
        (tmp_path / "s").write_bytes(data)
    before = snapshot(tmp_path)
    prepared = await prepare(ctx, *ONE, *lines)
    places = [claim.path for claim in prepared.claims]
    assert ctx.files.resolve("../s") in places
    assert str(tmp_path / "s") in [item["path"] for item in prepared.row["batchDiffs"]]
    assert prepared.row["isOutsideWorkspace"]
    with pytest.raises(ToolError, match=expected) as caught:
        await tool.run_prepared(prepared, ctx, None)
    assert "hunter2" not in str(caught.value)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("exists", [True, False])
async def test_a_later_hunk_tells_nothing_of_what_is_moved_in_from_outside(
    ctx: ToolContext, tmp_path: Path, exists: bool
) -> None:
    if exists:
        (tmp_path / "outside").write_text("secret = 1\nsecret = 2\n")
    moves = (
        "*** Update File: ../outside",
        "*** Move to: x",
        "*** Update File: x",
        "*** Move to: y",
    )
    prepared = await prepare(ctx, *moves, "*** Update File: y", "-secret = 3", "+x")
    with pytest.raises(ToolError) as caught:
        await tool.run_prepared(prepared, ctx, None)
    assert "secret = 2" not in str(caught.value)


async def test_what_fails_inside_is_reported_without_a_word_of_what_is_outside(
    ctx: ToolContext,
) -> None:
    with pytest.raises(ToolError, match=r"nothing was written\.\n\nnone: there is no") as caught:
        await prepare(ctx, "*** Delete File: ../s", "*** Delete File: none")
    assert "../s" not in str(caught.value)


@pytest.mark.contract("tool:apply_patch:failure:changed-meanwhile")
async def test_a_file_that_changed_meanwhile_keeps_all_of_the_patch_from_being_written(
    ctx: ToolContext, work: Path
) -> None:
    prepared = await prepare(ctx, *ONE, "*** Add File: c", "+x", "*** Delete File: b.txt")
    (work / "b.txt").write_text("somebody else's\n")
    before = snapshot(work)
    with pytest.raises(ToolError, match=r"b\.txt was changed by the user or by a command"):
        await tool.run_prepared(prepared, ctx, None)
    assert snapshot(work) == before


@pytest.mark.contract("tool:apply_patch:failure:part-written")
async def test_if_a_later_file_cannot_be_written_the_result_says_what_is_done(
    ctx: ToolContext, work: Path
) -> None:
    (work / "folder").write_text("a file where a folder is needed")
    outcome = await apply(
        ctx,
        *ONE,
        "*** Add File: folder/new",
        "+x",
        "*** Add File: c",
        "+x",
        "*** Delete File: b.txt",
    )
    assert outcome.is_error
    done, summary = outcome.text.split("\n\n")
    assert done == "Changed a.py: line 2."
    assert "carried out in part" in summary
    assert "Cannot write folder/new" in summary
    assert "not changed either: c, b.txt." in summary
    assert (work / "a.py").read_text() == CODE.replace("1", "11")
    assert (work / "b.txt").exists()
    assert not (work / "c").exists()


@pytest.mark.contract("tool:apply_patch:failure:part-written")
async def test_if_the_first_file_cannot_be_written_nothing_is(ctx: ToolContext, work: Path) -> None:
    (work / "folder").write_text("a file where a folder is needed")
    message = await problem(ctx, "*** Add File: folder/new", "+x", *ONE)
    assert message.startswith("Cannot write folder/new")
    assert (work / "a.py").read_text() == CODE


@pytest.mark.contract("tool:apply_patch:success:deletes")
async def test_a_file_that_somebody_changed_since_it_was_seen_is_not_deleted(
    ctx: ToolContext, work: Path
) -> None:
    await apply(ctx, *ONE)
    (work / "a.py").write_text("somebody else's\n")
    assert "changed by the user or by a command" in await problem(ctx, "*** Delete File: a.py")
    assert (work / "a.py").exists()
