"""A patch for several files, through a whole task: one question, one result."""

from __future__ import annotations

import msgspec
import pytest

from joey.core.messages import ToolResultBlock
from joey.core.models import ToolProtocol
from joey.core.settings import Settings
from joey.engine.asks import Unattended
from joey.testing.script import Say, Turn, call
from tests.harness.engine.engine_harness import (
    EngineHarness,
    find_rows,
    finish,
    list_texts,
    list_tool_results,
    wait_for_ask,
    wait_for_ending,
)

PATCH = """\
*** Begin Patch
*** Update File: a.txt
-one
+1
*** Delete File: b.txt
*** Add File: c.txt
+<patch>
*** End Patch"""


@pytest.fixture
def patched(engine_harness: EngineHarness) -> EngineHarness:
    (engine_harness.root / "a.txt").write_text("one\n")
    (engine_harness.root / "b.txt").write_text("two\n")
    return engine_harness


def files(engine_harness: EngineHarness) -> dict[str, str]:
    return {path.name: path.read_text() for path in engine_harness.root.iterdir()}


@pytest.mark.contract("tool:apply_patch:success:several")
async def test_one_answer_decides_about_all_files(patched: EngineHarness) -> None:
    turn = Turn(call("apply_patch", {"patch": PATCH}))
    task = await patched.start(turn, finish(), settings=Settings())
    await wait_for_ask(task)
    (row,) = find_rows(task, "tool")
    listed = msgspec.json.decode(row.text or "")["batchDiffs"]
    assert [item["path"] for item in listed] == ["a.txt", "b.txt", "c.txt"]
    await task.approve()
    await wait_for_ask(task)
    (result,) = list_tool_results(task.messages[2])
    assert [line.split()[0] for line in result.split("\n\n")] == [
        "Changed",
        "Created",
        "Successfully",
    ]
    assert files(patched) == {"a.txt": "1\n", "c.txt": "<patch>\n"}


async def test_a_patch_that_is_rejected_changes_nothing(patched: EngineHarness) -> None:
    turn = Turn(call("apply_patch", {"patch": PATCH}))
    task = await patched.start(turn, finish(), settings=Settings())
    await wait_for_ask(task)
    await task.reject()
    await wait_for_ask(task)
    assert files(patched) == {"a.txt": "one\n", "b.txt": "two\n"}


async def test_a_patch_in_xml_is_carried_out(patched: EngineHarness) -> None:
    text = f"<apply_patch>\n<patch>\n{PATCH}\n</patch>\n</apply_patch>"
    task = await patched.start(
        Turn(Say(text)), finish(), policy=Unattended(), protocol=ToolProtocol.XML
    )
    await wait_for_ending(task)
    assert files(patched) == {"a.txt": "1\n", "c.txt": "<patch>\n"}
    said = "\n".join(list_texts(task.messages[2]))
    assert "[apply_patch] Result:" in said
    assert "Successfully deleted b.txt" in said


async def test_an_edit_of_which_a_part_failed_is_an_error_that_says_what_was_done(
    patched: EngineHarness,
) -> None:
    blocks = "".join(
        f"<<<<<<< SEARCH\n{text}\n=======\nnew\n>>>>>>> REPLACE\n" for text in ("one", "three")
    )
    task = await patched.start(
        Turn(call("apply_diff", {"path": "a.txt", "diff": blocks})), finish(), policy=Unattended()
    )
    await wait_for_ending(task)
    assert files(patched)["a.txt"] == "new\n"
    (result,) = (block for block in task.messages[2].content if isinstance(block, ToolResultBlock))
    assert result.is_error
    assert list_tool_results(task.messages[2])[0].startswith(
        "Changed a.txt: line 1.\n\n1 of 2 blocks could not be applied to a.txt; the others were.\n"
    )
