"""`joey permissions report`: decisions in earlier tasks, and those that other rules would make.

Imported late, because it loads the task store and the engine, which `explain` does not need.
"""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from joey.app.permissions import AuditComparison, PermissionAudit, PermissionFlags, TaskReport
from joey.cli.exit_codes import ExitCode
from joey.cli.launch import find_task, short_id, workspace_of
from joey.cli.output import table, write_out
from joey.core.permissions.audit import AuditEntry
from joey.ports import TaskMetadata
from joey.presentation.phrases import COMMAND_TOOL
from joey.presentation.questions import why_asked
from joey.presentation.text import columns, one_line

_MAX_CELL_CHARS = 1000
_ANSWERED_BY_USER = "person"
_ANSWERED_UNATTENDED = "unattended"


def run_report(arguments: Namespace, flags: PermissionFlags) -> ExitCode:
    audit = PermissionAudit()
    tasks = _tasks(audit, arguments)
    if flags != PermissionFlags():
        compared = asyncio.run(audit.compare_decisions(tasks, flags))
        if arguments.json:
            _write(_compared_object(compared, tasks))
        else:
            _print(_compared_lines(compared, tasks, audit.list_task_ids()))
        return ExitCode.DONE
    reports = list(audit.iter_reports(tasks))
    if arguments.json:
        _write({"tasks": msgspec.to_builtins(reports), "counts": _counts(reports)})
    else:
        _print(_report_lines(reports))
    return ExitCode.DONE


def _tasks(audit: PermissionAudit, arguments: Namespace) -> list[TaskMetadata]:
    if arguments.task is not None:
        return [find_task(audit.find_by_prefix(arguments.task), arguments.task)]
    place = None if arguments.workspace is None else workspace_of(arguments)
    return audit.list_latest(arguments.last, place)


def _report_lines(reports: Sequence[TaskReport]) -> Iterator[str]:
    width = columns(sys.stdout)
    for report in reports:
        yield f"{report.id}  {one_line(report.title, 80)}"
        if report.problem:
            yield f"  {one_line(report.problem, 300)}"
        rows = [("", call.outcome, _what(call), _why(call)) for call in report.calls]
        yield from table(rows, width, firm={0, 1}) if rows else ()
    counts = _counts(reports)
    parts = [f"{count} {name}" for name, count in counts.items()]
    yield f"{_number(len(reports), 'task')}: {', '.join(parts) or 'no calls that need permission'}"


def _what(call: AuditEntry) -> str:
    said = f"$ {call.about}" if call.tool == COMMAND_TOOL else f"{call.tool} {call.about}"
    return one_line(said, _MAX_CELL_CHARS)


def _why(call: AuditEntry) -> str:
    """By which rule, or whose answer."""
    if call.decision != "ask":
        return one_line(f"by {call.rule}", _MAX_CELL_CHARS)
    refused = f", refused by {call.rule}" if call.rule else ""
    return one_line(f"{_who(call)}{refused}: {_asked_because(call.reason, call)}", _MAX_CELL_CHARS)


def _asked_because(reason: str | None, call: AuditEntry) -> str:
    return why_asked(reason or "", call.about if call.tool == COMMAND_TOOL else "")


def _who(call: AuditEntry) -> str:
    if call.by is None:
        return "nobody answered"
    if call.by == _ANSWERED_UNATTENDED:
        return "nobody was there"
    said = "no" if call.outcome == "rejected" or call.by.startswith("hook ") else "yes"
    name = "you" if call.by == _ANSWERED_BY_USER else call.by
    if call.always is not None:
        return f"{name} said always `{call.always}`"
    return f"{name} said {said}"


def _counts(reports: Sequence[TaskReport]) -> dict[str, int]:
    outcomes = Counter(call.outcome for report in reports for call in report.calls)
    return dict(sorted(outcomes.items()))


def _compared_lines(
    compared: AuditComparison, tasks: Sequence[TaskMetadata], ids: Sequence[str]
) -> Iterator[str]:
    short = {task: short_id(task, ids) for task in {one.task for one in compared.differences}}
    rows = [
        (
            short[one.task],
            _what(one.call),
            f"{_was(one.call)} → {one.new_explanation.decision}",
            one_line(
                f"by {one.new_explanation.rule}"
                if one.new_explanation.rule
                else _asked_because(one.new_explanation.reason, one.call),
                _MAX_CELL_CHARS,
            ),
        )
        for one in compared.differences
    ]
    yield from table(rows, columns(sys.stdout), firm={0, 2}) if rows else ()
    same = compared.compared_count - len(compared.differences)
    left_out = (
        f", {compared.skipped_count} cannot be judged again" if compared.skipped_count else ""
    )
    yield (
        f"{_number(len(tasks), 'task')}, {_number(compared.compared_count, 'call')}:"
        f" {len(compared.differences)} would be decided otherwise, {same} as before{left_out}"
    )


def _was(call: AuditEntry) -> str:
    return f"{call.decision} ({call.outcome})" if call.decision == "ask" else call.decision


def _compared_object(compared: AuditComparison, tasks: Sequence[TaskMetadata]) -> dict[str, Any]:
    changes = Counter(
        f"{one.call.decision}-{one.new_explanation.decision}" for one in compared.differences
    )
    return {
        "tasks": len(tasks),
        "judged": compared.compared_count,
        "different": len(compared.differences),
        "notJudged": compared.skipped_count,
        "changes": dict(sorted(changes.items())),
        "differences": msgspec.to_builtins(compared.differences),
    }


def _number(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def _write(value: object) -> None:
    write_out(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        print(line)
