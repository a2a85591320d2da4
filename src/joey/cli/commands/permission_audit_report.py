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

from joey.app.options import PermissionFlags
from joey.app.permission_explanations import (
    AuditComparison,
    PermissionAudit,
    TaskAuditReport,
)
from joey.cli.exit_codes import ExitCode
from joey.cli.output import emit, format_table
from joey.cli.task_lookup import find_task_by_prefix, resolve_workspace_argument, shorten_task_id
from joey.core.permissions.audit import AuditEntry
from joey.core.task_types import HOOK_NAME_PREFIX, AnsweredBy
from joey.core.tool_calls import COMMAND_TOOL_NAME
from joey.ports.storage import TaskMetadata
from joey.presentation.questions import describe_reasons
from joey.presentation.text import get_terminal_width, to_one_line

_MAX_CELL_CHARS = 1000


def run_report(arguments: Namespace, flags: PermissionFlags) -> ExitCode:
    audit = PermissionAudit()
    tasks = _select_tasks(audit, arguments)
    if flags != PermissionFlags():
        compared = asyncio.run(audit.compare_decisions(tasks, flags))
        lines = _format_comparison(compared, tasks, audit.list_task_ids())
        emit(_to_json_comparison(compared, tasks), lines, arguments.json)
        return ExitCode.DONE
    reports = list(audit.iter_reports(tasks))
    value = {"tasks": msgspec.to_builtins(reports), "counts": _count_outcomes(reports)}
    emit(value, _format_report(reports), arguments.json)
    return ExitCode.DONE


def _select_tasks(audit: PermissionAudit, arguments: Namespace) -> list[TaskMetadata]:
    if arguments.task is not None:
        return [find_task_by_prefix(audit.find_tasks_by_prefix(arguments.task), arguments.task)]
    workspace = None if arguments.workspace is None else resolve_workspace_argument(arguments)
    return audit.list_latest_tasks(arguments.last, workspace)


def _format_report(reports: Sequence[TaskAuditReport]) -> Iterator[str]:
    width = get_terminal_width(sys.stdout)
    for report in reports:
        yield f"{report.id}  {to_one_line(report.title, 80)}"
        if report.problem:
            yield f"  {to_one_line(report.problem, 300)}"
        rows = [
            ("", call.outcome, _describe_call(call), _explain_decision(call))
            for call in report.calls
        ]
        yield from format_table(rows, width, fixed_columns={0, 1}) if rows else ()
    counts = _count_outcomes(reports)
    parts = [f"{count} {name}" for name, count in counts.items()]
    yield (
        f"{_format_count(len(reports), 'task')}: "
        f"{', '.join(parts) or 'no calls that need permission'}"
    )


def _describe_call(call: AuditEntry) -> str:
    said = f"$ {call.subject}" if call.tool == COMMAND_TOOL_NAME else f"{call.tool} {call.subject}"
    return to_one_line(said, _MAX_CELL_CHARS)


def _explain_decision(call: AuditEntry) -> str:
    """By which rule, or whose answer."""
    if call.decision != "ask":
        return to_one_line(f"by {call.rule}", _MAX_CELL_CHARS)
    refused = f", refused by {call.rule}" if call.rule else ""
    return to_one_line(
        f"{_describe_answer(call)}{refused}: {describe_reasons(call.ask_reasons, call.ask_reason)}",
        _MAX_CELL_CHARS,
    )


def _describe_answer(call: AuditEntry) -> str:
    if call.answered_by is None:
        return "nobody answered"
    if call.answered_by == AnsweredBy.UNATTENDED:
        return "nobody was there"
    is_by_hook = call.answered_by.startswith(HOOK_NAME_PREFIX)
    said = "no" if call.outcome == "rejected" or is_by_hook else "yes"
    name = "you" if call.answered_by == AnsweredBy.USER else call.answered_by
    if call.added_rule is not None:
        return f"{name} said always `{call.added_rule}`"
    return f"{name} said {said}"


def _count_outcomes(reports: Sequence[TaskAuditReport]) -> dict[str, int]:
    outcomes = Counter(call.outcome for report in reports for call in report.calls)
    return dict(sorted(outcomes.items()))


def _format_comparison(
    compared: AuditComparison, tasks: Sequence[TaskMetadata], ids: Sequence[str]
) -> Iterator[str]:
    short = {
        task: shorten_task_id(task, ids)
        for task in {difference.task_id for difference in compared.differences}
    }
    rows = [
        (
            short[difference.task_id],
            _describe_call(difference.recorded_call),
            f"{_describe_earlier_decision(difference.recorded_call)} → "
            f"{difference.new_explanation.decision}",
            to_one_line(
                f"by {difference.new_explanation.rule}"
                if difference.new_explanation.rule
                else describe_reasons(
                    difference.new_explanation.reasons, difference.new_explanation.reason
                ),
                _MAX_CELL_CHARS,
            ),
        )
        for difference in compared.differences
    ]
    yield from (
        format_table(rows, get_terminal_width(sys.stdout), fixed_columns={0, 2}) if rows else ()
    )
    same = compared.compared_count - len(compared.differences)
    left_out = (
        f", {compared.skipped_count} cannot be judged again" if compared.skipped_count else ""
    )
    yield (
        f"{_format_count(len(tasks), 'task')}, {_format_count(compared.compared_count, 'call')}:"
        f" {len(compared.differences)} would be decided otherwise, {same} as before{left_out}"
    )


def _describe_earlier_decision(call: AuditEntry) -> str:
    return f"{call.decision} ({call.outcome})" if call.decision == "ask" else call.decision


def _to_json_comparison(compared: AuditComparison, tasks: Sequence[TaskMetadata]) -> dict[str, Any]:
    changes = Counter(
        f"{difference.recorded_call.decision}-{difference.new_explanation.decision}"
        for difference in compared.differences
    )
    return {
        "tasks": len(tasks),
        "judged": compared.compared_count,
        "different": len(compared.differences),
        "notJudged": compared.skipped_count,
        "changes": dict(sorted(changes.items())),
        "differences": msgspec.to_builtins(compared.differences),
    }


def _format_count(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"
