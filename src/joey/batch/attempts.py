"""Attempts: one item driven to a result, from the start or from where its journal ends.

Only the journal says how far an attempt has come. A worker that finds a journal resumes it, or only
reports its result; a step that was interrupted is repeated, and no step is done twice.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

from msgspec import structs

from joey.app import open_engine
from joey.app.options import add_result_schema
from joey.batch.attempt_usage import read_usage
from joey.batch.gate import ItemGate, ItemStopped, StopReason
from joey.batch.orders import Ceiling, build_task_options
from joey.batch.progress import WORKSPACE_LOST_CODE
from joey.batch.result_lines import AttemptOutcome, build_line, build_stopped_line
from joey.batch.results import CONTINUED_STATUSES, ItemStatus, ResultLine
from joey.batch.store import BatchStore
from joey.batch.tables import BatchOptions, ItemRow
from joey.batch.workspaces import ItemWorkspace, build_item_environment
from joey.engine.asks import Unattended
from joey.engine.engine import Engine, ResolvedTaskOptions
from joey.engine.outcomes import Aborted, Completed, Ending, Failed
from joey.engine.task import Task
from joey.errors import (
    ConfigError,
    FailureCode,
    StoreError,
    TaskLockedError,
    TaskNotFoundError,
    UserError,
    decode_provider_failure,
)
from joey.system.files import build_storage_error

log = logging.getLogger(__name__)

_LIMIT_CODES = frozenset(
    {
        FailureCode.COST_LIMIT,
        FailureCode.TOKEN_LIMIT,
        FailureCode.TURN_LIMIT,
        FailureCode.CALL_LIMIT,
        FailureCode.TIME_LIMIT,
    }
)
_ERROR_CODES = frozenset(
    {FailureCode.INTERNAL_ERROR, FailureCode.WINDOW_TOO_SMALL, FailureCode.SUBTASK_NOT_OPENED}
)
_LOCK_POLL_S = 0.2
COMPLETED_CODE, ANSWERED_CODE, CHECK_CODE = "completed", "answered", "check"
REFUSED_CODE, CONFIGURATION_CODE, WORKSPACE_CODE = "needs_person", "configuration", "workspace"
DIED_CODE = "died"
_WORKSPACE_LOST_TEXT = (
    "The attempt began on another host, whose files are not available here. The item will restart."
)


class AttemptRunner:
    """Drives attempts of one store's items in this process."""

    def __init__(self, store: BatchStore, ceiling: Ceiling) -> None:
        self._store = store
        self._ceiling = ceiling
        self._gates: dict[tuple[str, str], ItemGate] = {}

    def stop(self, batch_id: str, item_id: str, reason: StopReason) -> None:
        """Stop an item that is being driven here."""
        if gate := self._gates.get((batch_id, item_id)):
            gate.stop(reason)

    async def run(self, row: ItemRow, options: BatchOptions) -> ResultLine:
        """Return the result of an item's current attempt; it is not recorded yet. Raises StoreError
        if nothing can be stored now, for example because the disk is full."""
        if (recorded := await asyncio.to_thread(self._find_recorded, row)) is not None:
            return recorded
        gate = ItemGate(self._store.tables, row)
        self._gates[row.batch_id, row.id] = gate
        try:
            return await self._run(row, options, gate)
        except ItemStopped as stop:
            return await asyncio.to_thread(
                build_stopped_line, self._store, row, ItemStatus(stop.reason.value)
            )
        except StoreError:
            raise
        except OSError as error:
            raise build_storage_error("could not run an item", self._store.out.root, error) from (
                error
            )
        except UserError as error:
            log.warning("item %s: %s", row.id, error)
            code = CONFIGURATION_CODE if isinstance(error, ConfigError) else WORKSPACE_CODE
            return await self._build_line(row, AttemptOutcome(ItemStatus.ERROR, code, str(error)))
        except Exception as error:
            log.exception("item %s failed unexpectedly", row.id)
            text = f"{type(error).__name__}: {error}"
            outcome = AttemptOutcome(ItemStatus.ERROR, FailureCode.INTERNAL_ERROR, text)
            return await self._build_line(row, outcome)
        finally:
            del self._gates[row.batch_id, row.id]

    def _find_recorded(self, row: ItemRow) -> ResultLine | None:
        """Find the result line of an attempt whose worker died before the tables noted it."""
        self._store.results.refresh()
        line = self._store.results.latest.get(row.id)
        is_over = line is not None and line.status not in (*CONTINUED_STATUSES, ItemStatus.LIMIT)
        return line if line is not None and is_over and line.attempt == row.attempt else None

    async def _run(self, row: ItemRow, options: BatchOptions, gate: ItemGate) -> ResultLine:
        if (reason := await gate.find_stop()) is not None:
            raise ItemStopped(reason)
        item, order = row.item, options.order
        self._ceiling.check_item(order, item)
        task_id, files = row.task_id or "", self._store.locate_files(row.batch_id)
        environment = build_item_environment(item.id, row.attempt)
        workspace = ItemWorkspace(files.workspaces, task_id, item, order.workspace, environment)
        if await asyncio.to_thread(self._is_elsewhere, row, workspace):
            outcome = AttemptOutcome(ItemStatus.ERROR, WORKSPACE_LOST_CODE, _WORKSPACE_LOST_TEXT)
            return await self._build_line(row, outcome)
        directory = await gate.run_until_stopped(workspace.prepare())
        task_options = build_task_options(
            order, item, directory, self._ceiling, Unattended(), environment
        )
        if order.schema is not None:
            task_options = await add_result_schema(task_options, order.schema)
        task_options = structs.replace(task_options, request_gate=gate)
        async with open_engine(env=environment, store=self._store.tasks) as engine:
            is_retried = await asyncio.to_thread(self._is_retried, row)
            task = await gate.run_until_stopped(
                _open_or_start(engine, task_id, item.prompt, task_options, is_retried=is_retried)
            )
            gate.read_cost = partial(_add_up_costs, engine)
            outcome = await _await_outcome(task, gate)
        self._check_lease()
        line = await self._build_line(row, outcome)
        patch = await workspace.build_patch(files.get_patch(item.id))
        line = structs.replace(line, patch=patch)
        if outcome.status not in (ItemStatus.DONE, ItemStatus.FAILED):
            return line
        self._check_lease()
        try:
            check = await gate.run_until_stopped(workspace.run_check(files.get_check(item.id)))
        except ItemStopped as stop:
            return structs.replace(line, status=ItemStatus(stop.reason.value), code=stop.reason)
        if check is None or check.exit == 0 or outcome.status is ItemStatus.FAILED:
            return structs.replace(line, check=check)
        return structs.replace(line, check=check, status=ItemStatus.FAILED, code=CHECK_CODE)

    def _check_lease(self) -> None:
        """Raises TaskLostError."""
        if self._store.shared_tasks is not None:
            self._store.shared_tasks.check_lease()

    def _is_elsewhere(self, row: ItemRow, workspace: ItemWorkspace) -> bool:
        """Whether the attempt began with a workspace that this host does not have."""
        if self._store.shared_tasks is None or workspace.is_prepared:
            return False
        return read_usage(self._store.tasks, row.task_id).requests > 0

    def _is_retried(self, row: ItemRow) -> bool:
        """Whether the attempt ended at a limit and was marked to continue, with nothing done
        since."""
        line = row.line
        if line is None or (line.attempt, line.status) != (row.attempt, ItemStatus.LIMIT):
            return False
        return line.requests == read_usage(self._store.tasks, row.task_id).requests

    async def _build_line(self, row: ItemRow, outcome: AttemptOutcome) -> ResultLine:
        return await asyncio.to_thread(build_line, self._store, row, outcome)


