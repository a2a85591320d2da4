"""The queue of a store: the only module that uses DBOS.

DBOS decides which worker drives which item, how many at once, and in which order. It stores JSON:
its default serializer is pickle, with which anyone who can write to the database could run code on
workers. Its application version is the version of the order format, so an upgraded worker accepts
orders of the version before.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import sqlalchemy as sa
from dbos import DBOS, DBOSClient, DBOSConfig, EnqueueOptions
from dbos import DBOSPortableJSONSerializer as JsonSerializer
from dbos import _serialization as dbos_serialization

from joey.batch.database import translate_database_errors
from joey.batch.orders import ORDER_FORMAT
from joey.batch.tables import BatchOptions
from joey.errors import StoreError

_APPLICATION = "joey"
_WORKFLOW = "joey_item"
_QUEUE_PREFIX = "joey-"
_VERSION = f"joey-order-{ORDER_FORMAT}"
BUSY_POLL_INTERVAL_S = 0.1
IDLE_POLL_INTERVAL_S = 1.0

ItemRunner = Callable[[str, str, int], Awaitable[str]]
"""Runs an item (batch, id, run) to completion and returns its status."""


def _refuse_pickle(serialized_data: str) -> Any:
    raise TypeError("a row of the queue holds pickled data, which is never loaded")


# The serializer that is passed to DBOS is used for writing. For reading, a row names its own, and
# `deserialize_args` then uses pickle whatever was passed; no public setting changes that. A trigger
# would not help, since the attacker is a writer of the database. A test plants a pickled row.
setattr(dbos_serialization.DefaultSerializer, "deserialize", staticmethod(_refuse_pickle))  # noqa: B010


class PendingRun(NamedTuple):
    """A run of an item that a worker has taken."""

    workflow_id: str
    worker: str | None
    batch_id: str
    item_id: str
    run: int


def build_queue_name(batch_id: str) -> str:
    return f"{_QUEUE_PREFIX}{batch_id}"


def migrate_queue(engine: sa.Engine) -> None:
    """Create or update DBOS's tables; several processes may do it at once. Raises StoreError."""
    from dbos import run_dbos_database_migrations

    url = engine.url.render_as_string(hide_password=False)
    try:
        run_dbos_database_migrations(system_database_url=url)
    except Exception as error:  # its command line exits like this after printing the reason
        raise StoreError("The queue tables cannot be created; see the error above.") from error


