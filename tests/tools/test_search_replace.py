from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from joey.errors import ArgumentError
from joey.ports.tool_context import ToolContext
from joey.tools.base import Access, Claim
from joey.tools.search_replace import SearchReplace, SearchReplaceParams
from tests.harness.tools.editing import CODE, expect_error, is_offered, prepare, run_tool
from tests.harness.tools.tool_context import make_context
from tests.harness.tools.xml_calls import parsed

tool = SearchReplace()


@pytest.fixture
def ctx(tmp_path: Path) -> ToolContext:
    ctx = make_context(tmp_path)
    (ctx.files.root / "a.py").write_text(CODE)
    return ctx


@pytest.fixture
def work(ctx: ToolContext) -> Path:
    return ctx.files.root


def arguments(old: str, new: str) -> dict[str, Any]:
    return {"file_path": "a.py", "old_string": old, "new_string": new}


@pytest.mark.contract("tool:search_replace:schema:offered")
def test_it_is_offered_to_models_that_know_it_best_and_where_the_user_wants_it() -> None:
    assert is_offered(tool, model="search_replace")
    assert is_offered(tool, "search_replace")
    assert not is_offered(tool)
    assert not tool.spec.strict
    assert list(tool.spec.parameters["properties"]) == ["file_path", "old_string", "new_string"]


@pytest.mark.contract("tool:search_replace:native", "tool:search_replace:xml")
def test_a_call_is_understood_in_both_protocols() -> None:
    params = SearchReplaceParams("a.py", "  old\n", "  new")
    assert tool.parse(arguments("  old\n", "  new")) == params
    assert (
        parsed(
            "<search_replace><file_path>a.py</file_path><old_string>\n  old\n\n</old_string>"
            "<new_string>  new</new_string></search_replace>"
        )
        == params
    )


@pytest.mark.contract("tool:search_replace:failure:missing")
@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({}, "file_path"),
        ({"file_path": "", "old_string": "a", "new_string": "b"}, "file_path"),
        ({"file_path": "a", "old_string": "", "new_string": "b"}, "old_string"),
        ({"file_path": "a", "old_string": "b"}, "new_string"),
    ],
)
def test_what_is_missing_is_named(given: dict[str, Any], parameter: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        tool.parse(given)
    assert caught.value.parameter == parameter


def test_texts_that_are_identical_are_refused() -> None:
    with pytest.raises(ArgumentError, match="identical"):
        tool.parse(arguments("a", "a"))


@pytest.mark.contract("tool:search_replace:approval")
async def test_the_row_has_the_patch(ctx: ToolContext) -> None:
    prepared = await prepare(tool, ctx, arguments("1", "11"))
    assert prepared.claims == (Claim(Access.WRITE, path=ctx.files.resolve("a.py")),)
    assert prepared.row["tool"] == "appliedDiff"
    assert prepared.row["diff"] == prepared.row["content"] == prepared.diff
    assert prepared.diff is not None
    assert "-    return 1\n+    return 11\n" in prepared.diff


@pytest.mark.contract("tool:search_replace:success")
async def test_the_one_place_is_replaced_literally(ctx: ToolContext, work: Path) -> None:
    given = arguments("return 1", "return $1 $&") | {"file_path": str(work / "a.py")}
    outcome = await run_tool(tool, ctx, given)
    assert (work / "a.py").read_text() == CODE.replace("return 1", "return $1 $&")
    assert outcome.text == "Changed a.py: line 2."


@pytest.mark.contract("tool:search_replace:failure:no-match")
async def test_a_miss_tells_what_is_there(ctx: ToolContext) -> None:
    message = await expect_error(tool, ctx, arguments("def two():\n    return 3", "x"))
    assert message.startswith("No match found for old_string in a.py.")
    assert "94% alike" in message
    assert "6 |     return 2" in message


@pytest.mark.contract("tool:search_replace:failure:several-matches")
async def test_a_text_that_is_there_several_times_is_reported_with_its_lines(
    ctx: ToolContext,
) -> None:
    message = await expect_error(tool, ctx, arguments("return", "x"))
    assert message.startswith("Found 2 matches for old_string in a.py")
    assert "3-5 lines" in message
    assert "at lines 2, 6." in message
    assert "replace_all" not in message


@pytest.mark.contract("tool:search_replace:failure:no-file")
async def test_a_file_that_is_missing_is_reported(ctx: ToolContext) -> None:
    message = await expect_error(tool, ctx, arguments("1", "x") | {"file_path": "b.py"})
    assert message.startswith("File does not exist at path: ")
