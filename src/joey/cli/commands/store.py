"""`joey store`: manage the Postgres database in which the hosts of a cluster keep tasks."""

from __future__ import annotations

import os
from argparse import Namespace

from joey.app import create_shared_store, read_shared_store_state
from joey.app.engine_factory import STORE_VARIABLE
from joey.cli.exit_codes import ExitCode, UsageError
from joey.core.redaction import strip_url_password


def run_store(arguments: Namespace) -> ExitCode:
    url = arguments.url or os.environ.get(STORE_VARIABLE)
    if not url:
        raise UsageError(f"name a database: postgresql://USER@HOST/DATABASE, or {STORE_VARIABLE}")
    if arguments.action == "init":
        create_shared_store(url)
        print(f"{strip_url_password(url)} is ready for tasks")
        return ExitCode.DONE
    return _check(url)


def _check(url: str) -> ExitCode:
    state = read_shared_store_state(url)
    print(f"{strip_url_password(url)}: Postgres {state.server}")
    if state.problem is not None:
        print(state.problem)
        return ExitCode.FAILED
    print(
        f"schema {state.version}, {state.tasks} tasks, {state.batches} batches,"
        f" {state.workers} workers"
    )
    return ExitCode.DONE
