"""`joey permissions report`: decisions in earlier tasks, and what other rules would decide.

Everything that ever happened counts, also calls that were rewound later, since the files they
changed were changed. Calls that only affect their task are left out. Imported late, because it
loads the task store and the engine, which `explain` does not need.
"""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from joey.app import open_store
from joey.app.options import PermissionFlags
from joey.app.permission_explanations import (
    PermissionExplainer,
    PermissionExplanation,
    explain_error,
)
from joey.cli.exit_codes import ExitCode
from joey.cli.output import emit, format_table
from joey.cli.task_lookup import find_task_by_prefix, resolve_workspace_argument, shorten_task_id
from joey.core import events as ev
from joey.core.history.api import COMPLETION_TOOL_NAME
from joey.core.messages import CallPart, ToolCall
from joey.core.permissions.policy import Access, Claim, SandboxStatus
from joey.core.permissions.reasons import Reason
from joey.core.task_types import APPROVAL_ASKS, HOOK_NAME_PREFIX, Answer, AnsweredBy
from joey.core.tool_calls import COMMAND_TOOL_NAME, decode_row
from joey.errors import StoreError, ToolError, UserError
from joey.ports.storage import TaskMetadata
from joey.presentation.questions import describe_reasons
from joey.presentation.text import get_terminal_width, to_one_line
from joey.tools.registry import Registry, build_default_tools, iter_argument_paths

_MAX_CELL_CHARS = 1000
_ACCESS_BY_SWITCH_ONLY_TOOL = {
    "switch_mode": Access.SWITCH_MODE,
    "new_task": Access.DELEGATE,
    "attempt_completion": Access.DELEGATE,
    "browser_action": Access.BROWSER,
    "fetch_instructions": Access.FETCH_INSTRUCTIONS,
    "run_slash_command": Access.FETCH_INSTRUCTIONS,
    "skill": Access.SKILL,
}
_READ_TOOLS = frozenset({"read_file", "list_files", "search_files", "list_code_definition_names"})
_READ_TOOLS |= {"codebase_search"}
_EDIT_TOOLS = frozenset({"apply_diff", "apply_patch", "edit", "edit_file", "generate_image"})
_EDIT_TOOLS |= {"insert_content", "search_replace", "write_to_file"}


def run_report(arguments: Namespace, flags: PermissionFlags) -> ExitCode:
    audit = PermissionAudit()
    tasks = audit.select_tasks(arguments)
    if flags != PermissionFlags():
        compared = asyncio.run(audit.compare_decisions(tasks, flags))
        lines = _format_comparison(compared, tasks, audit.store.list_ids())
        emit(_to_json_comparison(compared, tasks), lines, arguments.json)
        return ExitCode.DONE
    reports = [audit.build_report(task) for task in tasks]
    value = {"tasks": msgspec.to_builtins(reports), "counts": _count_outcomes(reports)}
    emit(value, _format_report(reports), arguments.json)
    return ExitCode.DONE


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
    """Explain a decision: by which rule, or whose answer."""
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
        return "no user was there"
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
    rows = []
    for difference in compared.differences:
        call, now = difference.recorded_call, difference.new_explanation
        before = f"{call.decision} ({call.outcome})" if call.decision == "ask" else call.decision
        why = f"by {now.rule}" if now.rule else describe_reasons(now.reasons, now.reason)
        rows.append(
            (
                shorten_task_id(difference.task_id, ids),
                _describe_call(call),
                f"{before} → {now.decision}",
                to_one_line(why, _MAX_CELL_CHARS),
            )
        )
    if rows:
        yield from format_table(rows, get_terminal_width(sys.stdout), fixed_columns={0, 2})
    same = compared.compared_count - len(compared.differences)
    skipped = f", {compared.skipped_count} cannot be judged again" if compared.skipped_count else ""
    yield (
        f"{_format_count(len(tasks), 'task')}, {_format_count(compared.compared_count, 'call')}:"
        f" {len(compared.differences)} would be decided differently, {same} as before{skipped}"
    )


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


CallOutcome = Literal["ran", "failed", "rejected", "refused", "unfinished"]


