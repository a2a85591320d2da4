"""A task in which much has happened, and what must hold wherever one goes back to in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from joey.core.history.api import ApiHistory
from joey.core.history.branch import find_live_branch
from joey.core.history.state import TaskProjection
from joey.core.history.ui import Row, UiHistory, get_ts
from joey.core.messages import (
    Message,
    RedactedThinkingBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from joey.core.models import ToolProtocol
from joey.core.settings import Settings
from joey.core.task_types import Answer, AskKind, Response
from joey.engine.asks import Unattended
from joey.engine.engine import Engine, StoredTaskState, TaskOptions
from joey.engine.outcomes import Completed
from joey.engine.runtime import TaskRuntime
from joey.engine.task import Task
from joey.ports.storage import Store
from joey.ports.tool_context import Capabilities
from joey.storage.task_store import JsonFileStore
from joey.testing.script import Call, Turn, call, say, think, usage
from joey.workspace.checkpoints.pool import CheckpointStorePool
from tests.harness.engine.engine_harness import (
    TIMEOUT_S,
    EngineHarness,
    finish,
    wait_for_ending,
)

TODOS = "[x] look\n[ ] write"
ASK_BEFORE_EDITS = Settings(always_allow_read_only=True, always_allow_mode_switch=True)


class RewindHarness(EngineHarness):
    """A workshop whose files are kept in checkpoints."""

    def __init__(self, tmp_path: Path) -> None:
        self._stores = CheckpointStorePool(tmp_path / "home")
        super().__init__(tmp_path)

    def new_engine(self, store: Store | None = None) -> Engine:
        engine = super().new_engine(store)
        make_runtime = engine._build_runtime

        def with_checkpoints(options: TaskOptions, stored: StoredTaskState) -> TaskRuntime:
            self.capabilities = Capabilities(checkpoints=self._stores.lease(self.root))
            return make_runtime(options, stored)

        engine._build_runtime = with_checkpoints
        return engine

    @property
    def store(self) -> JsonFileStore:
        return JsonFileStore(self.home)

    def use_current_provider(self, task: Task) -> None:
        """The task goes on with the model of the latest script."""
        task.runtime = structs.replace(task.runtime, provider=self.provider)

    def find_journal(self, task: Task) -> Path:
        return self.home / "tasks" / f"task_{task.id}" / "journal.jsonl"


def build_turns(protocol: ToolProtocol) -> list[Turn]:
    """Reads, writes, a command, a list, another mode, a question, a mistake, two results."""

    def turn(text: str, *calls: Call, thought: str | None = None) -> Turn:
        thinking = [] if thought is None else [think(thought, signature="s")]
        tokens = usage(input=100, output=10)
        if protocol is ToolProtocol.NATIVE:
            return Turn(*thinking, say(text), *calls, tokens)
        written = "\n".join([text, *map(_render_xml_call, calls)])
        return Turn(*thinking, say(written), tokens)

    return [
        turn(
            "I look at a.txt with read_file.",
            call("read_file", {"path": "a.txt"}),
            call("list_files", {"path": "."}),
            call("write_to_file", {"path": "b.txt", "content": "one\n"}),
            thought="Where is it?",
        ),
        turn("A list.", call("update_todo_list", {"todos": TODOS})),
        turn("Run it.", call("execute_command", {"command": "echo hi && echo x > c.txt"})),
        turn("Hm.", thought="No tool needed."),
        turn(
            "Which?", call("ask_followup_question", {"question": "Red?", "follow_up": _SUGGESTIONS})
        ),
        turn("Not there.", call("read_file", {"path": "missing.txt"})),
        turn("Other mode.", call("switch_mode", {"mode_slug": "architect", "reason": "plan"})),
        turn("Done?", call("attempt_completion", {"result": "first"})),
        turn("Back.", call("switch_mode", {"mode_slug": "code", "reason": "work"})),
        turn("Again.", call("write_to_file", {"path": "b.txt", "content": "two\n"})),
        turn("Done.", call("attempt_completion", {"result": "second"})),
    ]


_SUGGESTIONS = [{"text": "yes"}, {"text": "no"}]


def _render_xml_call(tool_call: Call) -> str:
    assert isinstance(tool_call.input, dict)
    fields = {**tool_call.input}
    if "follow_up" in fields:
        fields["follow_up"] = "<suggest>yes</suggest><suggest>no</suggest>"
    inner = "".join(f"<{name}>{value}</{name}>" for name, value in fields.items())
    return f"<{tool_call.name}>{inner}</{tool_call.name}>"


async def answer_until_idle(task: Task, answer: Callable[[AskKind, int], Answer | None]) -> None:
    """Answer until the task rests; None stops it."""
    number = 0
    async with asyncio.timeout(TIMEOUT_S):
        while task.is_running:
            with task.subscribe() as subscription:
                while task.pending is None and task.is_running:
                    nothing = asyncio.ensure_future(anext(subscription))
                    ended = asyncio.ensure_future(task.wait())
                    await asyncio.wait({nothing, ended}, return_when=asyncio.FIRST_COMPLETED)
                    nothing.cancel()
                    ended.cancel()
            if (ask := task.pending) is None:
                continue
            number += 1
            said = answer(ask.ask, number)
            if said is None:
                await task.cancel()
                return
            await task.answer(ask.ts, said)


def answer_with_feedback(ask: AskKind, number: int) -> Answer:
    """Yes; the first write with advice, the first result with an objection."""
    yes = Answer(Response.YES)
    match ask:
        case AskKind.TOOL if number == 1:
            return Answer(Response.YES, text="but use tabs")
        case AskKind.FOLLOWUP:
            return Answer(Response.MESSAGE, text="blue")
        case AskKind.COMPLETION_RESULT if number < 6:
            return Answer(Response.MESSAGE, text="not yet")
        case _:
            return yes


async def run_eventful_task(harness: RewindHarness, protocol: ToolProtocol) -> Task:
    (harness.root / "a.txt").write_text("alpha\n")
    task = await harness.start(
        *build_turns(protocol), text="do much", settings=ASK_BEFORE_EDITS, protocol=protocol
    )
    await answer_until_idle(task, answer_with_feedback)
    assert task.ending == Completed("second")
    return task


def dump_messages(task: Task) -> Any:
    """The API history, to be compared."""
    return msgspec.to_builtins(task.messages)


def list_row_timestamps(task: Task) -> list[int]:
    return [get_ts(row) for row in task.rows]


def check_histories(task: Task) -> None:
    """What is in memory is what the path gives, both histories are whole, all calls are paired."""
    ui, api, facts = UiHistory(), ApiHistory(), TaskProjection()
    for record in task.bus.list_records_after(0):
        facts.ledger.apply(record.event)
    for record in find_live_branch(task.bus.list_records_after(0)):
        facts.apply_branch_event(record.event)
        api.tool_protocol = facts.tool_protocol
        api.apply(record.event)
        ui.apply(record.event)
    assert list(task.rows) == list(ui.rows)
    assert dump_messages(task) == msgspec.to_builtins(api.list_stored_messages())
    mine = task.recorder.projection
    for name in (
        "todos",
        "mode",
        "state",
        "spawned_subtasks",
        "unsent_feedback",
        "is_result_accepted",
        "usage",
        "queued_messages",
    ):
        assert getattr(mine, name) == getattr(facts, name), name
    check_messages(list(task.messages))


def check_messages(messages: list[Message]) -> None:
    open_calls: list[str] = []
    for before, after in zip([None, *messages], messages, strict=False):
        assert before is None or before.role != after.role
        content = after.content
        assert content
        if isinstance(content, str):
            continue
        given = [block.tool_use_id for block in content if isinstance(block, ToolResultBlock)]
        assert given == open_calls
        open_calls = [block.id for block in content if isinstance(block, ToolUseBlock)]
        assert not isinstance(content[-1], ThinkingBlock | RedactedThinkingBlock)


@pytest.fixture
async def rewind_harness(tmp_path: Path) -> AsyncIterator[RewindHarness]:
    harness = RewindHarness(tmp_path)
    yield harness
    await harness.engine.close()


def row_of(task: Task, say: str, number: int = 0) -> int:
    found = [row for row in task.rows if isinstance(row, Row) and say in (row.say, row.ask)]
    return found[number].ts


def write(path: str, content: str) -> Turn:
    return Turn(call("write_to_file", {"path": path, "content": content}))


def files(rewind_harness: RewindHarness) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(rewind_harness.root.iterdir())}


async def written(rewind_harness: RewindHarness) -> Task:
    """`a` is written, then `a` and `b`."""
    (rewind_harness.root / "own.txt").write_text("mine\n")
    task = await rewind_harness.start(
        write("a", "1\n"), write("a", "2\n"), write("b", "3\n"), finish(), policy=Unattended()
    )
    await wait_for_ending(task)
    assert files(rewind_harness) == {"a": "2\n", "b": "3\n", "own.txt": "mine\n"}
    return task


def tools(task: Task) -> list[int]:
    return [row.ts for row in task.rows if isinstance(row, Row) and row.tool == "write_to_file"]


def cut(journal: Path, count: int) -> None:
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:-count]))
