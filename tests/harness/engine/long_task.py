"""A task of thousands of random steps, and the checks after each of them."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec import structs

from joey.core.events import AskOpened
from joey.core.history.branch import find_live_branch
from joey.core.history.ui import get_ts
from joey.core.history.visible import build_request_messages
from joey.core.messages import TextChunk
from joey.core.models import ModelInfo, ModelRequest, ToolProtocol
from joey.core.settings import Settings
from joey.core.task_types import Answer, AskKind, Response
from joey.engine.engine import TaskOptions
from joey.engine.outcomes import Failed
from joey.engine.recorder import Recorder
from joey.engine.task import Task
from joey.errors import UserError
from joey.storage.task_store import JsonFileStore
from joey.testing.script import Call, Gate, Step, Turn, call, redacted, say, think
from joey.testing.scripted_provider import ScriptedProvider, ScriptedTurn
from tests.harness.engine.engine_harness import EngineHarness, done
from tests.service_rules import check_messages, check_request

STEPS = int(os.environ.get("JOEY_LONG_STEPS", "300"))
"""All in all, a third of them in each protocol, and after Roo."""


STEPS_AT_ONCE = 50


SEED = int(os.environ.get("JOEY_LONG_SEED", "1"))
"""The same walk each time; `make soak` takes others."""


TIMEOUT_S = 60


WIDE, NARROW = 200_000, 9_000


ASKING = Settings(
    always_allow_write=False, always_allow_mode_switch=True, always_allow_subtasks=True
)


IMAGE_URI = "data:image/png;base64,iVBORw0KGgo="


T = TypeVar("T")


CALLS = st.sampled_from(
    [
        call("read_file", {"files": [{"path": "a.txt"}]}),
        call("list_files", {"path": ".", "recursive": False}),
        call("search_files", {"path": ".", "regex": "word", "file_pattern": "*.txt"}),
        call("write_to_file", {"path": "b.txt", "content": "words\n"}),
        call("update_todo_list", {"todos": "[x] one\n[-] two\n[ ] three"}),
        call("update_todo_list", {"todos": "[ ] another"}),
        call("switch_mode", {"mode_slug": "ask", "reason": "to look"}),
        call("switch_mode", {"mode_slug": "code", "reason": "to work"}),
        call("new_task", {"mode": "code", "message": "a part of it"}),
        call("no_such_tool", {"a": 1}),
        call("read_file", "{broken"),
    ]
)


THOUGHTS = [think("Where is it?", signature="s"), redacted("hidden")]


class AnyAnswer(ScriptedProvider):
    """Answers with what was planned for it, and takes no request that a service would refuse."""

    def __init__(self) -> None:
        super().__init__([], ModelInfo(id="scripted", context_window=WIDE, max_output_tokens=1000))
        self.planned: list[ScriptedTurn] = []

    def set_window(self, tokens: int) -> None:
        self.model = structs.replace(self.model, context_window=tokens)

    def _take_next_turn(self, request: ModelRequest) -> ScriptedTurn:
        check_request(request)
        if not request.tools and "attempt_completion" not in request.system_prompt:
            return Turn(say(f"Summary {len(self.requests)}: words were said."))
        return self.planned.pop(0) if self.planned else Turn(done(f"result {len(self.requests)}"))


class Forever(asyncio.Event):
    """Is never set; says when somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()

    async def wait(self) -> Literal[True]:
        self.reached.set()
        return await super().wait()


class ScriptedUser:
    """Says yes to results, and what it was told to say to calls."""

    name = "person"
    yes = True

    def answer(self, ask: AskOpened) -> Answer | None:
        calls = ask.ask in (AskKind.TOOL, AskKind.COMMAND)
        return Answer(Response.YES if self.yes or not calls else Response.NO)


