"""Views of a batch: progress, tables of results, status, one item."""

from __future__ import annotations

import csv
import io
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import quoteattr

import msgspec

from joey.cli.output import format_table, write_lines, write_stdout
from joey.presentation.text import get_terminal_width, sanitize, to_one_line

if TYPE_CHECKING:
    from joey.batch.coordinator import Snapshot
    from joey.batch.results import ResultLine
    from joey.batch.store import BatchStore
    from joey.batch.tables import ItemRow

_HEADINGS = ("ITEM", "STATUS", "ATTEMPT", "TURNS", "COST", "SECONDS", "CHECK", "CODE")
_COUNTED = ("done", "failed", "limit", "error", "cancelled", "budget", "running", "waiting")
_JUNIT_ELEMENTS = {"failed": "failure", "limit": "failure", "error": "error"}
"""Other items that are not done were not finished: they count as skipped."""


async def show_batch_progress(snapshots: AsyncIterator[Snapshot]) -> None:
    """Show a progress bar on a terminal, else a line per finished item."""
    try:
        if sys.stderr.isatty():
            await _show_bar(snapshots)
        else:
            async for snapshot in snapshots:
                for line in snapshot.ended:
                    print(format_ended(line, snapshot), file=sys.stderr, flush=True)
    finally:
        # The generator stops workers when it is closed.
        await snapshots.aclose()  # type: ignore[attr-defined]


async def _show_bar(snapshots: AsyncIterator[Snapshot]) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.completed:.0f}/{task.fields[items]}"),
        BarColumn(),
        TextColumn("{task.fields[facts]}"),
        TimeElapsedColumn(),
    )
    began, first_ended = time.monotonic(), None
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=None, items="…", facts="")
        async for snapshot in snapshots:
            ended = snapshot.items - snapshot.counts["waiting"] - snapshot.counts["running"]
            first_ended = ended if first_ended is None else first_ended
            facts = describe_pace(snapshot, ended - first_ended, time.monotonic() - began)
            count = snapshot.items
            progress.update(bar, total=count, items=count, completed=ended, facts=facts)
            for line in snapshot.ended:
                progress.console.print(format_ended(line, snapshot), markup=False, highlight=False)


def describe_pace(snapshot: Snapshot, ended: int, seconds: float) -> str:
    """Describe the rate, the cost and the time left at this rate."""
    left = snapshot.counts["waiting"] + snapshot.counts["running"]
    facts = [f"{snapshot.counts['running']} running", f"${snapshot.cost:.2f}"]
    if ended and seconds > 0:
        facts.insert(1, f"{ended / seconds * 60:.1f}/min")
        facts.append(f"about {_format_seconds(left * seconds / ended)} left")
    return " · ".join(facts)


def format_ended(line: ResultLine, snapshot: Snapshot) -> str:
    ended = snapshot.items - snapshot.counts["waiting"] - snapshot.counts["running"]
    facts = [line.status.value, f"{line.turns} turns", f"${line.cost:.4f}"]
    if line.status not in ("done", "budget", "cancelled"):
        facts.append(to_one_line(line.result or line.code, 200))
    return sanitize(f"{ended}/{snapshot.items} {line.item}: {' · '.join(facts)}")


def print_results(rows: Sequence[ItemRow]) -> None:
    """Print the table of results."""
    cells = [_HEADINGS, *(_build_cells(row) for row in rows)]
    write_lines(format_table(cells, get_terminal_width(sys.stdout)))


def _build_cells(row: ItemRow) -> tuple[str, ...]:
    line = row.line
    if line is None:
        return (row.id, row.status.value, str(row.attempt), "", "", "", "", "")
    seconds = "" if line.started is None else f"{line.ended - line.started:.0f}"
    check = "" if line.check is None else ("passed" if line.check.exit == 0 else "failed")
    return (
        row.id,
        row.status.value,
        str(row.attempt),
        str(line.turns),
        f"{line.cost:.4f}",
        seconds,
        check,
        line.code,
    )


def print_summary(rows: Sequence[ItemRow], cost: float, *, has_worked: bool) -> None:
    counts = {name: sum(row.status.value == name for row in rows) for name in _COUNTED}
    shown = " · ".join(f"{count} {name}" for name, count in counts.items() if count)
    nothing = "" if has_worked else "nothing to do: "
    items = "1 item" if len(rows) == 1 else f"{len(rows)} items"
    print(f"joey: {nothing}{items}: {shown} · ${cost:.4f}", file=sys.stderr)


