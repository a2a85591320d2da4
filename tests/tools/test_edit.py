from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from joey.core.edits import text_replace
from joey.core.models import ModelInfo
from joey.errors import ArgumentError, IgnoredPathError, ToolError
from joey.ports.tool_context import ToolContext
from joey.tools import edit
from joey.tools.base import Access, Claim
from joey.tools.edit import (
    BatchReplacement,
    Edit,
    PatternReplacement,
    ReplaceOperation,
    StringReplacement,
    find_pattern,
)
from tests.harness.tools.editing import CODE, expect_error, is_offered, prepare, run_tool
from tests.harness.tools.tool_context import make_context
from tests.harness.tools.xml_calls import only_call, parsed

tool = Edit()


@pytest.fixture
def ctx(tmp_path: Path) -> ToolContext:
    ctx = make_context(tmp_path)
    (ctx.files.root / "a.py").write_text(CODE)
    return ctx


@pytest.fixture
def work(ctx: ToolContext) -> Path:
    return ctx.files.root


def arguments(old: str, new: str, **more: Any) -> dict[str, Any]:
    return {"file_path": "a.py", "old_string": old, "new_string": new, **more}


def older(*operations: tuple[str, str]) -> dict[str, Any]:
    listed = [{"search": search, "replace": replace} for search, replace in operations]
    return {"path": "a.py", "operations": listed}


# The call


@pytest.mark.contract("tool:edit:schema:offered")
def test_it_is_offered_to_models_that_know_it_best_and_where_the_user_wants_it() -> None:
    assert is_offered(tool, model="edit")
    assert is_offered(tool, "edit")
    assert not is_offered(tool)
    assert not is_offered(tool, "apply_diff", model="edit")
    assert not tool.spec.strict
    assert list(tool.spec.parameters["properties"]) == [
        *("file_path", "old_string", "new_string", "replace_all")
    ]


@pytest.mark.contract("tool:edit:native", "tool:edit:xml")
@pytest.mark.parametrize("replace_all", [True, "true"])
def test_a_native_call_is_understood(replace_all: object) -> None:
    request = tool.parse(arguments("a", "b", replace_all=replace_all))
    assert request.replacement == StringReplacement("a.py", "a", "b", replace_all=True)
    assert tool.parse({"path": "a.py", "old_string": " ", "new_string": ""}).path == "a.py"


@pytest.mark.contract("tool:edit:native", "tool:edit:xml")
def test_a_call_in_xml_keeps_its_indentation() -> None:
    request = parsed(
        "<edit>\n<file_path>a.py</file_path>\n<old_string>\n    return 1\n</old_string>\n"
        "<new_string>\n    return <path>x</path>\n\n</new_string>\n"
        "<replace_all>true</replace_all>\n</edit>"
    )
    assert request.replacement == StringReplacement(
        "a.py", "    return 1", "    return <path>x</path>\n", replace_all=True
    )


@pytest.mark.contract("tool:edit:native:older-forms")
def test_the_older_forms_are_understood() -> None:
    operations = '[{"search": "a", "replace": ""}, {"search": "b", "replace": "c"}]'
    several = BatchReplacement("a.py", (ReplaceOperation("a", ""), ReplaceOperation("b", "c")))
    assert tool.parse({"path": "a.py", "operations": operations}).replacement == several
    assert (
        parsed(
            f"<search_and_replace><path>a.py</path><operations>{operations}</operations>"
            "</search_and_replace>"
        ).replacement
        == several
    )
    assert parsed(
        "<search_and_replace>\n<path>a.py</path>\n<search>a.c</search>\n<replace>x</replace>\n"
        "<start_line>2</start_line>\n<end_line>4</end_line>\n<use_regex>true</use_regex>\n"
        "<ignore_case>false</ignore_case>\n</search_and_replace>"
    ).replacement == PatternReplacement("a.py", "a.c", "x", 2, 4, use_regex=True)


def test_a_result_names_the_file() -> None:
    call = only_call("<edit><file_path>a.py</file_path><old_string>a</old_string></edit>")
    assert tool.describe_call(call.input) == "[edit for 'a.py']"


