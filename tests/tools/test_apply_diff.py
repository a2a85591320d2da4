from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from joey.core.models import ModelInfo
from joey.errors import ArgumentError, IgnoredPathError, ToolError
from joey.ports.tool_context import ToolContext
from joey.tools.apply_diff import ApplyDiff, DiffRequest, FileDiffRequest, PreparedDiff
from joey.tools.base import Access, Claim, Outcome
from tests.harness.tools.editing import is_offered
from tests.harness.tools.tool_context import make_context
from tests.harness.tools.xml_calls import parsed

tool = ApplyDiff()
CODE = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"


def block(search: str, replace: str, line: int | None = None) -> str:
    hint = f":start_line:{line}\n-------\n" if line else ""
    return f"<<<<<<< SEARCH\n{hint}{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


ONE = block("    return 1", "    return 11", 2)
TWO = block("    return 2", "    return 22", 6)
WRONG = block("    return 3", "    return 33", 4)


@pytest.fixture
def ctx(tmp_path: Path) -> ToolContext:
    ctx = make_context(tmp_path)
    (ctx.files.root / "a.py").write_text(CODE)
    return ctx


@pytest.fixture
def work(ctx: ToolContext) -> Path:
    return ctx.files.root


async def prepare(ctx: ToolContext, arguments: dict[str, Any]) -> PreparedDiff:
    return await tool.prepare(tool.parse(arguments), ctx)


async def apply(ctx: ToolContext, diff: str, path: str = "a.py") -> Outcome:
    return await tool.run_prepared(await prepare(ctx, {"path": path, "diff": diff}), ctx, None)


async def problem(ctx: ToolContext, diff: str, path: str = "a.py") -> str:
    with pytest.raises(ToolError) as caught:
        await apply(ctx, diff, path)
    return str(caught.value)


@pytest.mark.contract("tool:apply_diff:success", "tool:apply_diff:success:blocks")
async def test_blocks_change_the_file(ctx: ToolContext, work: Path) -> None:
    outcome = await apply(ctx, ONE + TWO)
    assert (work / "a.py").read_text() == CODE.replace("1", "11").replace("2", "22")
    assert outcome.text == "Changed a.py: lines 2, 6."
    assert not outcome.is_error


@pytest.mark.contract("tool:apply_diff:schema:offered")
def test_it_is_offered_unless_another_way_to_edit_is_preferred() -> None:
    assert is_offered(tool)
    assert is_offered(tool, "apply_diff", model="edit")
    assert not is_offered(tool, model="apply_patch")
    assert not is_offered(tool, "edit_file")


@pytest.mark.contract("tool:apply_diff:native", "tool:apply_diff:xml")
def test_a_call_is_understood_in_both_protocols() -> None:
    request = DiffRequest((FileDiffRequest("a.py", ONE.rstrip("\n")),))
    assert tool.parse({"path": "a.py", "diff": ONE.rstrip("\n")}) == request
    assert parsed(f"<apply_diff><path>a.py</path><diff>\n{ONE}</diff></apply_diff>") == request


@pytest.mark.contract("tool:apply_diff:approval")
async def test_the_row_has_the_diff_and_the_patch(ctx: ToolContext, work: Path) -> None:
    prepared = await prepare(ctx, {"path": "a.py", "diff": ONE})
    patch = "@@ -1,5 +1,5 @@\n def one():\n-    return 1\n+    return 11\n \n \n def two():\n"
    assert prepared.claims == (Claim(Access.WRITE, path=ctx.files.resolve("a.py")),)
    assert (prepared.path, prepared.diff) == ("a.py", patch)
    assert prepared.row == {
        "tool": "appliedDiff",
        "path": "a.py",
        "diff": ONE,
        "content": patch,
        "isOutsideWorkspace": False,
        "isProtected": False,
        "diffStats": {"added": 1, "removed": 1},
    }
    assert (work / "a.py").read_text() == CODE


# What does not fit