class QueueClient:
    """Adds items to the queue and inspects it, but drives none."""

    def __init__(self, engine: sa.Engine) -> None:
        _quiet_logs()
        self._client = DBOSClient(
            system_database_engine=engine,
            serializer=JsonSerializer(),
            application_name=_APPLICATION,
        )

    @translate_database_errors()
    def register(self, batch_id: str, options: BatchOptions, width: int) -> None:
        """Create the queue of a batch, or change its limits; `width` is the largest number of items
        at once of any worker."""
        self._client.register_queue(
            build_queue_name(batch_id),
            worker_concurrency=_find_least(width, options.at_once),
            global_concurrency=options.at_once,
            partition_concurrency=_find_least(options.group_at_once, options.at_once),
            polling_interval_sec=BUSY_POLL_INTERVAL_S,
            on_conflict="always_update",
        )

    @translate_database_errors()
    def set_pace(self, batch_id: str, *, is_busy: bool) -> None:
        """Set how often workers poll a queue: often only while there is work."""
        wanted = BUSY_POLL_INTERVAL_S if is_busy else IDLE_POLL_INTERVAL_S
        queue = self._client.retrieve_queue(build_queue_name(batch_id))
        if queue is not None and queue.polling_interval_sec != wanted:
            queue.set_polling_interval_sec(wanted)

    def enqueue(
        self,
        connection: sa.Connection,
        batch_id: str,
        item_id: str,
        run: int,
        *,
        workflow_id: str,
        priority: int,
        group: str,
    ) -> None:
        """Queue one run of an item, as part of a transaction; queued twice, it is driven once."""
        options: EnqueueOptions = {
            "workflow_name": _WORKFLOW,
            "queue_name": build_queue_name(batch_id),
            "workflow_id": workflow_id,
            "app_version": _VERSION,
            "priority": priority + 1,
            # Always: a queue with a limit per group skips items without a group.
            "queue_partition_key": group,
        }
        self._client.enqueue_in_transaction(connection, options, batch_id, item_id, run)

    @translate_database_errors()
    def widen(self, batch_id: str, width: int) -> None:
        """Let a worker take this many items at once; a smaller worker waits with the others."""
        queue = self._client.retrieve_queue(build_queue_name(batch_id))
        if queue is None:
            return
        most = min(width, queue.global_concurrency or width)
        if (queue.worker_concurrency or 0) < most:
            queue.set_worker_concurrency(most)

    @translate_database_errors()
    def list_unfinished(self, batch_id: str) -> set[str]:
        """List the names of runs that are queued or driven."""
        found = self._client.list_workflows(
            queue_name=build_queue_name(batch_id),
            status=["ENQUEUED", "DELAYED", "PENDING"],
            load_input=False,
            load_output=False,
        )
        return {each.workflow_id for each in found}

    @translate_database_errors()
    def list_pending(self) -> list[PendingRun]:
        """List the runs that all workers, dead or alive, have taken from the queues."""
        found = self._client.list_workflows(status="PENDING", load_output=False)
        return [
            PendingRun(each.workflow_id, each.executor_id, *_read_arguments(each.input))
            for each in found
            if (each.queue_name or "").startswith(_QUEUE_PREFIX)
        ]

    @translate_database_errors()
    def cancel(self, workflow_id: str) -> None:
        """Forget a run that was replaced by another."""
        self._client.cancel_workflow(workflow_id)

    @translate_database_errors()
    def list_held(self, worker_id: str) -> list[tuple[str, str, int]]:
        """List the runs of a dead worker (batch, item, run)."""
        found = self._client.list_workflows(
            executor_id=worker_id, status="PENDING", load_output=False
        )
        return [_read_arguments(each.input) for each in found]

    @translate_database_errors()
    def requeue(self, worker_id: str) -> int:
        """Requeue the runs of a dead worker; return how many."""
        found = self._client.list_workflows(
            executor_id=worker_id, status="PENDING", load_output=False
        )
        for each in found:
            self._client.resume_workflows([each.workflow_id], queue_name=each.queue_name)
        return len(found)

    def close(self) -> None:
        self._client.destroy()


def _find_least(*limits: int | None) -> int | None:
    return min((each for each in limits if each is not None), default=None)


def _read_arguments(stored: Any) -> tuple[str, str, int]:
    batch_id, item_id, run = stored["args"]
    return batch_id, item_id, run


class QueueWorker:
    """Takes items from the queues of a store and drives them."""

    def __init__(
        self,
        engine: sa.Engine,
        worker_id: str,
        run_item: ItemRunner,
        batch_id: str | None = None,
    ) -> None:
        """With `batch_id`, take only items of this batch."""
        _quiet_logs()
        config: DBOSConfig = {
            "name": _APPLICATION,
            "system_database_url": engine.url.render_as_string(hide_password=False),
            "system_database_engine": engine,
            "application_version": _VERSION,
            "executor_id": worker_id,
            "serializer": JsonSerializer(),
            "run_migrations": False,
            "enable_otlp": False,
            "use_listen_notify": False,
            "notification_listener_polling_interval_sec": 5.0,
            "max_executor_threads": 16,
            "log_level": "ERROR",
        }
        DBOS(config=config)

        if batch_id is not None:
            DBOS.listen_queues([build_queue_name(batch_id)])

        @DBOS.workflow(name=_WORKFLOW)
        async def drive(batch_id: str, item_id: str, run: int) -> str:
            return await run_item(batch_id, item_id, run)

    def launch(self) -> None:
        DBOS.launch()

    def stop(self) -> None:
        DBOS.destroy(destroy_registry=True)


def _quiet_logs() -> None:
    logger = logging.getLogger("dbos")
    logger.setLevel(logging.ERROR)
    logger.addFilter(_drop_traceback)  # added once only


def _drop_traceback(record: logging.LogRecord) -> bool:
    """Drop the traceback: where the library failed means nothing to a user."""
    if record.exc_info and (error := record.exc_info[1]) is not None:
        record.msg, record.args = f"{record.getMessage()} {error}", ()
        record.exc_info = record.exc_text = None
    return True
