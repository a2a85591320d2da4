"""`joey worker`: a process that drives items of a batch."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from joey.app.engine_factory import STORE_VARIABLE
from joey.app.known_secrets import KNOWN_SECRETS
from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.fleet_extra import require_fleet
from joey.cli.logs import RedactingFormatter
from joey.cli.signals import run_until_signal
from joey.errors import TaskLostError

if TYPE_CHECKING:
    from joey.batch.store import BatchStore


def run_worker(arguments: Namespace) -> ExitCode:
    require_fleet()
    KNOWN_SECRETS.add_environment_secrets(os.environ)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(RedactingFormatter("%(asctime)s %(message)s"))
    logging.getLogger("joey").addHandler(handler)
    logging.getLogger("joey").setLevel(logging.DEBUG if arguments.debug else logging.INFO)
    code = asyncio.run(_work(arguments))
    sys.stderr.flush()
    # Threads of the queue may still wait for the next poll, but hold no resources.
    os._exit(code)


def _open_store(arguments: Namespace) -> BatchStore:
    work = None if arguments.work is None else Path(arguments.work).absolute()
    named = arguments.store or os.environ.get(STORE_VARIABLE)
    if not named:
        raise UsageError(f"--store or {STORE_VARIABLE} must name a batch or a database")
    if "://" in named:
        from joey.batch.cluster_store import open_worker_store

        return open_worker_store(named, work)
    from joey.batch.store import open_batch_store

    return open_batch_store(Path(named), work=work)


async def _work(arguments: Namespace) -> ExitCode:
    from joey.batch.orders import load_ceiling
    from joey.batch.worker import Worker

    ceiling = load_ceiling(arguments.may)
    store = await asyncio.to_thread(_open_store, arguments)
    worker = Worker(
        store,
        ceiling,
        width=arguments.width,
        until_empty=arguments.until_empty,
        ceiling_name=arguments.may,
    )
    try:
        with run_until_signal(signal.SIGINT, signal.SIGTERM) as interruption:
            await worker.run()
    except TaskLostError as error:
        print(f"joey: {error} Start the worker again.", file=sys.stderr)
        return ExitCode.TRY_AGAIN
    return interruption.exit_code or ExitCode.DONE