class TaskSnapshot(msgspec.Struct, frozen=True):
    """All that a rewind must bring back."""

    rows: list[Any]
    messages: list[Any]
    request_messages: list[Any]
    todos: list[Any]
    mode: str

    @classmethod
    def take(cls, task: Task) -> TaskSnapshot:
        recorder = task.recorder
        plain = msgspec.to_builtins
        return cls(
            rows=plain(list(task.rows)),
            messages=plain(list(recorder.api_history.list_stored_messages())),
            request_messages=plain(recorder.api_history.build_current_messages()),
            todos=plain(list(recorder.projection.todos)),
            mode=recorder.projection.mode,
        )

    @property
    def without_times(self) -> TaskSnapshot:
        """Without the times of messages: what a fork takes over from Roo begins with it."""
        messages, shown = (
            [{**message, "ts": None} for message in some]
            for some in (self.messages, self.request_messages)
        )
        return structs.replace(self, messages=messages, request_messages=shown)

    @property
    def last_row_ts(self) -> int:
        return max(int(row["ts"]) for row in self.rows)


def check_same(found: TaskSnapshot, wanted: TaskSnapshot) -> None:
    for name in TaskSnapshot.__struct_fields__:
        assert getattr(found, name) == getattr(wanted, name), name


class LongTask(RuleBasedStateMachine):
    protocol = ToolProtocol.NATIVE
    steps = 0

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="joey-long-"))
        self.loop = asyncio.new_event_loop()
        self.harness = EngineHarness(self.directory)
        (self.harness.root / "a.txt").write_text("a word\n" * 50)
        self.model = AnyAnswer()
        self.policy = ScriptedUser()
        self.harness.provider = self.model
        self.snapshots: dict[int, TaskSnapshot] = {}
        """By the row that was the last one when the task rested."""
        self.undoable: list[TaskSnapshot] = []
        self.journals: dict[str, bytes] = {}
        self.homes = 0
        self.message_count = 0
        self.undelivered: list[str] = []
        """Words that were acknowledged, and that the model has yet to hear."""

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(work, TIMEOUT_S))

    @initialize()
    def begin(self) -> None:
        options = TaskOptions(
            workspace=self.harness.root,
            settings=ASKING,
            protocol=self.protocol,
            mode="code",
            policy=self.policy,
        )
        self.options = options
        self.reopening = structs.replace(options, mode=None)
        self.task = self.start()
        self.rest()

    def start(self) -> Task:
        return self.do(self.harness.engine.start("the first words", options=self.options))

    def teardown(self) -> None:
        self.do(self.harness.engine.close())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        shutil.rmtree(self.directory)

    # What may happen

    @rule(
        replies=st.lists(st.lists(CALLS, min_size=1, max_size=4), max_size=3),
        before=st.sampled_from([[], [say("Let me see.")], THOUGHTS, [*THOUGHTS, say("So.")]]),
        yes=st.booleans(),
        images=st.sampled_from([(), (IMAGE_URI,)]),
    )
    def speak(
        self, replies: list[list[Call]], before: list[Step], yes: bool, images: tuple[str, ...]
    ) -> None:
        """The model works for some turns, side by side where it can."""
        self.model.planned = [Turn(*before, *calls) for calls in replies]
        self.policy.yes = yes
        self.do(self.task.send(self.next_message(), images))
        self.rest(yes=yes)

    @rule(data=st.data())
    def say_anew(self, data: st.DataObject) -> None:
        ts = data.draw(st.sampled_from(self.stamps))
        self.do(self.task.edit(ts, self.next_message()))
        self.rest()

    @rule()
    def say_nothing_useful(self) -> None:
        self.model.planned = [Turn(say("I only talk."))]
        self.do(self.task.send("and now?"))
        self.rest()

    @rule()
    def cancel(self) -> None:
        """In the middle of an answer."""
        self.begin_to_speak()
        self.do(self.task.cancel())
        self.record_snapshot()

    @rule(data=st.data())
    def rewind_at_work(self, data: st.DataObject) -> None:
        """Words that came in meanwhile still wait; a row that grows is a row too."""
        self.begin_to_speak()
        before = {*self.stamps, *self.task.recorder.ui_history.open_row_timestamps}
        ts = data.draw(st.sampled_from(sorted(before)))
        self.do(self.task.rewind(ts))
        assert ts in self.stamps and set(self.stamps) <= before
        self.undoable.clear()

    @rule()
    def die_at_work(self) -> None:
        self.begin_to_speak()
        before = self.stamps
        self.move_to_another_process()
        assert self.stamps == before
        self.undoable.clear()

    def begin_to_speak(self) -> None:
        """The model is in the middle of an answer, and words wait to be told to it."""
        forever = Forever()
        self.model.planned = [[TextChunk("I begin to "), Gate(forever)]]
        self.do(self.task.send(self.next_message()))
        self.do(forever.reached.wait())
        self.check_delivered()
        self.do(self.task.send(self.next_message()))

    def next_message(self) -> str:
        self.message_count += 1
        self.undelivered.append(f"more words {self.message_count}.")
        return self.undelivered[-1]

    @rule()
    def condense(self) -> None:
        before = TaskSnapshot.take(self.task)
        try:
            self.do(self.task.condense())
        except UserError:
            assert TaskSnapshot.take(self.task) == before
            return
        self.do(self.task.wait())
        assert len(self.task.recorder.api_history.request_messages) == 1
        self.record_snapshot()

    @rule()
    def outgrow_the_window(self) -> None:
        """A smaller model takes over for one turn: turns are hidden, or summed up."""
        self.model.set_window(NARROW)
        try:
            self.do(self.task.send("words " * 2_000))
            self.rest()
        finally:
            self.model.set_window(WIDE)

    @rule(data=st.data())
    def rewind(self, data: st.DataObject) -> None:
        """To any row: it is there and nothing new is, and what was at rest there is as it was."""
        before = TaskSnapshot.take(self.task)
        ts = data.draw(st.sampled_from([int(row["ts"]) for row in before.rows]))
        self.do(self.task.rewind(ts))
        after = TaskSnapshot.take(self.task)
        stamps = {int(row["ts"]) for row in after.rows}
        assert ts in stamps
        assert stamps <= {int(row["ts"]) for row in before.rows}
        if ts in self.snapshots:
            check_same(after, self.snapshots[ts])
        self.undoable.append(before)

    @precondition(lambda self: bool(self.undoable))
    @rule()
    def undo(self) -> None:
        self.do(self.task.undo_rewind())
        check_same(TaskSnapshot.take(self.task), self.undoable.pop())

    @rule(data=st.data(), stay=st.booleans())
    def fork(self, data: st.DataObject, stay: bool) -> None:
        source = TaskSnapshot.take(self.task)
        ts = data.draw(st.sampled_from([int(row["ts"]) for row in source.rows]))
        fork = self.do(self.harness.engine.fork(self.task.id, ts, options=self.reopening))
        assert TaskSnapshot.take(self.task) == source
        if ts in self.snapshots:
            check_same(TaskSnapshot.take(fork).without_times, self.snapshots[ts].without_times)
        assert fork.usage.total_cost == 0
        self.check_task(fork)
        other = self.task if not stay else fork
        if not stay:
            self.task = fork
            self.undoable.clear()
            self.undelivered.clear()  # what waits to be said stays with the other
        self.do(self.harness.engine.release(other))
        self.journals.pop(other.id, None)
        if not stay:
            self.snapshots = {at: snapshot for at, snapshot in self.snapshots.items() if at <= ts}

    @rule()
    def die_and_come_back(self) -> None:
        before = TaskSnapshot.take(self.task)
        self.move_to_another_process()
        check_same(TaskSnapshot.take(self.task), before)

    def move_to_another_process(self) -> None:
        """The folder as it is on disk at this moment, in the hands of another engine."""
        old = self.harness.home
        self.homes += 1
        new = self.directory / f"home{self.homes}"
        shutil.copytree(old, new)
        self.do(self.harness.engine.close())
        for lock in new.rglob("*lock*"):
            lock.unlink()
        self.harness.home = new
        self.harness.engine = self.harness.new_engine()
        self.task = self.do(self.harness.engine.open(self.task.id, options=self.reopening))

    # What holds

    @property
    def stamps(self) -> list[int]:
        return [get_ts(row) for row in self.task.rows]

    def check_delivered(self) -> None:
        """Nothing that was acknowledged is lost."""
        waiting = [
            message.text for message in self.task.recorder.projection.queued_messages.values()
        ]
        sent = "".join(str(request.messages) for request in self.model.requests[-12:])
        assert all(text in sent for text in self.undelivered if text not in waiting)
        # What is too long for the window is refused, and the user is told.
        self.undelivered = [text for text in waiting if len(text) < NARROW]

    def rest(self, *, yes: bool = True) -> None:
        """Answer until the task rests: `yes` or `no` to calls, yes to results."""
        self.policy.yes = yes
        self.do(self.task.wait())
        too_much = isinstance(self.task.ending, Failed) and self.task.ending.code == "context"
        assert too_much or not self.task.recorder.projection.queued_messages
        self.check_delivered()
        self.record_snapshot()

    def record_snapshot(self) -> None:
        snapshot = TaskSnapshot.take(self.task)
        self.snapshots[snapshot.last_row_ts] = snapshot
        self.undoable.clear()

    @invariant()
    def assert_invariants(self) -> None:
        if hasattr(self, "task"):
            type(self).steps += 1
            self.check_task(self.task)

    def check_task(self, task: Task) -> None:
        recorder = task.recorder
        assert not task.is_running and task.pending is None
        stored = recorder.api_history.list_stored_messages()
        shown = recorder.api_history.build_current_messages()
        assert msgspec.to_builtins(build_request_messages(stored)) == msgspec.to_builtins(shown)
        _check_shown(shown)
        stamps = [int(row["ts"]) for row in msgspec.to_builtins(list(task.rows))]
        assert stamps == sorted(set(stamps))
        self.check_journal(task)

    def check_journal(self, task: Task) -> None:
        directory = recorder_directory(task)
        journal = (directory / "journal.jsonl").read_bytes()
        assert journal.startswith(self.journals.get(task.id, b"")), "a record was lost"
        self.journals[task.id] = journal
        records = list(JsonFileStore(self.harness.home).read_records(task.id))
        assert [record.seq for record in records] == list(range(1, len(records) + 1))
        again = Recorder(recorder_log(task), records)
        assert msgspec.to_builtins(list(again.ui_history.rows)) == msgspec.to_builtins(
            list(task.rows)
        )
        assert find_live_branch(records)[-1].seq == records[-1].seq
        self.do(task.save())
        for name in ("ui_messages.json", "api_conversation_history.json"):
            json.loads((directory / name).read_text())


def recorder_directory(task: Task) -> Path:
    return task.recorder.task_log.directory


def recorder_log(task: Task) -> Any:
    return task.recorder.task_log


def _check_shown(shown: Sequence[Any]) -> None:
    """A history that ends with the model's words is one that waits for the user's."""
    if shown and shown[-1].role == "assistant":
        shown = shown[:-1]
    if shown:
        check_messages(shown)


def survive(machine: type[LongTask], steps: int) -> None:
    machine.steps = 0
    for number in itertools.count(SEED):
        if machine.steps >= steps:
            return
        run_state_machine_as_test(
            seed(number)(machine),
            settings=settings(
                max_examples=max(3, min(10, (steps - machine.steps) // STEPS_AT_ONCE)),
                database=None,
                stateful_step_count=STEPS_AT_ONCE,
                deadline=None,
                phases=(Phase.generate,),
                suppress_health_check=list(HealthCheck),
            ),
        )
