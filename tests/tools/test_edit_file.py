from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from joey.errors import ArgumentError
from joey.ports.tool_context import ToolContext
from joey.tools.base import Access, Claim
from joey.tools.edit_file import EditFile, EditFileParams
from tests.harness.tools.editing import CODE, expect_error, is_offered, prepare, run_tool
from tests.harness.tools.tool_context import make_context
from tests.harness.tools.xml_calls import parsed

tool = EditFile()


@pytest.fixture
def ctx(tmp_path: Path) -> ToolContext:
    ctx = make_context(tmp_path)
    (ctx.files.root / "a.py").write_text(CODE)
    return ctx


@pytest.fixture
def work(ctx: ToolContext) -> Path:
    return ctx.files.root


def arguments(old: str | None, new: str | None, **more: Any) -> dict[str, Any]:
    return {"file_path": "a.py", "old_string": old, "new_string": new, **more}


@pytest.mark.contract("tool:edit_file:schema:offered")
def test_it_is_offered_to_models_that_know_it_best_and_where_the_user_wants_it() -> None:
    assert is_offered(tool, model="edit_file")
    assert is_offered(tool, "edit_file")
    assert not is_offered(tool)
    assert not tool.spec.strict
    count = tool.spec.parameters["properties"]["expected_replacements"]
    assert (count["type"], count["minimum"]) == (["integer", "null"], 1)


@pytest.mark.contract("tool:edit_file:native", "tool:edit_file:xml")
def test_a_call_is_understood_in_both_protocols() -> None:
    params = EditFileParams("a.py", "  old", "new\n", 2)
    assert tool.parse(arguments("  old", "new\n", expected_replacements="2")) == params
    assert (
        parsed(
            "<edit_file><file_path>a.py</file_path><old_string>  old</old_string>"
            "<new_string>\nnew\n\n</new_string><expected_replacements>2</expected_replacements>"
            "</edit_file>"
        )
        == params
    )


@pytest.mark.contract("tool:edit_file:native", "tool:edit_file:xml")
@pytest.mark.parametrize("given", [{"old_string": None}, {}, {"old_string": ""}])
def test_without_an_old_text_a_file_is_made(given: dict[str, Any]) -> None:
    params = tool.parse({"file_path": "a.py", "new_string": None, **given})
    assert params == EditFileParams("a.py", "", "")