def _add_up_costs(engine: Engine) -> float:
    """Add up the costs of the item's task and of subtasks that have not returned to it yet."""
    return sum(task.total_usage.total_cost for task in engine.tasks)


async def _open_or_start(
    engine: Engine,
    task_id: str,
    prompt: str,
    options: ResolvedTaskOptions,
    *,
    is_retried: bool,
) -> Task:
    """Open the task of an attempt: running, or at rest if it has ended. With `is_retried`, one that
    reached a limit continues."""
    while True:
        try:
            task = await engine.open(task_id, options=options)
            break
        except TaskNotFoundError:
            return await engine.start(prompt, options=options, task_id=task_id)
        except TaskLockedError:  # a process that is being killed still holds the lock
            await asyncio.sleep(_LOCK_POLL_S)
    if task.recorder.projection.prompt is None:  # interrupted before its first message
        await engine.release(task)
        engine.store.delete(task_id)
        return await engine.start(prompt, options=options, task_id=task_id)
    is_limited = isinstance(task.ending, Failed) and task.ending.code in _LIMIT_CODES
    if not isinstance(task.ending, Aborted) and not (is_retried and is_limited):
        return task
    return await engine.resume(task_id, options=options)


async def _await_outcome(task: Task, gate: ItemGate) -> AttemptOutcome:
    ending = asyncio.ensure_future(task.wait())
    awaited: list[asyncio.Future[Any]] = [ending, gate.stopped]
    try:
        await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        if not ending.done():
            await task.cancel()
        found = await ending
    finally:
        ending.cancel()
    if isinstance(found, Aborted) and gate.stopped.done():
        reason = gate.stopped.result()
        return AttemptOutcome(ItemStatus(reason.value), reason.value)
    return classify_ending(found)


def classify_ending(ending: Ending) -> AttemptOutcome:
    """Classify the end of a task for its item, before the check."""
    match ending:
        case Completed(result, refused, answered):
            if refused:
                return AttemptOutcome(ItemStatus.FAILED, REFUSED_CODE, result)
            return AttemptOutcome(
                ItemStatus.DONE, ANSWERED_CODE if answered else COMPLETED_CODE, result
            )
        case Failed(code, message):
            if code in _LIMIT_CODES:
                return AttemptOutcome(ItemStatus.LIMIT, code, message)
            if code in _ERROR_CODES or decode_provider_failure(code) is not None:
                return AttemptOutcome(ItemStatus.ERROR, code, message)
            return AttemptOutcome(ItemStatus.FAILED, code, message)
        case Aborted():
            return AttemptOutcome(ItemStatus.CANCELLED, StopReason.CANCELLED)