@pytest.mark.contract("tool:edit:failure:missing")
@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({}, "file_path"),
        ({"file_path": " ", "old_string": "a", "new_string": "b"}, "file_path"),
        ({"file_path": "a", "new_string": "b"}, "old_string"),
        ({"file_path": "a", "old_string": "", "new_string": "b"}, "old_string"),
        ({"file_path": "a", "old_string": "b", "new_string": None}, "new_string"),
        ({"path": "a", "operations": []}, "operations"),
        ({"operations": [{"search": "a", "replace": "b"}]}, "path"),
        ({"path": "a", "search": ""}, "replace"),
        ({"path": "a", "search": "", "replace": "b"}, "search"),
    ],
)
def test_what_is_missing_is_named(given: dict[str, Any], parameter: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        tool.parse(given)
    assert caught.value.parameter == parameter


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([{"search": "a", "replace": "b"}, {"search": "a"}], "Operation 2 .* 'replace'"),
        ([{"replace": "a"}], "Operation 1 .* 'search'"),
        ([{"search": "", "replace": "a"}], "Operation 1 .* empty"),
        ("nothing", "'operations'"),
    ],
)
def test_an_operation_that_is_not_whole_is_named(operations: object, expected: str) -> None:
    with pytest.raises(ArgumentError, match=expected):
        tool.parse({"path": "a", "operations": operations})


@pytest.mark.contract("tool:edit:failure:identical")
def test_texts_that_are_identical_are_refused() -> None:
    for old, new in (("a", "a"), ("a\r\n", "a\n")):
        with pytest.raises(ArgumentError, match="identical"):
            tool.parse(arguments(old, new))


# What it does


@pytest.mark.contract("tool:edit:approval")
async def test_the_row_has_the_patch(ctx: ToolContext, work: Path) -> None:
    prepared = await prepare(tool, ctx, arguments("return 1", "return 11"))
    patch = "@@ -1,5 +1,5 @@\n def one():\n-    return 1\n+    return 11\n \n \n def two():\n"
    assert prepared.claims == (Claim(Access.WRITE, path=ctx.files.resolve("a.py")),)
    assert (prepared.path, prepared.diff) == ("a.py", patch)
    assert prepared.row == {
        "tool": "appliedDiff",
        "path": "a.py",
        "diff": patch,
        "content": patch,
        "isOutsideWorkspace": False,
        "isProtected": False,
        "diffStats": {"added": 1, "removed": 1},
    }
    assert (work / "a.py").read_text() == CODE


@pytest.mark.contract("tool:edit:success")
@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("return 1", "return $1 $& \\1 $$", "line 2"),
        ("def one():\n    return 1\n", "", "2 lines removed at the start"),
        ("\n\n\n", "\n", "2 lines removed after line 2"),
        ("1", "11", "line 2"),
    ],
)
async def test_a_text_is_replaced_literally(
    ctx: ToolContext, work: Path, old: str, new: str, lines: str
) -> None:
    outcome = await run_tool(tool, ctx, arguments(old, new))
    assert (work / "a.py").read_text() == CODE.replace(old, new)
    assert outcome.text == f"Changed a.py: {lines}."


@pytest.mark.contract("tool:edit:success")
async def test_all_of_them_are_replaced_if_that_is_wanted(ctx: ToolContext, work: Path) -> None:
    outcome = await run_tool(tool, ctx, arguments("return", "yield", replace_all=True))
    assert (work / "a.py").read_text() == CODE.replace("return", "yield")
    assert "2 places were changed." in outcome.text


async def test_a_file_named_by_its_whole_path_is_shown_as_the_workspace_sees_it(
    ctx: ToolContext, work: Path
) -> None:
    given = arguments("1", "11") | {"file_path": str(work / "a.py")}
    assert (await run_tool(tool, ctx, given)).text == "Changed a.py: line 2."


@pytest.mark.parametrize(
    ("old", "new", "model", "expected"),
    [
        ("2 |     return 1", "2 |     return 11", "claude", "without the line number"),
        ("2 |     return 1\n", "", "claude", "without the line number"),
        ("&lt;two&gt;", "&lt;drei&gt;", "gpt", "without the escaping"),
    ],
)
async def test_what_models_put_in_by_habit_is_taken_off(
    tmp_path: Path, old: str, new: str, model: str, expected: str
) -> None:
    ctx = make_context(tmp_path, model=ModelInfo(id=model))
    (ctx.files.root / "a.py").write_text(CODE + "<two>\n")
    outcome = await run_tool(tool, ctx, arguments(old, new))
    text = (ctx.files.root / "a.py").read_text()
    assert expected in outcome.text
    assert "|" not in text
    assert "&" not in text