@pytest.mark.contract("tool:edit_file:failure:missing")
@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({}, "file_path"),
        ({"file_path": "", "old_string": "a", "new_string": "b"}, "file_path"),
        ({"file_path": "a", "old_string": "b"}, "new_string"),
    ],
)
def test_what_is_missing_is_named(given: dict[str, Any], parameter: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        tool.parse(given)
    assert caught.value.parameter == parameter


def test_nothing_can_be_expected_less_than_once() -> None:
    with pytest.raises(ArgumentError, match="expected_replacements"):
        tool.parse(arguments("a", "b", expected_replacements=0))


@pytest.mark.contract("tool:edit_file:approval")
async def test_the_row_of_a_change_has_the_patch_twice(ctx: ToolContext) -> None:
    prepared = await prepare(tool, ctx, arguments("1", "11"))
    assert prepared.claims == (Claim(Access.WRITE, path=ctx.files.resolve("a.py")),)
    assert prepared.row["tool"] == "appliedDiff"
    assert prepared.row["diff"] == prepared.row["content"] == prepared.diff
    assert prepared.row["diffStats"] == {"added": 1, "removed": 1}


@pytest.mark.contract("tool:edit_file:approval")
async def test_the_row_of_a_new_file_says_so(ctx: ToolContext, work: Path) -> None:
    prepared = await prepare(tool, ctx, arguments("", "x\n") | {"file_path": "new/b.py"})
    assert prepared.row["tool"] == "newFileCreated"
    assert prepared.diff == "--- /dev/null\n+++ new/b.py\n@@ -0,0 +1,1 @@\n+x\n"
    assert not (work / "new").exists()


@pytest.mark.contract("tool:edit_file:success:creates")
async def test_a_file_is_made_as_it_is_given(ctx: ToolContext, work: Path) -> None:
    given = arguments("", "```\r\n1 | x\n") | {"file_path": "new/b.py"}
    outcome = await run_tool(tool, ctx, given)
    assert (work / "new" / "b.py").read_bytes() == b"```\r\n1 | x\n"
    assert outcome.text == "Created new/b.py: lines 1-2."


@pytest.mark.contract("tool:edit_file:success:creates")
async def test_a_file_that_exists_is_not_made_anew(ctx: ToolContext, work: Path) -> None:
    message = await expect_error(tool, ctx, arguments("", "x"))
    assert message.startswith(f"File already exists: {work / 'a.py'}\n\n<error_details>\n")
    assert "\nRecovery suggestions:\n1. " in message
    assert message.endswith("\n</error_details>")
    assert (work / "a.py").read_text() == CODE


@pytest.mark.contract("tool:edit_file:success")
async def test_a_text_is_replaced_as_often_as_expected(ctx: ToolContext, work: Path) -> None:
    outcome = await run_tool(tool, ctx, arguments("return", "$&", expected_replacements=2))
    assert (work / "a.py").read_text() == CODE.replace("return", "$&")
    assert outcome.text == "Changed a.py: lines 2, 6. 2 places were changed."
    once = await run_tool(tool, ctx, arguments("1", "11"))
    assert once.text == "Changed a.py: line 2."


@pytest.mark.contract("tool:edit_file:success:tolerance")
@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        ("if  a:\n\treturn\n", "if a:\n    return", "if b:\n\treturn", "if b:\n\treturn\n"),
        ("f(a,\n  b)\nc\n", "f(a, b)", "g()", "g()\nc\n"),
        ("a (b)\n\n\n    c\n", "a  (b)\n", "x\n", "x\n\n\n    c\n"),
        ("a  b\r\nc\r\n", "a b\nc", "x\ny", "x\r\ny\r\n"),
        ("f( a )\nf(  a )\nf( a)\n", "f( a )", "g", "g\nf(  a )\nf( a)\n"),
    ],
)
async def test_white_space_may_differ(
    ctx: ToolContext, work: Path, before: str, old: str, new: str, after: str
) -> None:
    (work / "a.py").write_bytes(before.encode())
    outcome = await run_tool(tool, ctx, arguments(old, new))
    assert (work / "a.py").read_bytes() == after.encode()
    assert ("with other white space" in outcome.text) is (old not in before)


async def test_a_match_on_one_line_is_preferred_to_one_on_several(
    ctx: ToolContext, work: Path
) -> None:
    (work / "a.py").write_text("a\nb\nc\na   b\n")
    await run_tool(tool, ctx, arguments("a b", "x"))
    assert (work / "a.py").read_text() == "a\nb\nc\nx\n"


@pytest.mark.contract("tool:edit_file:failure:no-match")
async def test_a_miss_tells_what_is_there(ctx: ToolContext, work: Path) -> None:
    message = await expect_error(tool, ctx, arguments("def two():\n    return 3", "x"))
    assert message.startswith(f"No match found in file: {work / 'a.py'}\n\n<error_details>\n")
    assert "lines 5-6, is 94% alike" in message
    assert "6 |     return 2" in message
    assert "\nRecovery suggestions:\n1. " in message


@pytest.mark.contract("tool:edit_file:failure:count")
@pytest.mark.parametrize(
    ("old", "expected", "found"), [("return", 1, 2), ("return", 3, 2), ("def  one():", 2, 1)]
)
async def test_another_number_of_places_is_reported_with_their_lines(
    ctx: ToolContext, work: Path, old: str, expected: int, found: int
) -> None:
    message = await expect_error(tool, ctx, arguments(old, "x", expected_replacements=expected))
    assert message.startswith(f"Occurrence count mismatch in file: {work / 'a.py'}\n")
    assert f"Expected {expected}, found {found}." in message
    assert ("at lines 2, 6." in message) is (found == 2)
    assert (work / "a.py").read_text() == CODE


@pytest.mark.contract("tool:edit_file:failure:no-file")
async def test_a_text_in_a_file_that_is_missing_is_reported(ctx: ToolContext) -> None:
    message = await expect_error(tool, ctx, arguments("1", "x") | {"file_path": "b.py"})
    assert message.startswith("File not found: ")
    assert "empty old_string" in message


@pytest.mark.contract("tool:edit_file:failure:identical")
async def test_texts_that_are_identical_are_refused(ctx: ToolContext) -> None:
    message = await expect_error(tool, ctx, arguments("return 1\r\n", "return 1\n"))
    assert message.startswith("Nothing to change in file: ")