class AuditEntry(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One call and its outcome."""

    ts: int
    tool: str
    subject: str = field(name="about")
    """The command line, the path, the server's tool."""
    decision: Literal["allow", "ask", "deny"]
    outcome: CallOutcome
    rule: str | None = None
    """What allowed or refused it."""
    ask_reason: str | None = field(default=None, name="reason")
    ask_reasons: tuple[Reason, ...] = field(default=(), name="reasons")
    answered_by: str | None = field(default=None, name="by")
    added_rule: str | None = field(default=None, name="always")
    error: str | None = None
    mode: str = ""
    path: str | None = None
    sandbox: SandboxStatus | None = None
    """Of a command: how far it was confined."""


class ReplayableEntry(Struct, frozen=True):
    """The same, with what is needed to decide it again."""

    entry: AuditEntry
    call: ToolCall
    row_text: str


class _CallRecord:
    """A call while its records are being read."""

    def __init__(self, call: ToolCall, mode: str) -> None:
        self.call = call
        self.mode = mode
        self.started: ev.ToolStarted | None = None
        self.ask: ev.AskOpened | None = None
        self.answer: Answer | None = None
        self.failure: ev.ToolFailed | None = None
        self.finish: ev.ToolFinished | None = None
        self.is_accepted_completion = False
        """The task ended with it: it has no other end."""


def build_audit(records: Iterable[ev.Record]) -> list[ReplayableEntry]:
    """Return the calls of a task that were decided on, in order."""
    calls: dict[str, _CallRecord] = {}
    calls_by_ask_ts: dict[int, _CallRecord] = {}
    completion: _CallRecord | None = None
    mode = ""
    for record in records:
        match record.event:
            case ev.TaskCreated() | ev.TaskImported() | ev.ModeSwitched() as event:
                mode = event.mode
            case ev.ReplyReceived(parts=parts):
                for call in (each.part.call for each in parts if isinstance(each.part, CallPart)):
                    calls[call.id] = _CallRecord(call, mode)
                    completion = calls[call.id] if call.name == COMPLETION_TOOL_NAME else completion
            case ev.TaskFinished() if completion is not None:
                completion.is_accepted_completion = True
            case ev.AskAnswered(ask_ts=ts, answer=answer) if ts in calls_by_ask_ts:
                calls_by_ask_ts.pop(ts).answer = answer
            case ev.AskWithdrawn(ask_ts=ts):
                calls_by_ask_ts.pop(ts, None)
            case ev.ToolStarted(call_id=str(id_)) as event if id_ in calls:
                calls[id_].started = event
            case ev.AskOpened(call_id=str(id_)) as event if (
                id_ in calls and event.ask in APPROVAL_ASKS
            ):
                calls[id_].ask = event
                calls_by_ask_ts[event.ts] = calls[id_]
            case ev.ToolFailed(call_id=str(id_)) as event if id_ in calls:
                calls[id_].failure = event
            case ev.ToolFinished(call_id=str(id_)) as event if id_ in calls:
                calls[id_].finish = event
    return [entry for entry in map(_build_entry, calls.values()) if entry is not None]


def _build_entry(found: _CallRecord) -> ReplayableEntry | None:
    call, ask, answer, failure = found.call, found.ask, found.answer, found.failure
    shown = ask or found.started
    refusing_rule = failure.rule if failure is not None else None
    if shown is None and refusing_rule is None:
        return None
    row = shown.text if shown is not None else ""
    path = shown.path if shown is not None else _get_text_argument(call.input, "path")
    events = (ask, found.started, failure, found.finish)
    entry = AuditEntry(
        ts=next((event.ts for event in events if event is not None), 0),
        tool=(shown.tool if shown is not None else None) or call.name,
        subject=_describe_subject(call, row, path),
        decision="ask" if ask else "allow" if found.started else "deny",
        outcome="refused" if refusing_rule is not None else _determine_outcome(found),
        rule=refusing_rule or (found.started.rule if found.started is not None else None),
        sandbox=None if shown is None else shown.sandbox,
        ask_reason=ask.reason if ask else None,
        ask_reasons=ask.reasons if ask else (),
        answered_by=answer.by if answer else None,
        added_rule=ask.always_rule if ask and answer and answer.always else None,
        error=failure.error if failure else None,
        mode=found.mode,
        path=path,
    )
    return ReplayableEntry(entry, call, row)


def _determine_outcome(found: _CallRecord) -> CallOutcome:
    if found.ask is not None and found.answer is None:
        return "unfinished"
    if found.answer is not None and not found.answer.approves:
        return "rejected"
    if found.finish is None:
        return "ran" if found.is_accepted_completion else "unfinished"
    return "failed" if found.finish.is_error else "ran"


def _describe_subject(call: ToolCall, row: str, path: str | None) -> str:
    if call.name == "execute_command":
        return row or _get_text_argument(call.input, "command") or ""
    if path:
        return path
    try:
        row_data = msgspec.json.decode(row or "{}")
    except msgspec.DecodeError:
        return row
    if not isinstance(row_data, dict):
        return row
    server, tool = row_data.get("serverName"), row_data.get("toolName") or row_data.get("uri")
    if server:
        return f"{server}/{tool}"
    known = (row_data.get(key) for key in ("path", "url", "name", "mode", "task", "query", "skill"))
    return next((str(value) for value in known if value), "")


def _get_text_argument(arguments: dict[str, Any], key: str) -> str | None:
    value = arguments.get(key)
    return value if isinstance(value, str) else None


class TaskAuditReport(Struct, frozen=True):
    id: str
    title: str
    workspace: str
    calls: tuple[AuditEntry, ...] = ()
    problem: str = ""
    """Why its journal could not be read."""


class DecisionDifference(Struct, frozen=True):
    task_id: str = field(name="task")
    recorded_call: AuditEntry = field(name="call")
    new_explanation: PermissionExplanation = field(name="now")


class AuditComparison(Struct, frozen=True):
    """What other rules would decide about the calls of some tasks."""

    compared_count: int
    differences: tuple[DecisionDifference, ...]
    skipped_count: int
    """Calls that cannot be decided about without making them."""


class PermissionAudit:
    """The recorded calls of tasks, and what other rules would decide about them."""

    def __init__(self) -> None:
        self.store = open_store()
        self._registry = Registry(build_default_tools())
        self._explainers: dict[tuple[str, str], PermissionExplainer | None] = {}

    def select_tasks(self, arguments: Namespace) -> list[TaskMetadata]:
        tasks = self.store.list_tasks()
        if arguments.task is not None:
            return [find_task_by_prefix(tasks, arguments.task)]
        if arguments.workspace is not None:
            directory = str(resolve_workspace_argument(arguments))
            tasks = [task for task in tasks if task.workspace == directory]
        return list(tasks[: arguments.last])

    def build_report(self, task: TaskMetadata) -> TaskAuditReport:
        calls, problem = self._read_calls(task)
        entries = tuple(each.entry for each in calls)
        return TaskAuditReport(task.id, task.title, task.workspace, entries, problem)

    async def compare_decisions(
        self, tasks: Sequence[TaskMetadata], flags: PermissionFlags
    ) -> AuditComparison:
        differences: list[DecisionDifference] = []
        compared = skipped = 0
        for task in tasks:
            for each in self._read_calls(task)[0]:
                now = await self._explain_call(each, task.workspace, flags)
                if now is None:
                    skipped += 1
                    continue
                compared += 1
                if now.decision != each.entry.decision:
                    differences.append(DecisionDifference(task.id, each.entry, now))
        return AuditComparison(compared, tuple(differences), skipped)

    def _read_calls(self, task: TaskMetadata) -> tuple[list[ReplayableEntry], str]:
        try:
            return build_audit(self.store.read_records(task.id)), ""
        except StoreError as error:
            return [], str(error)

    async def _explain_call(
        self, each: ReplayableEntry, workspace: str, flags: PermissionFlags
    ) -> PermissionExplanation | None:
        explainer = self._open_explainer(workspace, each.entry.mode, flags)
        if explainer is None:
            return None
        if each.entry.tool == "execute_command":
            return await explainer.explain_command(
                each.entry.subject, _get_text_argument(each.call.input, "cwd")
            )
        try:
            claims = self._build_claims(each, explainer)
        except ToolError as error:
            return explain_error(error)
        return explainer.explain_claims(claims) if claims else None

    def _build_claims(
        self, each: ReplayableEntry, explainer: PermissionExplainer
    ) -> tuple[Claim, ...]:
        """Raises ToolError."""
        name, subject = self._resolve_tool_name(each.entry.tool), each.entry.subject
        if name in _ACCESS_BY_SWITCH_ONLY_TOOL:
            return (Claim(_ACCESS_BY_SWITCH_ONLY_TOOL[name], subject=subject),)
        if name in _READ_TOOLS or name in _EDIT_TOOLS:
            access = Access.READ if name in _READ_TOOLS else Access.WRITE
            paths = dict.fromkeys(iter_argument_paths(each.call.input)) or {
                each.entry.path or ".": None
            }
            return tuple(Claim(access, path=explainer.resolve_path(path)) for path in paths)
        return _build_external_claims(each)

    def _resolve_tool_name(self, name: str) -> str:
        try:
            return self._registry.find(name).name
        except ToolError:
            return name  # of a server, or the user's own

    def _open_explainer(
        self, workspace: str, mode: str, flags: PermissionFlags
    ) -> PermissionExplainer | None:
        """Open an explainer; None if the directory is gone or cannot be read."""
        key = (workspace, mode)
        if key not in self._explainers:
            try:
                explainer = PermissionExplainer(Path(workspace), flags, mode=mode or None)
                self._explainers[key] = explainer
            except UserError:
                self._explainers[key] = None
        return self._explainers[key]


def _build_external_claims(each: ReplayableEntry) -> tuple[Claim, ...]:
    """Tools of servers, and of the user's own."""
    row = decode_row(each.row_text)
    kind = row.get("type") or row.get("tool")
    if kind in ("use_mcp_tool", "access_mcp_resource"):
        # Whether its server allow-listed the tool is not recorded; a call that ran by a rule was
        # allowed.
        listed = kind == "access_mcp_resource" or each.entry.decision == "allow"
        return (Claim(Access.MCP, subject=each.entry.subject, is_always_allowed=listed),)
    if kind == "customTool":
        return (Claim(Access.CUSTOM_TOOL, subject=f"the custom tool {each.entry.tool}"),)
    return ()
