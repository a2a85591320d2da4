"""Cancel at every moment of a delegation: after each record, before and after each sync."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from joey.core.events import (
    Record,
    SubtaskSpawned,
    TaskPaused,
    TaskUnpaused,
    ToolFinished,
)
from joey.core.history.api import ApiHistory
from joey.engine.asks import Unattended
from joey.engine.engine import TaskOptions
from joey.engine.outcomes import Completed
from joey.engine.task import Task
from joey.ports.storage import Store, TaskLog, TaskMetadata
from joey.storage.task_store import JsonFileStore
from joey.testing.script import Turn
from tests.harness.counts import daily
from tests.harness.engine.engine_harness import (
    EngineHarness,
    check_history,
    finish,
    wait_for_ending,
)
from tests.harness.engine.scripted_subtasks import (
    ALLOW_ALL_WITH_SUBTASKS,
    ScriptedSubtasks,
    delegate,
)

Moment = Callable[[], None]
PARTS = {
    "the whole": [
        Turn(delegate("part 1", todos="[ ] look"), delegate("part 2")),
        *[finish("whole")] * 3,
    ],
    "part 1": [Turn(delegate("part 3")), *[finish("one")] * 3],
    "part 2": [finish("two")] * 3,
    "part 3": [finish("three")] * 3,
}
OPTIONS = TaskOptions(settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended())


class WatchedLog:
    """A log that says when something was written and while it is being saved."""

    is_shared = has_failed = False

    def __init__(self, log: TaskLog, moment: Moment) -> None:
        self._log = log
        self._moment = moment
        self.directory = log.directory
        self.set_change_callback = log.set_change_callback
        self.confirm = log.confirm

    @property
    def safe_seq(self) -> int:
        return self._log.safe_seq

    def append(self, record: Record) -> None:
        self._log.append(record)
        self._moment()

    def read_records(self) -> Sequence[Record]:
        return self._log.read_records()

    async def sync(self) -> None:
        self._moment()
        await asyncio.sleep(0)
        await self._log.sync()
        self._moment()

    async def write_snapshot(
        self, ui: Iterable[bytes], api: Iterable[bytes], metadata: TaskMetadata
    ) -> None:
        self._moment()
        await self._log.write_snapshot(ui, api, metadata)

    def close(self) -> None:
        self._log.close()


class WatchedStore:
    def __init__(self, store: Store, moment: Moment) -> None:
        self._store = store
        self._moment = moment

    def create(self, task_id: str) -> TaskLog:
        return WatchedLog(self._store.create(task_id), self._moment)

    def open(self, task_id: str) -> tuple[TaskLog, Sequence[Record]]:
        log, records = self._store.open(task_id)
        return WatchedLog(log, self._moment), records

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def cancelled_at(engine_harness: EngineHarness, number: int, who: str) -> Task | None:
    """A run that was cancelled at its `number`-th moment; None when it has fewer."""
    moments, jobs, task = 0, [], None

    def cancel() -> None:
        at_work = [
            each for each in engine_harness.engine.tasks if each.is_running and each is not task
        ]
        for each in [task] if who == "parent" else at_work[-1:]:
            if each is not None:
                jobs.append(asyncio.ensure_future(each.cancel()))

    def moment() -> None:
        nonlocal moments
        moments += 1
        if moments == number:
            asyncio.get_running_loop().call_soon(cancel)

    store: Any = WatchedStore(JsonFileStore(engine_harness.home), moment)
    engine_harness.engine = engine_harness.new_engine(store)
    engine_harness.provider = ScriptedSubtasks(PARTS)
    task = await engine_harness.start(
        text="the whole", settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended()
    )
    await wait_for_ending(task)
    await asyncio.gather(*jobs)
    return task if moments >= number else None


async def gone_on(engine_harness: EngineHarness, task: Task) -> Any:
    """Its ending, after it was resumed where it had not come to one."""
    ending = task.ending
    await engine_harness.engine.release(task)
    engine_harness.engine = engine_harness.new_engine()
    if isinstance(ending, Completed):
        return ending
    return await wait_for_ending(await engine_harness.engine.resume(task.id, options=OPTIONS))


@pytest.mark.contract("subtasks:failure")
@pytest.mark.shortened
@pytest.mark.parametrize(("who", "step"), [("parent", daily(6, 2)), ("child", daily(15, 5))])
async def test_a_tree_is_cancelled_whole_and_goes_on_from_any_moment(
    tmp_path: Path, who: str, step: int
) -> None:
    for number in range(1, 1000, step):
        (tmp_path / str(number)).mkdir()
        engine_harness = EngineHarness(tmp_path / str(number))
        task = await cancelled_at(engine_harness, number, who)
        if task is None:
            assert number > 50
            return
        assert engine_harness.engine.tasks == [task], f"a subtask is left open at moment {number}"
        assert task.pending_subtasks == ()
        check_history(task.messages)
        store = JsonFileStore(engine_harness.home)
        ending = await gone_on(engine_harness, task)
        assert ending == Completed("whole"), f"at moment {number}"
        for known in store.list_tasks():
            check_task(store.read_records(known.id))
        await engine_harness.engine.close()


def check_task(records: Sequence[Record]) -> None:
    events = [record.event for record in records]
    outcomes = [event.call_id for event in events if isinstance(event, ToolFinished)]
    assert len(outcomes) == len(set(outcomes))
    spawned = [event.call_id for event in events if isinstance(event, SubtaskSpawned)]
    assert len(spawned) == len(set(spawned))
    around = [type(event) for event in events if isinstance(event, TaskPaused | TaskUnpaused)]
    assert around == [TaskPaused, TaskUnpaused] * (len(around) // 2)
    history = ApiHistory()
    for event in events:
        history.apply(event)
    check_history(history.list_stored_messages())
