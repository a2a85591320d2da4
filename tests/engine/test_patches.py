"""A patch for several files, through a whole task: one question, one result."""

from __future__ import annotations

import msgspec
import pytest

from joey.core.models import ToolProtocol
from joey.core.settings import Settings
from joey.engine.asks import Unattended
from joey.testing.script import Say, Turn, call
from tests.engine.engine_harness import EngineHarness, asked, finish, results, rows, settled, texts

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
def patched(workshop: EngineHarness) -> EngineHarness:
    (workshop.root / "a.txt").write_text("one\n")
    (workshop.root / "b.txt").write_text("two\n")
    return workshop


def files(workshop: EngineHarness) -> dict[str, str]:
    return {path.name: path.read_text() for path in workshop.root.iterdir()}


@pytest.mark.requirement("tool:apply_patch:success:several")
async def test_one_answer_decides_about_all_files(patched: EngineHarness) -> None:
    turn = Turn(call("apply_patch", {"patch": PATCH}))
    task = await patched.start(turn, finish(), settings=Settings())
    await asked(task)
    (row,) = rows(task, "tool")
    listed = msgspec.json.decode(row.text or "")["batchDiffs"]
    assert [item["path"] for item in listed] == ["a.txt", "b.txt", "c.txt"]
    await task.approve()
    await asked(task)
    (result,) = results(task.messages[2])
    assert result.count('"operation"') == 2
    assert "Successfully deleted b.txt" in result
    assert files(patched) == {"a.txt": "1\n", "c.txt": "<patch>\n"}


async def test_a_patch_that_is_rejected_changes_nothing(patched: EngineHarness) -> None:
    turn = Turn(call("apply_patch", {"patch": PATCH}))
    task = await patched.start(turn, finish(), settings=Settings())
    await asked(task)
    await task.reject()
    await asked(task)
    assert files(patched) == {"a.txt": "one\n", "b.txt": "two\n"}


async def test_a_patch_in_xml_is_carried_out(patched: EngineHarness) -> None:
    text = f"<apply_patch>\n<patch>\n{PATCH}\n</patch>\n</apply_patch>"
    task = await patched.start(
        Turn(Say(text)), finish(), policy=Unattended(), protocol=ToolProtocol.XML
    )
    await settled(task)
    assert files(patched) == {"a.txt": "1\n", "c.txt": "<patch>\n"}
    said = "\n".join(texts(task.messages[2]))
    assert "[apply_patch] Result:" in said
    assert "Successfully deleted b.txt" in said