@pytest.mark.contract("tool:apply_diff:success", "tool:apply_diff:success:in-part")
async def test_what_fits_is_written_and_the_rest_is_reported(ctx: ToolContext, work: Path) -> None:
    outcome = await apply(ctx, ONE + WRONG)
    assert (work / "a.py").read_text() == CODE.replace("1", "11")
    assert outcome.text.startswith(
        "Changed a.py: line 2.\n\n1 of 2 blocks could not be applied to a.py; the others were.\n"
        "<error_details>\nBlock 2: No match found at line 4"
    )
    assert outcome.is_error
    assert "Read the file again" not in outcome.text
    assert len(re.findall(r"^\d+ \|", outcome.text, re.MULTILINE)) == len(CODE.splitlines())


async def test_an_ambiguous_block_is_refused_with_the_lines_of_all_matches(
    ctx: ToolContext, work: Path
) -> None:
    code = "def a(v):\n    if v is None:\n        return 1\n\n\n"
    (work / "a.py").write_text(code + code.replace("a(", "b("))
    check = "    if v is None:\n        return 1"
    message = await problem(ctx, block(check, check.replace("1", "2")))
    assert "in the file twice, at lines 2, 7." in message
    assert (work / "a.py").read_text() == code + code.replace("a(", "b(")
    outcome = await apply(ctx, block(check, check.replace("1", "2"), 7))
    assert outcome.text == "Changed a.py: line 8."


@pytest.mark.contract("tool:apply_diff:failure:no-match", "tool:apply_diff:success:in-part")
async def test_if_nothing_fits_the_error_shows_the_nearest_text(
    ctx: ToolContext, work: Path
) -> None:
    message = await problem(ctx, WRONG)
    assert message.startswith("Unable to apply diff to file: a.py\n\n<error_details>\nNo match")
    assert "is 87% similar." in message
    assert "6 |     return 2" in message or "2 |     return 1" in message
    assert message.endswith("\n</error_details>")
    assert (work / "a.py").read_text() == CODE


async def test_every_failing_block_is_reported_up_to_a_point(ctx: ToolContext) -> None:
    blocks = (block(f"    return {number}", "    return 33", 4) for number in range(3, 10))
    message = await problem(ctx, "\n".join(blocks))
    assert message.count("No match found") == 5
    assert "2 more blocks failed" in message


@pytest.mark.contract("tool:apply_diff:failure:format")
async def test_a_malformed_diff_is_refused(ctx: ToolContext, work: Path) -> None:
    message = await problem(ctx, ONE + "<<<<<<< SEARCH\nx\n")
    assert "`=======` was still expected" in message
    assert (work / "a.py").read_text() == CODE


@pytest.mark.contract("tool:apply_diff:failure:outside")
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"password = 'hunter2'\n", "% similar"),
        (b"a\0b\n", "binary file"),
        (None, "File does not exist"),
    ],
)
async def test_why_a_file_outside_cannot_be_changed_is_said_only_after_it_is_allowed(
    ctx: ToolContext, tmp_path: Path, data: bytes | None, expected: str
) -> None:
    if data is not None:
        (tmp_path / "secret").write_bytes(data)
    diff = block("password = ''", "x")
    prepared = await prepare(ctx, {"path": "../secret", "diff": diff})
    assert prepared.claims == (Claim(Access.WRITE, path=ctx.files.resolve("../secret")),)
    assert (prepared.path, prepared.row["diff"]) == (str(tmp_path / "secret"), diff)
    assert prepared.row["isOutsideWorkspace"]
    with pytest.raises(ToolError, match=expected) as caught:
        await tool.run_prepared(prepared, ctx, None)
    assert "hunter2" not in str(caught.value)


async def test_a_file_outside_that_cannot_be_changed_is_asked_for_beside_others(
    ctx: ToolContext, work: Path
) -> None:
    args = element("a.py", diff_element(ONE)) + element("../none.py", diff_element(ONE))
    prepared = await prepare(ctx, {"args": args})
    places = [claim.path for claim in prepared.claims]
    assert places == [ctx.files.resolve("a.py"), ctx.files.resolve("../none.py")]
    outcome = await tool.run_prepared(prepared, ctx, None)
    assert (work / "a.py").read_text() == CODE.replace("1", "11")
    assert "File does not exist" in outcome.text
    assert outcome.is_error


