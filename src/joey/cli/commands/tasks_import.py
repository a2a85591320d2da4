"""`joey tasks import`: find tasks of Roo Code, Zoo Code and Cline, and import them."""

from __future__ import annotations

import logging
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from msgspec import structs

from joey.app.task_exchange import (
    ForeignTask,
    ImportCandidate,
    TaskExchange,
    is_caused_by_full_disk,
)
from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.output import emit, format_table, show_progress
from joey.errors import StoreError
from joey.presentation.text import get_terminal_width, to_one_line

_COLUMN_HEADINGS = ("program", "id", "changed", "rows", "state", "title")
_IMPORT_STATES = ("imported", "ready", "incomplete", "skipped", "damaged")
_MAX_LISTED_PROBLEMS = 10


def import_tasks(arguments: Namespace) -> ExitCode:
    """Import tasks; damaged ones are reported and do not block the others."""
    if not arguments.paths and not arguments.roo:
        raise UsageError("name the tasks to import: a PATH, or --roo for all on this machine")
    exchange = TaskExchange()
    found = exchange.find_tasks([Path(path) for path in arguments.paths], everywhere=arguments.roo)
    # The table names the problem of a task; details are shown with --debug.
    logging.getLogger("joey.storage").addHandler(logging.NullHandler())
    selected = _filter_tasks(found, arguments)
    candidates: list[ImportCandidate] = []
    for number, task in enumerate(selected, 1):
        doing = "looking at" if arguments.dry_run else "importing"
        show_progress(f"{doing} task {number} of {len(selected)}")
        seen = exchange.inspect_task(task)
        candidates.append(seen if arguments.dry_run else _import_task(exchange, task, seen))
    show_progress("")
    if candidates or arguments.json:
        lines = _format_candidates(candidates, get_terminal_width(sys.stdout))
        emit(candidates, lines, arguments.json)
    _print_summary(candidates, dry_run=arguments.dry_run)
    damaged = any(each.state == "damaged" for each in candidates)
    return ExitCode.FAILED if damaged and not arguments.dry_run else ExitCode.DONE


def _filter_tasks(found: Sequence[ForeignTask], arguments: Namespace) -> list[ForeignTask]:
    for start in arguments.only:
        if not any(task.id.startswith(start) for task in found):
            raise UsageError(f"none of the {len(found)} tasks found begins with {start!r}")
    starts = tuple(arguments.only)
    return [
        task
        for task in found
        if (not starts or task.id.startswith(starts))
        and (arguments.since is None or task.modified_ms >= arguments.since)
    ]


def _import_task(
    exchange: TaskExchange, task: ForeignTask, seen: ImportCandidate
) -> ImportCandidate:
    if seen.state in ("imported", "damaged"):
        return structs.replace(seen, state="skipped" if seen.state == "imported" else "damaged")
    try:
        exchange.import_task(task)
    except StoreError as error:
        if is_caused_by_full_disk(error):
            raise
        return structs.replace(seen, state="damaged", problem=str(error))
    return structs.replace(seen, state="imported")


def _format_candidates(candidates: Sequence[ImportCandidate], width: int | None) -> list[str]:
    """Format a line for each task, grouped by directory."""
    lines = format_table(
        [_COLUMN_HEADINGS, *map(_format_cells, candidates)], width, fixed_columns={1, 2, 3, 4}
    )
    locations = dict.fromkeys(f"{each.program or 'tasks'}: {each.location}" for each in candidates)
    return [*(to_one_line(location, 400) for location in locations), "", *lines]


def _format_cells(seen: ImportCandidate) -> tuple[str, ...]:
    changed = datetime.fromtimestamp(seen.modified_ms / 1000).astimezone()
    return (
        seen.program or "-",
        to_one_line(seen.id, 40),
        changed.strftime("%Y-%m-%d %H:%M"),
        str(seen.row_count),
        seen.state,
        to_one_line(seen.title, 1000),
    )


def _print_summary(candidates: Sequence[ImportCandidate], *, dry_run: bool) -> None:
    counts = Counter(seen.state for seen in candidates)
    counted = (f"{counts[state]} {state}" for state in _IMPORT_STATES if counts[state])
    hint = "; nothing was changed" if dry_run else ""
    print(f"{', '.join(counted) or 'no tasks found'}{hint}", file=sys.stderr)
    with_problems = [seen for seen in candidates if seen.problem]
    for seen in with_problems[:_MAX_LISTED_PROBLEMS]:
        print(f"{to_one_line(seen.id, 40)}: {to_one_line(seen.problem, 300)}", file=sys.stderr)
    if len(with_problems) > _MAX_LISTED_PROBLEMS:
        more = len(with_problems) - _MAX_LISTED_PROBLEMS
        print(f"and {more} more with problems (--json has them all)", file=sys.stderr)