# What does not fit


@pytest.mark.contract("tool:edit:failure:no-match")
@pytest.mark.parametrize(
    ("old", "expected"),
    [
        ("def  two():\n  return 2", "The same words with other white space are at line 5."),
        ("def two():\n    return 3", "The most similar text, lines 5-6, is 94% alike."),
        ("retur 2", "alike"),
    ],
)
async def test_a_miss_tells_what_is_there(
    ctx: ToolContext, work: Path, old: str, expected: str
) -> None:
    message = await expect_error(tool, ctx, arguments(old, "x"))
    assert message.startswith("No match found for old_string in a.py.")
    assert expected in message
    assert "6 |     return 2" in message or "2 |     return 1" in message
    assert (work / "a.py").read_text() == CODE


@pytest.mark.contract("tool:edit:failure:several-matches")
async def test_a_text_that_is_there_several_times_is_reported_with_its_lines(
    ctx: ToolContext, work: Path
) -> None:
    message = await expect_error(tool, ctx, arguments("return", "yield"))
    assert message.startswith("Found 2 matches for old_string in a.py")
    assert "at lines 2, 6." in message
    assert "replace_all" in message
    assert (work / "a.py").read_text() == CODE


@pytest.mark.contract("tool:edit:failure:no-file")
async def test_only_text_files_that_exist_can_be_changed(ctx: ToolContext, work: Path) -> None:
    (work / "binary").write_bytes(b"a\0b\n")
    (work / "folder").mkdir()
    (work / ".rooignore").write_text("secret\n")
    (work / "secret").write_text("1\n")
    for name, expected in (
        ("missing.py", "File does not exist at path"),
        ("binary", "binary file"),
        ("folder", "is a directory"),
    ):
        assert expected in await expect_error(tool, ctx, arguments("1", "2") | {"file_path": name})
    with pytest.raises(IgnoredPathError):
        await run_tool(tool, ctx, arguments("1", "2") | {"file_path": "secret"})


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"password = 'hunter2'\n", "alike"),
        (b"password = 'hunter2'\npassword = ''\npassword = ''\n", "2 matches"),
        (b"a\0b\n", "binary file"),
        (None, "File does not exist"),
    ],
)
async def test_why_a_file_outside_cannot_be_changed_is_said_only_after_it_is_allowed(
    ctx: ToolContext, tmp_path: Path, data: bytes | None, expected: str
) -> None:
    if data is not None:
        (tmp_path / "other").write_bytes(data)
    given = arguments("password = ''", "x") | {"file_path": "../other"}
    prepared = await prepare(tool, ctx, given)
    assert prepared.claims == (Claim(Access.WRITE, path=ctx.files.resolve("../other")),)
    assert prepared.row["isOutsideWorkspace"]
    assert prepared.diff == ""
    with pytest.raises(ToolError, match=expected) as caught:
        await tool.run_prepared(prepared, ctx, None)  # type: ignore[arg-type]
    assert "hunter2" not in str(caught.value)


async def test_a_file_outside_is_changed_once_it_is_allowed(
    ctx: ToolContext, tmp_path: Path
) -> None:
    (tmp_path / "other").write_text("a\n")
    outcome = await run_tool(tool, ctx, arguments("a", "b") | {"file_path": "../other"})
    assert (tmp_path / "other").read_text() == "b\n"
    assert outcome.text == "Changed ../other: line 1."


async def test_a_miss_in_a_file_that_is_not_utf_8_can_be_reported(
    ctx: ToolContext, work: Path
) -> None:
    (work / "a.py").write_bytes(b"caf\xe9 one\n")
    message = await expect_error(tool, ctx, arguments("cafe one\ud800", "x"))
    assert "caf\ufffd one" in message
    assert message.encode()


# The older forms


@pytest.mark.contract("tool:edit:native:older-forms")
async def test_operations_are_done_one_after_the_other(ctx: ToolContext, work: Path) -> None:
    await run_tool(tool, ctx, older(("1", "one"), ("return one", "return uno")))
    assert (work / "a.py").read_text() == CODE.replace("return 1", "return uno")