async def test_a_file_outside_is_not_quoted_though_it_may_be_changed(
    ctx: ToolContext, tmp_path: Path
) -> None:
    (tmp_path / "other").write_text("one = 1\npassword = 'hunter2'\n")
    outcome = await apply(
        ctx, block("one = 1", "one = 2") + block("password = ''", "x"), "../other"
    )
    assert "1 of 2 blocks could not be applied" in outcome.text
    assert "hunter2" not in outcome.text


@pytest.mark.contract("tool:apply_diff:failure:no-file")
async def test_only_text_files_that_exist_can_be_changed(ctx: ToolContext) -> None:
    root = ctx.files.root
    (root / "binary").write_bytes(b"a\0b\n")
    (root / "folder").mkdir()
    (root / ".rooignore").write_text("secret\n")
    (root / "secret").write_text("return 1\n")
    message = await problem(ctx, ONE, "missing.py")
    assert message.startswith(
        f"File does not exist at path: {root / 'missing.py'}\n\n<error_details>"
    )
    assert "binary file" in await problem(ctx, ONE, "binary")
    assert "is a directory" in await problem(ctx, ONE, "folder")
    with pytest.raises(IgnoredPathError):
        await apply(ctx, ONE, "secret")


@pytest.mark.contract("tool:apply_diff:failure:changed-meanwhile")
async def test_a_file_that_changed_meanwhile_is_not_overwritten(
    ctx: ToolContext, work: Path
) -> None:
    prepared = await prepare(ctx, {"path": "a.py", "diff": ONE})
    (work / "a.py").write_text("somebody else's\n")
    with pytest.raises(ToolError, match="changed by the user or by a command"):
        await tool.run_prepared(prepared, ctx, None)
    assert (work / "a.py").read_text() == "somebody else's\n"


# Bytes


@pytest.mark.contract("tool:apply_diff:success:line-ends")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nb\r\nc\r\n", b"a\r\nB\r\nc\r\n"),
        (b"\xef\xbb\xbfa\nb\nc", b"\xef\xbb\xbfa\nB\nc"),
        (b"caf\xe9\nb\n\xff\xfe\n", b"caf\xe9\nB\n\xff\xfe\n"),
    ],
)
async def test_bytes_that_are_not_edited_stay_as_they_are(
    ctx: ToolContext, work: Path, before: bytes, after: bytes
) -> None:
    (work / "a.py").write_bytes(before)
    prepared = await prepare(ctx, {"path": "a.py", "diff": block("b", "B")})
    assert msgspec.json.encode(prepared.row)
    await tool.run_prepared(prepared, ctx, None)
    assert (work / "a.py").read_bytes() == after


async def test_a_failure_in_a_file_that_is_not_utf_8_can_be_reported(
    ctx: ToolContext, work: Path
) -> None:
    (work / "a.py").write_bytes(b"caf\xe9 one\n")
    assert "caf\ufffd one" in (await problem(ctx, block("cafe one", "x")))


@pytest.mark.parametrize(("model", "fits"), [("gpt-5", True), ("claude-opus-4", False)])
async def test_entities_are_undone_for_models_that_put_them_in(
    tmp_path: Path, model: str, fits: bool
) -> None:
    ctx = make_context(tmp_path, model=ModelInfo(id=model))
    (ctx.files.root / "a.html").write_text("<p>\n")
    diff = block("&lt;p&gt;", "&lt;b&gt;")
    if fits:
        await apply(ctx, diff, "a.html")
        assert (ctx.files.root / "a.html").read_text() == "<b>\n"
    else:
        await problem(ctx, diff, "a.html")


async def test_entities_that_are_in_the_file_are_kept(ctx: ToolContext, work: Path) -> None:
    (work / "a.py").write_text("x = '&lt;'\n")
    await apply(ctx, block("x = '&lt;'", "x = '&gt;'"))
    assert (work / "a.py").read_text() == "x = '&gt;'\n"


# Several files


def element(path: str, *diffs: str) -> str:
    return f"<file><path>{path}</path>{''.join(diffs)}</file>"


def diff_element(diff: str, line: int | None = None) -> str:
    start = f"<start_line>{line}</start_line>" if line else ""
    return f"<diff><content>\n{diff}</content>{start}</diff>"