def print_status(status: Mapping[str, Any], rate_limits: Mapping[str, float]) -> None:
    shown = " · ".join(f"{status[name]} {name}" for name in _COUNTED if status[name])
    print(f"{status['items']} items: {shown} · ${status['cost']:.4f}")
    for worker in status["workers"]:
        items = ", ".join(worker["items"]) or "idle"
        print(f"  worker {worker['id']} (pid {worker['pid']}, {worker['width']} at once): {items}")
    for service, seconds in rate_limits.items():
        left = _format_seconds(seconds)
        print(sanitize(f"  {service} is rate limited: no requests for another {left}"))
    if not status["workers"] and status["running"] + status["waiting"]:
        print("  no worker runs: continue with the same `joey batch run`, or start `joey worker`")
    for name in ("missing", "changed"):
        if status[name]:
            print(f"  {name}: {', '.join(status[name][:10])}")


def write_results(rows: Sequence[ItemRow], output_format: str, sort: str | None) -> None:
    keys: dict[str, Any] = {
        "item": lambda row: row.id,
        "cost": lambda row: -row.cost,
        "turns": lambda row: -(row.line.turns if row.line else 0),
        "status": lambda row: row.status.value,
    }
    if sort is not None:
        rows = sorted(rows, key=keys[sort])
    match output_format:
        case "jsonl":
            lines = (row.line for row in rows if row.line is not None)
            write_stdout(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        case "csv":
            text = io.StringIO()
            csv.writer(text).writerows(
                [[name.lower() for name in _HEADINGS], *map(_build_cells, rows)]
            )
            write_stdout(text.getvalue().encode())
        case "junit":
            write_stdout(render_junit(rows))
        case "markdown":
            table = [_HEADINGS, ("---",) * len(_HEADINGS), *map(_build_cells, rows)]
            write_lines(f"| {' | '.join(cells)} |" for cells in table)
        case _:
            print_results(rows)


def print_item(store: BatchStore, row: ItemRow, attempt: int, line: ResultLine | None) -> None:
    """Print facts, conversation, patch and check output of one attempt."""
    from joey.batch.store import build_task_id
    from joey.cli.task_views import read_rows, render_markdown

    status = row.status.value if line is None else line.status.value
    print(f"{row.id}: {status} · attempt {attempt} of {row.attempt}")
    if line is not None:
        print(f"{line.turns} turns · ${line.cost:.4f} · {line.code}")
    task_id = build_task_id(row.batch_id, row.id, attempt)
    task = next((each for each in store.tasks.list_tasks() if each.id == task_id), None)
    if task is not None:
        write_lines([sanitize(render_markdown(task, read_rows(store.tasks, task_id)))])
    if attempt == row.attempt and line is not None:
        for name, result, file in (
            ("Patch", line.patch, store.out.get_patch(row.id)),
            ("Check", line.check, store.out.get_check(row.id)),
        ):
            if result is not None and file.exists():
                print(f"\n{name} ({file}):\n")
                write_lines([sanitize(file.read_text(errors="replace"))])


def _format_seconds(seconds: float) -> str:
    minutes = seconds / 60
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def render_junit(rows: Sequence[ItemRow]) -> bytes:
    cases = [_render_junit_case(row) for row in rows]
    counts = {name: sum(f"><{name} " in case for case in cases) for name in ("failure", "error")}
    skipped = sum("><skipped " in case for case in cases)
    head = (
        f'<testsuite name="joey batch" tests="{len(rows)}" failures="{counts["failure"]}"'
        f' errors="{counts["error"]}" skipped="{skipped}">'
    )
    document = ('<?xml version="1.0" encoding="UTF-8"?>', head, *cases, "</testsuite>", "")
    return "\n".join(document).encode("utf-8", "replace")


def _render_junit_case(row: ItemRow) -> str:
    line = row.line
    seconds = 0.0 if line is None or line.started is None else line.ended - line.started
    head = f'  <testcase classname="batch" name={_quote_attribute(row.id)} time="{seconds:.3f}"'
    if row.status == "done":
        return f"{head}/>"
    element = _JUNIT_ELEMENTS.get(row.status.value, "skipped")
    code = row.status.value if line is None else line.code
    text = "" if line is None or line.result is None else line.result
    message = f"{row.status.value} ({code}): {text}" if text else f"{row.status.value} ({code})"
    return f"{head}><{element} message={_quote_attribute(message)}/></testcase>"


def _quote_attribute(text: str) -> str:
    return quoteattr(sanitize(text))