@pytest.mark.contract("tool:edit:native:older-forms")
async def test_operations_that_fail_are_reported_and_the_others_done(
    ctx: ToolContext, work: Path
) -> None:
    outcome = await run_tool(tool, ctx, older(("1", "11"), ("nowhere", "x"), ("return", "x")))
    assert (work / "a.py").read_text() == CODE.replace("1", "11")
    assert outcome.text.startswith("Changed a.py: line 2.\n\nOperation 2: No match found")
    assert "\n\nOperation 3: Found 2 matches" in outcome.text
    assert outcome.is_error


async def test_if_all_operations_fail_nothing_is_written(ctx: ToolContext, work: Path) -> None:
    message = await expect_error(tool, ctx, older(("nowhere", "x"), ("return", "x")))
    assert message.startswith("Operation 1: No match")
    assert "\nOperation 2: Found 2 matches" in message
    assert (work / "a.py").read_text() == CODE


async def test_of_many_operations_that_fail_only_the_first_are_explained(ctx: ToolContext) -> None:
    message = await expect_error(tool, ctx, older(*[(f"retrun {n}", "x") for n in range(9)]))
    assert message.count("What is there:") == 5
    assert "\nOperation 9: No match found for search in a.py." in message


async def test_operations_that_change_nothing_ask_nobody(ctx: ToolContext) -> None:
    prepared = await prepare(tool, ctx, older(("1", "3"), ("3", "1")))
    assert prepared.claims == (Claim(Access.NONE),)
    outcome = await tool.run_prepared(prepared, ctx, None)  # type: ignore[arg-type]
    assert outcome.text == "No changes needed for 'a.py'"
    assert not outcome.is_error


@pytest.mark.contract("tool:edit:native:older-forms")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"search": "return", "replace": "$&"}, CODE.replace("return", "$&")),
        (
            {"search": "return", "replace": "yield", "start_line": "3"},
            CODE.replace("return 2", "yield 2"),
        ),
        (
            {"search": "RETURN", "replace": "yield", "ignore_case": "true", "end_line": "2"},
            CODE.replace("return 1", "yield 1"),
        ),
        (
            {"search": r"^\s+return (\d)$", "replace": r"    pass $1\1", "use_regex": True},
            CODE.replace("return 1", "pass $1\\1").replace("return 2", "pass $1\\1"),
        ),
    ],
)
async def test_a_text_or_an_expression_is_replaced_everywhere(
    ctx: ToolContext, work: Path, given: dict[str, Any], expected: str
) -> None:
    for data in (CODE, CODE.replace("\n", "\r\n")):
        (work / "a.py").write_bytes(data.encode())
        await run_tool(tool, ctx, {"path": "a.py", **given})
        text = (work / "a.py").read_bytes().decode()
        assert text.replace("\r\n", "\n") == expected
        assert text.count("\r") == data.count("\r")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"search": "return", "replace": "x", "end_line": 1}, "lines 1-1 of a.py. It is there"),
        ({"search": "retrun 1", "replace": "x"}, "alike"),
        ({"search": "x+", "replace": "x", "use_regex": True}, "No match found for search in a.py"),
        ({"search": "(", "replace": "x", "use_regex": True}, "not a regular expression"),
    ],
)
async def test_an_expression_that_is_nowhere_is_reported(
    ctx: ToolContext, given: dict[str, Any], expected: str
) -> None:
    assert expected in await expect_error(tool, ctx, {"path": "a.py", **given})


@pytest.mark.parametrize("pattern", ["x*", "."])
async def test_an_expression_that_matches_everywhere_is_refused(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (edit, text_replace):
        monkeypatch.setattr(module, "MAX_MATCHES", 1000)
    with pytest.raises(ToolError, match="more than 1000 times"):
        await find_pattern("y" * 1001, pattern, is_regex=True, ignore_case=False)


async def test_an_expression_that_never_ends_is_stopped() -> None:
    with pytest.raises(ToolError, match="took longer than"):
        await find_pattern("a" * 40, "(a+)+b", is_regex=True, ignore_case=False, seconds=0.5)