@pytest.mark.contract("tool:apply_diff:approval")
async def test_several_files_are_changed_in_one_call(ctx: ToolContext, work: Path) -> None:
    (work / "b.py").write_text("same\n" * 5)
    args = (
        element("a.py", diff_element(ONE), diff_element(TWO))
        + element("b.py", diff_element(block("same", "other"), 4))
        + element("missing.py", diff_element(ONE))
    )
    prepared = await prepare(ctx, {"args": args})
    assert [claim.path.display_path for claim in prepared.claims if claim.path] == ["a.py", "b.py"]
    batch = prepared.row["batchDiffs"]
    assert [item["key"] for item in batch] == ["a.py (2 changes)", "b.py (1 change)"]
    assert prepared.path is None
    outcome = await tool.run_prepared(prepared, ctx, None)
    assert (work / "a.py").read_text() == CODE.replace("1", "11").replace("2", "22")
    assert (work / "b.py").read_text() == "same\nsame\nsame\nother\nsame\n"
    assert outcome.text.startswith("Changed a.py: lines 2, 6.\n\nChanged b.py: line 4.\n\n")
    assert "File does not exist" in outcome.text
    assert outcome.is_error


async def test_a_file_under_several_names_is_one_file(ctx: ToolContext, work: Path) -> None:
    (work / "link.py").symlink_to("a.py")
    edits = {"a.py": ONE, "./a.py": TWO, "link.py": block("def two():", "def zwei():")}
    files = [{"path": path, "diff": diff} for path, diff in edits.items()]
    prepared = await prepare(ctx, {"args": files})
    assert len(prepared.claims) == 1
    assert not (await tool.run_prepared(prepared, ctx, None)).is_error
    assert (work / "a.py").read_text() == CODE.replace("1", "11").replace("2", "22").replace(
        "two", "zwei"
    )


async def test_files_without_args_around_them_are_all_changed(ctx: ToolContext, work: Path) -> None:
    (work / "b.py").write_text("same\n")
    files = element("a.py", diff_element(ONE)) + element("b.py", diff_element(block("same", "b")))
    arguments = {"file": files.removeprefix("<file>").removesuffix("</file>")}
    await tool.run_prepared(await prepare(ctx, arguments), ctx, None)
    assert (work / "a.py").read_text() == CODE.replace("1", "11")
    assert (work / "b.py").read_text() == "b\n"


def test_a_diff_beside_args_is_not_lost() -> None:
    request = tool.parse({"path": "a", "diff": ONE, "args": element("b", diff_element(TWO))})
    assert [file.path for file in request.files] == ["a", "b"]


@pytest.mark.parametrize("is_wrapped", [True, False])
def test_files_may_be_a_list_and_lines_numbers(is_wrapped: bool) -> None:
    files = [{"path": "a", "diff": {"content": block("x", "y"), "start_line": 3}}]
    request = tool.parse({"args": {"file": files} if is_wrapped else files})
    expected = block("x", "y").replace("SEARCH\n", "SEARCH\n:start_line:3\n")
    assert request.files == (FileDiffRequest("a", expected),)


def test_a_path_may_have_the_name_that_other_tools_give_it() -> None:
    assert tool.parse({"file_path": "a", "diff": ONE}).files == (FileDiffRequest("a", ONE),)
    assert "file_path" in tool.xml_tags


def test_a_result_names_its_files() -> None:
    args = element("a.py", diff_element(ONE)) + element("b.py", diff_element(ONE))
    assert tool.describe_call({"args": args}) == "[apply_diff for 'a.py' and 1 more files]"
    assert tool.describe_call({"path": "a.py", "diff": ONE}) == "[apply_diff for 'a.py']"
    assert tool.describe_call({"path": "a.py"}) == "[apply_diff for 'a.py']"


@pytest.mark.contract("tool:apply_diff:failure:missing")
@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [
        ({}, "path"),
        ({"diff": ONE}, "path"),
        ({"path": "a.py"}, "diff"),
        ({"path": "a.py", "diff": ""}, "diff"),
        ({"args": "<file><path>a.py</path></file>"}, None),
        ({"args": "no elements"}, None),
    ],
)
def test_what_is_missing_is_named(arguments: dict[str, Any], parameter: str | None) -> None:
    with pytest.raises(ArgumentError) as caught:
        tool.parse(arguments)
    assert caught.value.parameter == parameter
